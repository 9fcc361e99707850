//! The text of a program: read as the macro reads it, or refused with errors.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proc_macro2::TokenStream;
use tvmtune_ir::dag::{Dag, print, verify};
use tvmtune_ir::dsl;

fuzz_target!(|text: &str| {
    let Ok(tokens) = text.parse::<TokenStream>() else { return };
    let Ok(function) = dsl::function(tokens) else { return };
    let Some(Ok(options)) = dsl::attribute(&function) else { return };
    let Ok(instances) = dsl::instances(options, &function) else { return };
    for it in instances {
        let Ok(program) = dsl::parse(it.options, &it.item) else { continue };
        let dag = dsl::build(&program).expect("a program that was read has a meaning");
        assert_eq!(verify(&dag), []);
        let text = print::canonical(&dag);
        let back: Dag = text.parse().expect("canonical text is read");
        assert_eq!(print::canonical(&back), text);
    }
});
