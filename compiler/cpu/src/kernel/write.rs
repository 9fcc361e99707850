//! Stores and updates: where elements are, which lanes take part, and sums over lanes.

use super::affine::{Affine, Coef, LANE};
use super::cse::Pending;
use super::graph::{self, Id, MaskOp, Op};
use super::place::Place;
use super::scope::{Cause, Limit, Living, Lower, Sum, Target};
use super::tree::{Access, TermKind, Write, literal_bits};
use super::{
    Address, Base, Count, Lanes, Linear, Reg, Stmt, Storage, Unsupported, Value, VectorBinary,
    VectorCompare,
};
use tvmtune_ir::dag::{DType, Reducer, TensorId};

/// Vectors that are added up side by side.
const SUM_CHAINS: usize = 4;

impl<'t> Lower<'t> {
    pub(super) fn write(&mut self, write: &'t Write) -> Result<(), Unsupported> {
        self.assign(write)?;
        write.prefetches.iter().try_for_each(|it| self.prefetch(it))
    }

    fn assign(&mut self, write: &'t Write) -> Result<(), Unsupported> {
        let tensor = write.target.tensor;
        let dtype = self.tree.buffers[tensor.0 as usize].dtype;
        let target = self.target(&write.target, true)?;
        let rounds_itself = matches!(target, Target::Memory { .. });
        let value = match &write.value.kind {
            // Memory of that type rounds what is stored.
            TermKind::Cast(inner)
                if rounds_itself && inner.dtype == DType::F32 && dtype.is_float() =>
            {
                self.term(inner)?
            }
            _ => self.term(&write.value)?,
        };
        let Some(reducer) = write.reducer else { return self.store(&write.target, target, value) };
        let adds_lanes = self.lane.is_some_and(|lane| {
            !self.tree.mentions(&write.target.offset, lane)
                && !self.places.home(tensor).contains(&lane)
        });
        if adds_lanes {
            return self.add_lanes(write, target, value);
        }
        let value = match write.fresh {
            true => value,
            false => {
                let old = self.load_target(target)?;
                self.combine(reducer, dtype, value, old)
            }
        };
        self.store(&write.target, target, value)
    }

    /// `reducer(value, old)`, where the old value is no NaN unless sums made it one.
    fn combine(&mut self, reducer: Reducer, dtype: DType, value: Id, old: Id) -> Id {
        let graph = self.graph();
        if let (Reducer::Sum, Op::Binary(VectorBinary::MulF, a, b)) = (reducer, graph.op(value)) {
            return graph.fma(a, b, old);
        }
        let sum = graph.binary(reducing_op(reducer, dtype), value, old);
        self.wrap(sum, dtype)
    }

    fn load_target(&mut self, target: Target) -> Result<Id, Unsupported> {
        Ok(match target {
            Target::Register(reg) => self.reg(reg),
            Target::Memory { tensor, address, lanes, storage } => {
                let mask = match lanes {
                    Lanes::Uniform => MaskOp::All,
                    _ => self.mask(&|_, _| true)?,
                };
                let epoch = self.epochs[tensor.0 as usize];
                let place = graph::Place { address, storage, mask, epoch };
                self.graph().node(Op::Load(place, lanes))
            }
        })
    }

    pub(super) fn reg(&mut self, reg: Reg) -> Id {
        let version = self.versions[reg.0 as usize];
        self.graph().node(Op::Reg(reg, version))
    }

    fn store(&mut self, access: &Access, target: Target, value: Id) -> Result<(), Unsupported> {
        match target {
            Target::Register(reg) => {
                let mask = self.mask(&|this, cause| !this.is_unread(access, cause))?;
                if mask != MaskOp::All && self.versions[reg.0 as usize] == 0 {
                    self.unset(access.tensor, reg);
                }
                self.set(reg, value, mask)
            }
            Target::Memory { tensor, address, lanes, storage } => {
                let mask = match lanes {
                    Lanes::Uniform => MaskOp::All,
                    _ => self.mask(&|_, _| true)?,
                };
                self.push(Pending::Store { address, lanes, storage, value, mask })?;
                self.epochs[tensor.0 as usize] += 1;
                Ok(())
            }
        }
    }

    /// Adds a vector to a sum over lanes, which is complete when its loop is.
    fn add_lanes(
        &mut self,
        write: &'t Write,
        target: Target,
        value: Id,
    ) -> Result<(), Unsupported> {
        let (tensor, Some(reducer)) = (write.target.tensor, write.reducer) else { return Ok(()) };
        let dtype = self.tree.buffers[tensor.0 as usize].dtype;
        let mask = self.mask(&|_, _| true)?;
        let at =
            self.sums.iter().position(|it| std::ptr::eq(it.write, write) && it.target == target);
        if let Some(at) = at
            && self.sums[at].chains.len() == SUM_CHAINS
            && self.sums_block == self.blocks.len()
        {
            let turn = self.sums[at].n_vectors % SUM_CHAINS;
            let reg = self.sums[at].chains[turn];
            let old = self.reg(reg);
            let value = self.combine(reducer, dtype, value, old);
            self.sums[at].n_vectors += 1;
            return self.set(reg, value, mask);
        }
        let identity = literal_bits(reducer.identity(dtype), dtype)?;
        let identity = self.graph().splat(identity);
        let mut value = match mask {
            MaskOp::All => value,
            // Lanes that are not loaded are 0 already.
            mask if reducer == Reducer::Sum && self.is_load(value, mask) => value,
            mask => {
                let condition = self.truth(mask)?;
                self.graph().select(condition, value, identity)
            }
        };
        if dtype.is_float() && matches!(reducer, Reducer::Min | Reducer::Max) {
            // A NaN must not become the start of a chain.
            value = self.combine(reducer, dtype, value, identity);
        }
        if self.sums_block != self.blocks.len() {
            return self.finish_sum(write, target, value);
        }
        let reg = self.new_reg();
        self.set(reg, value, MaskOp::All)?;
        match at {
            Some(at) => {
                self.sums[at].chains.push(reg);
                self.sums[at].n_vectors += 1;
            }
            None => self.sums.push(Sum { write, target, chains: vec![reg], n_vectors: 1 }),
        }
        Ok(())
    }

    fn is_load(&mut self, value: Id, mask: MaskOp) -> bool {
        matches!(self.graph().op(value), Op::Load(place, _) if place.mask == mask)
    }

    pub(super) fn begin_sums(&mut self) {
        self.sums_block = self.blocks.len();
    }

    pub(super) fn end_sums(&mut self) -> Result<(), Unsupported> {
        for sum in std::mem::take(&mut self.sums) {
            let Some(reducer) = sum.write.reducer else { continue };
            let dtype = self.tree.buffers[sum.write.target.tensor.0 as usize].dtype;
            let mut values: Vec<Id> = sum.chains.iter().map(|it| self.reg(*it)).collect();
            while values.len() > 1 {
                let half = values.len() / 2;
                let more = values.split_off(values.len() - half);
                for (value, other) in values.iter_mut().zip(more) {
                    *value = self.combine(reducer, dtype, *value, other);
                }
            }
            self.finish_sum(sum.write, sum.target, values[0])?;
        }
        Ok(())
    }

    /// Adds up the lanes of a vector and updates the element.
    fn finish_sum(&mut self, write: &Write, target: Target, value: Id) -> Result<(), Unsupported> {
        let (tensor, Some(reducer)) = (write.target.tensor, write.reducer) else { return Ok(()) };
        let dtype = self.tree.buffers[tensor.0 as usize].dtype;
        let sum = self.graph().reduce(reducing_op(reducer, dtype), value);
        let mut sum = self.wrap(sum, dtype);
        if !write.fresh {
            let old = self.load_target(target)?;
            sum = self.combine(reducer, dtype, sum, old);
        }
        match target {
            Target::Register(reg) => self.set(reg, sum, MaskOp::All),
            memory @ Target::Memory { .. } => self.store(&write.target, memory, sum),
        }
    }

    /// The place of an element; lanes of a vector are told by the address.
    pub(super) fn target(&mut self, access: &Access, writes: bool) -> Result<Target, Unsupported> {
        let tensor = access.tensor;
        let mut offset = self.eval(&access.offset)?;
        let (base, start) = match self.places.local(tensor) {
            Some(Place::Registers) => {
                offset.take(LANE);
                let at = offset.as_constant().ok_or(Unsupported::Index)?;
                return Ok(Target::Register(self.register(tensor, at, writes)));
            }
            Some(Place::Memory(base, start)) => (*base, start.clone()),
            None => {
                let slot = self.table.pointer(tensor).ok_or(Unsupported::Index)?;
                (Base::Table(slot), tvmtune_ir::poly::Poly::default())
            }
        };
        let dtype = self.tree.buffers[tensor.0 as usize].dtype;
        let storage = Storage::of(dtype).ok_or(Unsupported::Type(dtype))?;
        let lanes = match offset.take(LANE) {
            None => Lanes::Uniform,
            Some(Coef::Const(1)) => Lanes::Contiguous,
            Some(step) => {
                let bytes = self.table.count(&(step.to_poly() * storage.bytes()));
                Lanes::Strided(bytes)
            }
        };
        let mut bytes = offset.scaled(storage.bytes());
        bytes.add_dims(start);
        let address = Address { base, offset: self.table.linear(&bytes) };
        let address = self.interned.address(address);
        Ok(Target::Memory { tensor, address, lanes, storage })
    }

    fn register(&mut self, tensor: TensorId, at: i64, writes: bool) -> Reg {
        if let Some(reg) = self.places.reg(tensor, at) {
            return reg;
        }
        let reg = self.new_reg();
        self.places.map(tensor, at, reg);
        let living = self.living.iter().rev().find(|it| it.tensors.contains(&tensor));
        let certain = writes && living.is_some_and(|it| it.block + 1 == self.blocks.len());
        if !certain {
            self.unset(tensor, reg);
        }
        reg
    }

    fn unset(&mut self, tensor: TensorId, reg: Reg) {
        if let Some(living) = self.living.iter_mut().rev().find(|it| it.tensors.contains(&tensor)) {
            living.unset.push(reg);
        }
    }

    /// Enters the scope in which local tensors live.
    pub(super) fn begin(&mut self, tensors: Vec<TensorId>) {
        self.places.forget(&tensors);
        let block = self.blocks.len() - 1;
        let at = self.block().stmts.len();
        self.living.push(Living { tensors, block, at, unset: Vec::new() });
    }

    /// Leaves it: what may be read before it is assigned starts at 0.
    pub(super) fn end(&mut self) {
        let Some(living) = self.living.pop() else { return };
        self.places.forget(&living.tensors);
        let mut unset = living.unset;
        unset.sort_unstable();
        unset.dedup();
        let zero = |reg| Stmt::Set { reg, value: Value::Splat(0), mask: None };
        let at = living.at;
        self.blocks[living.block].stmts.splice(at..at, unset.into_iter().map(zero));
    }

    /// The lanes that take part, as far as causes are `wanted`.
    pub(super) fn mask(
        &mut self,
        wanted: &dyn Fn(&Self, Cause) -> bool,
    ) -> Result<MaskOp, Unsupported> {
        if self.masks.is_empty() {
            return Ok(MaskOp::All);
        }
        let chosen = self.masks.iter().filter(|it| wanted(self, it.cause));
        let chosen: Vec<Limit> = chosen.map(|it| it.limit.clone()).collect();
        let mut all = MaskOp::All;
        for limit in chosen {
            let mask = match limit {
                Limit::First(count) => MaskOp::First(count),
                Limit::True(id) => MaskOp::Where(id),
                Limit::Negative(form) => {
                    let value = self.index(form)?;
                    let zero = self.graph().int(0);
                    MaskOp::Where(self.graph().compare(VectorCompare::LtI, value, zero))
                }
            };
            all = match (all, mask) {
                (MaskOp::All, other) => other,
                (a, b) if a == b => a,
                (MaskOp::First(Count::Const(a)), MaskOp::First(Count::Const(b))) => {
                    MaskOp::First(Count::Const(a.min(b)))
                }
                (a, b) => {
                    let (a, b) = (self.truth(a)?, self.truth(b)?);
                    MaskOp::Where(self.graph().binary(VectorBinary::And, a, b))
                }
            };
        }
        Ok(all)
    }

    /// A mask as a truth value.
    pub(super) fn truth(&mut self, mask: MaskOp) -> Result<Id, Unsupported> {
        Ok(match mask {
            MaskOp::All => self.graph().truth(true),
            MaskOp::Where(id) => id,
            MaskOp::First(count) => {
                let bound = match count {
                    Count::Const(n) => Linear::constant(n),
                    Count::Param(slot) => Linear { param: Some(slot), ..Linear::default() },
                };
                let lane = self.index(Affine::var(LANE))?;
                let bound = match bound.param {
                    None => self.graph().int(bound.constant as i32),
                    Some(_) => {
                        let base = self.interned.linear(bound);
                        self.graph().node(Op::Index { base, step: 0 })
                    }
                };
                self.graph().compare(VectorCompare::LtI, lane, bound)
            }
        })
    }

    /// Whether lanes excluded for that cause hold elements that nobody reads: then writing them,
    /// in a register, does no harm. A guard about anything but the element itself is another
    /// matter: it says that the element keeps its value.
    fn is_unread(&self, access: &Access, cause: Cause) -> bool {
        let home = self.places.home(access.tensor);
        let own = |var| home.contains(&var) || self.tree.mentions(&access.offset, var);
        match cause {
            Cause::Extent(var) => own(var),
            Cause::Guard { id, .. } => self.tree.leaves(&self.tree.guards[id]).into_iter().all(own),
            Cause::Condition => false,
        }
    }
}

/// The vector operation that combines values of a type.
pub(super) fn reducing_op(reducer: Reducer, dtype: DType) -> VectorBinary {
    match (reducer, dtype.is_float()) {
        (Reducer::Sum, true) => VectorBinary::AddF,
        (Reducer::Prod, true) => VectorBinary::MulF,
        (Reducer::Max, true) => VectorBinary::MaxF,
        (Reducer::Min, true) => VectorBinary::MinF,
        (Reducer::Sum, false) => VectorBinary::AddI,
        (Reducer::Prod, false) => VectorBinary::MulI,
        (Reducer::Max, false) => VectorBinary::MaxI,
        (Reducer::Min, false) => VectorBinary::MinI,
        (Reducer::Any, _) => VectorBinary::Or,
        (Reducer::All, _) => VectorBinary::And,
    }
}
