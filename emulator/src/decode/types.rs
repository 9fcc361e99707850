//! The types that opcodes name.

use crate::registers::Class;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    B8,
    B16,
    B32,
    B64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
    Predicate,
}

impl Type {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "pred" => Self::Predicate,
            _ => return None,
        })
    }

    pub(super) fn bytes(self) -> u8 {
        match self {
            Self::U8 | Self::S8 | Self::B8 | Self::Predicate => 1,
            Self::U16 | Self::S16 | Self::B16 | Self::F16 | Self::Bf16 => 2,
            Self::U64 | Self::S64 | Self::B64 | Self::F64 => 8,
            _ => 4,
        }
    }

    pub(super) fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    pub(super) fn is_half(self) -> bool {
        matches!(self, Self::F16 | Self::F16x2 | Self::Bf16 | Self::Bf16x2)
    }

    pub(super) fn is_integer(self) -> bool {
        !self.is_half() && !matches!(self, Self::Tf32 | Self::F32 | Self::F64 | Self::Predicate)
    }

    /// Returns the register class of the type.
    pub(super) fn class(self) -> Class {
        match self {
            Self::Predicate => Class::Predicate,
            _ if self.bytes() == 8 => Class::Double,
            _ => Class::Word,
        }
    }
}

/// Expands an expression in which a type has another name.
macro_rules! with_type {
    ($t:ident = $type:ty, $make:expr) => {{
        type $t = $type;
        $make
    }};
}

/// Expands an expression for each integer type: `$t` is the Rust type of the operands.
macro_rules! integers {
    ($site:ident, $type:expr, $t:ident => $make:expr) => {
        match $type {
            Type::U16 | Type::B16 => with_type!($t = u16, $make),
            Type::S16 => with_type!($t = i16, $make),
            Type::U32 | Type::B32 => with_type!($t = u32, $make),
            Type::S32 => with_type!($t = i32, $make),
            Type::U64 | Type::B64 => with_type!($t = u64, $make),
            Type::S64 => with_type!($t = i64, $make),
            _ => Err($site.error("no such type")),
        }
    };
}

/// Expands an expression for each size of types without a sign.
macro_rules! bits {
    ($site:ident, $type:expr, $t:ident => $make:expr) => {
        match $type.bytes() {
            2 => with_type!($t = u16, $make),
            4 => with_type!($t = u32, $make),
            8 => with_type!($t = u64, $make),
            _ => Err($site.error("no such type")),
        }
    };
}

pub(super) use {bits, integers, with_type};
