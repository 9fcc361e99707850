//! Step 10 and 11 of 12: plans, the Rust text that a crate embeds for one program.
//!
//! In: a [`Dag`], and machine code for buckets of its dimensions and for instruction sets. Out:
//! the items of a module, which a build script writes to a file and `#[autotune]` expands to.
//! Next: `tvmtune_runtime::raw` launches it. Code for CUDA devices follows, see [`cuda`].
//!
//! The items are `BUCKETS`, a `static [rt::raw::Bucket; _]`, and `portable`, the function that
//! [`super::rust`] prints, or one that calls the function of Rust that defines the program. A bucket has a function that computes the work of a launch, see [`work`]. The machine code stands in naked functions, byte for byte what was
//! measured, behind a `cfg`: elsewhere the list of variants is empty.
//!
//! # Invariants
//!
//! - The text depends on the meaning of the program and on the variants, but for names in
//!   `portable`, which are for readers: programs with one workload id may share it.
//! - It needs one name from outside: `rt`, the crate `tvmtune-runtime`.

#[cfg(feature = "cuda")]
pub mod cuda;
mod outline;
mod reference;
mod work;

use sha2::{Digest, Sha256};

use crate::record::{Effort, Tier};
use tvmtune_cpu::rust;
use tvmtune_cpu::vector::{Count, TableEntry, VectorCode};
use tvmtune_cpu::{Generated, generate};
use tvmtune_ir::dag::{Dag, Dim, TensorId, dims};
use tvmtune_ir::poly::{Atom, Interval, Poly};
use tvmtune_ir::target::{Isa, Target};
use tvmtune_schedule::nest::{self, Nest};
use tvmtune_schedule::print::Text;
use tvmtune_schedule::{Instruction, Layout, Schedule, Threads};
use tvmtune_space::default;

pub use outline::outline;

/// The first line of every plan. `#[autotune]` ignores a plan with another first line, which another
/// version of tvmtune wrote, and embeds the default plan instead.
pub const HEADER: &str = concat!("// tvmtune plan, ", env!("CARGO_PKG_VERSION"));

/// The line that the part of a text for CUDA devices starts with.
pub const CUDA_MARK: &str = "// what CUDA devices run";

/// The `cfg` of machine code.
const CFG: &str = "all(target_arch = \"x86_64\", not(miri))";

/// Machine code for one bucket and instruction set.
#[derive(Clone, Copy, Debug)]
pub struct Variant<'a> {
    /// The range of each dynamic dimension.
    pub bucket: &'a [Interval],
    /// The tier of the schedule.
    pub tier: Tier,
    /// The time of one launch where this code was measured, in ns.
    pub median_ns: Option<f64>,
    /// The effort of finding the schedule.
    pub effort: Effort,
    /// The generated code.
    pub generated: &'a Generated,
}

/// Prints the plan of a program for `buckets` of its dimensions; of the variants of one bucket the
/// first that a machine can execute runs.
pub fn plan(dag: &Dag, buckets: &[Vec<Interval>], variants: &[Variant<'_>]) -> String {
    let mut text = format!("{HEADER}\n");
    summary(&mut text, dag, buckets, variants);
    let mut list = String::new();
    for (n, ranges) in buckets.iter().enumerate() {
        let pairs: Vec<String> =
            ranges.iter().map(|it| format!("({}, {})", it.lo, it.hi)).collect();
        let pairs = pairs.join(", ");
        let work = work::name(n);
        list += &format!(
            "    rt::raw::Bucket {{ ranges: &[{pairs}], work: {work}, variants: &BUCKET_{n} }},\n"
        );
    }
    let n_buckets = buckets.len();
    text += &format!("pub static BUCKETS: [rt::raw::Bucket; {n_buckets}] = [\n{list}];\n");
    for (n, ranges) in buckets.iter().enumerate() {
        let variants: Vec<_> = variants.iter().filter(|it| it.bucket == *ranges).collect();
        bucket(&mut text, dag, n, &variants);
        work::print(&mut text, dag, n, ranges);
    }
    text.push('\n');
    text += &match dag.reference() {
        Some(it) => reference::print(dag, it),
        None => rust::print(&portable(dag)),
    };
    text
}

/// Prints a comment line for each bucket with the variants that run.
fn summary(text: &mut String, dag: &Dag, buckets: &[Vec<Interval>], variants: &[Variant<'_>]) {
    for ranges in buckets {
        let what = |it: &Variant<'_>| {
            let (isa, tier) = (it.generated.kernel.isa.name(), it.tier);
            match it.median_ns {
                Some(ns) => format!("{isa} {tier}, {:.1} us", ns / 1000.0),
                None => format!("{isa} {tier}"),
            }
        };
        let mut runs: Vec<String> =
            variants.iter().filter(|it| it.bucket == *ranges).map(what).collect();
        runs.push("portable".to_owned());
        *text += &format!("// {}: {}\n", place(dag, ranges), runs.join("; "));
    }
    text.push('\n');
}

/// Describes a bucket for readers: `M in 2..=40, N = 3`.
fn place(dag: &Dag, ranges: &[Interval]) -> String {
    let range = |(dim, range): (&Dim, &Interval)| {
        let (name, Interval { lo, hi }) = (&dim.name, range);
        if lo == hi { format!("{name} = {lo}") } else { format!("{name} in {lo}..={hi}") }
    };
    let ranges: Vec<String> = dag.dims.iter().zip(ranges).map(range).collect();
    if ranges.is_empty() { "always".to_owned() } else { ranges.join(", ") }
}

/// Combines the buckets of all dynamic dimensions, the first one varying slowest, as far as there are
/// launches in them.
pub fn buckets(dag: &Dag, by_dim: &[Vec<Interval>]) -> Vec<Vec<Interval>> {
    let all = by_dim.iter().fold(vec![Vec::new()], |combinations, buckets| {
        let extended = |it: Vec<Interval>| {
            buckets.iter().map(move |bucket| [it.as_slice(), &[*bucket]].concat())
        };
        combinations.into_iter().flat_map(extended).collect()
    });
    all.iter().filter_map(|it| dims::narrowed(&dag.dims, it)).collect()
}

/// Returns the name of the plan of a workload for `buckets` of its dimensions, and of its file, less
/// the ending: functions of one program may divide its dimensions differently.
pub fn plan_name(workload: &str, buckets: &[Vec<Interval>]) -> String {
    const DIGITS: usize = 8;
    let bounds = buckets.iter().flatten().flat_map(|it| [it.lo, it.hi]);
    let bytes: Vec<u8> = bounds.flat_map(i64::to_le_bytes).collect();
    let hash: String = Sha256::digest(bytes).iter().map(|it| format!("{it:02x}")).collect();
    format!("{workload}.{}", &hash[..DIGITS])
}

/// Prints the plan of an untuned program: default schedules for both instruction sets.
pub fn default_plan(dag: &Dag, buckets: &[Vec<Interval>]) -> String {
    let mut generated = Vec::new();
    for ranges in buckets {
        let narrow = dag.specialize(ranges);
        for isa in [Isa::Avx512, Isa::Avx2] {
            let schedule = default::schedule(&narrow, &Target::generic(isa));
            // Programs without machine code run as portable Rust.
            generated.extend(generate(&schedule, isa).ok().map(|it| (ranges, it)));
        }
    }
    let mut variants = Vec::new();
    for (bucket, generated) in &generated {
        let (tier, effort) = (Tier::Default, Effort::default());
        variants.push(Variant { bucket, tier, median_ns: None, effort, generated });
    }
    plan(dag, buckets, &variants)
}

/// Lowers portable code: the default schedule without packed weights.
pub fn portable(dag: &Dag) -> Nest {
    let schedule = default::schedule(dag, &Target::generic(Isa::Avx2));
    let keeps_layout = |it: &&Instruction| !matches!(it, Instruction::Pack { .. });
    let trace: Vec<Instruction> = schedule.trace.iter().filter(keeps_layout).cloned().collect();
    let schedule = Schedule::replay(dag, &trace).unwrap_or_else(|_| Schedule::new(dag));
    nest::lower(&schedule)
}

/// Prints the variants of bucket `n`, and their code.
fn bucket(text: &mut String, dag: &Dag, n: usize, variants: &[&Variant<'_>]) {
    let n_variants = variants.len();
    let empty = format!("static BUCKET_{n}: [rt::raw::Variant; 0] = [];\n");
    if variants.is_empty() {
        text.push_str(&empty);
        return;
    }
    *text += &format!("#[cfg(not({CFG}))]\n{empty}");
    *text += &format!("#[cfg({CFG})]\nstatic BUCKET_{n}: [rt::raw::Variant; {n_variants}] = [\n");
    for it in variants {
        variant(text, dag, n, it);
    }
    text.push_str("];\n");
    for it in variants {
        numbers(text, n, it);
        for (phase, bytes) in it.generated.code.phases.iter().enumerate() {
            code(text, &entry(n, &it.generated.kernel, phase), bytes);
        }
    }
}

fn variant(text: &mut String, dag: &Dag, bucket: usize, variant: &Variant<'_>) {
    let Variant { tier, median_ns, effort, generated, .. } = variant;
    let Generated { kernel, code, artifact, .. } = generated;
    let isa = match kernel.isa {
        Isa::Avx512 => "Avx512",
        Isa::Avx2 => "Avx2",
    };
    let threads = match kernel.threads {
        Threads::One => "One",
        Threads::All => "All",
    };
    let entries: Vec<String> = (0..code.phases.len()).map(|it| entry(bucket, kernel, it)).collect();
    let table: Vec<String> = kernel.table.iter().map(|it| table_entry(dag, it)).collect();
    *text += &format!(
        "    rt::raw::Variant {{\n        \
                 isa: rt::Isa::{isa},\n        \
                 threads: rt::raw::Threads::{threads},\n        \
                 entries: &[{}],\n        \
                 table: &[{}],\n        \
                 numbers: {},\n        \
                 tier: rt::Tier::{tier:?},\n        \
                 median_ns: {median_ns:?},\n        \
                 effort: {},\n        \
                 artifact: \"{artifact}\",\n    \
         }},\n",
        entries.join(", "),
        table.join(", "),
        numbers_name(bucket, kernel),
        effort_literal(*effort),
    );
}

fn effort_literal(effort: Effort) -> String {
    let Effort { trials, seconds, search } = effort;
    let search = search.literal();
    format!("rt::Effort {{ trials: {trials}, seconds: {seconds:?}, search: rt::Search::{search} }}")
}

fn table_entry(dag: &Dag, entry: &TableEntry) -> String {
    let variant = match entry {
        TableEntry::Pointer { tensor, layout } => {
            let layout = layout.as_ref().map_or("None".to_owned(), layout_literal);
            format!("Pointer({}, {layout})", argument(dag, *tensor))
        }
        TableEntry::Workspace { .. } => "Workspace".to_owned(),
        TableEntry::Param(_) => "Param".to_owned(),
        TableEntry::Scalar(scalar, _) => format!("Scalar({})", scalar.0),
    };
    format!("rt::raw::TableEntry::{variant}")
}

fn layout_literal(layout: &Layout) -> String {
    let Layout { splits, order } = layout;
    format!("Some(&rt::raw::Layout {{ splits: &{splits:?}, order: &{order:?} }})")
}

/// Returns the position of a tensor among the arguments: parameters, then results.
fn argument(dag: &Dag, tensor: TensorId) -> usize {
    let mut arguments = dag.arguments().into_iter();
    arguments.position(|it| it == tensor).expect("a kernel takes the program's arguments")
}

fn entry(bucket: usize, kernel: &VectorCode, phase: usize) -> String {
    format!("bucket_{bucket}_{}_phase_{phase}", kernel.isa.name())
}

fn numbers_name(bucket: usize, kernel: &VectorCode) -> String {
    format!("bucket_{bucket}_{}_numbers", kernel.isa.name())
}

/// Prints the function that computes the numbers of a launch from the dimensions.
fn numbers(text: &mut String, bucket: usize, variant: &Variant<'_>) {
    let kernel = &variant.generated.kernel;
    let name = numbers_name(bucket, kernel);
    *text += &format!("#[cfg({CFG})]\nfn {name}(dims: &[i64], numbers: &mut [u64]) {{\n");
    let mut line =
        |n: usize, value: String| *text += &format!("    numbers[{n}] = {value} as u64;\n");
    for (n, entry) in kernel.table.iter().enumerate() {
        match entry {
            TableEntry::Param(value) | TableEntry::Workspace { bytes: value } => {
                line(n, dims_poly(value).operand());
            }
            TableEntry::Pointer { .. } | TableEntry::Scalar(..) => {}
        }
    }
    let n_entries = kernel.table.len();
    for (n, phase) in kernel.phases.iter().enumerate() {
        let counts = phase.tasks.iter().map(|(_, count)| match count {
            Count::Const(count) => count.max(&0).to_string(),
            Count::Param(slot) => format!("i64::max(0, {})", dims_poly(param(kernel, slot.0)).text),
        });
        let product: Vec<String> = counts.collect();
        let product = if product.is_empty() { "1".to_owned() } else { product.join(" * ") };
        line(n_entries + n, format!("({product})"));
    }
    line(n_entries + kernel.phases.len(), dims_poly(&kernel.scratch_bytes).operand());
    text.push_str("}\n");
}

fn param(kernel: &VectorCode, slot: u32) -> &Poly {
    match &kernel.table[slot as usize] {
        TableEntry::Param(value) => value,
        other => unreachable!("{other:?} is not a number"),
    }
}

fn dims_poly(value: &Poly) -> Text {
    rust::poly(value, &|leaf| match leaf {
        Atom::Dim(dim) => format!("dims[{}]", dim.0),
        other => unreachable!("{other:?} is not known at launch"),
    })
}

/// Prints a naked function of the bytes, aligned as they were when they were measured.
fn code(text: &mut String, name: &str, bytes: &[u8]) {
    *text += &format!(
        "#[cfg({CFG})]\n#[unsafe(naked)]\n\
         unsafe extern \"sysv64\" fn {name}(_: *const u64, _: *mut u8, _: u64, _: u64) {{\n    \
         ::core::arch::naked_asm!(\n        \".balign 64\",\n"
    );
    for line in bytes.chunks(64) {
        let (words, rest) = line.as_chunks::<8>();
        let words: Vec<String> =
            words.iter().map(|it| format!("{:#x}", u64::from_le_bytes(*it))).collect();
        let rest: Vec<String> = rest.iter().map(|it| format!("{it:#x}")).collect();
        for (directive, values) in [(".quad", words), (".byte", rest)] {
            if !values.is_empty() {
                *text += &format!("        \"{directive} {}\",\n", values.join(","));
            }
        }
    }
    text.push_str("    )\n}\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Search;
    use tvmtune_ir::dsl;

    const LINEAR: &str = "#[autotune(dims(M = 1..=40, N = 24, K = 10), buckets(M = [1, 40]))]
        fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, s: f32) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) * s)
        }";

    fn ranges() -> Vec<Vec<Interval>> {
        vec![vec![Interval::point(1)], vec![Interval { lo: 2, hi: 40 }]]
    }

    /// The bytes that the data directives of a naked function stand for.
    fn bytes_of(text: &str, function: &str) -> Vec<u8> {
        let lines = text.lines().skip_while(|it| !it.contains(&format!("fn {function}(")));
        let number = |it: &str| u64::from_str_radix(it.trim_start_matches("0x"), 16).unwrap();
        let mut bytes = Vec::new();
        for line in lines.take_while(|it| *it != "}") {
            let line = line.trim().trim_start_matches('"').trim_end_matches("\",");
            if let Some(words) = line.strip_prefix(".quad ") {
                bytes.extend(words.split(',').flat_map(|it| number(it).to_le_bytes()));
            } else if let Some(rest) = line.strip_prefix(".byte ") {
                bytes.extend(rest.split(',').map(|it| number(it) as u8));
            }
        }
        bytes
    }

    #[test]
    fn the_bytes_that_were_generated_are_embedded() {
        let dag = dsl::program(LINEAR).unwrap();
        let bucket = &ranges()[1];
        let narrow = dag.specialize(bucket);
        for isa in [Isa::Avx512, Isa::Avx2] {
            let schedule = default::schedule(&narrow, &Target::generic(isa));
            let generated = generate(&schedule, isa).unwrap();
            let tier = Tier::Exact;
            let effort = Effort { trials: 33, seconds: 4.5, search: Search::Partial };
            let median_ns = Some(1500.0);
            let variant = Variant { bucket, tier, median_ns, effort, generated: &generated };
            let text = plan(&dag, &ranges(), &[variant]);
            for (phase, code) in generated.code.phases.iter().enumerate() {
                let name = format!("bucket_1_{}_phase_{phase}", isa.name());
                assert_eq!(bytes_of(&text, &name), *code);
            }
            let effort = "rt::Effort { trials: 33, seconds: 4.5, search: rt::Search::Partial }";
            assert!(text.contains(effort), "{text}");
            let summary: Vec<&str> = text.lines().skip(1).take(2).collect();
            let runs = format!("// M in 2..=40: {} exact, 1.5 us; portable", isa.name());
            assert_eq!(summary, ["// M = 1: portable", &runs]);
        }
    }

    #[test]
    fn a_plan_is_rust_and_the_same_each_time() {
        let dag = dsl::program(LINEAR).unwrap();
        let text = default_plan(&dag, &ranges());
        assert_eq!(text, default_plan(&dag, &ranges()));
        let items = syn::parse_file(&text).unwrap().items;
        let has = |name: &str| {
            items.iter().any(|it| match it {
                syn::Item::Static(it) => it.ident == name,
                syn::Item::Fn(it) => it.sig.ident == name,
                _ => false,
            })
        };
        for name in ["BUCKETS", "BUCKET_0", "BUCKET_1", "bucket_0_avx2_phase_0", "portable"] {
            assert!(has(name), "{name} is missing");
        }
    }

    #[test]
    fn programs_without_machine_code_are_portable() {
        let source = "#[autotune(dims(N = 3))] fn f(x: Tensor<f64, N>) -> Tensor<f64, N> {
            compute(|n| pow(x[[n]], 0.3))
        }";
        let text = default_plan(&dsl::program(source).unwrap(), &[Vec::new()]);
        assert_eq!(text.lines().nth(1), Some("// always: portable"));
        assert!(text.contains("static BUCKET_0: [rt::raw::Variant; 0] = [];"), "{text}");
    }

    #[test]
    fn plans_of_other_buckets_have_other_names() {
        let whole = [vec![Interval { lo: 1, hi: 40 }]];
        assert_ne!(plan_name("ab", &whole), plan_name("ab", &ranges()));
        assert_eq!(plan_name("ab", &ranges()), plan_name("ab", &ranges()));
        assert!(plan_name("ab", &[Vec::new()]).starts_with("ab."));
    }

    #[test]
    fn buckets_combine() {
        let [a, b, c] = [1, 2, 3].map(Interval::point);
        let dag = |dims: &str| {
            dsl::program(&format!(
            "#[autotune(dims({dims}))] fn f(x: Tensor<f32, S>, y: Tensor<f32, T>) -> Tensor<f32, T> {{
                compute(|t| x.get([t]).unwrap_or(y[[t]]))
            }}"
        )).unwrap()
        };
        let both = dag("S = 1..=9, T = 1..=9");
        assert_eq!(buckets(&both, &[vec![a, b], vec![c]]), [[a, c], [b, c]]);
        assert_eq!(buckets(&dag("S = 8, T = 8"), &[]), [Vec::new()]);
        let above = dag("T = 1..=9, S = T..=9");
        let ab = Interval { lo: 1, hi: 2 };
        let found = buckets(&above, &[vec![ab, c], vec![a, Interval { lo: 2, hi: 9 }]]);
        let to = |lo, hi| Interval { lo, hi };
        assert_eq!(found, [[ab, a], [to(2, 2), to(2, 2)], [c, a], [c, to(2, 3)]]);
    }
}
