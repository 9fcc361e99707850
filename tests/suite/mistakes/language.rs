//! Mistakes in programs, in the attribute, in signatures, and in calls.

use super::rustc::{Case, KERNELS, Stage};
use super::{beyond, room};

/// All cases, by the title of their section.
pub(super) fn sections() -> Vec<(&'static str, Vec<Case>)> {
    vec![
        ("In the body of a program", bodies().into_iter().chain(indices()).chain(axes()).collect()),
        ("In the attribute", attributes()),
        ("In dimensions that begin at others", room::cases()),
        ("In constants as extents", constants()),
        ("In kernel templates", templates()),
        ("In lists of element types", lists()),
        ("In the signature", signatures()),
        ("In place", in_place()),
        ("Beyond the limits", beyond::cases()),
        ("In a call of the generated function", calls()),
    ]
}

/// A program with this body, over `x: f32[M, K]`, `w: f32[K]`, `n: i32[M]` and `eps: f32`; the call
/// below it gets no error.
fn body(mistake: &'static str, body: &str) -> Case {
    let source = format!(
        "use tvmtune_runtime::{{Cpu, autotune}};\n\n\
         #[autotune(dims(M = 1..=64, K = 8))]\n\
         pub fn f(x: Tensor<f32, M, K>, w: Weight<f32, K>, n: Tensor<i32, M>, eps: f32) \
         -> Tensor<f32, M> {{\n    {body}\n}}\n\n\
         pub fn caller(x: &[f32], w: &[f32], n: &[i32], out: &mut [f32]) {{\n    \
         f(&Cpu::new(), x, w, n, 1.0, out).unwrap();\n    f::load(&Cpu::new()).unwrap();\n}}\n"
    );
    Case { mistake, written: body.to_owned(), source, stage: Stage::Expansion }
}

/// A whole function, of which the table shows a part.
pub(super) fn item(mistake: &'static str, written: &str, source: &str) -> Case {
    let source = format!("use tvmtune_runtime::{{Cpu, autotune}};\n\n{source}\n");
    Case { mistake, written: written.to_owned(), source, stage: Stage::Expansion }
}

/// The attribute of a program over `x: f32[M, 8]` and `y: f32[K]`.
fn attribute(mistake: &'static str, attribute: &str) -> Case {
    let program = "pub fn f(x: Tensor<f32, M, 8>, y: Tensor<f32, K>) -> Tensor<f32, M> {\n    \
                   compute(|i| sum(0..8, |k| x[[i, k]]) + y[[0]])\n}";
    item(mistake, attribute, &format!("{attribute}\n{program}"))
}

/// A constant, which is an extent of the program below it.
fn constant(mistake: &'static str, constant: &str) -> Case {
    let program = "#[autotune(dims(K = HIDDEN))]\npub fn f(x: Tensor<f32, K>) -> Tensor<f32, K> {\n    \
                   compute(|i| x[[i]])\n}";
    item(mistake, constant, &format!("{constant}\n\n{program}"))
}

/// A signature with an empty body.
fn signature(mistake: &'static str, signature: &str, returned: &str) -> Case {
    item(
        mistake,
        signature,
        &format!("#[autotune(dims(M = 1..=64))]\n{signature} {{ {returned} }}"),
    )
}

fn bodies() -> Vec<Case> {
    vec![
        Case {
            stage: Stage::Syntax,
            ..body("single brackets around several indices", "compute(|i| x[i, 0])")
        },
        body("single brackets around one index", "compute(|i| eps + n[i] as f32)"),
        body("an index in brackets of its own", "compute(|i| x[i][0])"),
        body("a misspelt function", "compute(|i| expp(x[[i, 0]]))"),
        body("a misspelt method", "compute(|i| x[[i, 0]].tanhh())"),
        body("a misspelt reduction", "compute(|i| summ(0..K, |k| x[[i, k]]))"),
        body("a function of another library", "compute(|i| softmax(x))"),
        body("the logarithm by another name", "compute(|i| log(x[[i, 0]]))"),
        body("a function of the crate", "compute(|i| scaled_by_two(x[[i, 0]]))"),
        body("a method of a tensor", "compute(|i| x.len() as f32)"),
        body("a reduction as a method", "compute(|i| x.sum())"),
        body("a function of a whole tensor", "compute(|i| exp(x))"),
        body("a misspelt tensor", "let scaled = compute(|i| x[[i, 0]]);\ncompute(|i| scald[[i]])"),
        body("a misspelt name", "compute(|i| x[[i, 0]] * epss)"),
        body("a misspelt dimension", "compute(|i| sum(0..KK, |k| x[[i, k]]))"),
        body("a dimension that is not declared", "compute(|i| sum(0..Q, |k| x[[i, k]]))"),
        body("too few indices", "compute(|i| x[[i]])"),
    ]
}

fn indices() -> Vec<Case> {
    vec![
        body("an index that may be out of bounds", "compute(|i| sum(0..K, |k| x[[i, k + 1]]))"),
        body("an index from data", "compute(|i| x[[n[[i]], 0]])"),
        body(
            "a choice of indices of which one may be out of bounds",
            "compute(|i| x[[if i == 1 { 0 } else { i - 1 }, 0]])",
        ),
        body(
            "a difference of floats that is never negative",
            "compute(|i| x[[i, 0]].abs_diff(1.0))",
        ),
        body("a float as an index", "compute(|i| x[[i, 1.0]])"),
        body("a number where a range belongs", "compute(|i| sum(K, |k| x[[i, k]]))"),
        body("a reduction without a closure", "compute(|i| sum(0..K, x[[i, 0]]))"),
        body("a closure with an axis too many", "compute(|i| sum(0..K, |k, l| x[[i, k]]))"),
        body("axes of another rank", "compute(|i, j| x[[i, j]])"),
        body("a result that is no tensor", "x[[0, 0]]"),
        body("a parameter as the result", "n"),
        body(
            "two results where one is declared",
            "(compute(|i| x[[i, 0]]), compute(|i| x[[i, 1]]))",
        ),
        body("a semicolon after the result", "compute(|i| x[[i, 0]]);"),
        body("`return`", "return compute(|i| x[[i, 0]]);"),
        body("an integer where a float belongs", "compute(|i| x[[i, 0]] * 2)"),
        body("two element types without `as`", "compute(|i| x[[i, 0]] * n[[i]])"),
        body("an index as a float", "compute(|i| x[[i, 0]] * i)"),
        body("bits of an index", "compute(|i| x[[i, 0]] * (i & 3) as f32)"),
        body(
            "`&` between conditions",
            "compute(|i| if (i > 0) & (eps > 0.0) { 1.0 } else { 0.0 })",
        ),
        body("an element type of another language", "compute(|i| n[[i]] as float)"),
        body("a misspelt constant", "compute(|i| f32::INF)"),
        body("`if` without `else`", "compute(|i| if i > 0 { x[[i, 0]] })"),
        body("a loop", "compute(|i| { for k in 0..K { } 0.0 })"),
        body(
            "a tensor that reads itself",
            "let h = compute(|i| h.get([i - 1]).unwrap_or(0.0) + x[[i, 0]]);\nh",
        ),
        body(
            "a scan that starts at an axis",
            "compute(|i| scan(i..K, 0.0, |h, k| 0.5 * h + x[[i, k]]))",
        ),
        body(
            "a reduction of a scan's state",
            "compute(|i| scan(0..K, 0.0, |h, k| sum(0..K, |l| h * x[[i, l]])))",
        ),
        body("a mutable variable", "let mut total = 0.0;\ncompute(|i| total)"),
        body("`match`", "compute(|i| match i { 0 => 0.0, _ => x[[i, 0]] })"),
        body("`?`", "compute(|i| x.get([i, 0])?)"),
        body("`get` without a value for elsewhere", "compute(|i| x.get([i, 9]))"),
        body("a reference", "compute(|i| &x[[i, 0]])"),
        body("a string", "compute(|i| \"zero\")"),
        body("a macro", "compute(|i| { println!(\"{i}\"); 0.0 })"),
        body("a tensor inside of another", "compute(|i| compute(|j| x[[j, 0]]))"),
    ]
}

/// Mistakes in the axes of a definition.
fn axes() -> Vec<Case> {
    vec![
        item(
            "axes in another order than the result",
            "compute(|j, i| sum(0..K, |k| x[[i, k]] * w[[j, k]]))",
            "#[autotune(dims(M = 1..=64, N = 16, K = 8))]\n\
             pub fn f(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {\n    \
             compute(|j, i| sum(0..K, |k| x[[i, k]] * w[[j, k]]))\n}",
        ),
        item(
            "an axis whose extent is not known",
            "let t = compute(|i, j| x[[i, 0]]);",
            "#[autotune(dims(M = 1..=64))]\n\
             pub fn f(x: Tensor<f32, M, 8>) -> Tensor<f32, M> {\n    \
             let t = compute(|i, j| x[[i, 0]]);\n    compute(|i| t[[i, 0]])\n}",
        ),
    ]
}

fn attributes() -> Vec<Case> {
    let dims = |rest: &str| format!("#[autotune(dims(M = 1..=64, K = 8){rest})]");
    vec![
        attribute("no dimensions", "#[autotune(dims(M = 1..=64))]"),
        item(
            "no arguments at all",
            "#[autotune]",
            "#[autotune]\npub fn f(x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|i| x[[i]]) }",
        ),
        attribute("a misspelt option", &dims(", bucket(M = [16, 64])")),
        attribute("an option that does not exist", &dims(", unroll = 4")),
        attribute("a range without its end", "#[autotune(dims(M = 1..64, K = 8))]"),
        attribute("a range from 0", "#[autotune(dims(M = 0..=64, K = 8))]"),
        attribute("a range from the larger end", "#[autotune(dims(M = 64..=1, K = 8))]"),
        attribute("a range without an end", "#[autotune(dims(M = 1.., K = 8))]"),
        attribute("a float as an extent", "#[autotune(dims(M = 1..=64, K = 8.0))]"),
        attribute(
            "a dimension that is computed at launch",
            "#[autotune(dims(M = 1..=64, K = M * 2))]",
        ),
        attribute("a dimension declared twice", "#[autotune(dims(M = 1..=64, K = 8, K = 9))]"),
        attribute("a dimension that nothing uses", "#[autotune(dims(M = 1..=64, K = 8, Z = 4))]"),
        attribute("`:` for `=`", "#[autotune(dims(M: 1..=64, K = 8))]"),
        attribute("no parentheses", "#[autotune(dims = 64)]"),
        attribute("buckets in another order", &dims(", buckets(M = [64, 16])")),
        attribute("a bucket beyond the range", &dims(", buckets(M = [16, 128])")),
        attribute("buckets of a fixed dimension", &dims(", buckets(K = [4, 8])")),
        attribute("buckets of a misspelt dimension", &dims(", buckets(MM = [16, 64])")),
        attribute("one bucket without brackets", &dims(", buckets(M = 16)")),
        attribute("no type to accumulate in", &dims(", accum = f99")),
        attribute("a cold operand that does not exist", &dims(", cold(keys)")),
        attribute("a negative tolerance", &dims(", tol(rel = -1)")),
        attribute("a misspelt tolerance", &dims(", tol(relative = 1e-3)")),
        attribute("an option given twice", &dims(", accum = f32, accum = f64")),
        Case {
            mistake: "a missing `use tvmtune_runtime::autotune;`",
            written: "#[autotune(dims(M = 4))]".to_owned(),
            source: "#[autotune(dims(M = 4))]\n\
                     pub fn f(x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|i| x[[i]]) }\n"
                .to_owned(),
            stage: Stage::Names,
        },
        Case {
            stage: Stage::Names,
            ..item(
                "a function without `self` in an `impl`",
                "pub fn f(x: Tensor<f32, M>) -> Tensor<f32, M>",
                "pub struct Layer;\n\nimpl Layer {\n    #[autotune(dims(M = 1..=64))]\n    \
                 pub fn f(x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|i| x[[i]]) }\n}",
            )
        },
        Case {
            stage: Stage::Names,
            ..item(
                "two programs of one name in one module",
                "pub fn f(x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|i| x[[i]]) }",
                "#[autotune(dims(M = 4))]\n\
                 pub fn f(x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|i| x[[i]]) }\n\n\
                 #[autotune(dims(M = 5))]\n\
                 pub fn f(x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|i| x[[i]]) }",
            )
        },
        item("no function", "pub struct Linear;", "#[autotune(dims(M = 4))]\npub struct Linear;"),
        item(
            "dimensions whose fields have one name",
            "dims(M = 1..=8, m = 1..=4)",
            "#[autotune(dims(M = 1..=8, m = 1..=4))]\n\
             pub fn f(x: Tensor<f32, M, m>) -> Tensor<f32, M, m> { compute(|i, j| x[[i, j]]) }",
        ),
    ]
}

/// Hand-written kernels.
fn templates() -> Vec<Case> {
    let dims = |rest: &str| format!("#[autotune(dims(M = 1..=64, K = 8), {rest})]");
    let with_file = |rest: &str| dims(&format!("template = \"{KERNELS}\", {rest}"));
    vec![
        attribute("a kernel template that does not exist", &dims("template = \"none.cu\"")),
        attribute("a kernel template outside of the crate", &dims("template = \"../f.cu\"")),
        attribute("knobs without a kernel template", &dims("knobs(BLOCK in [64, 128])")),
        attribute("knobs with `=`", &dims("knobs(BLOCK = [64, 128])")),
        attribute("a header that does not exist", &dims("params(\"f.h\", f_params)")),
        attribute(
            "a knob that nothing reads",
            &with_file(
                "knobs(BLOCK in [64, 128], ITEM in [1, 2]), kernels(f(grid = 1, block = BLOCK))",
            ),
        ),
        attribute(
            "a constraint that the default does not satisfy",
            &with_file(
                "knobs(BLOCK in [64, 128]), constraints(BLOCK > 64), kernels(f(grid = 1, block = BLOCK))",
            ),
        ),
        attribute(
            "a constraint that no values satisfy",
            &with_file(
                "knobs(BLOCK in [64, 128]), constraints(BLOCK < 64), kernels(f(grid = 1, block = BLOCK))",
            ),
        ),
        attribute(
            "a kernel that the file lacks",
            &with_file("knobs(BLOCK in [64]), kernels(g(grid = 1, block = BLOCK))"),
        ),
        attribute(
            "a grid of four dimensions",
            &with_file("knobs(BLOCK in [64]), kernels(f(grid = (M, 1, 1, 1), block = BLOCK))"),
        ),
        attribute(
            "a block of too many threads",
            &with_file("knobs(BLOCK in [64]), kernels(f(grid = M, block = (BLOCK, 32)))"),
        ),
    ]
}

/// Constants that can't be read.
fn constants() -> Vec<Case> {
    vec![
        attribute("a constant of another crate", "#[autotune(dims(M = 1..=64, K = HIDDEN))]"),
        constant("a constant by a function", "const HIDDEN: usize = usize::pow(2, 10);"),
        constant("a constant that is a float", "const HIDDEN: f32 = 1024.0;"),
        constant("a constant that is negative", "const HIDDEN: i32 = 8 - 9;"),
        constant(
            "constants of one name",
            "#[cfg(debug_assertions)]\nconst HIDDEN: usize = 8;\n\
             #[cfg(not(debug_assertions))]\nconst HIDDEN: usize = 16;",
        ),
        Case {
            stage: Stage::Types,
            ..constant(
                "a constant that a macro hides",
                "use sizes::*;\nmod sizes {\npub const HIDDEN: usize = 8;\n}\n\
                 macro_rules! hide {\n() => { const HIDDEN: usize = 9; }\n}\nhide!();",
            )
        },
    ]
}

/// A program with weights of these types; the calls below it get no error.
fn types(mistake: &'static str, lists: &str, body: &str, written: &str) -> Case {
    let source = format!(
        "#[autotune(dims(M = 1..=64, K = 8), {lists})]\n\
         pub fn f(x: Tensor<f32, M, K>, w: Weight<W, K>) -> Tensor<f32, M> {{\n    {body}\n}}\n\n\
         pub fn caller(x: &[f32], w: &[i8], y: &mut [f32]) {{\n    \
         f(&Cpu::new(), x, w, y).unwrap();\n}}"
    );
    item(mistake, written, &source)
}

fn lists() -> Vec<Case> {
    let list = |mistake, list: &str| {
        types(mistake, list, "compute(|i| sum(0..K, |k| x[[i, k]] * w[[k]] as f32))", list)
    };
    let body = |mistake, body: &str| types(mistake, "types(W in [f32, bf16, i8])", body, body);
    let call = |mistake, call: &str| Case {
        mistake,
        written: call.to_owned(),
        stage: Stage::Types,
        source: format!(
            "use tvmtune_runtime::{{Cpu, autotune}};\n\n\
             #[autotune(dims(M = 1..=64, K = 8), types(W in [f32, i8]))]\n\
             pub fn f(x: Tensor<f32, M, K>, w: Weight<W, K>) -> Tensor<f32, M> {{\n    \
             compute(|i| sum(0..K, |k| x[[i, k]] * w[[k]] as f32))\n}}\n\n\
             pub fn caller(x: &[f32], y: &mut [f32]) {{\n    {call}\n}}\n"
        ),
    };
    vec![
        list("a misspelt type in a list", "types(W in [f32, bf61, i8])"),
        list("`=` for `in`", "types(W = [f32, i8])"),
        list("one type without brackets", "types(W in f32)"),
        list("an empty list", "types(W in [])"),
        list("a type parameter that nothing has", "types(W in [f32, i8], A in [f32])"),
        body("a mistake for each type of a list", "compute(|i| expp(x[[i, 0]]))"),
        body("a mistake for one type of a list", "compute(|i| exp(w[[0]]) * x[[i, 0]])"),
        call(
            "an argument of a type that is not listed",
            "let _ = f(&Cpu::new(), x, &[0.0_f64; 8], y);",
        ),
    ]
}

fn signatures() -> Vec<Case> {
    let one = "compute(|i| x[[i]])";
    vec![
        signature("no result", "pub fn f(x: Tensor<f32, M>)", one),
        signature("a weight as the result", "pub fn f(x: Tensor<f32, M>) -> Weight<f32, M>", one),
        signature(
            "a tuple of another length",
            "pub fn f(x: Tensor<f32, M>) -> (Tensor<f32, M>, Tensor<f32, M>)",
            one,
        ),
        signature("a misspelt `Tensor`", "pub fn f(x: Tenser<f32, M>) -> Tensor<f32, M>", one),
        signature("a Rust type", "pub fn f(x: Vec<f32>) -> Tensor<f32, 4>", "compute(|i| 0.0)")
            .in_dims(""),
        signature("a misspelt element type", "pub fn f(x: Tensor<f23, M>) -> Tensor<f32, M>", one),
        signature(
            "a type of another library",
            "pub fn f(x: Tensor<float16, M>) -> Tensor<f32, M>",
            one,
        ),
        signature(
            "an unsigned element where a signed one is declared",
            "pub fn f(x: Tensor<u32, M>) -> Tensor<i64, M>",
            one,
        ),
        signature("no element type", "pub fn f(x: Tensor<M>) -> Tensor<f32, M>", one),
        signature("a reference", "pub fn f(x: &Tensor<f32, M>) -> Tensor<f32, M>", one),
        signature("`usize`", "pub fn f(x: Tensor<f32, M>, n: usize) -> Tensor<f32, M>", one),
        signature(
            "a scalar of a small type",
            "pub fn f(x: Tensor<f32, M>, by: f16) -> Tensor<f32, M>",
            one,
        ),
        signature("a generic function", "pub fn f<T>(x: Tensor<f32, M>) -> Tensor<f32, M>", one),
        signature("`async`", "pub async fn f(x: Tensor<f32, M>) -> Tensor<f32, M>", one),
        signature("`unsafe`", "pub unsafe fn f(x: Tensor<f32, M>) -> Tensor<f32, M>", one),
        signature("`const`", "pub const fn f(x: Tensor<f32, M>) -> Tensor<f32, M>", one),
        signature(
            "a parameter with a pattern",
            "pub fn f(mut x: Tensor<f32, M>) -> Tensor<f32, M>",
            one,
        ),
        signature(
            "two parameters of one name",
            "pub fn f(x: Tensor<f32, M>, x: f32) -> Tensor<f32, M>",
            one,
        ),
        item(
            "a method",
            "pub fn f(&self, x: Tensor<f32, M>) -> Tensor<f32, M>",
            "pub struct Layer;\n\nimpl Layer {\n    #[autotune(dims(M = 1..=64))]\n    \
             pub fn f(&self, x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|i| x[[i]]) }\n}\n\n\
             pub fn caller(it: &Layer, x: &[f32], y: &mut [f32]) { it.f(&Cpu::new(), x, y).unwrap(); }",
        ),
        item(
            "a dynamic dimension that no length tells",
            "pub fn f(x: Tensor<f32, { M * 2 }>) -> Tensor<f32, M>",
            "#[autotune(dims(M = 1..=64))]\n\
             pub fn f(x: Tensor<f32, { M * 2 }>) -> Tensor<f32, M> { compute(|i| x[[i]]) }",
        ),
    ]
}

impl Case {
    /// The same with these dimensions instead of `M`.
    fn in_dims(self, dims: &str) -> Self {
        Case { source: self.source.replace("M = 1..=64", dims), ..self }
    }
}

/// A call of `linear` with its arguments.
fn call(mistake: &'static str, call: &str) -> Case {
    let source = format!(
        "use tvmtune_runtime::{{Cpu, Weight, autotune}};\n\n\
         #[autotune(dims(M = 1..=64, K = 8))]\n\
         pub fn scale(x: Tensor<f32, M, K>, w: Weight<f32, K>, by: f32) -> Tensor<f32, M, K> {{\n    \
         compute(|i, k| x[[i, k]] * w[[k]] * by)\n}}\n\n\
         pub fn caller(cpu: &Cpu, x: Vec<f32>, w: Weight<f32>, mut y: Vec<f32>) {{\n    {call}\n    \
         drop((cpu, x, w, &mut y));\n}}\n"
    );
    Case { mistake, written: call.to_owned(), source, stage: Stage::Types }
}

fn in_place() -> Vec<Case> {
    let case = |mistake, body: &str| {
        item(
            mistake,
            body,
            &format!(
                "#[autotune(dims(M = 1..=64, K = 8))]\n\
                 pub fn f(x: Tensor<f32, M, K>, y: InOut<f32, M, K>) {{\n    {body}\n}}"
            ),
        )
    };
    vec![
        case("nothing assigned", "let h = compute(|i, k| x[[i, k]] + y[[i, k]]);"),
        case("a value instead of an assignment", "compute(|i, k| x[[i, k]] + y[[i, k]])"),
        case("an operator", "y += compute(|i, k| x[[i, k]]);"),
        case(
            "an assignment to an input",
            "x = compute(|i, k| x[[i, k]] + 1.0);\ny = compute(|i, k| x[[i, k]] + y[[i, k]]);",
        ),
        case(
            "a second assignment",
            "y = compute(|i, k| x[[i, k]] + y[[i, k]]);\ny = compute(|i, k| y[[i, k]] * 0.5);",
        ),
        case("no need for the old elements", "y = compute(|i, k| x[[i, k]]);"),
    ]
}

fn calls() -> Vec<Case> {
    vec![
        call(
            "an argument of another element type",
            "let _ = scale(cpu, &vec![0.0_f64; 8], &w, 1.0, &mut y);",
        ),
        call(
            "a weight of another element type",
            "let _ = scale(cpu, &x, &[0_i8; 8], 1.0, &mut y);",
        ),
        call(
            "a result of another element type",
            "let _ = scale(cpu, &x, &w, 1.0, &mut [0_i32; 8]);",
        ),
        call("a result that is not `mut`", "let _ = scale(cpu, &x, &w, 1.0, &y);"),
        call("a scalar left out", "let _ = scale(cpu, &x, &w, &mut y);"),
        call("no queue", "let _ = scale(&x, &w, 1.0, &mut y);"),
        call("an argument by value", "let _ = scale(cpu, x.clone(), &w, 1.0, &mut y);"),
        call("a scalar of another type", "let _ = scale(cpu, &x, &w, 1, &mut y);"),
        call("a field that `Dims` lacks", "let _ = scale::plan(scale::Dims { n: 1 });"),
        call("a fixed dimension in `Dims`", "let _ = scale::plan(scale::Dims { m: 1, k: 8 });"),
    ]
}
