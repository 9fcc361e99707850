//! Mutated programs: no tokens make the elaboration panic, or take long.

use proc_macro2::TokenStream;
use proptest::prelude::*;

use crate::dag::{Dag, print, verify};
use crate::dsl::mutants::{Edit, N_KINDS, SEEDS, mutant};
use crate::dsl::{attribute, check_nesting, parse};

#[derive(Debug, Default)]
struct Tally {
    parsed: usize,
    accepted: usize,
}

/// Reads mutated programs; what is accepted is well formed, and its text is stable.
fn read(seed: usize, edits: &[Edit], tally: &mut Tally) {
    let tokens = mutant(seed, edits);
    if check_nesting(&tokens).is_err() {
        return;
    }
    let Ok(function) = syn::parse2::<syn::ItemFn>(tokens) else { return };
    tally.parsed += 1;
    let Some(Ok(options)) = attribute(&function).or(Some(Ok(TokenStream::new()))) else { return };
    match parse(options, &function) {
        Ok(program) => {
            tally.accepted += 1;
            let dag = crate::dsl::build(&program).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(verify(&dag), []);
            assert!(!print::canonical(&dag).is_empty() && !print::class(&dag).is_empty());
            for end in [|it: crate::poly::Interval| it.lo, |it: crate::poly::Interval| it.hi] {
                let ends = dag.dims.iter().map(|it| crate::poly::Interval::point(end(it.range)));
                assert_eq!(verify(&dag.specialize(&ends.collect::<Vec<_>>())), []);
            }
            // The text that is kept of it is read back, or refused.
            let _ = print::canonical(&dag).parse::<Dag>();
        }
        Err(error) => assert!(error.into_iter().count() > 0),
    }
}

#[test]
fn mutated_programs_are_read_or_refused() {
    let cases = 16 * ProptestConfig::default().cases;
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let tally = std::cell::RefCell::new(Tally::default());
    let edits = proptest::collection::vec((0..10_000i64, 0..N_KINDS, 0..10_000usize), 0..4);
    runner
        .run(&(0..SEEDS.len(), edits), |(seed, edits)| {
            read(seed, &edits, &mut tally.borrow_mut());
            Ok(())
        })
        .unwrap();
    let tally = tally.into_inner();
    let [parsed, accepted] = [5 * tally.parsed, 40 * tally.accepted];
    assert!(parsed.min(accepted) > cases as usize, "{tally:?}: too few mutants are programs");
}
