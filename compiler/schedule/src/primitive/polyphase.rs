//! Polyphase decomposition: a reduction whose terms depend on remainders of its indices, computed for each
//! remainder on its own.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{Instruction, ReductionOrder, Schedule, Stage, StageId};
use tvmtune_ir::dag::bounds::{PathFacts, negated};
use tvmtune_ir::dag::{BinaryOp, CompareOp, Compute, ComputeAxis, Expr, TensorId, UnaryOp};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};

/// The most phases of an axis; strides of networks have up to 16, blocks of channels some hundreds.
const MAX_PHASES: i64 = 1024;

/// A condition that a term must meet: `a op b`.
type Condition = (CompareOp, Poly, Poly);

impl Schedule {
    /// Computes a reduction for each remainder of the spatial indices that it divides, and there only the
    /// terms that remain; returns the stage that reduces. The original stage then copies.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// c[i] = sum(k < 4, if (i + k + 1) % 2 == 0 { a[(i + k + 1) / 2 - k] * w[k] } else { 0 })
    /// =>
    /// c_phases[p, q] = sum(l < 2, a[q - l + 1] * w[2*l - p + 1])
    /// c[i] = c_phases[i % 2, i / 2]
    /// ```
    ///
    /// Phases that leave out terms come before the axes that have them: each is a reduction of its own.
    /// Others, such as the channels of a group, follow their quotient.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotReduction`] if the stage does not reduce, [`ErrorKind::NotPeriodic`] if no term
    ///   depends on remainders, or on others than those of spatial indices by a constant.
    /// - [`ErrorKind::FixedNumerics`] if the program fixes another order than a sequence: terms that remain have
    ///   other places then. Of a sequence, terms that vanish change nothing: a sum of terms under conditions
    ///   is never -0.0. Products under conditions are rounded before they are added.
    /// - [`ErrorKind::AlreadyScheduled`] if its loops were changed, [`ErrorKind::HasAttached`] if a
    ///   stage runs in it, [`ErrorKind::NotRoot`] if it reads what runs in another stage.
    /// - [`ErrorKind::TooLarge`] if the phases together could have more than 2^53 elements.
    ///
    /// # Source
    ///
    /// Polyphase filters (Bellanger, Bonnerot and Coudreuse, 1976); for transposed convolutions, the
    /// decomposition by sub-kernels of oneDNN and cuDNN.
    pub fn polyphase(&mut self, stage: StageId) -> Result<StageId, ScheduleError> {
        let Stage { compute, reduction: order, .. } = self.live_stage(stage)?.clone();
        let is_kept = matches!(order, ReductionOrder::Any | ReductionOrder::Sequence);
        refuse_if(!is_kept, ErrorKind::FixedNumerics.of_stage(stage))?;
        let reducer = compute.reducer.ok_or(ErrorKind::NotReduction.of_stage(stage))?;
        self.check_untouched(stage)?;
        self.check_reads_roots(stage)?;
        let origin = self.tensor(compute.tensor).tensor.clone();
        let facts = self.dag.facts();
        let identity = Expr::Const(reducer.identity(origin.dtype), origin.dtype);
        let (conditions, term) = conditions_and_term(&compute.body, &identity);
        let phases = Phases::of(&compute, &conditions, term);
        let phases = phases.ok_or(ErrorKind::NotPeriodic.of_stage(stage))?;

        let (reduction, tensor) = self.next_ids();
        let reduce = phases.reduction(&compute, tensor, (&conditions, term), &identity, &facts);
        let mut reduce = reduce.ok_or(ErrorKind::NotPeriodic.of_stage(stage))?;
        if order == ReductionOrder::Sequence {
            // Products under conditions are rounded before they are added, and others are not.
            let is_choice = |it: &Compute| matches!(it.body, Expr::Select { .. });
            if is_choice(&compute) {
                reduce.body = reduce.body.rounded(origin.dtype);
            } else {
                refuse_if(is_choice(&reduce), ErrorKind::FixedNumerics.of_stage(stage))?;
            }
        }
        self.check_stage_size(stage, &reduce)?;
        if !phases.are_whole(&compute, &facts) {
            // Elements beyond the end are computed too: what they read must be there.
            let known = PathFacts::new(reduce.facts(&facts));
            let shape = |it: TensorId| self.tensor(it).tensor.shape.clone();
            let is_inside = known.reads_in_bounds(&reduce.body, &shape, self);
            refuse_if(!is_inside, ErrorKind::NotPeriodic.of_stage(stage))?;
        }
        let copy = Compute {
            axes: compute.axes[..compute.n_spatial].to_vec(),
            reducer: None,
            body: Expr::read(tensor, phases.index(&compute, &compute.facts(&facts))),
            ..compute
        };
        let attach = self.stage(stage).attach;
        self.add_stage_before(stage, reduce, &origin, "phases");
        self.stage_mut(reduction).reduction = order;
        *self.stage_mut(stage) = Stage { attach, ..Stage::new(copy) };
        self.trace.push(Instruction::Polyphase { stage });
        Ok(reduction)
    }
}

/// Splits the body of a reduction into conditions without which a term is the identity, and the term.
fn conditions_and_term<'e>(body: &'e Expr, identity: &Expr) -> (Vec<Condition>, &'e Expr) {
    let (mut conditions, mut term) = (Vec::new(), body);
    while let Expr::Select { condition, then, otherwise } = term {
        let (holds, next) = match (&**then, &**otherwise) {
            (then, otherwise) if otherwise == identity => (true, then),
            (then, otherwise) if then == identity => (false, otherwise),
            _ => break,
        };
        let n_before = conditions.len();
        if !conjuncts(condition, holds, &mut conditions) {
            conditions.truncate(n_before);
            break;
        }
        term = next;
    }
    (conditions, term)
}

/// Adds the comparisons of indices that all hold exactly where the condition does, or does not; returns
/// whether there are such.
fn conjuncts(condition: &Expr, holds: bool, found: &mut Vec<Condition>) -> bool {
    match condition {
        Expr::Unary(UnaryOp::Not, a) => conjuncts(a, !holds, found),
        Expr::Binary(BinaryOp::And, a, b) if holds => {
            conjuncts(a, true, found) && conjuncts(b, true, found)
        }
        Expr::Binary(BinaryOp::Or, a, b) if !holds => {
            conjuncts(a, false, found) && conjuncts(b, false, found)
        }
        Expr::Compare(op, a, b) => {
            let (Expr::Index(a), Expr::Index(b)) = (&**a, &**b) else { return false };
            let op = if holds { *op } else { negated(*op) };
            found.push((op, a.clone(), b.clone()));
            true
        }
        _ => false,
    }
}

/// `value % modulus == residue`
struct Congruence {
    value: Poly,
    modulus: i64,
    residue: i64,
}

impl Congruence {
    fn of((op, a, b): &Condition) -> Option<Self> {
        let difference = with_remainders(&(a.clone() - b.clone()));
        let residue = -difference.constant_term();
        let remainder = difference + Poly::constant(residue);
        let mut terms = remainder.terms();
        let (CompareOp::Eq, Some(([Atom::Mod(value, by)], 1)), None) =
            (op, terms.next(), terms.next())
        else {
            return None;
        };
        let modulus = by.as_constant()?;
        let value = (**value).clone();
        let is_small = modulus <= MAX_PHASES && (0..modulus).contains(&residue);
        is_small.then_some(Self { value, modulus, residue })
    }

    /// Finds a reduce variable that the congruence determines up to multiples of the modulus, given
    /// spatial ones; returns it with the inverse of its step.
    fn determined(&self, compute: &Compute) -> Option<(VarId, i64)> {
        let mut reduced = compute.reduce_vars().filter(|it| self.value.mentions(*it));
        let (var, None) = (reduced.next()?, reduced.next()) else { return None };
        let step = self.value.step(var)?.rem_euclid(self.modulus);
        let inverse = (1..self.modulus).find(|it| (step * it).rem_euclid(self.modulus) == 1)?;
        Some((var, inverse))
    }
}

/// Writes `a - n * (a / n)` as the remainder that it is.
fn with_remainders(poly: &Poly) -> Poly {
    let mut out = Poly::default();
    for (atoms, value) in poly.terms() {
        out += match atoms {
            [Atom::Div(a, b)] => match b.as_constant() {
                Some(by) if value % by == 0 => {
                    let remainder = Poly::atom(Atom::Mod(a.clone(), b.clone()));
                    ((**a).clone() - remainder) * (value / by)
                }
                _ => Poly::atom(Atom::Div(a.clone(), b.clone())) * value,
            },
            atoms => {
                let atoms = atoms.iter().map(|it| Poly::atom(it.clone()));
                atoms.fold(Poly::constant(value), |product, it| product * it)
            }
        };
    }
    out
}

/// The remainders by which a reduction is split.
#[derive(Default)]
struct Phases {
    /// The divisor of each spatial axis that is split into quotient and remainder.
    divisors: BTreeMap<VarId, i64>,
    /// Those of these axes whose remainder decides which terms there are.
    selecting: BTreeSet<VarId>,
    /// The reduce axes of which not every iteration remains.
    sparse: BTreeMap<VarId, Sparse>,
}

/// The part of a spatial axis that an axis of the phases is.
#[derive(Clone, Copy)]
enum Part {
    Whole,
    Quotient,
    Phase,
}

/// A reduce axis of which one of `modulus` iterations meets a condition.
struct Sparse {
    /// The number of the condition.
    condition: usize,
    modulus: i64,
    /// The inverse of the axis's step in the condition.
    inverse: i64,
}

impl Phases {
    /// `None` if the reduction has no phases.
    fn of(compute: &Compute, conditions: &[Condition], term: &Expr) -> Option<Self> {
        let mut phases = Self::default();
        for (number, condition) in conditions.iter().enumerate() {
            let Some(congruence) = Congruence::of(condition) else { continue };
            let Some((var, inverse)) = congruence.determined(compute) else { continue };
            let modulus = congruence.modulus;
            if let Entry::Vacant(entry) = phases.sparse.entry(var) {
                entry.insert(Sparse { condition: number, modulus, inverse });
                phases.divide(compute, &congruence.value, &Poly::constant(modulus))?;
                let divided = phases.divisors.keys().copied();
                phases.selecting.extend(divided.filter(|it| congruence.value.mentions(*it)));
            }
        }
        // An index of blocks, of which a reduced one is added to the first element.
        let mut has_blocks = false;
        let mut divisions = Vec::new();
        term.for_each_poly(&mut |poly| {
            let n_before = divisions.len();
            poly.for_each_division(&mut |value, by| divisions.push((value.clone(), by.clone())));
            let reduces = compute.reduce_vars().any(|it| poly.mentions(it));
            has_blocks |= reduces && divisions.len() > n_before;
        });
        if !has_blocks && phases.sparse.is_empty() {
            return None;
        }
        for (value, by) in &divisions {
            phases.divide(compute, value, by)?;
        }
        (!phases.divisors.is_empty()).then_some(phases)
    }

    /// Splits the spatial axes on which a value's remainder depends; `None` if the divisor is no constant,
    /// or an axis has two divisors of which none divides the other.
    fn divide(&mut self, compute: &Compute, value: &Poly, by: &Poly) -> Option<()> {
        let by = by.as_constant().filter(|it| *it <= MAX_PHASES)?;
        for var in compute.spatial_vars().filter(|it| value.mentions(*it)) {
            if value.step(var)?.rem_euclid(by) == 0 {
                continue;
            }
            let divisor = self.divisors.entry(var).or_insert(by);
            let (lesser, greater) = (by.min(*divisor), by.max(*divisor));
            (greater % lesser == 0).then_some(())?;
            *divisor = greater;
        }
        Some(())
    }

    /// Returns whether each divisor divides the extent of its axis.
    fn are_whole(&self, compute: &Compute, facts: &Facts) -> bool {
        self.divisors.iter().all(|(var, by)| {
            let extent = &compute.axes[var.0 as usize].extent;
            extent.modulo(&Poly::constant(*by), facts).is_zero()
        })
    }

    /// Returns the spatial axes of the phases.
    fn parts(&self, compute: &Compute) -> Vec<(VarId, Part)> {
        let mut parts = Vec::new();
        for var in compute.spatial_vars() {
            let is_first = |it: &VarId| self.selecting.first() == Some(it);
            if is_first(&var) {
                parts.extend(self.selecting.iter().map(|it| (*it, Part::Phase)));
            }
            match (self.divisors.contains_key(&var), self.selecting.contains(&var)) {
                (false, _) => parts.push((var, Part::Whole)),
                (true, true) => parts.push((var, Part::Quotient)),
                (true, false) => parts.extend([(var, Part::Quotient), (var, Part::Phase)]),
            }
        }
        parts
    }

    /// Returns the place of an element among the phases.
    fn index(&self, compute: &Compute, facts: &Facts) -> Vec<Poly> {
        let place = |(var, part): (VarId, Part)| {
            let by = Poly::constant(self.divisors.get(&var).copied().unwrap_or(1));
            let (quotient, phase) = Poly::var(var).div_mod(&by, facts);
            match part {
                Part::Whole | Part::Quotient => quotient,
                Part::Phase => phase,
            }
        };
        self.parts(compute).into_iter().map(place).collect()
    }

    /// Returns the reduction for each phase; `None` if something else than phases is still divided.
    fn reduction(
        &self,
        compute: &Compute,
        tensor: TensorId,
        (conditions, term): (&[Condition], &Expr),
        identity: &Expr,
        facts: &Facts,
    ) -> Option<Compute> {
        let mut split = self.split_axes(compute, facts);
        let n_spatial = split.n_spatial;
        let facts = split.facts(facts);
        let mut left: Vec<Condition> = Vec::new();
        for (var, sparse) in &self.sparse {
            let Congruence { value, residue, .. } = Congruence::of(&conditions[sparse.condition])?;
            let modulus = Poly::constant(sparse.modulus);
            let own = split.take(*var);
            let rest = split.replaced(&value, &facts);
            let first =
                ((Poly::constant(residue) - rest) * sparse.inverse).modulo(&modulus, &facts);
            let value = own * sparse.modulus + split.simplified(&first);
            let extent = compute.axes[var.0 as usize].extent.clone();
            if !extent.modulo(&modulus, &facts).is_zero() {
                left.push((CompareOp::Lt, value.clone(), extent));
            }
            split.values[var.0 as usize] = value;
        }
        let is_met = |number: &usize| self.sparse.values().any(|it| it.condition == *number);
        for number in (0..conditions.len()).filter(|it| !is_met(it)) {
            let (op, a, b) = &conditions[number];
            left.push((*op, split.replaced(a, &facts), split.replaced(b, &facts)));
        }
        let known = PathFacts::new(facts.clone());
        left.retain(|(op, a, b)| known.decides(*op, a, b) != Some(true));
        let mut body = term.map_polys(&mut |poly| split.replaced(poly, &facts));
        let and = |a: Expr, b: Expr| a.binary(BinaryOp::And, b);
        let compared = |(op, a, b)| Expr::Index(a).compare(op, Expr::Index(b));
        if let Some(condition) = left.into_iter().map(compared).reduce(and) {
            body = condition.select(body, identity.clone());
        }
        let mut is_open = false;
        body.for_each_poly(&mut |poly| {
            let is_phase = |it: VarId| split.phases.contains_key(&it);
            poly.for_each_division(&mut |value, _| {
                value.for_each_leaf(&mut |it| {
                    is_open |= !matches!(it, Atom::Var(var) if is_phase(*var));
                });
            });
        });
        let reducer = compute.reducer;
        (!is_open).then_some(Compute { tensor, axes: split.axes, n_spatial, reducer, body })
    }

    fn split_axes(&self, compute: &Compute, facts: &Facts) -> SplitAxes {
        let (mut axes, mut phases) = (Vec::new(), BTreeMap::new());
        let mut values = vec![Poly::default(); compute.axes.len()];
        let mut add = |name: String, extent: Poly| {
            axes.push(ComputeAxis { name, extent });
            VarId(axes.len() as u32 - 1)
        };
        let parts = self.parts(compute);
        let n_spatial = parts.len();
        let reduced = compute.reduce_vars().map(|it| (it, Part::Whole));
        for (var, part) in parts.into_iter().chain(reduced) {
            let axis = &compute.axes[var.0 as usize];
            let name = &axis.name;
            let by = self.divisors.get(&var).copied().unwrap_or(1);
            values[var.0 as usize] += match part {
                Part::Whole => {
                    let by = self.sparse.get(&var).map_or(1, |it| it.modulus);
                    Poly::var(add(name.clone(), axis.extent.ceil_div(by, facts)))
                }
                Part::Quotient => {
                    Poly::var(add(format!("{name}_q"), axis.extent.ceil_div(by, facts))) * by
                }
                Part::Phase => {
                    let phase = add(format!("{name}_p"), Poly::constant(by));
                    phases.insert(phase, by);
                    Poly::var(phase)
                }
            };
        }
        SplitAxes { axes, n_spatial, values, phases }
    }
}

/// The axes of a reduction by phases.
struct SplitAxes {
    axes: Vec<ComputeAxis>,
    n_spatial: usize,
    /// The value of each variable of the original reduction.
    values: Vec<Poly>,
    /// The variables of phases, and how many phases they have.
    phases: BTreeMap<VarId, i64>,
}

impl SplitAxes {
    fn facts(&self, dims: &Facts) -> Facts {
        let mut facts = dims.clone();
        for (n, axis) in self.axes.iter().enumerate() {
            facts.bound_var(VarId(n as u32), axis.extent.clone());
        }
        facts
    }

    /// Returns the value of a variable, which is 0 from then on.
    fn take(&mut self, var: VarId) -> Poly {
        std::mem::take(&mut self.values[var.0 as usize])
    }

    /// Rewrites a polynomial in the original variables.
    fn replaced(&self, poly: &Poly, facts: &Facts) -> Poly {
        let value = |var: VarId| Some(self.values[var.0 as usize].clone());
        self.simplified(&poly.substitute_vars(&value, facts))
    }

    /// Replaces quotients and remainders of a phase that are linear in it, as all of two phases are.
    fn simplified(&self, poly: &Poly) -> Poly {
        let mut out = Poly::default();
        for (atoms, value) in poly.terms() {
            let linear = |it: &Atom| self.linear(it).unwrap_or_else(|| Poly::atom(it.clone()));
            out += atoms.iter().map(linear).fold(Poly::constant(value), |product, it| product * it);
        }
        out
    }

    fn linear(&self, atom: &Atom) -> Option<Poly> {
        if !matches!(atom, Atom::Div(..) | Atom::Mod(..)) {
            return None;
        }
        let poly = Poly::atom(atom.clone());
        let (mut leaves, mut has_dims) = (Vec::new(), false);
        poly.for_each_leaf(&mut |it| match it {
            Atom::Var(var) => leaves.push(*var),
            _ => has_dims = true,
        });
        leaves.dedup();
        let [phase] = leaves[..] else { return None };
        let n_phases = self.phases.get(&phase).filter(|_| !has_dims)?;
        let at = |n: i64| poly.eval(&|_| 0, &|_| n);
        let (first, step) = (at(0), at(1) - at(0));
        let is_linear = (0..*n_phases).all(|n| at(n) == first + step * n);
        is_linear.then(|| Poly::var(phase) * step + Poly::constant(first))
    }
}
