//! The sketch of a program with a kernel template: its decisions are the knobs.
//!
//! A GPU runs such a program by the kernels that its author brought, and by nothing else: what the
//! definition would make of itself is no rival worth measuring, and the author said what to run. CPUs
//! have no use for the template.

use super::types::{Decision, DecisionId, DecisionKind, Sketch, Step, TemplateKind};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dag::kernel_template::Knob;
use tvmtune_ir::target::Target;

/// Returns the sketch of a program's template; `None` without one, and on CPUs.
pub(super) fn sketch(dag: &Dag, target: &Target) -> Option<Sketch> {
    let template = match target {
        Target::Gpu(_) => dag.kernel_template.as_ref()?,
        Target::Cpu(_) => return None,
    };
    let (mut decisions, mut default) = (Vec::new(), Vec::new());
    for (n, Knob { name, values }) in template.knobs.iter().enumerate() {
        let mut options = values.clone();
        options.sort_unstable();
        let first = values.first().and_then(|it| options.iter().position(|option| option == it));
        default.push(first.unwrap_or_default() as u16);
        let kind = DecisionKind::Outer;
        decisions.push(Decision { name: name.clone(), kind, options, group: n as u32 });
    }
    let knobs = (0..decisions.len() as u16).map(DecisionId).collect();
    let name = TemplateKind::HandWritten.label();
    let sketch = Sketch::new(name, decisions, default, vec![Step::SetKnobs { knobs }]);
    Some(Sketch { templates: vec![TemplateKind::HandWritten], ..sketch })
}
