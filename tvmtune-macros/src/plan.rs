//! Lookup of plans: the one that the build script wrote, or the default one.

use std::path::PathBuf;

use proc_macro2::TokenStream;
use quote::quote;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl::Program;
use tvmtune_plan::embed;
use tvmtune_plan::handoff::{ExpandedOp, OpSource};
use tvmtune_plan::read::{self, limit};

use crate::compiler::Compiler;
use crate::scripted;

/// The code of a program that `#[autotune]` expands to.
pub(crate) struct Plan {
    /// The items that [`embed::plan`] prints.
    pub(crate) items: TokenStream,
    /// An item that makes the compiler track what the plan follows from, where no build script does.
    pub(crate) tracked: TokenStream,
    /// Comment lines that summarize the choice.
    pub(crate) summary: Vec<String>,
    pub(crate) n_buckets: usize,
    /// The items contain code for CUDA devices: `CUDA`, beside `BUCKETS`.
    pub(crate) has_cuda: bool,
}

impl Plan {
    /// `None` if another version wrote the text. What CUDA devices run is taken over on demand:
    /// it is large, and nothing else asks for it.
    fn new(text: &str, tracked: TokenStream, n_buckets: usize, with_cuda: bool) -> Option<Self> {
        let (cpu, cuda) = text.split_once(embed::CUDA_MARK).unwrap_or((text, ""));
        let mut summary = summary(cpu);
        let has_cuda = with_cuda && !cuda.is_empty();
        let text = if has_cuda { text } else { cpu };
        if has_cuda {
            summary.extend(self::summary(cuda));
        }
        Some(Self { items: tokens(text)?, tracked, summary, n_buckets, has_cuda })
    }
}

/// Looks up the plan of a program: that of the build script, or the default one.
///
/// # Errors
///
/// If mode `require` refuses the program, or `TVMTUNE` names no mode.
pub(crate) fn look_up(
    id: &str,
    source: OpSource,
    program: &Program,
    dag: &Dag,
) -> syn::Result<Plan> {
    let buckets = embed::buckets(dag, &program.buckets());
    let name = embed::plan_name(id, &buckets);
    let refused = |why: String| syn::Error::new(program.ident.span(), why);
    let (text, tracked) = match std::env::var_os("TVMTUNE_PLAN_DIR").map(PathBuf::from) {
        Some(plans) => {
            let op = ExpandedOp { plan: name.clone(), source };
            scripted::prepare(&plans, &op).map_err(refused)?;
            (read::text(&plans.join(format!("{name}.rs")), limit::OUTPUT).ok(), TokenStream::new())
        }
        None => {
            scripted::check_without().map_err(refused)?;
            // Makes cargo expand again when the mode changes, as a build script would.
            (
                None,
                quote!(
                    const _: Option<&str> = ::core::option_env!("TVMTUNE");
                ),
            )
        }
    };
    let only_checks = Compiler::this_process().is_some_and(|it| it.only_checks());
    let plan = |text: String, with_cuda| {
        let text = if only_checks { embed::outline(&text) } else { text };
        Plan::new(&text, tracked.clone(), buckets.len(), with_cuda)
    };
    let planned = text.and_then(|it| plan(it, cfg!(feature = "cuda")));
    Ok(planned.unwrap_or_else(|| {
        plan(embed::default_plan(dag, &buckets), false).expect("a plan of this version is Rust")
    }))
}

/// The items of a plan; `None` if it was written by another version.
fn tokens(text: &str) -> Option<TokenStream> {
    (text.lines().next() == Some(embed::HEADER)).then(|| text.parse().ok()).flatten()
}

/// The comment lines that follow the header.
fn summary(text: &str) -> Vec<String> {
    let lines = text.lines().skip(1).map_while(|it| it.strip_prefix("// "));
    lines.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_for_devices_is_taken_over_by_whoever_asks_for_it() {
        let plan = |text: &str, with_cuda| {
            let plan = Plan::new(text, TokenStream::new(), 1, with_cuda).unwrap();
            (plan.items.to_string().contains("CUDA"), plan.has_cuda, plan.summary)
        };
        let without =
            format!("{}\n// a line\n\nstatic BUCKETS: [Bucket; 1] = [];\n", embed::HEADER);
        let mark = embed::CUDA_MARK;
        let with = format!("{without}\n{mark}\n// another\n\npub static CUDA: [A; 1] = [&[]];\n");
        let lines =
            |lines: &[&str]| -> Vec<String> { lines.iter().map(|it| (*it).into()).collect() };
        assert_eq!(plan(&without, true), (false, false, lines(&["a line"])));
        assert_eq!(plan(&with, false), (false, false, lines(&["a line"])));
        assert_eq!(plan(&with, true), (true, true, lines(&["a line", "another"])));
    }
}
