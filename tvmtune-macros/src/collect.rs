//! Reports expanded functions to tools, for ops that other macros produce and a scan of the source
//! cannot find.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ItemFn;

/// Writes the function to `<workload id>.rs` in the folder that `TVMTUNE_COLLECT` names, if it
/// does and the file is not there yet.
///
/// Errors are ignored: a build must not fail for them.
pub(crate) fn collect(id: &str, options: &TokenStream, function: &ItemFn) {
    let Some(folder) = std::env::var_os("TVMTUNE_COLLECT") else { return };
    let path = PathBuf::from(folder).join(format!("{id}.rs"));
    let text = format!("#[autotune({options})]\n{}\n", function.to_token_stream());
    if let Ok(mut file) = File::create_new(path) {
        let _ = file.write_all(text.as_bytes());
    }
}
