//! What holds of every program, however it came about.

use tvmtune_ir::dag::{Dag, print, verify};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::workload::{self, Strength};

use crate::section::Problem;

/// Checks that a dag is well formed, also at its greatest extents, and is what its text says.
///
/// # Errors
///
/// What is not.
pub fn check_text(dag: &Dag) -> Result<(), Problem> {
    let largest: Vec<_> = dag.dims.iter().map(|it| Interval::point(it.range.hi)).collect();
    for dag in [dag, &dag.specialize(&largest)] {
        if let [first, ..] = verify(dag).as_slice() {
            return Err(Problem::wrong(format!("the dag is not well formed: {first}")));
        }
    }
    let text = print::canonical(dag);
    let read: Dag = match text.parse() {
        Ok(read) => read,
        Err(error) => return Err(Problem::wrong(format!("canonical text: {error}\n{text}"))),
    };
    if workload::id(&read) != workload::id(dag) {
        return Err(Problem::wrong(format!("another identity comes back from\n{text}")));
    }
    for strength in Strength::ALL {
        if workload::class(&read, strength) != workload::class(dag, strength) {
            return Err(Problem::wrong(format!("another class comes back from\n{text}")));
        }
    }
    Ok(())
}
