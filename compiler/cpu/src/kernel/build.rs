//! From a nest to a [`Tree`]: flattens polynomials, settles the kinds of loops, types expressions.

use std::collections::BTreeMap;

use super::affine::{Affine, Coef, gcd, tidy};
use super::tree::{
    Access, Buffer, Derived, DerivedOp, GuardId, Item, Kind, Loop, Term, TermKind, Tree, Var,
    Write, add_stride, literal_bits,
};
use super::{Unsupported, prefetch};
use tvmtune_ir::dag::{DType, Expr, Reducer, Subscript, TensorId};
use tvmtune_ir::poly::{Atom, DimId, Facts, Interval, Poly, VarId};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::{Guard, Nest, Scope, Stmt};

/// Vectors that accumulate side by side where a vectorized reduction is split.
const REDUCE_VECTORS: i64 = 4;
/// Vectors a step where another long vectorized loop is split.
const STEP_VECTORS: i64 = 2;
/// Iterations of an unrolled loop that are still repeated.
const MAX_UNROLLED: i64 = 512;

/// Prepares a nest.
pub(super) fn build(nest: &Nest, isa: Isa) -> Result<Tree<'_>, Unsupported> {
    let mut facts = Facts::default();
    for (n, dim) in nest.dims.iter().enumerate() {
        facts.bound_dim(DimId(n as u32), dim.range);
    }
    let buffers = nest.buffers.iter().map(|it| Buffer {
        dtype: it.dtype,
        local: it.scope == Scope::Local,
        size: it.shape.iter().fold(Poly::constant(1), |n, it| n * it.clone()),
    });
    let unknown = Var { extent: Poly::constant(1), range: Interval::point(0), derived: None };
    let tree = Tree {
        nest,
        facts: facts.clone(),
        vars: vec![unknown; nest.n_vars as usize],
        guards: Vec::new(),
        buffers: buffers.collect(),
        phases: Vec::new(),
    };
    let replaced = vec![None; nest.n_vars as usize];
    let mut build = Build {
        tree,
        lanes: i64::from(isa.lanes()),
        max_vectors: i64::from(isa.registers()),
        replaced,
        derived: BTreeMap::new(),
        proofs: facts,
        holding: Vec::new(),
        in_lanes: false,
    };
    let mut alone = false;
    for stmt in &nest.body {
        let item = build.item(stmt, true)?;
        let is_parallel = matches!(&item, Item::Loop(it) if it.kind == Kind::Parallel);
        match build.tree.phases.last_mut() {
            // What one thread does in a row needs no barrier.
            Some(phase) if alone && !is_parallel => phase.push(item),
            _ => build.tree.phases.push(vec![item]),
        }
        alone = !is_parallel;
    }
    Ok(build.tree)
}

struct Build<'n> {
    tree: Tree<'n>,
    lanes: i64,
    max_vectors: i64,
    /// What stands for a variable of a loop that was split.
    replaced: Vec<Option<Affine>>,
    derived: BTreeMap<Derived, VarId>,
    /// Extents of the loops around, in the nest's variables.
    proofs: Facts,
    /// Guards around.
    holding: Vec<Guard>,
    in_lanes: bool,
}

impl Build<'_> {
    fn items(&mut self, stmts: &[Stmt], top: bool) -> Result<Vec<Item>, Unsupported> {
        stmts.iter().map(|stmt| self.item(stmt, top)).collect()
    }

    fn item(&mut self, stmt: &Stmt, top: bool) -> Result<Item, Unsupported> {
        Ok(match stmt {
            Stmt::For { var, extent, kind, body, .. } => {
                self.loop_(*var, extent, *kind, body, top)?
            }
            Stmt::If { guards, body } => {
                let ids = guards
                    .iter()
                    .map(|it| self.guard(&it.value, &it.bound))
                    .collect::<Result<_, _>>()?;
                self.holding.extend(guards.iter().cloned());
                let body = self.items(body, false)?;
                self.holding.truncate(self.holding.len() - guards.len());
                Item::If { guards: ids, body }
            }
            Stmt::Store { tensor, index, value } => self.write(*tensor, index, None, value)?,
            Stmt::Update { tensor, index, reducer, value } => {
                self.write(*tensor, index, Some(*reducer), value)?
            }
        })
    }

    fn write(
        &mut self,
        tensor: TensorId,
        index: &[Poly],
        reducer: Option<Reducer>,
        value: &Expr,
    ) -> Result<Item, Unsupported> {
        let target = self.target(tensor, index)?;
        Ok(Item::Write(Write::new(target, reducer, self.term(value, false)?)))
    }

    fn guard(&mut self, value: &Poly, bound: &Poly) -> Result<GuardId, Unsupported> {
        let form = self.flatten(&(value.clone() - bound.clone()))?;
        self.tree.guards.push(form);
        Ok(self.tree.guards.len() - 1)
    }

    fn loop_(
        &mut self,
        var: VarId,
        extent: &Poly,
        kind: LoopKind,
        body: &[Stmt],
        top: bool,
    ) -> Result<Item, Unsupported> {
        self.proofs.bound_var(var, extent.clone());
        let (bound, limits) = self.extent(extent)?;
        let bound = tidy(bound, &self.tree.facts);
        let hi = bound.interval(&self.tree.facts).hi.saturating_sub(1).max(0);
        self.tree.vars[var.0 as usize] =
            Var { extent: bound.clone(), range: Interval { lo: 0, hi }, derived: None };
        let mut guards = Vec::new();
        for limit in limits {
            guards.push(self.guard(&Poly::var(var), &limit)?);
        }
        let wrap = |guards: Vec<GuardId>, body| match guards.is_empty() {
            true => body,
            false => vec![Item::If { guards, body }],
        };
        let run = match (kind, bound.as_constant()) {
            (LoopKind::Vectorized, _) if !self.in_lanes => {
                return self.vectorized(var, &bound, body, guards);
            }
            (LoopKind::Unrolled | LoopKind::Tensorized, Some(n)) if n <= MAX_UNROLLED => {
                Kind::Unrolled(n)
            }
            (kind, _) if top && kind.is_parallel() => Kind::Parallel,
            _ => Kind::Serial,
        };
        let nested = top && run == Kind::Parallel && body.len() == 1;
        let mut body = self.items(body, nested)?;
        if let LoopKind::Pipelined(depth) | LoopKind::WarpSpecialized(depth) = kind {
            prefetch::ask_ahead(&mut body, &self.tree, var, i64::from(depth) - 1);
        }
        Ok(Item::Loop(Loop { var, kind: run, body: wrap(guards, body) }))
    }

    /// A bound in the dimensions, and what the variable must also stay below.
    fn extent(&mut self, extent: &Poly) -> Result<(Poly, Vec<Poly>), Unsupported> {
        if !extent.has_vars() {
            return Ok((extent.clone(), Vec::new()));
        }
        let single = extent.terms().next().filter(|_| extent.terms().count() == 1);
        if let Some(([Atom::Min(a, b)], 1)) = single {
            let (bound, mut limits) = self.extent(a)?;
            let (other, more) = self.extent(b)?;
            limits.extend(more);
            // The constant of the two keeps a loop unrolled.
            let keep_first = bound.as_constant().is_some() || other.as_constant().is_none();
            let (kept, limit) = if keep_first { (bound, other) } else { (other, bound) };
            if !(limit.clone() - kept.clone()).is_nonnegative(&self.tree.facts) {
                limits.push(limit);
            }
            return Ok((kept, limits));
        }
        let form = self.flatten(extent)?;
        let mut greatest = form.dims.clone() + Poly::constant(form.constant);
        for (var, coefficient) in &form.terms {
            let range = coefficient.interval(&self.tree.facts);
            if range.lo >= 0 {
                let last = self.tree.var(*var).extent.clone() - Poly::constant(1);
                greatest += last * coefficient.to_poly();
            } else if range.hi > 0 {
                return Err(Unsupported::Index);
            }
        }
        Ok((greatest, vec![extent.clone()]))
    }

    fn vectorized(
        &mut self,
        var: VarId,
        bound: &Poly,
        body: &[Stmt],
        guards: Vec<GuardId>,
    ) -> Result<Item, Unsupported> {
        self.in_lanes = true;
        let reduces = reduces_over(body, var);
        let most = if reduces { 2 * REDUCE_VECTORS } else { self.max_vectors } * self.lanes;
        let short = bound.as_constant().filter(|n| *n <= most);
        let item = match short {
            Some(n) => {
                let mut body = self.items(body, false)?;
                if !guards.is_empty() {
                    body = vec![Item::If { guards, body }];
                }
                self.lanes_or_serial(var, n, body)
            }
            None => {
                let width = self.lanes * if reduces { REDUCE_VECTORS } else { STEP_VECTORS };
                self.strip(var, bound, width, body, guards)?
            }
        };
        self.in_lanes = false;
        Ok(item)
    }

    /// `for outer { for inner in 0..width { var = width * outer + inner } }`
    fn strip(
        &mut self,
        var: VarId,
        bound: &Poly,
        width: i64,
        body: &[Stmt],
        mut guards: Vec<GuardId>,
    ) -> Result<Item, Unsupported> {
        let facts = self.tree.facts.clone();
        let outer = self.tree.new_var(bound.ceil_div(width, &facts));
        let inner = self.tree.new_var(Poly::constant(width));
        let mut index = Affine::var(outer).scaled(width);
        index.add_term(inner, Coef::Const(1));
        self.replaced[var.0 as usize] = Some(index.clone());
        if bound.as_constant().is_none_or(|n| n % width != 0) {
            index.add_dims(-bound.clone());
            self.tree.guards.push(index);
            guards.push(self.tree.guards.len() - 1);
        }
        // Guards made before the split still name the variable itself.
        for id in &guards {
            let mut form = std::mem::take(&mut self.tree.guards[*id]);
            if let (Some(coefficient), Some(by)) =
                (form.take(var), self.replaced[var.0 as usize].clone())
            {
                form.add_scaled(&by, &coefficient);
            }
            self.tree.guards[*id] = form;
        }
        let mut body = self.items(body, false)?;
        if !guards.is_empty() {
            body = vec![Item::If { guards, body }];
        }
        let inner = self.lanes_or_serial(inner, width, body);
        Ok(Item::Loop(Loop { var: outer, kind: Kind::Serial, body: vec![inner] }))
    }

    /// Lanes if every index is linear in the lane, else one iteration after the other.
    fn lanes_or_serial(&self, var: VarId, n: i64, body: Vec<Item>) -> Item {
        let mut linear = true;
        let mut check = |form: &Affine| linear &= self.is_lane_linear(form, var, n);
        check_items(&body, &self.tree, &mut check);
        let kind = if linear { Kind::Lanes(n) } else { Kind::Serial };
        Item::Loop(Loop { var, kind, body })
    }

    /// Whether quotients in it do not change from lane to lane, and their remainders only by the
    /// lane itself.
    fn is_lane_linear(&self, form: &Affine, lane: VarId, n: i64) -> bool {
        form.terms.iter().all(|(var, _)| {
            let Some(derived) = &self.tree.var(*var).derived else { return true };
            if !self.tree.mentions(&derived.a, lane) && !self.tree.mentions(&derived.b, lane) {
                return true;
            }
            let (Some(by), Some(Coef::Const(step))) =
                (derived.b.as_constant(), derived.a.coefficient(lane))
            else {
                return false;
            };
            let others = derived.a.terms.iter().filter(|(it, _)| *it != lane);
            let grain = others.fold(by, |grain, (_, it)| gcd(grain, it.divisor()));
            let grain = gcd(grain, super::affine::poly_divisor(&derived.a.dims));
            let first = derived.a.constant.rem_euclid(grain);
            let quotient = matches!(derived.op, DerivedOp::Div | DerivedOp::Mod);
            let others_vary = derived.a.terms.iter().any(|(it, _)| {
                *it != lane
                    && self.tree.var(*it).derived.is_some()
                    && self.tree.mentions(&Affine::var(*it), lane)
            });
            quotient && !others_vary && *step > 0 && first + step * (n - 1) < grain
        })
    }

    fn target(&mut self, tensor: TensorId, index: &[Poly]) -> Result<Access, Unsupported> {
        let mut offset = Affine::default();
        for (poly, stride) in index.iter().zip(self.strides(tensor)) {
            let index = self.flatten(poly)?;
            add_stride(&mut offset, &index, &stride);
        }
        self.recombine(&mut offset);
        Ok(Access { tensor, offset, gather: Vec::new(), sure: true })
    }

    /// Elements from one index to the next, for each dimension of a buffer.
    fn strides(&self, tensor: TensorId) -> Vec<Poly> {
        let shape = &self.tree.nest.buffer(tensor).shape;
        let mut strides = vec![Poly::constant(1); shape.len()];
        for at in (1..shape.len()).rev() {
            strides[at - 1] = strides[at].clone() * shape[at].clone();
        }
        strides
    }

    fn read(
        &mut self,
        tensor: TensorId,
        index: &[Subscript],
        lazy: bool,
    ) -> Result<Access, Unsupported> {
        let (mut offset, mut gather) = (Affine::default(), Vec::new());
        let mut sure = true;
        for (at, stride) in self.strides(tensor).into_iter().enumerate() {
            match &index[at] {
                Subscript::Affine(poly) => {
                    let index = self.flatten(poly)?;
                    add_stride(&mut offset, &index, &stride);
                    let extent = &self.tree.nest.buffer(tensor).shape[at];
                    sure &= !lazy || self.is_within(poly, extent);
                }
                Subscript::Value(value) => {
                    gather.push((stride, self.term(value, lazy)?));
                    sure &= !lazy;
                }
            }
        }
        self.recombine(&mut offset);
        Ok(Access { tensor, offset, gather, sure })
    }

    fn is_within(&self, index: &Poly, extent: &Poly) -> bool {
        index.is_nonnegative(&self.proofs)
            && ((extent.clone() - index.clone()).is_positive(&self.proofs)
                || self.holding.iter().any(|it| {
                    it.value == *index
                        && (extent.clone() - it.bound.clone()).is_nonnegative(&self.proofs)
                }))
    }

    fn term(&mut self, expr: &Expr, lazy: bool) -> Result<Term, Unsupported> {
        let dtype = expr.dtype(self.tree.nest);
        if dtype == DType::F64 {
            return Err(Unsupported::Type(dtype));
        }
        let mut boxed = |it: &Expr| self.term(it, lazy).map(Box::new);
        let kind = match expr {
            Expr::Const(literal, _) => TermKind::Bits(literal_bits(*literal, dtype)?),
            Expr::Index(poly) => TermKind::Index(self.flatten(poly)?),
            Expr::Scalar(scalar) => TermKind::Scalar(*scalar),
            Expr::Read { tensor, index } => TermKind::Read(self.read(*tensor, index, lazy)?),
            Expr::Unary(op, a) => TermKind::Unary(*op, boxed(a)?),
            Expr::Cast(_, a) => TermKind::Cast(boxed(a)?),
            Expr::Binary(op, a, b) => TermKind::Binary(*op, boxed(a)?, boxed(b)?),
            Expr::Compare(op, a, b) => TermKind::Compare(*op, boxed(a)?, boxed(b)?),
            Expr::Select { condition, then, otherwise } => TermKind::Select(Box::new([
                self.term(condition, lazy)?,
                self.term(then, true)?,
                self.term(otherwise, true)?,
            ])),
        };
        Ok(Term { dtype, kind })
    }

    fn flatten(&mut self, poly: &Poly) -> Result<Affine, Unsupported> {
        let mut out = Affine::default();
        for (atoms, value) in poly.terms() {
            let (mut rest, mut var) = (Poly::constant(value), None);
            for atom in atoms {
                match self.flatten_atom(atom)? {
                    None => rest = rest * Poly::atom(atom.clone()),
                    Some(form) if var.is_none() => var = Some(form),
                    Some(_) => return Err(Unsupported::Index),
                }
            }
            match var {
                None => out.add_dims(rest),
                Some(form) => out.add_scaled(&form, &Coef::from_poly(rest)),
            }
        }
        Ok(out)
    }

    /// The form of an atom in which variables occur.
    fn flatten_atom(&mut self, atom: &Atom) -> Result<Option<Affine>, Unsupported> {
        let (op, a, b) = match atom {
            Atom::Dim(_) => return Ok(None),
            Atom::Var(var) => {
                let replaced = &self.replaced[var.0 as usize];
                return Ok(Some(replaced.clone().unwrap_or_else(|| Affine::var(*var))));
            }
            Atom::Div(a, b) => (DerivedOp::Div, a, b),
            Atom::Mod(a, b) => (DerivedOp::Mod, a, b),
            Atom::Min(a, b) => (DerivedOp::Min, a, b),
            Atom::Max(a, b) => (DerivedOp::Max, a, b),
        };
        if !a.has_vars() && !b.has_vars() {
            return Ok(None);
        }
        let derived = Derived { op, a: self.flatten(a)?, b: self.flatten(b)? };
        if let Some(var) = self.derived.get(&derived) {
            return Ok(Some(Affine::var(*var)));
        }
        let range = self.derived_range(&derived);
        let extent = Poly::constant(range.hi.saturating_add(1));
        let var = VarId(self.tree.vars.len() as u32);
        self.tree.vars.push(Var { extent, range, derived: Some(derived.clone()) });
        self.derived.insert(derived, var);
        Ok(Some(Affine::var(var)))
    }

    fn derived_range(&self, it: &Derived) -> Interval {
        let (a, b) = (self.tree.interval(&it.a), self.tree.interval(&it.b));
        let by = b.lo.max(1);
        match it.op {
            DerivedOp::Div => Interval { lo: a.lo.min(0), hi: a.hi.max(0) / by },
            DerivedOp::Mod => Interval { lo: 0, hi: b.hi.saturating_sub(1).max(0) },
            DerivedOp::Min => Interval { lo: a.lo.min(b.lo), hi: a.hi.min(b.hi) },
            DerivedOp::Max => Interval { lo: a.lo.max(b.lo), hi: a.hi.max(b.hi) },
        }
    }

    /// `b * (a / b) + a % b` is `a`: what was fused and is accessed in its order is one line.
    fn recombine(&self, form: &mut Affine) {
        while let Some((quotient, remainder, coefficient)) = self.pair(form) {
            let Some(derived) = &self.tree.var(remainder).derived else { return };
            let whole = derived.a.clone();
            form.take(quotient);
            form.take(remainder);
            form.add_scaled(&whole, &coefficient);
        }
    }

    fn pair(&self, form: &Affine) -> Option<(VarId, VarId, Coef)> {
        for (remainder, coefficient) in &form.terms {
            let Some(Derived { op: DerivedOp::Mod, a, b }) = &self.tree.var(*remainder).derived
            else {
                continue;
            };
            let of = Derived { op: DerivedOp::Div, a: a.clone(), b: b.clone() };
            let Some(quotient) = self.derived.get(&of) else { continue };
            let Some(by) = b.as_dims() else { continue };
            let expected = Coef::from_poly(coefficient.to_poly() * by);
            if form.coefficient(*quotient) == Some(&expected) {
                return Some((*quotient, *remainder, coefficient.clone()));
            }
        }
        None
    }
}

/// Whether an update below adds up the iterations of `var`.
fn reduces_over(body: &[Stmt], var: VarId) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::For { body, .. } | Stmt::If { body, .. } => reduces_over(body, var),
        Stmt::Store { .. } => false,
        Stmt::Update { index, .. } => !index.iter().any(|it| it.mentions(var)),
    })
}

fn check_items(items: &[Item], tree: &Tree<'_>, check: &mut dyn FnMut(&Affine)) {
    for item in items {
        match item {
            Item::Loop(it) => check_items(&it.body, tree, check),
            Item::If { guards, body } => {
                guards.iter().for_each(|id| check(&tree.guards[*id]));
                check_items(body, tree, check);
            }
            Item::Write(write) => {
                check(&write.target.offset);
                write.value.for_each_form(check);
            }
        }
    }
}
