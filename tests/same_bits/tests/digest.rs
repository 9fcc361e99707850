//! The embeddings of 1,000 sentences have one digest: on every instruction set, on any number of threads, alone
//! and in batches, by the schedules of this crate's records and by default ones.

#![expect(clippy::unwrap_used, reason = "what tests call is part of a test")]

use std::process::Command;

use tvmtune_runtime::{Cpu, Isa};

/// The digest of the first sentences: so many, and the SHA-256 of their embeddings.
type First = (usize, &'static str);

const ALL: First = (1000, "e0b7ba02f8108bf70b6612e775cdd718773cdeaf365041ae06f61ee4158333ba");
const SOME: First = (150, "651bdfd17f966bb104556d1a453b7582afd65255adc886ec71ebf3ea3b41a881");
/// Those that portable code computes, which is slow where it may not assume FMA.
const FEW: First = (5, "7c6065955fb09a39dd7d24fed86ddcc4bb5943b9dbfb91201b3b3db77509c679");

/// Compares the digest by code of an instruction set, on that many threads, in batches of a size; where the model
/// can't be fetched, which only a machine that is no CI may claim, nothing is compared.
#[track_caller]
fn check((n, expected): First, isa: Isa, threads: usize, batch: usize) {
    let done = Command::new(env!("CARGO_BIN_EXE_tvmtune-same-bits"))
        .args([n.to_string(), format!("--batch={batch}")])
        .env("TVMTUNE_ISA", isa.to_string())
        .env("TVMTUNE_THREADS", threads.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    if !done.status.success() {
        assert!(std::env::var_os("CI").is_none(), "{said}");
        eprintln!("not checked: {said}");
        return;
    }
    let text = String::from_utf8(done.stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    // Names of tiers have spaces: the numerics stand in front of them.
    assert_eq!([words[1], words[2]], [&isa.to_string(), "Fixed"], "{text}");
    assert_eq!(words[0], expected, "{isa}, {threads} threads, batches of {batch}");
}

/// The instruction sets of this machine that have machine code.
fn isas() -> impl Iterator<Item = Isa> {
    let best = Cpu::new().isa();
    [Isa::Avx2, Isa::Avx512].into_iter().filter(move |it| *it <= best)
}

#[test]
fn sentences_alone_and_in_batches_have_one_digest_on_any_number_of_threads() {
    for isa in isas() {
        check(ALL, isa, 2, 1);
        check(ALL, isa, 3, 17);
        check(SOME, isa, 1, 32);
        check(SOME, isa, 8, 5);
    }
}

#[test]
fn portable_code_has_the_digest_of_machine_code() {
    for isa in isas() {
        check(FEW, isa, 2, 3);
    }
    check(FEW, Isa::Portable, 3, 2);
}
