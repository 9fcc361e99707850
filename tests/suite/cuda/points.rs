//! Points of all sketches of a program: the emulator runs them, beside the interpreter.

use tvmtune_ir::dag::Dag;
use tvmtune_ir::interp::{self, Array, Mismatch};
use tvmtune_schedule::Schedule;
use tvmtune_tests::{emulate, nvrtc::nvrtc};
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use super::{HOPPER, generate, module, target, timing};

/// The default point of each sketch of a program, and random ones.
pub(crate) struct Points<'a> {
    pub(crate) source: &'a str,
    /// Dimensions of launches, which points take in turns.
    pub(crate) dims: &'a [&'a [i64]],
    pub(crate) n_random: usize,
    pub(crate) seed: u64,
}

impl Points<'_> {
    /// Runs all points; the emulator reports races and accesses out of bounds. Returns the share of
    /// points that make code; `None` without NVRTC.
    ///
    /// # Panics
    ///
    /// If `mismatch`, of a result and the expected one, finds any.
    pub(crate) fn check(
        &self,
        arguments: impl Fn(&Dag, &[i64]) -> Vec<Array>,
        mismatch: impl Fn(&Array, &Array) -> Option<Mismatch>,
    ) -> Option<f64> {
        let nvrtc = nvrtc()?;
        let dag = tvmtune_ir::dsl::program(self.source).unwrap();
        let space = Space::new(&dag, &target().into());
        let mut random = Random::new(self.seed);
        let mut points = space.defaults();
        assert_eq!(points.len(), space.sketches.len());
        points.extend((0..self.n_random).map(|_| space.random(&mut random)));
        let mut n_checked = 0;
        for (n, point) in points.iter().enumerate() {
            let Ok(schedule) = Schedule::replay(&dag, &space.instructions(point)) else { continue };
            let Ok(generated) = generate(&schedule, HOPPER) else { continue };
            let module = module(nvrtc, &generated);
            let dims = self.dims[n % self.dims.len()];
            let params = arguments(&dag, dims);
            let expected = interp::run(&dag, dims, &params, &[]);
            let shown = || format!("{dims:?}\n{}\n{}", generated.nest, generated.unit.source);
            let found = emulate::run(&generated, &module, dims, &params, &[], &timing(n));
            let found = found.unwrap_or_else(|it| panic!("{it}\n{}", shown()));
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(mismatch(found, expected), None, "{}", shown());
            }
            n_checked += 1;
        }
        Some(f64::from(n_checked) / points.len() as f64)
    }
}
