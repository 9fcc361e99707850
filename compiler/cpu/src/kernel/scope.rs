//! Where lowering stands: what variables are bound to, which guards hold, the blocks being filled.

use super::affine::{Affine, Coef, LANE, gcd, poly_divisor};
use super::cse::{self, Budget, Pending};
use super::graph::{Graph, Id, Interned, MaskOp};
use super::place::Places;
use super::table::Table;
use super::tree::{DerivedOp, GuardId, Tree, Write};
use super::{Address, Count, Lanes, Quotient, Reg, Stmt, Storage, Unsupported};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::{Interval, Poly, VarId};
use tvmtune_ir::target::Isa;

/// Statements after which a kernel is refused: no schedule worth running is that long.
const MAX_STATEMENTS: usize = 30_000;

/// What stands for a variable of the nest.
#[derive(Clone, Debug)]
pub(super) enum Binding {
    /// Its loop was not entered.
    Unbound,
    Const(i64),
    /// A form over variables of the kernel.
    Form(Affine),
    /// That number and the lane.
    Lane(i64),
    /// `start / of`: multiples of `of` times it are wanted only.
    Part {
        start: Poly,
        of: i64,
    },
}

/// A block being filled.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) graph: Graph,
    pub(super) pending: Vec<Pending>,
    pub(super) stmts: Vec<Stmt>,
    lets: Vec<Let>,
    /// What is on its way already.
    pub(super) prefetched: Vec<Address>,
}

impl Block {
    fn new(isa: Isa) -> Self {
        let (pending, stmts, lets, prefetched) = Default::default();
        Self { graph: Graph::new(isa), pending, stmts, lets, prefetched }
    }
}

/// `var = value op by`, computed in a block.
#[derive(Debug)]
struct Let {
    op: Quotient,
    value: Affine,
    by: Count,
    var: VarId,
}

/// Which lanes take part, and because of what.
#[derive(Clone, Debug)]
pub(super) struct LaneMask {
    pub(super) limit: Limit,
    pub(super) cause: Cause,
}

/// What lanes must satisfy. Values are made anew in each block that asks.
#[derive(Clone, Debug)]
pub(super) enum Limit {
    First(Count),
    /// The form is below 0.
    Negative(Affine),
    /// The node, of the block being filled, is true.
    True(Id),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The vectorized loop ends.
    Extent(VarId),
    /// A guard; of one that may hold in no lane at all, that.
    Guard { id: GuardId, may_be_empty: bool },
    /// A condition within the statement.
    Condition,
}

/// Where an element, or a vector of them, is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    Register(Reg),
    Memory { tensor: TensorId, address: u32, lanes: Lanes, storage: Storage },
}

/// An update that adds up lanes, while its vectorized loop is walked through.
#[derive(Debug)]
pub(super) struct Sum<'t> {
    pub(super) write: &'t Write,
    pub(super) target: Target,
    /// What was added up so far.
    pub(super) chains: Vec<Reg>,
    pub(super) n_vectors: usize,
}

/// Local tensors in registers that live for one iteration.
#[derive(Debug)]
pub(super) struct Living {
    pub(super) tensors: Vec<TensorId>,
    pub(super) block: usize,
    pub(super) at: usize,
    /// Registers whose first assignment may not happen, or not in all lanes.
    pub(super) unset: Vec<Reg>,
}

/// The state of lowering. See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Lower<'t> {
    pub(super) tree: &'t Tree<'t>,
    pub(super) isa: Isa,
    pub(super) table: Table,
    pub(super) places: Places,
    pub(super) interned: Interned,
    /// By variable of the tree.
    pub(super) bind: Vec<Binding>,
    /// Fewer iterations than the extent, by variable of the tree.
    pub(super) limits: Vec<Option<i64>>,
    pub(super) proven: Vec<bool>,
    /// Ranges of variables of the kernel, and the blocks in which they are known.
    vars: Vec<(Interval, usize)>,
    pub(super) blocks: Vec<Block>,
    pub(super) masks: Vec<LaneMask>,
    /// The variable of the vectorized loop around.
    pub(super) lane: Option<VarId>,
    /// Writes so far, by register and by buffer.
    pub(super) versions: Vec<u32>,
    pub(super) epochs: Vec<u32>,
    /// Sums over lanes that are under way, and the block they are in.
    pub(super) sums: Vec<Sum<'t>>,
    pub(super) sums_block: usize,
    /// Scopes of local tensors that are in registers, innermost last.
    pub(super) living: Vec<Living>,
    n_statements: usize,
}

impl<'t> Lower<'t> {
    pub(super) fn new(tree: &'t Tree<'t>, isa: Isa, table: Table, places: Places) -> Self {
        Self {
            tree,
            isa,
            table,
            places,
            interned: Interned::default(),
            bind: vec![Binding::Unbound; tree.vars.len()],
            limits: vec![None; tree.vars.len()],
            proven: vec![false; tree.guards.len()],
            vars: Vec::new(),
            blocks: vec![Block::new(isa)],
            masks: Vec::new(),
            lane: None,
            versions: Vec::new(),
            epochs: vec![0; tree.buffers.len()],
            sums: Vec::new(),
            sums_block: 0,
            living: Vec::new(),
            n_statements: 0,
        }
    }

    pub(super) fn lanes(&self) -> i64 {
        i64::from(self.isa.lanes())
    }

    pub(super) fn block(&mut self) -> &mut Block {
        self.blocks.last_mut().expect("there is always an open block")
    }

    pub(super) fn graph(&mut self) -> &mut Graph {
        &mut self.block().graph
    }

    /// A variable of the kernel, known from the innermost block on.
    pub(super) fn new_var(&mut self, range: Interval) -> VarId {
        self.vars.push((range, self.blocks.len() - 1));
        VarId((self.tree.vars.len() + self.vars.len()) as u32 - 1)
    }

    /// A variable that is known throughout the phase that comes next.
    pub(super) fn new_task_var(&mut self, range: Interval) -> VarId {
        let var = self.new_var(range);
        self.vars.last_mut().expect("pushed above").1 += 1;
        var
    }

    pub(super) fn new_reg(&mut self) -> Reg {
        self.versions.push(0);
        Reg(self.versions.len() as u32 - 1)
    }

    /// Every value of a variable, of the tree or of the kernel.
    fn range(&self, var: VarId) -> Interval {
        if var == LANE {
            return Interval { lo: 0, hi: self.lanes() - 1 };
        }
        let at = var.0 as usize;
        match at.checked_sub(self.tree.vars.len()) {
            Some(at) => self.vars[at].0,
            None => match self.limits[at] {
                Some(limit) => Interval { lo: 0, hi: limit - 1 },
                None => self.tree.vars[at].range,
            },
        }
    }

    /// Every value of an evaluated form.
    pub(super) fn interval(&self, form: &Affine) -> Interval {
        form.interval(&self.tree.facts, &|var| self.range(var))
    }

    pub(super) fn is_bound(&self, var: VarId) -> bool {
        match &self.tree.var(var).derived {
            None => !matches!(self.bind[var.0 as usize], Binding::Unbound),
            Some(it) => it.a.terms.iter().chain(&it.b.terms).all(|(part, _)| self.is_bound(*part)),
        }
    }

    /// A form over the tree's variables as one over the kernel's; what is unbound stays.
    pub(super) fn eval(&mut self, form: &Affine) -> Result<Affine, Unsupported> {
        let mut out = Affine {
            constant: form.constant,
            dims: form.dims.clone(),
            terms: Vec::with_capacity(form.terms.len()),
        };
        for (var, coefficient) in &form.terms {
            if self.tree.var(*var).derived.is_some() {
                let value = self.derived(*var)?;
                out.add_scaled(&value, coefficient);
                continue;
            }
            match &self.bind[var.0 as usize] {
                Binding::Const(0) => {}
                Binding::Const(value) => match coefficient {
                    Coef::Const(factor) => out.constant += factor * value,
                    Coef::Dims(poly) => out.add_dims(poly.clone() * *value),
                },
                Binding::Unbound => out.add_term(*var, coefficient.clone()),
                Binding::Form(value) => out.add_scaled(value, coefficient),
                Binding::Lane(base) => {
                    out.add_scaled(&Affine::constant(*base), coefficient);
                    out.add_term(LANE, coefficient.clone());
                }
                Binding::Part { start, of } => {
                    out.add_dims(coefficient.exact_div(*of).to_poly() * start.clone());
                }
            }
        }
        Ok(out)
    }

    fn derived(&mut self, var: VarId) -> Result<Affine, Unsupported> {
        if !self.is_bound(var) {
            return Ok(Affine::var(var));
        }
        let tree = self.tree;
        let Some(derived) = &tree.var(var).derived else { return Err(Unsupported::Index) };
        let (a, b) = (self.eval(&derived.a)?, self.eval(&derived.b)?);
        let mut difference = a.clone();
        difference.add_scaled(&b, &Coef::Const(-1));
        let sign = self.interval(&difference);
        match derived.op {
            DerivedOp::Div => self.divide(Quotient::Div, a, b),
            DerivedOp::Mod => self.divide(Quotient::Mod, a, b),
            DerivedOp::Min if sign.hi <= 0 => Ok(a),
            DerivedOp::Min if sign.lo >= 0 => Ok(b),
            DerivedOp::Max if sign.lo >= 0 => Ok(a),
            DerivedOp::Max if sign.hi <= 0 => Ok(b),
            DerivedOp::Min | DerivedOp::Max => Err(Unsupported::Index),
        }
    }

    /// A quotient or remainder. What varies by less than the grain of the rest stays outside: so
    /// lanes that do not cross a multiple of the divisor share one quotient.
    fn divide(&mut self, op: Quotient, mut a: Affine, b: Affine) -> Result<Affine, Unsupported> {
        let range = self.interval(&a);
        if let (Some(a), Some(b)) = (a.as_dims(), b.as_dims()) {
            let facts = &self.tree.facts;
            return Ok(Affine::dims(match op {
                Quotient::Div => a.div(&b, facts),
                Quotient::Mod => a.modulo(&b, facts),
            }));
        }
        if range.lo >= 0 && range.hi < self.interval(&b).lo {
            return Ok(if op == Quotient::Div { Affine::default() } else { a });
        }
        let by = b.as_dims().ok_or(Unsupported::Index)?;
        let Some(divisor) = by.as_constant() else {
            if range.lo < 0 || a.coefficient(LANE).is_some() {
                return Err(Unsupported::Index);
            }
            return Ok(self.quotient(op, a, &by));
        };
        let fine = a.take(LANE);
        let grain = a.terms.iter().fold(divisor, |grain, (_, it)| gcd(grain, it.divisor()));
        let grain = gcd(grain, poly_divisor(&a.dims));
        let mut low = Affine::constant(a.constant.rem_euclid(grain));
        if let Some(step) = fine {
            low.add_term(LANE, step);
        }
        let low_range = self.interval(&low);
        if low_range.lo < 0 || low_range.hi >= grain {
            return Err(Unsupported::Index);
        }
        a.constant -= low.constant;
        let mut coarse = Affine::constant(a.constant / grain);
        coarse.add_dims(super::affine::exact_div(&a.dims, grain));
        for (var, it) in &a.terms {
            coarse.add_term(*var, it.exact_div(grain));
        }
        let by = divisor / grain;
        let least = self.interval(&coarse).lo;
        // The division is of numbers that are not negative.
        let lifted = if least < 0 { (-least + by - 1) / by } else { 0 };
        coarse.constant += lifted * by;
        let coarse = match (by, op) {
            (1, Quotient::Div) => coarse,
            (1, Quotient::Mod) => Affine::default(),
            _ => self.divide_coarse(op, coarse, by)?,
        };
        Ok(match op {
            Quotient::Div => {
                let mut quotient = coarse;
                quotient.constant -= lifted;
                quotient
            }
            Quotient::Mod => {
                low.add_scaled(&coarse, &Coef::Const(grain));
                low
            }
        })
    }

    fn divide_coarse(
        &mut self,
        op: Quotient,
        value: Affine,
        by: i64,
    ) -> Result<Affine, Unsupported> {
        let range = self.interval(&value);
        if range.hi < by {
            return Ok(if op == Quotient::Div { Affine::default() } else { value });
        }
        if let Some(value) = value.as_dims() {
            let (facts, by) = (&self.tree.facts, Poly::constant(by));
            return Ok(Affine::dims(match op {
                Quotient::Div => value.div(&by, facts),
                Quotient::Mod => value.modulo(&by, facts),
            }));
        }
        Ok(self.quotient(op, value, &Poly::constant(by)))
    }

    /// A variable that is computed, in the outermost block in which it can be.
    fn quotient(&mut self, op: Quotient, value: Affine, by: &Poly) -> Affine {
        let range = self.interval(&value);
        let divisor = by.interval(&self.tree.facts);
        let by = self.table.count(by);
        let lets = self.blocks.iter().flat_map(|it| &it.lets);
        for it in lets {
            if it.op == op && it.by == by && it.value == value {
                return Affine::var(it.var);
            }
        }
        let range = match op {
            Quotient::Div => Interval { lo: 0, hi: range.hi / divisor.lo.max(1) },
            Quotient::Mod => Interval { lo: 0, hi: (divisor.hi - 1).min(range.hi) },
        };
        let known = |var: &VarId| self.vars[var.0 as usize - self.tree.vars.len()].1;
        let depth = value.terms.iter().map(|(var, _)| known(var)).max().unwrap_or(0);
        let var = self.new_var(range);
        let at = var.0 as usize - self.tree.vars.len();
        self.vars[at].1 = depth;
        let linear = self.table.linear(&value);
        let block = &mut self.blocks[depth];
        block.stmts.push(Stmt::Let { var, op, value: linear, by });
        block.lets.push(Let { op, value, by, var });
        Affine::var(var)
    }

    /// Turns what was collected in the innermost block into statements.
    pub(super) fn flush(&mut self) {
        let new = Block::new(self.isa);
        let mut block = std::mem::replace(self.block(), new);
        let budget =
            Budget { registers: self.isa.registers() - 1, live: self.places.n_mapped() as u32 };
        cse::emit(
            &block.graph,
            &block.pending,
            &self.interned,
            budget,
            &mut || {
                self.versions.push(0);
                Reg(self.versions.len() as u32 - 1)
            },
            &mut block.stmts,
        );
        block.pending.clear();
        block.graph = Graph::new(self.isa);
        *self.block() = block;
    }

    /// Counts a statement.
    pub(super) fn push(&mut self, pending: Pending) -> Result<(), Unsupported> {
        self.n_statements += 1;
        if self.n_statements > MAX_STATEMENTS {
            return Err(Unsupported::TooLarge { statements: MAX_STATEMENTS });
        }
        self.block().pending.push(pending);
        Ok(())
    }

    /// Fills a nested block.
    pub(super) fn nested(
        &mut self,
        fill: &mut dyn FnMut(&mut Self) -> Result<(), Unsupported>,
    ) -> Result<Vec<Stmt>, Unsupported> {
        self.flush();
        self.blocks.push(Block::new(self.isa));
        let filled = fill(self);
        self.flush();
        let block = self.blocks.pop().expect("pushed above");
        filled.map(|()| block.stmts)
    }

    /// `reg = value` in the lanes of the mask.
    pub(super) fn set(&mut self, reg: Reg, value: Id, mask: MaskOp) -> Result<(), Unsupported> {
        self.push(Pending::Set { reg, value, mask })?;
        self.versions[reg.0 as usize] += 1;
        Ok(())
    }
}
