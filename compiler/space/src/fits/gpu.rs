//! Feasibility of a grid on a GPU: a check of resources, far cheaper than compiling.
//!
//! In: the kernels of a [`Grid`], and a [`GpuTarget`]. Out: every reason why a kernel does not fit. Search
//! prunes candidates by it before any code is generated. Rejected kernels either cannot launch (too
//! many threads, too much shared memory), or would run slowly: registers that spill, code that exceeds
//! the instruction cache.

use std::collections::BTreeSet;
use std::fmt;

use super::live;
use tvmtune_cuda::grid::{FirstOperand, Fragment, Grid, Kernel, MAX_THREADS, MemoryScope, Stmt};
use tvmtune_ir::dag::access::work;
use tvmtune_ir::dag::{DType, Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Atom, Poly, VarId};
use tvmtune_ir::target::GpuTarget;
use tvmtune_ir::target::gpu::{REGISTERS, THREAD_REGISTERS};
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::{Statement, written};

/// A limit of the device that a kernel of a grid exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExceededLimit {
    /// The architecture lacks instructions that a kernel uses.
    Arch,
    /// A block has so many threads.
    Threads(u32),
    /// A block needs so many bytes of shared memory.
    Shared(u32),
    /// The arrays of one thread need so many registers.
    Arrays(u64),
    /// A thread needs about so many registers, of those that one of such a block may have.
    Registers(u32),
    /// No block can be resident.
    Occupancy,
    /// Unrolled, a kernel has about so many instructions.
    CodeSize(u64),
}

impl ExceededLimit {
    /// Returns whether the kernel runs all the same, only slowly.
    pub fn runs(self) -> bool {
        matches!(
            self,
            ExceededLimit::Arrays(_) | ExceededLimit::Registers(_) | ExceededLimit::CodeSize(_)
        )
    }
}

/// Registers of a thread for its arrays: with more, indices and operands no longer fit; estimated.
const MAX_ARRAY_REGISTERS: u64 = 208;
/// Instructions of 16 bytes that the 128 KiB of instruction cache hold which multiprocessors have
/// since Volta (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture", 2018).
const MAX_INSTRUCTIONS: u64 = 8192;

/// Registers of a thread in every kernel, for indices, counters and code motion; estimated.
const BASE_REGISTERS: u64 = 12;
/// Registers of a thread for the address of one tensor in memory; estimated.
const ADDRESS_REGISTERS: u64 = 3;
/// Registers of copies that the compiler starts before it waits for the first of them; estimated.
const MAX_IN_FLIGHT_REGISTERS: u64 = 32;
/// Registers of quotients and remainders that are computed before a loop and kept; estimated.
const MAX_DIVISION_REGISTERS: u64 = 96;

/// Checks that every kernel of `grid` fits `target`.
///
/// # Errors
///
/// Every reason why one does not, each kind once.
pub fn fits(grid: &Grid, target: &GpuTarget) -> Result<(), Vec<ExceededLimit>> {
    let limits = target.arch.limits();
    let mut exceeded = Vec::new();
    for kernel in &grid.body {
        let mut found = Vec::new();
        let threads = kernel.block_threads();
        if threads == 0 || threads > MAX_THREADS {
            found.push(ExceededLimit::Threads(threads));
        }
        let lacks_producer_warp = !kernel.producer.is_empty() && target.arch.sm < 90;
        if lacks_producer_warp || (kernel.uses_wgmma() && !target.arch.has_wgmma()) {
            found.push(ExceededLimit::Arch);
        }
        if kernel.shared_bytes > limits.block_shared_bytes {
            found.push(ExceededLimit::Shared(kernel.shared_bytes));
        }
        let needs = Needs::of(grid, kernel);
        if needs.array_registers > MAX_ARRAY_REGISTERS {
            found.push(ExceededLimit::Arrays(needs.array_registers));
        }
        let registers = needs.registers();
        if registers > most_registers(kernel) {
            found.push(ExceededLimit::Registers(registers));
        }
        let launched = launched_registers(kernel, registers);
        if found.is_empty() && target.occupancy(threads, launched, kernel.shared_bytes) == 0 {
            found.push(ExceededLimit::Occupancy);
        }
        if needs.n_instructions > MAX_INSTRUCTIONS {
            found.push(ExceededLimit::CodeSize(needs.n_instructions));
        }
        exceeded.extend(found);
    }
    exceeded.sort_unstable();
    exceeded.dedup_by_key(|it| std::mem::discriminant(it));
    if exceeded.is_empty() { Ok(()) } else { Err(exceeded) }
}

/// Returns the most registers that a thread of a kernel's body may have.
pub fn most_registers(kernel: &Kernel) -> u32 {
    match kernel.redistributed_registers() {
        Some((granted, _)) => granted,
        None => share(kernel.block_threads()),
    }
}

/// Returns the registers that threads of a kernel are launched with, where those of the body need so
/// many: all of a multiprocessor where `setmaxnreg` redistributes them later.
pub fn launched_registers(kernel: &Kernel, registers: u32) -> u32 {
    match kernel.redistributed_registers() {
        Some(_) => share(kernel.block_threads()),
        None => registers,
    }
}

/// Returns the most registers that a thread of such a block is launched with: they are allocated in
/// eights.
fn share(threads: u32) -> u32 {
    (REGISTERS / threads.max(1).next_multiple_of(32) / 8 * 8).min(THREAD_REGISTERS)
}

/// Estimates the registers that a thread of a kernel needs, without spills.
pub fn registers(grid: &Grid, kernel: &Kernel) -> u32 {
    Needs::of(grid, kernel).registers()
}

/// The registers and instructions of a thread.
struct Needs<'a> {
    grid: &'a Grid,
    array_registers: u64,
    /// Register operands of WGMMA instructions among them: their elements are packed.
    packed: BTreeSet<TensorId>,
    /// Elements that one step of a sum reads.
    fragments: u64,
    /// Registers of copies in flight at the same time.
    in_flight: u64,
    /// Quotients and remainders in indices, and how many registers they take.
    divisions: BTreeSet<Atom>,
    division_registers: u64,
    /// Tensors in memory.
    tensors: Vec<TensorId>,
    n_instructions: u64,
}

/// A loop around a statement.
#[derive(Clone, Copy)]
struct Open {
    var: VarId,
    /// Its copies after unrolling; 1 if it stays a loop.
    times: u64,
}

impl<'a> Needs<'a> {
    fn of(grid: &'a Grid, kernel: &Kernel) -> Self {
        let mut needs = Self {
            grid,
            array_registers: 0,
            packed: BTreeSet::new(),
            fragments: 0,
            in_flight: 0,
            divisions: BTreeSet::new(),
            division_registers: 0,
            tensors: Vec::new(),
            n_instructions: 0,
        };
        for stmt in &kernel.body {
            stmt.walk(&mut |it| {
                if let Stmt::Wgmma { a, .. } = it
                    && let FirstOperand::Registers(it) = &**a
                {
                    needs.packed.insert(it.tensor);
                }
            });
            needs.visit(stmt, &mut Vec::new());
        }
        let of_fragment = |it: &Fragment| it.count.unsigned_abs() * u64::from(it.registers);
        let fragments = kernel.fragments.iter().map(of_fragment).sum();
        needs.fragments = needs.fragments.max(fragments);
        // Between WGMMA groups whose accumulators stay where they are, arrays come and go.
        needs.array_registers = match kernel.uses_wgmma() {
            true => live::most(kernel, &|it| needs.array(it)),
            false => written(&kernel.body)
                .into_iter()
                .map(|it| needs.array(it))
                .fold(0, u64::saturating_add),
        };
        needs
    }

    fn registers(&self) -> u32 {
        let needed = [
            self.array_registers,
            self.fragments.max(self.in_flight.min(MAX_IN_FLIGHT_REGISTERS)),
            self.division_registers.min(MAX_DIVISION_REGISTERS),
            self.tensors.len() as u64 * ADDRESS_REGISTERS,
            BASE_REGISTERS,
        ];
        let all = needed.into_iter().fold(0, u64::saturating_add);
        u32::try_from(all).unwrap_or(u32::MAX / 2).next_multiple_of(8)
    }

    /// Registers of a buffer that each thread has.
    fn array(&self, tensor: TensorId) -> u64 {
        let Some(buffer) = self.grid.buffers.get(tensor.0 as usize) else { return 0 };
        if buffer.scope != MemoryScope::Registers {
            return 0;
        }
        let extent = |it: &Poly| it.as_constant().unwrap_or(1).max(1) as u64;
        let elements = buffer.shape.iter().map(extent).fold(1, u64::saturating_mul);
        match self.packed.contains(&tensor) {
            true => elements.saturating_mul(buffer.dtype.bytes()).div_ceil(4),
            false => elements.saturating_mul(words(buffer.dtype)),
        }
    }

    fn visit(&mut self, stmt: &Stmt, open: &mut Vec<Open>) {
        match stmt {
            Stmt::For { var, extent, kind, body, .. } => {
                // Tensorized loops are unrolled if no MMA instruction took their place.
                use LoopKind::{Tensorized, Unrolled, Vectorized};
                let times = match (kind, extent.as_constant()) {
                    (Unrolled | Vectorized | Tensorized, Some(n)) => n.max(1) as u64,
                    _ => 1,
                };
                open.push(Open { var: *var, times });
                body.iter().for_each(|it| self.visit(it, open));
                open.pop();
            }
            Stmt::Store { tensor, value, .. } => self.statement(*tensor, value, None, open),
            Stmt::Update { tensor, index, value, .. } => {
                self.statement(*tensor, value, Some(index), open);
            }
            Stmt::AllReduce { .. } | Stmt::TransposeQuad { .. } | Stmt::Barrier { .. } => {
                self.n_instructions =
                    self.n_instructions.saturating_add(times(open.iter()).saturating_mul(16));
            }
            Stmt::CpAsync { body } => {
                // They go by no register.
                let in_flight = self.in_flight;
                body.iter().for_each(|it| self.visit(it, open));
                self.in_flight = in_flight;
            }
            other => other.body().iter().for_each(|it| self.visit(it, open)),
        }
    }

    fn statement(&mut self, to: TensorId, value: &Expr, sum: Option<&Vec<Poly>>, open: &[Open]) {
        self.note(to);
        let to_registers = self.scope(to) == Some(MemoryScope::Registers);
        let mut words = 0_u64;
        value.for_each_read(&mut |tensor, index| {
            self.note(tensor);
            if self.scope(tensor) == Some(MemoryScope::Registers) {
                return;
            }
            let depends = |it: &&Open| index.iter().any(|at| mentions(at, it.var));
            // Of a sum, one step at a time: loops that do not move the result are steps.
            let along = |it: &&Open| sum.is_none_or(|sum| sum.iter().any(|at| at.mentions(it.var)));
            let n = times(open.iter().filter(depends).filter(along));
            index.iter().filter_map(affine).for_each(|at| self.keep(at, open));
            words = words.saturating_add(n.saturating_mul(self.words_of(tensor)));
        });
        match sum {
            Some(_) if to_registers => self.fragments = self.fragments.max(words),
            _ if to_registers => {}
            _ => self.in_flight = self.in_flight.saturating_add(words),
        }
        let code = times(open.iter()).saturating_mul(work(value).saturating_add(1));
        self.n_instructions = self.n_instructions.saturating_add(code);
    }

    /// Counts the quotients and remainders in an index, each once for all that only adds to it.
    fn keep(&mut self, index: &Poly, open: &[Open]) {
        let is_division = |it: &&Atom| matches!(it, Atom::Div(..) | Atom::Mod(..));
        for atom in index.terms().flat_map(|it| it.0).filter(is_division) {
            if self.divisions.insert(atom.clone()) {
                let value = Poly::atom(atom.clone());
                let copies = times(open.iter().filter(|it| value.mentions(it.var)));
                self.division_registers = self.division_registers.saturating_add(copies);
            }
        }
    }

    fn scope(&self, tensor: TensorId) -> Option<MemoryScope> {
        self.grid.buffers.get(tensor.0 as usize).map(|it| it.scope)
    }

    fn words_of(&self, tensor: TensorId) -> u64 {
        self.grid.buffers.get(tensor.0 as usize).map_or(1, |it| words(it.dtype))
    }

    fn note(&mut self, tensor: TensorId) {
        let in_memory = self.scope(tensor).is_some_and(MemoryScope::is_global);
        if in_memory && !self.tensors.contains(&tensor) {
            self.tensors.push(tensor);
        }
    }
}

fn times<'a>(open: impl Iterator<Item = &'a Open>) -> u64 {
    open.map(|it| it.times).fold(1, u64::saturating_mul)
}

/// Registers of one element.
fn words(dtype: DType) -> u64 {
    dtype.bytes().div_ceil(4)
}

fn affine(subscript: &Subscript) -> Option<&Poly> {
    match subscript {
        Subscript::Affine(poly) => Some(poly),
        Subscript::Value(_) => None,
    }
}

fn mentions(subscript: &Subscript, var: VarId) -> bool {
    match subscript {
        Subscript::Affine(poly) => poly.mentions(var),
        Subscript::Value(_) => true,
    }
}

impl fmt::Display for ExceededLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExceededLimit::Arch => f.write_str("instructions that the architecture does not have"),
            ExceededLimit::Threads(n) => write!(f, "{n} threads in a block"),
            ExceededLimit::Shared(n) => write!(f, "{n} bytes of shared memory in a block"),
            ExceededLimit::Arrays(n) => write!(f, "{n} registers in arrays of one thread"),
            ExceededLimit::Registers(n) => write!(f, "about {n} registers of one thread"),
            ExceededLimit::Occupancy => f.write_str("no block can be resident"),
            ExceededLimit::CodeSize(n) => write!(f, "about {n} instructions once unrolled"),
        }
    }
}
