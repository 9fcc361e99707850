//! Runs vector code interpreted and assembled, on memory that ends at a guard page.

use tvmtune_campaign::machine;
use tvmtune_cpu::interp::{EntryValue, FaultKind, RaceCheck, execute};
use tvmtune_cpu::vector::{Base, Storage, TableEntry};
use tvmtune_cpu::x86::RegisterFile;
use tvmtune_ir::target::Isa;
use tvmtune_runtime::raw::Threads;
use tvmtune_tests::skip;

use super::generate::{Program, buffers};

/// Returns whether this machine executes code for the instruction set; where it doesn't, the test is
/// reported as skipping that set.
pub(crate) fn executes(isa: Isa) -> bool {
    let executes = machine::executes(isa);
    if !executes {
        skip::report(&format!("this machine does not execute {}", isa.name()));
    }
    executes
}

/// Bytes that look like numbers of all sizes, the same for the same place.
fn content(slot: usize, at: usize) -> u8 {
    let mixed = (slot as u32 * 977 + at as u32 / 4 + 1).wrapping_mul(0x9e37_79b9);
    match at % 4 {
        3 => [0x3f, 0xbf, 0x40, 0xc2, 0x00, 0x4b][mixed as usize % 6],
        part => mixed.to_le_bytes()[part],
    }
}

fn cells(program: &Program, sizes: &[usize]) -> Vec<EntryValue> {
    let cell = |(slot, entry): (usize, &TableEntry)| match entry {
        TableEntry::Pointer { .. } | TableEntry::Workspace { .. } => {
            EntryValue::Bytes((0..sizes[slot]).map(|at| content(slot, at)).collect())
        }
        TableEntry::Param(value) => EntryValue::Integer(value.eval_dims(&[])),
        TableEntry::Scalar(id, _) => EntryValue::Bits(program.scalars[id.0 as usize]),
    };
    program.kernel.table.iter().enumerate().map(cell).collect()
}

/// Interprets a program, with buffers just as large as it needs.
fn interpret(program: &Program) -> Result<(Vec<usize>, Vec<EntryValue>), String> {
    let kernel = &program.kernel;
    let scratch = kernel.scratch_bytes.eval_dims(&[]) as usize;
    let mut sizes = vec![0; kernel.table.len()];
    loop {
        let mut table = cells(program, &sizes);
        match execute(kernel, &mut table, scratch, RaceCheck::Off) {
            Ok(()) => return Ok((sizes, table)),
            Err(fault) => match fault.kind {
                FaultKind::OutOfBounds { base: Base::Table(slot), offset, bytes, .. }
                    if offset >= 0 =>
                {
                    sizes[slot.0 as usize] = offset as usize + bytes;
                }
                _ => return Err(fault.to_string()),
            },
        }
    }
}

/// Compares two elements; all NaNs are equal.
fn same(storage: Storage, float: bool, a: &[u8], b: &[u8]) -> bool {
    let is_nan = |it: &[u8]| match (storage, it) {
        (Storage::Word | Storage::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).is_nan(),
        (Storage::Long, it) => it.try_into().is_ok_and(|it| f64::from_le_bytes(it).is_nan()),
        (Storage::F16, &[a, b]) => u16::from_le_bytes([a, b]) & 0x7fff > 0x7c00,
        (Storage::Bf16, &[a, b]) => u16::from_le_bytes([a, b]) & 0x7fff > 0x7f80,
        _ => false,
    };
    a == b || float && is_nan(a) && is_nan(b)
}

/// Runs a program both ways; returns the number of spills, or the difference.
pub(super) fn check(program: &Program, file: RegisterFile) -> Result<u32, String> {
    let (sizes, expected) = interpret(program)?;
    let mut found = cells(program, &sizes);
    let spills = machine::launch(&program.kernel, &[], &mut found, file, Threads::One);
    for (slot, (found, (storage, float))) in
        found.iter().zip(buffers(program.kernel.width)).enumerate()
    {
        let (EntryValue::Bytes(found), EntryValue::Bytes(expected)) = (found, &expected[slot])
        else {
            unreachable!("pointers come first")
        };
        let size = storage.bytes() as usize;
        let elements = expected.chunks(size).zip(found.chunks(size));
        if let Some(at) = elements.into_iter().position(|it| !same(*storage, *float, it.0, it.1)) {
            return Err(format!("buffer {slot}, element {at} of {}", expected.len() / size));
        }
    }
    Ok(spills)
}
