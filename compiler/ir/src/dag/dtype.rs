//! Element types of tensors, and their arithmetic.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The type of a tensor's elements, or of a scalar expression.
///
/// Arithmetic on `F16` and `Bf16` is done in `F32`: programs cast on every read and round once, where
/// a compute stores its element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16; storage only.
    F16,
    /// The upper half of a binary32; storage only.
    Bf16,
    /// IEEE 754 binary64.
    F64,
    /// Two's complement, 8 bits; arithmetic wraps.
    I8,
    /// Unsigned, 8 bits; arithmetic wraps.
    U8,
    /// Two's complement, 32 bits; arithmetic wraps.
    I32,
    /// Unsigned, 32 bits; arithmetic wraps.
    U32,
    /// Two's complement, 64 bits; arithmetic wraps.
    I64,
    /// One byte, 0 or 1.
    Bool,
}

impl DType {
    /// Every element type, in order of declaration.
    pub const ALL: [DType; 10] = [
        DType::F32,
        DType::F16,
        DType::Bf16,
        DType::F64,
        DType::I8,
        DType::U8,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::Bool,
    ];

    /// Size of one element in memory.
    pub fn bytes(self) -> u64 {
        match self {
            DType::I8 | DType::U8 | DType::Bool => 1,
            DType::F16 | DType::Bf16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 => 8,
        }
    }

    /// Returns whether values are floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::Bf16 | DType::F64)
    }

    /// Returns whether values are integers; `Bool` is not.
    pub fn is_integer(self) -> bool {
        matches!(self, DType::I8 | DType::U8 | DType::I32 | DType::U32 | DType::I64)
    }

    /// Returns whether values are integers that cannot be negative.
    pub fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U32)
    }

    /// The type in which arithmetic on this type is done.
    pub fn compute(self) -> DType {
        match self {
            DType::F16 | DType::Bf16 => DType::F32,
            other => other,
        }
    }

    /// The spelling in programs and in canonical text: `f32`, `bf16`, `bool`.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F64 => "f64",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an element type; expected one of f32 f16 bf16 f64 i8 u8 i32 u32 i64 bool")]
pub struct UnknownDType(pub String);

impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|it| it.name() == text)
            .ok_or_else(|| UnknownDType(text.to_owned()))
    }
}
