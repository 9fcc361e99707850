//! Step 5 of 12: vector code, the machine-independent IR of CPU kernels: vectors, virtual registers,
//! masks, memory, tasks.
//!
//! ```text
//! dsl -> dag -> schedule -> nest -> [vector code] -> codegen -> compile -> measure -> ...
//! ```
//!
//! In: a [`Nest`](tvmtune_schedule::nest::Nest) and an [`Isa`]. Out: [`VectorCode`]:
//! straight-line code in counted loops. Next: [`crate::x86`] selects instructions.
//!
//! Vectors have lanes of 32 bits, or of 64 where a value of the kernel needs them; all of a kernel has one
//! width, and narrower numbers are widened where they are loaded (ADR 60). Integers that are known at launch (strides, trip counts, lengths of
//! tails) are *parameters*: the caller computes them from the dimensions and passes them in the
//! argument table, so that the code itself never computes an extent.
//!
//! Passes, in order: `build` makes the loop [`tree`] (strip-mining, legality of vectorization, `wrap` and
//! `lane_phases` where indices are not linear in a lane, `chosen` where data choose the one iteration of a loop
//! that counts),
//! `allocate` puts local tensors into registers or scratch memory, `promote` gives reductions
//! register accumulators, `interchange` brings strided accesses of consecutive words together, `lower`
//! emits code (`unswitch` takes choices out of loops, `partition` and `peel` split these, `store` and `expr`
//! lower statements, `legalize` and [`tvmtune_math`] expand operations without an instruction) as nodes of
//! `numbering`, `windows` and `live_ranges` order these, `cse` turns them into statements, those of a
//! [`transpose`] side by side, and `hoist` moves loop-invariant values out of loops.
//!
//! # Invariants
//!
//! - Loops are counted loops: unrolled ones are expanded.
//! - Registers are assigned before they are read, on every path.
//! - An access is in bounds in every lane that is not masked off.
//! - Later steps do not change the instruction mix; of four strided accesses they make a transposition.

mod accumulate;
mod affine;
mod allocate;
mod bounded;
mod build;
mod cse;
mod expr;
mod fallback;
mod fill;
mod float_range;
mod gather;
mod guarded;
mod hoist;
mod legalize;
mod lower;
mod long;
mod partition;
mod peel;
mod numbering;
mod prefetch;
mod print;
mod promote;
mod certain;
mod choices;
mod chosen;
mod context;
mod interchange;
mod lane_phases;
mod live_ranges;
mod table;
pub(crate) mod transpose;
mod tree;
mod unswitch;
pub mod verify;
pub mod width;
mod windows;
mod nonlinear;
mod words;
mod wrap;
mod saturated;
mod store;

use tvmtune_ir::dag::{BinaryOp, DType, ScalarId, TensorId, UnaryOp};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{Layout, Threads};

pub use lane_phases::MAX_PHASES;
pub use lower::lower;
pub(crate) use numbering::{first_lanes, int_bits};
pub use tvmtune_math::lane::{
    Binary as VectorBinary, Compare as VectorCompare, Unary as VectorUnary, Width,
};

/// The reason why a nest is left to portable code, or a schedule is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Elements or values of a type without machine code.
    #[error("values of type `{0}` are left to portable code")]
    Type(DType),
    /// An operation without machine code for its type.
    #[error("the operation {0:?} is left to portable code")]
    Operation(BinaryOp),
    /// A function without machine code for its type.
    #[error("the function {0:?} of `{1}` is left to portable code")]
    Function(UnaryOp, DType),
    /// An index that is no affine function of loop variables.
    #[error("an index is no linear function of loop variables")]
    Index,
    /// An integer that may not fit what a conversion or an operation takes.
    #[error("an integer may have too many digits")]
    Range,
    /// Results that a function of Rust defines.
    #[error("a function of Rust defines its results")]
    Reference,
    /// More statements than that limit.
    #[error("the kernel has more than {statements} statements")]
    TooLarge { statements: usize },
}

/// The vectors of a kernel: those of an instruction set, in lanes of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simd {
    pub isa: Isa,
    pub width: Width,
}

/// A virtual vector register; may be assigned more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(pub u32);

/// An entry of the argument table, by position in [`VectorCode::table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u32);

/// One 8-byte entry of the argument table, which the caller fills.
#[derive(Clone, Debug, PartialEq)]
pub enum TableEntry {
    /// The address of a parameter or result, or of a weight in `layout`; 64-byte aligned.
    Pointer { tensor: TensorId, layout: Option<Layout> },
    /// The address of a workspace of that many bytes, shared by all tasks of a launch; 64-byte
    /// aligned.
    Workspace { bytes: Poly },
    /// An integer computed from the dimensions.
    Param(Poly),
    /// A run-time scalar and its type, of which it has the bits, in the low bytes; floats narrower than 32
    /// bits are widened to `f32`, narrower integers and `bool` to `i32`.
    Scalar(ScalarId, DType),
}

/// The bits of a run-time scalar that lanes hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScalarBits {
    /// As many of the low ones as a lane has.
    Low,
    /// The upper 32 of 64, in lanes of 32.
    HighWord,
}

/// An integer known at launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Count {
    /// Known when the code was generated.
    Const(i64),
    /// The value of a [`TableEntry::Param`].
    Param(EntryId),
}

/// An affine integer, uniform over lanes: `constant + param + sum of var * stride`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Linear {
    /// The constant part.
    pub constant: i64,
    /// The part known at launch, a [`TableEntry::Param`].
    pub param: Option<EntryId>,
    /// Variables of enclosing loops, tasks and lets, sorted, each once.
    pub strides: Vec<(VarId, Count)>,
}

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Base {
    /// The pointer in an entry of the table: a `Pointer` or `Workspace`.
    Table(EntryId),
    /// The scratch memory of the thread that runs the task; 64-byte aligned.
    Scratch,
}

/// A memory address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub base: Base,
    /// The offset of lane 0, in bytes.
    pub offset: Linear,
}

/// The distance of the lanes of an access in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneStride {
    /// A broadcast: all lanes access the element at the address. A store writes lane 0.
    Uniform,
    /// Lane `n` accesses element `n` from the address on.
    Contiguous,
    /// Lane `n` accesses byte `n * stride` from the address on; the offsets fit 31 bits.
    Strided(Count),
}

/// The active lanes of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Mask {
    /// A prefix of the lanes: 0 up to all of them.
    First(Count),
    /// The lanes in which a truth value is true.
    Where(Box<Value>),
}

/// The memory format of elements; in registers they are floats or integers of the lanes' width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Storage {
    /// 32 bits, as they are: `f32`, `i32` or `u32`, in lanes of 32 bits.
    Word,
    /// 64 bits, as they are: `f64` or `i64`, in lanes of 64 bits.
    Long,
    /// `f32` in lanes of 64 bits; stores round to nearest even.
    F32,
    /// `i32` in lanes of 64 bits; stores keep the low word.
    I32,
    /// `u32` in lanes of 64 bits; stores keep the low word.
    U32,
    /// IEEE binary16, in lanes of 32 bits; stores round to nearest even.
    F16,
    /// The upper half of an `f32`, in lanes of 32 bits; stores round to nearest even.
    Bf16,
    /// Sign-extended; stores keep the low byte.
    I8,
    /// Zero-extended; stores keep the low byte.
    U8,
    /// One byte, 0 or 1; in registers a truth value. Loads test for non-zero.
    Bool,
}

impl Storage {
    /// Returns the format of a type in lanes of a width; `None` for types without one.
    pub fn of(dtype: DType, width: Width) -> Option<Self> {
        Some(match (dtype, width) {
            (DType::I8, _) => Storage::I8,
            (DType::U8, _) => Storage::U8,
            (DType::Bool, _) => Storage::Bool,
            (DType::F32 | DType::I32 | DType::U32, Width::Bits32) => Storage::Word,
            (DType::F16, Width::Bits32) => Storage::F16,
            (DType::Bf16, Width::Bits32) => Storage::Bf16,
            (DType::F64 | DType::I64, Width::Bits64) => Storage::Long,
            (DType::F32, Width::Bits64) => Storage::F32,
            (DType::I32, Width::Bits64) => Storage::I32,
            (DType::U32, Width::Bits64) => Storage::U32,
            (DType::F64 | DType::I64, Width::Bits32) => return None,
            (DType::F16 | DType::Bf16, Width::Bits64) => return None,
        })
    }

    /// Returns the format of elements that are as wide as lanes.
    pub fn of_lanes(width: Width) -> Self {
        match width {
            Width::Bits32 => Storage::Word,
            Width::Bits64 => Storage::Long,
        }
    }

    /// Returns the size of one element in memory, in bytes.
    pub fn bytes(self) -> i64 {
        match self {
            Storage::Long => 8,
            Storage::Word | Storage::F32 | Storage::I32 | Storage::U32 => 4,
            Storage::F16 | Storage::Bf16 => 2,
            Storage::I8 | Storage::U8 | Storage::Bool => 1,
        }
    }
}

/// A vector: the bits of each lane.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The same bits in all lanes; those of narrow lanes are the low ones.
    Splat(u64),
    /// A run-time scalar in all lanes: a [`TableEntry::Scalar`].
    Scalar(EntryId, ScalarBits),
    /// A truth value that is known for each lane, a bit for each from lane 0 on.
    Lanes(u16),
    /// A register.
    Reg(Reg),
    /// Elements from memory, lane 0 at the address; lanes masked off are 0 and their memory is not
    /// touched.
    Load { address: Address, lanes: LaneStride, storage: Storage, mask: Option<Mask> },
    /// Elements at computed offsets; lanes masked off are 0 and their memory is not touched.
    Gather {
        address: Address,
        /// Offsets in elements, an integer in each lane.
        index: Box<Value>,
        /// The format of elements, which are as wide as lanes.
        storage: Storage,
        mask: Option<Mask>,
    },
    /// Elements from memory, lane 0 at the address and as many elements behind it as lane 0 of the index
    /// says; lanes masked off are 0 and their memory is not touched.
    LoadAt {
        address: Address,
        /// An offset in elements, an integer; that of lane 0 counts.
        index: Box<Value>,
        /// Not [`LaneStride::Strided`].
        lanes: LaneStride,
        storage: Storage,
        mask: Option<Mask>,
    },
    /// An integer: `base + lane * step`.
    Index {
        /// The value in lane 0; fits 31 bits.
        base: Linear,
        /// The difference between neighboring lanes.
        step: i32,
    },
    /// An operation on one vector.
    Unary(VectorUnary, Box<Value>),
    /// An operation on two vectors.
    Binary(VectorBinary, Box<Value>, Box<Value>),
    /// Of floats, `.0 * .1 + .2`, rounded once.
    Fma(Box<Value>, Box<Value>, Box<Value>),
    /// A comparison.
    Compare(VectorCompare, Box<Value>, Box<Value>),
    /// Lane-wise: `then` where the condition, a truth value, is true, else `otherwise`.
    Select { condition: Box<Value>, then: Box<Value>, otherwise: Box<Value> },
    /// All lanes combined by an associative operation; the result is in every lane.
    Reduce(VectorBinary, Box<Value>),
}

/// Floor division or its remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DivOp {
    /// `floor(value / by)`.
    Div,
    /// `value - by * floor(value / by)`.
    Mod,
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// `for var in 0..count { body }`; none if the count is 0 or less.
    Loop { var: VarId, count: Count, body: Vec<Stmt> },
    /// `if value < bound { then } else { otherwise }`, the same for all lanes.
    If { value: Linear, bound: Linear, then: Vec<Stmt>, otherwise: Vec<Stmt> },
    /// Runs the body if the condition, a truth value, holds in any lane; that is rare.
    IfAny { condition: Value, then: Vec<Stmt> },
    /// `let var = value - less; if 0 <= var < count { body }`, of the integer in lane 0. In lanes of 32 bits, the
    /// value may be one load of [`Storage::Long`], the same for all lanes.
    Choose { var: VarId, value: Value, less: Linear, count: Count, body: Vec<Stmt> },
    /// `for var in from..to { body }`: `from` is the greatest of its bounds and 0, `to` the least of its bounds and the
    /// count.
    Between { var: VarId, from: Vec<DataBound>, to: Vec<DataBound>, count: Count, body: Vec<Stmt> },
    /// `let var = value op by` for what follows in this block; `by >= 1`, `value >= 0`.
    Let { var: VarId, op: DivOp, value: Linear, by: Count },
    /// `reg = value` in the lanes of the mask; the others keep their values.
    Set { reg: Reg, value: Value, mask: Option<Mask> },
    /// Stores elements, in the lanes of the mask.
    Store {
        address: Address,
        lanes: LaneStride,
        storage: Storage,
        value: Value,
        mask: Option<Mask>,
    },
    /// Prefetches the cache line of an address, which need not be valid.
    Prefetch { address: Address, hint: PrefetchHint },
}

/// An iteration of a loop that data say: `max(0, value - less) / by`, rounded down, of the integer in lane 0.
#[derive(Clone, Debug, PartialEq)]
pub struct DataBound {
    /// In lanes of 32 bits, this may be one load of [`Storage::Long`], the same for all lanes. An integer outside of
    /// `-1..=i32::MAX` counts as the nearest in it.
    pub value: Value,
    /// Fits 32 bits.
    pub less: Linear,
    /// At least 1.
    pub by: i64,
}

/// The next use of a line that is prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchHint {
    /// It is read soon: it goes into the first-level cache.
    Read,
    /// It is read after more has been read than the first-level cache holds: it goes into the second.
    ReadLater,
}

/// Tasks that may run in any order and on any thread; phases run one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The grid of tasks, outermost first: task number `t` has coordinates in row-major order.
    /// Empty for a single task.
    pub tasks: Vec<(VarId, Count)>,
    /// The body of a task.
    pub body: Vec<Stmt>,
}

/// Vector code for one instruction set. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq)]
pub struct VectorCode {
    /// The program's name, for readers.
    pub name: String,
    /// The instruction set that it may use.
    pub isa: Isa,
    /// The width of all lanes.
    pub width: Width,
    /// The argument table: the parameters, then the results that replace none of them, then other
    /// entries.
    pub table: Vec<TableEntry>,
    /// Bytes of scratch memory of each thread.
    pub scratch_bytes: Poly,
    /// Registers are `Reg(0..n_regs)`.
    pub n_regs: u32,
    /// The threads that may run tasks.
    pub threads: Threads,
    /// Phases in order, with a barrier between.
    pub phases: Vec<Phase>,
}

impl Simd {
    /// Returns the number of lanes of a vector.
    pub fn lanes(self) -> i64 {
        i64::from(self.isa.lanes() * Width::Bits32.bits() / self.width.bits())
    }

    /// Returns the number of vector registers.
    pub fn registers(self) -> u32 {
        self.isa.registers()
    }

    /// Returns whether there is an instruction that multiplies by a power of two.
    pub fn scales(self) -> bool {
        self.isa.scales() && self.width == Width::Bits32
    }
}

impl VectorCode {
    /// Returns the vectors that it computes with.
    pub fn simd(&self) -> Simd {
        Simd { isa: self.isa, width: self.width }
    }
}

impl Linear {
    /// Returns a constant.
    pub fn constant(constant: i64) -> Self {
        Self { constant, ..Self::default() }
    }
}

impl Mask {
    /// Returns the truth value of the active lanes.
    fn operand(mask: &Option<Self>) -> Option<&Value> {
        match mask {
            Some(Mask::Where(value)) => Some(value),
            Some(Mask::First(_)) | None => None,
        }
    }
}

impl Value {
    /// Returns the operands, that of the mask last.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &Value> {
        let (a, b, c): (Option<&Value>, Option<&Value>, Option<&Value>) = match self {
            Value::Splat(_)
            | Value::Scalar(..)
            | Value::Lanes(_)
            | Value::Reg(_)
            | Value::Index { .. } => (None, None, None),
            Value::Load { mask, .. } => (Mask::operand(mask), None, None),
            Value::Gather { index, mask, .. } | Value::LoadAt { index, mask, .. } => {
                (Some(index), Mask::operand(mask), None)
            }
            Value::Unary(_, a) | Value::Reduce(_, a) => (Some(a), None, None),
            Value::Binary(_, a, b) | Value::Compare(_, a, b) => (Some(a), Some(b), None),
            Value::Fma(a, b, c) | Value::Select { condition: a, then: b, otherwise: c } => {
                (Some(a), Some(b), Some(c))
            }
        };
        [a, b, c].into_iter().flatten()
    }

    /// Calls `visit` for each operand that is a register.
    pub(crate) fn for_each_read(&self, visit: &mut dyn FnMut(Reg)) {
        if let Value::Reg(reg) = self {
            visit(*reg);
        }
        self.operands().for_each(|it| it.for_each_read(visit));
    }
}

impl Stmt {
    /// Returns the blocks of statements inside a statement.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &[Stmt]> {
        let (first, second): (Option<&[Stmt]>, Option<&[Stmt]>) = match self {
            Stmt::Loop { body, .. }
            | Stmt::IfAny { then: body, .. }
            | Stmt::Choose { body, .. }
            | Stmt::Between { body, .. } => (Some(body), None),
            Stmt::If { then, otherwise, .. } => (Some(then), Some(otherwise)),
            Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Store { .. } | Stmt::Prefetch { .. } => {
                (None, None)
            }
        };
        first.into_iter().chain(second)
    }

    /// Returns the operands of an assignment, store, condition or bound, that of a mask last.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &Value> {
        let bounds: [&[DataBound]; 2] = match self {
            Stmt::Between { from, to, .. } => [from, to],
            _ => [&[], &[]],
        };
        let (value, mask) = match self {
            Stmt::Set { value, mask, .. } | Stmt::Store { value, mask, .. } => {
                (Some(value), Mask::operand(mask))
            }
            Stmt::IfAny { condition: value, .. } | Stmt::Choose { value, .. } => {
                (Some(value), None)
            }
            Stmt::Loop { .. }
            | Stmt::If { .. }
            | Stmt::Between { .. }
            | Stmt::Let { .. }
            | Stmt::Prefetch { .. } => (None, None),
        };
        value.into_iter().chain(mask).chain(bounds.into_iter().flatten().map(|it| &it.value))
    }
}

#[cfg(test)]
mod tests;
