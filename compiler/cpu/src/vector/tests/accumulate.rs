//! Sums whose terms are several products, against the interpreter of programs.

use super::text::{kernel, program};
use super::words::{check_scheduled, vectorized};
use tvmtune_ir::dag::DType;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;

/// Returns the text of the loop of a sum of terms, after it was found to be right.
fn text_of(numerics: &str, dtype: DType, term: &str) -> String {
    let source = format!(
        "#[autotune(dims(M = 5, N = 19, K = 7) {numerics})]
         fn f(x: Tensor<{dtype}, M, K, 2>, y: Tensor<{dtype}, K, N, 2>) -> Tensor<{dtype}, M, N> {{
             compute(|i, j| sum(0..K, |k| {term}))
         }}"
    );
    let arrays = [(3, [5, 7, 2]), (8, [7, 19, 2])];
    let arrays = arrays.map(|(seed, shape)| Array::whole_numbers(dtype, &shape, seed));
    check_scheduled(&source, &arrays, &vectorized);
    kernel(&vectorized(&program(&source), Isa::Avx512), Isa::Avx512).to_string()
}

const TERMS: [(&str, usize); 6] = [
    ("x[[i, k, 0]] * y[[k, j, 0]] - x[[i, k, 1]] * y[[k, j, 1]]", 2),
    ("x[[i, k, 0]] * y[[k, j, 1]] + x[[i, k, 1]] * y[[k, j, 0]]", 2),
    ("x[[i, k, 0]] - y[[k, j, 0]] * x[[i, k, 1]]", 1),
    ("x[[i, k, 0]] * y[[k, j, 0]] - y[[k, j, 1]] + x[[i, k, 1]]", 1),
    // A difference that is subtracted changes the signs of both.
    ("y[[k, j, 1]] - (x[[i, k, 0]] * y[[k, j, 0]] - x[[i, k, 1]] * y[[k, j, 1]])", 2),
    (
        "(x[[i, k, 0]] - 2.0) * y[[k, j, 0]] \
         - (if k > 2 { x[[i, k, 1]] * y[[k, j, 1]] } else { 0.0 })",
        1,
    ),
];

#[test]
fn each_product_of_a_term_is_added_for_itself() {
    for dtype in [DType::F32, DType::F64] {
        for (term, n) in TERMS {
            let text = text_of("", dtype, term);
            let n_vectors = text.matches(".n = ").count();
            assert!(text.matches("fma(").count() >= n * n_vectors, "{term}: {text}");
            assert!(!text.contains("MulF("), "{term}: {text}");
        }
    }
}

#[test]
fn terms_are_rounded_where_the_program_fixes_bits() {
    for (term, _) in TERMS {
        let text = text_of(", numerics = \"fixed\"", DType::F32, term);
        assert!(text.contains("MulF("), "{term}: {text}");
    }
}
