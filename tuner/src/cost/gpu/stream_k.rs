//! What kernels do whose blocks divide tiles between them: as if each had some tiles and a fraction,
//! and what it costs to leave sums in memory and to join them.

use tvmtune_cuda::grid::{BlockVar, Decomposition, Grid, Kernel, StreamK, WorkUnit};
use tvmtune_ir::poly::Poly;

use super::value::Values;

/// How tiles are divided, at given extents.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkUnits<'a> {
    kernel: &'a Kernel,
    stream_k: &'a StreamK,
    depth: i64,
    decomposition: Decomposition,
}

impl<'a> WorkUnits<'a> {
    /// Of a kernel that adds up parts, or joins them.
    pub(super) fn of(kernel: &'a Kernel, values: &Values) -> Option<Self> {
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

    /// Lets a part be a whole tile, or what is joined the average of what there is to join.
    pub(super) fn stand_at_whole(&self, values: &mut Values) {
        match self.stream_k.work_unit {
            WorkUnit::PartialSums { first, end, .. } => {
                values.set(first, 0);
                values.set(end, self.depth);
            }
            WorkUnit::FixUp { count } => {
                let Decomposition { parts, joined, .. } = self.decomposition;
                values.set(count, (parts + joined / 2) / joined.max(1));
            }
        }
    }

    /// The tiles of all blocks, if the kernel joins some.
    pub(super) fn joined(&self) -> Option<u64> {
        let joins = matches!(self.stream_k.work_unit, WorkUnit::FixUp { .. });
        joins.then_some(self.decomposition.joined as u64)
    }

    /// The tiles that each block adds up, if the kernel does that.
    pub(super) fn tiles_of_block(&self) -> Option<f64> {
        let adds = matches!(self.stream_k.work_unit, WorkUnit::PartialSums { .. });
        let Decomposition { rounds, each, .. } = self.decomposition;
        adds.then_some(rounds as f64 + each as f64 / self.depth as f64)
    }

    /// Bytes that all blocks of a kernel which adds up leave for another one.
    pub(super) fn left_bytes(&self, grid: &Grid) -> f64 {
        let WorkUnit::PartialSums { sums, .. } = &self.stream_k.work_unit else { return 0.0 };
        let constant = |it: &Poly| it.as_constant().unwrap_or(1) as f64;
        let bytes = |tensor| {
            let buffer = grid.buffer(tensor);
            buffer.shape.iter().map(constant).product::<f64>() * buffer.dtype.bytes() as f64
        };
        let in_cluster = self.kernel.blocks.iter().filter(|it| it.in_cluster);
        let threads = in_cluster.map(|it| constant(&it.extent)).product::<f64>()
            * f64::from(self.kernel.threads);
        sums.iter().map(|it| bytes(it.0)).sum::<f64>() * threads * self.decomposition.parts as f64
    }
}
