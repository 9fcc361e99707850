//! Modules and their kernels: the entry points of this crate.

use crate::code::Inst;
use crate::decode::{Layout, Linked, link};
use crate::fault::{Fault, Source};
use crate::launch::{Argument, Launch, Options};
use crate::machine;
use crate::memory::Memory;
use crate::parse::{ParseError, parse};
use crate::registers::{FULL, LANES, Register, Registers};
use crate::report::Report;
use std::sync::Arc;

/// A parsed module.
pub struct Module {
    kernels: Vec<Kernel>,
}

impl Module {
    /// Reads PTX as the compiler prints it.
    ///
    /// # Errors
    /// An instruction, a modifier or an operand that is not known, with its line.
    pub fn parse(ptx: &str) -> Result<Self, ParseError> {
        let tree = parse(ptx)?;
        let layout = Layout::new(&tree)?;
        let shared = Arc::new(Common {
            source: Source::new(&tree.line_table),
            variables: layout.bytes.clone(),
        });
        let mut kernels = Vec::new();
        for (n, function) in tree.functions.iter().enumerate() {
            if function.is_kernel && function.body.is_some() {
                kernels.push(Kernel {
                    name: function.name.to_owned(),
                    max_threads: function.max_threads,
                    min_ctas: function.min_ctas,
                    max_registers: function.max_registers,
                    cluster: function.cluster,
                    linked: link(&tree, &layout, n)?,
                    common: Arc::clone(&shared),
                });
            }
        }
        Ok(Self { kernels })
    }

    /// The kernel of that name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|it| it.name == name)
    }
}

/// The data that kernels of a module share.
pub(crate) struct Common {
    pub(crate) source: Source,
    /// Initial values of the module's variables.
    pub(crate) variables: Vec<u8>,
}

/// Registers of a multiprocessor; of a thread, at most; and the number in which threads have them.
const REGISTERS: u32 = 65_536;
/// See [`REGISTERS`].
const MAX_REGISTERS: u32 = 255;
/// See [`REGISTERS`].
const UNIT: u32 = 8;

/// A kernel that can be run.
pub struct Kernel {
    name: String,
    max_threads: Option<[u32; 3]>,
    min_ctas: Option<u32>,
    max_registers: Option<u32>,
    cluster: Option<[u32; 3]>,
    pub(crate) linked: Linked,
    pub(crate) common: Arc<Common>,
}

impl Kernel {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Offset and size of each parameter, in bytes.
    #[must_use]
    pub fn parameters(&self) -> &[(u32, u32)] {
        &self.linked.parameters
    }

    /// Threads of a block it was compiled for, at most.
    #[must_use]
    pub fn max_threads(&self) -> Option<[u32; 3]> {
        self.max_threads
    }

    /// The cluster it was compiled for.
    #[must_use]
    pub fn cluster(&self) -> Option<[u32; 3]> {
        self.cluster
    }

    /// Shared memory that it declares.
    #[must_use]
    pub fn static_shared_bytes(&self) -> u32 {
        self.linked.static_shared_bytes
    }

    /// Runs the kernel on every thread of a launch.
    ///
    /// # Errors
    /// The first fault. Memory is then as the kernel left it.
    pub fn run(
        &self,
        launch: &Launch,
        arguments: &[Argument],
        memory: &mut Memory,
        options: &Options,
    ) -> Result<Report, Box<Fault>> {
        machine::run(self, launch, arguments, memory, options)
    }

    /// Returns the registers that each thread of a block of so many threads is launched with, if its
    /// compiler used as many as the bounds of the kernel allow: it does for kernels with `setmaxnreg`.
    pub(crate) fn most_registers(&self, n_threads: u32) -> u32 {
        let n_threads = self.max_threads.map_or(n_threads, |it| it.iter().product());
        let n_ctas = self.min_ctas.unwrap_or(1).max(1);
        let n_threads = n_threads.next_multiple_of(LANES as u32).max(1).saturating_mul(n_ctas);
        let share = REGISTERS / n_threads / UNIT * UNIT;
        share.min(MAX_REGISTERS).min(self.max_registers.unwrap_or(u32::MAX))
    }

    pub(crate) fn code(&self) -> &[Inst] {
        &self.linked.code
    }

    /// Returns registers with constants in place, and zeros elsewhere.
    pub(crate) fn registers(&self) -> Registers {
        let rows = &self.linked.registers;
        let mut registers = Registers {
            predicates: vec![0; rows.n_predicates as usize],
            words: vec![[0; LANES]; rows.n_words as usize],
            doubles: vec![[0; LANES]; rows.n_doubles as usize],
        };
        for ((class, value), slot) in &rows.constants {
            let values = [*value; LANES];
            registers.set_lanes(Register { class: *class, slot: *slot }, FULL, &values);
        }
        registers
    }
}
