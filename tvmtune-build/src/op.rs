//! A tensor program of the package, with its identity and the ranges it is scheduled for.
//!
//! In: a [`Function`] that the scan found. Out: an [`Op`]. Next: [`crate::plan`].

use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::TokenStream;
use quote::ToTokens;
use sha2::{Digest, Sha256};
use syn::ItemFn;
use tvmtune_ir::dag::{Dag, print};
use tvmtune_ir::dsl::{self, Instance, Residence, Tolerance};
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::Target;
use tvmtune_ir::workload::{self, WorkloadId};
use tvmtune_plan::contain::contained;
use tvmtune_plan::database::Query;
use tvmtune_plan::embed;
use tvmtune_plan::handoff::OpSource;
use tvmtune_plan::source::Function;
use tvmtune_space::operands;

/// A valid annotated function.
pub struct Op {
    /// Its file.
    pub file: PathBuf,
    /// Its name with the modules around it: `layers::linear`.
    pub path: String,
    /// The program, for all extents it allows, under the op's [`name`](Self::name).
    pub dag: Dag,
    /// Its identity.
    pub id: WorkloadId,
    /// The canonical text behind the identity.
    pub text: String,
    /// The tolerance of its results.
    pub tolerance: Tolerance,
    /// For each parameter, the place where a launch finds it, as far as the program says.
    pub residence: Vec<Option<Residence>>,
    /// The number of its runs, relative to other ops.
    pub weight: f64,
    /// For each bucket, the range of each dynamic dimension; one, empty, if there are none.
    pub buckets: Vec<Vec<Interval>>,
    /// The function as text, for another process.
    pub source: OpSource,
    /// The place where it was found.
    pub origin: Origin,
}

/// An annotated function that is no program, as far as the sources tell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` in {} is left out: {why}; `cargo check` shows where", file.display())]
pub struct InvalidOp {
    /// Its file.
    pub file: PathBuf,
    /// Its name with the modules around it.
    pub path: String,
    /// The messages of the compiler.
    pub why: String,
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
    /// Compiles a function to its programs, one for each list of element types.
    pub fn all(function: Function) -> Vec<Result<Self, InvalidOp>> {
        let Function { file, module, options, item } = function;
        let invalid = |why| InvalidOp {
            file: file.clone(),
            path: path_of(&module, &item),
            why: messages(why),
        };
        let instances = match dsl::instances(options, &item) {
            Ok(instances) => instances,
            Err(why) => return vec![Err(invalid(why))],
        };
        let function = |Instance { options, item, .. }| Function {
            file: file.clone(),
            module: module.clone(),
            options,
            item,
        };
        instances.into_iter().map(function).map(Self::new).collect()
    }

    /// Compiles a function without type parameters.
    fn new(function: Function) -> Result<Self, InvalidOp> {
        let Function { file, module, options, item } = function;
        let name = item.sig.ident.to_string();
        let path = path_of(&module, &item);
        let source = OpSource {
            name,
            options: options.to_string(),
            item: item.to_token_stream().to_string(),
        };
        let read = || {
            let program = dsl::parse(options, &item)?;
            let dag = dsl::build(&program)?;
            Ok((program, dag))
        };
        // The macro reads it the same way, and reports what happens where it stands.
        let why = match contained(&path, String::new, read) {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(why)) => Err(messages(why)),
            Err(panicked) => Err(panicked.to_string()),
        };
        let (program, dag) = match why {
            Ok(read) => read,
            Err(why) => return Err(InvalidOp { file, path, why }),
        };
        let buckets = embed::buckets(&dag, &program.buckets());
        let (id, text) = (workload::id(&dag), print::canonical(&dag));
        let (tolerance, origin) = (program.tolerance(), Origin::Sources);
        let (residence, weight) = (program.residence(), program.weight());
        Ok(Self {
            file,
            path,
            dag,
            id,
            text,
            tolerance,
            residence,
            weight,
            buckets,
            source,
            origin,
        })
    }

    /// Compiles a function from its text.
    pub fn from_source(source: &OpSource, file: &Path) -> Option<Self> {
        let options = TokenStream::from_str(&source.options).ok()?;
        let item = TokenStream::from_str(&source.item).ok()?;
        dsl::check_nesting(&item).ok()?;
        let item = syn::parse2(item).ok()?;
        let function = Function { file: file.to_owned(), module: Vec::new(), options, item };
        let mut op = Self::new(function).ok()?;
        op.rename(source.name.clone());
        Some(op)
    }

    /// Returns whether the scan of the sources found the op: else an expansion did.
    pub fn is_scanned(&self) -> bool {
        self.origin == Origin::Sources
    }

    /// Returns whether the op stands in the sources as they are now: else it may be gone.
    pub fn is_current(&self) -> bool {
        self.origin != Origin::OlderExpansion
    }

    /// Returns the parameters that launches in a bucket find in memory, as records name them.
    pub fn cold_operands(&self, bucket: &[Interval], target: &Target) -> Option<Vec<u32>> {
        let largest: Vec<i64> = bucket.iter().map(|it| it.hi).collect();
        let cold = operands::cold(&self.dag, &largest, &self.residence, target);
        operands::recorded(&cold, target.platform())
    }

    /// Returns the question for its records.
    pub fn query(&self) -> Query<'_> {
        Query { workload: self.id, name: ProgramName::of(self.name()), dag: &self.text }
    }

    /// Returns the name of its plan.
    pub fn plan_name(&self) -> String {
        embed::plan_name(&self.id.to_string(), &self.buckets)
    }

    /// Returns the op's name: that of the function, with the modules around it where another op of
    /// the package has the same.
    pub fn name(&self) -> &str {
        &self.dag.name
    }

    /// Returns the first digits of a hash of the program and its buckets.
    fn digest(&self) -> String {
        let hash = Sha256::digest(self.plan_name());
        let digits: String = hash.iter().map(|it| format!("{it:02x}")).collect();
        digits[..NAME_DIGITS].to_owned()
    }

    /// Gives the op another name.
    fn rename(&mut self, name: String) {
        self.dag.name.clone_from(&name);
        self.source.name = name;
    }
}

/// Digits of an identity in the name of an op that nothing else tells from another one.
const NAME_DIGITS: usize = 6;

/// Gives ops of one name the names of the modules around them, so that each has its own. An expansion
/// does not show modules: ops that have one name even so are told apart by what they compute.
pub fn tell_apart(ops: &mut [Op]) {
    rename_namesakes(ops, |op| op.path.clone());
    rename_namesakes(ops, |op| format!("{}_{}", op.path, op.digest()));
}

/// Gives each op of which another one has the name a new one.
fn rename_namesakes(ops: &mut [Op], name: impl Fn(&Op) -> String) {
    let names: Vec<String> = ops.iter().map(|it| it.name().to_owned()).collect();
    for op in ops {
        if names.iter().filter(|it| *it == op.name()).count() > 1 {
            op.path = name(op);
            op.rename(op.path.clone());
        }
    }
}
/// Returns the name of a function with the modules around it.
fn path_of(module: &[String], item: &ItemFn) -> String {
    let name = item.sig.ident.to_string();
    module.iter().chain([&name]).map(String::as_str).collect::<Vec<_>>().join("::")
}

/// Returns all messages of an error, on one line.
fn messages(error: syn::Error) -> String {
    error.into_iter().map(|it| it.to_string()).collect::<Vec<_>>().join("; ")
}
