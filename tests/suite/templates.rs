//! Hand-written kernels with knobs: judged by their definition on the emulator, tuned, recorded and
//! replayed like generated ones, with mistakes of their authors reported by line.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tvmtune_build::op::Op;
use tvmtune_plan::source::{self, Cfg};
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tests::sandbox::{Said, Sandbox, said};
use tvmtune_tests::{pip, skip};

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");

/// The files of the example's kernel, and the bindings of its header.
const FILES: [&str; 3] =
    ["kernels/histogram.cu", "kernels/shared_counts.cuh", "kernels/histogram.h"];
const BINDINGS: &str = "tvmtune/bindings/kernels-histogram.h.histogram_params.rs";

/// The example that users are shown.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/custom_kernel")
}

/// The example as a package of its own, with a change of its kernel.
fn sandbox(change: impl Fn(&str) -> String) -> Sandbox {
    let read = |name: &str| fs::read_to_string(example().join(name)).expect("the example is there");
    let source = read("src/counts.rs").replace("N = 1..=1048576", "N = 1..=3000");
    let sandbox = Sandbox::new("sandbox", &source.replace("N = [4096, 1048576]", "N = [3000]"));
    for name in FILES {
        sandbox.write(name, &change(&read(name)));
    }
    sandbox.write(BINDINGS, &read(BINDINGS));
    sandbox
}

/// Runs `cargo tvmtune emulate`.
fn emulate(sandbox: &Sandbox, arguments: &[&str]) -> Option<Said> {
    let nvrtc = nvrtc()?;
    let mut command = sandbox.command(TVMTUNE);
    command.env("TVMTUNE_NVRTC", nvrtc.path()).arg("emulate").args(arguments);
    Some(said(&mut command))
}

fn lines(said: &Said) -> Vec<Value> {
    let lines: Value = serde_json::from_str(&said.out).expect("JSON");
    lines.as_array().expect("a list").clone()
}

#[test]
fn every_allowed_setting_computes_the_definition() {
    let sandbox = sandbox(str::to_owned);
    for extents in ["N=1", "N=63", "N=257", "N=2999", "N=3000"] {
        let Some(said) = emulate(&sandbox, &["--all", "--at", extents, "--json"]) else { return };
        assert_eq!(said.code, Some(0), "{said:?}");
        let lines = lines(&said);
        assert!(lines.len() > 30, "{} settings", lines.len());
        assert!(lines.iter().all(|it| it["error"].is_null()), "{lines:?}");
    }
    let said = emulate(&sandbox, &["--target", "cuda:sm_80"]).expect("there is NVRTC");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("BLOCK = 256, ITEMS = 4, COPIES = 2"), "{}", said.out);
}

/// A change of the kernel, and what is said of it.
#[track_caller]
fn check_bug(from: &str, to: &str, expected: &[&str]) {
    let is_there = |name: &str| fs::read_to_string(example().join(name)).unwrap().contains(from);
    assert!(FILES.into_iter().any(is_there), "{from}");
    let sandbox = sandbox(|text| text.replacen(from, to, 1));
    let Some(said) = emulate(&sandbox, &[]) else { return };
    assert_eq!(said.code, Some(1), "{said:?}");
    for part in expected {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
}

#[test]
fn a_missing_barrier_is_reported_by_file_and_line() {
    check_bug(
        "  __syncthreads();\n  int* mine",
        "  int* mine",
        &["`count`: race: ", "kernels/histogram.cu:21"],
    );
}

#[test]
fn a_race_between_blocks_is_reported_by_file_and_line() {
    check_bug(
        "if (sum > 0) atomicAdd(&counts[n], sum);",
        "counts[n] += sum;",
        &["`count`: race between CTAs: ", "kernels/shared_counts.cuh:21"],
    );
}

#[test]
fn an_access_out_of_bounds_is_reported_by_file_and_line() {
    check_bug(
        "if (n < params.n)",
        "if (n <= params.n)",
        &["`count`: out of bounds: ", "kernels/histogram.cu:22"],
    );
}

#[test]
fn an_uninitialised_read_is_reported_by_file_and_line() {
    check_bug(
        "  clear_counts<COPIES * BINS, BLOCK>(shared);\n",
        "\n",
        &["`count`: uninitialised: ", "kernels/shared_counts.cuh:20"],
    );
}

#[test]
fn a_wrong_result_is_reported_with_the_element() {
    check_bug("copy < N_COPIES", "copy < 1", &["of result 0 is ", "by the definition", "differ"]);
}

#[test]
fn parameters_that_differ_from_the_function_do_not_compile() {
    check_bug(
        "int* counts, histogram_params params)",
        "float* counts, histogram_params params)",
        &["expected extern \"C\" __global__ void count(const f32*, i32*, histogram_params)"],
    );
    check_bug(
        "extern \"C\" __global__ void count",
        "__global__ void count",
        &["no kernel has the name `count`: declare it as `extern \"C\" __global__ void count(..)`"],
    );
}

#[test]
fn lines_that_do_not_compile_are_those_of_the_file() {
    check_bug("++item) {", "++items) {", &["kernels/histogram.cu(20)", "items"]);
}

#[test]
fn settings_that_are_bad_on_purpose_come_last() {
    let sandbox = sandbox(str::to_owned);
    let Some(said) = emulate(&sandbox, &["--all", "--json", "--at", "N=3000"]) else { return };
    let lines = lines(&said);
    let place = |setting: &str| {
        let place = lines.iter().position(|it| it["setting"] == setting);
        place.unwrap_or_else(|| panic!("{setting} is not among {lines:?}"))
    };
    // A byte for each thread makes blocks that do little but clear and add counts.
    let bad = place("BLOCK = 64, ITEMS = 1, COPIES = 2");
    let good = place("BLOCK = 256, ITEMS = 16, COPIES = 1");
    assert!(good < bad, "{good} {bad}");
    let cycles = |n: usize| lines[n]["cycles"].as_f64().expect("a number");
    assert!(cycles(bad) > 4.0 * cycles(good), "{} {}", cycles(bad), cycles(good));
}

/// The ops of a package.
fn ops(package: &Path) -> Vec<Op> {
    source::scan(package, &Cfg::of_host()).functions.into_iter().flat_map(Op::all).collect()
}

#[test]
fn a_change_of_any_file_or_knob_is_another_workload() {
    let sandbox = sandbox(str::to_owned);
    let id = || ops(&sandbox.package())[0].id;
    let before = id();
    assert_eq!(before, id());
    for name in ["kernels/histogram.cu", "kernels/shared_counts.cuh", "src/lib.rs"] {
        let path = sandbox.package().join(name);
        let text = fs::read_to_string(&path).unwrap();
        let changed = match name {
            "src/lib.rs" => text.replace("ITEMS in [4, 1, 2, 8, 16]", "ITEMS in [4, 1, 2, 8]"),
            _ => format!("{text}// changed\n"),
        };
        assert_ne!(text, changed);
        fs::write(&path, &changed).unwrap();
        assert_ne!(before, id(), "{name}");
        fs::write(&path, text.replace('\n', "\r\n")).unwrap();
        assert_eq!(before, id(), "line ends of {name}");
        fs::write(&path, text).unwrap();
    }
}

#[test]
fn files_of_a_template_are_watched_also_where_they_are_missing() {
    let sandbox = sandbox(str::to_owned);
    let scan = || source::scan(&sandbox.package(), &Cfg::of_host());
    let path = |name: &str| sandbox.package().join(name);
    let names = [FILES[0], FILES[1], BINDINGS, FILES[2]];
    assert!(names.iter().all(|it| scan().watched.contains(&path(it))));
    for missing in &names[1..] {
        let text = fs::read_to_string(path(missing)).unwrap();
        fs::remove_file(path(missing)).unwrap();
        let scan = scan();
        assert!(scan.watched.contains(&path(names[0])) && scan.missing.contains(&path(missing)));
        assert_eq!(ops(&sandbox.package()).len(), 0, "the macro reports it");
        fs::write(path(missing), text).unwrap();
    }
    assert_eq!(ops(&sandbox.package()).len(), 1);
}

const SCRIPT: &str = env!("CARGO_BIN_EXE_script");

/// The libclang of the Python package, which has no headers.
fn libclang() -> Option<PathBuf> {
    match pip::file("libclang==18.1.1", "clang/native/libclang.so") {
        Ok(path) => Some(path),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "no libclang on CI: {error}");
            skip::report(&format!("no libclang: {error}"));
            None
        }
    }
}

/// Runs the build script with a libclang; returns its warnings.
fn bind(sandbox: &Sandbox, libclang: &Path) -> Vec<String> {
    let named = [("LIBCLANG_PATH", libclang.to_str().unwrap()), ("TVMTUNE", "use")];
    let said = sandbox.script(SCRIPT, "out", &named);
    assert_eq!(said.code, Some(0), "{said:?}");
    said.directives("warning").into_iter().map(str::to_owned).collect()
}

#[test]
fn bindings_are_made_where_there_are_none_and_come_out_as_those_that_ship() {
    let Some(libclang) = libclang() else { return };
    let sandbox = sandbox(str::to_owned);
    let path = sandbox.package().join(BINDINGS);
    fs::remove_file(&path).unwrap();
    bind(&sandbox, &libclang);
    let made = fs::read_to_string(&path).unwrap();
    let shipped = example().join(BINDINGS);
    if std::env::var_os("TVMTUNE_WRITE_FIXTURES").is_some() {
        fs::create_dir_all(shipped.parent().unwrap()).unwrap();
        fs::write(&shipped, &made).unwrap();
    }
    assert_eq!(made, fs::read_to_string(&shipped).unwrap());
    assert_eq!(ops(&sandbox.package()).len(), 1);
    let header = sandbox.package().join(FILES[2]);
    let text = fs::read_to_string(&header).unwrap();
    fs::write(&header, text.replace("float lo;", "float lo;\n  unsigned int unused : 3;")).unwrap();
    assert_eq!(ops(&sandbox.package()).len(), 0, "what ships is of another header");
    bind(&sandbox, &libclang);
    assert!(fs::read_to_string(&path).unwrap().contains("BitfieldUnit"));
    assert_eq!(ops(&sandbox.package()).len(), 0, "a bit field is refused");
    fs::write(&header, text).unwrap();
    bind(&sandbox, &libclang);
    assert_eq!(fs::read_to_string(&path).unwrap(), made);
}

#[test]
fn headers_may_use_the_words_of_cuda_and_the_types_of_c() {
    let Some(libclang) = libclang() else { return };
    let sandbox = sandbox(|text| {
        let includes =
            "#include <stddef.h>\n#include <stdint.h>\n#include <stdbool.h>\n#include <limits.h>\n";
        let text = text.replace("#define HISTOGRAM", &format!("{includes}#define HISTOGRAM"));
        let text = text.replace("(48 * 1024)", "HISTOGRAM_MOST\nenum { HISTOGRAM_MOST = 49152 };");
        let text =
            text.replace("struct histogram_params {", "struct __align__(16) histogram_params {");
        text.replace(
            "unsigned int n;",
            "size_t n; __host__ __device__ bool is_valid() const { return n > 0; }",
        )
    });
    fs::remove_file(sandbox.package().join(BINDINGS)).unwrap();
    let lib = fs::read_to_string(sandbox.package().join("src/lib.rs")).unwrap();
    sandbox.write("src/lib.rs", &lib.replace("HISTOGRAM_SHARED_BYTES", "HISTOGRAM_MOST"));
    bind(&sandbox, &libclang);
    let ops = ops(&sandbox.package());
    assert!(
        ops[0].text.contains("params histogram_params of 16 bytes: n = d0 in 8 at 0"),
        "{}",
        ops[0].text
    );
    assert!(ops[0].text.contains("constraint le(mul(mul(k2, 256), 4), 49152)"), "{}", ops[0].text);
}

#[test]
fn what_stands_in_the_way_of_bindings_is_said_with_the_lines_of_clang() {
    let Some(libclang) = libclang() else { return };
    let sandbox = sandbox(|text| text.replace("float scale;", "flaot scale;"));
    let warnings = bind(&sandbox, &libclang).join("\n");
    assert!(warnings.contains("`kernels/histogram.h` has no bindings: "), "{warnings}");
    assert!(
        warnings.contains("kernels/histogram.h:11") && warnings.contains("flaot"),
        "{warnings}"
    );
    let none = bind(&sandbox, Path::new("/nowhere")).join("\n");
    assert!(none.contains("`kernels/histogram.h` has no bindings: "), "{none}");
    assert!(none.contains("libclang"), "{none}");
}
