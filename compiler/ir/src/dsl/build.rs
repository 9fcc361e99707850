//! The last step of the language: from a program as written to its dag.

use crate::dag::{Dag, Dim, simplify, verify};
use crate::dsl::Program;

/// Builds the dag of a program: simplified, without dead code.
///
/// # Errors
///
/// If the dag is not well formed, which is a bug of tvmtune, not of the program.
pub fn build(program: &Program) -> Result<Dag, syn::Error> {
    let dims = program.dims.iter().map(|it| Dim { name: it.ident.to_string(), range: it.range });
    let mut dag = Dag {
        name: program.ident.to_string(),
        dims: dims.collect(),
        scalars: program.scalars.clone(),
        tensors: program.tensors.clone(),
        computes: program.computes.clone(),
        outputs: program.outputs.iter().map(|it| it.tensor).collect(),
    };
    simplify::simplify(&mut dag);
    let findings: Vec<String> = verify(&dag).iter().map(ToString::to_string).collect();
    if findings.is_empty() {
        return Ok(dag);
    }
    let message = format!(
        "tvmtune read this program wrongly; please report it, with the program: {}",
        findings.join("; ")
    );
    Err(syn::Error::new(program.ident.span(), message))
}
