//! A tensor program of the package, with its identity and the ranges it is scheduled for.
//!
//! In: a [`Function`] that the scan found. Out: an [`Op`]. Next: [`crate::plan`].

use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::TokenStream;
use quote::ToTokens;
use serde::{Deserialize, Serialize};
use tvmtune_ir::dag::{Dag, print};
use tvmtune_ir::dsl::{self, Tolerance};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::workload::{self, WorkloadId};
use tvmtune_plan::embed;

use crate::scan::Function;

/// A valid annotated function.
pub struct Op {
    /// Its file.
    pub file: PathBuf,
    /// The program, for all extents it allows.
    pub dag: Dag,
    /// Its identity.
    pub id: WorkloadId,
    /// The canonical text behind the identity.
    pub text: String,
    /// The tolerance of its results.
    pub tolerance: Tolerance,
    /// For each bucket, the range of each dynamic dimension; one, empty, if there are none.
    pub buckets: Vec<Vec<Interval>>,
    /// The function as text, for another process.
    pub source: OpSource,
}

/// The text of an annotated function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpSource {
    /// The options of the attribute.
    pub options: String,
    /// The function below it.
    pub item: String,
}

impl Op {
    /// Compiles a function to a program; `None` if it is invalid, which the macro reports.
    pub fn new(function: Function) -> Option<Self> {
        let Function { file, options, item } = function;
        let source =
            OpSource { options: options.to_string(), item: item.to_token_stream().to_string() };
        let program = dsl::parse(options, &item).ok()?;
        let dag = dsl::build(&program).ok()?;
        let buckets = embed::buckets(&program.buckets());
        let (id, text) = (workload::id(&dag), print::canonical(&dag));
        Some(Self { file, dag, id, text, tolerance: program.tolerance(), buckets, source })
    }

    /// Compiles a function from its text.
    pub fn from_source(source: &OpSource, file: &Path) -> Option<Self> {
        let options = TokenStream::from_str(&source.options).ok()?;
        let item = syn::parse_str(&source.item).ok()?;
        Self::new(Function { file: file.to_owned(), options, item })
    }

    /// Returns the function's name.
    pub fn name(&self) -> &str {
        &self.dag.name
    }
}
