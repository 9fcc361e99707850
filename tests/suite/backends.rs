//! The second test oracle: printed Rust, compiled by rustc, computes what the interpreter does.
//!
//! No interpreter sees a lost parenthesis or a swapped argument in text. So many programs under
//! many schedules are printed into one crate, which is compiled once and run.

use std::path::Path;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use tvmtune_cpu::rust;
use tvmtune_ir::dag::{DType, Dag, Number};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_schedule::Schedule;
use tvmtune_schedule::arbitrary::{any_case, any_moves, scheduled};
use tvmtune_tests::portable::{self, Launch};

/// A launch of a schedule.
fn launch(
    dag: &Dag,
    schedule: &Schedule,
    dims: &[i64],
    params: &[Array],
    scalars: &[Number],
) -> Launch {
    let expected = tvmtune_ir::interp::run(dag, dims, params, scalars);
    Launch::new(schedule, (dims, params, scalars), expected)
}

/// Compiles and runs all launches, and checks what each one computes.
#[track_caller]
fn check(name: &str, launches: &[Launch]) {
    let texts: Vec<String> = launches.iter().map(|it| rust::print(&it.nest)).collect();
    let verdicts = judge(name, launches, &texts);
    for ((launch, text), verdict) in launches.iter().zip(&texts).zip(verdicts) {
        if let Some(fault) = verdict {
            panic!("{fault}: {}\n{}\n{text}", launch.label, launch.nest);
        }
    }
}

/// Returns the error of each launch of these texts; `None` for correct ones.
fn judge(name: &str, launches: &[Launch], texts: &[String]) -> Vec<Option<String>> {
    let verdict = |(launch, results): (&Launch, Option<Vec<Array>>)| {
        let Some(results) = results else { return Some("panicked".to_owned()) };
        let mut pairs = results.iter().zip(&launch.expected);
        pairs.find_map(|(got, want)| got.max_error(want, 1e-5, 1e-5)).map(|it| format!("{it:?}"))
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("backends");
    launches.iter().zip(portable::run(&folder, name, launches, texts)).map(verdict).collect()
}

/// Random programs under random schedules.
fn launches(n: usize) -> Vec<Launch> {
    let mut runner = TestRunner::deterministic();
    let moves = any_moves(11);
    let mut launches = Vec::new();
    for _ in 0..n {
        let case = any_case().new_tree(&mut runner).unwrap().current();
        let schedule = scheduled(&case.dag, &moves.new_tree(&mut runner).unwrap().current());
        let (params, scalars) = (case.params(), case.scalars());
        launches.push(launch(&case.dag, &schedule, &case.dims, &params, &scalars));
    }
    launches
}

#[test]
fn printed_rust_computes_what_any_schedule_says() {
    let launches: Vec<Launch> = launches(2000).into_iter().chain(differences()).collect();
    check("any_schedule", &launches);
}

type Mistake = fn(&str) -> String;

/// Mistakes that a printer could make; each changes a text, or leaves it as it is.
const MISTAKES: [(&str, Mistake); 6] = [
    ("a lost parenthesis", unwrap_operand),
    ("two arguments swapped", swap_params),
    ("a guard that lets one more in", |text| text.replacen(" < ", " <= ", 1)),
    ("a minimum that is a maximum", |text| text.replacen("i64::min(", "i64::max(", 1)),
    ("a difference that is a sum", |text| text.replacen("] - ", "] + ", 1)),
    ("a slice one element off", |text| text.replacen(" as usize..][", " as usize + 1..][", 1)),
];

/// Takes the parentheses off the right operand of a product or difference of elements.
fn unwrap_operand(text: &str) -> String {
    for before in ["] * (", "] - (", ") * (", "_f32 - ("] {
        let Some(open) = text.find(before).map(|it| it + before.len() - 1) else { continue };
        let mut depth = 0;
        let close = text[open..].find(|it| {
            depth += i32::from(it == '(') - i32::from(it == ')');
            depth == 0
        });
        let Some(close) = close.map(|it| open + it) else { continue };
        let inside = &text[open + 1..close];
        // A cast of a whole operand would swallow what follows.
        let casts = [" as i", " as f"].iter().any(|it| inside.contains(it));
        if [" + ", " - "].iter().any(|it| inside.contains(it)) && !casts {
            return format!("{}{inside}{}", &text[..open], &text[close + 1..]);
        }
    }
    text.to_owned()
}

/// Swaps the names of the first two parameters that have the same type.
fn swap_params(text: &str) -> String {
    let Some((head, rest)) = text.split_once(") {") else { return text.to_owned() };
    let Some((start, params)) = head.split_once('(') else { return text.to_owned() };
    let mut params: Vec<(&str, &str)> =
        params.split(", ").filter_map(|it| it.split_once(": ")).collect();
    for (n, m) in (0..params.len()).flat_map(|m| (0..m).map(move |n| (n, m))) {
        if params[n].1 == params[m].1 {
            (params[n].0, params[m].0) = (params[m].0, params[n].0);
            break;
        }
    }
    let params: Vec<String> = params.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
    format!("{start}({}) {{{rest}", params.join(", "))
}

/// Programs that depend on their parentheses, which random ones seldom do.
fn differences() -> Vec<Launch> {
    let sources = [
        "x[[i]] * (y[[i]] + 2.0)",
        "x[[i]] - (y[[i]] - 3.0)",
        "x[[i]] - (y[[i]] + x[[i]])",
        "(x[[i]] + 1.0) * (y[[i]] - 0.5)",
        "(x[[i]] - y[[i]]) * (x[[i]] + y[[i]])",
        "(x[[i]] * y[[i]] - 4.0) * (y[[i]] - x[[i]])",
        "tf32(x[[i]] * 0.3) - y[[i]]",
        // Loop variables have a type where a method is called.
        "x[[i]] * (i - 3).abs() as f32 - if (2 * i - 5).abs() < 4 { y[[i]] } else { 1.0 }",
    ];
    let of_body = |body: &&str| {
        let dag = dsl::program(&format!(
            "#[autotune(dims(N = 7))]
            fn f(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {{ compute(|i| {body}) }}"
        ));
        let dag = dag.unwrap();
        let params = [1, 2].map(|seed| Array::random(DType::F32, &[7], seed));
        launch(&dag, &Schedule::new(&dag), &[], &params, &[])
    };
    sources.iter().map(of_body).collect()
}

#[test]
fn mistakes_in_printing_are_seen() {
    let (mut mutants, mut texts, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, (_, mistake)) in MISTAKES.iter().enumerate() {
        for launch in differences().into_iter().chain(launches(200)) {
            let text = rust::print(&launch.nest);
            let mistaken = mistake(&text);
            if mistaken != text && kinds.iter().filter(|it| **it == kind).count() < 40 {
                mutants.push(launch);
                texts.push(mistaken);
                kinds.push(kind);
            }
        }
    }
    let verdicts = judge("mistakes", &mutants, &texts);
    for (kind, (name, _)) in MISTAKES.iter().enumerate() {
        let of_kind = || kinds.iter().zip(&verdicts).filter(|(it, _)| **it == kind);
        let (tried, seen) = (of_kind().count(), of_kind().filter(|(_, it)| it.is_some()).count());
        assert!(tried >= 5 && seen * 2 > tried, "{name}: {seen} of {tried} seen");
    }
}
