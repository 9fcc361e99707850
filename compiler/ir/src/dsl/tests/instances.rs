//! `types(W in [..])`: the programs that a function makes, and errors of the lists.

use proc_macro2::TokenStream;

use super::errors::render;
use crate::dag::DType;
use crate::dsl::{Instance, attribute, build, for_each_instance, instances, parse};
use crate::workload;

const LINEAR: &str = "
    #[autotune(dims(M = 1..=4, K = 8), types(W in [f32, bf16, i8]), accum = f32)]
    fn linear(x: Tensor<f32, M, K>, w: Weight<W, K>) -> Tensor<f32, M> {
        compute(|i| sum(0..K, |k| x[[i, k]] * w[[k]] as f32))
    }";

fn read(source: &str) -> syn::Result<Vec<Instance>> {
    let mut function: syn::ItemFn = syn::parse_str(source)?;
    let options: TokenStream = attribute(&function).transpose()?.unwrap_or_default();
    function.attrs.clear();
    instances(options, &function)
}

fn id(instance: &Instance) -> syn::Result<String> {
    let program = parse(instance.options.clone(), &instance.item)?;
    Ok(workload::id(&build(&program)?).to_string())
}

/// The errors of the lists, or else of the programs.
fn errors(source: &str) -> String {
    let found = read(source).and_then(|it| for_each_instance(&it, id));
    found.map_or_else(|error| render(source, error), |_| "nothing is wrong".to_owned())
}

/// The errors of a function over `x: A[4]` with these lists and this body.
fn lists(types: &str, body: &str) -> String {
    errors(&format!(
        "#[autotune(dims(N = 4), {types})] fn f(x: Tensor<A, N>) -> Tensor<f32, N> {{ {body} }}"
    ))
}

#[test]
fn each_type_makes_the_program_that_one_would_write() {
    let found = read(LINEAR).unwrap();
    let types: Vec<String> = found.iter().map(Instance::suffix).collect();
    assert_eq!(types, ["f32", "bf16", "i8"]);
    for (instance, dtype) in found.iter().zip(["f32", "bf16", "i8"]) {
        let written = LINEAR
            .replace("types(W in [f32, bf16, i8]), ", "")
            .replace("<W,", &format!("<{dtype},"));
        let written = read(&written).unwrap();
        assert_eq!(written.len(), 1);
        assert_eq!(id(instance).unwrap(), id(&written[0]).unwrap());
        assert_eq!(instance.item.sig.ident.to_string(), format!("linear_{dtype}"));
        assert_eq!(written[0].item.sig.ident.to_string(), "linear");
    }
}

#[test]
fn several_lists_make_all_combinations() {
    let source = "
        #[autotune(types(A in [f32, f16], B in [i8, u8],), dims(N = 4))]
        fn f(x: Tensor<A, N>, y: Tensor<B, N>) -> Tensor<A, N> { compute(|n| y[[n]] as A) }";
    let found = read(source).unwrap();
    let types: Vec<Vec<DType>> =
        found.iter().map(|it| it.types.iter().map(|(_, dtype)| *dtype).collect()).collect();
    use DType::{F16, F32, I8, U8};
    assert_eq!(types, [[F32, I8], [F32, U8], [F16, I8], [F16, U8]]);
    assert_eq!(found[2].suffix(), "f16_i8");
    assert_eq!(errors(source), "nothing is wrong");
}

#[test]
fn mistakes_in_lists() {
    let body = "compute(|n| x[[n]] as f32)";
    insta::assert_snapshot!(lists("types(A in [f32, fp16, i8, i8])", body), @r#"
    1 | fp16 => `fp16` is not an element type: write `f16`
    1 | i8 => `i8` is listed twice: remove one
    "#);
    insta::assert_snapshot!(lists("types(A = [f32])", body), @r#"
    1 | = => expected `in`, as in `types(W in [f32, bf16])`
    "#);
    insta::assert_snapshot!(lists("types(A in f32)", body), @r#"
    1 | f32 => expected a list of element types in brackets, as in `types(W in [f32, bf16])`
    "#);
    insta::assert_snapshot!(lists("types = A", body), @r#"
    1 | types => expected `types(W in [f32, bf16])`
    "#);
    insta::assert_snapshot!(lists("types(A in [], N in [f32], f32 in [f32], A in [i8], Z in [f32])", body), @r#"
    1 | A => `A` has no types: write `types(W in [f32, bf16])`
    1 | N => `N` is a dimension, too: rename one of them
    1 | f32 => `f32` is an element type: write `types(W in [f32, bf16])`
    1 | A => type `A` is listed twice: remove one
    1 | Z => no parameter or result has elements of `Z`: write `Tensor<Z, ..>`, or remove it from `types(..)`
    "#);
    // An extent is no element.
    let extent = "#[autotune(types(W in [f32]))]
        fn f(x: Tensor<f32, W>, W: f32) -> Tensor<f32, 4> { compute(|_| 0.0) }";
    insta::assert_snapshot!(errors(extent), @r#"
    1 | W => no parameter or result has elements of `W`: write `Tensor<W, ..>`, or remove it from `types(..)`
    "#);
    let all = "f32, f16, bf16, f64, i8, u8, i32, u32, i64, bool";
    let two = format!("types(A in [{all}], B in [{all}])");
    insta::assert_snapshot!(lists(&two, body), @r#"
    1 | A => these lists make 100 programs, and at most 64 are made: shorten them
    1 | B => no parameter or result has elements of `B`: write `Tensor<B, ..>`, or remove it from `types(..)`
    "#);
}

#[test]
fn an_error_in_all_programs_is_one_and_others_name_their_types() {
    insta::assert_snapshot!(
        lists("types(A in [f32, i8, bool])", "compute(|n| y[[n]] + exp(x[[n]]))"), @r#"
    1 | y => cannot find tensor `y`: declare a parameter, or compute it before (known: `x`)
    1 | x[[n]] => `exp` applies to floats, and this is i8: convert it with `as f32` (where `A` is `i8`)
    "#);
    insta::assert_snapshot!(lists("types(A in [f32, i8])", "compute(|n| x[[n]] * 2.0)"), @r#"
    1 | 2.0 => expected i8, found a float: convert the other side with `as f32` (where `A` is `i8`)
    "#);
}
