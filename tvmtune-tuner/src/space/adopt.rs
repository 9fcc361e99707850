//! Traces from elsewhere: of other workloads, other devices, other versions of the rules.

use tvmtune_core::dag::Dag;
use tvmtune_core::schedule::Instruction;
use tvmtune_core::schedule::sketch::Sketch;
use tvmtune_core::target::Target;

use super::{Point, Space};

impl Space {
    /// The point that makes a trace: one of a sketch that is there, else the default of a new one
    /// of about that name, in which the factors of the trace are open. `dag` and `target` are those
    /// of the space; a trace that does not apply to them is a point that does not either.
    pub fn adopt(
        &mut self,
        dag: &Dag,
        target: &Target,
        trace: &[Instruction],
        name: &str,
    ) -> Point {
        if let Some(point) = self.locate(trace) {
            return point;
        }
        let is_taken = |name: &str| self.sketches.iter().any(|it| it.name == name);
        let numbered = (2..).map(|n| format!("{name} {n}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let name = names.find(|it| !is_taken(it)).expect("there are more numbers than sketches");
        self.sketches.push(Sketch::adopt(name, trace, dag, target));
        let last = self.sketches.len() - 1;
        let sketch = u16::try_from(last).expect("no search adopts tens of thousands of traces");
        Point { sketch, choices: self.sketches[last].default.clone() }
    }

    /// The point that makes exactly that trace, if there is one.
    pub fn locate(&self, trace: &[Instruction]) -> Option<Point> {
        (0..).zip(&self.sketches).find_map(|(sketch, it)| {
            let located = it.locate(trace).filter(|it| it.is_exact)?;
            Some(Point { sketch, choices: located.choices })
        })
    }
}
