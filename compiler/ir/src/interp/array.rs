//! Dense, row-major tensors in memory, for the interpreters and for checks of results.
//!
//! Storage are stored in their own type, so that they read back as from a kernel's buffer.

use std::fmt;

use crate::dag::{DType, Number};
use crate::half::{Bf16, F16};

/// A dense tensor of known extents.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The type of the elements.
    pub dtype: DType,
    /// Extents, outermost first; empty for a single element.
    pub shape: Vec<u64>,
    elements: Storage,
}

/// The elements of an array, row-major, in their own type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Storage {
    F32(Vec<f32>),
    F16(Vec<F16>),
    Bf16(Vec<Bf16>),
    F64(Vec<f64>),
    I8(Vec<i8>),
    U8(Vec<u8>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    Bool(Vec<bool>),
}

/// The element at which two arrays differ most, in units of the tolerance.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The position, one index for each dimension.
    pub index: Vec<u64>,
    /// The value in the array that was checked.
    pub got: f64,
    /// The value in the array it was checked against.
    pub want: f64,
    /// The number of elements that differ by more than the tolerance.
    pub count: usize,
}

/// Runs `$body` with `$it` bound to the vector of elements, whatever their type.
macro_rules! with_elements {
    ($elements:expr, $it:ident => $body:expr) => {
        match $elements {
            Storage::F32($it) => $body,
            Storage::F16($it) => $body,
            Storage::Bf16($it) => $body,
            Storage::F64($it) => $body,
            Storage::I8($it) => $body,
            Storage::U8($it) => $body,
            Storage::I32($it) => $body,
            Storage::U32($it) => $body,
            Storage::I64($it) => $body,
            Storage::Bool($it) => $body,
        }
    };
}

impl Array {
    /// An array of zeros (of `bool`: false).
    pub fn zeros(dtype: DType, shape: &[u64]) -> Self {
        let len = len_elems(shape);
        let elements = match dtype {
            DType::F32 => Storage::F32(vec![0.0; len]),
            DType::F16 => Storage::F16(vec![F16::default(); len]),
            DType::Bf16 => Storage::Bf16(vec![Bf16::default(); len]),
            DType::F64 => Storage::F64(vec![0.0; len]),
            DType::I8 => Storage::I8(vec![0; len]),
            DType::U8 => Storage::U8(vec![0; len]),
            DType::I32 => Storage::I32(vec![0; len]),
            DType::U32 => Storage::U32(vec![0; len]),
            DType::I64 => Storage::I64(vec![0; len]),
            DType::Bool => Storage::Bool(vec![false; len]),
        };
        Self { dtype, shape: shape.to_vec(), elements }
    }

    /// An array of `f32` with these elements.
    ///
    /// # Panics
    ///
    /// If the number of elements is not the product of the extents.
    pub fn from_f32(shape: &[u64], elements: Vec<f32>) -> Self {
        assert_eq!(elements.len(), len_elems(shape), "elements do not fill the shape {shape:?}");
        Self { dtype: DType::F32, shape: shape.to_vec(), elements: Storage::F32(elements) }
    }

    /// An array whose element at each flat position is `f` of it, cast to `dtype`.
    pub fn from_fn(dtype: DType, shape: &[u64], mut f: impl FnMut(usize) -> Number) -> Self {
        let mut array = Self::zeros(dtype, shape);
        for n in 0..array.len() {
            array.set(n, f(n));
        }
        array
    }

    /// Floats uniform in -1..1; integers uniform in -100..=100 (of unsigned ones 0..=200); coin flips.
    pub fn random(dtype: DType, shape: &[u64], seed: u64) -> Self {
        let mut state = seed;
        Self::from_fn(dtype, shape, |_| {
            let bits = next_bits(&mut state);
            match dtype {
                DType::Bool => Number::Bool(bits >> 63 == 1),
                it if it.is_unsigned() => Number::Int((bits % 201) as i64),
                it if it.is_integer() => Number::Int((bits % 201) as i64 - 100),
                _ => Number::Float((bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0),
            }
        })
    }

    /// Whole numbers in -3..=3 (of unsigned types 0..=6): sums of them are exact in any order, also in the
    /// small floats while they stay short.
    pub fn whole_numbers(dtype: DType, shape: &[u64], seed: u64) -> Self {
        let mut state = seed;
        Self::from_fn(dtype, shape, |_| {
            let value = (next_bits(&mut state) % 7) as i64;
            match dtype {
                DType::Bool => Number::Bool(value > 2),
                it if it.is_unsigned() => Number::Int(value),
                _ => Number::Int(value - 3),
            }
        })
    }

    /// The array of that shape with the elements of this one, over and over.
    pub fn repeated(&self, shape: &[u64]) -> Self {
        let len = len_elems(shape);
        let elements = match &self.elements {
            Storage::F32(it) => Storage::F32(repeat(it, len)),
            Storage::F16(it) => Storage::F16(repeat(it, len)),
            Storage::Bf16(it) => Storage::Bf16(repeat(it, len)),
            Storage::F64(it) => Storage::F64(repeat(it, len)),
            Storage::I8(it) => Storage::I8(repeat(it, len)),
            Storage::U8(it) => Storage::U8(repeat(it, len)),
            Storage::I32(it) => Storage::I32(repeat(it, len)),
            Storage::U32(it) => Storage::U32(repeat(it, len)),
            Storage::I64(it) => Storage::I64(repeat(it, len)),
            Storage::Bool(it) => Storage::Bool(repeat(it, len)),
        };
        Self { dtype: self.dtype, shape: shape.to_vec(), elements }
    }

    /// The array whose little-endian bytes are `bytes`.
    ///
    /// # Panics
    ///
    /// If the number of bytes is not that of the shape's elements.
    pub fn from_bytes(dtype: DType, shape: &[u64], bytes: &[u8]) -> Self {
        let len = len_elems(shape);
        assert_eq!(bytes.len(), len * dtype.bytes() as usize, "bytes do not fill {shape:?}");
        macro_rules! read {
            ($variant:ident, $type:ty) => {
                Storage::$variant(
                    bytes.as_chunks().0.iter().map(|it| <$type>::from_le_bytes(*it)).collect(),
                )
            };
        }
        let elements = match dtype {
            DType::F32 => read!(F32, f32),
            DType::F16 => read!(F16, F16),
            DType::Bf16 => read!(Bf16, Bf16),
            DType::F64 => read!(F64, f64),
            DType::I8 => read!(I8, i8),
            DType::U8 => read!(U8, u8),
            DType::I32 => read!(I32, i32),
            DType::U32 => read!(U32, u32),
            DType::I64 => read!(I64, i64),
            DType::Bool => Storage::Bool(bytes.iter().map(|it| *it != 0).collect()),
        };
        Self { dtype, shape: shape.to_vec(), elements }
    }

    /// The elements' little-endian bytes; of `bool`, 0 and 1.
    pub fn bytes(&self) -> Vec<u8> {
        macro_rules! written {
            ($elements:expr) => {{
                let mut bytes = vec![0; $elements.len() * self.dtype.bytes() as usize];
                for (bytes, it) in bytes.as_chunks_mut().0.iter_mut().zip($elements) {
                    *bytes = it.to_le_bytes();
                }
                bytes
            }};
        }
        match &self.elements {
            Storage::Bool(it) => it.iter().map(|it| u8::from(*it)).collect(),
            Storage::F32(it) => written!(it),
            Storage::F16(it) => written!(it),
            Storage::Bf16(it) => written!(it),
            Storage::F64(it) => written!(it),
            Storage::I8(it) => written!(it),
            Storage::U8(it) => it.clone(),
            Storage::I32(it) => written!(it),
            Storage::U32(it) => written!(it),
            Storage::I64(it) => written!(it),
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        with_elements!(&self.elements, it => it.len())
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at a flat position.
    ///
    /// # Panics
    ///
    /// If the position is not below [`len`](Self::len).
    pub fn get(&self, flat: usize) -> Number {
        match &self.elements {
            Storage::F32(it) => Number::Float(it[flat].into()),
            Storage::F16(it) => Number::Float(it[flat].to_f64()),
            Storage::Bf16(it) => Number::Float(it[flat].to_f64()),
            Storage::F64(it) => Number::Float(it[flat]),
            Storage::I8(it) => Number::Int(it[flat].into()),
            Storage::U8(it) => Number::Int(it[flat].into()),
            Storage::I32(it) => Number::Int(it[flat].into()),
            Storage::U32(it) => Number::Int(it[flat].into()),
            Storage::I64(it) => Number::Int(it[flat]),
            Storage::Bool(it) => Number::Bool(it[flat]),
        }
    }

    /// Stores `value`, cast to the type of the elements, at a flat position.
    ///
    /// # Panics
    ///
    /// If the position is not below [`len`](Self::len).
    pub fn set(&mut self, flat: usize, value: Number) {
        match &mut self.elements {
            Storage::F32(it) => it[flat] = value.to_f64() as f32,
            Storage::F16(it) => it[flat] = F16::from_f64(value.to_f64()),
            Storage::Bf16(it) => it[flat] = Bf16::from_f64(value.to_f64()),
            Storage::F64(it) => it[flat] = value.to_f64(),
            Storage::I8(it) => it[flat] = value.cast(DType::I8).to_i64() as i8,
            Storage::U8(it) => it[flat] = value.cast(DType::U8).to_i64() as u8,
            Storage::I32(it) => it[flat] = value.cast(DType::I32).to_i64() as i32,
            Storage::U32(it) => it[flat] = value.cast(DType::U32).to_i64() as u32,
            Storage::I64(it) => it[flat] = value.to_i64(),
            Storage::Bool(it) => it[flat] = value.cast(DType::Bool) == Number::Bool(true),
        }
    }

    /// The elements, each as the nearest `f32`.
    pub fn to_f32_vec(&self) -> Vec<f32> {
        (0..self.len()).map(|n| self.get(n).to_f64() as f32).collect()
    }

    pub(super) fn elements(&self) -> &Storage {
        &self.elements
    }

    /// Returns the element that differs most from `want`, if by more than `abs + rel * |want|`; `None` if nowhere.
    ///
    /// Integers and truth values must be equal. A NaN equals a NaN, an infinity only itself.
    ///
    /// # Panics
    ///
    /// If types or shapes differ.
    pub fn max_error(&self, want: &Array, rel: f64, abs: f64) -> Option<Mismatch> {
        assert_eq!((self.dtype, &self.shape), (want.dtype, &want.shape), "arrays of two kinds");
        let (mut worst, mut count) = (None, 0);
        for n in 0..self.len() {
            let (a, b) = (self.get(n), want.get(n));
            let excess = match (a, b) {
                (Number::Float(a), Number::Float(b)) => float_excess(a, b, rel, abs),
                _ if a == b => 0.0,
                _ => f64::INFINITY,
            };
            count += usize::from(excess > 1.0);
            if excess > worst.map_or(1.0, |(_, it)| it) {
                worst = Some((n, excess));
            }
        }
        worst.map(|(n, _)| Mismatch {
            index: self.unflatten(n),
            got: self.get(n).to_f64(),
            want: want.get(n).to_f64(),
            count,
        })
    }

    fn unflatten(&self, mut flat: usize) -> Vec<u64> {
        let mut index = vec![0; self.shape.len()];
        for (at, extent) in index.iter_mut().zip(&self.shape).rev() {
            *at = flat as u64 % extent;
            flat /= *extent as usize;
        }
        index
    }
}

/// The difference in units of the tolerance; above 1 is too much.
fn float_excess(a: f64, b: f64, rel: f64, abs: f64) -> f64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    let excess = (a - b).abs() / (abs + rel * b.abs());
    if excess.is_nan() || b.is_infinite() { f64::INFINITY } else { excess }
}

/// Copies whole periods: elements of large arrays are not touched one by one.
fn repeat<T: Copy>(period: &[T], len: usize) -> Vec<T> {
    let mut elements = Vec::with_capacity(len);
    while elements.len() < len && !period.is_empty() {
        let n = period.len().min(len - elements.len());
        elements.extend_from_slice(&period[..n]);
    }
    elements
}

fn len_elems(shape: &[u64]) -> usize {
    usize::try_from(shape.iter().product::<u64>()).expect("an array fits into memory")
}

/// The next 64 bits of `SplitMix64` (Steele, Lea, Flood, 2014).
fn next_bits(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, got, want, count } = self;
        write!(f, "{count} elements differ, most at {index:?}: got {got}, expected {want}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_back_as_they_were_for_every_type() {
        for dtype in DType::ALL {
            let array = Array::random(dtype, &[3, 5], 7);
            assert_eq!(array.bytes().len() as u64, 15 * dtype.bytes());
            assert_eq!(Array::from_bytes(dtype, &[3, 5], &array.bytes()), array);
        }
    }

    #[test]
    fn a_period_is_repeated_up_to_the_last_element_for_every_type() {
        for dtype in DType::ALL {
            let period = Array::random(dtype, &[3], 7);
            let repeated = period.repeated(&[2, 4]);
            assert_eq!((repeated.dtype, repeated.len()), (dtype, 8));
            assert!((0..8).all(|n| repeated.get(n) == period.get(n % 3)));
        }
    }

    #[test]
    fn random_floats_fill_the_range_and_whole_numbers_are_whole() {
        let floats = Array::random(DType::F32, &[1000], 1).to_f32_vec();
        assert!(floats.iter().all(|it| (-1.0..=1.0).contains(it)));
        assert!(floats.iter().any(|it| *it > 0.9) && floats.iter().any(|it| *it < -0.9));
        let whole = Array::whole_numbers(DType::F16, &[1000], 1).to_f32_vec();
        assert!(whole.iter().all(|it| it.fract() == 0.0 && it.abs() <= 3.0));
        assert!(whole.contains(&3.0) && whole.contains(&-3.0));
        let other = Array::random(DType::F32, &[1000], 2).to_f32_vec();
        assert_ne!(floats, other, "seeds matter");
    }

    #[test]
    fn the_worst_element_is_reported_with_its_position() {
        let want = Array::from_f32(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, f32::NAN, f32::INFINITY]);
        let mut got = want.clone();
        assert_eq!(got.max_error(&want, 1e-3, 0.0), None);
        got.set(1, Number::Float(2.01));
        got.set(3, Number::Float(4.5));
        let mismatch = got.max_error(&want, 1e-3, 0.0).unwrap();
        assert_eq!(mismatch.to_string(), "2 elements differ, most at [1, 0]: got 4.5, expected 4");
        got.set(5, Number::Float(1.0));
        assert_eq!(got.max_error(&want, 1e-3, 0.0).unwrap().index, [1, 2]);
    }

    #[test]
    fn storing_rounds_and_wraps_into_the_type() {
        let mut half = Array::zeros(DType::F16, &[1]);
        half.set(0, Number::Float(2049.0));
        assert_eq!(half.get(0), Number::Float(2048.0));
        let mut byte = Array::zeros(DType::I8, &[1]);
        byte.set(0, Number::Int(129));
        assert_eq!(byte.get(0), Number::Int(-127));
    }
}
