//! Math functions against double precision, and the text of vector code.

mod accumulate;
mod bits;
mod bounded;
mod certain;
mod chosen;
mod guarded;
mod halves;
mod hoist;
mod lane_phases;
mod legalize;
mod long;
mod math;
mod nonlinear;
mod places;
mod prefetch;
mod text;
mod transpose;
mod unswitch;
mod windows;
mod words;

use super::cse::{self, Budget, PendingStmt};
use super::numbering::{Interned, MaskRef, MemRef, Op, ValueGraph, ValueId};
use super::{
    Address, Base, Count, EntryId, LaneStride, Linear, Phase, Reg, Simd, Stmt, Storage, TableEntry,
    VectorCode,
};
use tvmtune_ir::dag::{DType, TensorId};
use tvmtune_ir::interp::Array;
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_ir::target::Isa;
use tvmtune_math::lane::Width;
use tvmtune_schedule::Threads;

/// A function of two vectors.
type Function<'a> = &'a dyn Fn(&mut ValueGraph, ValueId, ValueId) -> ValueId;

/// Evaluates a function on pairs of words; all instruction sets must agree.
#[track_caller]
fn evaluate(function: Function<'_>, a: &[u32], b: &[u32]) -> Vec<u32> {
    let [one, other] = [Isa::Avx512, Isa::Avx2].map(|isa| evaluate_on(isa, function, a, b));
    let is_nan = |it: u32| f32::from_bits(it).is_nan();
    let differs = |(x, y): (&u32, &u32)| x != y && !(is_nan(*x) && is_nan(*y));
    let place = one.iter().zip(&other).position(differs);
    assert_eq!(place.map(|it| (a[it], b[it], one[it], other[it])), None);
    one
}

/// The same on one instruction set, by the interpreter of kernels.
fn evaluate_on(isa: Isa, function: Function<'_>, a: &[u32], b: &[u32]) -> Vec<u32> {
    let lanes = isa.lanes() as usize;
    let n = a.len().next_multiple_of(lanes);
    let array = |words: &[u32]| {
        let mut bytes: Vec<u8> = words.iter().flat_map(|it| it.to_le_bytes()).collect();
        bytes.resize(4 * n, 0);
        Array::from_bytes(DType::I32, &[n as u64], &bytes)
    };
    let kernel = kernel(isa, function, (n / lanes) as i64);
    let like = [Array::zeros(DType::I32, &[n as u64])];
    let results =
        crate::interp::run(&kernel, &[], &[array(a), array(b)], &[], &like).unwrap().remove(0);
    let words = results.bytes();
    words.chunks(4).take(a.len()).map(|it| u32::from_le_bytes(it.try_into().unwrap())).collect()
}

/// `out = function(a, b)`, vector by vector.
fn kernel(isa: Isa, function: Function<'_>, n_vectors: i64) -> VectorCode {
    let simd = Simd { isa, width: Width::Bits32 };
    let (mut graph, mut interned) = (ValueGraph::new(simd), Interned::default());
    let lane_bytes = i64::from(isa.lanes()) * 4;
    let mut address = |slot| {
        let strides = vec![(VarId(0), Count::Const(lane_bytes))];
        let offset = Linear { strides, ..Linear::default() };
        interned.addresses.id(Address { base: Base::Table(EntryId(slot)), offset })
    };
    let (a, b, out) = (address(0), address(1), address(2));
    let storage = Storage::Word;
    let mut load = |address| {
        let place = MemRef { address, storage, mask: MaskRef::All, epoch: 0 };
        graph.node(Op::Load(place, LaneStride::Contiguous))
    };
    let (a, b) = (load(a), load(b));
    let value = function(&mut graph, a, b);
    let store = PendingStmt::Store {
        address: out,
        lanes: LaneStride::Contiguous,
        storage,
        value,
        mask: MaskRef::All,
    };
    let (mut n_regs, mut body) = (0, Vec::new());
    let mut new_reg = || {
        n_regs += 1;
        Reg(n_regs - 1)
    };
    let budget = Budget { registers: isa.registers() - 1, live_through: 0, live_within: &[] };
    cse::emit(&graph, &[store], &interned, budget, &mut new_reg, &mut body);
    let count = Count::Const(n_vectors);
    let body = vec![Stmt::Loop { var: VarId(0), count, body }];
    let pointer = |n| TableEntry::Pointer { tensor: TensorId(n), layout: None };
    VectorCode {
        name: "function".to_owned(),
        isa,
        width: simd.width,
        table: (0..3).map(pointer).collect(),
        scratch_bytes: Poly::default(),
        n_regs,
        threads: Threads::One,
        phases: vec![Phase { tasks: Vec::new(), body }],
    }
}
