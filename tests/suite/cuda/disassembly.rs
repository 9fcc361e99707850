//! Machine code of kernels whose producer loads by TMA: `setmaxnreg` grants no more registers than a block is
//! launched with, and no loop fences the memory of the whole GPU. The disassembler is NVIDIA's, from PyPI.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use tvmtune_acceptance::case;
use tvmtune_acceptance::problem::Problem;
use tvmtune_cuda::Generated;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_space::sketch::TemplateKind;
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tests::{pip, skip};
use tvmtune_tuner::compile::{Code, CompileError, Compiler, Source};
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use super::persistent::placed;
use super::{default_point, target};

/// Instructions that order the accesses of a thread for the whole GPU, or empty its first-level cache.
const FENCES: [&str; 3] = ["MEMBAR", "CCTL.IVALL", "ERRBAR"];

/// Programs of kinds that have producers, some of whose blocks would leave room for another one.
fn programs() -> Vec<(String, Dag)> {
    let problems = [
        ("conv_nhwc_f16", "B = 32, C = 64, H = 56, W = 56, O = 16, T = 3"),
        ("conv_nhwc_f16", "B = 32, C = 64, H = 56, W = 56, O = 32, T = 3"),
        ("conv_nhwc_f16", "B = 32, C = 64, H = 56, W = 56, O = 48, T = 3"),
        ("conv_bn_relu_f16", "B = 32, C = 64, H = 56, W = 56, O = 32, T = 3"),
        ("linear_tf32", "M = 4096, N = 32, K = 4096"),
        ("linear_tf32", "M = 4096, N = 4096, K = 4096"),
    ];
    let problem = |(name, dims): &(&str, &str)| {
        let case = case::named(name).unwrap();
        (format!("{name} [{dims}]"), Dag::clone(&Problem::new(case, dims).unwrap().dag))
    };
    let large = "#[autotune(dims(M = 1..=8192, N = 4096, K = 4096))]
        fn linear(x: Tensor<bf16, M, K>, w: Weight<bf16, N, K>) -> Tensor<bf16, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] as f32 * w[[j, k]] as f32) as bf16)
        }";
    let large = ("linear".to_owned(), dsl::program(large).unwrap());
    problems.iter().map(problem).chain([large]).collect()
}

/// The default point of a program's rule for producers, and some random ones that the assembler takes.
fn kernels(dag: &Dag, n_random: usize, compiler: &Compiler<'_>) -> Vec<(Generated, Code)> {
    let space = Space::new(dag, &target().into());
    let default = default_point(&space, TemplateKind::WgmmaWarpSpecialized).unwrap();
    let mut random = Random::new(7);
    let sampled = (0..n_random).map(|_| space.random_of(default.sketch, &mut random));
    let points: Vec<_> = [default.clone()].into_iter().chain(sampled).collect();
    let generated = points.iter().filter_map(|it| placed(dag, &space, it));
    let with_code = generated.map(|it| (compiled(compiler, &it), it));
    let taken: Vec<_> = with_code.filter_map(|(code, it)| Some((it, code.ok()?))).collect();
    assert!(taken.len() > n_random / 2, "{} of {n_random} and the default one", taken.len());
    taken
}

fn compiled(compiler: &Compiler<'_>, generated: &Generated) -> Result<Code, CompileError> {
    let text = &generated.unit.source;
    compiler.compile(&Source { name: "kernel.cu", text, arch: "sm_90a", options: &[] })
}

#[test]
fn registers_of_a_launch_cover_what_is_granted() {
    let Some(nvrtc) = nvrtc() else { return };
    let compiler = Compiler::new(nvrtc, None);
    let (mut n_granted, mut n_refused) = (0, 0);
    for (name, dag) in programs() {
        for (generated, code) in kernels(&dag, 3, &compiler) {
            let checked = code.check_launches(&generated);
            checked.unwrap_or_else(|it| panic!("{name}: {it}\n{}", generated.unit.source));
            if !generated.grid.body.iter().any(|it| it.redistributed_registers().is_some()) {
                continue;
            }
            n_granted += 1;
            // With room for two blocks, if its code fits into half of the registers.
            let mut halved = generated.clone();
            let text = halved.unit.source.replace(", 1) ", ", 2) ");
            assert_ne!(text, generated.unit.source);
            halved.unit.source = text;
            let Ok(code) = compiled(&compiler, &halved) else { continue };
            let refused = code.check_launches(&halved).unwrap_err().to_string();
            assert!(refused.contains("would wait for ever"), "{refused}");
            n_refused += 1;
        }
    }
    assert!(n_granted > 8 && n_refused > 2, "{n_granted} {n_refused}");
}

#[test]
fn no_loop_fences_the_memory_of_the_gpu() {
    let Some(nvrtc) = nvrtc() else { return };
    let disassembler = match pip::file("nvidia-cuda-nvdisasm==13.5.37", "nvidia/cu13/bin/nvdisasm")
    {
        Ok(path) => path,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "no nvdisasm on CI: {error}");
            return skip::report(&format!("no nvdisasm: {error}"));
        }
    };
    let compiler = Compiler::new(nvrtc, None);
    let (mut n_fences, mut n_clusters) = (0, 0);
    for (name, dag) in programs() {
        for (generated, code) in kernels(&dag, 3, &compiler) {
            n_clusters += usize::from(generated.grid.body.iter().any(|it| it.cluster() > 1));
            let lines = disassembled(&disassembler, &code.cubin);
            let is_fence = |n: &usize| FENCES.iter().any(|it| lines[*n].contains(it));
            let next = successors(&lines);
            for fence in (0..lines.len()).filter(is_fence) {
                n_fences += 1;
                let (source, line) = (&generated.unit.source, &lines[fence]);
                assert!(!comes_back(fence, &next), "{name}: `{line}` is in a loop\n{source}");
            }
        }
    }
    // Blocks of a cluster wait for one another before they end.
    assert!(n_fences > n_clusters && n_clusters > 2, "{n_fences} fences, {n_clusters} clusters");
}

#[test]
fn a_line_of_a_loop_comes_back_and_one_behind_it_does_not() {
    let text = "a:\n.L_x_1:\n/*0000*/ MEMBAR.ALL.GPU ;\n/*0010*/ @P0 BRA `(.L_x_2) ;\n.L_x_3:\n\
                /*0020*/ @!P1 BRA `(.L_x_1) ;\n/*0030*/ ERRBAR ;\n/*0040*/ EXIT ;\n.L_x_2:\n\
                /*0050*/ SYNCS ;\n/*0060*/ BRA `(.L_x_3) ;";
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let next = successors(&lines);
    let found = lines.iter().enumerate().filter(|it| comes_back(it.0, &next));
    let found: Vec<usize> = found.map(|it| it.0).collect();
    assert_eq!(found, [1, 2, 3, 4, 5, 8, 9, 10]);
}

/// The lines of machine code, with those of labels.
fn disassembled(program: &Path, cubin: &[u8]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kernel.cubin");
    std::fs::write(&path, cubin).unwrap();
    let output = Command::new(program).arg("-c").arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(|it| it.trim().to_owned()).collect()
}

/// The lines that may be executed after each line.
fn successors(lines: &[String]) -> Vec<Vec<usize>> {
    let label = |(n, line): (usize, &String)| Some((line.strip_suffix(':')?.to_owned(), n));
    let labels: BTreeMap<String, usize> = lines.iter().enumerate().filter_map(label).collect();
    let of_line = |(n, line): (usize, &String)| {
        let instruction = line.split_once("*/").map_or("", |it| it.1.trim_start());
        let branch = instruction.split_once("BRA").and_then(|it| it.1.split_once("`("));
        let target = branch.and_then(|it| it.1.split_once(')')).and_then(|it| labels.get(it.0));
        let ends = ["BRA ", "EXIT", "RET"].iter().any(|it| instruction.starts_with(it));
        let next = (!ends && n + 1 < lines.len()).then_some(n + 1);
        target.copied().into_iter().chain(next).collect()
    };
    lines.iter().enumerate().map(of_line).collect()
}

/// Returns whether a line may be executed again after it was.
fn comes_back(line: usize, next: &[Vec<usize>]) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), next[line].clone());
    while let Some(n) = open.pop() {
        if seen.insert(n) {
            open.extend(&next[n]);
        }
    }
    seen.contains(&line)
}
