//! Programs as people wrote them: the library of kernels, the networks, the examples, the documentation.

use std::sync::LazyLock;

/// Sources with annotated functions.
const SOURCES: &[&str] = &[
    include_str!("../../../kernels/src/conv.rs"),
    include_str!("../../../kernels/src/matmul.rs"),
    include_str!("../../../kernels/src/rows.rs"),
    include_str!("../../../examples/quickstart/src/main.rs"),
    include_str!("../../../examples/minilm/src/ops.rs"),
    include_str!("../../../docs/language.md"),
    include_str!("../../../README.md"),
];

/// The text of each program, attribute included.
pub static PROGRAMS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let written = SOURCES.iter().flat_map(|it| functions(it));
    let layers = tvmtune_zoo::networks().iter().flat_map(|it| &it.layers);
    let mut all: Vec<String> = written.chain(layers.map(|it| it.source.clone())).collect();
    all.sort();
    all.dedup();
    all
});

/// The annotated functions of a source, each up to the brace that ends it.
fn functions(source: &str) -> Vec<String> {
    let items = source.split("#[autotune(").skip(1);
    let function = |it: &str| {
        let end = it.find("\n}\n")? + 2;
        let text = format!("#[autotune({}", &it[..end]);
        // Prose mentions the attribute, too.
        syn::parse_str::<syn::ItemFn>(&text).is_ok().then_some(text)
    };
    items.filter_map(function).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_come_from_every_source() {
        for source in SOURCES {
            assert!(!functions(source).is_empty(), "{source}");
        }
        assert!(PROGRAMS.len() > 100, "only {}", PROGRAMS.len());
    }
}
