//! Functions of a program's own, and of its crate.

use std::collections::BTreeMap;

use syn::ItemFn;

use super::super::{
    Functions, attribute, build, fingerprint, inline_program, parse, with_functions,
};
use super::errors;
use crate::dag::print;

/// The computes of `with` and of `without`, which are the same program.
#[track_caller]
fn same(with: &str, without: &str) {
    let result = "Tensor<f32, M, K>";
    assert_eq!(super::body(result, with), super::body(result, without));
}

#[test]
fn a_call_is_the_body_in_its_place() {
    same(
        "let gate = |v: f32| v * sigmoid(v); compute(|i, j| gate(x[[i, j]]) + gate(2.0))",
        "compute(|i, j| x[[i, j]] * sigmoid(x[[i, j]]) + 2.0_f32 * sigmoid(2.0_f32))",
    );
    same(
        "let scaled = |v, c| v * c; compute(|i, j| scaled(h[[i, j]], 2.0))",
        "compute(|i, j| h[[i, j]] as f32 * 2.0)",
    );
    same(
        "let at = |k| x[[0, k]]; let both = |k| at(k) + at(7 - k); \
         let t: Tensor<f32, M, K> = compute(|_, j| both(j)); t",
        "let t: Tensor<f32, M, K> = compute(|_, j| x[[0, j]] + x[[0, 7 - j]]); t",
    );
    same(
        "compute(|i, j| { let near = |c: f32| (x[[i, j]] - c).abs(); near(eps).min(near(1.0)) })",
        "compute(|i, j| (x[[i, j]] - eps).abs().min((x[[i, j]] - 1.0).abs()))",
    );
}

#[test]
fn a_function_sees_what_stands_before_it() {
    same(
        "let c = 2.0; let twice = |v| v * c; compute(|i, j| { let c = 3.0; twice(x[[i, j]]) + c })",
        "compute(|i, j| x[[i, j]] * 2.0 + 3.0)",
    );
    // It goes before a function of the language, as in Rust.
    same(
        "let relu = |v: f32| v + 1.0; compute(|i, j| relu(x[[i, j]]))",
        "compute(|i, j| x[[i, j]] + 1.0)",
    );
}

#[test]
fn types_of_parameters_and_results_convert() {
    same(
        "let third = |v: f32| -> f32 { v / 3.0 }; compute(|i, j| third(h[[i, j]]) + third(1.0))",
        "compute(|i, j| h[[i, j]] as f32 / 3.0 + 1.0_f32 / 3.0)",
    );
    same(
        "let third = |v| -> f16 { v / 3.0 }; compute(|i, j| third(x[[i, j]]))",
        "compute(|i, j| { let third: f16 = x[[i, j]] / 3.0; third })",
    );
}

#[test]
fn mistakes_in_functions_are_reported_once() {
    let of = |body: &str| errors::body("Tensor<f32, M, K>", body);
    insta::assert_snapshot!(of("let f = |v| v + 1; compute(|i, j| f(x[[i, j]]) + f(x[[i, j]]) + f(1.0))"), @"3 | 1 => expected f32, found an integer: write `1.0`");
    insta::assert_snapshot!(of("let f = |v: f32| v; compute(|i, j| f(n[[i]]) + f(x[[i, j]], 1.0))"), @r#"
    3 | n[[i]] => expected f32, found i32: convert it with `as f32`
    3 | f(x[[i, j]], 1.0) => `f` takes 1 value, not 2
    "#);
    insta::assert_snapshot!(of("let f: f32 = |(a, b)| a; compute(|i, j| f + f[[i]] + f(x[[i, j]]))"), @r#"
    3 | f32 => a function states the types of its parameters: `|x: f32| ..`
    3 | (a, b) => a parameter has a plain name, as in `|x, y| ..`
    3 | f => `f` is a function: call it, as in `f(x)`
    3 | f => `f` is a function: call it, as in `f(x)`
    "#);
    insta::assert_snapshot!(of("let f = |k| x[[0, k]]; compute(|i, j| x[[i, j]] + f(j + 1))"), @"3 | k => index `k` ranges over 1..=8, but `x` has extent 8 there: use `.get(..).unwrap_or(..)`");
    insta::assert_snapshot!(of("let f = |v| f(v); compute(|i, j| f(x[[i, j]]))"), @"3 | f => `f` is not a tvmtune intrinsic, nor a function of this crate that is marked for it: write `#[autotune::inline]` before one, or bind it here, `let f = |x| ..`");
}

#[test]
fn functions_that_call_each_other_end() {
    // 2^60 evaluations of constants, whose size says nothing.
    let mut body = "let f0 = |v: f32| v; ".to_owned();
    for n in 1..60 {
        body +=
            &format!("let f{n} = |v: f32| {{ let a = f{0}(v); let b = f{0}(v); 1.0 }}; ", n - 1);
    }
    body += "compute(|i, j| f59(x[[i, j]]))";
    let found = errors::body("Tensor<f32, M, K>", &body);
    assert_eq!(found.lines().count(), 1, "{found}");
    assert!(found.contains("call each other too often"), "{found}");
}

/// The functions of a crate by module and name.
struct Sources(BTreeMap<(&'static str, &'static str), &'static str>);

impl Functions for Sources {
    type Scope = &'static str;

    fn find(
        &mut self,
        scope: &Self::Scope,
        path: &[String],
    ) -> Result<Option<(Self::Scope, String)>, String> {
        let (module, name) = match path {
            [name] => (*scope, name),
            [module, name] => (module.as_str(), name),
            _ => return Ok(None),
        };
        if name == "several" {
            return Err("`several` has several definitions".to_owned());
        }
        let found = self.0.iter().find(|((of, it), _)| *of == module && it == name);
        Ok(found.map(|((of, _), text)| (*of, (*text).to_owned())))
    }
}

fn sources() -> Sources {
    Sources(BTreeMap::from([
        (("act", "gate"), "fn gate(x: f32) -> f32 { x * squash(x) }"),
        (("act", "squash"), "fn squash(v: f32) -> f32 { sigmoid(v) }"),
        (("op", "squash"), "fn squash(v: f32) -> f32 { tanh(v) }"),
        (("act", "around"), "fn around(v: f32) -> f32 { around(v) }"),
        (("act", "wrong"), "fn wrong(v: f32) -> f32 { v + 1 }"),
        (("act", "tensors"), "fn tensors(v: Tensor<f32, M>) -> f32 { v[[0]] }"),
    ]))
}

/// The program in module `op` with the functions that it calls, and the paths of these.
fn inlined(body: &str) -> (ItemFn, Vec<String>) {
    let mut item: ItemFn = syn::parse_str(&super::with_body("Tensor<f32, M, K>", body)).unwrap();
    let called = with_functions(&mut item, &"op", &mut sources());
    (item, called.iter().map(|it| it.path.to_string().replace(' ', "")).collect())
}

#[test]
fn functions_of_the_crate_are_bound_with_those_that_they_call() {
    let text = "compute(|i, j| act::gate(x[[i, j]]) + squash(x[[i, j]]) + act::gate(eps))";
    let (item, called) = inlined(text);
    assert_eq!(called, ["act::gate", "squash"]);
    let options = attribute(&item).unwrap().unwrap();
    let dag = build(&parse(options, &item).unwrap()).unwrap();
    let plain = "let gate = |v: f32| v * sigmoid(v); \
                 compute(|i, j| gate(x[[i, j]]) + tanh(x[[i, j]]) + gate(eps))";
    let wanted = super::dag(&super::with_body("Tensor<f32, M, K>", plain));
    assert_eq!(print::canonical(&dag), print::canonical(&wanted));
    // The tokens say all: nobody finds these functions again.
    assert!(
        with_functions(&mut item.clone(), &"nowhere", &mut Sources(BTreeMap::new())).is_empty()
    );
}

#[test]
fn functions_of_the_crate_that_cannot_be_read_are_reported_at_the_call() {
    let of = |body: &str| {
        let source = super::with_body("Tensor<f32, M, K>", body);
        let (item, _) = inlined(body);
        let options = attribute(&item).unwrap().unwrap();
        let error = parse(options, &item).err().expect("an error");
        errors::render(&source, error)
    };
    insta::assert_snapshot!(of("compute(|i, j| act::around(x[[i, j]]))"), @"3 | around(x[[i, j]]) => in `act::around`: `around` calls itself, so it cannot be inlined");
    insta::assert_snapshot!(of("compute(|i, j| act::wrong(x[[i, j]]) + act::wrong(eps))"), @"3 | wrong(x[[i, j]]) => in `act::wrong`: expected f32, found an integer: write `1.0`");
    insta::assert_snapshot!(of("compute(|i, j| act::tensors(x[[i, j]]))"), @"3 | act => `act::tensors` is no function that can be inlined: see the error there");
    insta::assert_snapshot!(of("compute(|i, j| several(x[[i, j]]) + act::none(eps) + none(eps))"), @r#"
    3 | several => `several` has several definitions
    3 | act::none => `act::none` is no function of this crate that is marked for programs: write `#[autotune::inline]` before it, where its sources can be read
    3 | none => `none` is not a tvmtune intrinsic, nor a function of this crate that is marked for it: write `#[autotune::inline]` before one, or bind it here, `let none = |x| ..`
    "#);
}

#[test]
fn a_function_is_a_program_of_one_number() {
    let of = |text: &str| inline_program(&syn::parse_str(text).unwrap());
    let program = of("pub fn gate(x: f32, c: f64) -> f32 { let y = x; y * 2.0 }").unwrap();
    let dag = build(&parse(Default::default(), &program).unwrap()).unwrap();
    assert!(print::canonical(&dag).ends_with("t0: f32[1] = mul(s0, 2.0_f32)\nreturn t0\n"));
    let Err(wrong) = of("fn exp(x: &[f32], c: Tensor<f32, M>) {}") else { panic!("an error") };
    let messages: Vec<String> = wrong.into_iter().map(|it| it.to_string()).collect();
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert!(messages[0].contains("is a function of the language"), "{messages:?}");
}

#[test]
fn a_fingerprint_is_of_the_text_without_spaces_and_attributes() {
    let of = |text: &str| fingerprint(&syn::parse_str(text).unwrap());
    let plain = of("fn f(x: f32) -> f32 { x+1.0 }");
    assert_eq!(plain, of("/// Doc.\npub(crate) fn f(x: f32) -> f32 {\n x + 1.0 // more\n}"));
    assert_ne!(plain, of("fn f(x: f32) -> f32 { x + 1.5 }"));
}
