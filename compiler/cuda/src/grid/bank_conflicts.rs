//! Padding of shared buffers against bank conflicts.
//!
//! Shared memory has 32 banks of 4 bytes. Lanes that access different words of one bank are
//! serialized: a column of a tile whose rows are 128 bytes long takes 32 turns. Every buffer gets
//! the padding behind its rows with which its accesses, weighted by their number, take fewest turns.
//!
//! # Source
//!
//! The cost of an access is that of NVIDIA's profiler: 4-byte accesses go out for 32 lanes at a
//! time, 8-byte ones for 16, 16-byte ones for 8.

use std::collections::BTreeMap;

use super::{Buffer, Kernel, LoopKind, Statement, Stmt, WARP};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::poly::{DimId, Facts, Poly, VarId};
use tvmtune_schedule::nest::{self, flat};

const BANKS: u64 = 32;
const BANK_BYTES: u64 = 4;
/// Bytes of the widest access.
const WIDEST: u64 = 16;

/// An access of a shared buffer.
struct Access {
    index: Vec<Poly>,
    /// Elements that one thread reaches at once.
    lanes: u64,
    /// Number of executions.
    times: u64,
}

/// A loop around a statement.
#[derive(Clone, Copy)]
struct Around {
    var: VarId,
    extent: u64,
    repeated: bool,
}

/// Pads the rows of every shared buffer of a kernel.
pub(super) fn pad(kernel: &Kernel, buffers: &mut [Buffer], facts: &Facts) {
    let mut accesses: BTreeMap<TensorId, Vec<Access>> = BTreeMap::new();
    collect(&kernel.body, buffers, &mut Vec::new(), &mut accesses);
    for (tensor, accesses) in accesses {
        let buffer = &mut buffers[tensor.0 as usize];
        let bytes = buffer.dtype.bytes();
        // Vectors start at multiples of their length.
        let widest = accesses.iter().map(|it| it.lanes * bytes).max().unwrap_or(bytes);
        let step = (widest.max(BANK_BYTES) / bytes).max(1);
        let Some(row) = buffer.shape.last().and_then(Poly::as_constant) else { continue };
        let is_box = kernel.tensor_maps.iter().any(|it| it.to == tensor);
        if buffer.shape.len() < 2 || buffer.scope.swizzle().is_some() || is_box {
            continue;
        }
        let cost = |padding: u64| {
            let mut shape = buffer.shape.clone();
            let last = shape.len() - 1;
            shape[last] = Poly::constant(row + padding as i64);
            let cost = |it: &Access| it.times * turns(kernel, it, &shape, bytes, facts);
            accesses.iter().map(cost).sum::<u64>()
        };
        let paddings = (0..8).map(|it| it * step);
        let best = paddings.min_by_key(|it| (cost(*it), *it)).unwrap_or(0);
        if let Some(last) = buffer.shape.last_mut() {
            *last = Poly::constant(row + best as i64);
        }
    }
}

fn collect(
    body: &[Stmt],
    buffers: &[Buffer],
    around: &mut Vec<Around>,
    found: &mut BTreeMap<TensorId, Vec<Access>>,
) {
    for stmt in body {
        let mut note = |tensor: TensorId, index: Vec<Poly>| {
            let buffer = &buffers[tensor.0 as usize];
            if buffer.scope.is_shared() {
                let access = access(buffer, index, around);
                found.entry(tensor).or_default().push(access);
            }
        };
        match stmt {
            Stmt::Store { .. } | Stmt::Update { .. } => stmt.own_accesses(&mut |it| match it {
                nest::Access::Write(tensor, index) => note(tensor, index.to_vec()),
                nest::Access::Read(tensor, index) => {
                    if let Some(index) = affine(index) {
                        note(tensor, index);
                    }
                }
            }),
            Stmt::For { var, extent, kind, body, .. } => {
                let extent = extent.as_constant().unwrap_or(16).max(1) as u64;
                let repeated = matches!(
                    kind,
                    LoopKind::Unrolled | LoopKind::Vectorized | LoopKind::Tensorized
                );
                around.push(Around { var: *var, extent, repeated });
                collect(body, buffers, around, found);
                around.pop();
            }
            other => collect(other.body(), buffers, around, found),
        }
    }
}

/// Returns an access inside of loops: unrolled ones may vectorize it, and it happens once for all
/// iterations on which it does not depend.
fn access(buffer: &Buffer, index: Vec<Poly>, around: &[Around]) -> Access {
    let position = buffer.position(&index);
    let most = (WIDEST / buffer.dtype.bytes()).max(1);
    let (mut lanes, mut times) = (1, 1_u64);
    for it in around {
        let step = position.split_linear(it.var).and_then(|(step, _)| step.as_constant());
        match step {
            Some(1) if it.repeated => {
                let divides = |n: &u64| n.is_power_of_two() && it.extent.is_multiple_of(*n);
                lanes = (1..=most).rev().find(divides).unwrap_or(1);
                times = times.saturating_mul(it.extent / lanes);
            }
            Some(0) if it.repeated => {}
            _ => times = times.saturating_mul(it.extent),
        }
    }
    Access { index, lanes, times }
}

/// Returns the turns that one access of the first warp takes.
fn turns(kernel: &Kernel, access: &Access, shape: &[Poly], bytes: u64, facts: &Facts) -> u64 {
    let position = flat(&access.index, shape);
    let width = access.lanes * bytes;
    let at_once = (BANKS * BANK_BYTES / width.max(BANK_BYTES)).max(1);
    let address = |lane: u64| {
        let var = |var: VarId| {
            let found = kernel.thread_vars.iter().find(|it| it.var == var);
            found.map_or(0, |it| i64::from(lane as u32 % it.range / it.step))
        };
        // Any extents will do that a launch may have.
        let dim = |dim: DimId| Poly::dim(dim).interval(facts).lo;
        position.eval(&dim, &var).max(0) as u64 * bytes
    };
    let n_lanes = u64::from(WARP.min(kernel.threads));
    let lanes: Vec<u64> = (0..n_lanes).map(address).collect();
    let phase = |lanes: &[u64]| {
        let mut words: Vec<u64> = lanes
            .iter()
            .flat_map(|first| (first / BANK_BYTES)..(first + width).div_ceil(BANK_BYTES))
            .collect();
        words.sort_unstable();
        words.dedup();
        let mut in_bank = [0; BANKS as usize];
        for word in words {
            in_bank[(word % BANKS) as usize] += 1;
        }
        in_bank.into_iter().max().unwrap_or(0)
    };
    lanes.chunks(at_once as usize).map(phase).sum()
}
