//! Boxes of tensors that TMA copies: their bytes, and the cycles that their rows take.

use tvmtune_ir::poly::{Poly, VarId};

use super::super::machine::{BOX_CHUNK, BOX_ROW, CUT_ROW};
use super::{BlockCounter, GlobalAccess};

impl BlockCounter<'_> {
    /// A box of a tensor, copied by TMA.
    pub(super) fn tma_load(&mut self, map: usize, coordinates: &[Poly]) {
        let map = &self.kernel.tensor_maps[map];
        let mut loops: Vec<(VarId, i64)> = self.open.iter().map(|it| (it.var, it.extent)).collect();
        let mut index = Vec::new();
        for (n, (at, extent)) in coordinates.iter().zip(&map.box_extents).enumerate() {
            // As if by a loop over the box.
            let var = VarId(u32::MAX - n as u32);
            loops.push((var, *extent));
            index.push(Some(at.clone() + Poly::var(var)));
        }
        let elements = map.box_extents.iter().product::<i64>() as f64 * self.times();
        let bytes = elements * self.grid.buffer(map.tensor).dtype.bytes() as f64;
        let row = map.box_extents.last().copied().unwrap_or(1).max(1) as f64;
        let rows = elements / row;
        let row_bytes = row * self.grid.buffer(map.tensor).dtype.bytes() as f64;
        let is_swizzled = self.grid.buffer(map.to).scope.swizzle().is_some();
        let each = if is_swizzled { BOX_ROW } else { BOX_CHUNK * (row_bytes / 16.0).ceil() };
        let extent = self.grid.buffer(map.tensor).shape.last().map(|it| self.values.of(it));
        let is_cut = extent.is_some_and(|it| (it as f64) < row);
        self.block.copies += rows * if is_cut { CUT_ROW * each } else { each };
        let blocks = if map.is_multicast { self.kernel.cluster() } else { 1 };
        self.block.wavefronts += bytes * f64::from(blocks) / 128.0;
        let (tensor, writes) = (map.tensor, false);
        let n_serial = self.open.len();
        self.block.accesses.push(GlobalAccess {
            overhead: 0.0,
            tensor,
            writes,
            index,
            loops,
            n_serial,
            bytes,
            elements,
        });
    }
}
