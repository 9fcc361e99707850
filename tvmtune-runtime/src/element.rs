//! The types of tensors' elements.

use half::{bf16, f16};

/// An element type of tensors: `f32`, `f16`, `bf16`, `f64`, `i8`, `u8`, `i32`, `u32`,
/// `i64` or `bool`.
pub trait Element: sealed::Sealed + Copy + Default + Send + Sync + 'static {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($element:ty)*) => {
        $(impl sealed::Sealed for $element {}
        impl Element for $element {})*
    };
}

elements!(f32 f16 bf16 f64 i8 u8 i32 u32 i64 bool);
