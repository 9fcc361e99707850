//! Hand-written kernels with knobs: judged by their definition on the emulator, tuned, recorded and
//! replayed like generated ones, with mistakes of their authors reported by line.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tvmtune_build::op::Op;
use tvmtune_plan::source::{self, Cfg};
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tests::sandbox::{Said, Sandbox, said};
use tvmtune_tests::sshd::Sshd;
use tvmtune_tests::{pip, skip};

use crate::fake_driver;

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");

/// One of the example's kernels: the Rust source, with a replacement that makes it small, the files that
/// it consists of, the header last, and the bindings of that.
struct Kernel {
    source: &'static str,
    small: (&'static str, &'static str),
    files: [&'static str; 3],
    bindings: &'static str,
}

const HISTOGRAM: Kernel = Kernel {
    source: "src/counts.rs",
    small: (
        "dims(N = 1..=1048576, BINS = 256),\n    buckets(N = [4096, 1048576]),",
        "dims(N = 1..=3000, BINS = 256),",
    ),
    files: ["kernels/histogram.cu", "kernels/shared_counts.cuh", "kernels/histogram.h"],
    bindings: "tvmtune/bindings/kernels-histogram.h.histogram_params.rs",
};

const ATTENTION: Kernel = Kernel {
    source: "src/attention.rs",
    small: ("    buckets(SEQS = [8, 64]),\n", ""),
    files: [
        "kernels/paged_attention.cu",
        "kernels/online_softmax.cuh",
        "kernels/paged_attention.h",
    ],
    bindings: "tvmtune/bindings/kernels-paged_attention.h.paged_attention_params.rs",
};

/// The example that users are shown.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/custom_kernel")
}

/// A kernel of the example as a package of its own, with a change of its files.
fn sandbox_of(kernel: &Kernel, change: impl Fn(&str) -> String) -> Sandbox {
    let read = |name: &str| fs::read_to_string(example().join(name)).expect("the example is there");
    let (source, (large, small)) = (read(kernel.source), kernel.small);
    assert!(source.contains(large), "{source}");
    let sandbox = Sandbox::new("sandbox", &source.replace(large, small));
    for name in kernel.files {
        sandbox.write(name, &change(&read(name)));
    }
    sandbox.write(kernel.bindings, &read(kernel.bindings));
    sandbox
}

/// The histogram as a package of its own.
pub(crate) fn sandbox(change: impl Fn(&str) -> String) -> Sandbox {
    sandbox_of(&HISTOGRAM, change)
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

/// A change of the histogram, and what is said of it.
#[track_caller]
fn check_bug(from: &str, to: &str, expected: &[&str]) {
    check_bug_of(&HISTOGRAM, &[], (from, to), expected);
}

/// A change of a kernel, and what is said of it.
#[track_caller]
fn check_bug_of(kernel: &Kernel, at: &[&str], (from, to): (&str, &str), expected: &[&str]) {
    let is_there = |name: &str| fs::read_to_string(example().join(name)).unwrap().contains(from);
    assert!(kernel.files.into_iter().any(is_there), "{from}");
    let sandbox = sandbox_of(kernel, |text| text.replacen(from, to, 1));
    let Some(said) = emulate(&sandbox, at) else { return };
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
fn attention_to_pages_computes_its_definition_for_each_value_of_each_knob() {
    let sandbox = sandbox_of(&ATTENTION, str::to_owned);
    for extents in ["SEQS=1,PAGES=1,SLOTS=1", "SEQS=5,PAGES=7,SLOTS=3", "SEQS=2,PAGES=3,SLOTS=17"] {
        let Some(said) = emulate(&sandbox, &["--at", extents, "--json"]) else { return };
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(lines(&said).len(), 10, "{said:?}");
    }
}

#[test]
fn barriers_that_attention_to_pages_lacks_are_found() {
    let copied = "    }\n    __syncthreads();\n    const unsigned int rest";
    let at = ["--at", "SEQS=2,PAGES=3,SLOTS=5"];
    let expected = ["`attention`: ", "kernels/paged_attention.cu:"];
    let without = copied.replace("    __syncthreads();\n", "");
    check_bug_of(&ATTENTION, &at, (copied, &without), &expected);
    // Pages of the next step replace those that others still read.
    let at = ["--at", "SEQS=3,PAGES=3,SLOTS=13"];
    let before = "    __syncthreads();\n    for (unsigned int n";
    let without = before.replace("    __syncthreads();\n", "");
    check_bug_of(&ATTENTION, &at, (before, &without), &["`attention`: race: ", expected[1]]);
}

#[test]
fn tokens_beyond_the_length_or_the_table_are_found() {
    let at = ["--at", "SEQS=3,PAGES=3,SLOTS=13"];
    let length = "lengths[sequence] < room ? lengths[sequence] : room";
    let expected = ["of result 0 is ", "by the definition"];
    check_bug_of(&ATTENTION, &at, (length, "room"), &expected);
    let at = ["--at", "SEQS=3,PAGES=3,SLOTS=1"];
    let expected = ["`attention`: uninitialised: ", "kernels/paged_attention.cu:"];
    check_bug_of(&ATTENTION, &at, (length, "lengths[sequence]"), &expected);
}

/// The place of a setting among those that were run, the best first.
#[track_caller]
fn place_of(setting: &str, lines: &[Value]) -> usize {
    let place = lines.iter().position(|it| it["setting"] == setting);
    place.unwrap_or_else(|| panic!("{setting} is not among {lines:?}"))
}

#[test]
fn settings_that_are_bad_on_purpose_come_last() {
    let sandbox = sandbox(str::to_owned);
    let Some(said) = emulate(&sandbox, &["--all", "--json", "--at", "N=3000"]) else { return };
    let lines = lines(&said);
    let place = |setting: &str| place_of(setting, &lines);
    // A byte for each thread makes blocks that do little but clear and add counts.
    let bad = place("BLOCK = 64, ITEMS = 1, COPIES = 2");
    let good = place("BLOCK = 256, ITEMS = 16, COPIES = 1");
    assert!(good < bad, "{good} {bad}");
    let cycles = |n: usize| lines[n]["cycles"].as_f64().expect("a number");
    assert!(cycles(bad) > 4.0 * cycles(good), "{} {}", cycles(bad), cycles(good));
}

/// The histogram with another knob, run with each value of each knob.
fn with_knob(knob: &str, shared: &str, change: (&str, &str)) -> Option<Vec<Value>> {
    let sandbox = sandbox(|text| text.replacen(change.0, change.1, 1));
    let source = fs::read_to_string(sandbox.package().join("src/lib.rs")).unwrap();
    let source = source.replace("COPIES in [2, 1, 4, 8])", &format!("COPIES in [2], {knob})"));
    let source = source.replace("shared = COPIES * BINS * 4", shared);
    assert!(source.contains(knob) && source.contains(shared), "{source}");
    sandbox.write("src/lib.rs", &source);
    // A word that a launch mentions may be a constant of the header.
    bind(&sandbox, &libclang()?);
    let said = emulate(&sandbox, &["--all", "--json", "--at", "N=3000"])?;
    assert_eq!(said.code, Some(0), "{said:?}");
    Some(lines(&said))
}

#[test]
fn settings_that_leave_room_for_few_warps_come_behind_those_that_are_alike_but_for_it() {
    let shared = "shared = COPIES * BINS * 4 + PAD * 1024";
    let Some(lines) = with_knob("PAD in [0, 160]", shared, ("", "")) else { return };
    for setting in ["BLOCK = 256, ITEMS = 4", "BLOCK = 64, ITEMS = 16", "BLOCK = 128, ITEMS = 8"] {
        let [good, bad] = [0, 160].map(|pad| {
            let setting = format!("{setting}, COPIES = 2, PAD = {pad}");
            &lines[place_of(&setting, &lines)]
        });
        assert_eq!(good["instructions"], bad["instructions"], "they execute the same");
        assert!(bad["occupancy"].as_f64() < Some(0.2) && good["occupancy"].as_f64() > Some(0.5));
        let cycles = |it: &Value| it["cycles"].as_f64().unwrap();
        assert!(cycles(bad) > 1.5 * cycles(good), "{good} {bad}");
    }
    // The best blocks alone are as good as nothing: any setting with room comes before them.
    let bad = place_of("BLOCK = 64, ITEMS = 16, COPIES = 2, PAD = 160", &lines);
    assert!(place_of("BLOCK = 64, ITEMS = 4, COPIES = 2, PAD = 0", &lines) < bad);
}

#[test]
fn settings_that_wait_at_more_barriers_come_behind_those_that_are_alike_but_for_it() {
    let wait = "  __syncthreads();\n  add_counts";
    let waits = "  for (int n = 0; n < WAITS; ++n) __syncthreads();\n  add_counts";
    let shared = "shared = COPIES * BINS * 4";
    let Some(lines) = with_knob("WAITS in [1, 64]", shared, (wait, waits)) else { return };
    for setting in ["BLOCK = 256, ITEMS = 4", "BLOCK = 512, ITEMS = 8", "BLOCK = 256, ITEMS = 8"] {
        let [good, bad] = [1, 64]
            .map(|it| &lines[place_of(&format!("{setting}, COPIES = 2, WAITS = {it}"), &lines)]);
        let number = |it: &Value, name: &str| it[name].as_f64().unwrap();
        assert_eq!(number(bad, "barriers"), 32.5 * number(good, "barriers"), "{good} {bad}");
        assert_eq!(good["occupancy"], bad["occupancy"]);
        assert!(number(bad, "cycles") > 1.3 * number(good, "cycles"), "{good} {bad}");
    }
}

/// The ops of a package.
fn ops(package: &Path) -> Vec<Op> {
    source::scan(package, &Cfg::of_host())
        .functions
        .into_iter()
        .flat_map(Op::all)
        .flatten()
        .collect()
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
    let names = [HISTOGRAM.files[0], HISTOGRAM.files[1], HISTOGRAM.bindings, HISTOGRAM.files[2]];
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
pub(crate) fn libclang() -> Option<PathBuf> {
    match pip::file("libclang==18.1.1", "clang/native/libclang.so") {
        Ok(path) => Some(path),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "no libclang on CI: {error}");
            skip::report(&format!("no libclang: {error}"));
            None
        }
    }
}

/// Runs the build script with a libclang; returns the reasons why headers have no bindings, which the macro
/// reports where they are named.
fn bind(sandbox: &Sandbox, libclang: &Path) -> Vec<String> {
    let named = [("LIBCLANG_PATH", libclang.to_str().unwrap()), ("TVMTUNE", "use")];
    let said = sandbox.script(SCRIPT, "out", &named);
    assert_eq!(said.code, Some(0), "{said:?}");
    sandbox.handoff("out").unbound.into_values().collect()
}

/// Makes the bindings of a kernel's header anew, which come out as those that ship; returns them.
fn check_bindings(kernel: &Kernel, libclang: &Path) -> (Sandbox, String) {
    let sandbox = sandbox_of(kernel, str::to_owned);
    let path = sandbox.package().join(kernel.bindings);
    fs::remove_file(&path).unwrap();
    bind(&sandbox, libclang);
    let made = fs::read_to_string(&path).unwrap();
    let shipped = example().join(kernel.bindings);
    if std::env::var_os("TVMTUNE_WRITE_FIXTURES").is_some() {
        fs::create_dir_all(shipped.parent().unwrap()).unwrap();
        fs::write(&shipped, &made).unwrap();
    }
    assert_eq!(made, fs::read_to_string(&shipped).unwrap());
    assert_eq!(ops(&sandbox.package()).len(), 1);
    (sandbox, made)
}

#[test]
fn bindings_are_made_where_there_are_none_and_come_out_as_those_that_ship() {
    let Some(libclang) = libclang() else { return };
    check_bindings(&ATTENTION, &libclang);
    let (sandbox, made) = check_bindings(&HISTOGRAM, &libclang);
    let path = sandbox.package().join(HISTOGRAM.bindings);
    let header = sandbox.package().join(HISTOGRAM.files[2]);
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
    fs::remove_file(sandbox.package().join(HISTOGRAM.bindings)).unwrap();
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
    let said = bind(&sandbox, &libclang);
    let [why] = &said[..] else { panic!("one reason: {said:?}") };
    let expected = ["`kernels/histogram.h` has no bindings: ", "kernels/histogram.h:11", "flaot"];
    assert!(expected.iter().all(|it| why.contains(it)), "{why}");
    let none = bind(&sandbox, Path::new("/nowhere")).join("\n");
    assert!(none.contains("`kernels/histogram.h` has no bindings: "), "{none}");
    assert!(none.contains("libclang"), "{none}");
}

#[test]
fn a_file_that_compiles_for_one_architecture_alone_is_recorded_for_that_alone() {
    let Some(nvrtc) = nvrtc() else { return };
    let of_hopper = "#if __CUDA_ARCH__ < 900\n#error it needs clusters\n#endif\n\nextern \"C\" __global__ void count";
    let sandbox = sandbox(|text| text.replace("extern \"C\" __global__ void count", of_hopper));
    let record = |target: &str| {
        let mut command = sandbox.command(TVMTUNE);
        command.env("TVMTUNE_NVRTC", nvrtc.path());
        said(command.args(["compile", "--record", "--target", target]))
    };
    let refused = record("cuda:sm_80");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let expected = ["does not compile for sm_80", "kernels/histogram.cu(", "it needs clusters"];
    assert!(expected.iter().all(|it| refused.err.contains(it)), "{}", refused.err);
    assert!(sandbox.records().is_empty());
    let recorded = record("cuda:sm_90a");
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    assert_eq!(sandbox.records().len(), 1);
    assert_eq!(record("cuda:sm_80").code, Some(1));
    assert_eq!(sandbox.records().len(), 1, "what was there stays");
}

#[test]
fn hand_written_kernels_are_not_tuned_on_another_machine() {
    let sshd = match Sshd::start() {
        Ok(sshd) => sshd,
        Err(why) => return skip::report(&why),
    };
    let folder = tempfile::tempdir().unwrap();
    sshd.add_driver(&fake_driver::driver(folder.path()).join("libcuda.so.1"));
    let sandbox = sandbox(str::to_owned);
    let mut command = sandbox.command(TVMTUNE);
    command.env("TVMTUNE_SSH", sshd.client()).env("TVMTUNE_NVRTC", "none");
    let said = said(command.args(["tune", "--on", &sshd.address(), "--target", "cuda"]));
    let all = format!("{}{}", said.out, said.err);
    assert!(all.contains("has hand-written kernels, and tasks carry no code"), "{said:?}");
    assert!(all.contains("`cargo tvmtune tune` on a machine with that GPU"), "{said:?}");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(sandbox.records().is_empty());
}
