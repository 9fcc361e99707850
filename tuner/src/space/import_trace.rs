//! Imports traces: of other workloads, other devices, other versions of the templates.

use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;
use tvmtune_schedule::Instruction;
use tvmtune_space::sketch::Sketch;

use super::{Point, Space};

impl Space {
    /// Returns the point of a trace: one of a present sketch, else the default of a new sketch named
    /// after `name`, in which the factors of the trace are open. `dag` and `target` are those of the
    /// space; a trace that does not apply to them is a point that does not either. A full space imports
    /// nothing, and returns its default point.
    pub fn import_trace(
        &mut self,
        dag: &Dag,
        target: &Target,
        trace: &[Instruction],
        name: &str,
    ) -> Point {
        if let Some(point) = self.encode(trace) {
            return point;
        }
        let Ok(sketch) = u16::try_from(self.sketches.len()) else {
            return Point { sketch: 0, choices: self.sketches[0].default.clone() };
        };
        let is_taken = |name: &str| self.sketches.iter().any(|it| it.name == name);
        let (mut unique, mut n) = (name.to_owned(), 2);
        while is_taken(&unique) {
            unique = format!("{name} {n}");
            n += 1;
        }
        let imported = Sketch::import_trace(unique, trace, dag, target);
        let choices = imported.default.clone();
        self.sketches.push(imported);
        Point { sketch, choices }
    }

    /// Returns the point of exactly that trace, if there is one.
    pub fn encode(&self, trace: &[Instruction]) -> Option<Point> {
        (0..).zip(&self.sketches).find_map(|(sketch, it)| {
            let encoded = it.encode(trace).filter(|it| it.is_exact)?;
            Some(Point { sketch, choices: encoded.choices })
        })
    }
}
