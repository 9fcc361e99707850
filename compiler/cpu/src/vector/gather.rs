//! Reads whose place data decide: `table[ids[i], j]`.
//!
//! A gather fetches an element for each lane. Where the index from the data is the same in all lanes, the
//! elements are one run of memory, or one element, and a load fetches them.

use std::collections::BTreeSet;

use super::affine::{Affine, Coef, LANE, poly_divisor};
use super::context::{ElementRef, Lowering};
use super::numbering::{MaskRef, MemRef, Op, ValueId};
use super::tree::{Access, LoopMode, Node, Term, Tree, make_serial};
use super::{LaneStride, Storage, Unsupported, VectorBinary, VectorCompare};
use tvmtune_ir::poly::{Poly, gcd};

impl Lowering<'_> {
    /// Lowers a read with a data-dependent part.
    pub(super) fn gather(&mut self, access: &Access) -> Result<ValueId, Unsupported> {
        let buffer = &self.tree.buffers[access.tensor.0 as usize];
        let storage =
            Storage::of(buffer.dtype, self.simd.width).ok_or(Unsupported::Type(buffer.dtype))?;
        if i32::try_from(buffer.size.interval(&self.tree.facts).hi).is_err() {
            return Err(Unsupported::Range);
        }
        let affine = Access { gather: Vec::new(), ..access.clone() };
        let ElementRef::Memory { tensor, address, lanes, .. } = self.element_ref(&affine, false)?
        else {
            return Err(Unsupported::Type(buffer.dtype));
        };
        let mut is_load = !matches!(lanes, LaneStride::Strided(_));
        for (_, index) in &access.gather {
            is_load = is_load && self.is_lane_invariant(index)?;
        }
        let index = if is_load { self.graph().int(0) } else { self.lane_offsets(access, storage)? };
        let mut index = self.add_gathered(access, index)?;
        let mask = self.mask(&|_, _| true)?;
        let place = MemRef { address, storage, mask, epoch: self.epochs[tensor.0 as usize] };
        if is_load && !access.in_bounds {
            if let Some(value) = self.in_all_lanes(access, (place, lanes), index)? {
                return Ok(value);
            }
            let size = buffer.size.clone();
            index = self.inside(index, size, place.mask)?;
        }
        let op = if is_load { Op::LoadAt(place, lanes, index) } else { Op::Gather(place, index) };
        Ok(self.graph().node(op))
    }

    /// Loads narrow elements, or one, where a condition holds that is the same in all lanes, with no mask, since few
    /// instructions load those under one: where it does not hold, elements near the start of the buffer are
    /// loaded, and left. Data choose rows, the lanes are inside of a row.
    fn in_all_lanes(
        &mut self,
        access: &Access,
        (place, lanes): (MemRef, LaneStride),
        offset: ValueId,
    ) -> Result<Option<ValueId>, Unsupported> {
        let MaskRef::Where(condition) = place.mask else { return Ok(None) };
        let size = self.tree.buffers[access.tensor.0 as usize].size.clone();
        let strides = access.gather.iter().map(|(stride, _)| stride.as_constant().unwrap_or(1));
        let row = strides.fold(poly_divisor(&size), gcd);
        let mut form = self.eval(&access.offset)?;
        form.take(LANE);
        let range = self.interval(&form);
        let last = match lanes {
            LaneStride::Uniform => range.hi,
            _ => range.hi.saturating_add(self.simd.lanes() - 1),
        };
        let is_in_row = range.lo >= 0 && last < row;
        let is_narrow = place.storage.bytes() < Storage::of_lanes(self.simd.width).bytes();
        if !is_in_row
            || !is_narrow && lanes != LaneStride::Uniform
            || place.storage == Storage::Bool
            || !self.graph().is_uniform(condition)
        {
            return Ok(None);
        }
        let offset = self.inside(offset, size - Poly::constant(row - 1), place.mask)?;
        let graph = self.graph();
        let place = MemRef { mask: MaskRef::All, ..place };
        let value = graph.node(Op::LoadAt(place, lanes, offset));
        let zero = graph.splat(0);
        Ok(Some(graph.select(condition, value, zero)))
    }

    /// Replaces an offset that data lead outside of a buffer by that of its first element. No lane reads
    /// there, but an instruction whose lanes are all masked takes hundreds of cycles where its address is not
    /// mapped.
    fn inside(
        &mut self,
        offset: ValueId,
        size: Poly,
        mask: MaskRef,
    ) -> Result<ValueId, Unsupported> {
        // A uniform mask that holds makes lane 0 active, so the offset of lane 0 is in bounds.
        if let MaskRef::Where(condition) = mask
            && self.graph().is_uniform(condition)
        {
            let graph = self.graph();
            let zero = graph.int(0);
            return Ok(graph.select(condition, offset, zero));
        }
        let size = self.index(Affine::dims(size))?;
        let graph = self.graph();
        let zero = graph.int(0);
        let positive = graph.binary(VectorBinary::MaxI, offset, zero);
        let is_inside = graph.compare(VectorCompare::LtI, positive, size);
        Ok(graph.select(is_inside, positive, zero))
    }

    /// Returns whether an index is the same in all lanes: none of its forms has the vectorized loop, and
    /// what it reads is neither masked nor of a local tensor that each lane has for itself.
    pub(super) fn is_lane_invariant(&mut self, index: &Term) -> Result<bool, Unsupported> {
        let Some(lane) = self.lane else { return Ok(true) };
        let mut is_invariant = true;
        index.for_each_index(&mut |_, form| is_invariant &= !self.tree.mentions(form, lane));
        let mut reads = Vec::new();
        index.for_each_read(&mut |read| reads.push(read));
        for read in reads {
            let is_of_lane = self.allocations.scope_loops(read.tensor).contains(&lane);
            is_invariant = is_invariant
                && !is_of_lane
                && read.gather.is_empty()
                && self.read_mask(read, true)? == MaskRef::All;
        }
        Ok(is_invariant)
    }

    /// Returns the affine part of an offset in each lane, relative to lane 0, in elements.
    fn lane_offsets(&mut self, access: &Access, storage: Storage) -> Result<ValueId, Unsupported> {
        if storage != Storage::of_lanes(self.simd.width) {
            let dtype = self.tree.buffers[access.tensor.0 as usize].dtype;
            return Err(Unsupported::Type(dtype));
        }
        match self.eval(&access.offset)?.take(LANE) {
            None => Ok(self.graph().int(0)),
            Some(Coef::Const(step)) => {
                let step = i32::try_from(step).map_err(|_| Unsupported::Range)?;
                Ok(self.graph().node(Op::Ramp { first: 0, step }))
            }
            Some(Coef::Dims(_)) => Err(Unsupported::Index),
        }
    }

    /// Adds the data-dependent part of an offset.
    fn add_gathered(
        &mut self,
        access: &Access,
        mut offset: ValueId,
    ) -> Result<ValueId, Unsupported> {
        for (stride, index) in &access.gather {
            // Lanes that access memory are in bounds: there the low word is the index.
            let index = if self.is_wide(index) { self.words(index)?[0] } else { self.term(index)? };
            let stride = self.index(Affine::dims(stride.clone()))?;
            let part = self.graph().binary(VectorBinary::MulI, index, stride);
            offset = self.graph().binary(VectorBinary::AddI, part, offset);
        }
        Ok(offset)
    }
}

/// Makes vectorized loops serial in which data chooses elements that are not as wide as lanes: no instruction
/// gathers them. Returns whether there are any.
pub(super) fn serialize_narrow(tree: &mut Tree<'_>) -> bool {
    let width = tree.simd.width;
    let is_narrow = |it: &Access| {
        let storage = Storage::of(tree.buffers[it.tensor.0 as usize].dtype, width);
        !it.gather.is_empty() && storage != Some(Storage::of_lanes(width))
    };
    let mut found = BTreeSet::new();
    for nodes in &tree.phases {
        Node::for_each_write(nodes, &mut Vec::new(), &mut |write, path| {
            let mut has_narrow = false;
            write.value.for_each_read(&mut |it| has_narrow |= is_narrow(it));
            let vectors = Node::loops(path).filter(|it| matches!(it.kind, LoopMode::Vectorized(_)));
            found.extend(vectors.filter(|_| has_narrow).map(|it| it.var));
        });
    }
    for var in &found {
        tree.phases.iter_mut().for_each(|it| make_serial(it, *var));
    }
    !found.is_empty()
}
