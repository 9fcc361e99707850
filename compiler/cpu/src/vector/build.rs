//! Construction of the loop [`Tree`]: linearizes indices, strip-mines and legalizes vectorized loops,
//! turns loop-variant extents into guards, types expressions.

use std::collections::{BTreeMap, BTreeSet};

use super::affine::{Affine, Coef, simplify};
use super::certain::Certain;
use super::expr::vector_op;
use super::fill::is_fill;
use super::guarded::GuardedTerm;
use super::tree::{
    Access, Buffer, Derived, DerivedOp, GuardId, Loop, LoopMode, Node, Term, TermKind, Tree, Var,
    Write, add_stride, literal_bits,
};
use super::{Simd, Unsupported, nonlinear, prefetch, width, wrap};
use tvmtune_ir::dag::{DType, Expr, Numerics, Reducer, Subscript, TensorId};
use tvmtune_ir::poly::{Atom, Facts, Interval, Poly, VarId};
use tvmtune_math::lane::Width;
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::{Guard, Nest, Scope, Stmt};

/// Vectors per iteration of a strip-mined reduction: its independent accumulators.
const REDUCTION_INTERLEAVE: i64 = 4;
/// Vectors per iteration of other strip-mined loops: LLVM's interleave count.
const INTERLEAVE: i64 = 2;
/// The range of a guard of lanes from which on it is tested for: blocks of scans, of 16 iterations, get
/// slower by tests, and triangles of 512 rows twice as fast; in between chosen by judgement.
const MIN_LEFT_OUT: i64 = 64;
/// Iterations beyond which a loop is not fully unrolled.
const MAX_UNROLLED: i64 = 512;

pub(super) fn build(nest: &Nest, simd: Simd) -> Result<Tree<'_>, Unsupported> {
    let facts = nest.facts();
    let buffers = nest.buffers.iter().map(|it| Buffer {
        dtype: it.dtype,
        local: it.scope == Scope::Local,
        size: it.shape.iter().fold(Poly::constant(1), |n, it| n * it.clone()),
        partial_over: Vec::new(),
        is_partial: it.is_partial,
    });
    let unknown = Var { extent: Poly::constant(1), range: Interval::point(0), derived: None };
    let tree = Tree {
        nest,
        simd,
        divides_words: false,
        adds_words: width::adds_words(nest),
        facts: facts.clone(),
        vars: vec![unknown; nest.n_vars as usize],
        guards: Vec::new(),
        buffers: buffers.collect(),
        choices: BTreeMap::new(),
        bounds: BTreeMap::new(),
        transposed: BTreeSet::new(),
        phases: Vec::new(),
    };
    let substituted = vec![None; nest.n_vars as usize];
    let mut build = TreeBuilder {
        tree,
        lanes: simd.lanes(),
        n_registers: i64::from(simd.registers()),
        substituted,
        derived: BTreeMap::new(),
        proofs: facts,
        enclosing_guards: Vec::new(),
        vectorized: None,
        lane: None,
        is_ordered: false,
        divides: false,
        by_cases: false,
        certain: Certain::default(),
    };
    let mut alone = false;
    for stmt in &nest.body {
        let node = build.node(stmt, true)?;
        let is_parallel = matches!(&node, Node::Loop(it) if it.kind == LoopMode::Parallel);
        match build.tree.phases.last_mut() {
            // Serial statements in a row need no barrier between them.
            Some(phase) if alone && !is_parallel => phase.push(node),
            _ => build.tree.phases.push(vec![node]),
        }
        alone = !is_parallel;
    }
    Ok(build.tree)
}

pub(super) struct TreeBuilder<'n> {
    pub(super) tree: Tree<'n>,
    lanes: i64,
    n_registers: i64,
    /// Substitution for the variable of a loop that was split.
    pub(super) substituted: Vec<Option<Affine>>,
    derived: BTreeMap<Derived, VarId>,
    /// Extents of the enclosing loops, in the nest's variables.
    proofs: Facts,
    /// Guards that hold here.
    pub(super) enclosing_guards: Vec<Guard>,
    /// The variable of the enclosing vectorized loop.
    vectorized: Option<VarId>,
    /// The variable of its lanes, of the loop itself or of a part of it, and their number.
    pub(super) lane: Option<(VarId, i64)>,
    /// The lanes are reduced in an order that the program fixes.
    pub(super) is_ordered: bool,
    /// Quotients and remainders of indices are computed where they are linear.
    pub(super) divides: bool,
    /// Indices that wrap around are split into cases.
    by_cases: bool,
    /// Elements of the statement that are in bounds.
    pub(super) certain: Certain,
}

impl TreeBuilder<'_> {
    pub(super) fn nodes(
        &mut self,
        stmts: &[Stmt],
        is_outermost: bool,
    ) -> Result<Vec<Node>, Unsupported> {
        stmts.iter().map(|stmt| self.node(stmt, is_outermost)).collect()
    }

    fn node(&mut self, stmt: &Stmt, is_outermost: bool) -> Result<Node, Unsupported> {
        Ok(match stmt {
            Stmt::For { var, extent, kind, body, .. } => {
                self.loop_(*var, extent, *kind, body, is_outermost)?
            }
            Stmt::If { guards, body } => {
                let ids = guards
                    .iter()
                    .map(|it| self.guard(&it.value, &it.bound))
                    .collect::<Result<_, _>>()?;
                self.enclosing_guards.extend(guards.iter().cloned());
                let body = self.nodes(body, false)?;
                self.enclosing_guards.truncate(self.enclosing_guards.len() - guards.len());
                Node::If { guards: ids, body }
            }
            Stmt::Store { tensor, index, value } => self.write(*tensor, index, None, value)?,
            Stmt::Update { tensor, index, reducer, value } => {
                self.update(*tensor, index, *reducer, value)?
            }
        })
    }

    /// Adds a term to a reduction. One that is the reducer's identity where a lane-invariant condition
    /// fails, or another one in all lanes, is left out there. Where the program fixes bits, a product under a
    /// condition is rounded before it is added, and such a sum is never -0.0, which 0.0 would change.
    fn update(
        &mut self,
        tensor: TensorId,
        index: &[Poly],
        reducer: Reducer,
        value: &Expr,
    ) -> Result<Node, Unsupported> {
        let dtype = self.tree.nest.buffer(tensor).dtype;
        let identity = Expr::Const(reducer.identity(dtype), dtype);
        let varies = |it: &Guard| {
            let mentions = |var| it.value.mentions(var) || it.bound.mentions(var);
            self.vectorized.is_some_and(mentions)
        };
        let Some(GuardedTerm { guards, weak, term }) = GuardedTerm::of(value, &identity, &varies)
        else {
            return self.write(tensor, index, Some(reducer), value);
        };
        let is_fixed = self.tree.nest.numerics == Numerics::Fixed;
        let term = if is_fixed { term.rounded(dtype) } else { term };
        let mut ids = Vec::new();
        for it in &guards {
            ids.push(self.guard(&it.value, &it.bound)?);
        }
        for it in &weak {
            let form = self.flatten(&(it.value.clone() - it.bound.clone()))?;
            let form = self.least_over_lanes(form).filter(|it| self.is_long(it));
            if let Some(form) = form {
                self.tree.guards.push(form);
                ids.push(self.tree.guards.len() - 1);
            }
        }
        let n_before = self.enclosing_guards.len();
        self.enclosing_guards.extend(guards);
        let node = self.write(tensor, index, Some(reducer), &term);
        self.enclosing_guards.truncate(n_before);
        Ok(if ids.is_empty() { node? } else { Node::If { guards: ids, body: vec![node?] } })
    }

    /// Returns whether a guard that may fail in all lanes leaves out enough iterations to be tested for.
    fn is_long(&self, form: &Affine) -> bool {
        let range = self.tree.interval(form);
        range.hi.saturating_sub(range.lo) >= MIN_LEFT_OUT
    }

    /// Returns the least value of a form in all lanes, if it is that of the first lane or the last.
    fn least_over_lanes(&self, mut form: Affine) -> Option<Affine> {
        let (lane, n) = self.lane?;
        match form.take(lane) {
            Some(Coef::Const(step)) => form.constant += step.min(0) * (n - 1),
            _ => return None,
        }
        (!self.tree.mentions(&form, lane)).then_some(form)
    }

    fn write(
        &mut self,
        tensor: TensorId,
        index: &[Poly],
        reducer: Option<Reducer>,
        value: &Expr,
    ) -> Result<Node, Unsupported> {
        let target = self.target(tensor, index)?;
        let dtype = value.dtype(self.tree.nest);
        if let Some(reducer) = reducer.filter(|it| vector_op(it.op(), dtype).is_none()) {
            return Err(Unsupported::Operation(reducer.op()));
        }
        self.certain = Certain::of(value, index, &self.tree.nest.buffer(tensor).shape);
        Ok(Node::Write(Write::new(target, reducer, self.term(value, false)?)))
    }

    pub(super) fn guard(&mut self, value: &Poly, bound: &Poly) -> Result<GuardId, Unsupported> {
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
        is_outermost: bool,
    ) -> Result<Node, Unsupported> {
        self.proofs.bound_var(var, extent.clone());
        let (bound, limits) = self.extent(extent)?;
        let bound = simplify(bound, &self.tree.facts);
        self.tree.vars[var.0 as usize] = Var::of_loop(bound.clone(), &self.tree.facts);
        let mut guards = Vec::new();
        for limit in limits {
            guards.push(self.guard(&Poly::var(var), &limit)?);
        }
        let run = match (kind, bound.as_constant()) {
            (kind, _)
                if self.vectorized.is_none()
                    && (kind == LoopKind::Vectorized
                        || kind == LoopKind::Serial && is_fill(var, &bound, body, self.lanes)) =>
            {
                return self.vectorized_loop(var, &bound, body, guards);
            }
            (LoopKind::Unrolled | LoopKind::Tensorized, Some(n)) if n <= MAX_UNROLLED => {
                LoopMode::Unrolled(n)
            }
            (kind, _) if is_outermost && kind.is_parallel() => LoopMode::Parallel,
            _ => LoopMode::Serial,
        };
        if run == LoopMode::Serial
            && self.vectorized.is_none()
            && let Some(node) = self.chosen_loop(var, body, &guards)?
        {
            return Ok(node);
        }
        let nested = is_outermost && run == LoopMode::Parallel && body.len() == 1;
        let mut body = self.nodes(body, nested)?;
        if let LoopKind::Pipelined(depth) | LoopKind::WarpSpecialized(depth) = kind {
            prefetch::insert(&mut body, &self.tree, var, i64::from(depth) - 1);
        }
        Ok(Node::Loop(Loop { var, kind: run, body: Node::guarded(guards, body) }))
    }

    /// Splits an extent into a bound in the dimensions and limits that become guards.
    fn extent(&mut self, extent: &Poly) -> Result<(Poly, Vec<Poly>), Unsupported> {
        if !extent.has_vars() {
            return Ok((extent.clone(), Vec::new()));
        }
        let single = extent.terms().next().filter(|_| extent.terms().count() == 1);
        if let Some(([Atom::Min(a, b)], 1)) = single {
            let (bound, mut limits) = self.extent(a)?;
            let (other, more) = self.extent(b)?;
            limits.extend(more);
            // A constant bound lets the loop be unrolled.
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

    fn vectorized_loop(
        &mut self,
        var: VarId,
        bound: &Poly,
        body: &[Stmt],
        guards: Vec<GuardId>,
    ) -> Result<Node, Unsupported> {
        self.vectorized = Some(var);
        let reduces = reduces_into(body, var, &|_| true);
        let most = if reduces { 2 * REDUCTION_INTERLEAVE } else { self.n_registers } * self.lanes;
        let short = bound.as_constant().filter(|n| *n <= most);
        // One vector instruction combines these lanes, in an order that the program fixes.
        let is_fixed = self.tree.nest.numerics == Numerics::Fixed;
        let is_float = |it: TensorId| self.tree.nest.buffer(it).dtype.is_float();
        let is_ordered = is_fixed && reduces_into(body, var, &is_float);
        self.is_ordered = is_ordered;
        let node = match short {
            Some(n) => {
                let node = self.vectorize_or_serialize((var, var), n, body, &guards)?;
                if is_ordered && is_serial(&node) {
                    return Err(Unsupported::Index);
                }
                node
            }
            None if is_ordered => return Err(Unsupported::Index),
            None => {
                let width = self.lanes * if reduces { REDUCTION_INTERLEAVE } else { INTERLEAVE };
                self.strip_mine(var, bound, width, body, guards)?
            }
        };
        (self.vectorized, self.lane) = (None, None);
        Ok(node)
    }

    /// Strip-mines a loop: `for outer { for inner in 0..width { var = width * outer + inner } }`.
    fn strip_mine(
        &mut self,
        var: VarId,
        bound: &Poly,
        width: i64,
        body: &[Stmt],
        mut guards: Vec<GuardId>,
    ) -> Result<Node, Unsupported> {
        let facts = self.tree.facts.clone();
        let outer = self.tree.new_var(bound.ceil_div(width, &facts));
        let inner = self.tree.new_var(Poly::constant(width));
        let mut index = Affine::var(outer).scaled(width);
        index.add_term(inner, Coef::Const(1));
        self.substituted[var.0 as usize] = Some(index.clone());
        if bound.as_constant().is_none_or(|n| n % width != 0) {
            index.add_dims(-bound.clone());
            self.tree.guards.push(index);
            guards.push(self.tree.guards.len() - 1);
        }
        // Guards made before still use the original variable.
        for id in &guards {
            let mut form = std::mem::take(&mut self.tree.guards[*id]);
            if let (Some(coefficient), Some(by)) =
                (form.take(var), self.substituted[var.0 as usize].clone())
            {
                form.add_scaled(&by, &coefficient);
            }
            self.tree.guards[*id] = form;
        }
        let inner = self.vectorize_or_serialize((var, inner), width, body, &guards)?;
        Ok(Node::Loop(Loop { var: outer, kind: LoopMode::Serial, body: vec![inner] }))
    }

    /// Vectorizes a loop if every index is affine in the lane, in each of its cases or its phases if need
    /// be; else runs it serially. The loop is one of the nest, or a part of it, with a variable of its own.
    fn vectorize_or_serialize(
        &mut self,
        (of_nest, var): (VarId, VarId),
        n: i64,
        body: &[Stmt],
        guards: &[GuardId],
    ) -> Result<Node, Unsupported> {
        self.lane = Some((var, n));
        let nodes = self.nodes(body, false)?;
        let node = self.loop_over_lanes(var, n, Node::guarded(guards.to_vec(), nodes));
        if !is_serial(&node) {
            return Ok(node);
        }
        self.by_cases = true;
        let nodes = self.nodes(body, false);
        self.by_cases = false;
        let split = self.loop_over_lanes(var, n, Node::guarded(guards.to_vec(), nodes?));
        if !is_serial(&split) {
            return Ok(split);
        }
        let values = self.of_lane_values(&node, n);
        let phases = match &values {
            Some(_) if self.phases_are_short(&node, var, n) => None,
            _ => self.by_phases((of_nest, var), n, body, (guards, &node)),
        };
        self.lane = Some((var, n));
        Ok(phases.or(values).unwrap_or(node))
    }

    fn target(&mut self, tensor: TensorId, index: &[Poly]) -> Result<Access, Unsupported> {
        let mut offset = Affine::default();
        for (poly, stride) in index.iter().zip(self.strides(tensor)) {
            let index = self.flatten(poly)?;
            add_stride(&mut offset, &index, &stride);
        }
        self.recombine_div_mod(&mut offset);
        Ok(Access::new(tensor, offset))
    }

    /// Returns the row-major stride of each dimension of a buffer, in elements.
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
        let shape = &self.tree.nest.buffer(tensor).shape;
        let lazy = lazy && !self.certain.contains(tensor, index, shape);
        let mut in_bounds = true;
        for (at, stride) in self.strides(tensor).into_iter().enumerate() {
            match &index[at] {
                Subscript::Affine(poly) => {
                    let extent = &self.tree.nest.buffer(tensor).shape[at];
                    in_bounds &= !lazy || self.is_within(poly, extent);
                    let linear = match nonlinear::split(poly, &self.proofs) {
                        None => self.flatten(poly)?,
                        Some((linear, rest)) => {
                            gather.push((stride.clone(), self.term(&rest, lazy)?));
                            self.flatten(&linear)?
                        }
                    };
                    add_stride(&mut offset, &linear, &stride);
                }
                Subscript::Value(value) => {
                    gather.push((stride, self.term(value, lazy)?));
                    in_bounds &= !lazy;
                }
            }
        }
        self.recombine_div_mod(&mut offset);
        Ok(Access { tensor, offset, gather, in_bounds })
    }

    fn is_within(&self, index: &Poly, extent: &Poly) -> bool {
        index.is_nonnegative(&self.proofs)
            && ((extent.clone() - index.clone()).is_positive(&self.proofs)
                || self.enclosing_guards.iter().any(|it| {
                    it.value == *index
                        && (extent.clone() - it.bound.clone()).is_nonnegative(&self.proofs)
                }))
    }

    pub(super) fn term(&mut self, expr: &Expr, lazy: bool) -> Result<Term, Unsupported> {
        let dtype = expr.dtype(self.tree.nest);
        let width = self.tree.simd.width;
        if dtype == DType::F64 && width == Width::Bits32 {
            return Err(Unsupported::Type(dtype));
        }
        if self.by_cases
            && let Some(cases) = wrap::by_cases(expr, &self.proofs, &self.enclosing_guards)
        {
            return self.term(&cases, lazy);
        }
        if let Expr::Index(index) = expr
            && let Some(arithmetic) = nonlinear::arithmetic(index, &self.proofs)
        {
            return self.term(&arithmetic, lazy);
        }
        let mut boxed = |it: &Expr| self.term(it, lazy).map(Box::new);
        let kind = match expr {
            Expr::Const(literal, _) => TermKind::Bits(literal_bits(*literal, dtype, width)?),
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

    pub(super) fn flatten(&mut self, poly: &Poly) -> Result<Affine, Unsupported> {
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

    /// Converts an atom that contains variables; `None` for other atoms.
    fn flatten_atom(&mut self, atom: &Atom) -> Result<Option<Affine>, Unsupported> {
        let (op, a, b) = match atom {
            Atom::Dim(_) => return Ok(None),
            Atom::Var(var) => {
                let substituted = &self.substituted[var.0 as usize];
                return Ok(Some(substituted.clone().unwrap_or_else(|| Affine::var(*var))));
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
        if self.divides
            && let Some(form) = self.divided(&derived)
        {
            return Ok(Some(form));
        }
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
            DerivedOp::Min => a.lesser(b),
            DerivedOp::Max => a.greater(b),
        }
    }

    /// Simplifies `b * (a / b) + a % b` to `a`, so that accesses in the order of a fused loop are
    /// contiguous.
    fn recombine_div_mod(&self, form: &mut Affine) {
        while let Some((quotient, remainder, coefficient)) = self.div_mod_pair(form) {
            let Some(derived) = &self.tree.var(remainder).derived else { return };
            let whole = derived.a.clone();
            form.take(quotient);
            form.take(remainder);
            form.add_scaled(&whole, &coefficient);
        }
    }

    fn div_mod_pair(&self, form: &Affine) -> Option<(VarId, VarId, Coef)> {
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

pub(super) fn is_serial(node: &Node) -> bool {
    matches!(node, Node::Loop(it) if it.kind == LoopMode::Serial)
}

fn reduces_into(body: &[Stmt], var: VarId, is_wanted: &dyn Fn(TensorId) -> bool) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::For { body, .. } | Stmt::If { body, .. } => reduces_into(body, var, is_wanted),
        Stmt::Store { .. } => false,
        Stmt::Update { tensor, index, .. } => {
            is_wanted(*tensor) && !index.iter().any(|it| it.mentions(var))
        }
    })
}
