//! Records of earlier releases, carried over by `cargo tvmtune migrate`.

use std::fs;

use tvmtune_tests::sandbox::{Said, Sandbox, said};

/// A record that release 0.1 wrote of [`SOURCE`].
const FORMER: &str = include_str!("../../compiler/plan/src/fixtures/generator-1.toml");

const SOURCE: &str = "
use tvmtune_runtime::autotune;

#[autotune(dims(B = 1, C = 256, H = 56, W = 56))]
pub fn add_relu_256x56x56(
    x: Tensor<f32, B, C, H, W>,
    y: Tensor<f32, B, C, H, W>,
) -> Tensor<f32, B, C, H, W> {
    compute(|n, c, i, j| relu(x[[n, c, i, j]] + y[[n, c, i, j]]))
}
";

/// The path of the record in a crate's database.
const RECORD: &str = "tvmtune/add_relu_256x56x56/c2d516f69012.cpu-avx512-l1_48-l2_1024-t2.toml";

#[track_caller]
fn migrate(sandbox: &Sandbox) -> Said {
    let said = said(sandbox.command(env!("CARGO_BIN_EXE_tvmtune")).args(["migrate", "--shipped"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    said
}

#[test]
fn a_shipped_record_is_carried_over_once() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    sandbox.write(RECORD, FORMER);
    let n = FORMER.matches("[[bucket.schedule]]").count();
    let first = migrate(&sandbox);
    assert!(
        first.out.contains(&format!("1 record: {n} schedules carried over, 0 stale")),
        "{first:?}"
    );
    let text = fs::read_to_string(sandbox.package().join(RECORD)).expect("readable");
    assert!(text.contains("generator = 2"), "{text}");
    let measured = |text: &str| text.matches("median_ns = ").count();
    assert_eq!(measured(&text), measured(FORMER), "times are kept");
    let again = migrate(&sandbox);
    assert!(again.out.contains("0 records"), "{again:?}");
    assert_eq!(fs::read_to_string(sandbox.package().join(RECORD)).expect("readable"), text);
}

#[test]
fn a_schedule_whose_code_is_another_by_now_is_named_and_kept_as_it_was() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let artifact = FORMER.split("artifact = \"").nth(1).and_then(|it| it.get(..64)).expect("one");
    sandbox.write(RECORD, &FORMER.replacen(artifact, &"0".repeat(64), 1));
    let said = migrate(&sandbox);
    assert!(said.out.contains(": 1 schedule stale"), "{said:?}");
    let text = fs::read_to_string(sandbox.package().join(RECORD)).expect("readable");
    assert!(text.contains(&"0".repeat(64)), "{text}");
}
