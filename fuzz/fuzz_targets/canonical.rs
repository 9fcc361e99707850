//! Canonical text: a well-formed dag with that text, which has a schedule, or an error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tvmtune_ir::dag::{Dag, print, verify};
use tvmtune_schedule::{Schedule, nest};

fuzz_target!(|text: &str| {
    let Ok(dag) = text.parse::<Dag>() else { return };
    assert_eq!(verify(&dag), []);
    assert_eq!(print::canonical(&dag), text);
    nest::lower(&Schedule::new(&dag));
});
