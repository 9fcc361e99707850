//! The syntax tree of a module, with names of registers, variables and labels resolved.

use crate::registers::{Class, Slot};

/// The error of a text that is not PTX, or not PTX that this crate knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("PTX line {line}: {message}")]
pub struct ParseError {
    line: u32,
    message: String,
}

impl ParseError {
    pub(crate) fn new(line: u32, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }

    /// The line of the PTX text that is to blame.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.line
    }
}

pub(crate) type Result<T> = std::result::Result<T, ParseError>;

/// A module as written.
#[derive(Debug, Default)]
pub(crate) struct Tree<'a> {
    pub(crate) functions: Vec<Function<'a>>,
    pub(crate) variables: Vec<Variable<'a>>,
    pub(crate) line_table: LineTable<'a>,
}

/// A kernel or a device function.
#[derive(Debug, Default)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_kernel: bool,
    /// Results, then parameters, then what the body declares.
    pub(crate) variables: Vec<Variable<'a>>,
    pub(crate) n_results: usize,
    pub(crate) n_parameters: usize,
    pub(crate) max_threads: Option<[u32; 3]>,
    /// CTAs of a multiprocessor that there is room for, at least.
    pub(crate) min_ctas: Option<u32>,
    /// Registers of a thread at most.
    pub(crate) max_registers: Option<u32>,
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) n_predicates: u32,
    pub(crate) n_words: u32,
    pub(crate) n_doubles: u32,
    /// None for what is declared only.
    pub(crate) body: Option<Vec<Statement<'a>>>,
}

/// The state space of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Constant,
    Shared,
    Local,
    Parameter,
}

#[derive(Clone, Debug)]
pub(crate) struct Variable<'a> {
    pub(crate) name: &'a str,
    pub(crate) space: Space,
    pub(crate) align: u64,
    pub(crate) bytes: u64,
    /// `extern`: as large as the launch makes it.
    pub(crate) unsized_: bool,
    pub(crate) initial: Vec<u8>,
}

/// One instruction.
#[derive(Debug)]
pub(crate) struct Statement<'a> {
    /// In the PTX text.
    pub(crate) line: u32,
    /// In the source it was printed from: an index into [`LineTable`].
    pub(crate) location: u32,
    /// The guard predicate, and whether it is negated.
    pub(crate) guard: Option<(Slot, bool)>,
    pub(crate) opcode: &'a str,
    pub(crate) operands: Vec<Operand<'a>>,
    /// The bytes of a load that are used, a bit each, from the compiler's pragma.
    pub(crate) used: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand<'a> {
    Register(Class, Slot),
    /// `!p`.
    Not(Slot),
    Number(u64),
    Special(Special),
    /// A variable of the function, by index.
    Variable(usize),
    /// A name of the module: a variable or a function.
    Symbol(&'a str),
    /// A statement of the function, by index; several for the table of an indexed branch.
    Targets(Vec<usize>),
    Vector(Vec<Operand<'a>>),
    /// `[base + offset]`, and `[base, {coordinates}]` of tensors.
    Address(Box<Operand<'a>>, i64, Vec<Operand<'a>>),
    /// `a|b`: two destinations.
    Both(Box<(Operand<'a>, Operand<'a>)>),
    /// `(a, b)` of calls.
    List(Vec<Operand<'a>>),
    /// `_`.
    Sink,
}

/// Registers that the machine sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Special {
    Thread(usize),
    Threads(usize),
    Cta(usize),
    Ctas(usize),
    Cluster(usize),
    Clusters(usize),
    CtaInCluster(usize),
    CtasInCluster(usize),
    RankInCluster,
    SizeOfCluster,
    IsExplicitCluster,
    Lane,
    Warp,
    Warps,
    /// One processor: number 0 of 1.
    Processor,
    Processors,
    Grid,
    LaneMask(LaneMask),
    DynamicSharedBytes,
    TotalSharedBytes,
    Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LaneMask {
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// The `.file` and `.loc` directives of a module.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineTable<'a> {
    pub(crate) files: Vec<(u64, &'a str)>,
    /// File, line, column, and for inlined code the position of the call. The first is "unknown".
    pub(crate) lines: Vec<(Position, Option<Position>)>,
}

/// File, line and column, as numbers.
pub(crate) type Position = (u64, u64, u64);
