//! Runs functions of the language over all of their arguments, and prints their greatest errors.
//!
//! `numerics` runs all of them by machine code, `numerics sin cos` those two, `numerics --portable`
//! portable code. It takes some minutes for each function; it fails where an error is beyond its limit.

use std::env;
use std::process::ExitCode;
use std::time::Instant;

use tvmtune_runtime::{Cpu, Isa};
use tvmtune_tests::numerics::{FUNCTIONS, PAIRS, pairs, worst_of_all, worst_pair};

/// Random pairs beside the grid.
const N_PAIRS: u32 = 20_000_000;

fn main() -> ExitCode {
    let (flags, names): (Vec<String>, Vec<String>) =
        env::args().skip(1).partition(|it| it.starts_with("--"));
    let is_portable = flags.iter().any(|it| it == "--portable");
    let cpu = if is_portable { Cpu::new().at_most(Isa::Portable) } else { Cpu::new() }.alone();
    let is_named = |name: &str| names.is_empty() || names.iter().any(|it| it == name);
    println!("{} code: greatest errors", cpu.isa());
    let mut fails = false;
    let mut report = |name: &str, error: f64, unit: &str, limit: f64, at: String| {
        let fault = if error > limit { ", beyond the limit" } else { "" };
        fails |= !fault.is_empty();
        println!("{name}: {error:.3} {unit} at {at}{fault}");
    };
    for it in FUNCTIONS.iter().filter(|it| is_named(it.name)) {
        let start = Instant::now();
        let worst = worst_of_all(it, &cpu);
        let seconds = start.elapsed().as_secs();
        let at = format!("{:#x}: {:#x} ({seconds} s)", worst.at, worst.got);
        report(it.name, worst.error, it.unit, it.limit, at);
    }
    for it in PAIRS.iter().filter(|it| is_named(it.name)) {
        let worst = worst_pair(it, &cpu, &pairs(N_PAIRS));
        let at = format!("{:?}: {:e}", worst.at, f32::from_bits(worst.got));
        report(it.name, worst.error, it.unit, it.limit, at);
    }
    ExitCode::from(u8::from(fails))
}
