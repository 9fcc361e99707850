//! Kernels that somebody wrote, as a unit: their text between the macros that set their knobs and a
//! check of their parameters.
//!
//! Every kernel takes the same arguments: pointers to the parameters, in order, to the results that have
//! memory of their own, then run-time scalars, then the dimensions that a launch decides, as `Index`; or
//! after the pointers a struct that has those.
//!
//! # Invariant
//!
//! - The text does not depend on names of the program, so neither does its identity.

use std::collections::BTreeSet;

use super::{Entry, Param, Unit, element_type, scalar_type, wide};
use crate::grid::Grid;
use tvmtune_ir::dag::ScalarId;
use tvmtune_ir::dag::kernel_template::{KernelLaunch, ParamField, ParamStruct, SetLaunch};
use tvmtune_ir::poly::DimId;
use tvmtune_schedule::nest::HandWritten;

/// The text of the kernels, and how they are launched.
pub(super) fn unit(grid: &Grid, written: &HandWritten) -> Unit {
    let params = params(grid, written);
    let launches = written.template.kernels.iter().zip(&written.launches);
    let entry = |(kernel, launch): (&KernelLaunch, &SetLaunch)| Entry {
        name: kernel.name.clone(),
        params: params.clone(),
        grid: launch.grid.clone(),
        block: launch.block,
        shared_bytes: launch.shared_bytes,
    };
    Unit {
        source: source(grid, written, &params),
        entries: launches.map(entry).collect(),
        tensor_maps: Vec::new(),
        param_struct: written.template.params.clone(),
        names: BTreeSet::new(),
    }
}

fn params(grid: &Grid, written: &HandWritten) -> Vec<Param> {
    let results = grid.outputs.iter().filter(|it| !grid.params.contains(it));
    let pointers = grid.params.iter().chain(results).map(|it| Param::Pointer(*it));
    if written.template.params.is_some() {
        return pointers.chain([Param::StructWord(0)]).collect();
    }
    let scalars = (0..grid.scalars.len() as u32).map(|it| Param::Scalar(ScalarId(it)));
    let dims = (0..grid.dims.len() as u32).map(|it| Param::Dim(DimId(it)));
    pointers.chain(scalars).chain(dims).collect()
}

fn source(grid: &Grid, written: &HandWritten, params: &[Param]) -> String {
    let HandWritten { template, values, .. } = written;
    let index = if wide(grid) { "long long" } else { "int" };
    let mut text = String::from("#include \"tvmtune/kernel.cuh\"\n");
    // Before the macros, which may have the names of template parameters in headers.
    for line in template.source.lines().filter(|it| is_device_header(it)) {
        text += &format!("{}\n", line.trim());
    }
    text += &format!("using Index = {index};\n");
    let knobs = template.knobs.iter().zip(values);
    let knobs = knobs.map(|(knob, value)| (&knob.name, value.to_string()));
    let macros = template.macros.iter().map(|(name, value)| (name, value.to_string()));
    let macros: Vec<_> = macros.chain(knobs).collect();
    for (name, value) in &macros {
        text += &format!("#define {name} {value}\n");
    }
    text += &format!("#line 1 \"{}\"\n{}", template.file, template.source);
    for (name, _) in &macros {
        text += &format!("#undef {name}\n");
    }
    if let Some(it) = &template.params {
        text += &layout_check(it);
    }
    let types: Vec<String> = params.iter().map(|it| type_of(grid, written, *it)).collect();
    let is_struct = |it: &Param| matches!(it, Param::StructWord(_));
    let passed = types.iter().zip(params).map(|(name, param)| match is_struct(param) {
        true => name.clone(),
        false => with_namespace(name),
    });
    let passed: Vec<String> = passed.collect();
    let separator = if passed.is_empty() { "" } else { ", " };
    for name in template.kernels.iter().map(|it| &it.name) {
        text += &format!(
            "#line 1 \"the parameters of {name}\"\n\
             static_assert(tvmtune::Takes<decltype(&{name}){separator}{}>::value, \
             \"expected extern \\\"C\\\" __global__ void {name}({})\");\n",
            passed.join(", "),
            types.join(", ")
        );
    }
    text
}

/// Compares the places of fields with those that the compiler of the device gives them.
fn layout_check(params: &ParamStruct) -> String {
    let ParamStruct { name, bytes, fields } = params;
    let mut text = format!("#line 1 \"the layout of {name}\"\n");
    let mut check = |condition: String| {
        text += &format!(
            "static_assert({condition}, \"the bindings of {name} are of another struct\");\n"
        );
    };
    check(format!("sizeof({name}) == {bytes}"));
    for ParamField { name: field, offset, bytes, .. } in fields {
        // NVRTC has no `offsetof`; this is what it is made of elsewhere.
        check(format!("__INTADDR__(&((({name}*)0)->{field})) == {offset}"));
        check(format!("sizeof((({name}*)0)->{field}) == {bytes}"));
    }
    text
}

/// A type, named from outside of the namespace of the device headers.
fn with_namespace(name: &str) -> String {
    let (constant, element) = match name.strip_prefix("const ") {
        Some(element) => ("const ", element),
        None => ("", name),
    };
    let is_outside = element == "Index" || element.starts_with("bool");
    let namespace = if is_outside { "" } else { "tvmtune::" };
    format!("{constant}{namespace}{element}")
}

fn is_device_header(line: &str) -> bool {
    line.trim_start().starts_with("#include \"tvmtune/")
}

/// The type of a parameter: as it is written in the namespace of the device headers.
fn type_of(grid: &Grid, written: &HandWritten, param: Param) -> String {
    match param {
        Param::Pointer(tensor) => {
            let element = element_type(grid.buffer(tensor).dtype);
            let is_written = grid.outputs.contains(&tensor);
            format!("{}{element}*", if is_written { "" } else { "const " })
        }
        Param::Scalar(scalar) => scalar_type(grid.scalars[scalar.0 as usize].dtype).to_owned(),
        Param::Dim(_) => "Index".to_owned(),
        Param::StructWord(_) => {
            written.template.params.as_ref().map_or(String::new(), |it| it.name.clone())
        }
        // Descriptors are of generated code alone.
        Param::TensorMap(_) => "TensorMap".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::dsl;
    use tvmtune_schedule::Schedule;

    const SCALE: &str = r#"#[autotune(
            dims(N = 1..=1000),
            template = "kernels/scale.cu" ("extern \"C\" __global__ void scale(const float* x, float* y, float s, int N) {\n  int i = blockIdx.x * BLOCK + threadIdx.x;\n  if (i < N) y[i] = x[i] * s;\n}\n"),
            knobs(BLOCK in [128, 64]),
            kernels(scale(grid = (N + BLOCK - 1) / BLOCK, block = BLOCK))
        )]
        fn scale(x: Tensor<f32, N>, s: f32) -> Tensor<f32, N> {
            compute(|i| x[[i]] * s)
        }"#;

    #[test]
    fn knobs_are_macros_around_the_text() {
        let dag = dsl::program(SCALE).unwrap();
        let mut schedule = Schedule::new(&dag);
        schedule.set_knobs(&[64]).unwrap();
        let generated = crate::generate(&schedule).unwrap();
        insta::assert_snapshot!(generated.unit.source, @r#"
        #include "tvmtune/kernel.cuh"
        using Index = int;
        #define BLOCK 64
        #line 1 "kernels/scale.cu"
        extern "C" __global__ void scale(const float* x, float* y, float s, int N) {
          int i = blockIdx.x * BLOCK + threadIdx.x;
          if (i < N) y[i] = x[i] * s;
        }
        #undef BLOCK
        #line 1 "the parameters of scale"
        static_assert(tvmtune::Takes<decltype(&scale), const tvmtune::f32*, tvmtune::f32*, tvmtune::f32, Index>::value, "expected extern \"C\" __global__ void scale(const f32*, f32*, f32, Index)");
        "#);
        let entry = &generated.unit.entries[0];
        assert_eq!((entry.block, entry.shared_bytes), ([64, 1, 1], 0));
        assert_eq!(entry.blocks_at(&[129]), [3, 1, 1]);
    }

    #[test]
    fn each_setting_is_code_of_its_own() {
        let dag = dsl::program(SCALE).unwrap();
        let artifact = |block| {
            let mut schedule = Schedule::new(&dag);
            schedule.set_knobs(&[block]).unwrap();
            crate::generate(&schedule).unwrap().artifact
        };
        assert_ne!(artifact(64), artifact(128));
        assert_eq!(artifact(64), artifact(64));
    }
}
