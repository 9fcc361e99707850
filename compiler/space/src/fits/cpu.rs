//! Resource limits of a CPU: checks a nest, and reports the limits that it exceeds.
//!
//! One total function, far cheaper than code generation: search asks it first. A nest that it refuses
//! would run slowly (accumulators that spill, code that does not fit the instruction cache), or not at
//! all (workspace without bound).

use std::fmt;

use tvmtune_cpu::vector::width;
use tvmtune_ir::dag::access::work;
use tvmtune_ir::dag::{Expr, Subscript};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_ir::size::Size;
use tvmtune_ir::target::CpuTarget;
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::{Buffer, Nest, Scope, Stmt};

/// A limit that a nest exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExceededLimit {
    /// Unrolled, it has about so many vector instructions.
    CodeSize(u64),
    /// An inner loop keeps so many vectors in registers.
    Registers(u64),
    /// Each thread needs so many bytes of scratch memory.
    Scratch(u64),
}

/// Vector instructions of all of the code, tails not counted; estimated, so that loops stay in the
/// instruction cache.
const MAX_INSTRUCTIONS: u64 = 6000;
/// Scratch memory of one thread, in bytes; chosen by judgement.
const MAX_SCRATCH_BYTES: u64 = 64 << 20;

/// Checks that `nest` fits `target`.
///
/// # Errors
///
/// Each limit that it exceeds, once.
pub fn fits(nest: &Nest, target: &CpuTarget) -> Result<(), Vec<ExceededLimit>> {
    let lanes = width::lanes_of_nest(target.isa, nest);
    let mut code = Code { nest, lanes, n_instructions: 0, registers: 0 };
    for stmt in &nest.body {
        code.visit(stmt, &mut Vec::new());
    }
    let mut exceeded = Vec::new();
    if code.n_instructions > MAX_INSTRUCTIONS {
        exceeded.push(ExceededLimit::CodeSize(code.n_instructions));
    }
    if code.registers > target.isa.registers().into() {
        exceeded.push(ExceededLimit::Registers(code.registers));
    }
    let scratch_bytes = scratch_bytes(nest);
    if scratch_bytes > MAX_SCRATCH_BYTES {
        exceeded.push(ExceededLimit::Scratch(scratch_bytes));
    }
    if exceeded.is_empty() { Ok(()) } else { Err(exceeded) }
}

/// Returns whether threads may hold the scratch memory of a nest.
pub(crate) fn has_room(nest: &Nest) -> bool {
    scratch_bytes(nest) <= MAX_SCRATCH_BYTES
}

/// Counts the bytes of scratch memory of one thread, at the largest extents.
fn scratch_bytes(nest: &Nest) -> u64 {
    let facts = nest.facts();
    let bytes = |it: &Buffer| {
        let extents = it.shape.iter().map(|it| it.interval(&facts).hi.max(0) as u64);
        // Narrower elements have lanes of 32 bits.
        extents.fold(it.dtype.bytes().max(4), u64::saturating_mul)
    };
    let local = nest.buffers.iter().filter(|it| it.scope == Scope::Local);
    local.map(bytes).fold(0, u64::saturating_add)
}

/// A loop that is fully unrolled, or vectorized.
#[derive(Clone, Copy)]
struct Copies {
    var: VarId,
    /// Repetitions of the body: vectors, where lanes are iterations.
    times: u64,
    vectorized: bool,
}

struct Code<'a> {
    nest: &'a Nest,
    lanes: u64,
    n_instructions: u64,
    registers: u64,
}

impl Code<'_> {
    /// Adds a statement inside loops; `copies` are those that are unrolled since the last counted one.
    fn visit(&mut self, stmt: &Stmt, copies: &mut Vec<Copies>) {
        match stmt {
            Stmt::For { var, extent, kind, body, .. } => {
                let extent = extent.as_constant().map(|it| it.max(1) as u64);
                let times = match (kind, extent) {
                    (LoopKind::Unrolled | LoopKind::Tensorized, Some(n)) => Some((n, false)),
                    (LoopKind::Vectorized, Some(n)) => Some((n.div_ceil(self.lanes), true)),
                    (LoopKind::Vectorized, None) => Some((1, true)),
                    _ => None,
                };
                let before = copies.len();
                match times {
                    Some((times, vectorized)) => {
                        copies.push(Copies { var: *var, times, vectorized });
                    }
                    // Loops that are unrolled further out repeat this loop as a whole.
                    None => copies.iter_mut().for_each(|it| it.vectorized = false),
                }
                for stmt in body {
                    self.visit(stmt, copies);
                }
                copies.truncate(before);
            }
            Stmt::If { body, .. } => body.iter().for_each(|it| self.visit(it, copies)),
            Stmt::Store { value, .. } => self.count(value, None, copies),
            Stmt::Update { tensor, index, value, .. } => {
                let local = self.nest.buffer(*tensor).scope == Scope::Local;
                self.count(value, local.then_some(index), copies);
            }
        }
    }

    /// Adds a statement with that value, which adds into registers at `index`.
    fn count(&mut self, value: &Expr, index: Option<&Vec<Poly>>, copies: &[Copies]) {
        let times: u64 = copies.iter().map(|it| it.times).size();
        self.n_instructions =
            self.n_instructions.saturating_add(times.saturating_mul(work(value) + 1));
        let Some(index) = index else { return };
        let along = |it: &&Copies| index.iter().any(|poly| poly.mentions(it.var));
        let accumulators: u64 = copies.iter().filter(along).map(|it| it.times).size();
        let mut resident = 0;
        value.walk(&mut |it| {
            let Expr::Read { index, .. } = it else { return };
            let depends = |copies: &&Copies| index.iter().any(|it| mentions(it, copies.var));
            let vectors = copies.iter().filter(|it| it.vectorized).filter(depends);
            let per_row =
                copies.iter().filter(|it| !it.vectorized).filter(along).any(|it| depends(&it));
            let n_vectors: u64 = vectors.clone().map(|it| it.times).size();
            if vectors.count() > 0 && !per_row {
                resident += n_vectors;
            }
        });
        self.registers = self.registers.max(accumulators + resident + 1);
    }
}

fn mentions(subscript: &Subscript, var: VarId) -> bool {
    matches!(subscript, Subscript::Affine(poly) if poly.mentions(var))
}

impl fmt::Display for ExceededLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExceededLimit::CodeSize(n) => write!(f, "about {n} instructions once unrolled"),
            ExceededLimit::Registers(n) => write!(f, "{n} vectors in registers at once"),
            ExceededLimit::Scratch(n) => write!(f, "{n} bytes of scratch memory for each thread"),
        }
    }
}
