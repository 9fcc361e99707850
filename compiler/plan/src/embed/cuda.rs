//! Steps 10 and 11 of 12, for GPUs: the Rust text that a crate embeds of one program for CUDA devices.
//!
//! In: a [`Dag`], and for buckets of its dimensions the generated code, with the files it was
//! compiled to. Out: text that follows that of [`super::plan`], from [`CUDA_MARK`] on: a static `CUDA`
//! with a list for each bucket, as `tvmtune_runtime::raw::cuda` has it. A crate without code for
//! devices leaves the text from there on out.
//!
//! # Invariants
//!
//! - Files are named, not written: they lie where `TVMTUNE_PLAN_DIR` says.
//! - Variants of a bucket are in the order given: the runtime takes the first that a device runs.

use super::{CUDA_MARK, argument, dims_poly, layout_literal, place};
use crate::record::Tier;
use tvmtune_cuda::Generated;
use tvmtune_cuda::codegen::{ALIGNMENT, Entry, Param, TensorMapEncoding};
use tvmtune_cuda::grid::MemoryScope;
use tvmtune_ir::dag::{Dag, TensorId};
use tvmtune_ir::poly::{DimId, Interval, Poly};
use tvmtune_ir::target::gpu::Arch;

/// Code for one bucket and architecture.
#[derive(Clone, Copy, Debug)]
pub struct Variant<'a> {
    /// The range of each dynamic dimension.
    pub bucket: &'a [Interval],
    /// The architecture it was generated for.
    pub arch: Arch,
    /// The tier of the schedule.
    pub tier: Tier,
    /// The time of one launch where this code was measured, in ns.
    pub median_ns: Option<f64>,
    /// The generated code.
    pub generated: &'a Generated,
    /// The compiled files, the most specific first.
    pub images: &'a [Image],
}

/// A compiled file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The architecture it was compiled for.
    pub arch: Arch,
    /// Its format.
    pub format: Format,
    /// Its name.
    pub file: String,
}

/// The format of a compiled file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// To machine code.
    Cubin,
    /// To PTX of that version.
    Ptx((u8, u8)),
}

/// The version `(9, 0)` of PTX, which a driver must know to compile it.
pub fn ptx_version(ptx: &str) -> Option<(u8, u8)> {
    let line = ptx.lines().find_map(|it| it.strip_prefix(".version "))?;
    let (major, minor) = line.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The text for a program whose dimensions are divided into `buckets`; empty if there is no code
/// for any of them.
pub fn plan(dag: &Dag, buckets: &[Vec<Interval>], variants: &[Variant<'_>]) -> String {
    let mut text = String::new();
    if variants.is_empty() {
        return text;
    }
    text += &format!("\n{CUDA_MARK}\n");
    for Variant { bucket, arch, tier, median_ns, .. } in variants {
        let time = median_ns.map_or(String::new(), |ns| format!(", {:.1} us", ns / 1000.0));
        text += &format!("// {}: {arch} {tier}{time}\n", place(dag, bucket));
    }
    let n_buckets = buckets.len();
    let lists: Vec<String> = (0..n_buckets).map(|it| format!("&CUDA_{it}")).collect();
    let lists = lists.join(", ");
    text += &format!("\npub static CUDA: [&[rt::raw::cuda::Variant]; {n_buckets}] = [{lists}];\n");
    for (n, ranges) in buckets.iter().enumerate() {
        let variants: Vec<_> = variants.iter().filter(|it| it.bucket == *ranges).collect();
        let n_variants = variants.len();
        let ty = format!("[rt::raw::cuda::Variant; {n_variants}]");
        text += &format!("static CUDA_{n}: {ty} = [\n");
        let tables: Vec<Vec<Word>> = variants.iter().map(|it| table(it.generated)).collect();
        for (k, (it, table)) in variants.iter().zip(&tables).enumerate() {
            variant(&mut text, dag, &numbers_name(n, k), it, table);
        }
        text.push_str("];\n");
        for (k, (it, table)) in variants.iter().zip(&tables).enumerate() {
            numbers(&mut text, &numbers_name(n, k), it.generated, table);
        }
    }
    text
}

fn numbers_name(bucket: usize, variant: usize) -> String {
    format!("cuda_{bucket}_{variant}_numbers")
}

/// An entry of the table of launch arguments, each of them once.
#[derive(Clone, Debug, PartialEq)]
enum Word {
    Argument(TensorId),
    /// A temporary of so many bytes.
    Workspace(TensorId, Poly),
    Dim(DimId),
    Scalar(u32),
}

fn word(generated: &Generated, param: Param) -> Word {
    match param {
        Param::TensorMap(map) => {
            word(generated, Param::Pointer(generated.unit.tensor_maps[map].tensor))
        }
        Param::Dim(dim) => Word::Dim(dim),
        Param::Scalar(scalar) => Word::Scalar(scalar.0),
        Param::Pointer(tensor) => {
            let buffer = generated.grid.buffer(tensor);
            if buffer.scope != MemoryScope::Workspace {
                return Word::Argument(tensor);
            }
            let element = Poly::constant(buffer.dtype.bytes() as i64);
            let n_bytes = buffer.shape.iter().fold(element, |n, it| n * it.clone());
            Word::Workspace(tensor, n_bytes)
        }
    }
}

/// The arguments of the functions, in order of first use.
fn table(generated: &Generated) -> Vec<Word> {
    let mut table = Vec::new();
    for param in generated.unit.entries.iter().flat_map(|it| &it.params) {
        let word = word(generated, *param);
        if !table.contains(&word) {
            table.push(word);
        }
    }
    table
}

/// Returns the position of a parameter in the table, which has all that functions are passed.
fn position(generated: &Generated, table: &[Word], param: Param) -> usize {
    let word = word(generated, param);
    table.iter().position(|it| *it == word).expect("the table was made of the parameters")
}

fn variant(text: &mut String, dag: &Dag, numbers: &str, variant: &Variant<'_>, table: &[Word]) {
    let Variant { tier, median_ns, generated, images, .. } = variant;
    let images: Vec<String> = images.iter().map(image).collect();
    let function = |it: &Entry| function(generated, it, table);
    let functions: Vec<String> = generated.unit.entries.iter().map(function).collect();
    let entry = |it: &Word| format!("rt::raw::cuda::TableEntry::{}", entry(dag, generated, it));
    let maps = tensor_maps(generated, table);
    let table: Vec<String> = table.iter().map(entry).collect();
    *text += &format!(
        "    rt::raw::cuda::Variant {{\n        \
                 images: {},\n        \
                 functions: {},\n        \
                 table: {},\n        \
                 maps: {},\n        \
                 numbers: {numbers},\n        \
                 tier: rt::Tier::{tier:?},\n        \
                 median_ns: {median_ns:?},\n        \
                 artifact: \"{}\",\n    \
         }},\n",
        list(&images),
        list(&functions),
        list(&table),
        if maps.is_empty() { "&[]".to_owned() } else { list(&maps) },
        generated.artifact,
    );
}

fn list(items: &[String]) -> String {
    let lines: Vec<String> = items.iter().map(|it| format!("            {it},\n")).collect();
    format!("&[\n{}        ]", lines.concat())
}

fn image(image: &Image) -> String {
    let Image { arch: Arch { sm, exact }, format, file } = image;
    let (major, minor) = (sm / 10, sm % 10);
    let format = match format {
        Format::Cubin => "Cubin".to_owned(),
        Format::Ptx(version) => format!("Ptx({version:?})"),
    };
    format!(
        "rt::raw::cuda::Image {{ \
             arch: rt::raw::cuda::Arch {{ major: {major}, minor: {minor}, exact: {exact} }}, \
             format: rt::raw::cuda::Format::{format}, \
             bytes: ::core::include_bytes!(\
                 ::core::concat!(::core::env!(\"TVMTUNE_PLAN_DIR\"), \"/{file}\")) }}"
    )
}

fn function(generated: &Generated, entry: &Entry, table: &[Word]) -> String {
    let Entry { name, params, threads, shared_bytes, .. } = entry;
    let param = |it: &Param| {
        if let Param::TensorMap(map) = it {
            return format!("rt::raw::cuda::Param::TensorMap({map})");
        }
        format!("rt::raw::cuda::Param::Entry({})", position(generated, table, *it))
    };
    let params: Vec<String> = params.iter().map(param).collect();
    let params = params.join(", ");
    format!(
        "rt::raw::cuda::Function {{ name: \"{name}\", threads: {threads}, \
         shared_bytes: {shared_bytes}, params: &[{params}] }}"
    )
}

fn entry(dag: &Dag, generated: &Generated, word: &Word) -> String {
    match word {
        Word::Argument(tensor) => {
            let layout = generated.grid.buffer(*tensor).layout.as_ref();
            let layout = layout.map_or("None".to_owned(), layout_literal);
            let arg = argument(dag, *tensor);
            format!("Pointer {{ arg: {arg}, layout: {layout}, align: {ALIGNMENT} }}")
        }
        Word::Workspace(..) => "Workspace".to_owned(),
        Word::Dim(_) => "Param".to_owned(),
        Word::Scalar(scalar) => format!("Scalar({scalar})"),
    }
}

fn tensor_maps(generated: &Generated, table: &[Word]) -> Vec<String> {
    let mut numbers = 0;
    let mut map = |it: &TensorMapEncoding| {
        let entry = position(generated, table, Param::Pointer(it.tensor));
        let TensorMapEncoding { element, box_dims, element_strides, swizzle, .. } = it;
        let first = numbers;
        numbers += it.extents.len() + it.strides.len();
        format!(
            "rt::raw::cuda::TensorMap {{ entry: {entry}, element: {element}, \
             box_dims: &{box_dims:?}, element_strides: &{element_strides:?}, swizzle: {swizzle}, \
             numbers: {first} }}"
        )
    };
    generated.unit.tensor_maps.iter().map(&mut map).collect()
}

/// Prints the function that computes the numbers of a launch from the dimensions.
fn numbers(text: &mut String, name: &str, generated: &Generated, table: &[Word]) {
    *text += &format!("fn {name}(dims: &[i64], numbers: &mut [u64]) {{\n");
    let mut line =
        |n: usize, value: &str| *text += &format!("    numbers[{n}] = {value} as u64;\n");
    for (n, word) in table.iter().enumerate() {
        match word {
            Word::Workspace(_, bytes) => line(n, &dims_poly(bytes).operand()),
            Word::Dim(dim) => line(n, &format!("dims[{}]", dim.0)),
            Word::Argument(_) | Word::Scalar(_) => {}
        }
    }
    for (n, entry) in generated.unit.entries.iter().enumerate() {
        line(table.len() + n, &format!("i64::max(0, {})", dims_poly(&entry.blocks).text));
    }
    let of_maps =
        generated.unit.tensor_maps.iter().flat_map(|it| it.extents.iter().chain(&it.strides));
    for (n, number) in of_maps.enumerate() {
        let first = table.len() + generated.unit.entries.len();
        line(first + n, &dims_poly(number).operand());
    }
    text.push_str("}\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::artifact::ArtifactId;
    use tvmtune_ir::dsl;
    use tvmtune_ir::target::GpuTarget;
    use tvmtune_schedule::{AxisId, LoopKind, Schedule, StageId};
    use tvmtune_space::default;

    const HOPPER: Arch = Arch { sm: 90, exact: true };

    /// Two kernels: the sums of rows, which have to wait in memory for the second.
    const SUMS: &str = "#[autotune(dims(M = 1..=40, N = 24), buckets(M = [1, 40]))]
        fn sums(x: Tensor<f32, M, N>, s: f32) -> Tensor<f32, M> {
            let sums = compute(|i| sum(0..N, |j| x[[i, j]]));
            compute(|i| sums[[i]] * s)
        }";

    fn buckets() -> Vec<Vec<Interval>> {
        vec![vec![Interval::point(1)], vec![Interval { lo: 2, hi: 40 }]]
    }

    fn images() -> Vec<Image> {
        let later = Arch { exact: false, ..HOPPER };
        let file = |it: &str| format!("0f{it}");
        vec![
            Image { arch: HOPPER, format: Format::Cubin, file: file(".cubin") },
            Image { arch: later, format: Format::Ptx((9, 0)), file: file(".ptx") },
        ]
    }

    /// The text for the second bucket, by a schedule of two phases, with blocks of eight rows.
    fn text() -> String {
        let (dag, buckets) = (dsl::program(SUMS).unwrap(), buckets());
        let mut schedule = Schedule::new(&dag.specialize(&buckets[1]));
        for stage in [StageId(0), StageId(1)] {
            let parts = schedule.split(stage, AxisId(0), &[8]).unwrap();
            schedule.annotate(stage, parts[0], LoopKind::Parallel).unwrap();
        }
        let mut generated = tvmtune_cuda::generate(&schedule).unwrap();
        generated.artifact = ArtifactId("c0ffee".to_owned());
        assert_eq!(generated.unit.entries.len(), 2);
        let (tier, median_ns) = (Tier::Exact, Some(1500.0));
        let bucket = &buckets[1];
        let (arch, images, generated) = (HOPPER, &images(), &generated);
        let variant = Variant { bucket, arch, tier, median_ns, generated, images };
        plan(&dag, &buckets, &[variant])
    }

    #[test]
    fn functions_are_passed_what_the_table_has() {
        insta::assert_snapshot!(text(), @r#"
        // what CUDA devices run
        // M in 2..=40: sm_90a exact, 1.5 us

        pub static CUDA: [&[rt::raw::cuda::Variant]; 2] = [&CUDA_0, &CUDA_1];
        static CUDA_0: [rt::raw::cuda::Variant; 0] = [
        ];
        static CUDA_1: [rt::raw::cuda::Variant; 1] = [
            rt::raw::cuda::Variant {
                images: &[
                    rt::raw::cuda::Image { arch: rt::raw::cuda::Arch { major: 9, minor: 0, exact: true }, format: rt::raw::cuda::Format::Cubin, bytes: ::core::include_bytes!(::core::concat!(::core::env!("TVMTUNE_PLAN_DIR"), "/0f.cubin")) },
                    rt::raw::cuda::Image { arch: rt::raw::cuda::Arch { major: 9, minor: 0, exact: false }, format: rt::raw::cuda::Format::Ptx((9, 0)), bytes: ::core::include_bytes!(::core::concat!(::core::env!("TVMTUNE_PLAN_DIR"), "/0f.ptx")) },
                ],
                functions: &[
                    rt::raw::cuda::Function { name: "sums_0", threads: 1, shared_bytes: 0, params: &[rt::raw::cuda::Param::Entry(0), rt::raw::cuda::Param::Entry(1), rt::raw::cuda::Param::Entry(2)] },
                    rt::raw::cuda::Function { name: "sums_1", threads: 1, shared_bytes: 0, params: &[rt::raw::cuda::Param::Entry(1), rt::raw::cuda::Param::Entry(3), rt::raw::cuda::Param::Entry(2), rt::raw::cuda::Param::Entry(4)] },
                ],
                table: &[
                    rt::raw::cuda::TableEntry::Pointer { arg: 0, layout: None, align: 16 },
                    rt::raw::cuda::TableEntry::Workspace,
                    rt::raw::cuda::TableEntry::Param,
                    rt::raw::cuda::TableEntry::Pointer { arg: 1, layout: None, align: 16 },
                    rt::raw::cuda::TableEntry::Scalar(0),
                ],
                maps: &[],
                numbers: cuda_1_0_numbers,
                tier: rt::Tier::Exact,
                median_ns: Some(1500.0),
                artifact: "c0ffee",
            },
        ];
        fn cuda_1_0_numbers(dims: &[i64], numbers: &mut [u64]) {
            numbers[1] = (4 * dims[0]) as u64;
            numbers[2] = dims[0] as u64;
            numbers[5] = i64::max(0, i64::div_euclid(dims[0] + 7, 8)) as u64;
            numbers[6] = i64::max(0, i64::div_euclid(dims[0] + 7, 8)) as u64;
        }
        "#);
    }

    #[test]
    fn the_text_follows_that_for_cpus() {
        let (dag, buckets) = (dsl::program(SUMS).unwrap(), buckets());
        let cpu = super::super::default_plan(&dag, &buckets);
        let all = format!("{cpu}{}", text());
        assert_eq!(all.split_once(CUDA_MARK).unwrap().0.trim_end(), cpu.trim_end());
        let items = syn::parse_file(&all).unwrap().items;
        let is_cuda = |it: &&syn::Item| matches!(it, syn::Item::Static(it) if it.ident == "CUDA");
        assert_eq!(items.iter().filter(is_cuda).count(), 1);
        assert_eq!(plan(&dag, &buckets, &[]), "", "no code for devices leaves no trace");
    }

    #[test]
    fn layouts_and_types_are_those_of_the_grid() {
        let source = "#[autotune(dims(M = 4096, N = 4096, K = 4096))]
            fn linear(x: Tensor<f16, M, K>, w: Weight<f16, N, K>) -> Tensor<f16, M, N> {
                compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
            }";
        let dag = dsl::program(source).unwrap();
        let schedule = default::schedule(&dag, &GpuTarget::generic(HOPPER).into());
        let generated = tvmtune_cuda::generate(&schedule).unwrap();
        for param in generated.unit.entries.iter().flat_map(|it| &it.params) {
            let word = word(&generated, *param);
            let Param::Pointer(tensor) = *param else { continue };
            let is_workspace = generated.grid.buffer(tensor).scope == MemoryScope::Workspace;
            assert_eq!(matches!(word, Word::Workspace(..)), is_workspace);
        }
        let arguments: Vec<String> =
            table(&generated).iter().map(|it| entry(&dag, &generated, it)).collect();
        let pointers = arguments.iter().filter(|it| it.starts_with("Pointer")).count();
        assert_eq!(pointers, 3, "{arguments:?}");
    }

    #[test]
    fn versions_are_read_from_ptx() {
        assert_eq!(ptx_version("//\n.version 8.7\n.target sm_90\n"), Some((8, 7)));
        assert_eq!(ptx_version(".target sm_90\n"), None);
    }
}
