//! Assignments to `InOut` parameters: `y = compute(..);`.

use quote::ToTokens;
use syn::{Block, Expr as Syntax, Stmt};

use super::elaborate::{Binding, Elaborator, InPlace};
use super::errors::{Location, axis_names};
use super::hints::NO_ASSIGNMENT;
use super::reduce::Axes;
use super::signature::ident;
use crate::dag::simplify::map_tensors;
use crate::dag::{Expr, TensorId, in_place};
use crate::poly::{Poly, VarId};

impl Elaborator {
    /// Elaborates the body of a function without declared results.
    pub(super) fn body_in_place(&mut self, block: &Block) -> Option<Vec<TensorId>> {
        for it in &block.stmts {
            match it {
                Stmt::Expr(Syntax::Assign(assign), None) => self.assign(assign),
                Stmt::Expr(value, None) => self.no_result(value),
                it => self.statement(it, &[], None),
            }
        }
        Some(Vec::new())
    }

    /// Reports a value at the end of a function that declares no result.
    fn no_result(&mut self, value: &Syntax) {
        let message = match self.in_place.iter_mut().find(|it| it.new.is_none()) {
            Some(it) => {
                it.new = Some(None);
                format!("the function declares no result: write `{} = ..;`", it.name)
            }
            None => "the function declares no result: remove this, or declare one by \
                     `-> Tensor<..>`"
                .to_owned(),
        };
        self.errors.at::<()>(value, message);
    }

    /// `y = compute(..)`, or `y = h`: from here on, `y` is the new tensor.
    pub(super) fn assign(&mut self, syntax: &syn::ExprAssign) {
        let target = ident(&syntax.left).map(ToString::to_string);
        let Some(at) = self.in_place.iter().position(|it| Some(&it.name) == target.as_ref()) else {
            let tensor = target.as_ref().and_then(|it| self.lookup(it));
            let message = match (target.as_ref(), tensor) {
                (Some(name), Some(Binding::Tensor(_))) => format!(
                    "only an `InOut` parameter can be assigned: declare `{name}: InOut<..>`, or \
                     bind a new name with `let`"
                ),
                _ => NO_ASSIGNMENT.to_owned(),
            };
            self.errors.at::<()>(syntax, message);
            return;
        };
        let InPlace { name, old, new } = &self.in_place[at];
        if new.is_some() {
            let message = format!(
                "`{name}` is assigned twice: bind the first value to a new name with `let`"
            );
            self.errors.at::<()>(syntax, message);
            return;
        }
        let (name, old) = (name.clone(), *old);
        let new = self.assigned(&name, old, &syntax.right);
        self.in_place[at].new = Some(new);
        self.bind(name, new.map_or(Binding::Poisoned, Binding::Tensor));
    }

    /// Reports `y += ..` of an `InOut` parameter; returns whether the expression is that.
    pub(super) fn updates(&mut self, syntax: &syn::ExprBinary) -> bool {
        let op = syntax.op.to_token_stream().to_string();
        let Some(op) = op.strip_suffix('=').filter(|it| ["+", "-", "*", "/", "%"].contains(it))
        else {
            return false;
        };
        let target = ident(&syntax.left).map(ToString::to_string);
        let found = self.in_place.iter_mut().find(|it| Some(&it.name) == target.as_ref());
        let Some(InPlace { name, old, new }) = found else { return false };
        // Nothing else is wrong with it.
        new.get_or_insert(None);
        let axes = axis_names(self.symbols.tensors[old.0 as usize].shape.len());
        let message = format!("write `{name} = compute(|{axes}| {name}[[{axes}]] {op} ..);`");
        self.errors.at::<()>(syntax, message);
        true
    }

    fn assigned(&mut self, name: &str, old: TensorId, value: &Syntax) -> Option<TensorId> {
        let tensor = self.symbols.tensors[old.0 as usize].clone();
        let expected = super::body::Expected::Declared(tensor.dtype, tensor.shape.clone());
        let name = format!("{name}_new");
        if super::body::compute_call(value).is_some() {
            self.replaced = Some(old);
            let new = self.result(&name, value, expected);
            self.replaced = None;
            return new;
        }
        let value = self.result(&name, value, expected)?;
        self.start_compute(&name);
        let axes: Vec<VarId> = tensor
            .shape
            .iter()
            .map(|it| self.enter_axis(None, Poly::default(), it.clone()))
            .collect();
        let copied = Expr::read(value, axes.iter().copied().map(Poly::var));
        let axes = Axes { spatial: &axes, reduce: &[] };
        Some(self.define(name, axes, None, &copied, tensor.dtype))
    }

    /// The element that replaces one of `replaced`. Where it depends on others of these, they are
    /// read from a copy that is made before: they may have been replaced already.
    pub(super) fn with_copied_neighbors(&mut self, element: Expr, axes: &[VarId]) -> Expr {
        let Some(old) = self.replaced else { return element };
        if !in_place::reads_others(&element, old, axes) {
            return element;
        }
        let tensor = &self.symbols.tensors[old.0 as usize];
        let (name, dtype) = (format!("{}_old", tensor.name), tensor.dtype);
        let copied = Expr::read(old, axes.iter().copied().map(Poly::var));
        let spatial = Axes { spatial: axes, reduce: &[] };
        let copy = self.define(name, spatial, None, &copied, dtype);
        map_tensors(&element, &|it| if it == old { copy } else { it })
    }

    /// The results of the `InOut` parameters, in order.
    pub(super) fn replacements(&mut self, sig: &syn::Signature) -> Option<Vec<TensorId>> {
        let mut found = Vec::new();
        for it in std::mem::take(&mut self.in_place) {
            let rank = self.symbols.tensors[it.old.0 as usize].shape.len();
            let axes = axis_names(rank);
            let name = &it.name;
            let message = match it.new {
                None => format!(
                    "nothing is assigned to `{name}`: write `{name} = compute(|{axes}| ..);`, or \
                     declare it as `Tensor<..>`"
                ),
                // Without its definition, nothing is known of what is read.
                Some(None) => {
                    found.push(None);
                    continue;
                }
                Some(new) if self.computes.iter().any(|compute| compute.reads(it.old)) => {
                    found.push(new);
                    continue;
                }
                Some(_) => format!(
                    "`{name}` is assigned, but its old elements are never read: return the value \
                     instead, as a result `-> Tensor<..>`"
                ),
            };
            let location = self.parameter(sig, name);
            self.errors.at_location::<()>(location, message);
            found.push(None);
        }
        found.into_iter().collect()
    }

    /// The place where a parameter is declared.
    fn parameter(&self, sig: &syn::Signature, name: &str) -> Location {
        let declared = sig.inputs.iter().find_map(|it| match it {
            syn::FnArg::Typed(it) if it.pat.to_token_stream().to_string() == name => {
                Some(Location::of(&it.pat))
            }
            _ => None,
        });
        declared.unwrap_or_else(|| Location::of(&sig.ident))
    }
}
