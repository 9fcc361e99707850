//! Operators as people write them (`tests/coverage`): each is what PyTorch has by that name, and computes it under
//! its default schedule.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use tvmtune_cpu::vector;
use tvmtune_ir::dag::{DType, Dag, Number, TensorKind};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::{Isa, Target};
use tvmtune_schedule::nest;
use tvmtune_space::default;

/// A result as `reference.py` writes it: every `step`-th element.
#[derive(Deserialize)]
struct Expected {
    shape: Vec<u64>,
    step: usize,
    values: Vec<f64>,
}

/// An operator at small extents.
#[derive(Deserialize)]
struct Reference {
    family: String,
    name: String,
    extents: BTreeMap<String, u64>,
    /// The kinds of parameters that are not any numbers.
    kinds: BTreeMap<String, String>,
    results: Vec<Expected>,
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("coverage")
}

fn references() -> Vec<Reference> {
    let text = fs::read_to_string(folder().join("references.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Reads the program of each operator, by name.
fn programs() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder().join("src")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for part in text.split("#[autotune(").skip(1) {
            let (_, rest) = part.split_once("pub fn ").unwrap();
            let name = rest.split('(').next().unwrap();
            let before = found.insert(name.to_owned(), format!("#[autotune({part}"));
            assert!(before.is_none(), "two operators are called {name}");
        }
    }
    found
}

impl Reference {
    /// Returns the program with small extents.
    fn program(&self, text: &str) -> Dag {
        let (attribute, rest) = text.split_once(")]").unwrap();
        let extents: Vec<String> =
            self.extents.iter().map(|(name, n)| format!("{name} = {n}")).collect();
        let start = attribute.split_once("dims(").unwrap().0;
        let text = format!("{start}dims({}))]{rest}", extents.join(", "));
        dsl::program(&text).unwrap_or_else(|it| panic!("{}: {it}\n{text}", self.name))
    }

    /// Makes the inputs of `signatures.py`.
    fn inputs(&self, dag: &Dag) -> Vec<Array> {
        let inputs = dag.params().enumerate().map(|(at, id)| {
            let tensor = dag.tensor(id);
            assert!(!matches!(tensor.kind, TensorKind::Computed(_)), "{}", self.name);
            let shape: Vec<u64> = tensor.shape.iter().map(|it| it.eval_dims(&[]) as u64).collect();
            let kind = self.kinds.get(&tensor.name).map_or("", String::as_str);
            Array::from_fn(tensor.dtype, &shape, |n| self.element(tensor.dtype, kind, at, n as i64))
        });
        inputs.collect()
    }

    fn element(&self, dtype: DType, kind: &str, at: usize, n: i64) -> Number {
        if let Some(rows) = self.extents.get(kind) {
            return Number::Int((n * 37 + 11) % *rows as i64);
        }
        if let Some((terms, rows)) = kind.split_once(" / ") {
            return Number::Int(n * self.extents[terms] as i64 / self.extents[rows] as i64);
        }
        let number = (n * 37 + 11 * (at as i64 + 1)) % 101 - 50;
        if dtype == DType::Bool {
            return Number::Bool(number.rem_euclid(3) == 0);
        }
        if !dtype.is_float() {
            return Number::Int(number);
        }
        let number = number as f64 / 32.0;
        Number::Float(match kind {
            "positive" => number.abs() + 0.25,
            "near_one" => 1.0 + number / 64.0,
            _ => number,
        })
    }

    /// Compares results with those of PyTorch.
    fn check(&self, got: &[Array]) {
        assert_eq!(got.len(), self.results.len(), "{}", self.name);
        for (got, expected) in got.iter().zip(&self.results) {
            assert_eq!(got.shape, expected.shape, "{}", self.name);
            for (n, want) in expected.values.iter().enumerate() {
                let got = match got.get(n * expected.step) {
                    Number::Bool(it) => f64::from(u8::from(it)),
                    it => it.to_f64(),
                };
                let error = (got - want).abs();
                assert!(
                    error <= 2e-5 * want.abs().max(1.0),
                    "{}: {n}: {got}, not {want}",
                    self.name
                );
            }
        }
    }
}

#[test]
fn operators_are_those_of_pytorch_by_reference_and_by_default_schedules() {
    let (programs, references) = (programs(), references());
    let names: Vec<&String> = programs.keys().collect();
    let mut referred: Vec<&String> = references.iter().map(|it| &it.name).collect();
    referred.sort();
    assert_eq!(names, referred, "run `python tests/coverage/reference.py`");
    let families: std::collections::BTreeSet<&str> =
        references.iter().map(|it| it.family.as_str()).collect();
    assert!(references.len() >= 150 && families.len() >= 12);
    for reference in &references {
        let dag = reference.program(&programs[&reference.name]);
        let inputs = reference.inputs(&dag);
        let scalars = vec![Number::Float(0.5); dag.scalars.len()];
        let expected = tvmtune_ir::interp::run(&dag, &[], &inputs, &scalars);
        reference.check(&expected);
        for isa in [Isa::Avx2, Isa::Avx512] {
            let nest = nest::lower(&default::schedule(&dag, &Target::generic(isa)));
            let kernel = vector::lower(&nest, isa);
            let kernel = kernel.unwrap_or_else(|it| panic!("{}: {it}", reference.name));
            assert_eq!(vector::verify::verify(&kernel), []);
            let got = tvmtune_cpu::interp::run(&kernel, &[], &inputs, &scalars, &expected).unwrap();
            for (got, expected) in got.iter().zip(&expected) {
                let error = got.max_error(expected, 2e-5, 2e-5);
                assert!(error.is_none(), "{} on {isa:?}: {error:?}\n{nest}", reference.name);
            }
        }
    }
}
