//! Functions for inlining, as a scan and an expansion find them.

use syn::ItemFn;

use super::*;

const ACTIVATIONS: &str = "
    use super::shape::squash;
    #[autotune::inline] pub fn gate(x: f32) -> f32 { x * squash(x) }
    #[tvmtune_runtime::autotune::inline] pub fn other(x: f32) -> f32 { x }
    pub fn plain(x: f32) -> f32 { x }
";
const SHAPE: &str = "
    mod inner { #[autotune::inline] pub fn squash(v: f32) -> f32 { tanh(v) } }
    pub use inner::*;
";

/// The text of a function's body.
fn body(function: &ItemFn) -> String {
    let text = dsl::bare_text(function);
    text[text.find('{').expect("a body")..].to_owned()
}

/// The body of the op in `src/lib.rs`, with the functions that it calls, by the scan; and the files watched.
fn op(lib: &str) -> (String, Vec<String>) {
    let files = [
        ("src/lib.rs", lib),
        ("src/activations.rs", ACTIVATIONS),
        ("src/shape.rs", SHAPE),
        ("src/unrelated.rs", "pub fn f() {}"),
    ];
    let folder = package(&files);
    let scan = scan(folder.path(), &cfg());
    let [function] = &scan.functions[..] else { panic!("one function") };
    let scanned = body(&function.item);
    // The macro reads the same.
    let mut item: ItemFn = syn::parse_str(lib.split("#[autotune]").nth(1).unwrap()).unwrap();
    let place = Place {
        name: "op".to_owned(),
        options: String::new(),
        file: Some(folder.path().join("src/lib.rs")),
        line: 0,
        written: None,
    };
    let mut sources = Sources::read(&[folder.path().join("src/lib.rs")], &cfg());
    sources.with_functions(&place, &mut item);
    assert_eq!(body(&item), scanned);
    let names =
        scan.watched.iter().map(|it| it.file_name().unwrap().to_string_lossy().into_owned());
    (scanned.replace(' ', ""), names.collect())
}

#[test]
fn functions_are_found_by_the_paths_of_rust() {
    let (body, watched) = op("mod activations; mod shape; mod unrelated; use activations::gate;
        #[autotune] fn op() { compute(|i| gate(x[[i]]) + activations::other(x[[i]])) }");
    let wanted = "{letgate=#[autotune::inline=\"gate\"]|x:f32|->f32{\
                  letsquash=#[autotune::inline=\"squash\"]|v:f32|->f32{tanh(v)};x*squash(x)};\
                  letactivations_other=#[autotune::inline=\"activations::other\"]|x:f32|->f32{x};\
                  compute(|i|gate(x[[i]])+activations_other(x[[i]]))}";
    assert_eq!(body, wanted);
    assert_eq!(watched, ["activations.rs", "lib.rs", "shape.rs", "unrelated.rs"]);
}

#[test]
fn functions_without_the_mark_and_of_other_crates_are_left_alone() {
    let (body, _) = op("mod activations; mod shape; use elsewhere::far;
        #[autotune] fn op() { compute(|i| activations::plain(far(x[[i]]))) }");
    assert_eq!(body, "{compute(|i|activations::plain(far(x[[i]])))}");
}

#[test]
fn several_definitions_are_an_error_at_the_call() {
    let (body, _) = op("mod activations; mod shape;
        #[cfg(my_own)] #[autotune::inline] fn f(x: f32) -> f32 { x }
        #[cfg(not(my_own))] #[autotune::inline] fn f(x: f32) -> f32 { -x }
        #[autotune] fn op() { compute(|i| f(x[[i]])) }");
    assert!(body.contains("letf=compile_error!"), "{body}");
}

#[test]
fn functions_for_inlining_know_their_own_module() {
    let folder = package(&[
        ("src/lib.rs", "mod activations; mod shape;"),
        ("src/shape.rs", SHAPE),
        ("src/activations.rs", ACTIVATIONS),
    ]);
    let mut item: ItemFn = syn::parse_str("fn gate(x: f32) -> f32 { x * squash(x) }").unwrap();
    let place = Place {
        name: "gate".to_owned(),
        options: String::new(),
        file: Some(folder.path().join("src/activations.rs")),
        line: 3,
        written: None,
    };
    let mut sources = Sources::read(&[folder.path().join("src/lib.rs")], &cfg());
    let called = sources.with_functions(&place, &mut item);
    assert_eq!(called.len(), 1);
    assert_eq!(
        called[0].ty.to_string().replace(' ', ""),
        "fn(::core::primitive::f32)->::core::primitive::f32"
    );
}
