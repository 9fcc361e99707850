//! A tensor program of the package, with its identity and the ranges it is scheduled for.
//!
//! In: a [`Function`] that the scan found. Out: an [`Op`]. Next: [`crate::plan`].

use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::TokenStream;
use quote::ToTokens;
use tvmtune_ir::dag::{Dag, print};
use tvmtune_ir::dsl::{self, Tolerance};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::workload::{self, WorkloadId};
use tvmtune_plan::embed;
use tvmtune_plan::handoff::OpSource;

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
    /// The place where it was found.
    pub origin: Origin,
}

/// The place where an op was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the sources, by the scan.
    Sources,
    /// In an expansion of the sources as they are now.
    Expansion,
    /// In an expansion of older sources. It may be gone: it is planned, but neither tuned nor
    /// counted, until an expansion finds it again.
    OlderExpansion,
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
        let origin = Origin::Sources;
        Some(Self { file, dag, id, text, tolerance: program.tolerance(), buckets, source, origin })
    }

    /// Compiles a function from its text.
    pub fn from_source(source: &OpSource, file: &Path) -> Option<Self> {
        let options = TokenStream::from_str(&source.options).ok()?;
        let item = syn::parse_str(&source.item).ok()?;
        Self::new(Function { file: file.to_owned(), options, item })
    }

    /// Returns whether the op stands in the sources as they are now: else it may be gone.
    pub fn is_current(&self) -> bool {
        self.origin != Origin::OlderExpansion
    }

    /// Returns the name of its plan.
    pub fn plan_name(&self) -> String {
        embed::plan_name(&self.id.to_string(), &self.buckets)
    }

    /// Returns the function's name.
    pub fn name(&self) -> &str {
        &self.dag.name
    }
}
