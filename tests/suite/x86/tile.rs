//! The register tile of a matrix product.

use tvmtune_cpu::vector::{
    Address, Base, Count, EntryId, LaneStride, Linear, Phase, Reg, Stmt, Storage, TableEntry,
    Value, VectorCode, Width,
};
use tvmtune_cpu::x86::RegisterFile;
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::Threads;

use super::generate::Program;
use super::run;

/// Rows and vectors of the tile: with what they multiply, all registers but a few.
fn tile(isa: Isa) -> (u32, u32) {
    match isa {
        Isa::Avx512 => (8, 3),
        Isa::Avx2 => (6, 2),
    }
}

const DEPTH: i64 = 128;

fn load(slot: u32, constant: i64, strides: &[(u32, i64)], lanes: LaneStride) -> Value {
    let strides = strides.iter().map(|it| (VarId(it.0), Count::Const(it.1))).collect();
    let offset = Linear { constant, param: None, strides };
    let address = Address { base: Base::Table(EntryId(slot)), offset };
    Value::Load { address, lanes, storage: Storage::Word, mask: None }
}

fn set(reg: u32, value: Value) -> Stmt {
    Stmt::Set { reg: Reg(reg), value, mask: None }
}

/// A kernel of one task.
pub(super) fn kernel(isa: Isa, n_regs: u32, n_pointers: u32, body: Vec<Stmt>) -> VectorCode {
    let pointer = |n| TableEntry::Pointer { tensor: TensorId(n), layout: None };
    VectorCode {
        name: "tile".into(),
        isa,
        width: Width::Bits32,
        table: (0..n_pointers).map(pointer).collect(),
        scratch_bytes: Poly::default(),
        n_regs,
        threads: Threads::One,
        phases: vec![Phase { tasks: vec![(VarId(0), Count::Const(1))], body }],
    }
}

/// `c = a * b`, with `a: [rows, DEPTH]`, `b: [DEPTH, vectors]`, `c: [rows, vectors]`, computed twice;
/// two iterations of the sum at once.
fn product(isa: Isa) -> VectorCode {
    let (rows, vectors) = tile(isa);
    let n_acc = rows * vectors;
    let acc = |row: u32, vector: u32| row * vectors + vector;
    let bytes = i64::from(isa.lanes()) * 4;
    let width = i64::from(vectors) * bytes;
    let mut sum = Vec::new();
    for step in 0..2 {
        for vector in 0..vectors {
            let at = step * width + i64::from(vector) * bytes;
            sum.push(set(n_acc + vector, load(1, at, &[(2, 2 * width)], LaneStride::Contiguous)));
        }
        for row in 0..rows {
            let at = (i64::from(row) * DEPTH + step) * 4;
            let factor = n_acc + vectors;
            sum.push(set(factor, load(0, at, &[(2, 8)], LaneStride::Uniform)));
            for vector in 0..vectors {
                let [a, b, c] = [factor, n_acc + vector, acc(row, vector)].map(Reg).map(Value::Reg);
                sum.push(set(acc(row, vector), Value::Fma(a.into(), b.into(), c.into())));
            }
        }
    }
    let mut body: Vec<Stmt> = (0..n_acc).map(|it| set(it, Value::Splat(0))).collect();
    body.push(Stmt::Loop { var: VarId(2), count: Count::Const(DEPTH / 2), body: sum });
    for at in 0..n_acc {
        body.push(Stmt::Store {
            address: Address {
                base: Base::Table(EntryId(2)),
                offset: Linear::constant(i64::from(at) * bytes),
            },
            lanes: LaneStride::Contiguous,
            storage: Storage::Word,
            value: Value::Reg(Reg(at)),
            mask: None,
        });
    }
    let body = vec![Stmt::Loop { var: VarId(1), count: Count::Const(2), body }];
    kernel(isa, n_acc + vectors + 1, 3, body)
}

fn check(isa: Isa) {
    if !run::executes(isa) {
        return;
    }
    let program = Program { kernel: product(isa), scalars: Vec::new() };
    assert_eq!(run::check(&program, RegisterFile::of(isa)), Ok(0));
}

#[test]
fn a_tile_of_a_product_stays_in_registers() {
    check(Isa::Avx512);
    check(Isa::Avx2);
}
