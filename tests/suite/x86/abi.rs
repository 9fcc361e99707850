//! The calling convention of machine code: callee-saved registers survive, and the upper halves of
//! vector registers are zero.

use tvmtune_cpu::vector::{
    Address, Base, Count, EntryId, LaneStride, Linear, Reg, Stmt, Storage, Value, VectorBinary,
};
use tvmtune_cpu::x86::assemble;
use tvmtune_ir::poly::VarId;
use tvmtune_ir::target::Isa;
use tvmtune_runtime::raw::{Code, Threads};

use super::{run, tile};

/// Callee-saved registers: `rbx`, `rbp`, `r12` to `r15`.
const MARKS: [u32; 6] = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66];

/// The place of the first vector register, after the general ones.
const VECTORS_AT: usize = 64;

/// Code that marks the caller's registers, calls the blob behind it, and writes what became of
/// those registers, and all vectors, to the first pointer of the table.
fn watched(blob: &[u8]) -> Vec<u8> {
    let mut code = vec![
        0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57, // push the six
        0x57, // push rdi
    ];
    for (mark, [rex, rm]) in MARKS.iter().zip([
        [0x48, 0xc3],
        [0x48, 0xc5],
        [0x49, 0xc4],
        [0x49, 0xc5],
        [0x49, 0xc6],
        [0x49, 0xc7],
    ]) {
        code.extend([rex, 0xc7, rm]); // mov reg, mark
        code.extend(mark.to_le_bytes());
    }
    code.push(0xe8); // call blob
    let call = code.len();
    code.extend([0; 4]);
    code.extend([0x5f, 0x48, 0x8b, 0x07]); // pop rdi; mov rax, [rdi]
    code.extend([0x48, 0x89, 0x18, 0x48, 0x89, 0x68, 0x08]); // mov [rax], rbx; mov [rax + 8], rbp
    code.extend([0x4c, 0x89, 0x60, 0x10, 0x4c, 0x89, 0x68, 0x18]); // r12, r13
    code.extend([0x4c, 0x89, 0x70, 0x20, 0x4c, 0x89, 0x78, 0x28]); // r14, r15
    for register in 0..16_u8 {
        let extended = if register < 8 { 0xfc } else { 0x7c };
        code.extend([0xc5, extended, 0x11, 0x80 | (register & 7) << 3]); // vmovups [rax + ..], ymm
        code.extend((VECTORS_AT as u32 + 32 * u32::from(register)).to_le_bytes());
    }
    code.extend([0xc5, 0xf8, 0x77]); // vzeroupper
    code.extend([0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3]); // pop, ret
    let blob_at = code.len().next_multiple_of(64);
    code.resize(blob_at, 0xcc);
    code[call..call + 4].copy_from_slice(&((blob_at - call - 4) as u32).to_le_bytes());
    code.extend(blob);
    code
}

/// A loop that uses more pointers than general registers, and all vector registers.
fn greedy(isa: Isa) -> Vec<u8> {
    let n = isa.registers();
    let place = |at: u32| {
        let strides = vec![(VarId(1), Count::Const(4 * i64::from(at % 20) + 4))];
        let offset = Linear { constant: 0, param: None, strides };
        Address { base: Base::Table(EntryId(1)), offset }
    };
    let set = |reg: u32, value: Value| Stmt::Set { reg: Reg(reg), value, mask: None };
    let add = |reg: u32| {
        let (lanes, storage) = (LaneStride::Contiguous, Storage::Word);
        let load = Value::Load { address: place(reg), lanes, storage, mask: None };
        set(reg, Value::Binary(VectorBinary::AddF, Value::Reg(Reg(reg)).into(), load.into()))
    };
    let mut body: Vec<Stmt> =
        (0..n).map(|it| set(it, Value::Splat(1.0_f32.to_bits().into()))).collect();
    let looped = (0..n).map(add).collect();
    body.push(Stmt::Loop { var: VarId(1), count: Count::Const(3), body: looped });
    body.extend((0..n).map(|it| Stmt::Store {
        address: Address { base: Base::Table(EntryId(1)), offset: Linear::constant(4096) },
        lanes: LaneStride::Contiguous,
        storage: Storage::Word,
        value: Value::Reg(Reg(it)),
        mask: None,
    }));
    assemble(&tile::kernel(isa, n, 2, body)).phases.remove(0)
}

fn check(isa: Isa) {
    if !run::executes(isa) {
        return;
    }
    let code = Code::load(&[watched(&greedy(isa))]).unwrap();
    let (mut found, data) = (vec![0xff_u8; VECTORS_AT + 16 * 32], vec![0_u8; 8192]);
    let table = [found.as_mut_ptr().expose_provenance(), data.as_ptr().expose_provenance()];
    code.try_out(&[1], &table.map(|it| it as u64), 0, Threads::One);
    let marks: Vec<u32> = found[..48].chunks(8).map(|it| it[0].into()).collect();
    assert_eq!(marks, MARKS, "the registers of the caller");
    for (register, it) in found[VECTORS_AT..].chunks(32).enumerate() {
        assert!(it[16..].iter().all(|it| *it == 0), "the upper half of ymm{register}");
    }
}

#[test]
fn the_registers_of_the_caller_survive() {
    check(Isa::Avx512);
    check(Isa::Avx2);
}
