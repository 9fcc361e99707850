//! The schedule that a value function chooses for a program, with its code: judged by `train`, recorded by
//! `predict`.

use tvmtune_cpu::Generated;
use tvmtune_ir::target::{CpuTarget, Target};
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::value::{Chosen, Features, Policy, ValueFunction};

/// A schedule that was chosen instead of the default one.
pub(crate) struct Prediction {
    pub(crate) trace: Vec<Instruction>,
    pub(crate) generated: Generated,
    /// The predicted speed in that of the default schedule.
    pub(crate) gain: f64,
}

impl Prediction {
    /// Returns the choice of a function; `None` if that is the default schedule, or one without code.
    pub(crate) fn new(
        function: &ValueFunction,
        policy: Policy,
        features: &Features<'_>,
    ) -> Option<Self> {
        let Chosen { point, gain } = policy.choose(function, features, n_cores())?;
        let Target::Cpu(CpuTarget { isa, .. }) = *features.target else { return None };
        let trace = features.space.instructions(&point);
        let schedule = Schedule::replay(features.dag, &trace).ok().filter(|_| gain > 1.0)?;
        let generated = tvmtune_cpu::generate(&schedule, isa).ok()?;
        Some(Self { trace, generated, gain })
    }
}
