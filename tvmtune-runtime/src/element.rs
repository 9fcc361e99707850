//! The types of tensors' elements.

/// An element type of tensors: `f32`, `f64`, `i8`, `u8`, `i32`, `u32`, `i64` or `bool`; with the feature
/// `half`, also `f16` and `bf16`.
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

elements!(f32 f64 i8 u8 i32 u32 i64 bool);
#[cfg(feature = "half")]
elements!(half::f16 half::bf16);
