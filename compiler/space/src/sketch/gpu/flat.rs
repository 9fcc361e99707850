//! The rule for what needs no other thread: each computes a few elements that lie side by side.
//!
//! ```text
//! parallel f_0
//!   thread f_1
//!     for k: vectorized v:  acc[v] += a[k, f, v]     -- what is reduced, in registers
//!     vectorized v:  c[f, v] = g(acc[v], b[v])
//! ```

use super::reads::reduces;
use super::{innermost, power, vector};
use crate::sketch::Factor;
use crate::sketch::builder::Builder;
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Threads of a block, where nothing speaks for another number.
const THREADS: u64 = 256;

/// `inside` are stages of the same elements that the root needs, one by one.
pub(super) fn flat(
    b: &mut Builder,
    root: StageId,
    inside: &[StageId],
) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    let extents = b.extents(root);
    let n_spatial = b.schedule.stage(root).compute.n_spatial;
    let mut attached = inside.to_vec();
    if reduces(b, root) {
        attached.push(b.apply(|it| it.cache_write(root))?);
    }
    b.name.push(format!("{name}: flat"));
    let Some(last) = n_spatial.checked_sub(1) else {
        return Ok(());
    };
    let group = b.new_group();
    let best = vector(b, root, extents[last]);
    let elements: u64 = extents[..n_spatial].iter().product();
    // Few elements are better spread over many threads.
    let busy = elements / best >= u64::from(b.gpu().multiprocessors) * THREADS;
    let best = if busy { best } else { 1 };
    let lanes = power(b, format!("{name} vector"), 8.min(extents[last]), best, group);
    let parts = b.split(root, AxisId(last as u32), &[Factor::Open(lanes)])?;
    let mut fused = parts[0];
    for axis in (0..last).rev() {
        fused = b.apply(|it| it.fuse(root, AxisId(axis as u32), fused))?;
    }
    let group = b.new_group();
    let most = b.extent(root, fused).next_power_of_two().clamp(1, 1024);
    let threads = power(b, format!("{name} threads"), most, THREADS.min(most), group);
    let split = b.split(root, fused, &[Factor::Open(threads)])?;
    b.annotate(root, split[0], LoopKind::Parallel)?;
    b.annotate(root, split[1], LoopKind::Thread)?;
    b.annotate(root, parts[1], LoopKind::Vectorized)?;
    // Readers first: a stage runs inside the loop only when all that read it do.
    for stage in attached.into_iter().rev() {
        innermost(b, stage, AxisId(last as u32))?;
        b.apply(|it| it.compute_at(stage, root, split[1]))?;
    }
    Ok(())
}
