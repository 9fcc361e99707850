//! The Rust source that a crate embeds of one program for CUDA devices, when a build is planned.
//!
//! In: a [`Dag`], and for buckets of its dimensions the generated code, with the files it was
//! compiled to. Out: source that follows that of [`super::plan`], from [`CUDA_MARK`] on: a static
//! `CUDA` with a list of variants for each bucket, in the types of `tvmtune_runtime::raw::cuda`. Next:
//! `#[autotune]` includes it if the crate launches on CUDA devices, else the source before the mark.
//!
//! # Invariants
//!
//! - Files are named, not written: they lie where `TVMTUNE_PLAN_DIR` says.
//! - Variants of a bucket are in the order given: the runtime takes the first that a device runs.

use super::{CUDA_MARK, argument, dims_poly, effort_literal, layout_literal, place};
use crate::record::{Effort, Tier};
use tvmtune_cuda::Generated;
use tvmtune_cuda::codegen::{ALIGNMENT, Entry, Param, TensorMapEncoding};
use tvmtune_cuda::grid::MemoryScope;
use tvmtune_ir::dag::kernel_template::{FieldValue, ParamField};
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
    /// The effort of finding the schedule.
    pub effort: Effort,
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

/// Returns the `.version` of a PTX text, `(9, 0)`, which a driver must know to compile it.
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
        let tables: Vec<Vec<TableEntry>> =
            variants.iter().map(|it| argument_table(it.generated)).collect();
        for (k, (it, table)) in variants.iter().zip(&tables).enumerate() {
            print_variant(&mut text, dag, &launch_numbers_name(n, k), it, table);
        }
        text.push_str("];\n");
        for (k, (it, table)) in variants.iter().zip(&tables).enumerate() {
            print_launch_numbers(&mut text, &launch_numbers_name(n, k), it.generated, table);
        }
    }
    text
}

fn launch_numbers_name(bucket: usize, variant: usize) -> String {
    format!("cuda_{bucket}_{variant}_numbers")
}

/// An entry of the argument table, which has each argument of the kernels once.
#[derive(Clone, Debug, PartialEq)]
enum TableEntry {
    Argument(TensorId),
    /// A temporary of so many bytes.
    Workspace(TensorId, Poly),
    Dim(DimId),
    Scalar(u32),
    /// A word of the struct of hand-written kernels.
    StructWord(u32),
}

fn table_entry(generated: &Generated, param: Param) -> TableEntry {
    match param {
        Param::TensorMap(map) => {
            table_entry(generated, Param::Pointer(generated.unit.tensor_maps[map].tensor))
        }
        Param::Dim(dim) => TableEntry::Dim(dim),
        Param::Scalar(scalar) => TableEntry::Scalar(scalar.0),
        Param::StructWord(word) => TableEntry::StructWord(word),
        Param::Pointer(tensor) => {
            let buffer = generated.grid.buffer(tensor);
            if buffer.scope != MemoryScope::Workspace {
                return TableEntry::Argument(tensor);
            }
            let element = Poly::constant(buffer.dtype.bytes() as i64);
            let n_bytes = buffer.shape.iter().fold(element, |n, it| n * it.clone());
            TableEntry::Workspace(tensor, n_bytes)
        }
    }
}

/// Returns the argument table of the kernels, in order of first use.
fn argument_table(generated: &Generated) -> Vec<TableEntry> {
    let mut table = Vec::new();
    for param in generated.unit.entries.iter().flat_map(|it| &it.params) {
        let entry = table_entry(generated, *param);
        if table.contains(&entry) {
            continue;
        }
        let is_struct = entry == TableEntry::StructWord(0);
        table.push(entry);
        if let Some(it) = generated.unit.param_struct.as_ref().filter(|_| is_struct) {
            // Its words follow each other, as a kernel takes them.
            table.extend((1..it.n_words()).map(TableEntry::StructWord));
        }
    }
    table
}

/// Returns the position of a kernel's parameter in the argument table.
fn position(generated: &Generated, table: &[TableEntry], param: Param) -> usize {
    let entry = table_entry(generated, param);
    table.iter().position(|it| *it == entry).expect("the table was made of the parameters")
}

fn print_variant(
    text: &mut String,
    dag: &Dag,
    numbers: &str,
    variant: &Variant<'_>,
    table: &[TableEntry],
) {
    let Variant { tier, median_ns, effort, generated, images, .. } = variant;
    let images: Vec<String> = images.iter().map(image_literal).collect();
    let function = |it: &Entry| function_literal(generated, it, table);
    let functions: Vec<String> = generated.unit.entries.iter().map(function).collect();
    let entry = |it: &TableEntry| {
        format!("rt::raw::cuda::TableEntry::{}", entry_literal(dag, generated, it))
    };
    let maps = tensor_map_literals(generated, table);
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
                 effort: {},\n        \
                 artifact: \"{}\",\n    \
         }},\n",
        slice_literal(&images),
        slice_literal(&functions),
        slice_literal(&table),
        if maps.is_empty() { "&[]".to_owned() } else { slice_literal(&maps) },
        effort_literal(*effort),
        generated.artifact,
    );
}

fn slice_literal(items: &[String]) -> String {
    let lines: Vec<String> = items.iter().map(|it| format!("            {it},\n")).collect();
    format!("&[\n{}        ]", lines.concat())
}

fn image_literal(image: &Image) -> String {
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

fn function_literal(generated: &Generated, entry: &Entry, table: &[TableEntry]) -> String {
    let Entry { name, params, block, shared_bytes, .. } = entry;
    let param = |it: &Param| {
        if let Param::TensorMap(map) = it {
            return format!("rt::raw::cuda::Param::TensorMap({map})");
        }
        format!("rt::raw::cuda::Param::Entry({})", position(generated, table, *it))
    };
    let params: Vec<String> = params.iter().map(param).collect();
    let params = params.join(", ");
    format!(
        "rt::raw::cuda::Function {{ name: \"{name}\", block: {block:?}, \
         shared_bytes: {shared_bytes}, params: &[{params}] }}"
    )
}

fn entry_literal(dag: &Dag, generated: &Generated, entry: &TableEntry) -> String {
    match entry {
        TableEntry::Argument(tensor) => {
            let layout = generated.grid.buffer(*tensor).layout.as_ref();
            let layout = layout.map_or("None".to_owned(), layout_literal);
            let arg = argument(dag, *tensor);
            format!("Pointer {{ arg: {arg}, layout: {layout}, align: {ALIGNMENT} }}")
        }
        TableEntry::Workspace(..) => "Workspace".to_owned(),
        TableEntry::Dim(_) => "Param".to_owned(),
        TableEntry::Scalar(scalar) => format!("Scalar({scalar})"),
        TableEntry::StructWord(word) => {
            let fields = generated.unit.param_struct.iter().flat_map(|it| it.fields_of(*word));
            let fields: Vec<String> = fields.map(field_literal).collect();
            format!("Fields(&[{}])", fields.join(", "))
        }
    }
}

fn field_literal(field: &ParamField) -> String {
    let value = match field.value {
        FieldValue::Dim(dim) => format!("Dim({})", dim.0),
        FieldValue::Scalar(scalar) => format!("Scalar({})", scalar.0),
    };
    let (shift, bits) = (8 * (field.offset % 8), 8 * field.bytes);
    format!(
        "rt::raw::cuda::Field {{ value: rt::raw::cuda::FieldValue::{value}, shift: {shift}, \
         bits: {bits} }}"
    )
}

fn tensor_map_literals(generated: &Generated, table: &[TableEntry]) -> Vec<String> {
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

/// Prints the function from the dimensions to the integers of a launch: those of the argument table,
/// the blocks of each kernel in x, y and z, then extents and strides of tensor maps.
fn print_launch_numbers(
    text: &mut String,
    name: &str,
    generated: &Generated,
    table: &[TableEntry],
) {
    *text += &format!("fn {name}(dims: &[i64], numbers: &mut [u64]) {{\n");
    let mut line =
        |n: usize, value: &str| *text += &format!("    numbers[{n}] = {value} as u64;\n");
    for (n, entry) in table.iter().enumerate() {
        match entry {
            TableEntry::Workspace(_, bytes) => line(n, &dims_poly(bytes).operand()),
            TableEntry::Dim(dim) => line(n, &format!("dims[{}]", dim.0)),
            TableEntry::Argument(_) | TableEntry::Scalar(_) | TableEntry::StructWord(_) => {}
        }
    }
    let grids = generated.unit.entries.iter().flat_map(|it| &it.grid);
    for (n, blocks) in grids.enumerate() {
        let blocks = match blocks.as_constant() {
            Some(blocks) => blocks.max(0).to_string(),
            None => format!("i64::max(0, {})", dims_poly(blocks).text),
        };
        line(table.len() + n, &blocks);
    }
    let of_maps =
        generated.unit.tensor_maps.iter().flat_map(|it| it.extents.iter().chain(&it.strides));
    for (n, number) in of_maps.enumerate() {
        let first = table.len() + 3 * generated.unit.entries.len();
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
        generated.artifact = ArtifactId("c0".repeat(32).parse().unwrap());
        assert_eq!(generated.unit.entries.len(), 2);
        let (tier, median_ns) = (Tier::Exact, Some(1500.0));
        let bucket = &buckets[1];
        let (arch, images, generated) = (HOPPER, &images(), &generated);
        let effort = Effort::default();
        let variant = Variant { bucket, arch, tier, median_ns, effort, generated, images };
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
                    rt::raw::cuda::Function { name: "sums_0", block: [1, 1, 1], shared_bytes: 0, params: &[rt::raw::cuda::Param::Entry(0), rt::raw::cuda::Param::Entry(1), rt::raw::cuda::Param::Entry(2)] },
                    rt::raw::cuda::Function { name: "sums_1", block: [1, 1, 1], shared_bytes: 0, params: &[rt::raw::cuda::Param::Entry(1), rt::raw::cuda::Param::Entry(3), rt::raw::cuda::Param::Entry(2), rt::raw::cuda::Param::Entry(4)] },
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
                effort: rt::Effort { trials: 0, seconds: 0.0, search: rt::Search::None },
                artifact: "c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0",
            },
        ];
        fn cuda_1_0_numbers(dims: &[i64], numbers: &mut [u64]) {
            numbers[1] = (4 * dims[0]) as u64;
            numbers[2] = dims[0] as u64;
            numbers[5] = i64::max(0, i64::div_euclid(dims[0] + 7, 8)) as u64;
            numbers[6] = 1 as u64;
            numbers[7] = 1 as u64;
            numbers[8] = i64::max(0, i64::div_euclid(dims[0] + 7, 8)) as u64;
            numbers[9] = 1 as u64;
            numbers[10] = 1 as u64;
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
            let entry = table_entry(&generated, *param);
            let Param::Pointer(tensor) = *param else { continue };
            let is_workspace = generated.grid.buffer(tensor).scope == MemoryScope::Workspace;
            assert_eq!(matches!(entry, TableEntry::Workspace(..)), is_workspace);
        }
        let arguments: Vec<String> = argument_table(&generated)
            .iter()
            .map(|it| entry_literal(&dag, &generated, it))
            .collect();
        let pointers = arguments.iter().filter(|it| it.starts_with("Pointer")).count();
        assert_eq!(pointers, 3, "{arguments:?}");
    }

    #[test]
    fn versions_are_read_from_ptx() {
        assert_eq!(ptx_version("//\n.version 8.7\n.target sm_90\n"), Some((8, 7)));
        assert_eq!(ptx_version(".target sm_90\n"), None);
    }
}
