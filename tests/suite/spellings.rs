//! One operator in many spellings: each is right under its default schedule, and all are found to be the
//! same thing.

use tvmtune_cpu::vector;
use tvmtune_ir::dag::DType;
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::{Isa, Target};
use tvmtune_schedule::{Instruction, nest};
use tvmtune_space::default;

use crate::programs::check;
use tvmtune_tests::spellings;

/// A transposed convolution in one dimension: its stride, taps, dilation and padding.
#[derive(Clone, Copy)]
struct Transposed {
    stride: i64,
    taps: i64,
    dilation: i64,
    padding: i64,
}

impl Transposed {
    /// The spellings of its sum over `C` channels and its taps, of `x` and `w`.
    fn spellings(self) -> Vec<String> {
        let Self { stride, taps, dilation, padding } = self;
        // An index is divided only where it is not negative.
        let more = dilation * taps;
        let u = format!("(p + {} - {dilation} * s)", padding + more * stride);
        let x = format!("x.get([n, c, {u} / {stride} - {more}]).unwrap_or(0.0)");
        let w = "w[[c, o, s]]";
        let inside = format!("{u} / {stride} >= {more} && {u} / {stride} < L + {more}");
        vec![
            format!(
                "sum((0..C, 0..{taps}), |c, s| if {u} % {stride} == 0 {{ {x} * {w} }} else {{ 0.0 }})"
            ),
            format!(
                "sum((0..C, 0..{taps}), |c, s| if {u} % {stride} != 0 {{ 0.0 }} else {{ {w} * {x} }})"
            ),
            format!(
                "sum((0..{taps}, 0..C), |s, c| if {u} % {stride} == 0 {{ {x} * {w} }} else {{ 0.0 }})"
            ),
            format!(
                "sum((0..C, 0..{taps}), |c, s| if !({u} % {stride} != 0) {{ {x} * {w} }} else {{ 0.0 }})"
            ),
            format!(
                "sum((0..C, 0..{taps}), |c, s| if {u} % {stride} == 0 && {inside} \
                 {{ x[[n, c, {u} / {stride} - {more}]] * {w} }} else {{ 0.0 }})"
            ),
            format!(
                "sum((0..C, 0..{taps}), |c, s| if {inside} {{ if {u} % {stride} == 0 \
                 {{ x[[n, c, {u} / {stride} - {more}]] * {w} }} else {{ 0.0 }} }} else {{ 0.0 }})"
            ),
            format!(
                "sum((0..C, 0..{taps}), |c, s| if {u} - {stride} * ({u} / {stride}) == 0 \
                 {{ {x} * {w} }} else {{ 0.0 }})"
            ),
        ]
    }

    fn program(self, sum: &str, weight: &str) -> String {
        let Self { stride, taps, .. } = self;
        format!(
            "#[autotune(dims(L = 1..=40, N = 2, C = 3, O = 5))]
             fn f(x: Tensor<f32, N, C, L>, w: {weight}<f32, C, O, {taps}>) -> Tensor<f32, N, O, {{ L * {stride} }}> {{
                 compute(|n, o, p| {sum})
             }}"
        )
    }
}

/// Returns whether the default schedule of a program computes a reduction by phases.
fn has_phases(source: &str) -> bool {
    let dag = dsl::program(source).unwrap();
    let schedule = default::schedule(&dag, &Target::generic(Isa::Avx2));
    schedule.trace.iter().any(|it| matches!(it, Instruction::Polyphase { .. }))
}

#[test]
fn transposed_convolutions_in_every_spelling_are_sums_by_phases() {
    for (stride, taps, dilation, padding) in
        [(2, 4, 1, 1), (2, 3, 1, 1), (2, 2, 1, 0), (3, 3, 1, 0), (4, 8, 1, 2), (3, 5, 2, 3)]
    {
        let operator = Transposed { stride, taps, dilation, padding };
        for (n, sum) in operator.spellings().iter().enumerate() {
            let weight = if n % 2 == 0 { "Tensor" } else { "Weight" };
            let program = operator.program(sum, weight);
            assert!(has_phases(&program), "{program}");
            let _ = check(&program, &[1, 2, 7, 8, 9, 16, 40]);
        }
    }
}

#[test]
fn transposed_convolutions_in_two_and_three_dimensions_with_what_follows() {
    let program = "
        #[autotune(dims(H = 1..=9, C = 3, O = 20))]
        fn f(x: Tensor<f32, C, H, 7>, w: Weight<f32, C, O, 4, 3>, b: Weight<f32, O>) -> Tensor<f32, O, { H * 2 }, 14> {
            let h: Tensor<f32, O, { H * 2 }, 14> = compute(|o, y, p| sum((0..C, 0..4, 0..3), |c, r, s| {
                if (y + 9 - r) % 2 == 0 && (p + 9 - s) % 2 == 0 {
                    x.get([c, (y + 9 - r) / 2 - 4, (p + 9 - s) / 2 - 4]).unwrap_or(0.0) * w[[c, o, r, s]]
                } else {
                    0.0
                }
            }));
            compute(|o, y, p| relu(h[[o, y, p]] + b[[o]]))
        }";
    assert!(has_phases(program));
    let _ = check(program, &[1, 2, 5, 9]);
    let program = "
        #[autotune(dims(D = 1..=5, C = 2, O = 3))]
        fn f(x: Tensor<f32, C, D, 4, 5>, w: Tensor<f32, C, O, 2, 2, 2>) -> Tensor<f32, O, { D * 2 }, 8, 10> {
            compute(|o, z, y, p| sum((0..C, 0..2, 0..2, 0..2), |c, q, r, s| {
                if (z + 8 - q) % 2 == 0 && (y + 8 - r) % 2 == 0 && (p + 8 - s) % 2 == 0 {
                    x.get([c, (z + 8 - q) / 2 - 4, (y + 8 - r) / 2 - 4, (p + 8 - s) / 2 - 4]).unwrap_or(0.0)
                        * w[[c, o, q, r, s]]
                } else {
                    0.0
                }
            }))
        }";
    assert!(has_phases(program));
    let _ = check(program, &[1, 2, 5]);
}

#[test]
fn groups_of_channels_in_one_axis_or_in_two() {
    let flat = "
        #[autotune(dims(H = 1..=9))]
        fn f(x: Tensor<f32, 12, H, 9>, w: Tensor<f32, 12, 4, 3, 3>) -> Tensor<f32, 12, H, 9> {
            compute(|o, y, p| sum((0..4, 0..3, 0..3), |c, r, s| {
                x.get([o / 4 * 4 + c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
            }))
        }";
    assert!(has_phases(flat));
    let _ = check(flat, &[1, 2, 8, 9]);
    let transposed = "
        #[autotune(dims(L = 1..=40))]
        fn f(x: Tensor<f32, 12, L>, w: Weight<f32, 12, 4, 4>) -> Tensor<f32, 12, { L * 2 }> {
            compute(|o, p| sum((0..4, 0..4), |c, s| if (p + 9 - s) % 2 == 0 {
                x.get([o / 4 * 4 + c, (p + 9 - s) / 2 - 4]).unwrap_or(0.0) * w[[o / 4 * 4 + c, o % 4, s]]
            } else { 0.0 }))
        }";
    assert!(has_phases(transposed));
    let _ = check(transposed, &[1, 2, 9, 16, 40]);
    // Heads that share keys are no groups of channels.
    let heads = "
        #[autotune(dims(S = 1..=40))]
        fn f(q: Tensor<f32, 8, S, 16>, k: Tensor<f32, 2, S, 16>) -> Tensor<f32, 8, S, S> {
            compute(|h, i, j| sum(0..16, |d| q[[h, i, d]] * k[[h / 4, j, d]]))
        }";
    assert!(!has_phases(heads));
}

#[test]
fn triangles_and_bands_in_every_spelling() {
    for sum in [
        "sum(0..=i, |k| a[[i, k]] * b[[k, j]])",
        "sum(0..i + 1, |k| b[[k, j]] * a[[i, k]])",
        "sum(0..M, |k| if k <= i { a[[i, k]] * b[[k, j]] } else { 0.0 })",
        "sum(0..M, |k| if k > i { 0.0 } else { a[[i, k]] * b[[k, j]] })",
        "sum(i..M, |k| a[[i, k]] * b[[k, j]])",
        "sum(0..M, |k| if k + 5 > i && k < i + 3 { a[[i, k]] * b[[k, j]] } else { 0.0 })",
        "sum(0..M, |k| if k <= j { a[[i, k]] * b[[k, i]] } else { 0.0 })",
        "sum((0..M, 0..3), |k, l| if l < 2 && k <= i { a[[i, k]] * b[[k, j]] } else { 0.0 })",
        "max(0..M, |k| if k <= i { a[[i, k]] * b[[k, j]] } else { f32::NEG_INFINITY })",
    ] {
        let program = format!(
            "#[autotune(dims(M = 1..=70))]
             fn f(a: Tensor<f32, M, M>, b: Tensor<f32, M, M>) -> Tensor<f32, M, M> {{ compute(|i, j| {sum}) }}"
        );
        let _ = check(&program, &[1, 2, 5, 6, 7, 16, 17, 64, 70]);
    }
}

#[test]
fn rows_are_reversed_rolled_and_looked_up() {
    for element in [
        "x[[i, N - 1 - j]]",
        "x[[i, (j + 5) % N]]",
        "x[[i, (j + N - 3) % N]]",
        "if j + 5 < N { x[[i, j + 5]] } else { x[[i, j + 5 - N]] }",
        "x.get([ids[[i]], j]).unwrap_or(2.0)",
        "x.get([ids[[i]] + 1, N - 1 - j]).unwrap_or(2.0)",
        "if j > 3 { x.get([ids[[i]], j]).unwrap_or(2.0) } else { 1.0 }",
    ] {
        let program = format!(
            "#[autotune(dims(M = 9, N = 6..=100))]
             fn f(x: Tensor<f32, M, N>, ids: Tensor<i64, M>) -> Tensor<f32, M, N> {{ compute(|i, j| {element}) }}"
        );
        let _ = check(&program, &[6, 7, 8, 15, 16, 17, 64, 100]);
    }
}

#[test]
fn rows_are_stretched_and_interleaved() {
    let third = "if j % 3 == 0 { x[[i, j / 3]] } else if j % 3 == 1 { y[[i, j / 3]] } else { 1.5 }";
    let rotated = "if j % 2 == 0 {
            x[[i, j / 2]] * y[[i, j / 2]] - x[[i, 2 * (j / 2) % N]]
        } else { x[[i, j / 2]] + y[[i, j / 2]] }";
    for (by, element) in [
        (2, "x[[i, j / 2]]"),
        (2, "if j % 2 == 0 { x[[i, j / 2]] } else { y[[i, j / 2]] }"),
        (2, "x.get([i, (j + 1) / 2]).unwrap_or(2.0)"),
        (2, "x.get([i, j / 2 + 2 * (j % 2) - 1]).unwrap_or(y[[i, j / 2]])"),
        (2, rotated),
        (3, "x[[i, j / 3]] + 1.0"),
        (3, third),
        (4, "x[[i, j / 4]] - y[[i, j / 4 % 2]]"),
        (4, "x[[i, j / 4]] * y.get([i, j / 2 - 1]).unwrap_or(0.5)"),
        (5, "x[[i, j / 5]]"),
        (8, "x[[i, j / 8]] + (j % 8) as f32"),
        (16, "x[[i, j / 16]]"),
        (2, "sum(0..N * 2, |k| x[[i, k / 2]] * ((k + j) % 5) as f32)"),
    ] {
        for length in [format!("N * {by}"), format!("N * {by} - 1")] {
            let program = format!(
                "#[autotune(dims(M = 2, N = 2..=100))]
                 fn f(x: Tensor<f32, M, N>, y: Tensor<f32, M, N>) -> Tensor<f32, M, {{ {length} }}> {{
                     compute(|i, j| {element})
                 }}"
            );
            let _ = check(&program, &[2, 3, 8, 15, 16, 17, 33, 64, 100]);
        }
        let program = format!(
            "#[autotune(dims(M = 2, N = 36))]
             fn f(x: Tensor<f32, M, N>, y: Tensor<f32, M, N>) -> Tensor<f32, M, {{ N * {by} }}> {{
                 compute(|i, j| {element})
             }}"
        );
        let _ = check(&program, &[0]);
    }
}

#[test]
fn long_sums_of_few_rows() {
    for (shape, reduction) in [
        ("N", "sum(0..N, |k| x[[k]])"),
        ("300, N", "max((0..300, 0..N), |l, k| x[[l, k]])"),
        ("3, N", "sum((0..3, 0..N), |l, k| x[[l, k]] * x[[l, k]])"),
    ] {
        let program = format!(
            "#[autotune(dims(N = 1..=70000))]
             fn f(x: Tensor<f32, {shape}>) -> Tensor<f32, 1> {{ compute(|_| {reduction} * 0.001) }}"
        );
        let extents: &[i64] =
            if shape.starts_with("300") { &[1, 33] } else { &[1, 31, 33, 8192, 70000] };
        let _ = check(&program, extents);
    }
}

/// Runs a program of three dimensions or fewer by its default schedule, on parameters that follow from their
/// places.
fn results(source: &str) -> Vec<u32> {
    let dag = dsl::program(source).unwrap();
    let schedule = default::schedule(&dag, &Target::generic(Isa::Avx2));
    let kernel = vector::lower(&nest::lower(&schedule), Isa::Avx2).unwrap();
    let params: Vec<Array> = (1..)
        .zip(dag.params())
        .map(|(n, id)| {
            let shape: Vec<u64> =
                dag.tensor(id).shape.iter().map(|it| it.eval_dims(&[]) as u64).collect();
            Array::random(DType::F32, &shape, n)
        })
        .collect();
    let like = tvmtune_ir::interp::run(&dag, &[], &params, &[]);
    let found = tvmtune_cpu::interp::run(&kernel, &[], &params, &[], &like).unwrap().remove(0);
    found.bytes().chunks(4).map(|it| u32::from_le_bytes(it.try_into().unwrap())).collect()
}

#[test]
fn spellings_by_rules_are_right() {
    for (operator, spellings) in spellings::operators(true) {
        assert!(spellings.len() >= 3, "{operator}");
        for it in &spellings {
            let _ = check(&it.text, &[0]);
        }
    }
}

#[test]
fn spellings_in_the_same_order_have_the_same_bits() {
    let mut different = Vec::new();
    for (operator, spellings) in spellings::operators(true) {
        // Another layout of the weight is another parameter, of other numbers.
        let is_alike =
            |it: &&spellings::Spelling| it.keeps_bits && !it.name.contains("transposed_weight");
        let base = results(&spellings[0].text);
        for it in spellings.iter().filter(is_alike) {
            if results(&it.text) != base {
                different.push(format!("{operator} {}", it.name));
            }
        }
    }
    assert_eq!(different, [""; 0]);
}

#[test]
fn flattened_and_split_axes_have_the_schedule_of_axes_of_their_own() {
    let alike = [
        "flat_taps",
        "flat_space",
        "flat_taps_and_flat_space",
        "split_channels",
        "weight_first",
        "second_first",
        "flat",
        "if_not",
        "nested",
    ];
    let mut different = Vec::new();
    for (operator, spellings) in spellings::operators(false) {
        // Of a plain convolution, a condition around the product is none on the operand.
        let is_plain = spellings::convolutions(false)
            .iter()
            .any(|it| it.name == operator && !it.is_transposed);
        for target in [Isa::Avx512, Isa::Avx2].map(Target::generic) {
            let trace = |text: &str| default::schedule(&dsl::program(text).unwrap(), &target).trace;
            let base = trace(&spellings[0].text);
            for it in spellings.iter().filter(|it| alike.contains(&&*it.name)) {
                if trace(&it.text) != base && !(is_plain && it.name == "if_not") {
                    different.push(format!("{operator} {}", it.name));
                }
            }
        }
    }
    assert_eq!(different, [""; 0]);
}

#[test]
fn padded_copies_have_the_code_of_checked_reads() {
    for convolution in spellings::convolutions(false).iter().filter(|it| !it.is_transposed) {
        let spellings = convolution.spellings();
        for isa in [Isa::Avx512, Isa::Avx2] {
            let code = |name: &str| {
                let text = &spellings.iter().find(|it| it.name == name).unwrap().text;
                let schedule =
                    default::schedule(&dsl::program(text).unwrap(), &Target::generic(isa));
                let kernel = vector::lower(&nest::lower(&schedule), isa).unwrap().to_string();
                // Programs number their tensors, and a copy that is none counts.
                let body = |it: &&str| !it.contains("kernel") && !it.contains(": tensor");
                kernel.lines().filter(body).collect::<Vec<_>>().join("\n")
            };
            let n_phases = code("other").matches("phase").count();
            assert!(code("other") == code("base"), "{convolution:?} on {isa:?}, {n_phases} phases");
        }
    }
}
