//! Parameters: their random values, and the packing of weights.

use std::io;

use tvmtune_ir::dag::{DType, Number};
use tvmtune_ir::interp::Array;
use tvmtune_runtime::raw::Layout;

use super::super::protocol::{LayoutSpec, Numbers, ParamSpec};
use super::floats::Floats;
use super::invalid;
use crate::random::Random;

/// The period of the elements of larger parameters. A prime, so that rows differ; small, since unoptimised
/// build scripts draw the numbers too.
const PERIOD: usize = 65_537;

/// Stress values: each row is the set that one parameter draws from. Sums overflow, operands are denormal,
/// numbers are equal, sums cancel, zeros have both signs, and `exp` reaches the ends of its range.
const HOSTILE: [&[f64]; 5] = [
    &[1e38, -1e38, 1e30, 1.0, -3e37],
    &[1e-45, -1e-40, 3e-39, 0.0, -0.0, 1e-38],
    &[0.7],
    &[1e8, -1e8, 1.5, 1e-3, -1.0],
    &[0.0, -0.0, 88.0, -104.0, 1.0],
];

impl ParamSpec {
    /// Draws the parameter's value.
    pub(crate) fn array(&self) -> Array {
        self.drawn().repeated(&self.shape)
    }

    /// Returns the bytes of the parameter's value.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let drawn = self.drawn().bytes();
        let n_bytes = self.n_bytes();
        let mut bytes = Vec::with_capacity(n_bytes);
        while bytes.len() < n_bytes {
            bytes.extend_from_slice(&drawn[..drawn.len().min(n_bytes - bytes.len())]);
        }
        bytes
    }

    /// Returns the size of the parameter, in bytes.
    pub(super) fn n_bytes(&self) -> usize {
        self.n_elements() * self.dtype.bytes() as usize
    }

    fn n_elements(&self) -> usize {
        self.shape.iter().product::<u64>() as usize
    }

    /// Draws one period of the elements.
    fn drawn(&self) -> Array {
        let few = [self.n_elements().min(PERIOD) as u64];
        let mut random = Random::new(self.seed);
        match self.numbers {
            Numbers::Rows(rows) => {
                let row = |_| Number::Int(random.below(rows as usize + 2) as i64 - 1);
                Array::from_fn(self.dtype, &few, row)
            }
            Numbers::Ends(n) => {
                let mut drawn: Vec<usize> =
                    (0..few[0]).map(|_| random.below(n as usize + 1)).collect();
                drawn.sort_unstable();
                // The first row begins at the start, the last one ends at the end.
                if let [first, .., last] = &mut drawn[..] {
                    (*first, *last) = (0, n as usize);
                }
                Array::from_fn(self.dtype, &few, |at| Number::Int(drawn[at] as i64))
            }
            Numbers::Lengths(n) => Array::from_fn(self.dtype, &few, |at| {
                let length = random.below(n as usize + 1) as u64;
                Number::Int(if at == 0 { n + n / 4 + 1 } else { length }.cast_signed())
            }),
            Numbers::Hostile if self.dtype.is_float() => {
                let from = HOSTILE[random.below(HOSTILE.len())];
                let number = |_| Number::Float(from[random.below(from.len())]).cast(self.dtype);
                Array::from_fn(self.dtype, &few, number)
            }
            Numbers::Of(class) if self.dtype.is_float() => {
                let from = Floats::new(class, self.dtype);
                Array::from_fn(self.dtype, &few, |n| {
                    Number::Float(from.draw(n, &mut random)).cast(self.dtype)
                })
            }
            Numbers::Factors if self.dtype.is_float() => {
                Array::from_fn(self.dtype, &few, |_| Number::Float(factor(&mut random)))
            }
            Numbers::Positive if self.dtype.is_float() => Array::from_fn(self.dtype, &few, |_| {
                Number::Float(0.5 + random.unit() / 2.0).cast(self.dtype)
            }),
            _ => Array::random(self.dtype, &few, self.seed),
        }
    }
}

/// Draws a number near 1 or -1, as likely the reciprocal of one as that one.
fn factor(random: &mut Random) -> f64 {
    let near = 1.0 + random.unit() / 32.0;
    let near = if random.below(2) == 0 { near } else { 1.0 / near };
    if random.below(2) == 0 { near } else { -near }
}

/// The packing of a parameter, by the function that packs weights for users.
pub(super) struct Packing {
    dtype: DType,
    shape: Vec<usize>,
    layout: Layout,
}

impl Packing {
    /// Creates the packing of a parameter in a layout.
    pub(super) fn new(spec: &ParamSpec, layout: &LayoutSpec) -> io::Result<Self> {
        if !fits(layout, spec.shape.len()) {
            return Err(invalid("the layout does not fit the parameter"));
        }
        // There are few layouts in a worker's life, and the type is made for constants.
        let layout = Layout {
            splits: Box::leak(layout.splits.clone().into_boxed_slice()),
            order: Box::leak(layout.order.clone().into_boxed_slice()),
        };
        let shape = spec.shape.iter().map(|it| *it as usize).collect();
        Ok(Self { dtype: spec.dtype, shape, layout })
    }

    /// Returns the size of the packed parameter, in bytes.
    pub(super) fn n_bytes(&self) -> usize {
        let n_elements: usize = self.layout.stored_shape(&self.shape).iter().product();
        n_elements * self.dtype.bytes() as usize
    }

    /// Packs a parameter.
    pub(super) fn pack(&self, from: &[u8], to: &mut [u8]) {
        let Self { dtype, shape, layout } = self;
        match dtype {
            DType::I8 | DType::U8 | DType::Bool => layout.pack(from, shape, to),
            DType::F16 | DType::Bf16 => pack_as::<2>(*layout, shape, from, to),
            DType::F32 | DType::I32 | DType::U32 => pack_as::<4>(*layout, shape, from, to),
            DType::F64 | DType::I64 => pack_as::<8>(*layout, shape, from, to),
        }
    }
}

/// Packs elements of `N` bytes.
fn pack_as<const N: usize>(layout: Layout, shape: &[usize], from: &[u8], to: &mut [u8])
where
    [u8; N]: Default,
{
    layout.pack(from.as_chunks::<N>().0, shape, to.as_chunks_mut::<N>().0);
}

/// Tells if a layout is one of tensors of that rank.
fn fits(layout: &LayoutSpec, rank: usize) -> bool {
    let mut splits = layout.splits.iter().zip(rank..);
    let splits_fit = splits.all(|((dim, factor), rank)| *dim < rank && *factor > 0);
    let mut sorted = layout.order.clone();
    sorted.sort_unstable();
    splits_fit && sorted == (0..rank + layout.splits.len()).collect::<Vec<_>>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_parameters_are_periodic() {
        let param = ParamSpec {
            dtype: DType::F16,
            shape: vec![3, 500_000],
            seed: 1,
            numbers: Numbers::Uniform,
            cold: false,
        };
        let array = param.array();
        assert_eq!(array.get(0), array.get(PERIOD));
        assert_ne!(array.get(0), array.get(500_000));
        assert_eq!(param.bytes(), array.bytes());
    }

    #[test]
    fn hostile_parameters_have_few_numbers_and_all_kinds_are_drawn() {
        let mut drawn = [false; HOSTILE.len()];
        for seed in 0..40 {
            let shape = vec![50];
            let param = ParamSpec {
                dtype: DType::F32,
                shape,
                seed,
                numbers: Numbers::Hostile,
                cold: false,
            };
            let numbers = param.array().to_f32_vec();
            let is_of = |it: &&[f64]| {
                let it: Vec<f32> = it.iter().map(|it| *it as f32).collect();
                numbers.iter().all(|number| it.contains(number))
            };
            let kind = HOSTILE.iter().position(is_of).expect("all are of one kind");
            drawn[kind] = true;
        }
        assert_eq!(drawn, [true; HOSTILE.len()]);
    }

    #[test]
    fn products_of_many_factors_are_neither_zero_nor_infinite() {
        let param = ParamSpec {
            dtype: DType::F32,
            shape: vec![PERIOD as u64],
            seed: 1,
            numbers: Numbers::Factors,
            cold: false,
        };
        let factors = param.array().to_f32_vec();
        let product: f64 = factors.iter().map(|it| f64::from(*it)).product();
        assert!((-30.0..30.0).contains(&product.abs().log2()), "{product}");
        assert!(factors.iter().all(|it| it.abs() != 1.0), "one that is left out shows");
    }

    #[test]
    fn rows_are_looked_up_by_numbers_that_are_nearly_always_inside() {
        let param = ParamSpec {
            dtype: DType::I32,
            shape: vec![1000],
            seed: 1,
            numbers: Numbers::Rows(10),
            cold: false,
        };
        let array = param.array();
        let rows: Vec<i64> = (0..1000).map(|it| array.get(it).to_i64()).collect();
        assert!((0..10).all(|it| rows.contains(&it)));
        assert!(rows.iter().all(|it| (-1..=10).contains(it)) && rows.contains(&10));
    }

    #[test]
    fn lengths_are_inside_but_for_one() {
        let numbers = Numbers::Lengths(50);
        let param = ParamSpec { dtype: DType::U32, shape: vec![9], seed: 1, numbers, cold: false };
        let array = param.array();
        let lengths: Vec<i64> = (0..9).map(|it| array.get(it).to_i64()).collect();
        assert!(lengths[0] > 50 && lengths[1..].iter().all(|it| (0..=50).contains(it)));
    }

    #[test]
    fn ends_of_rows_rise_from_the_first_term_to_the_last() {
        let numbers = Numbers::Ends(50);
        let param = ParamSpec { dtype: DType::I64, shape: vec![9], seed: 1, numbers, cold: false };
        let array = param.array();
        let ends: Vec<i64> = (0..9).map(|it| array.get(it).to_i64()).collect();
        assert!(ends.is_sorted() && ends[0] == 0 && ends[8] == 50, "{ends:?}");
        assert!(ends.iter().any(|it| (1..50).contains(it)), "{ends:?}");
    }
}
