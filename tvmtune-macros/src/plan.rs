//! Lookup of plans: the one that the build script wrote, or the default one.

use std::path::PathBuf;

use proc_macro2::TokenStream;
use quote::quote;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl::Program;
use tvmtune_plan::embed;

/// The code of a program that `#[autotune]` expands to.
pub(crate) struct Plan {
    /// The items that [`embed::plan`] prints.
    pub(crate) items: TokenStream,
    /// An item that makes the compiler track the file; empty if there is none.
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

/// The plan for a workload.
///
/// Without a build script, or if its plan is not for this version, the default one: the macro
/// never fails for want of a plan.
pub(crate) fn look_up(id: &str, program: &Program, dag: &Dag) -> Plan {
    let n_buckets = program.buckets().iter().map(Vec::len).product();
    let file = format!("{id}.rs");
    let from_file = std::env::var_os("TVMTUNE_PLAN_DIR").and_then(|dir| {
        let text = std::fs::read_to_string(PathBuf::from(dir).join(&file)).ok()?;
        // The same workload may stand elsewhere in the crate, divided into other buckets.
        let fits = text.contains(&format!("[rt::raw::Bucket; {n_buckets}]"));
        let path = format!("/{file}");
        let tracked = quote! {
            const _: &[::core::primitive::u8] = ::core::include_bytes!(
                ::core::concat!(::core::env!("TVMTUNE_PLAN_DIR"), #path)
            );
        };
        Plan::new(&text, tracked, n_buckets, cfg!(feature = "cuda")).filter(|_| fits)
    });
    from_file.unwrap_or_else(|| {
        let text = embed::default_plan(dag, &embed::buckets(&program.buckets()));
        let plan = Plan::new(&text, TokenStream::new(), n_buckets, false);
        plan.expect("a plan of this version is Rust")
    })
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
