//! Code for GPUs on the emulator: the results of a GPU, on any machine.
//!
//! In: code, compiled to PTX, and arguments of a program. Out: its results, and what running it took; or
//! the first fault, by the line of the source.

use tvmtune_cuda::Generated;
use tvmtune_cuda::codegen::{Entry, Param, TensorMapEncoding, wide};
use tvmtune_cuda::grid::MemoryScope;
use tvmtune_emulator::{
    Argument, Buffer, Element, Fault, Launch, Memory, Module, Options, Report, Swizzle, TensorMap,
};
use tvmtune_ir::dag::kernel_template::FieldValue;
use tvmtune_ir::dag::{DType, Number, TensorId};
use tvmtune_ir::interp::Array;
use tvmtune_ir::poly::Poly;
use tvmtune_schedule::pack::pack;

/// The byte that arrays of results and workspace are filled with before anything is written.
const POISON: u8 = 0xff;

/// Runs every kernel of a program, one after the other; gives its results.
///
/// # Errors
///
/// The first fault.
///
/// # Panics
///
/// If the module is not that of the program, or arguments are not what it declares.
pub fn run(
    generated: &Generated,
    module: &Module,
    dims: &[i64],
    params: &[Array],
    scalars: &[Number],
    options: &Options,
) -> Result<Vec<Array>, Box<Fault>> {
    run_reporting(generated, module, dims, params, scalars, options).map(|it| it.0)
}

/// The same, with a report of each kernel.
///
/// # Errors
///
/// The first fault.
///
/// # Panics
///
/// As [`run`].
pub fn run_reporting(
    generated: &Generated,
    module: &Module,
    dims: &[i64],
    params: &[Array],
    scalars: &[Number],
    options: &Options,
) -> Result<(Vec<Array>, Vec<Report>), Box<Fault>> {
    let grid = &generated.grid;
    let mut memory = Memory::new();
    let mut buffers = Vec::new();
    for (n, buffer) in grid.buffers.iter().enumerate() {
        let shape = || buffer.shape.iter().map(|it| it.eval_dims(dims) as u64);
        let bytes = match (grid.params.iter().position(|it| it.0 as usize == n), buffer.scope) {
            (Some(param), _) => match &buffer.layout {
                Some(layout) => pack(&params[param], layout).bytes(),
                None => params[param].bytes(),
            },
            (None, MemoryScope::Argument | MemoryScope::Workspace) => {
                vec![POISON; (shape().product::<u64>() * buffer.dtype.bytes()) as usize]
            }
            _ => Vec::new(),
        };
        buffers.push(memory.add(&buffer.name, bytes));
    }
    let entries = generated.unit.entries.iter();
    let reports = entries
        .map(|it| launch(generated, module, it, dims, scalars, &buffers, &mut memory, options))
        .collect::<Result<_, _>>()?;
    let result = |it: &TensorId| {
        let buffer = grid.buffer(*it);
        let shape: Vec<u64> = buffer.shape.iter().map(|it| it.eval_dims(dims) as u64).collect();
        Array::from_bytes(buffer.dtype, &shape, memory.bytes(buffers[it.0 as usize]))
    };
    Ok((grid.outputs.iter().map(result).collect(), reports))
}

#[expect(clippy::too_many_arguments, reason = "a launch has many parts")]
fn launch(
    generated: &Generated,
    module: &Module,
    entry: &Entry,
    dims: &[i64],
    scalars: &[Number],
    buffers: &[Buffer],
    memory: &mut Memory,
    options: &Options,
) -> Result<Report, Box<Fault>> {
    let grid = &generated.grid;
    let blocks = entry.blocks_at(dims);
    if blocks.contains(&0) {
        return Ok(Report::default());
    }
    let argument = |it: &Param| match it {
        Param::TensorMap(map) => {
            tensor_map(&generated.unit.tensor_maps[*map], dims, buffers).into()
        }
        Param::StructWord(_) => Argument::Value(param_struct(generated, dims, scalars)),
        Param::Pointer(tensor) => Argument::from(buffers[tensor.0 as usize]),
        Param::Dim(dim) if wide(grid) => dims[dim.0 as usize].into(),
        Param::Dim(dim) => (dims[dim.0 as usize] as i32).into(),
        Param::Scalar(scalar) => {
            let n = scalar.0 as usize;
            scalar_argument(scalars[n], grid.scalars[n].dtype)
        }
    };
    let arguments: Vec<Argument> = entry.params.iter().map(argument).collect();
    let launch = Launch {
        grid: blocks.map(|it| it as u32),
        block: entry.block,
        cluster: None,
        dynamic_shared_bytes: entry.shared_bytes,
    };
    let kernel = module.kernel(&entry.name).expect("callers pass the module of this code");
    kernel.run(&launch, &arguments, memory, options)
}

/// The bytes of the struct of hand-written kernels.
fn param_struct(generated: &Generated, dims: &[i64], scalars: &[Number]) -> Vec<u8> {
    let Some(it) = &generated.unit.param_struct else { return Vec::new() };
    let mut bytes = vec![0; it.bytes as usize];
    for field in &it.fields {
        let value = match field.value {
            FieldValue::Dim(dim) => Argument::from(dims[dim.0 as usize]),
            FieldValue::Scalar(scalar) => {
                let n = scalar.0 as usize;
                scalar_argument(scalars[n], generated.grid.scalars[n].dtype)
            }
        };
        if let Argument::Value(value) = value {
            let (start, n_bytes) = (field.offset as usize, field.bytes as usize);
            bytes[start..start + n_bytes].copy_from_slice(&value[..n_bytes]);
        }
    }
    bytes
}

/// The tensor map that a driver encodes.
fn tensor_map(map: &TensorMapEncoding, dims: &[i64], buffers: &[Buffer]) -> TensorMap {
    let number = |it: &Poly| it.eval_dims(dims) as u64;
    TensorMap {
        base: (buffers[map.tensor.0 as usize], 0),
        element: Element::of_driver(map.element).expect("a type of elements"),
        dims: map.extents.iter().map(number).collect(),
        strides: map.strides.iter().map(number).collect(),
        box_dims: map.box_dims.clone(),
        element_strides: map.element_strides.clone(),
        swizzle: [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128]
            [map.swizzle as usize],
    }
}

fn scalar_argument(value: Number, dtype: DType) -> Argument {
    match dtype {
        DType::F32 | DType::F16 | DType::Bf16 => (value.cast(dtype).to_f64() as f32).into(),
        DType::F64 => value.to_f64().into(),
        DType::I8 => (value.to_i64() as i8).into(),
        DType::U8 | DType::Bool => (value.to_i64() as u8).into(),
        DType::U32 => (value.to_i64() as u32).into(),
        DType::I32 => (value.to_i64() as i32).into(),
        DType::I64 => value.to_i64().into(),
    }
}
