//! What runs: the plan that the build script wrote, or the default one.

use std::path::PathBuf;

use proc_macro2::TokenStream;
use quote::quote;
use tvmtune_core::codegen::embed;
use tvmtune_core::dag::Dag;
use tvmtune_core::dsl::Program;

/// What `#[autotune]` expands one program's code to.
pub(crate) struct Plan {
    /// The items that [`embed::plan`] prints.
    pub(crate) items: TokenStream,
    /// An item that makes the compiler track the file; empty if there is none.
    pub(crate) tracked: TokenStream,
    /// Lines for people about what was chosen.
    pub(crate) summary: Vec<String>,
    /// How many buckets there are.
    pub(crate) n_buckets: usize,
    /// Whether the items have code for CUDA devices: `CUDA`, beside `BUCKETS`.
    pub(crate) has_cuda: bool,
}

impl Plan {
    fn new(items: TokenStream, tracked: TokenStream, text: &str, n_buckets: usize) -> Self {
        let has_cuda = text.contains("\npub static CUDA: [");
        Self { items, tracked, summary: summary(text), n_buckets, has_cuda }
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
        let items = tokens(&text).filter(|_| fits)?;
        let path = format!("/{file}");
        let tracked = quote! {
            const _: &[::core::primitive::u8] = ::core::include_bytes!(
                ::core::concat!(::core::env!("TVMTUNE_PLAN_DIR"), #path)
            );
        };
        Some(Plan::new(items, tracked, &text, n_buckets))
    });
    from_file.unwrap_or_else(|| {
        let text = embed::default_plan(dag, &embed::buckets(&program.buckets()));
        Plan::new(tokens(&text).unwrap_or_default(), TokenStream::new(), &text, n_buckets)
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
    fn code_for_devices_is_seen_in_a_plan() {
        let plan = |text: &str| Plan::new(TokenStream::new(), TokenStream::new(), text, 1);
        let without = "// header\n// a line\npub static BUCKETS: [rt::raw::Bucket; 1] = [];\n";
        assert!(!plan(without).has_cuda);
        let with = "pub static CUDA: [&[rt::raw::cuda::Variant]; 1] = [&[]];\n";
        assert!(plan(&format!("{without}{with}")).has_cuda);
    }
}
