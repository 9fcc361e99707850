//! Modules and their kernels: the entry points of this crate.

use crate::code::Inst;
use crate::decode::{Layout, Linked, link};
use crate::fault::{Fault, Source};
use crate::launch::{Argument, Launch, Options};
use crate::machine;
use crate::memory::Memory;
use crate::parse::{ParseError, parse};
use crate::registers::Registers;
use crate::report::Report;
use std::sync::Arc;

/// A parsed module.
pub struct Module {
    version: String,
    target: String,
    kernels: Vec<Kernel>,
}

impl Module {
    /// Reads PTX as the compiler prints it.
    ///
    /// # Errors
    /// An instruction, a modifier or an operand that is not known, with its line.
    pub fn parse(ptx: &str) -> Result<Self, ParseError> {
        let tree = parse(ptx)?;
        let layout = Layout::new(&tree);
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
                    cluster: function.cluster,
                    linked: link(&tree, &layout, n)?,
                    common: Arc::clone(&shared),
                });
            }
        }
        Ok(Self { version: tree.version.to_owned(), target: tree.target.to_owned(), kernels })
    }

    /// The version of the PTX language.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The architecture that it was compiled for.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// All kernels, as they are listed.
    #[must_use]
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
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

/// A kernel that can be run.
pub struct Kernel {
    name: String,
    max_threads: Option<[u32; 3]>,
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

    pub(crate) fn code(&self) -> &[Inst] {
        &self.linked.code
    }

    /// Returns registers with constants in place, and zeros elsewhere.
    pub(crate) fn registers(&self) -> Registers {
        let rows = &self.linked.registers;
        let mut registers = Registers {
            predicates: vec![0; rows.n_predicates as usize],
            words: vec![[0; 32]; rows.n_words as usize],
            doubles: vec![[0; 32]; rows.n_doubles as usize],
        };
        use crate::registers::Class;
        for ((class, value), slot) in &rows.constants {
            let slot = *slot as usize;
            match class {
                Class::Predicate => registers.predicates[slot] = if *value == 0 { 0 } else { !0 },
                Class::Word => registers.words[slot] = [*value as u32; 32],
                Class::Double => registers.doubles[slot] = [*value; 32],
            }
        }
        registers
    }
}
