//! `setmaxnreg`: registers that warpgroups give to one another.

use tvmtune_emulator::{Fault, FaultKind, Module, Options, ParseError};

use crate::common::{Run, all_options};

/// A kernel of three warpgroups, of which the last one gives registers to the others, who ask first.
fn parsed(bounds: &str, (few, many): (u32, u32)) -> Result<Module, ParseError> {
    Module::parse(&format!(
        ".version 9.0
        .target sm_90a
        .address_size 64
        .visible .entry k(.param .u64 y) {bounds} {{
            .reg .pred %p<2>;
            .reg .b32 %r<2>;
            mov.u32 %r0, %tid.x;
            setp.ge.u32 %p0, %r0, 256;
            @%p0 bra PRODUCER;
            setmaxnreg.inc.sync.aligned.u32 {many};
            ret;
        PRODUCER:
            setmaxnreg.dec.sync.aligned.u32 {few};
            ret;
        }}"
    ))
}

fn kernel(bounds: &str, registers: (u32, u32)) -> Module {
    parsed(bounds, registers).unwrap_or_else(|it| panic!("{it}"))
}

/// Runs it in all orders; the faults.
fn faults(module: &Module, registers: Option<u32>) -> Vec<Fault> {
    let options = all_options().into_iter().map(|it| Options { registers, ..it });
    let run = |it: Options| Run::new(2, 384).options(&it).buffer(&[0u32]).run(module, "k").err();
    options.filter_map(run).map(|it| *it).collect()
}

const ONE_BLOCK: &str = ".maxntid 384, 1, 1 .minnctapersm 1";
const TWO_BLOCKS: &str = ".maxntid 384, 1, 1 .minnctapersm 2";

#[test]
fn registers_that_others_give_back_are_there() {
    assert_eq!(faults(&kernel(ONE_BLOCK, (40, 232)), None), []);
    // Half of the registers, and grants that fit into them: 80 * 384 >= 24 * 128 + 104 * 256.
    assert_eq!(faults(&kernel(TWO_BLOCKS, (24, 104)), None), []);
}

#[test]
fn registers_that_nobody_has_are_waited_for_for_ever() {
    for (module, registers) in [
        (kernel(TWO_BLOCKS, (40, 232)), None),
        (kernel(ONE_BLOCK, (40, 240)), None),
        (kernel(&format!("{ONE_BLOCK} .maxnreg 128"), (40, 232)), None),
        (kernel(ONE_BLOCK, (40, 232)), Some(152)),
    ] {
        let faults = faults(&module, registers);
        assert_eq!(faults.len(), all_options().len());
        for it in faults {
            assert_eq!(it.kind, FaultKind::Deadlock, "{it}");
            assert!(it.event.message.contains("a wait for 2"), "{it}");
        }
    }
}

#[test]
fn registers_neither_grow_by_dec_nor_shrink_by_inc() {
    for registers in [(176, 232), (40, 160)] {
        let faults = faults(&kernel(ONE_BLOCK, registers), None);
        assert_eq!(faults.len(), all_options().len());
        assert!(faults.iter().all(|it| it.kind == FaultKind::BadInstruction), "{faults:?}");
    }
    for registers in [(40, 233), (16, 232), (40, 264)] {
        let error = parsed(ONE_BLOCK, registers).err().map(|it| it.to_string());
        assert!(error.is_some_and(|it| it.contains("a multiple of 8 from 24 to 256")));
    }
}
