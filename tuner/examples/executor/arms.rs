//! The ways to run jobs that are compared, and the jobs.

use tvmtune_ir::dsl;
use tvmtune_tuner::executor::{Interleaved, NaiveParallel, Policy, Predictive, Sequential};
use tvmtune_tuner::tune::{Tolerance, Workload};

use crate::Result;

/// A way to run jobs.
#[derive(Clone)]
pub(crate) struct Arm {
    pub(crate) name: String,
    pub(crate) policy: fn() -> Box<dyn Policy>,
    /// True if workers have a core of their own, and all else the others.
    pub(crate) is_pinned: bool,
    /// The samples after which the cost model is trained anew; by default a fifth more than before.
    pub(crate) train_every: Option<u32>,
}

/// The jobs of one size, or of sizes a hundred times apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mix {
    Equal,
    Unequal,
}

impl Arm {
    /// The name of the policy that others are compared with.
    pub(crate) const BASELINE: &str = "sequential";

    fn new(name: &str, policy: fn() -> Box<dyn Policy>) -> Self {
        Self { name: name.to_owned(), policy, is_pinned: false, train_every: None }
    }

    /// Returns the policies, the baseline first.
    pub(crate) fn policies() -> Vec<Self> {
        vec![
            Self::new(Self::BASELINE, || Box::new(Sequential)),
            Self::new("naive", || Box::new(NaiveParallel)),
            Self::new("interleaved", || Box::new(Interleaved::new())),
            Self::new("predictive", || Box::new(Predictive)),
            Self::new("not isolated", || Box::new(Interleaved::without_isolation())),
        ]
    }

    /// Returns the arm without isolation whose workers have a core of their own.
    pub(crate) fn pinned() -> Self {
        let policy: fn() -> Box<dyn Policy> = || Box::new(Interleaved::without_isolation());
        Self { is_pinned: true, ..Self::new("pinned", policy) }
    }

    /// Returns the interleaved arm with another time of training.
    pub(crate) fn trained_every(n: u32) -> Self {
        let name = format!("interleaved, trained every {n}");
        Self { train_every: Some(n), ..Self::new(&name, || Box::new(Interleaved::new())) }
    }
}

impl Mix {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Unequal => "unequal",
        }
    }

    /// Returns the programs of some jobs: products of nearly the same size, or these beside small and
    /// large ones.
    pub(crate) fn workloads(self, n_jobs: usize) -> Result<Vec<Workload>> {
        (0..n_jobs).map(|n| self.workload(n)).collect()
    }

    fn workload(self, n: usize) -> Result<Workload> {
        let (m, k) = match (self, n % 4) {
            (Self::Equal, _) => (192 + 8 * n, 256),
            (Self::Unequal, 0) => (384 + 8 * n, 512),
            (Self::Unequal, 1) => (16 + n, 128),
            (Self::Unequal, 2) => (96 + 8 * n, 256),
            (Self::Unequal, _) => (40 + n, 64),
        };
        let text = format!(
            "#[autotune(dims(M = {m}, N = 256, K = {k}))]
            fn product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {{
                compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
            }}"
        );
        let dag = dsl::program(&text).map_err(|it| it.to_string())?;
        Ok(Workload::new(dag, vec![Vec::new()], Tolerance { rel: 1e-4, abs: 1e-4 }))
    }
}
