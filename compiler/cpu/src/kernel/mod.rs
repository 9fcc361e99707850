//! Step 5 of 12: a nest placed on a CPU: vectors, registers, masks, memory, tasks.
//!
//! ```text
//! dsl -> dag -> schedule -> nest -> [kernel] -> codegen -> compile -> measure -> ...
//! ```
//!
//! In: a [`Nest`](tvmtune_schedule::nest::Nest) and an [`Isa`]. Out: a [`Kernel`]: straight-line vector code
//! in counted loops, with nothing left to decide. Next: [`crate::x86`] encodes it.
//!
//! A kernel works on vectors of 32-bit lanes. Everything that is known at launch (strides, trip
//! counts, lengths of tails) is a *parameter*, computed by the caller from the dimensions and
//! passed in the argument table, so that the code itself never computes an extent.
//!
//! # Invariants
//!
//! - Unrolled loops are gone: their bodies are repeated. What is left are counted loops.
//! - Registers are assigned before they are read, on every path.
//! - An address stays inside its buffer whenever it is accessed in a lane that is not masked off.
//! - All optimisation that changes the instruction mix was done here; codegen prints.

mod affine;
mod arith;
mod build;
mod cse;
mod expr;
mod graph;
mod intrinsic;
mod lower;
mod partition;
mod place;
mod prefetch;
mod print;
mod promote;
mod scope;
mod table;
mod tree;
pub mod verify;
mod write;

use tvmtune_ir::dag::{BinaryOp, DType, ScalarId, TensorId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{Layout, Threads};

pub use lower::lower;

/// Why a nest is left to portable code, or a schedule dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Elements or values of that type.
    #[error("values of type `{0}` are left to portable code")]
    Type(DType),
    /// That operation, on the type it is used with.
    #[error("the operation {0:?} is left to portable code")]
    Operation(BinaryOp),
    /// An index that no loop of the kernel can count.
    #[error("an index is no linear function of loop variables")]
    Index,
    /// A 64-bit integer that cannot be proven to fit 32 bits.
    #[error("an integer may not fit 32 bits")]
    Range,
    /// More code than any schedule worth running has.
    #[error("the kernel has more than {statements} statements")]
    TooLarge {
        /// The limit.
        statements: usize,
    },
}

/// A vector register before allocation; assigned any number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(pub u32);

/// An entry of the argument table, by position in [`Kernel::table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// What the caller puts into one 8-byte entry of the argument table.
#[derive(Clone, Debug, PartialEq)]
pub enum TableEntry {
    /// The address of a parameter or result; of a weight, in the layout given, 64-byte aligned.
    Pointer { tensor: TensorId, layout: Option<Layout> },
    /// The address of memory of that many bytes that lives through the launch and that all
    /// tasks see; 64-byte aligned.
    Shared { bytes: Poly },
    /// An integer computed from the dimensions.
    Param(Poly),
    /// A run-time scalar: the bits of its type, in the low bytes; floats narrower than 32 bits
    /// widened to `f32`, integers and `bool` to `i32`.
    Scalar(ScalarId),
}

/// An integer known at launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Count {
    /// Known when the code was generated.
    Const(i64),
    /// Entry of the table, a [`TableEntry::Param`].
    Param(Slot),
}

/// `constant + param + sum of var * stride`: an integer known in each iteration, the same for all
/// lanes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Linear {
    /// The constant part.
    pub constant: i64,
    /// The part known at launch, a [`TableEntry::Param`].
    pub param: Option<Slot>,
    /// Variables of enclosing loops, tasks and lets, sorted, each once.
    pub strides: Vec<(VarId, Count)>,
}

/// Which memory an address is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Base {
    /// The pointer in that entry of the table: a `Pointer` or `Shared`.
    Table(Slot),
    /// The scratch memory of the thread that runs the task; 64-byte aligned.
    Scratch,
}

/// Where in memory; the offset is in bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// What the offset is relative to.
    pub base: Base,
    /// The offset of lane 0, in bytes.
    pub offset: Linear,
}

/// How the lanes of an access lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lanes {
    /// All lanes are the one element at the address. A store writes lane 0.
    Uniform,
    /// Lane `n` is the `n`-th element from the address on.
    Contiguous,
    /// Lane `n` lies `n` times that many bytes after the address; fits 31 bits over all lanes.
    Strided(Count),
}

/// Which lanes take part.
#[derive(Clone, Debug, PartialEq)]
pub enum Mask {
    /// The first so many: 0 up to the number of lanes.
    First(Count),
    /// Those in which the value, a truth value, is true.
    Where(Box<Value>),
}

/// How elements are stored; in registers they are `f32` or `i32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Storage {
    /// 32 bits, as they are: `f32` or `i32`.
    Word,
    /// IEEE binary16; `f32` in registers; stores round to nearest even.
    F16,
    /// The upper half of an `f32`; stores round to nearest even.
    Bf16,
    /// Sign-extended to `i32`; stores keep the low byte.
    I8,
    /// Zero-extended to `i32`; stores keep the low byte.
    U8,
    /// One byte, 0 or 1; in registers a truth value. Loads test for non-zero.
    Bool,
}

impl Storage {
    /// How elements of a type are stored; `None` for types this target leaves to portable code.
    pub fn of(dtype: DType) -> Option<Self> {
        Some(match dtype {
            DType::F32 | DType::I32 => Storage::Word,
            DType::F16 => Storage::F16,
            DType::Bf16 => Storage::Bf16,
            DType::I8 => Storage::I8,
            DType::U8 => Storage::U8,
            DType::Bool => Storage::Bool,
            DType::F64 | DType::I64 => return None,
        })
    }

    /// Size of one element in memory.
    pub fn bytes(self) -> i64 {
        match self {
            Storage::Word => 4,
            Storage::F16 | Storage::Bf16 => 2,
            Storage::I8 | Storage::U8 | Storage::Bool => 1,
        }
    }
}

/// Lane-wise operations on one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VectorUnary {
    /// `f32` square root.
    SqrtF,
    /// `f32` rounded to integral: nearest, ties to even.
    RoundF,
    /// `f32` rounded to integral, down.
    FloorF,
    /// `f32` rounded to integral, up.
    CeilF,
    /// `i32` to `f32`, rounded to nearest.
    IntToFloat,
    /// `f32` to `i32` towards zero; out of range and NaN give `i32::MIN`.
    FloatToInt,
    /// Shift of the 32 bits to the left, filled with zeros.
    ShiftLeft(u8),
    /// Shift of the 32 bits to the right, filled with zeros.
    ShiftRight(u8),
    /// Shift of the 32 bits to the right, filled with the sign.
    ShiftRightSigned(u8),
}

/// Lane-wise operations on two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VectorBinary {
    /// `f32` sum.
    AddF,
    /// `f32` difference.
    SubF,
    /// `f32` product.
    MulF,
    /// `f32` quotient.
    DivF,
    /// `f32`: the first times 2 to the second, which is rounded down first; the product is rounded
    /// once, as of real numbers (and 2 to the infinity makes a quiet NaN infinite, 2 to the
    /// negative infinity makes it 0). Only where there is an instruction for it: [`Isa::scales`].
    ScaleF,
    /// `f32`: the first if it is smaller, else the second (also where either is a NaN).
    MinF,
    /// `f32`: the first if it is larger, else the second (also where either is a NaN).
    MaxF,
    /// `i32` sum; wraps.
    AddI,
    /// `i32` difference; wraps.
    SubI,
    /// `i32` product; wraps.
    MulI,
    /// Smaller `i32`.
    MinI,
    /// Larger `i32`.
    MaxI,
    /// Bitwise and; of truth values, conjunction.
    And,
    /// Bitwise or; of truth values, disjunction.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

/// Comparisons; the result is a truth value: all bits of the lane set, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VectorCompare {
    /// `f32` less than; false for NaN.
    LtF,
    /// `f32` at most; false for NaN.
    LeF,
    /// `f32` equal; false for NaN.
    EqF,
    /// `f32` not equal; true for NaN.
    NeF,
    /// `i32` less than.
    LtI,
    /// `i32` equal.
    EqI,
}

/// A vector: one 32-bit word for each lane.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The same bits in all lanes.
    Splat(u32),
    /// A run-time scalar in all lanes: a [`TableEntry::Scalar`].
    Scalar(Slot),
    /// What a register holds.
    Reg(Reg),
    /// Elements from memory; lanes masked off are 0 and their memory is not touched.
    Load {
        /// Of lane 0.
        address: Address,
        /// Where the other lanes are.
        lanes: Lanes,
        /// How elements are stored.
        storage: Storage,
        /// Which lanes take part; `None` is all.
        mask: Option<Mask>,
    },
    /// Elements at computed places; lanes masked off are 0 and their memory is not touched.
    Gather {
        /// Where offset 0 is.
        address: Address,
        /// Offsets in elements, `i32` in each lane.
        index: Box<Value>,
        /// How elements are stored: `Word` only.
        storage: Storage,
        /// Which lanes take part; `None` is all.
        mask: Option<Mask>,
    },
    /// `i32`: `base + lane * step`.
    Index {
        /// The value in lane 0; fits 31 bits.
        base: Linear,
        /// What each further lane adds.
        step: i32,
    },
    /// An operation on one vector.
    Unary(VectorUnary, Box<Value>),
    /// An operation on two.
    Binary(VectorBinary, Box<Value>, Box<Value>),
    /// `f32`: `.0 * .1 + .2`, rounded once.
    Fma(Box<Value>, Box<Value>, Box<Value>),
    /// A comparison.
    Compare(VectorCompare, Box<Value>, Box<Value>),
    /// Lane-wise: `then` where the condition, a truth value, is true.
    Select {
        /// A truth value.
        condition: Box<Value>,
        /// Taken where it is true.
        then: Box<Value>,
        /// Taken where it is not.
        otherwise: Box<Value>,
    },
    /// All lanes combined by an associative operation; the result is in every lane.
    Reduce(VectorBinary, Box<Value>),
}

/// Which part of a quotient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quotient {
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
    /// `let var = value op by` for what follows in this block; `by >= 1`, `value >= 0`.
    Let { var: VarId, op: Quotient, value: Linear, by: Count },
    /// `reg = value` in the lanes of the mask; the others keep what they had.
    Set { reg: Reg, value: Value, mask: Option<Mask> },
    /// Elements to memory, in the lanes of the mask.
    Store { address: Address, lanes: Lanes, storage: Storage, value: Value, mask: Option<Mask> },
    /// Has the memory around an address brought near. Changes nothing, wherever that is.
    Prefetch { address: Address },
}

/// Tasks that may run in any order and on any thread; phases run one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The grid of tasks, outermost first: task number `t` has coordinates in row-major order.
    /// Empty for a single task.
    pub tasks: Vec<(VarId, Count)>,
    /// What each task does.
    pub body: Vec<Stmt>,
}

/// Code for one instruction set, ready to be encoded. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The program's name, for people.
    pub name: String,
    /// What it may use.
    pub isa: Isa,
    /// What the caller passes, in order: first the parameters, then the results, then the rest.
    pub table: Vec<TableEntry>,
    /// Bytes of scratch memory each thread needs.
    pub scratch_bytes: Poly,
    /// Registers are `Reg(0..n_regs)`.
    pub n_regs: u32,
    /// How many threads may take tasks.
    pub threads: Threads,
    /// In order, with a barrier between.
    pub phases: Vec<Phase>,
}

impl Linear {
    /// An integer that does not change.
    pub fn constant(constant: i64) -> Self {
        Self { constant, ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
