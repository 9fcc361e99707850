//! Stream-K kernels: as if each block had some tiles and a fraction, and the cost of storing partial
//! sums and of the fix-up.

use tvmtune_cuda::grid::{BlockVar, Decomposition, Grid, Kernel, StreamK, WorkUnit};
use tvmtune_ir::poly::Poly;

use super::value::Values;

/// A stream-K decomposition at given extents.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkUnits<'a> {
    kernel: &'a Kernel,
    stream_k: &'a StreamK,
    depth: i64,
    decomposition: Decomposition,
}

impl<'a> WorkUnits<'a> {
    /// Of a kernel that computes partial sums, or fixes tiles up.
    pub(super) fn new(kernel: &'a Kernel, values: &Values) -> Option<Self> {
        let tiles = kernel.tiles.as_ref()?;
        let stream_k = tiles.stream_k.as_ref()?;
        let extent = |it: &BlockVar| values.of(&it.extent).max(0);
        let count = tiles.vars.iter().map(extent).fold(1, i64::saturating_mul);
        let depth = values.of(&stream_k.iterations).max(1);
        Some(Self {
            kernel,
            stream_k,
            depth,
            decomposition: Decomposition::new(count, depth, tiles.stride),
        })
    }

    /// Sets a work unit to a whole tile, or those of a tile to their average number.
    pub(super) fn stand_at_whole(&self, values: &mut Values) {
        match self.stream_k.work_unit {
            WorkUnit::PartialSums { first, end, .. } => {
                values.set(first, 0);
                values.set(end, self.depth);
            }
            WorkUnit::FixUp { count } => {
                let Decomposition { work_units, split_tiles, .. } = self.decomposition;
                values.set(count, (work_units + split_tiles / 2) / split_tiles.max(1));
            }
        }
    }

    /// Returns the tiles of all blocks, if the kernel fixes some up.
    pub(super) fn fixed_up(&self) -> Option<u64> {
        let joins = matches!(self.stream_k.work_unit, WorkUnit::FixUp { .. });
        joins.then_some(self.decomposition.split_tiles as u64)
    }

    /// Returns the tiles that each block adds up, if the kernel does that.
    pub(super) fn tiles_of_block(&self) -> Option<f64> {
        let adds = matches!(self.stream_k.work_unit, WorkUnit::PartialSums { .. });
        let Decomposition { rounds, iterations, .. } = self.decomposition;
        adds.then_some(rounds as f64 + iterations as f64 / self.depth as f64)
    }

    /// Returns the bytes of partial sums that all blocks store.
    pub(super) fn partial_sum_bytes(&self, grid: &Grid) -> f64 {
        let WorkUnit::PartialSums { sums, .. } = &self.stream_k.work_unit else { return 0.0 };
        let constant = |it: &Poly| it.as_constant().unwrap_or(1) as f64;
        let bytes = |tensor| {
            let buffer = grid.buffer(tensor);
            buffer.shape.iter().map(constant).product::<f64>() * buffer.dtype.bytes() as f64
        };
        let in_cluster = self.kernel.blocks.iter().filter(|it| it.in_cluster);
        let threads = in_cluster.map(|it| constant(&it.extent)).product::<f64>()
            * f64::from(self.kernel.threads);
        sums.iter().map(|it| bytes(it.0)).sum::<f64>()
            * threads
            * self.decomposition.work_units as f64
    }
}
