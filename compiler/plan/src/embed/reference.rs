//! Portable code of a program that a function of Rust defines: a call of that function.
//!
//! The file of the function is included by the crate that it belongs to, so that its compiler reports
//! mistakes by the lines of the file.

use tvmtune_cpu::rust::element_type;
use tvmtune_ir::dag::kernel_template;
use tvmtune_ir::dag::{DType, Dag, RustFunction, TensorId};

/// Prints `portable`, with the arguments of every portable function.
pub(super) fn print(dag: &Dag, reference: &RustFunction) -> String {
    let RustFunction { file, name, .. } = reference;
    let (params, results): (Vec<TensorId>, &[TensorId]) = (dag.params().collect(), &dag.outputs);
    let slice = |it: &TensorId, reference: &str| {
        format!("t{}: {reference}[{}]", it.0, element_type(dag.tensor(*it).dtype))
    };
    let n_dims = dag.dims.len();
    let dims = (0..n_dims).map(|n| format!("d{n}: i64"));
    let scalars = dag.scalars.iter().enumerate();
    let scalars = scalars.map(|(n, it)| format!("s{n}: {}", it.dtype.name()));
    let slices = params.iter().map(|it| slice(it, "&"));
    let slices = slices.chain(results.iter().map(|it| slice(it, "&mut ")));
    let declared: Vec<String> = dims.chain(scalars).chain(slices).collect();
    let is_half = |dtype: DType| kernel_template::element_type(dtype) != dtype;
    let (mut before, mut after, mut passed) = (String::new(), String::new(), Vec::new());
    for TensorId(n) in &params {
        passed.push(match is_half(dag.tensor(TensorId(*n)).dtype) {
            true => {
                before += &format!(
                    "    let t{n}: Vec<f32> = t{n}.iter().map(|it| it.to_f32()).collect();\n"
                );
                format!("&t{n}")
            }
            false => format!("t{n}"),
        });
    }
    for TensorId(n) in results {
        let dtype = dag.tensor(TensorId(*n)).dtype;
        passed.push(match is_half(dtype) {
            true => {
                before += &format!("    let mut r{n} = vec![0.0_f32; t{n}.len()];\n");
                after += &format!(
                    "    for (to, from) in t{n}.iter_mut().zip(r{n}) {{\n        \
                             *to = {}::from_f32(from);\n    \
                     }}\n",
                    element_type(dtype)
                );
                format!("&mut r{n}")
            }
            false => format!("t{n}"),
        });
    }
    passed.extend((0..dag.scalars.len()).map(|n| format!("s{n}")));
    passed.extend((0..n_dims).map(|n| format!("d{n} as usize")));
    format!(
        "#[allow(unreachable_pub)]\n\
         mod reference {{\n    \
             ::core::include!(::core::concat!(::core::env!(\"CARGO_MANIFEST_DIR\"), \"/\", \"{file}\"));\n\
         }}\n\n\
         pub fn portable({}) {{\n{before}    reference::{name}({});\n{after}}}\n",
        declared.join(", "),
        passed.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::dsl;

    #[test]
    fn portable_code_calls_the_function() {
        let dag = dsl::program(
            r#"#[autotune(
                dims(M = 1..=9, N = 64),
                template = "kernels/sort.cu" ("extern \"C\" __global__ void sort() {}\n"),
                kernels(sort(grid = M, block = N)),
                reference("kernels/sort.rs", sort) ("pub fn sort() {}\n")
            )]
            fn sort(x: Tensor<f16, M, N>, w: Weight<i32, N>, least: i64) -> (Tensor<f16, M, N>, Tensor<bool, M>) {}"#,
        );
        let dag = dag.unwrap();
        let text = super::print(&dag, dag.reference().unwrap());
        insta::assert_snapshot!(text, @r#"
        #[allow(unreachable_pub)]
        mod reference {
            ::core::include!(::core::concat!(::core::env!("CARGO_MANIFEST_DIR"), "/", "kernels/sort.rs"));
        }

        pub fn portable(d0: i64, s0: i64, t0: &[rt::half::f16], t1: &[i32], t2: &mut [rt::half::f16], t3: &mut [bool]) {
            let t0: Vec<f32> = t0.iter().map(|it| it.to_f32()).collect();
            let mut r2 = vec![0.0_f32; t2.len()];
            reference::sort(&t0, t1, &mut r2, t3, s0, d0 as usize);
            for (to, from) in t2.iter_mut().zip(r2) {
                *to = rt::half::f16::from_f32(from);
            }
        }
        "#);
        assert!(syn::parse_file(&text).is_ok());
    }
}
