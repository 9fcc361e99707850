//! Lowering of stores: element addresses, lane masks, and reductions over lanes. Updates are in `accumulate.rs`.

use super::accumulate::reducing_op;
use super::affine::{Affine, Coef, LANE};
use super::allocate::Allocation;
use super::context::{
    ElementRef, LaneCondition, LaneReduction, Lowering, PredicateCause, RegisterScope,
};
use super::cse::PendingStmt;
use super::numbering::{self, MaskRef, Op, ValueId};
use super::tree::{Access, TermKind, Write, literal_bits};
use super::{
    Address, Base, Count, LaneStride, Linear, Reg, Stmt, Storage, Unsupported, Value, VectorBinary,
    VectorCompare,
};
use tvmtune_ir::dag::{DType, Numerics, Reducer, TensorId};
use tvmtune_math::lane::Width;

/// Interleaved accumulators of a reduction over lanes.
const N_ACCUMULATORS: usize = 4;

impl<'t> Lowering<'t> {
    pub(super) fn write(&mut self, write: &'t Write) -> Result<(), Unsupported> {
        self.assign(write)?;
        write.prefetches.iter().try_for_each(|(access, hint)| self.prefetch(access, *hint))
    }

    fn assign(&mut self, write: &'t Write) -> Result<(), Unsupported> {
        let tensor = write.target.tensor;
        let dtype = self.tree.buffers[tensor.0 as usize].dtype;
        let target = self.element_ref(&write.target, true)?;
        if let ElementRef::Words { words, lanes, .. } = target {
            return self.assign_words(write, words, lanes);
        }
        if write.reducer.is_some() {
            self.check_reduction(dtype)?;
        }
        let rounds_itself = matches!(target, ElementRef::Memory { .. });
        let value = match &write.value.kind {
            // The store rounds to the type in memory.
            TermKind::Cast(inner)
                if rounds_itself && self.is_float_of_lanes(inner.dtype) && dtype.is_float() =>
            {
                self.term(inner)?
            }
            _ => self.term(&write.value)?,
        };
        let value = match (target, write.reducer) {
            (ElementRef::Memory { storage, .. }, None) => self.graph().before_wrap(value, storage),
            _ => value,
        };
        let Some(reducer) = write.reducer else { return self.store(&write.target, target, value) };
        let reduces_lanes = self.lane.is_some_and(|lane| {
            !self.tree.mentions(&write.target.offset, lane)
                && !self.allocations.scope_loops(tensor).contains(&lane)
        });
        if reduces_lanes {
            return self.reduce_lanes(write, target, value);
        }
        let value = match write.overwrites {
            true => value,
            false => {
                let old = self.load_element(target)?;
                self.accumulate(write, reducer, value, old)?
            }
        };
        self.store(&write.target, target, value)
    }

    /// Refuses reductions that lanes of this width do not have: of `f32` in lanes of 64 bits, lanes are combined
    /// without rounding in between, and products are rounded before they are added.
    fn check_reduction(&self, dtype: DType) -> Result<(), Unsupported> {
        let is_fixed = self.tree.nest.numerics == Numerics::Fixed;
        let refused = match self.simd.width {
            Width::Bits32 => dtype == DType::I64,
            Width::Bits64 => dtype == DType::F32 && is_fixed,
        };
        if refused { Err(Unsupported::Type(dtype)) } else { Ok(()) }
    }

    pub(super) fn is_float_of_lanes(&self, dtype: DType) -> bool {
        match self.simd.width {
            Width::Bits32 => dtype == DType::F32,
            Width::Bits64 => dtype == DType::F64,
        }
    }

    fn load_element(&mut self, target: ElementRef) -> Result<ValueId, Unsupported> {
        Ok(match target {
            ElementRef::Register(reg) => self.reg(reg),
            ElementRef::Memory { tensor, address, lanes, storage } => {
                let mask = self.memory_mask(lanes)?;
                let epoch = self.epochs[tensor.0 as usize];
                let place = numbering::MemRef { address, storage, mask, epoch };
                self.graph().node(Op::Load(place, lanes))
            }
            ElementRef::Words { .. } => return Err(Unsupported::Type(DType::I64)),
        })
    }

    pub(super) fn reg(&mut self, reg: Reg) -> ValueId {
        let version = self.versions[reg.0 as usize];
        self.graph().node(Op::Reg(reg, version))
    }

    fn store(
        &mut self,
        access: &Access,
        target: ElementRef,
        value: ValueId,
    ) -> Result<(), Unsupported> {
        match target {
            ElementRef::Register(reg) => {
                let mask = self.mask(&|this, cause| !this.is_dead_lane(access, cause))?;
                if mask != MaskRef::All && self.versions[reg.0 as usize] == 0 {
                    self.maybe_undefined(access.tensor, reg);
                }
                self.set(reg, value, mask)
            }
            ElementRef::Memory { tensor, address, lanes, storage } => {
                let mask = self.memory_mask(lanes)?;
                self.push(PendingStmt::Store { address, lanes, storage, value, mask })?;
                self.epochs[tensor.0 as usize] += 1;
                Ok(())
            }
            ElementRef::Words { .. } => Err(Unsupported::Type(DType::I64)),
        }
    }

    /// Accumulates a vector in a reduction over lanes, which is completed after its loop.
    fn reduce_lanes(
        &mut self,
        write: &'t Write,
        target: ElementRef,
        value: ValueId,
    ) -> Result<(), Unsupported> {
        let (tensor, Some(reducer)) = (write.target.tensor, write.reducer) else { return Ok(()) };
        let dtype = self.tree.buffers[tensor.0 as usize].dtype;
        let mask = self.mask(&|_, _| true)?;
        let at = self
            .lane_reductions
            .iter()
            .position(|it| std::ptr::eq(it.write, write) && it.target == target);
        if let Some(at) = at
            && self.lane_reductions[at].accumulators.len() == N_ACCUMULATORS
            && self.lane_reduction_block == self.blocks.len()
        {
            let turn = self.lane_reductions[at].n_vectors % N_ACCUMULATORS;
            let reg = self.lane_reductions[at].accumulators[turn];
            let old = self.reg(reg);
            // By halves, of equal numbers a minimum is that of the second half.
            let is_extreme = matches!(reducer, Reducer::Min | Reducer::Max);
            let value = match is_extreme && self.tree.nest.numerics == Numerics::Fixed {
                true => self.combine(reducer, dtype, old, value),
                false => self.accumulate(write, reducer, value, old)?,
            };
            self.lane_reductions[at].n_vectors += 1;
            return self.set(reg, value, mask);
        }
        let identity = literal_bits(reducer.identity(dtype), dtype, self.simd.width)?;
        let identity = self.graph().splat(identity);
        let mut value = match mask {
            MaskRef::All => value,
            // A masked load is 0 in inactive lanes.
            mask if reducer == Reducer::Sum && self.is_load(value, mask) => value,
            mask => {
                let condition = self.truth(mask)?;
                self.graph().select(condition, value, identity)
            }
        };
        if dtype.is_float() && matches!(reducer, Reducer::Min | Reducer::Max) {
            // A NaN must not become an accumulator's first value.
            value = self.combine(reducer, dtype, value, identity);
        }
        if self.lane_reduction_block != self.blocks.len() {
            return self.finish_lane_reduction(write, target, value);
        }
        let reg = self.new_reg();
        self.set(reg, value, MaskRef::All)?;
        match at {
            Some(at) => {
                self.lane_reductions[at].accumulators.push(reg);
                self.lane_reductions[at].n_vectors += 1;
            }
            None => self.lane_reductions.push(LaneReduction {
                write,
                target,
                accumulators: vec![reg],
                n_vectors: 1,
            }),
        }
        Ok(())
    }

    fn is_load(&mut self, value: ValueId, mask: MaskRef) -> bool {
        matches!(self.graph().op(value), Op::Load(place, _) if place.mask == mask)
    }

    pub(super) fn begin_lane_reductions(&mut self) {
        self.lane_reduction_block = self.blocks.len();
    }

    pub(super) fn end_lane_reductions(&mut self) -> Result<(), Unsupported> {
        for sum in std::mem::take(&mut self.lane_reductions) {
            let Some(reducer) = sum.write.reducer else { continue };
            let dtype = self.tree.buffers[sum.write.target.tensor.0 as usize].dtype;
            let mut values: Vec<ValueId> =
                sum.accumulators.iter().map(|it| self.reg(*it)).collect();
            while values.len() > 1 {
                let half = values.len() / 2;
                let more = values.split_off(values.len() - half);
                for (value, other) in values.iter_mut().zip(more) {
                    *value = self.combine(reducer, dtype, *value, other);
                }
            }
            self.finish_lane_reduction(sum.write, sum.target, values[0])?;
        }
        Ok(())
    }

    /// Reduces a vector horizontally and updates the element.
    fn finish_lane_reduction(
        &mut self,
        write: &Write,
        target: ElementRef,
        value: ValueId,
    ) -> Result<(), Unsupported> {
        let (tensor, Some(reducer)) = (write.target.tensor, write.reducer) else { return Ok(()) };
        let dtype = self.tree.buffers[tensor.0 as usize].dtype;
        let sum = self.graph().reduce(reducing_op(reducer, dtype), value);
        let mut sum = self.wrap(sum, dtype);
        if !write.overwrites {
            let old = self.load_element(target)?;
            sum = self.combine(reducer, dtype, sum, old);
        }
        match target {
            ElementRef::Register(reg) => self.set(reg, sum, MaskRef::All),
            memory => self.store(&write.target, memory, sum),
        }
    }

    /// Resolves an access to a register or an address with a lane stride.
    pub(super) fn element_ref(
        &mut self,
        access: &Access,
        writes: bool,
    ) -> Result<ElementRef, Unsupported> {
        let tensor = access.tensor;
        let mut offset = self.eval(&access.offset)?;
        let (base, start) = match self.allocations.local(tensor) {
            Some(Allocation::Registers) => {
                offset.take(LANE);
                let at = offset.as_constant().ok_or(Unsupported::Index)?;
                return Ok(ElementRef::Register(self.register(tensor, at, writes)));
            }
            Some(Allocation::Memory(base, start)) => (*base, start.clone()),
            None => {
                let entry = self.table.pointer(tensor).ok_or(Unsupported::Index)?;
                (Base::Table(entry), tvmtune_ir::poly::Poly::default())
            }
        };
        let dtype = self.tree.buffers[tensor.0 as usize].dtype;
        let storage = match (dtype, self.simd.width) {
            (DType::I64, Width::Bits32) => None,
            (_, width) => Some(Storage::of(dtype, width).ok_or(Unsupported::Type(dtype))?),
        };
        let size = dtype.bytes() as i64;
        let lanes = match offset.take(LANE) {
            None => LaneStride::Uniform,
            Some(Coef::Const(1)) if storage.is_some() => LaneStride::Contiguous,
            Some(step) => LaneStride::Strided(self.table.count(&(step.to_poly() * size))),
        };
        let mut bytes = offset.scaled(size);
        bytes.add_dims(start);
        let address = Address { base, offset: self.table.linear(&bytes) };
        let Some(storage) = storage else {
            let mut high = address.clone();
            high.offset.constant += Storage::Word.bytes();
            let words = [address, high].map(|it| self.interned.addresses.id(it));
            return Ok(ElementRef::Words { tensor, words, lanes });
        };
        let address = self.interned.addresses.id(address);
        Ok(ElementRef::Memory { tensor, address, lanes, storage })
    }

    fn register(&mut self, tensor: TensorId, at: i64, writes: bool) -> Reg {
        if let Some(reg) = self.allocations.reg(tensor, at) {
            return reg;
        }
        let reg = self.new_reg();
        self.allocations.map(tensor, at, reg);
        let scope = self.register_scopes.iter().rev().find(|it| it.tensors.contains(&tensor));
        let certain = writes && scope.is_some_and(|it| it.block + 1 == self.blocks.len());
        if !certain {
            self.maybe_undefined(tensor, reg);
        }
        reg
    }

    fn maybe_undefined(&mut self, tensor: TensorId, reg: Reg) {
        if let Some(scope) =
            self.register_scopes.iter_mut().rev().find(|it| it.tensors.contains(&tensor))
        {
            scope.maybe_undefined.push(reg);
        }
    }

    pub(super) fn enter_register_scope(&mut self, tensors: Vec<TensorId>) {
        self.allocations.forget(&tensors);
        let block = self.blocks.len() - 1;
        let at = self.block().stmts.len();
        self.register_scopes.push(RegisterScope {
            tensors,
            block,
            at,
            maybe_undefined: Vec::new(),
        });
    }

    /// Closes the innermost scope; registers that may be undefined are set to 0 where it begins.
    pub(super) fn leave_register_scope(&mut self) {
        let Some(scope) = self.register_scopes.pop() else { return };
        self.allocations.forget(&scope.tensors);
        let mut maybe_undefined = scope.maybe_undefined;
        maybe_undefined.sort_unstable();
        maybe_undefined.dedup();
        let zero = |reg| Stmt::Set { reg, value: Value::Splat(0), mask: None };
        let at = scope.at;
        self.blocks[scope.block].stmts.splice(at..at, maybe_undefined.into_iter().map(zero));
    }

    pub(super) fn memory_mask(&mut self, lanes: LaneStride) -> Result<MaskRef, Unsupported> {
        match lanes {
            LaneStride::Uniform => Ok(MaskRef::All),
            _ => self.mask(&|_, _| true),
        }
    }

    /// Combines the lane predicates whose causes are `wanted` into a mask.
    pub(super) fn mask(
        &mut self,
        wanted: &dyn Fn(&Self, PredicateCause) -> bool,
    ) -> Result<MaskRef, Unsupported> {
        if self.masks.is_empty() {
            return Ok(MaskRef::All);
        }
        let chosen = self.masks.iter().filter(|it| wanted(self, it.cause));
        let chosen: Vec<LaneCondition> = chosen.map(|it| it.limit.clone()).collect();
        let mut all = MaskRef::All;
        for limit in chosen {
            let mask = match limit {
                LaneCondition::First(count) => MaskRef::First(count),
                LaneCondition::True(id) => self.graph().mask_of(id),
                LaneCondition::Negative(form) => {
                    let value = self.index(form)?;
                    let zero = self.graph().int(0);
                    let is_negative = self.graph().compare(VectorCompare::LtI, value, zero);
                    self.graph().mask_of(is_negative)
                }
            };
            all = match (all, mask) {
                (MaskRef::All, other) => other,
                (a, b) if a == b => a,
                (MaskRef::First(Count::Const(a)), MaskRef::First(Count::Const(b))) => {
                    MaskRef::First(Count::Const(a.min(b)))
                }
                (a, b) => {
                    let (a, b) = (self.truth(a)?, self.truth(b)?);
                    let both = self.graph().binary(VectorBinary::And, a, b);
                    self.graph().mask_of(both)
                }
            };
        }
        Ok(all)
    }

    pub(super) fn truth(&mut self, mask: MaskRef) -> Result<ValueId, Unsupported> {
        Ok(match mask {
            MaskRef::All => self.graph().truth(true),
            MaskRef::Where(id) => id,
            MaskRef::First(count) => {
                let bound = match count {
                    Count::Const(n) => Linear::constant(n),
                    Count::Param(entry) => Linear { param: Some(entry), ..Linear::default() },
                };
                let lane = self.index(Affine::var(LANE))?;
                let bound = match bound.param {
                    None => self.graph().int(bound.constant as i32),
                    Some(_) => {
                        let base = self.interned.linears.id(bound);
                        self.graph().node(Op::Index { base, step: 0 })
                    }
                };
                self.graph().compare(VectorCompare::LtI, lane, bound)
            }
        })
    }

    /// Returns whether lanes that a predicate excludes are dead elements of a register tensor, which
    /// may be overwritten. A guard on anything but the element's index means that the element keeps
    /// its value, and so does one on the partial results of a reduction: all of these are combined.
    fn is_dead_lane(&self, access: &Access, cause: PredicateCause) -> bool {
        let scope_loops = self.allocations.scope_loops(access.tensor);
        let buffer = &self.tree.buffers[access.tensor.0 as usize];
        let is_partial = |var| {
            buffer.partial_over.contains(&var)
                || buffer.is_partial && self.tree.mentions(&access.offset, var)
        };
        let own = |var| scope_loops.contains(&var) || self.tree.mentions(&access.offset, var);
        match cause {
            PredicateCause::Extent(var) => own(var),
            PredicateCause::Guard { id, .. } => {
                let leaves = self.tree.leaves(&self.tree.guards[id]);
                leaves.into_iter().all(|it| own(it) && !is_partial(it))
            }
            PredicateCause::Condition => false,
        }
    }
}
