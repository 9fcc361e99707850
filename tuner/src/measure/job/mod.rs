//! Serializable problems and candidates, from generated code: numbers and tables for each case, so that
//! the worker evaluates no expressions.

mod cpu;
#[cfg(feature = "cuda")]
mod gpu;
mod numbers;

use std::sync::Arc;

use tvmtune_ir::dag::{DType, Dag, Number, TensorId};
use tvmtune_ir::digest::Digest;
use tvmtune_ir::interp::Array;
use tvmtune_plan::record::Class;
use tvmtune_schedule::Layout;

use super::protocol::{Case, CodeSpec, LayoutSpec, Numbers, OutputSpec, ParamSpec, Problem, Word};
use crate::definition::rounding::IllConditioned;
use crate::device::Device;

/// Arguments for one launch of a program.
#[derive(Clone, Debug)]
pub struct CaseSpec {
    dag: Arc<Dag>,
    dims: Vec<i64>,
    case: Case,
}

/// A candidate, ready to be launched on each case of a problem.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub(super) code: CodeSpec,
    pub(super) bytes: Vec<u8>,
    /// The identity of the code, for replay from a log; may be empty.
    pub(super) artifact: String,
}

impl Job {
    /// Returns the SHA-256 of the machine code that a GPU launches; `None` for a CPU.
    pub fn image(&self) -> Option<Digest> {
        let CodeSpec::Gpu(spec) = &self.code else { return None };
        let image = self.bytes.get(..spec.images.first()?.n_bytes)?;
        Some(Digest::of([image]))
    }
}

impl CaseSpec {
    /// Creates arguments drawn from a seed, for given extents of the dynamic dimensions; `tolerance`
    /// gives the relative and absolute tolerance of each result.
    pub fn new(
        dag: &Arc<Dag>,
        dims: &[i64],
        seed: u64,
        tolerance: &dyn Fn(TensorId) -> (f64, f64),
    ) -> Self {
        let shape = |id: TensorId| {
            let extents = dag.tensor(id).shape.iter();
            extents.map(|it| it.eval_dims(dims).max(0) as u64).collect()
        };
        let param = |(n, id): (usize, TensorId)| ParamSpec {
            dtype: dag.tensor(id).dtype,
            shape: shape(id),
            seed: seed.wrapping_mul(1000).wrapping_add(n as u64),
            numbers: numbers::numbers(dag, id, dims),
            cold: false,
        };
        let output = |id: &TensorId| {
            let (rel, abs) = tolerance(*id);
            let replaces = dag.params().position(|it| dag.home(it) == *id);
            let (dtype, shape) = (dag.tensor(*id).dtype, shape(*id));
            OutputSpec { dtype, shape, rel, abs, ill_conditioned: Vec::new(), replaces }
        };
        let case = Case {
            params: dag.params().enumerate().map(param).collect(),
            outputs: dag.outputs.iter().map(output).collect(),
        };
        Self { dag: dag.clone(), dims: dims.to_vec(), case }
    }

    /// The same arguments, where timed launches find some parameters in memory.
    #[must_use]
    pub fn with_cold(mut self, cold: &[bool]) -> Self {
        for (param, cold) in self.case.params.iter_mut().zip(cold) {
            param.cold = *cold;
        }
        self
    }

    /// The same arguments, where ill-conditioned elements of each result have a larger tolerance.
    #[must_use]
    pub fn with_ill_conditioned(mut self, elements: Vec<Vec<IllConditioned>>) -> Self {
        for (output, elements) in self.case.outputs.iter_mut().zip(elements) {
            output.ill_conditioned = elements;
        }
        self
    }

    /// The same extents, with stress values for floats.
    #[must_use]
    pub fn with_hostile_numbers(mut self) -> Self {
        for it in &mut self.case.params {
            if !it.numbers.are_indices() {
                it.numbers = Numbers::Hostile;
            }
        }
        self
    }

    /// The same extents, with floats of a class.
    #[must_use]
    pub fn with_class(mut self, class: Class) -> Self {
        if class != Class::Ordinary {
            for it in &mut self.case.params {
                if it.dtype.is_float() && !it.numbers.are_indices() {
                    it.numbers = Numbers::Of(class);
                }
            }
        }
        self
    }

    /// Returns the extents of the dynamic dimensions.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// Returns the parameters, as the worker fills them.
    pub fn params(&self) -> Vec<Array> {
        self.case.params.iter().map(ParamSpec::array).collect()
    }

    /// Returns the run-time scalars: neither zero nor one, and of moderate size.
    pub fn scalars(&self) -> Vec<Number> {
        let scalar = |(n, dtype): (usize, DType)| match dtype {
            DType::Bool => Number::Bool(true),
            it if it.is_float() => Number::Float(0.375 + n as f64 / 8.0),
            _ => Number::Int(3 + n as i64),
        };
        self.dag.scalars.iter().map(|it| it.dtype).enumerate().map(scalar).collect()
    }

    /// Splits the concatenated results of a worker; `None` if their size is wrong.
    pub fn results(&self, mut bytes: &[u8]) -> Option<Vec<Array>> {
        let outputs = self.case.outputs.iter();
        let arrays = outputs.map(|it| {
            let (result, rest) = bytes.split_at_checked(it.bytes() as usize)?;
            bytes = rest;
            Some(Array::from_bytes(it.dtype, &it.shape, result))
        });
        arrays.collect()
    }

    /// Returns the shapes of the results.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = &[u64]> {
        self.case.outputs.iter().map(|it| it.shape.as_slice())
    }

    /// Returns the relative and absolute tolerance of a result.
    pub fn tolerance(&self, output: usize) -> (f64, f64) {
        (self.case.outputs[output].rel, self.case.outputs[output].abs)
    }

    /// Returns the problem of several cases, with or without expected results.
    pub(super) fn problem(cases: &[CaseSpec], has_expected: bool, device: Device) -> Problem {
        let on_gpu = device == Device::Gpu;
        Problem { cases: cases.iter().map(|it| it.case.clone()).collect(), has_expected, on_gpu }
    }

    /// Returns the table entry for the address of a parameter, in a layout, or of a result.
    fn address(&self, tensor: TensorId, layout: Option<&Layout>) -> Word {
        let output = || self.dag.outputs.iter().position(|it| *it == tensor);
        match (self.dag.params().position(|it| self.dag.home(it) == tensor), layout) {
            (Some(n), None) => Word::Param(n),
            (Some(n), Some(Layout { splits, order })) => {
                Word::Packed(n, LayoutSpec { splits: splits.clone(), order: order.clone() })
            }
            (None, _) => Word::Output(output().unwrap_or(usize::MAX)),
        }
    }
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
