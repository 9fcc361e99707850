//! The outline of a plan: what type checking needs of it.
//!
//! In: the text of a plan. Out: the same items without machine code and bodies, a hundredth of the
//! text. A compiler that only checks (`cargo check`, `clippy`) runs none of it, and would spend most of
//! its time on reading it.

/// Returns the outline of a plan's text; the text itself if it is not of this version.
pub fn outline(plan: &str) -> String {
    parts(plan).unwrap_or_else(|| plan.to_owned())
}

fn parts(plan: &str) -> Option<String> {
    const END: &str = "\n];\n";
    let (head, rest) = plan.split_once(END)?;
    let (_, portable) = rest.split_once("\npub fn portable(")?;
    let (parameters, _) = portable.split_once(") {\n")?;
    let without_code = |line: &str| match line.split_once("work: bucket_") {
        Some((ranges, _)) => format!("{ranges}work: |_| [0.0; 2], variants: &[] }},\n"),
        None => format!("{line}\n"),
    };
    let head: String = head.lines().map(without_code).collect();
    // An unused name would be a warning in the user's crate.
    let unnamed = |it: &str| it.split_once(": ").map(|(_, ty)| format!("_: {ty}"));
    let parameters = parameters.split(", ").filter(|it| !it.is_empty());
    let parameters: Option<Vec<String>> = parameters.map(unnamed).collect();
    let parameters = parameters?.join(", ");
    Some(format!("{head}];\n\npub fn portable({parameters}) {{\n    ::core::unreachable!()\n}}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::default_plan;
    use tvmtune_ir::dsl;
    use tvmtune_ir::poly::Interval;

    #[test]
    fn the_outline_has_the_items_of_the_plan_and_no_code() {
        let dag = dsl::program(
            "#[autotune(dims(M = 1..=40, K = 10))]
            fn scaled(x: Tensor<f32, M, K>, s: f32) -> Tensor<f32, M> {
                compute(|i| sum(0..K, |k| x[[i, k]]) * s)
            }",
        );
        let ranges = [(1, 1), (2, 40)].map(|(lo, hi)| vec![Interval { lo, hi }]);
        let plan = default_plan(&dag.unwrap(), &ranges);
        insta::assert_snapshot!(outline(&plan), @"
        // tvmtune plan, 0.1.0
        // M = 1: avx512 default; avx2 default; portable
        // M in 2..=40: avx512 default; avx2 default; portable

        pub static BUCKETS: [rt::raw::Bucket; 2] = [
            rt::raw::Bucket { ranges: &[(1, 1)], work: |_| [0.0; 2], variants: &[] },
            rt::raw::Bucket { ranges: &[(2, 40)], work: |_| [0.0; 2], variants: &[] },
        ];

        pub fn portable(_: i64, _: f32, _: &[f32], _: &mut [f32]) {
            ::core::unreachable!()
        }
        ");
        assert!(syn::parse_file(&outline(&plan)).is_ok());
        assert_eq!(outline("of another version"), "of another version");
    }
}
