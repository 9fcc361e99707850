//! Device functions on every architecture that has them, and what NVRTC makes of source.

use std::collections::BTreeSet;
use std::path::Path;

use tvmtune_ir::digest::Digest;
use tvmtune_plan::database::Cache;
use tvmtune_runtime::cuda::nvrtc::{Nvrtc, NvrtcError};
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tuner::compile::{Code, CompileError, Compiler, LINES, Source, Verdict};

/// The use of every function, with the architectures that it must compile for.
const FUNCTIONS: &[(&str, &str, &[&str])] = &[
    (
        "any.cu",
        include_str!("any.cu"),
        &["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"],
    ),
    (
        "sm80.cu",
        include_str!("sm80.cu"),
        &["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"],
    ),
    ("sm90.cu", include_str!("sm90.cu"), &["sm_90", "sm_90a", "sm_100a", "sm_120"]),
    ("sm90a.cu", include_str!("sm90a.cu"), &["sm_90a"]),
];

fn compile(nvrtc: &Nvrtc, name: &str, text: &str, arch: &str) -> Result<Code, CompileError> {
    Compiler::new(nvrtc, None).compile(&Source { name, text, arch, options: &[] })
}

/// Returns the number of kernels in PTX.
fn n_kernels(code: &Code) -> usize {
    code.ptx.matches(".visible .entry ").count()
}

#[test]
fn every_device_function_compiles_where_it_is_to_be() {
    let Some(nvrtc) = nvrtc() else { return };
    std::thread::scope(|scope| {
        for (name, text, archs) in FUNCTIONS {
            for arch in *archs {
                scope.spawn(move || {
                    let code = compile(nvrtc, name, text, arch).unwrap();
                    assert!(!code.kernels.is_empty() && code.kernels.len() == n_kernels(&code));
                    let noise =
                        code.log.lines().find(|it| it.contains(".cu") && !it.contains("ptx input"));
                    assert_eq!(noise, None, "{name} for {arch}");
                });
            }
        }
    });
}

#[test]
fn instructions_that_an_architecture_lacks_do_not_compile_for_it() {
    let Some(nvrtc) = nvrtc() else { return };
    for (name, text, arch) in [
        ("sm80.cu", include_str!("sm80.cu"), "sm_75"),
        ("sm90.cu", include_str!("sm90.cu"), "sm_89"),
        ("sm90a.cu", include_str!("sm90a.cu"), "sm_90"),
        ("sm90a.cu", include_str!("sm90a.cu"), "sm_100a"),
    ] {
        let error = compile(nvrtc, name, text, arch).unwrap_err();
        assert!(matches!(error, CompileError::Nvrtc(NvrtcError::Compile { .. })), "{error}");
    }
}

/// The names of the functions that headers declare.
fn declared() -> BTreeSet<&'static str> {
    let mut names = BTreeSet::new();
    for line in tvmtune_device::HEADERS.iter().flat_map(|it| it.text.lines()) {
        let Some((_, rest)) = line.split_once("TVMTUNE_FN ") else { continue };
        let Some((before, _)) = rest.split_once('(') else { continue };
        names.extend(before.split([' ', '*']).next_back());
    }
    for list in ["TVMTUNE_FLOAT_FN(", "TVMTUNE_MMA("] {
        let text = tvmtune_device::HEADERS.iter().flat_map(|it| it.text.lines());
        names.extend(text.filter_map(|it| it.strip_prefix(list)?.split(',').next()));
    }
    names
}

#[test]
fn every_device_function_is_used_in_these_tests() {
    // Used by others of the headers, and the names of parameters of macros.
    let internal = ["from_bits", "least", "greatest", "of", "operator[]", "unit", "name"];
    let internal = [&internal[..], &["saturate", "to_odd", "to_f16", "to_bf16", "to_f32"]].concat();
    let internal = [&internal[..], &["shuffle_xor", "small_bits", "from_small_bits"]].concat();
    let words: BTreeSet<&str> = FUNCTIONS
        .iter()
        .flat_map(|(_, text, _)| text.split(|it: char| !it.is_alphanumeric() && it != '_'))
        .collect();
    let declared = declared();
    assert!(declared.len() > 60, "{declared:?}");
    let unused: Vec<_> =
        declared.iter().filter(|it| !words.contains(*it) && !internal.contains(it)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn a_file_pays_only_for_what_it_calls() {
    let Some(nvrtc) = nvrtc() else { return };
    let includes: String =
        tvmtune_device::HEADERS.iter().map(|it| format!("#include \"{}\"\n", it.name)).collect();
    let text = includes + "extern \"C\" __global__ void one(float* to) { to[0] = 1; }\n";
    let code = compile(nvrtc, "one.cu", &text, "sm_90a").unwrap();
    assert_eq!(n_kernels(&code), 1);
    for part in [".global .", ".shared .", ".local .", ".func "] {
        assert!(!code.ptx.contains(part), "{part}:\n{}", code.ptx);
    }
}

#[test]
fn code_does_not_tell_where_it_was_compiled() {
    let Some(nvrtc) = nvrtc() else { return };
    let text = "#include \"tvmtune/types.cuh\"\nextern \"C\" __global__ void one(float* to) { to[0] = 1; }\n";
    let code = compile(nvrtc, "one.cu", text, "sm_90a").unwrap();
    let folder = std::env::current_dir().unwrap();
    let folder = folder.to_str().unwrap();
    let names = |bytes: &[u8]| bytes.windows(folder.len()).any(|it| it == folder.as_bytes());
    assert!(!names(code.ptx.as_bytes()) && !names(&code.cubin));
    // With line information, it does.
    let source = Source { name: "one.cu", text, arch: "sm_90a", options: &[LINES] };
    let code = Compiler::new(nvrtc, None).compile(&source).unwrap();
    assert!(names(code.ptx.as_bytes()), "{}", code.ptx);
}

/// Returns the resources of a kernel from the log: registers, barriers, shared memory, frame.
fn logged(log: &str, kernel: &str) -> (u32, u32, u64, u32) {
    let start = log.find(&format!("Compiling entry function '{kernel}'")).unwrap();
    let rest = &log[start..];
    let line = |part: &str| rest.lines().find(|it| it.contains(part)).unwrap();
    let before = |line: &str, unit: &str| {
        let words: Vec<&str> = line.split([' ', ',']).filter(|it| !it.is_empty()).collect();
        let unit: Vec<&str> = unit.split(' ').collect();
        let at = words.windows(unit.len()).position(|it| it == unit);
        at.map_or(0, |at| words[at - 1].parse::<u64>().unwrap())
    };
    let (used, frame) = (line(": Used "), line("bytes stack frame"));
    let small = |it: u64| u32::try_from(it).unwrap();
    (
        small(before(used, "registers")),
        small(before(used, "barriers")),
        before(used, "bytes smem"),
        small(before(frame, "bytes stack frame")),
    )
}

/// A kernel that needs more registers than 2048 threads of a multiprocessor have.
const SPILLING: &str = r#"
extern "C" __global__ void __launch_bounds__(1024, 2) spilling(float* a, const float* b) {
  float r[64];
  for (int i = 0; i < 64; i++) r[i] = b[i * 1024 + threadIdx.x];
  __syncthreads();
  for (int k = 0; k < 64; k++) for (int i = 0; i < 64; i++) r[i] = r[i] * b[k] + r[(i + 1) % 64];
  for (int i = 0; i < 64; i++) a[i * 1024 + threadIdx.x] = r[i];
}
extern "C" __global__ void __launch_bounds__(32) modest(float* a) {
  __shared__ float s[32];
  s[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  a[threadIdx.x] = s[31 - threadIdx.x];
}"#;

#[test]
fn a_cubin_says_what_the_assembler_says() {
    let Some(nvrtc) = nvrtc() else { return };
    let with_spills = [("spilling.cu", SPILLING, &["sm_75", "sm_80", "sm_90a", "sm_120"][..])];
    for (name, text, archs) in with_spills.iter().chain(FUNCTIONS) {
        let arch = archs[archs.len() - 1];
        for arch in [archs[0], arch] {
            let code = compile(nvrtc, name, text, arch).unwrap();
            for it in &code.kernels {
                let found = (it.registers, it.barriers, it.static_shared_bytes, it.frame_bytes);
                assert_eq!(found, logged(&code.log, &it.kernel), "{} for {arch}", it.kernel);
                assert!(it.code_bytes > 0);
            }
        }
    }
    let code = compile(nvrtc, "spilling.cu", SPILLING, "sm_90a").unwrap();
    let (spilling, modest) = (code.usage("spilling").unwrap(), code.usage("modest").unwrap());
    assert_eq!((spilling.max_threads, spilling.registers), (1024, 32));
    assert!(spilling.spill_store_bytes > 64 && spilling.spill_load_bytes > 64, "{spilling:?}");
    assert_eq!((modest.max_threads, modest.static_shared_bytes), (32, 128));
    assert_eq!((modest.spill_store_bytes, modest.frame_bytes), (0, 0));
    assert!(matches!(code.verdict(), Some(Verdict::Spills(65..))), "{:?}", code.verdict());
}

#[test]
fn accumulators_that_are_read_too_early_serialize() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = |wait: &str| {
        format!(
            r#"#include "tvmtune/wgmma.cuh"
using namespace tvmtune;
TVMTUNE_WGMMA(bf16, 64)
extern "C" __global__ void __launch_bounds__(128) product(f32* to) {{
  extern __shared__ __align__(1024) u8 shared[];
  f32 d[32];
  const u64 tile = wgmma_operand(shared_address(shared), 16, 1024, SWIZZLE_128);
  wgmma_fence();
  wgmma_bf16(d, tile, tile, false);
  wgmma_commit();
  {wait}
  for (int n = 0; n < 32; n++) to[n * 128 + threadIdx.x] = d[n];
}}"#
        )
    };
    let verdict = |wait| compile(nvrtc, "product.cu", &source(wait), "sm_90a").unwrap().verdict();
    assert_eq!(verdict("wgmma_wait<0>(); wgmma_hold(d);"), None);
    assert_eq!(verdict("d[0] += 1; wgmma_bf16(d, tile, tile, true);"), Some(Verdict::Serialized));
}

#[test]
fn errors_of_nvrtc_are_values() {
    let missing = Nvrtc::open(Path::new("no/such/libnvrtc.so")).unwrap_err();
    assert!(missing.to_string().contains("no/such/libnvrtc.so: "), "{missing}");
    assert!(missing.to_string().contains("TVMTUNE_NVRTC"), "{missing}");
    let Some(nvrtc) = nvrtc() else { return };
    let text = |source, arch| compile(nvrtc, "wrong.cu", source, arch).unwrap_err().to_string();
    let wrong = text("__global__ void wrong() { nothing(); }", "sm_80");
    assert!(wrong.starts_with("`wrong.cu` does not compile for sm_80:\n"), "{wrong}");
    assert!(wrong.contains("wrong.cu(1): error: identifier \"nothing\" is undefined"), "{wrong}");
    let unknown = text("", "sm_12");
    assert!(unknown.contains("`nvrtcCompileProgram` of "), "{unknown}");
    assert_eq!(text("a\0b", "sm_80"), "the source of `wrong.cu` contains a zero byte");
}

#[test]
fn the_same_text_is_compiled_only_once() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path());
    let compiler = Compiler::new(nvrtc, Some(&cache));
    let text = "extern \"C\" __global__ void one(float* to) { to[0] = 1; }";
    let source = Source { name: "one.cu", text, arch: "sm_90a", options: &[] };
    let first = compiler.compile(&source).unwrap();
    let files = || walk(&cache.compiled());
    assert_eq!(files().len(), 1);
    assert_eq!(compiler.compile(&source).unwrap(), first);
    // The code comes from the file: another log in it is the log that comes back.
    let path = &files()[0];
    let stored = std::fs::read(path).unwrap();
    let at = stored.windows(4).rposition(|it| it == b"regi").unwrap();
    let changed = [&stored[..at], b"REGI", &stored[at + 4..]].concat();
    std::fs::write(path, &changed).unwrap();
    let again = compiler.compile(&source).unwrap();
    // Its log tells the time that compiling took.
    assert!(again.cubin == first.cubin && again.log != first.log, "it is compiled anew");
    let (header, content) =
        changed.split_at(changed.iter().position(|it| *it == b'\n').unwrap() + 1);
    let format = str::from_utf8(header).unwrap().split(' ').next().unwrap();
    let header = format!("{format} {}\n", Digest::of([content]));
    std::fs::write(path, [header.as_bytes(), content].concat()).unwrap();
    assert!(compiler.compile(&source).unwrap().log.contains("REGIsters"));
    compiler.compile(&Source { arch: "compute_90a", ..source }).unwrap();
    assert_eq!(files().len(), 2);
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    entries.flat_map(|it| if it.is_dir() { walk(&it) } else { vec![it] }).collect()
}

#[test]
fn compiling_is_a_function_of_the_source() {
    let Some(nvrtc) = nvrtc() else { return };
    let (name, text, _) = FUNCTIONS[1];
    let code = || compile(nvrtc, name, text, "sm_90a").unwrap();
    let first = code();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(code)).collect();
        for it in threads {
            let other = it.join().unwrap();
            assert_eq!((&other.cubin, &other.ptx), (&first.cubin, &first.ptx));
        }
    });
}
