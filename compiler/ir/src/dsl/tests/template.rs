//! Kernel templates: what they are in canonical text, what their identity depends on, and mistakes.

use super::{dag, errors};
use crate::dag::{Dag, print};
use crate::workload::{Strength, class, id};

/// A program with these options, whose template is this text.
fn with(options: &str, text: &str) -> String {
    format!(
        "#[autotune(dims(N = 1..=1000, BINS = 256), template = \"kernels/h.cu\" ({text:?}), {options})]
         fn h(x: Tensor<u8, N>) -> Tensor<i32, BINS> {{
             compute(|b| sum(0..N, |n| if x[[n]] as i32 == b as i32 {{ 1 }} else {{ 0 }}))
         }}"
    )
}

const TEXT: &str = "// BLOCKS\nextern \"C\" __global__ void h() {\n  int n = ITEMS * BINS;\n}\n";
const OPTIONS: &str =
    "knobs(BLOCK in [256, 64], ITEMS in 1..=3), constraints(BLOCK * ITEMS <= 512),
    kernels(h(grid = (N + BLOCK - 1) / BLOCK, block = BLOCK, shared = BINS * 4))";

/// The errors of a program with these options.
fn mistakes(options: &str) -> Vec<String> {
    let source = with(options, TEXT);
    let error = super::program(&source).err();
    let text = error.map_or("nothing is wrong".to_owned(), |it| errors::render(&source, it));
    text.lines().map(|it| it.split_once(" | ").map_or(it, |it| it.1).to_owned()).collect()
}

#[test]
fn a_template_is_a_part_of_the_canonical_text_and_is_read_back() {
    let dag = dag(&with(OPTIONS, TEXT));
    let text = print::canonical(&dag);
    let (_, template) = text.split_once("return t1\n").unwrap();
    insta::assert_snapshot!(template, @r#"
    template kernels/h.cu
    macro BINS = 256
    knob BLOCK in [256, 64]
    knob ITEMS in [1, 2, 3]
    constraint le(mul(k0, k1), 512)
    launch h: grid div(sub(add(d0, k0), 1), k0), block k0, shared mul(256, 4)
    source
    |// BLOCKS
    |extern "C" __global__ void h() {
    |  int n = ITEMS * BINS;
    |}
    "#);
    let read: Dag = text.parse().unwrap();
    assert_eq!(read.kernel_template, dag.kernel_template);
    assert_eq!(id(&read), id(&dag));
}

/// A function whose results are defined in Rust.
fn sorted(options: &str, rest: &str) -> String {
    format!(
        "#[autotune(dims(M = 1..=9, N = 64), template = \"sort.cu\" (\"void sort() {{}}\\n\"),
            kernels(sort(grid = M, block = N)), {options})]
         fn sort(x: Tensor<f32, M, N>, scale: f32{rest}"
    )
}

const SORTED: &str = "reference(\"sort.rs\", by_rows) (\"// Sorts rows.\\nfn by_rows() {}\\n\")";
const RESULTS: &str = ") -> (Tensor<f32, M, N>, Tensor<f32, M, N>, Tensor<bool, M>) {}";

#[test]
fn a_function_of_rust_takes_the_place_of_the_body() {
    let dag = dag(&sorted(SORTED, RESULTS));
    let text = print::canonical(&dag);
    insta::assert_snapshot!(text, @"
    tvmtune dag v1
    dim d0 in 1..=9
    scalar s0: f32
    input t0: f32[d0, 64]
    t1: f32[d0, 64] = 0.0_f32
    t2: f32[d0, 64] = 0.0_f32
    t3: bool[d0] = false_bool
    return t1, t2, t3
    template sort.cu
    launch sort: grid d0, block 64, shared 0
    source
    |void sort() {}
    reference by_rows of sort.rs
    |// Sorts rows.
    |fn by_rows() {}
    ");
    let read: Dag = text.parse().unwrap();
    assert_eq!(read.kernel_template, dag.kernel_template);
    let reference = dag.reference().unwrap();
    assert_eq!(
        reference.declaration(&dag),
        "pub fn by_rows(x: &[f32], out0: &mut [f32], out1: &mut [f32], out2: &mut [bool], scale: f32, m: usize)"
    );
    let changed = sorted(&SORTED.replace("Sorts", "Orders"), RESULTS);
    assert_ne!(id(&super::dag(&changed)), id(&dag));
}

#[test]
fn mistakes_in_naming_a_function_of_rust() {
    let said = |options: &str, rest: &str| {
        let source = sorted(options, rest);
        let error = super::program(&source).err();
        error.map_or("nothing is wrong".to_owned(), |it| errors::render(&source, it))
    };
    let all = [
        said(SORTED, &RESULTS.replace("{}", "{ x }")),
        said(&SORTED.replace("fn by_rows", "fn by_row"), RESULTS),
        said(&SORTED.replace("// Sorts", "//! Sorts"), RESULTS),
        said(SORTED, ", y: InOut<f32, M, N>) {}"),
        said("reference(\"sort.rs\")", RESULTS),
        said("reference(by_rows)", RESULTS),
        said("reference = by_rows", RESULTS),
        said("weight = 2", RESULTS),
    ];
    insta::assert_snapshot!(all.concat(), @r#"
    3 | { x } => `by_rows` defines the results: write `{}` for the body
    2 | by_rows => `sort.rs` has no function `by_rows`: write `pub fn by_rows(..)` there
    2 | "sort.rs" => `sort.rs` is included in a module, which line 1 does not begin: write `//` for `//!`, and leave out `#![..]`
    2 | by_rows => the results of `by_rows` have memory of their own: declare `y` as `Tensor<..>`
    1 |  => unexpected end of input, expected the name of a function, as in `reference("kernels/sort.rs", sort)`
    2 | by_rows => expected the name of a file, as in `reference("kernels/sort.rs", sort)`
    2 | = => expected parentheses, as in `reference("kernels/sort.rs", sort)`
    3 | {} => nothing defines the results: write the definition, or add `reference("kernels/sort.rs", sort)`
    "#);
    let alone = "#[autotune(dims(N = 64), reference(\"sort.rs\", f) (\"fn f() {}\\n\"))]
        fn sort(x: Tensor<f32, N>) -> Tensor<f32, N> {}";
    let error = super::program(alone).unwrap_err();
    insta::assert_snapshot!(errors::render(alone, error), @r#"1 | reference => `reference(..)` belongs to a kernel template: add `template = "kernels/sort.cu"`"#);
}

#[test]
fn text_knobs_and_launches_are_identity_and_versions_of_a_file_are_one_class() {
    let one = dag(&with(OPTIONS, TEXT));
    let others = [
        with(OPTIONS, &TEXT.replace("int n", "int m")),
        with(&OPTIONS.replace("[256, 64]", "[64, 256]"), TEXT),
        with(&OPTIONS.replace("<= 512", "<= 1024"), TEXT),
        with(&OPTIONS.replace("BINS * 4", "BINS * 8"), TEXT),
    ];
    for other in others.map(|it| dag(&it)) {
        assert_ne!(id(&one), id(&other));
        for strength in Strength::ALL {
            assert_eq!(class(&one, strength), class(&other, strength));
        }
    }
    let source = with(OPTIONS, TEXT);
    let (start, end) = (source.find("template").unwrap(), source.find(")]\n").unwrap());
    let plain =
        dag(&format!("{}{}", source[..start].trim_end().trim_end_matches(','), &source[end..]));
    assert_eq!(plain.kernel_template, None);
    for strength in Strength::ALL {
        assert_ne!(class(&one, strength), class(&plain, strength));
    }
}

#[test]
fn values_that_the_constraints_refuse_are_not_allowed_and_the_nearest_ones_are_found() {
    let template = dag(&with(OPTIONS, TEXT)).kernel_template.unwrap();
    assert_eq!(template.default_values(), [256, 1]);
    assert!(template.allows(&[256, 2]) && template.allows(&[64, 3]));
    assert!(!template.allows(&[256, 3]) && !template.allows(&[128, 1]) && !template.allows(&[64]));
    let renamed = OPTIONS.replace("BLOCK in [256, 64]", "BLOCK in [128, 32]");
    let other = dag(&with(&renamed, TEXT)).kernel_template.unwrap();
    assert_eq!(other.nearest(&template, &[256, 2]), [128, 2]);
    assert_eq!(template.nearest(&other, &[128, 3]), [64, 3]);
}

/// The options with a mistake in them, and the errors.
#[track_caller]
fn check(from: &str, to: &str, expected: &[&str]) {
    assert!(OPTIONS.contains(from), "{from}");
    assert_eq!(mistakes(&OPTIONS.replace(from, to)), expected, "{to}");
}

#[test]
fn mistakes_in_names_and_defaults_are_reported_where_they_are() {
    assert_eq!(mistakes(OPTIONS), ["nothing is wrong"]);
    check(
        "ITEMS in",
        "ITEM in",
        &[
            "ITEM => neither `kernels/h.cu` nor a launch reads the knob `ITEM`: use it there, or remove it",
            "ITEMS => `ITEMS` is no dimension and no knob: did you mean `ITEM`?",
        ],
    );
    check(
        "BLOCK in",
        "BLOCKS in",
        &[
            "BLOCKS => neither `kernels/h.cu` nor a launch reads the knob `BLOCKS`: use it there, or remove it",
            "BLOCK => `BLOCK` is no dimension and no knob: did you mean `BLOCKS`?",
            "BLOCK => `BLOCK` is no dimension and no knob: did you mean `BLOCKS`?",
            "BLOCK => `BLOCK` is no dimension and no knob: did you mean `BLOCKS`?",
            "BLOCK => `BLOCK` is no dimension and no knob: did you mean `BLOCKS`?",
        ],
    );
    check(
        "<= 512",
        "<= 128",
        &[
            "BLOCK * ITEMS <= 128 => this does not hold with `BLOCK = 256, ITEMS = 1`, the first value of each knob: these are the default, so list others first, as `BLOCK = 64, ITEMS = 1`, which satisfy all constraints",
        ],
    );
    check("<= 512", "<= 63", &["BLOCK * ITEMS <= 63 => no values of the knobs satisfy this"]);
    check(
        "<= 512",
        "<= 192, BLOCK > 64",
        &["BLOCK * ITEMS <= 192 => no values of the knobs satisfy this and the other constraints"],
    );
    check(
        "block = BLOCK",
        "block = BLOCK * 8",
        &[
            "BLOCK * 8 => a block has 1 to 1024 threads, and this is 2048 with `BLOCK = 256, ITEMS = 1`, the first value of each knob",
        ],
    );
    check(
        "shared = BINS * 4",
        "shared = N * 4",
        &[
            "N => `N` is known at launch only, and this is needed to compile: use knobs and fixed dimensions",
        ],
    );
}

/// Launches in several dimensions.
const GRID: &str = "grid = ((N + BLOCK - 1) / BLOCK, ITEMS), block = (BLOCK, 2, 2)";

#[test]
fn grids_and_blocks_have_up_to_three_numbers() {
    let of_one = "grid = (N + BLOCK - 1) / BLOCK, block = BLOCK";
    let dag = dag(&with(&OPTIONS.replace(of_one, GRID), TEXT));
    let text = print::canonical(&dag);
    let launch = "\nlaunch h: grid (div(sub(add(d0, k0), 1), k0), k1), block (k0, 2, 2), shared mul(256, 4)\n";
    assert!(text.contains(launch), "{text}");
    let read: Dag = text.parse().unwrap();
    assert_eq!(read.kernel_template, dag.kernel_template);
    let launches = dag.kernel_template.as_ref().unwrap().launches(&[64, 3], &dag.facts()).unwrap();
    let blocks = launches[0].grid.each_ref().map(|it| it.eval_dims(&[129]));
    assert_eq!((blocks, launches[0].block), ([3, 3, 1], [64, 2, 2]));
    assert!("launch h: grid (k0), block k0, shared 0".parse::<Dag>().is_err());
}

#[test]
fn numbers_that_no_device_takes_are_reported_where_they_are() {
    let of_one = "grid = (N + BLOCK - 1) / BLOCK, block = BLOCK";
    let check = |to: &str, expected: &str| check(of_one, to, &[expected]);
    let first = "with `BLOCK = 256, ITEMS = 1`, the first value of each knob";
    check(
        "grid = N, block = (BLOCK, 8)",
        &format!("(BLOCK, 8) => a block has 1 to 1024 threads, and this is 2048 {first}"),
    );
    check(
        "grid = N, block = (1, 1, BLOCK)",
        &format!("BLOCK => a block has 1 to 64 threads in z, and this is 256 {first}"),
    );
    check(
        "grid = (BLOCK, N * 100), block = 1",
        &format!(
            "N * 100 => a grid has at most 65535 blocks in y, and this may have more, or no number of \
             them {first}"
        ),
    );
    let several = "expected one to three numbers, as in `grid = (N / 64, HEADS)`";
    check("grid = (1, 2, 3, N), block = BLOCK", &format!("(1, 2, 3, N) => {several}"));
    check("grid = (), block = BLOCK", &format!("() => {several}"));
}

#[test]
fn values_of_knobs_may_be_computed_from_fixed_dimensions() {
    let values = |list: &str| {
        let options = OPTIONS.replace("[256, 64]", list);
        dag(&with(&options, TEXT)).kernel_template.unwrap().knobs[0].values.clone()
    };
    assert_eq!(values("[BINS, BINS / 4, min(BINS, 32)]"), [256, 64, 32]);
    assert_eq!(values("BINS / 128..=4"), [2, 3, 4]);
    check(
        "[256, 64]",
        "[256, N]",
        &[
            "N => `N` is known at launch only, and this is needed to compile: use knobs and fixed dimensions",
        ],
    );
    check(
        "[256, 64]",
        "[256, ITEMS]",
        &["ITEMS => a knob has no value here: relate knobs to one another by `constraints(..)`"],
    );
    check("[256, 64]", "[BINS, 256]", &["[BINS, 256] => value 256 stands twice: remove one"]);
}

#[test]
fn mistakes_in_launches_and_values_are_reported_where_they_are() {
    check(
        "h(grid",
        "g(grid",
        &[
            "g => `kernels/h.cu` has no kernel `g`: write `extern \"C\" __global__ void g(..)` there",
        ],
    );
    check(
        "grid = (N + BLOCK - 1) / BLOCK, ",
        "",
        &["h => a launch needs `grid`: write `h(grid = ..)`"],
    );
    check(
        "1..=3",
        "1..3",
        &[
            "1..3 => expected values in brackets or a range with its end, as in `ITEMS in [256, 128]` or `ITEMS in 1..=8`",
        ],
    );
    check("[256, 64]", "[64, 64]", &["[64, 64] => value 64 stands twice: remove one"]);
    check("[256, 64]", "[]", &["[] => a knob has 1 to 64 values, each from 0 to 1048576"]);
    check(
        "BLOCK * ITEMS <= 512",
        "BLOCK * ITEMS",
        &[
            "BLOCK * ITEMS => expected one comparison, as in `BLOCK * ITEMS <= 4096`; several are separated by commas",
        ],
    );
    check(
        "shared =",
        "smem =",
        &[
            "smem => unknown part `smem` of a launch: write `grid = ..`, `block = ..` or `shared = ..`",
        ],
    );
}

#[test]
fn a_template_needs_a_file_and_launches() {
    let source = "#[autotune(dims(N = 8), knobs(BLOCK in [64]))]
        fn f(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]]) }";
    let error = super::program(source).unwrap_err().to_string();
    let expected = "`knobs(..)` belongs to a kernel template: add `template = \"kernels/f.cu\"`";
    assert_eq!(error, expected);
    let source = source.replace("knobs(BLOCK in [64])", "template = \"f.cu\" (\"f\\n\")");
    let error = super::program(&source).unwrap_err().to_string();
    let expected =
        "a template says how its kernels are launched: add `kernels(f(grid = .., block = ..))`";
    assert_eq!(error, expected);
    let source = source.replace("(\"f\\n\")", "(compile_error!(\"cannot read it\"))");
    assert_eq!(
        super::program(&source).unwrap_err().into_iter().next().unwrap().to_string(),
        "cannot read it"
    );
}

/// A program over scalars `lo: f32` and `k: i64` whose kernels take this struct, by its bindings.
fn with_struct(bindings: &str) -> String {
    format!(
        "#[autotune(dims(N = 1..=1000), template = \"f.cu\" (\"extern f\\n\"), params(\"f.h\", f_params) ({bindings:?}),
            knobs(BLOCK in [64]), constraints(BLOCK <= MOST), kernels(f(grid = N / BLOCK + 1, block = BLOCK)))]
         fn f(x: Tensor<f32, N>, lo: f32, k: i64) -> Tensor<f32, N> {{
             compute(|n| x[[n]] + lo * k as f32)
         }}"
    )
}

fn bindings(fields: &str) -> String {
    format!(
        "// a line\npub const MOST: u32 = 128;\npub const NEGATIVE: i32 = -1;\n#[repr(C)]\n\
         pub struct f_params {{ {fields} }}\npub type MOST_TYPE = u32;\n"
    )
}

#[test]
fn fields_lie_where_c_puts_them_and_have_the_values_of_their_names() {
    let fields = "pub n: ::core::ffi::c_uint, pub lo: f32, pub k: ::core::ffi::c_longlong";
    let text = print::canonical(&dag(&with_struct(&bindings(fields))));
    assert!(text.contains(
        "\nparams f_params of 16 bytes: n = d0 in 4 at 0, lo = s0 in 4 at 4, k = s1 in 8 at 8\n"
    ));
    assert!(text.contains("\nconstraint le(k0, 128)\n"), "{text}");
    let read: Dag = text.parse().unwrap();
    assert_eq!(print::canonical(&read), text);
    let padded = "pub lo: f32, pub k: i64, pub N: u64, pub __bindgen_padding_0: u64";
    let text = print::canonical(&dag(&with_struct(&bindings(padded))));
    assert!(text.contains("\nparams f_params of 32 bytes: lo = s0 in 4 at 0, k = s1 in 8 at 8, N = d0 in 8 at 16\n"), "{text}");
    let aligned = bindings(fields).replace("repr(C)", "repr(C, align(32))");
    assert!(print::canonical(&dag(&with_struct(&aligned))).contains("f_params of 32 bytes"));
}

#[test]
fn structs_that_a_launch_cannot_fill_are_refused() {
    let check = |fields: &str, expected: &str| {
        let error = super::program(&with_struct(&bindings(fields))).unwrap_err();
        let errors: Vec<String> = error.into_iter().map(|it| it.to_string()).collect();
        assert_eq!(errors[0], expected, "{errors:?}");
    };
    let refused = |why: &str| format!("`f_params` cannot be passed by value: {why}");
    check(
        "pub x: *mut f32",
        &refused("its field `x` is a pointer: tensors are parameters of kernels"),
    );
    check(
        "pub lo: [f32; 2]",
        &refused("its field `lo` is an array: give each value its own field"),
    );
    check("pub lo: other", &refused("its field `lo` is no number, but `other`"));
    check("", &refused("it has no fields"));
    check(
        "pub _bitfield_1: __BindgenBitfieldUnit<[u8; 4usize]>",
        &refused("it has a bit field: give each value a field of its own"),
    );
    check(
        "pub hi: f32",
        "field `hi` of `f_params` is no scalar of the function, and no dimension that a launch \
         decides: name it after one, or add one",
    );
    check(
        "pub lo: f64",
        "field `lo` of `f_params` has 8 bytes and not the type of `lo: f32`: give both one type",
    );
    check(
        "pub n: f32",
        "field `n` of `f_params` is a dimension: give it an integer type of 4 or 8 bytes",
    );
    let other = with_struct(&bindings("pub n: u32").replace("f_params", "g_params"));
    let error = super::program(&other).unwrap_err().into_iter().next().unwrap().to_string();
    assert_eq!(error, "the header has no struct `f_params` with fields");
}
