//! The parser of canonical text: round trips, and refusals with their lines.

use proptest::prelude::*;

use crate::dag::print::{canonical, class};
use crate::dag::{Dag, TensorKind, verify};

const LINEAR: &str = "tvmtune dag v1
dim d0 in 1..=512
scalar s0: f32
input t0: f32[d0, 384]
weight t1: f16[64, 384]
t2: f32[d0, 64] = sum(v2 < 384) mul(t0[v0, v2], f32(t1[v1, v2]))
t3: f32[d0, 64] = max(mul(t2[v0, v1], s0), -0.5_f32)
return t3, t2
";

const FUNCTIONS: &str = "tvmtune dag v1
input t0: f32[7]
t1: f32[7] = add(exp2(log2(t0[v0])), exp_m1(ln_1p(t0[v0])))
return t1
";

const CONV: &str = "tvmtune dag v1
input t0: f32[1, 3, 9, 9]
weight t1: f32[4, 3, 3, 3]
t2: f32[1, 4, 5, 5] = sum(v4 < 3, v5 < 3, v6 < 3) mul(select(and(and(and(ge(index(2*v2 + v5 - 1), index(0)), lt(index(2*v2 + v5 - 1), index(9))), ge(index(2*v3 + v6 - 1), index(0))), lt(index(2*v3 + v6 - 1), index(9))), t0[v0, v4, 2*v2 + v5 - 1, 2*v3 + v6 - 1], 0.0_f32), t1[v1, v4, v5, v6])
return t2
";

const GATHER: &str = "tvmtune dag v1
input t0: i32[7]
input t1: f32[100, 8]
t2: f32[7, 4, 2] = select(and(ge(t0[v0], 0_i32), lt(t0[v0], 100_i32)), t1[t0[v0], 2*v1 + v2], -inf_f32)
t3: f32[7, 8] = t2[v0, ((v1)/(2)), ((v1)%(2))]
t4: bool[7] = any(v1 < 8) ne(t3[v0, v1], 1e-5_f32)
return t3, t4
";

const CAPACITY: &str = "tvmtune dag v1
dim d0 in 1..=512
dim d1 in 1..=2048
dim d2 in 1..=2048
where d1 >= d2
where d2 >= ((d0 + 3)/(4))
input t0: f32[d1, 4*d2]
t1: f32[d2, d0] = t0[v0, v1]
t2: f32[d1 - d2 + 1] = f32(index(v0))
return t1
";

const TEMPLATE: &str = "tvmtune dag v1
dim d0 in 1..=512
input t0: f32[d0]
t1: f32[d0] = mul(t0[v0], 2.0_f32)
return t1
template kernels/a.cu
macro K = 3
knob BLOCK in [64, 128]
constraint lt(mul(k0, 2), 512)
launch a: grid div(add(d0, 63), k0), block k0, shared 0
source
|extern \"C\" __global__ void a(const float* x, float* y, Index n) {
|
|}
";

const BITS: &str = "tvmtune dag v1
input t0: u8[7]
input t1: u8[7]
t2: u8[7] = shl(bit_and(t0[v0], 15_u8), bit_xor(t1[v0], bit_or(not(t0[v0]), shr(t1[v0], 4_u8))))
return t2
";

const ORDERED: &str = "tvmtune dag v1
numerics fixed
order blocks(16, lanes(4))
dim d0 in 1..=512
input t0: f32[d0, 384]
t1: f32[d0] = sum(v1 < 384) t0[v0, v1]
return t1
";

const SEEDS: [&str; 8] = [LINEAR, FUNCTIONS, BITS, CONV, GATHER, CAPACITY, TEMPLATE, ORDERED];

#[test]
fn canonical_text_comes_back() {
    for text in SEEDS {
        let dag: Dag = text.parse().unwrap();
        assert_eq!(canonical(&dag), text);
        assert_eq!(verify(&dag), []);
    }
    let dag: Dag = LINEAR.parse().unwrap();
    assert_eq!((dag.params().count(), dag.computes.len(), dag.outputs.len()), (2, 2, 2));
    assert_eq!((dag.tensors[1].kind, dag.dims[0].range.hi), (TensorKind::Weight, 512));
}

#[track_caller]
fn check(seed: &str, part: &str, instead: &str, expected: &str) {
    assert!(seed.contains(part));
    let text = seed.replacen(part, instead, 1);
    assert_eq!(text.parse::<Dag>().unwrap_err().to_string(), expected);
}

#[test]
fn errors_name_the_line_and_what_was_expected() {
    check(LINEAR, "v1\n", "v2\n", "line 1: expected `tvmtune dag v1`, found `tvmtune dag v2`");
    check(LINEAR, "1..=512", "0..=512", "line 2: extents are from 1 to 2147483647");
    check(LINEAR, "s0: f32", "s0: f33", "line 3: expected a type, found `f33`");
    check(LINEAR, "t1: f16", "t2: f16", "line 5: expected number 1, found 2");
    check(LINEAR, "t0[v0, v2]", "t9[v0, v2]", "line 6: there is no `t9` here");
    check(LINEAR, "t0[v0, v2]", "t0[v0, v3]", "line 6: there is no `v3` here");
    check(LINEAR, "mul(t2", "mull(t2", "line 7: expected an expression, found `mull(t2[v0, v1],`");
    check(LINEAR, ", -0.5_f32", "", "line 7: expected 2 operands, found another number of them");
    check(LINEAR, "return t3, t2\n", "return t3, t2", "line 9: not as canonical text has it");
    check(LINEAR, "return t3, t2\n", "", "line 8: not as canonical text has it");
    check(CONV, "2*v2 + v5 - 1", "v5 + 2*v2 - 1", "line 4: not as canonical text has it");
    check(GATHER, "((v1)/(2))", "((v1)/(0))", "line 5: `0` may be 0 or less");
}

#[test]
fn written_orders_come_back() {
    for order in ["sequence", "lanes(32)", "blocks(256)", "blocks(256, lanes(1024))"] {
        let text = ORDERED.replace("blocks(16, lanes(4))", order);
        let dag: Dag = text.parse().unwrap();
        assert_eq!((canonical(&dag), dag.written_order), (text, order.parse().ok()));
        let mut fixed = dag.clone();
        fixed.fix_numerics();
        assert_eq!(fixed, dag);
        let class = class(&dag);
        let expected = format!("tvmtune class v1\nnumerics fixed\norder {order}\n");
        assert!(class.starts_with(&expected), "{class}");
    }
}

#[test]
fn orders_that_cannot_be_written_are_refused() {
    let mut longest = "9".repeat(40_000);
    longest.push(')');
    for order in ["", "lanes(3)", "blocks(1)", "lanes(32", "lanes", "blocks(-1)", &longest] {
        let found = ORDERED.replace("blocks(16, lanes(4))", order).parse::<Dag>().unwrap_err();
        assert_eq!(found.line, 3, "{found}");
        assert!(found.message.starts_with(&format!("`{order}` is no order; expected ")), "{found}");
    }
    let spaced = "line 3: not as canonical text has it";
    check(ORDERED, "16, lanes(4)", "16,lanes(4)", spaced);
    check(ORDERED, "lanes(4))", "lanes(4)) ", spaced);
    let unexpected = "expected `t`, found `order blocks(16,`";
    check(ORDERED, "numerics fixed\n", "", &format!("line 2: {unexpected}"));
    check(
        ORDERED,
        "dim d0",
        "order blocks(16, lanes(4))\ndim d0",
        &format!("line 4: {unexpected}"),
    );
    check(
        ORDERED,
        "numerics fixed\norder blocks(16, lanes(4))\n",
        "order blocks(16, lanes(4))\nnumerics fixed\n",
        &format!("line 2: {unexpected}"),
    );
    let far = "line 6: subscript 1 of `t0` may be out of bounds: ";
    let text = ORDERED.replace("v1 < 384", "v1 < 385");
    let found = text.parse::<Dag>().unwrap_err().to_string();
    assert!(found.starts_with(far), "{found}");
}

#[test]
fn lower_ends_grow_with_another_dimension() {
    let grow = "the lower end of d2 does not grow with one other dimension";
    for end in ["64 - d0", "d0*d0", "d0 + d1", "7", "((d0 + 3)%(4))", "(max(d0, 3))"] {
        check(CAPACITY, "((d0 + 3)/(4))", end, &format!("line 6: {grow}"));
    }
    check(CAPACITY, "((d0 + 3)/(4))", "d1", "line 6: the lower end of d1 depends on itself");
    check(CAPACITY, "d1 >= d2", "d1 >= d1", "line 5: the lower end of d1 depends on itself");
    check(CAPACITY, "d1 >= d2", "d1 >= d7", "line 5: there is no `d7` here");
    check(CAPACITY, "where d1", "where d7", "line 5: there is no `d7` here");
    let none = "ranges hold extents of no launch";
    check(CAPACITY, "d2 >= ((d0 + 3)/(4))", "d2 >= 8*d0", &format!("line 6: {none}"));
    let text = CAPACITY.replace("where d1 >= d2\n", "");
    assert!(text.parse::<Dag>().is_err(), "reads below `d2` may be out of bounds");
    let many = |n: usize| -> String { (1..=n).map(|n| format!("where d{n} >= d0\n")).collect() };
    let dims: String = (0..10).map(|n| format!("dim d{n} in 1..=9\n")).collect();
    let dag = |n| format!("tvmtune dag v1\n{dims}{}t0: f32[] = 1.0_f32\nreturn t0\n", many(n));
    assert!(dag(8).parse::<Dag>().is_ok());
    let refused = "line 20: more than 8 dimensions have lower ends";
    assert_eq!(dag(9).parse::<Dag>().unwrap_err().to_string(), refused);
}

#[test]
fn errors_of_meaning_name_the_compute() {
    check(
        LINEAR,
        "384]\nweight",
        "383]\nweight",
        "line 6: subscript 1 of `t0` may be out of bounds: Affine(Poly { terms: [([Var(VarId(2))], 1)] })",
    );
    check(LINEAR, "t3, t2", "t3, t3", "line 1: there is no result, or one is returned twice");
    check(GATHER, "1e-5_f32", "1_i32", "line 6: operands of types f32 and i32");
    check(GATHER, "1e-5_f32", "f32(tf32(1.0_f64))", "line 6: Tf32 of f64");
    check(GATHER, "1e-5_f32", "shl(1.0_f32, 1.0_f32)", "line 6: Shl of f32");
    check(GATHER, "1e-5_f32", "not(1.0_f32)", "line 6: Not of f32");
}

#[test]
fn numbers_that_could_overflow_and_deep_nesting_are_refused() {
    let index = |it: &str| CONV.replace("2*v2 + v5 - 1", it).parse::<Dag>().unwrap_err().message;
    assert_eq!(index("4503599627370496*v2"), "an index may be larger than 2^53");
    assert_eq!(index("9007199254740992*v2*v2"), "an index may be larger than 2^53");
    let sized = |shape: &str| {
        let text =
            format!("tvmtune dag v1\ninput t0: f32[{shape}]\nt1: f32[] = t0[0]\nreturn t1\n");
        text.parse::<Dag>().unwrap_err().message
    };
    assert_eq!(sized("17592186044417"), "a tensor has more than 2^46 bytes");
    assert_eq!(sized("2147483647, 2147483647, 2147483647"), "a tensor has more than 2^46 bytes");
    let far = CONV.replace("2*v2 + v5 - 1", "1125899906842624*v2").parse::<Dag>().unwrap_err();
    assert_eq!(far.message, "an offset into `t0` may exceed 2^53");
    assert!(index("99999999999999999999").starts_with("expected a number"));
    let nested = |n: usize, open: &str, close: &str| {
        let value = format!("{}t0[v0]{}", open.repeat(n), close.repeat(n));
        let text = format!("tvmtune dag v1\ninput t0: f32[4]\nt1: f32[4] = {value}\nreturn t1\n");
        text.parse::<Dag>().map_err(|it| it.message)
    };
    assert!(nested(255, "exp(", ")").is_ok());
    assert_eq!(nested(100_000, "exp(", ")"), Err("the text has more than 65536 bytes".into()));
    assert_eq!(nested(10_000, "exp(", ")"), Err("nested more than 256 deep".into()));
    let quotient = |n: usize| format!("{}v2{}", "((".repeat(n), ")/(2))".repeat(n));
    assert_eq!(index(&quotient(50)), "more than 6 quotients in one another");
}

/// Words to put in the place of others.
const WORDS: &str = "\
    0; 1; 2; 7; 63; 2147483647; 4611686018427387904; d0; d1; v0; v1; v2; s0; t0; t1; t2; \
    f16; i32; bool; sum; max; select; index; exp; add; div; eq; inf_f32; NaN_f32; -1_i32; \
    true_bool; ((v0)/(2)); ((v1)%(d0)); (min(v0, d0)); d0*d0*d0; 2147483647*v0*d0; input; \
    weight; return; dim; where; d2; lanes; blocks; sequence; order; numerics; fixed";

/// Separators of words.
fn is_between(it: char) -> bool {
    !it.is_ascii_alphanumeric() && it != '_' && it != '.'
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_dag_or_an_error(
        seed in 0..SEEDS.len(),
        edits in proptest::collection::vec((any::<u16>(), any::<u16>(), 0..5_u8), 1..5),
    ) {
        let mut text = SEEDS[seed].to_owned();
        for (place, word, kind) in edits {
            let starts: Vec<usize> = text
                .char_indices()
                .scan(true, |between, (n, it)| {
                    let starts = *between && !is_between(it);
                    *between = is_between(it);
                    Some((n, starts))
                })
                .filter_map(|(n, starts)| starts.then_some(n))
                .collect();
            let Some(start) = starts.get(place as usize % starts.len().max(1)).copied() else { continue };
            let length = text[start..].find(is_between).unwrap_or(text.len() - start);
            let words: Vec<&str> = WORDS.split("; ").collect();
            let word = words[word as usize % words.len()];
            match kind {
                0..=2 => text.replace_range(start..start + length, word),
                3 => text.replace_range(start..start + length, ""),
                _ => text.insert_str(start, &format!("{word}, ")),
            }
        }
        if let Ok(dag) = text.parse::<Dag>() {
            prop_assert_eq!(verify(&dag), vec![]);
            prop_assert_eq!(canonical(&dag), text);
        }
    }
}
