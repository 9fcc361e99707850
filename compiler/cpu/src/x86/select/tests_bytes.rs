//! Stores of bytes and of truth values: the ones that are selected as whole vectors of bytes, and what these hold.

use super::super::tests_machine::{self, address, check, text};
use super::byte_values::{ByteStore, Uses};
use crate::vector::{
    LaneStride, Mask, Reg, Simd, Stmt, Storage, Value, VectorBinary, VectorCode, VectorCompare,
    VectorUnary,
};
use tvmtune_ir::target::Isa;
use tvmtune_math::lane::Width;

use Storage::{Bool, I8, U8};
use VectorBinary::{AddI, And, MaxI, MinI, Or, SubI, Xor};
use VectorCompare::{EqI, LtI};

/// The table entry of results; those before are parameters.
const OUT: u32 = 6;
const ALL: u64 = 0xffff_ffff;

/// Elements of a parameter from one on.
fn load(entry: u32, storage: Storage, at: i64) -> Value {
    let lanes = LaneStride::Contiguous;
    Value::Load { address: address(entry, at), lanes, storage, mask: None }
}

/// An element of a parameter in all lanes.
fn uniform(entry: u32, storage: Storage) -> Value {
    let lanes = LaneStride::Uniform;
    Value::Load { address: address(entry, 5), lanes, storage, mask: None }
}

fn number(number: i32) -> Value {
    Value::Splat(number.cast_unsigned().into())
}

fn binary(op: VectorBinary, a: Value, b: Value) -> Value {
    Value::Binary(op, a.into(), b.into())
}

fn compare(op: VectorCompare, a: Value, b: Value) -> Value {
    Value::Compare(op, a.into(), b.into())
}

fn choose(condition: Value, then: Value, otherwise: Value) -> Value {
    let [condition, then, otherwise] = [condition, then, otherwise].map(Box::new);
    Value::Select { condition, then, otherwise }
}

fn not(truth: Value) -> Value {
    binary(Xor, truth, Value::Splat(ALL))
}

/// The low byte of a value, with its sign.
fn signed(value: Value) -> Value {
    let shifted = Value::Unary(VectorUnary::ShiftLeft(24), value.into());
    Value::Unary(VectorUnary::ShiftRightSigned(24), shifted.into())
}

fn store(storage: Storage, at: i64, value: Value) -> Stmt {
    let lanes = LaneStride::Contiguous;
    Stmt::Store { address: address(OUT, at), lanes, storage, value, mask: None }
}

fn set(reg: u32, value: Value) -> Stmt {
    Stmt::Set { reg: Reg(reg), value, mask: None }
}

fn reg(number: u32) -> Value {
    Value::Reg(Reg(number))
}

fn kernel(isa: Isa, body: Vec<Stmt>) -> VectorCode {
    tests_machine::kernel(Simd { isa, width: Width::Bits32 }, OUT + 1, body)
}

/// Parameters of that many bytes: of each two of them, all pairs of eight bytes; and results.
fn entries(n: usize) -> Vec<Vec<u8>> {
    let of = |bytes: [u8; 8]| -> [Vec<u8>; 2] {
        [0, 1].map(|at| (0..n).map(|it| bytes[[it % 8, it / 8 % 8][at]]).collect())
    };
    let numbers = of([0, 1, 2, 127, 128, 129, 200, 255]);
    let truths = of([0, 1, 0, 1, 1, 0, 0, 1]);
    let params = numbers.iter().chain(&numbers).chain(&truths);
    params.cloned().chain([vec![0x55; n]]).collect()
}

/// Statements for elements from one on; their registers are those from that number on.
type Code<'a> = &'a dyn Fn(i64, u32) -> Vec<Stmt>;

/// Checks that so many vectors side by side are whole vectors of bytes, but for the last one of AVX2.
#[track_caller]
fn check_code(code: Code<'_>, message: &str) {
    for isa in [Isa::Avx512, Isa::Avx2] {
        for n in 1..=6 {
            let lanes = i64::from(isa.lanes());
            let body = (0..n).flat_map(|it| code(lanes * it, 10 * it as u32)).collect();
            let kernel = kernel(isa, body);
            check(&kernel, &entries((lanes * n) as usize), &format!("{n} of {message}"));
            // Only stores of whole vectors are from a vector to memory at once.
            let wide = text(&kernel).matches("vmovups [").count() as i64;
            let alone = if isa == Isa::Avx512 { n % 2 } else { 0 };
            assert_eq!(wide, n / 4 + n % 4 / 2 + alone, "{n} of {message} on {isa:?}");
        }
    }
}

#[track_caller]
fn check_values(storage: Storage, values: &[&dyn Fn(i64) -> Value]) {
    for (n, value) in values.iter().enumerate() {
        let code = |at: i64, _| vec![store(storage, at, value(at))];
        check_code(&code, &format!("value {n} of {storage:?}"));
    }
}

// Parameters: two of signed bytes, two of unsigned ones, and two of truth values.
const A: fn(i64) -> Value = |at| load(0, I8, at);
const B: fn(i64) -> Value = |at| load(1, I8, at);
const U: fn(i64) -> Value = |at| load(2, U8, at);
const V: fn(i64) -> Value = |at| load(3, U8, at);
const S: fn(i64) -> Value = |at| load(4, Bool, at);
const T: fn(i64) -> Value = |at| load(5, Bool, at);

#[test]
fn bytes_are_added_and_combined() {
    check_values(
        I8,
        &[
            &A,
            &|at| binary(AddI, A(at), B(at)),
            &|at| binary(SubI, A(at), number(-100)),
            &|at| binary(SubI, number(1000), U(at)),
            &|at| binary(And, A(at), V(at)),
            &|at| binary(Or, A(at), number(0x18)),
            &|at| binary(Xor, A(at), Value::Splat(ALL)),
            &|at| binary(AddI, A(at), uniform(1, I8)),
            &|at| binary(AddI, uniform(1, U8), U(at)),
            &|at| binary(MinI, A(at), B(at)),
            &|at| binary(MaxI, A(at), number(-5)),
            &|at| binary(MinI, signed(binary(AddI, A(at), U(at))), B(at)),
            &|at| binary(MaxI, binary(Or, A(at), number(-128)), B(at)),
        ],
    );
    check_values(
        U8,
        &[&|at| binary(MinI, U(at), V(at)), &|at| binary(MaxI, U(at), number(0x90)), &|at| {
            binary(MaxI, binary(And, binary(SubI, U(at), A(at)), number(0xff)), V(at))
        }],
    );
}

#[test]
fn bytes_are_compared_with_signs_and_without() {
    check_values(
        Bool,
        &[
            &|at| compare(LtI, A(at), B(at)),
            &|at| compare(LtI, U(at), V(at)),
            &|at| compare(LtI, A(at), number(3)),
            &|at| compare(LtI, number(3), A(at)),
            &|at| compare(LtI, U(at), number(3)),
            &|at| compare(LtI, number(200), U(at)),
            &|at| compare(EqI, A(at), B(at)),
            &|at| compare(EqI, number(-127), B(at)),
            &|at| not(compare(EqI, U(at), V(at))),
        ],
    );
}

#[test]
fn truth_values_are_combined() {
    check_values(
        Bool,
        &[
            &S,
            &|at| not(T(at)),
            &|at| binary(And, S(at), T(at)),
            &|at| binary(Or, S(at), not(T(at))),
            &|at| binary(Xor, S(at), uniform(4, Bool)),
            &|at| choose(S(at), T(at), not(T(at))),
            &|at| choose(T(at), compare(LtI, A(at), B(at)), S(at)),
        ],
    );
    // Any byte but 0 is true.
    for isa in [Isa::Avx512, Isa::Avx2] {
        let n = 2 * i64::from(isa.lanes());
        let body = (0..2).map(|it| store(Bool, n / 2 * it, S(n / 2 * it))).collect();
        let mut entries = entries(n as usize);
        entries[4] = (0..n as u8).map(|it| it % 3).collect();
        check(&kernel(isa, body), &entries, "truth values");
    }
}

#[test]
fn bytes_are_chosen() {
    check_values(
        I8,
        &[
            &|at| choose(compare(LtI, A(at), B(at)), A(at), V(at)),
            &|at| choose(S(at), A(at), number(0)),
            &|at| choose(S(at), number(0), A(at)),
            &|at| choose(S(at), number(1), number(0)),
            &|at| choose(S(at), number(1), A(at)),
            &|at| choose(S(at), number(1), number(2)),
            &|at| choose(not(S(at)), number(0), number(1)),
            &|at| binary(MinI, choose(S(at), A(at), number(7)), B(at)),
        ],
    );
}

#[test]
fn registers_that_are_set_for_one_store_hold_bytes() {
    let chain = |at: i64, n: u32| {
        vec![
            set(n, binary(AddI, A(at), B(at))),
            set(n + 1, compare(LtI, A(at), B(at))),
            set(n + 2, binary(Xor, reg(n), U(at))),
            store(U8, at, choose(reg(n + 1), binary(SubI, reg(n), reg(n + 2)), reg(n + 2))),
        ]
    };
    check_code(&chain, "a chain");
    let truths = |at: i64, n: u32| {
        let both = choose(reg(n), not(reg(n)), T(at));
        vec![set(n, binary(And, S(at), T(at))), store(Bool, at, both)]
    };
    check_code(&truths, "truth values");
    let limits = |at: i64, n: u32| {
        vec![
            set(n, binary(MinI, A(at), number(4))),
            store(I8, at, binary(MaxI, reg(n), number(-3))),
        ]
    };
    check_code(&limits, "limits");
}

/// Returns whether the first statements are a store of bytes.
fn is_byte_store(stmts: &[Stmt]) -> bool {
    let mut uses = vec![Uses::default(); 4];
    Uses::count(stmts, &mut uses);
    ByteStore::of(stmts, &uses).is_some()
}

#[test]
fn values_that_bytes_do_not_determine_are_no_stores_of_bytes() {
    let sum = || binary(AddI, A(0), B(0));
    let masked = |value: Value| match value {
        Value::Load { address, lanes, storage, .. } => {
            let mask = Some(Mask::Where(T(0).into()));
            Value::Load { address, lanes, storage, mask }
        }
        other => other,
    };
    assert!(is_byte_store(&[store(I8, 0, sum())]));
    for (storage, value) in [
        // Minima of numbers with signs and without, or beyond bytes.
        (I8, binary(MinI, A(0), U(0))),
        (I8, binary(MinI, sum(), B(0))),
        (I8, binary(MaxI, A(0), number(0x80))),
        (U8, binary(MaxI, U(0), number(-1))),
        (I8, binary(MinI, binary(And, A(0), number(0xff)), B(0))),
        (U8, binary(MinI, signed(U(0)), V(0))),
        (I8, binary(MinI, choose(S(0), A(0), U(0)), B(0))),
        (I8, binary(MinI, A(0), number(128))),
        (Bool, compare(LtI, sum(), B(0))),
        (Bool, compare(LtI, A(0), U(0))),
        (Bool, compare(EqI, A(0), U(0))),
        // Truth values are not numbers.
        (I8, S(0)),
        (Bool, A(0)),
        (I8, binary(AddI, S(0), A(0))),
        (I8, binary(And, S(0), A(0))),
        (Bool, binary(MinI, S(0), T(0))),
        (Bool, compare(EqI, S(0), T(0))),
        (Bool, compare(LtI, S(0), number(0))),
        (I8, choose(S(0), T(0), A(0))),
        (I8, choose(A(0), A(0), B(0))),
        (Bool, choose(A(0), S(0), T(0))),
        (I8, signed(S(0))),
        (U8, binary(And, S(0), number(0xff))),
        // Other loads and operations.
        (I8, masked(A(0))),
        (Bool, masked(S(0))),
        (I8, load(0, Storage::Word, 0)),
        (I8, binary(VectorBinary::MulI, A(0), B(0))),
        (I8, Value::Unary(VectorUnary::ShiftLeft(24), A(0).into())),
    ] {
        assert!(!is_byte_store(&[store(storage, 0, value.clone())]), "{storage:?}: {value:?}");
    }
    let Stmt::Store { address, lanes, storage, value, .. } = store(I8, 0, sum()) else { return };
    let mask = Some(Mask::Where(T(0).into()));
    assert!(!is_byte_store(&[Stmt::Store { address, lanes, storage, value, mask }]));
}

#[test]
fn registers_with_other_uses_are_no_bytes() {
    let (set_one, one) = (|| set(0, A(0)), || store(I8, 0, reg(0)));
    assert!(is_byte_store(&[set_one(), one()]));
    let masked = Stmt::Set { reg: Reg(0), value: A(0), mask: Some(Mask::Where(T(0).into())) };
    for others in [
        // They are set, or read, elsewhere.
        vec![set_one(), one(), set_one()],
        vec![set_one(), one(), set(1, reg(0))],
        vec![set_one(), one(), store(Storage::Word, 0, binary(AddI, reg(0), number(3)))],
        vec![masked, one()],
        vec![set(1, A(0)), one()],
    ] {
        assert!(!is_byte_store(&others), "{others:?}");
    }
}

#[test]
fn stores_side_by_side_are_alike() {
    type Alike<'a> = (&'a str, &'a dyn Fn(i64) -> Vec<Stmt>);
    let n = |at: i64| at as u32;
    let cases: [Alike<'_>; 6] = [
        ("types", &|at| {
            let storage = [I8, U8][n(at / 16) as usize % 2];
            vec![store(I8, at, binary(MinI, load(0, storage, at), number(9)))]
        }),
        ("parameters", &|at| vec![store(I8, at, load(n(at / 16) % 2, I8, at))]),
        ("comparisons", &|at| {
            vec![store(Bool, at, compare([LtI, EqI][n(at / 16) as usize % 2], A(at), B(at)))]
        }),
        ("operations", &|at| {
            vec![store(I8, at, binary([AddI, SubI][n(at / 16) as usize % 2], A(at), B(at)))]
        }),
        ("elements of it", &|at| {
            let old = load(OUT, I8, (at - 16).max(0));
            vec![store(I8, at, binary(AddI, old, A(at)))]
        }),
        ("registers", &|at| {
            let m = n(at);
            let value = binary(SubI, reg(m), reg(m + 1));
            let other = binary(SubI, reg(m + 1), reg(m));
            let value = [value, other][n(at / 16) as usize % 2].clone();
            vec![set(m, A(at)), set(m + 1, B(at)), store(I8, at, value)]
        }),
    ];
    for (name, code) in cases {
        let body = (0..4).flat_map(|it| code(16 * it)).collect();
        check(&kernel(Isa::Avx512, body), &entries(64), name);
    }
    // Other results, of the same elements.
    let to = |entry: u32, at: i64| Stmt::Store {
        address: address(entry, at),
        lanes: LaneStride::Contiguous,
        storage: I8,
        value: A(at),
        mask: None,
    };
    let body = (0..4).map(|it| to(OUT - it as u32 % 2, 16 * it)).collect();
    check(&kernel(Isa::Avx512, body), &entries(64), "results");
}

#[test]
fn lanes_of_64_bits_are_stored_one_vector_at_a_time() {
    for isa in [Isa::Avx512, Isa::Avx2] {
        let simd = Simd { isa, width: Width::Bits64 };
        let body = (0..4).map(|it| store(I8, simd.lanes() * it, A(simd.lanes() * it))).collect();
        let text = text(&tests_machine::kernel(simd, OUT + 1, body));
        let narrow = if isa == Isa::Avx512 { "vmovq [" } else { "vmovss [" };
        assert_eq!(text.matches(narrow).count(), 4, "{text}");
    }
}
