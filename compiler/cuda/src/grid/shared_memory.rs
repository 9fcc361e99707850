//! Allocation of shared memory: an offset for every buffer, for the partial results of block
//! all-reduces, and for the barriers of circular buffers.

use super::{Buffer, Kernel, MemoryScope, SharedMemory, Stmt, Unplaceable, WARP};
use tvmtune_ir::poly::Poly;
use tvmtune_schedule::nest::{any, written};

/// Alignment of shared buffers, in bytes: that of the widest vectors.
const ALIGNMENT: u64 = 16;
/// Alignment of the destination of a TMA load, in bytes.
const BOX_ALIGNMENT: u64 = 128;
/// Bytes of a barrier in shared memory.
const BARRIER: u64 = 8;
/// Bytes of the largest element.
const WIDEST: u64 = 8;

/// Allocates the shared memory of a kernel.
pub(super) fn allocate(kernel: &mut Kernel, buffers: &mut [Buffer]) -> Result<(), Unplaceable> {
    let mut shared = written(&kernel.body);
    shared.retain(|it| buffers[it.0 as usize].scope.is_shared());
    shared.extend(kernel.tensor_maps.iter().map(|it| it.to));
    let all_reduces =
        any(&kernel.body, &|it| matches!(it, Stmt::AllReduce { range, .. } if *range > WARP));
    let offset = |bytes: u64| u32::try_from(bytes).map_err(|_| Unplaceable::Shared(bytes));
    let mut end: u64 = 0;
    for tensor in shared {
        let buffer = &mut buffers[tensor.0 as usize];
        let is_tma = kernel.tensor_maps.iter().any(|it| it.to == tensor);
        let plain = if is_tma { BOX_ALIGNMENT } else { ALIGNMENT };
        let shared = buffer.scope.shared().unwrap_or_default();
        let alignment = shared.swizzle.map_or(plain, |it| 8 * u64::from(it));
        let first = end.next_multiple_of(alignment);
        let most = |it: &Poly| it.as_constant().unwrap_or(i64::MAX) as u64;
        let elements = buffer.shape.iter().map(most).fold(1, u64::saturating_mul);
        end = first.saturating_add(elements.saturating_mul(buffer.dtype.bytes()));
        buffer.scope = MemoryScope::Shared(SharedMemory { offset: offset(first)?, ..shared });
    }
    if all_reduces {
        let first = end.next_multiple_of(ALIGNMENT);
        kernel.partials = Some(offset(first)?);
        end = first + u64::from(kernel.threads.div_ceil(WARP)) * WIDEST;
    }
    for it in &mut kernel.circular_buffers {
        let first = end.next_multiple_of(ALIGNMENT);
        it.barriers = offset(first)?;
        end = first + 2 * u64::from(it.n_stages) * BARRIER;
    }
    kernel.shared_bytes = offset(end)?;
    Ok(())
}
