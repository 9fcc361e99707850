//! Loads on AVX2 under masks: of one element into all lanes, and of bytes that are some bytes apart; and products
//! that are subtracted.

use super::super::tests_machine::{address, check, kernel, text};
use crate::vector::{
    Count, LaneStride, Linear, Mask, Reg, Simd, Stmt, Storage, Value, VectorBinary, VectorCompare,
};
use tvmtune_ir::target::Isa;
use tvmtune_math::lane::Width;

const AVX2: Simd = Simd { isa: Isa::Avx2, width: Width::Bits32 };

fn load(entry: u32, at: i64, lanes: LaneStride, mask: Option<Mask>) -> Value {
    Value::Load { address: address(entry, at), lanes, storage: Storage::Word, mask }
}

/// The element of a parameter at a byte, in all lanes.
fn uniform(entry: u32, at: i64) -> Value {
    load(entry, at, LaneStride::Uniform, None)
}

/// Lanes that hold a 1.
fn is_one(value: Value) -> Value {
    Value::Compare(VectorCompare::EqI, value.into(), Value::Splat(1).into())
}

fn store(value: Value) -> Stmt {
    let (address, lanes, storage) = (address(3, 0), LaneStride::Contiguous, Storage::Word);
    Stmt::Store { address, lanes, storage, value, mask: None }
}

fn set(value: Value) -> Stmt {
    Stmt::Set { reg: Reg(0), value, mask: None }
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|it| it.to_le_bytes()).collect()
}

/// Checks code with two truths, lanes of which the first is true or not, and four elements.
#[track_caller]
fn check_loads(body: Vec<Stmt>, gathers: bool) {
    let mixed = [1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1];
    let entries = [&[1, 0][..], &mixed, &[70, 71, 72, 73], &[0x55; 8]].map(bytes_of);
    let kernel = kernel(AVX2, 4, body);
    check(&kernel, &entries, &format!("{:?}", kernel.phases[0].body));
    let text = text(&kernel);
    assert_eq!(text.contains("gather"), gathers, "{text}");
}

/// An element in the lanes of a mask.
fn element(at: i64, mask: Value) -> Value {
    load(2, at, LaneStride::Uniform, Some(Mask::Where(mask.into())))
}

#[test]
fn an_element_is_loaded_once_where_all_lanes_agree() {
    check_loads(vec![store(element(8, is_one(uniform(0, 0))))], false);
    check_loads(vec![set(is_one(uniform(0, 0))), store(element(4, Value::Reg(Reg(0))))], false);
    // There is no such element where none is active.
    for at in [8, 16, 4000] {
        check_loads(vec![store(element(at, is_one(uniform(0, 4))))], false);
    }
    let none = Mask::Where(is_one(uniform(0, 4)).into());
    let guarded = load(0, 4000, LaneStride::Uniform, Some(none));
    check_loads(vec![store(element(4000, is_one(guarded)))], false);
}

#[test]
fn an_element_is_gathered_where_lanes_may_differ() {
    let mixed = |at: i64| is_one(load(1, at, LaneStride::Contiguous, None));
    let lanes = Value::Index { base: Linear::constant(0), step: 1 };
    let below = Value::Compare(VectorCompare::LtI, lanes.into(), Value::Splat(3).into());
    let few = Mask::First(Count::Const(3));
    for first_or_not in [0, 32] {
        let mixed = || mixed(first_or_not);
        let both = [is_one(uniform(0, 0)), mixed()].map(Box::new);
        let [all, some] = both.clone();
        for mask in [
            mixed(),
            Value::Binary(VectorBinary::And, all, some),
            below.clone(),
            is_one(load(0, 0, LaneStride::Uniform, Some(few.clone()))),
            is_one(load(0, 0, LaneStride::Uniform, Some(Mask::Where(mixed().into())))),
        ] {
            check_loads(vec![store(element(8, mask))], true);
        }
        // A register that has several values.
        let with_reg = || store(element(8, Value::Reg(Reg(0))));
        let same = || is_one(uniform(0, 0));
        check_loads(vec![set(mixed()), with_reg(), set(same())], true);
        check_loads(vec![set(same()), set(mixed()), with_reg()], true);
    }
}

#[test]
fn an_element_is_kept_in_the_lanes_that_are_known() {
    for (mask, gathers) in [
        (Mask::Where(Value::Lanes(0b0110_0101).into()), false),
        (Mask::Where(Value::Lanes(0b1000_0000).into()), false),
        (Mask::First(Count::Const(3)), false),
        (Mask::First(Count::Const(8)), false),
        (Mask::First(Count::Const(0)), true),
    ] {
        check_loads(vec![store(load(2, 12, LaneStride::Uniform, Some(mask)))], gathers);
    }
    // An element at an index.
    for truth in [0, 4] {
        let value = Value::LoadAt {
            address: address(2, 4),
            index: Value::Splat(2).into(),
            lanes: LaneStride::Uniform,
            storage: Storage::Word,
            mask: Some(Mask::Where(is_one(uniform(0, truth)).into())),
        };
        check_loads(vec![store(value)], false);
    }
}

#[test]
fn bytes_some_bytes_apart_come_to_their_lanes_and_nothing_around_is_read() {
    for isa in [Isa::Avx512, Isa::Avx2] {
        let simd = Simd { isa, width: Width::Bits32 };
        for active in [0xffff_u16, 0xfffe, 0x3ffc, 0x7ff8, 0xa0a0, 0x8181] {
            let active = active & if isa == Isa::Avx512 { 0xffff } else { 0xff };
            let (first, last) = (active.trailing_zeros(), active.ilog2());
            for step in (2..=16).filter(|it| it * (last - first) >= 8) {
                for storage in [Storage::I8, Storage::U8] {
                    // The first and the last byte that are there are those of active lanes.
                    let value = Value::Load {
                        address: address(0, -i64::from(step * first)),
                        lanes: LaneStride::Strided(Count::Const(step.into())),
                        storage,
                        mask: Some(Mask::Where(Value::Lanes(active).into())),
                    };
                    let bytes = (0..=step * (last - first)).map(|it| (it * 37 + 100) as u8);
                    let kernel = kernel(simd, 4, vec![store(value)]);
                    let entries = [bytes.collect(), vec![], vec![], vec![0; 64]];
                    check(&kernel, &entries, &format!("{step} apart, {active:#b}"));
                    assert!(text(&kernel).contains("vpshufb"), "{step} apart, {active:#b}");
                }
            }
        }
    }
}

#[test]
fn products_are_subtracted_where_a_factor_is_negative() {
    for isa in [Isa::Avx512, Isa::Avx2] {
        for (width, storage) in [(Width::Bits32, Storage::Word), (Width::Bits64, Storage::Long)] {
            let value = |entry: u32| {
                let lanes = LaneStride::Contiguous;
                Value::Load { address: address(entry, 0), lanes, storage, mask: None }
            };
            let with = |bit: u32, value: Value| {
                Value::Binary(VectorBinary::Xor, value.into(), Value::Splat(1 << bit).into())
            };
            let sign = width.bits() - 1;
            for (a, b, subtracts) in [
                (value(0), value(1), false),
                (with(sign, value(0)), value(1), true),
                (value(0), with(sign, value(1)), true),
                (with(sign, value(0)), with(sign, value(1)), true),
                (
                    value(0),
                    with(sign - 32 * u32::from(width == Width::Bits64) - 1, value(1)),
                    false,
                ),
                (value(0), with(31 * u32::from(width == Width::Bits64), value(1)), false),
            ] {
                let value = Value::Fma(a.into(), b.into(), value(2).into());
                let (address, lanes) = (address(3, 0), LaneStride::Contiguous);
                let store = Stmt::Store { address, lanes, storage, value, mask: None };
                let kernel = kernel(Simd { isa, width }, 4, vec![store]);
                let numbers = |from: u32| -> Vec<u8> {
                    (0..16)
                        .flat_map(|n| match width {
                            Width::Bits32 => ((from + n) as f32).to_le_bytes().to_vec(),
                            Width::Bits64 => f64::from(from + n).to_le_bytes().to_vec(),
                        })
                        .collect()
                };
                let entries = [numbers(3), numbers(7), numbers(40), numbers(0)];
                check(&kernel, &entries, &format!("{width:?}"));
                assert_eq!(text(&kernel).contains("vfnm"), subtracts, "{isa:?} {width:?}");
            }
        }
    }
}
