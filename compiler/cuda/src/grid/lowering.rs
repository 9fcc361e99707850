//! The lowering of one kernel as a chain of types: each pass consumes a stage and returns the next,
//! so that none can run out of order.
//!
//! ```text
//! Threaded -> Placed -> Pipelined -> Bound -> Tensorized -> Kernel
//! ```

use std::collections::BTreeMap;

use super::fragment_layout::FragmentLayouts;
use super::pipeline::Staging;
use super::predicate::DontCare;
use super::{
    Buffer, Kernel, MemoryScope, Statement, Stmt, Unplaceable, bank_conflicts, barrier, bind, lpt,
    memory, mma, pipeline, predicate, quad, shared_memory, threads, unbound, unroll,
    warp_specialize, wgmma,
};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::{Facts, Poly};
use tvmtune_schedule::nest::{self, Nest};

/// The tables that all kernels of a grid share.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub(super) buffers: Vec<Buffer>,
    /// Variables are `VarId(0..n_vars)`.
    pub(super) n_vars: u32,
}

/// The place of first operands of WGMMA instructions that threads compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperandPlacement {
    /// In registers, wherever that may be possible.
    Registers,
    /// In shared memory.
    Shared,
}

/// Lowers phases that one kernel runs.
///
/// Operands in registers save a round trip through shared memory, but whether an instruction reads
/// them there is known only once instructions are formed. So there are two candidates, and the
/// second one counts if the first has operands that no instruction reads.
pub(super) fn lower(
    phases: &[nest::Stmt],
    nest: &Nest,
    tables: Tables,
    facts: &Facts,
) -> Result<(Kernel, Tables), Unplaceable> {
    let threaded = Threaded::new(phases, nest, tables, facts)?;
    let candidate = |operands| -> Result<_, Unplaceable> {
        Ok(threaded.clone().place_memory(operands)?.pipeline()?.bind_threads().tensorize())
    };
    let in_registers = candidate(OperandPlacement::Registers)?;
    let tensorized = match in_registers {
        Some(it) => it,
        None => candidate(OperandPlacement::Shared)?.ok_or(Unplaceable::OperandInRegisters)?,
    };
    tensorized.finish()
}

/// Loops over threads say how many threads each iteration has; what threads reduce together, they
/// all-reduce. Copies to memory of a block are zero-filled, and guards around sums of them gone.
#[derive(Clone)]
struct Threaded {
    kernel: unbound::Kernel,
    tables: Tables,
    facts: Facts,
    dont_care: DontCare,
}

impl Threaded {
    fn new(
        phases: &[nest::Stmt],
        nest: &Nest,
        mut tables: Tables,
        facts: &Facts,
    ) -> Result<Self, Unplaceable> {
        let Tables { buffers, n_vars } = &mut tables;
        let mut kernel = threads::kernel(phases, nest, buffers, n_vars, facts)?;
        let facts = kernel_facts(&kernel, facts);
        let dont_care = predicate::fill(&mut kernel, buffers, &facts);
        Ok(Self { kernel, tables, facts, dont_care })
    }

    fn place_memory(self, operands: OperandPlacement) -> Result<Placed, Unplaceable> {
        let Self { mut kernel, mut tables, facts, dont_care } = self;
        let Tables { buffers, n_vars } = &mut tables;
        let layouts = match operands {
            OperandPlacement::Registers => FragmentLayouts::new(&kernel, buffers, n_vars),
            OperandPlacement::Shared => FragmentLayouts::default(),
        };
        let stagings = memory::place(&mut kernel, buffers, &facts, &layouts, n_vars)?;
        Ok(Placed { kernel, tables, facts, dont_care, layouts, stagings })
    }
}

/// No buffer that the kernel accesses is [`MemoryScope::Undecided`], and accesses are of elements
/// as they are stored there: in pipeline stages, or in the registers of one thread.
struct Placed {
    kernel: unbound::Kernel,
    tables: Tables,
    facts: Facts,
    dont_care: DontCare,
    layouts: FragmentLayouts,
    stagings: BTreeMap<TensorId, Staging>,
}

impl Placed {
    fn pipeline(self) -> Result<Pipelined, Unplaceable> {
        let Self { mut kernel, tables, facts, dont_care, layouts, stagings } = self;
        let buffers = &tables.buffers;
        pipeline::keep(&mut kernel, buffers, &stagings);
        warp_specialize::divide(&mut kernel, buffers, &stagings, &dont_care)?;
        unroll::loops(&mut kernel, &|it| in_registers(buffers, it), &facts);
        barrier::insert(&mut kernel, buffers)?;
        Ok(Pipelined { kernel, tables, facts, layouts })
    }
}

/// Pipelined loops are loops around `cp.async`, or divided between producer and consumers; loops
/// that index registers are unrolled; threads wait wherever one needs what another did.
struct Pipelined {
    kernel: unbound::Kernel,
    tables: Tables,
    facts: Facts,
    layouts: FragmentLayouts,
}

impl Pipelined {
    fn bind_threads(self) -> Bound {
        let Self { kernel, mut tables, facts, layouts } = self;
        let Tables { buffers, n_vars } = &mut tables;
        let kernel = bind::bind(kernel, &|it| in_registers(buffers, it), n_vars);
        Bound { kernel, tables, facts, layouts }
    }
}

/// There are no loops over threads: one program is that of every thread.
struct Bound {
    kernel: Kernel,
    tables: Tables,
    facts: Facts,
    layouts: FragmentLayouts,
}

impl Bound {
    /// Forms MMA and WGMMA instructions; `None` if an operand is in registers that none reads.
    fn tensorize(self) -> Option<Tensorized> {
        let Self { mut kernel, mut tables, facts, layouts } = self;
        let Tables { buffers, n_vars } = &mut tables;
        wgmma::find(&mut kernel, buffers, &layouts);
        if layouts.any_left(&kernel.body) {
            return None;
        }
        bank_conflicts::pad(&kernel, buffers, &facts);
        mma::find(&mut kernel, buffers);
        quad::exchange(&mut kernel, buffers, n_vars);
        Some(Tensorized { kernel, tables, facts })
    }
}

/// Loops that MMA or WGMMA instructions compute are those; shared buffers have their final shapes,
/// swizzled or padded.
struct Tensorized {
    kernel: Kernel,
    tables: Tables,
    facts: Facts,
}

impl Tensorized {
    /// Orders the blocks and allocates shared memory: the kernel can be printed.
    fn finish(self) -> Result<(Kernel, Tables), Unplaceable> {
        let Self { mut kernel, mut tables, facts } = self;
        lpt::lpt_order(&mut kernel, &facts);
        shared_memory::allocate(&mut kernel, &mut tables.buffers)?;
        Ok((kernel, tables))
    }
}

/// Bounds the variables of a kernel.
fn kernel_facts(kernel: &unbound::Kernel, known: &Facts) -> Facts {
    let mut facts = known.clone();
    kernel.bound_loops(&mut facts);
    for stmt in &kernel.body {
        stmt.walk(&mut |it| {
            if let Stmt::Thread(it) = it {
                facts.bound_var(it.var, Poly::constant(it.extent.into()));
            }
        });
    }
    facts
}

fn in_registers(buffers: &[Buffer], tensor: TensorId) -> bool {
    buffers[tensor.0 as usize].scope == MemoryScope::Registers
}
