//! Functions of a program's own: closures that it binds, `let gate = |x| x * sigmoid(1.702 * x);`.
//!
//! A call is the closure's body with values for its parameters, as if it were written in its place: a
//! program means the same with its functions and without. Functions of the crate arrive here as closures,
//! too ([`with_functions`](super::with_functions)).

use std::rc::Rc;

use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Expr as Syntax, ExprClosure, Pat, ReturnType, Token, Type};

use super::elaborate::{Binding, Elaborator};
use super::errors::{Location, count};
use super::inline;
use super::signature::plain_ident;
use super::value::Value;

/// The expressions in bodies of functions that a program may expand to: functions that call each other
/// twice would take for ever.
const MAX_EXPANDED: usize = 100_000;

/// A function that a program binds.
pub(super) struct Function {
    closure: ExprClosure,
    /// The names in scope where it is bound: it sees no later ones.
    n_visible: usize,
    /// The path of a function of the crate, or the name of one of the library: its text is not in the program's.
    path_outside: Option<String>,
}

impl Function {
    /// Makes a function that sees no names but those of the language.
    pub(super) fn of_library(name: &str, closure: ExprClosure) -> Self {
        Self { closure, n_visible: 0, path_outside: Some(name.to_owned()) }
    }

    pub(super) fn arity(&self) -> usize {
        self.closure.inputs.len()
    }
}

/// The calls that are being elaborated.
#[derive(Default)]
pub(super) struct Calls {
    n_open: usize,
    /// The expressions elaborated inside of calls so far.
    n_expanded: usize,
}

impl Elaborator {
    /// Binds the closure of a `let`.
    pub(super) fn bind_function(&mut self, name: String, ty: Option<&Type>, closure: &ExprClosure) {
        if let Some(ty) = ty {
            let message = "a function states the types of its parameters: `|x: f32| ..`";
            self.errors.at::<()>(ty, message);
        }
        let function = Function {
            closure: closure.clone(),
            n_visible: self.scope.len(),
            path_outside: inline::path_of(&closure.attrs),
        };
        self.bind(name, Binding::Function(Rc::new(function)));
    }

    /// Elaborates a call of a function that the program binds; a function with an error is reported once.
    pub(super) fn call_function(
        &mut self,
        name: &str,
        function: &Rc<Function>,
        args: &Punctuated<Syntax, Token![,]>,
        location: Location,
    ) -> Option<Value> {
        let closure = &function.closure;
        if args.len() != closure.inputs.len() {
            let takes = count(closure.inputs.len(), "value", "values");
            let message = format!("`{name}` takes {takes}, not {}", args.len());
            return self.errors.at_location(location, message);
        }
        let args: Vec<Option<Value>> = args
            .iter()
            .zip(&closure.inputs)
            .map(|(arg, pat)| {
                let value = self.expr(arg)?;
                self.value_as(param_type(pat), value)
            })
            .collect();
        let args: Vec<Value> = args.into_iter().collect::<Option<_>>()?;
        self.call_with(function, args, location)
    }

    /// Elaborates a call with values, as many as there are parameters.
    pub(super) fn call_with(
        &mut self,
        function: &Rc<Function>,
        args: Vec<Value>,
        location: Location,
    ) -> Option<Value> {
        let mark = self.errors.mark();
        let hidden = self.scope.split_off(function.n_visible);
        self.calls.n_open += 1;
        let value = self.function_body(&function.closure, args);
        self.calls.n_open -= 1;
        self.scope.truncate(function.n_visible);
        self.scope.extend(hidden);
        if self.errors.mark() > mark {
            self.forget_function(function);
            if let Some(path) = &function.path_outside {
                self.errors.move_to(mark, location, path);
            }
        }
        value.map(|it| it.located(location))
    }

    fn function_body(&mut self, closure: &ExprClosure, args: Vec<Value>) -> Option<Value> {
        for (pat, value) in closure.inputs.iter().zip(args) {
            let pat = without_type(pat);
            match (pat, plain_ident(pat)) {
                (Pat::Wild(_), _) => {}
                (_, Some(ident)) => self.bind(ident.unraw().to_string(), Binding::Value(value)),
                _ => {
                    let message = "a parameter has a plain name, as in `|x, y| ..`";
                    return self.errors.at(pat, message);
                }
            }
        }
        if closure.capture.is_some() || closure.asyncness.is_some() || closure.constness.is_some() {
            return self.errors.at(closure, "nothing stands before the parameters, as in `|x| ..`");
        }
        let value = self.expr(&closure.body)?;
        match &closure.output {
            ReturnType::Default => Some(value),
            ReturnType::Type(_, ty) => self.value_as(Some(ty), value),
        }
    }

    /// Makes later calls of a function say nothing.
    fn forget_function(&mut self, function: &Rc<Function>) {
        for (_, binding) in &mut self.scope {
            if matches!(binding, Binding::Function(it) if Rc::ptr_eq(it, function)) {
                *binding = Binding::Poisoned;
            }
        }
    }

    /// Counts an expression; returns false, with an error reported at the first one, where calls expand to
    /// too many.
    pub(super) fn may_expand(&mut self, location: Location) -> bool {
        if self.calls.n_open == 0 {
            return true;
        }
        self.calls.n_expanded += 1;
        if self.calls.n_expanded == MAX_EXPANDED {
            let message = "the functions of this program call each other too often: bind values that \
                           are used again with `let`, or compute a tensor of its own";
            self.errors.at_location::<()>(location, message);
        }
        self.calls.n_expanded < MAX_EXPANDED
    }
}

/// The type that a parameter states.
fn param_type(pat: &Pat) -> Option<&Type> {
    match pat {
        Pat::Type(it) => Some(&it.ty),
        _ => None,
    }
}

fn without_type(pat: &Pat) -> &Pat {
    match pat {
        Pat::Type(it) => &it.pat,
        other => other,
    }
}
