//! The page that describes the language, against the language.

use std::collections::BTreeMap;

use super::errors::render;
use crate::dag::verify;
use crate::dsl::{
    Functions, attribute, bare_text, build, call, for_each_instance, instances, is_inline, parse,
    reduce, with_functions,
};

const PAGE: &str = include_str!("../../../../../docs/language.md");

fn blocks(language: &str) -> Vec<String> {
    let open = format!("```{language}\n");
    PAGE.split(&open).skip(1).map(|it| it.split("```").next().unwrap().to_owned()).collect()
}

/// The functions for inlining of a block, by name.
#[derive(Default)]
struct Block(BTreeMap<String, String>);

impl Functions for Block {
    type Scope = ();

    fn find(&mut self, (): &(), path: &[String]) -> Result<Option<((), String)>, String> {
        Ok(path.last().and_then(|it| self.0.get(it)).map(|it| ((), it.clone())))
    }
}

#[test]
fn every_program_on_the_page_is_right() {
    let mut n_programs = 0;
    for block in blocks("rust") {
        let mut functions = Block::default();
        for item in syn::parse_file(&block).unwrap().items {
            let syn::Item::Fn(mut function) = item else { panic!("only functions: {block}") };
            if function.attrs.iter().any(|it| is_inline(it.path())) {
                functions.0.insert(function.sig.ident.to_string(), bare_text(&function));
                continue;
            }
            with_functions(&mut function, &(), &mut functions);
            let options = attribute(&function).unwrap().unwrap();
            let programs = instances(options, &function)
                .and_then(|all| for_each_instance(&all, |it| parse(it.options.clone(), &it.item)));
            let programs = match programs {
                Ok(programs) => programs,
                Err(error) => panic!("{}", render(&block, error)),
            };
            for program in &programs {
                assert_eq!(verify(&build(program).unwrap()), []);
            }
            n_programs += programs.len();
        }
    }
    assert!(n_programs >= 10, "{n_programs} programs");
}

#[test]
fn every_intrinsic_is_on_the_page() {
    let words: Vec<&str> = PAGE.split(|it: char| !it.is_alphanumeric() && it != '_').collect();
    for name in reduce::NAMES.into_iter().chain(call::names()) {
        assert!(words.contains(&name), "`{name}` is not on the page");
    }
}
