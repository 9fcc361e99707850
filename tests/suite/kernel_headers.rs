//! Structs and constants of C headers that hand-written kernels use: the kinds that are taken, and those
//! that are refused, by the error that rustc prints.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tvmtune_build::op::Op;
use tvmtune_plan::source::{self, Cfg};
use tvmtune_tests::sandbox::{Sandbox, said};

use crate::templates::libclang;

const SCRIPT: &str = env!("CARGO_BIN_EXE_script");

/// A function whose kernels take the struct `params` of a header; `{header}` is its name.
const FUNCTION: &str = r#"
use tvmtune_runtime::autotune;

#[autotune(
    dims(N = 1..=1000),
    template = "kernels/f.cu",
    params("kernels/{header}.h", params),
    knobs(BLOCK in [{values}]),
    kernels(f(grid = N / BLOCK + 1, block = BLOCK))
)]
pub fn f(x: Tensor<f32, N>, lo: f32, mode: u32) -> Tensor<f32, N> {
    compute(|n| x[[n]] + lo * mode as f32)
}
"#;

/// A package with a module for each header, and the bindings that a build makes of them.
fn package(headers: &[(&str, String)], values: &str, libclang: &Path) -> Sandbox {
    let module = |it: &(&str, String)| format!("pub mod {};\n", it.0);
    let modules: String = headers.iter().map(module).collect();
    let sandbox = Sandbox::new("sandbox", &modules).without_script();
    sandbox.write("kernels/f.cu", "extern \"C\" __global__ void f() { int n = BLOCK; }\n");
    for (name, text) in headers {
        let function = FUNCTION.replace("{header}", name).replace("{values}", values);
        sandbox.write(&format!("src/{name}.rs"), &function);
        sandbox.write(&format!("kernels/{name}.h"), text);
    }
    let named = [("LIBCLANG_PATH", libclang.to_str().expect("Unicode")), ("TVMTUNE", "use")];
    let built = sandbox.script(SCRIPT, "out", &named);
    assert_eq!(built.code, Some(0), "{built:?}");
    sandbox
}

/// The ops of a package, by the names of their modules.
fn ops(sandbox: &Sandbox) -> Vec<Op> {
    let scan = source::scan(&sandbox.package(), &Cfg::of_host());
    scan.functions.into_iter().flat_map(Op::all).flatten().collect()
}

#[test]
fn fields_and_values_may_have_the_names_of_a_header() {
    let Some(libclang) = libclang() else { return };
    let headers = [
        ("plain", "struct params { unsigned n; float lo; unsigned mode; };\n"),
        (
            "of_enum",
            "enum kind { FEW, MANY };\nstruct params { unsigned n; float lo; enum kind mode; };\n",
        ),
        (
            "of_alias",
            "typedef float real;\ntypedef real number;\ntypedef enum { FEW } kind;\n\
             struct params { unsigned n; number lo; kind mode; };\n",
        ),
        (
            "of_class",
            "enum class kind : unsigned { FEW };\nnamespace of { enum more { MUCH = 7 }; }\n\
             struct params { unsigned n; float lo; kind mode; };\n",
        ),
    ];
    let constants = "static constexpr int OF_CPP = 32 * 2;\n#define DEFINED 96\nenum { PLAIN = 128 };\n\
                     enum named { NAMED = 160, OTHER };\ntypedef enum { ALIAS = 192 } alias;\n\
                     enum class scoped : int { SCOPED = 224 };\n";
    let headers = headers.map(|(name, text)| (name, format!("{constants}{text}")));
    let values = "PLAIN, OF_CPP, DEFINED, NAMED, ALIAS, SCOPED, 2 * PLAIN";
    let sandbox = package(&headers, values, &libclang);
    let ops = ops(&sandbox);
    assert_eq!(ops.len(), headers.len(), "{:?}", errors(&sandbox));
    for op in ops {
        let knob = "\nknob BLOCK in [128, 64, 96, 160, 192, 224, 256]\n";
        assert!(op.text.contains(knob), "{}", op.text);
        let fields =
            "params params of 12 bytes: n = d0 in 4 at 0, lo = s0 in 4 at 4, mode = s1 in 4 at 8\n";
        assert!(op.text.contains(fields), "{}", op.text);
    }
    let bindings =
        |name: &str| sandbox.package().join(format!("tvmtune/bindings/kernels-{name}.h.params.rs"));
    let text = std::fs::read_to_string(bindings("plain")).unwrap();
    assert!(!text.contains("FEW") && text.contains("OTHER"), "an enum is taken as a whole: {text}");
}

/// Headers by the names of their modules, and the reasons why they are refused.
const REFUSED: &[(&str, &str, &str)] = &[
    ("pointer", "struct params { unsigned n; float* lo; };", "its field `lo` is a pointer"),
    ("array", "struct params { unsigned n; float lo[2]; };", "its field `lo` is an array"),
    ("bits", "struct params { unsigned n : 20; float lo; };", "it has a bit field"),
    (
        "nested",
        "struct inner { int a; };\nstruct params { unsigned n; inner lo; };",
        "its field `lo` is no number, but `inner`",
    ),
    (
        "unnamed",
        "struct params { unsigned n; struct { float lo; }; };",
        "is no number, but `params__bindgen_ty_1`",
    ),
    ("either", "union params { unsigned n; float lo; };", "it is a union"),
    (
        "packed",
        "struct __attribute__((packed)) params { char lo; unsigned n; };",
        "its fields are packed",
    ),
    ("dynamic", "struct params { virtual void run(); unsigned n; };", "it has virtual functions"),
    (
        "derived",
        "struct base { unsigned n; };\nstruct params : base { float lo; };",
        "it has a base class",
    ),
    ("declared", "struct params;", "the header declares it and does not define it"),
    ("empty", "struct params {};", "it has no fields"),
    ("long_double", "struct params { unsigned n; long double lo; };", "is no number, but"),
    ("other", "struct param { unsigned n; };", "the header has no struct `params` with fields"),
    (
        "stranger",
        "struct params { unsigned n; float hi; };",
        "field `hi` of `params` is no scalar of the function",
    ),
    (
        "narrow",
        "struct params { unsigned short n; float lo; };",
        "field `n` of `params` is a dimension: give it an integer type of 4 or 8 bytes",
    ),
    (
        "mistaken",
        "struct params { unsigned n; flaot lo; };",
        "`kernels/mistaken.h` has no bindings: ",
    ),
    (
        "wide",
        "struct params { unsigned n; double lo; };",
        "field `lo` of `params` has 8 bytes and not the type of `lo: f32`",
    ),
];

#[test]
fn structs_that_a_launch_cannot_fill_are_errors_where_they_are_named() {
    let Some(libclang) = libclang() else { return };
    let headers: Vec<(&str, String)> =
        REFUSED.iter().map(|(name, text, _)| (*name, format!("{text}\n"))).collect();
    let sandbox = package(&headers, "64", &libclang);
    let found = ops(&sandbox);
    assert!(found.is_empty(), "{:?}", found.iter().map(|it| &it.text).collect::<Vec<_>>());
    let errors = errors(&sandbox);
    for (name, _, expected) in REFUSED.iter().copied() {
        let file = PathBuf::from("src").join(format!("{name}.rs"));
        let of_file: Vec<_> = errors.iter().filter(|it| it.file == file).collect();
        let [error] = &of_file[..] else { panic!("{name}: one error, and not {of_file:?}") };
        assert!(error.message.contains(expected), "{name}: {error:?}");
        let place = if name == "mistaken" { "\"kernels/mistaken.h\"" } else { "params" };
        assert_eq!(error.at, place, "{name}: {error:?}");
        assert_eq!(error.message.contains("flaot"), name == "mistaken", "with the line of clang");
    }
}

/// An error of rustc.
#[derive(Debug)]
struct Error {
    file: PathBuf,
    message: String,
    /// The text that it is about.
    at: String,
}

/// The errors of a package.
fn errors(sandbox: &Sandbox) -> Vec<Error> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sandbox");
    let mut cargo = sandbox.cargo("", &target);
    cargo.env("TVMTUNE_PLAN_DIR", sandbox.plan_dir("out"));
    let output = said(cargo.args(["check", "--lib", "--message-format=json"]));
    let messages = output.out.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
    let error = |it: Value| {
        let message = &it["message"];
        let span = message["spans"].as_array()?.iter().find(|it| it["is_primary"] == true)?;
        let text = span["text"].as_array()?.first()?;
        let place = |name: &str| usize::try_from(span[name].as_u64()?).ok()?.checked_sub(1);
        let line: Vec<char> = text["text"].as_str()?.chars().collect();
        Some(Error {
            file: span["file_name"].as_str()?.into(),
            message: message["message"].as_str()?.to_owned(),
            at: line.get(place("column_start")?..place("column_end")?)?.iter().collect(),
        })
    };
    messages.filter(|it| it["message"]["level"] == "error").filter_map(error).collect()
}
