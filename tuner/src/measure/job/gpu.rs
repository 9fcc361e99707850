//! Candidates for GPUs: images, the functions in them, and for each case what they are passed.

use tvmtune_cuda::Generated;
use tvmtune_cuda::codegen::{Param, TensorMapEncoding};
use tvmtune_cuda::grid::MemoryScope;
use tvmtune_ir::dag::kernel_template::FieldValue;
use tvmtune_ir::dag::{DType, Number, TensorId};
use tvmtune_ir::poly::Poly;
use tvmtune_ir::target::gpu::Arch;

use super::super::protocol::{
    CodeSpec, FunctionSpec, GpuLaunch, GpuSpec, ImageSpec, MapSpec, ParamBinding, Word,
};
use super::{CaseSpec, Job, unsigned};
use crate::compile::Code;

impl Job {
    /// Creates the candidate of code that was generated and compiled for an architecture.
    pub fn on_gpu(generated: &Generated, (code, arch): (&Code, Arch), cases: &[CaseSpec]) -> Self {
        let mut images = vec![(None, code.cubin.as_slice())];
        images.extend(code.ptx_version().map(|it| (Some(it), code.ptx.as_bytes())));
        images.retain(|(_, bytes)| !bytes.is_empty());
        let small = |it: u32| u8::try_from(it).unwrap_or(0);
        let image = |(ptx, bytes): &(Option<(u8, u8)>, &[u8])| ImageSpec {
            arch: (small(arch.sm / 10), small(arch.sm % 10)),
            exact: arch.exact,
            ptx: *ptx,
            n_bytes: bytes.len(),
        };
        let mut table = Table { generated, params: Vec::new() };
        let functions = generated.unit.entries.iter().map(|it| FunctionSpec {
            name: it.name.clone(),
            params: it.params.iter().map(|it| table.binding(*it)).collect(),
            block: it.block,
            shared_bytes: it.shared_bytes,
        });
        let functions = functions.collect();
        let map = |it: &TensorMapEncoding| MapSpec {
            entry: table.position(Param::Pointer(it.tensor)),
            element: it.element,
            boxes: it.box_dims.clone(),
            steps: it.element_strides.clone(),
            swizzle: it.swizzle,
        };
        let maps = generated.unit.tensor_maps.iter().map(map).collect();
        let launches = cases.iter().map(|it| table.launch(it)).collect();
        let bytes = images.iter().map(|it| it.1).collect::<Vec<_>>().concat();
        let images = images.iter().map(image).collect();
        Self {
            code: CodeSpec::Gpu(GpuSpec { images, functions, maps, launches }),
            bytes,
            artifact: generated.artifact.to_string(),
        }
    }
}

/// The argument table: all parameters of functions except TMA descriptors, without duplicates.
struct Table<'a> {
    generated: &'a Generated,
    params: Vec<Param>,
}

impl Table<'_> {
    fn binding(&mut self, param: Param) -> ParamBinding {
        match param {
            Param::TensorMap(map) => ParamBinding::Map(map),
            other => ParamBinding::Table(self.position(other)),
        }
    }

    fn position(&mut self, param: Param) -> usize {
        self.params.iter().position(|it| *it == param).unwrap_or_else(|| {
            self.params.push(param);
            let position = self.params.len() - 1;
            if let (Param::StructWord(0), Some(it)) = (param, &self.generated.unit.param_struct) {
                self.params.extend((1..it.n_words()).map(Param::StructWord));
            }
            position
        })
    }

    fn launch(&self, case: &CaseSpec) -> GpuLaunch {
        let (unit, dims, scalars) = (&self.generated.unit, case.dims(), case.scalars());
        let word = |param: &Param| match *param {
            Param::Pointer(tensor) => self.address(tensor, case),
            Param::Dim(dim) => Word::Value(dims[dim.0 as usize].cast_unsigned()),
            Param::Scalar(id) => {
                let n = id.0 as usize;
                Word::Value(bits(scalars[n], case.dag.scalars[n].dtype))
            }
            Param::StructWord(word) => Word::Value(self.struct_word(word, case)),
            Param::TensorMap(_) => unreachable!("maps are not in the table"),
        };
        let value = |it: &Poly| unsigned(it.eval_dims(dims));
        let of_maps = unit.tensor_maps.iter().flat_map(|it| it.extents.iter().chain(&it.strides));
        GpuLaunch {
            table: self.params.iter().map(word).collect(),
            grids: unit.entries.iter().map(|it| it.grid.each_ref().map(value)).collect(),
            maps: of_maps.map(value).collect(),
        }
    }

    /// Returns a word of the struct of hand-written kernels.
    fn struct_word(&self, word: u32, case: &CaseSpec) -> u64 {
        let fields = self.generated.unit.param_struct.iter().flat_map(|it| it.fields_of(word));
        let scalars = case.scalars();
        fields.fold(0, |all, field| {
            let value = match field.value {
                FieldValue::Dim(dim) => case.dims()[dim.0 as usize].cast_unsigned(),
                FieldValue::Scalar(id) => {
                    let n = id.0 as usize;
                    bits(scalars[n], case.dag.scalars[n].dtype)
                }
            };
            all | (value & (u64::MAX >> (64 - 8 * field.bytes))) << (8 * (field.offset % 8))
        })
    }

    /// Returns the table entry for the address of a tensor: an argument, or workspace.
    fn address(&self, tensor: TensorId, case: &CaseSpec) -> Word {
        let buffer = self.generated.grid.buffer(tensor);
        if buffer.scope != MemoryScope::Workspace {
            return case.address(tensor, buffer.layout.as_ref());
        }
        let extents = buffer.shape.iter().map(|it| unsigned(it.eval_dims(case.dims())));
        Word::Shared(extents.product::<u64>() * buffer.dtype.bytes())
    }
}

/// Returns a scalar as a parameter of its own type; narrow floats as `f32`.
fn bits(value: Number, dtype: DType) -> u64 {
    match (value.cast(dtype), dtype) {
        (it, DType::F64) => it.to_f64().to_bits(),
        (Number::Float(it), _) => u64::from((it as f32).to_bits()),
        (Number::Int(it), _) => it.cast_unsigned(),
        (Number::Bool(it), _) => u64::from(it),
    }
}
