//! What the runtime is told of generated code is enough to launch it: here the emulator launches by that
//! alone, for each case that is checked on GPUs, as the runtime does.

use tvmtune_acceptance::case;
use tvmtune_acceptance::load::{Described, bits, describe};
use tvmtune_acceptance::{bundle, problem::Problem};
use tvmtune_core::codegen::GeneratedCuda;
use tvmtune_core::interp::{Array, pack};
use tvmtune_emulator::{
    Argument, Buffer, Element, Launch, Memory, Module, Options, Swizzle, TensorMap,
};
use tvmtune_runtime::raw::cuda::{self as raw, Param, TableEntry};
use tvmtune_tests::nvrtc::nvrtc;

use super::{ptx, target};

/// An entry of the table: an address, or a number of at most 8 bytes.
#[derive(Clone, Copy)]
enum Word {
    Buffer(Buffer),
    Number(u64),
}

/// Runs a program by its description; gives its results.
fn run(
    described: &Described,
    module: &Module,
    (memory, arguments): (&mut Memory, &[Buffer]),
    (dims, scalars): (&[i64], &[u64]),
) {
    let variant = &described.variant;
    let mut numbers = vec![0; variant.n_numbers()];
    (described.numbers)(dims, &mut numbers);
    let (table, rest) = numbers.split_at(variant.table.len());
    let (blocks, of_maps) = rest.split_at(variant.functions.len());
    let mut word = |(entry, number): (&TableEntry, &u64)| match *entry {
        TableEntry::Pointer { arg, layout, .. } => {
            assert!(layout.is_none(), "weights are packed before");
            Word::Buffer(arguments[arg])
        }
        TableEntry::Shared => Word::Buffer(memory.add("temporary", vec![0xff; *number as usize])),
        TableEntry::Param => Word::Number(*number),
        TableEntry::Scalar(n) => Word::Number(scalars[n]),
    };
    let table: Vec<Word> = variant.table.iter().zip(table).map(&mut word).collect();
    for (function, n_blocks) in variant.functions.iter().zip(blocks) {
        let kernel = module.kernel(function.name).expect("the module has every function");
        assert_eq!(kernel.parameters().len(), function.params.len(), "{}", function.name);
        let argument = |(param, (_, n_bytes)): (&Param, &(u32, u32))| {
            let n = match *param {
                Param::Entry(n) => n,
                Param::Map(n) => {
                    let map = &variant.maps[n];
                    let Word::Buffer(buffer) = table[map.entry] else { panic!("no address") };
                    return tensor_map(map, buffer, &of_maps[map.numbers..]).into();
                }
            };
            match table[n] {
                Word::Buffer(buffer) => Argument::from(buffer),
                // As many of its bytes as the parameter has, the lowest first.
                Word::Number(it) => Argument::Value(it.to_le_bytes()[..*n_bytes as usize].to_vec()),
            }
        };
        let arguments: Vec<Argument> =
            function.params.iter().zip(kernel.parameters()).map(argument).collect();
        let launch = Launch {
            dynamic_shared_bytes: function.shared_bytes,
            ..Launch::linear(*n_blocks as u32, function.threads)
        };
        kernel.run(&launch, &arguments, memory, &Options::default()).unwrap();
    }
}

/// What a driver makes of a map.
fn tensor_map(map: &raw::TensorMap, buffer: Buffer, numbers: &[u64]) -> TensorMap {
    let (dims, strides) = numbers[..map.n_numbers()].split_at(map.extents.len());
    // `CUtensorMapDataType`.
    let element = match map.element {
        0 => Element::U8,
        3 => Element::I32,
        5 => Element::I64,
        6 => Element::F16,
        7 => Element::F32,
        8 => Element::F64,
        9 => Element::Bf16,
        other => panic!("elements of type {other}"),
    };
    let swizzles = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];
    TensorMap {
        base: (buffer, 0),
        element,
        dims: dims.to_vec(),
        strides: strides.to_vec(),
        box_dims: map.extents.to_vec(),
        element_strides: vec![1; dims.len()],
        swizzle: swizzles[map.swizzle as usize],
    }
}

/// Memory for the parameters and results of a problem, in order.
fn arguments(
    problem: &Problem,
    generated: &GeneratedCuda,
    (dims, params): (&[i64], &[Array]),
    memory: &mut Memory,
) -> Vec<Buffer> {
    let grid = &generated.grid;
    let bytes = |(array, id): (&Array, &_)| match &grid.buffer(*id).layout {
        Some(layout) => pack(array, layout).bytes(),
        None => array.bytes(),
    };
    let params = params.iter().zip(&grid.params).map(bytes);
    let results = problem.results(dims).into_iter();
    let results = results
        .map(|(dtype, shape)| vec![0xff; (shape.iter().product::<u64>() * dtype.bytes()) as usize]);
    params.chain(results).map(|it| memory.add("argument", it)).collect()
}

#[test]
fn a_description_is_enough_to_launch_a_program() {
    let Some(nvrtc) = nvrtc() else { return };
    let mut most_functions = 0;
    for case in case::all() {
        let check = case.checks[0];
        let problem = Problem::new(case, check.dims).unwrap();
        let (_, _, generated) = bundle::checked(&problem, &target()).unwrap().swap_remove(0);
        let described = describe(&generated);
        most_functions = most_functions.max(described.variant.functions.len());
        let module = Module::parse(&ptx(nvrtc, &generated.unit.source, "compute_90a")).unwrap();
        let types = problem.dag.scalars.iter().map(|it| it.dtype);
        let scalars: Vec<u64> =
            problem.scalars().into_iter().zip(types).map(|(it, dtype)| bits(it, dtype)).collect();
        for dims in check.at {
            let (mut memory, params) = (Memory::new(), problem.params(dims));
            let given = arguments(&problem, &generated, (dims, &params), &mut memory);
            run(&described, &module, (&mut memory, &given), (dims, &scalars));
            let types = problem.results(dims);
            let results = given[params.len()..].iter().zip(types);
            let results = results
                .map(|(it, (dtype, shape))| Array::from_bytes(dtype, &shape, memory.bytes(*it)));
            let results: Vec<Array> = results.collect();
            assert_eq!(problem.difference(dims, &params, &results), None, "{}", case.name);
        }
    }
    assert!(most_functions > 1, "some of them have temporaries");
}
