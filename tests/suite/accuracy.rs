//! Certificates of accuracy on the command line: measured, shown, and a reason to refuse a record; and
//! records of free numerics where these are fixed.

use std::fs;

use tvmtune_plan::record::accuracy::Errors;
use tvmtune_plan::record::{Accuracy, Class, Record};
use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, files, said};

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");

/// Runs a command that must end in this way.
#[track_caller]
fn check(sandbox: &Sandbox, arguments: &[&str], code: i32) -> Said {
    let said = said(sandbox.command(TVMTUNE).args(arguments));
    assert_eq!(said.code, Some(code), "{said:?}");
    said
}

#[test]
fn the_accuracy_of_what_a_build_embeds_is_measured() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let text = check(&sandbox, &["verify", "--accuracy", "--json"], 0).out;
    let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let accuracy = &rows[0]["accuracy"];
    for class in Class::ALL {
        let errors = &accuracy[class.name()];
        let [typical, worst] =
            ["typical", "worst"].map(|it| errors[it].as_f64().expect("an error"));
        assert!((0.0..=worst).contains(&typical) && worst < 100.0, "{class}: {errors}");
        assert!(errors.get("wrong").is_none(), "{class}: {errors}");
    }
    assert!(accuracy["ordinary"]["worst"].as_f64() > Some(0.0), "nothing is exact: {accuracy}");
    let table = check(&sandbox, &["verify", "--accuracy"], 0).out;
    assert!(table.contains("cancelling") && table.contains("roundings"), "{table}");
}

#[test]
fn a_less_accurate_record_is_accepted_only_if_asked_for() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    check(&sandbox, &["tune", "--trials", "4"], 0);
    let cached = sandbox.records().remove(0);
    let with_error = |worst: f64| {
        let mut record =
            Record::from_toml(&fs::read_to_string(&cached).expect("readable")).expect("a record");
        let errors = Errors { worst, typical: 0.25, wrong: 0 };
        for entry in record.buckets.iter_mut().flat_map(|it| &mut it.schedules) {
            entry.accuracy = Some(Accuracy([(Class::Huge, errors)].into()));
        }
        record.schema = record.needed_schema();
        fs::write(&cached, record.to_toml()).expect("writable");
    };
    with_error(3.0);
    let accepted = check(&sandbox, &["accept"], 0);
    assert!(accepted.out.contains("3.0 (0.2) roundings on huge numbers"), "{accepted:?}");
    let shown = check(&sandbox, &["status", "--accuracy"], 0);
    assert!(shown.out.contains("3.0 (0.2)"), "{shown:?}");
    let shipped = files(&sandbox.package().join("tvmtune")).remove(0);
    let before = fs::read_to_string(&shipped).expect("readable");

    with_error(40.0);
    let refused = check(&sandbox, &["accept"], 1);
    for part in ["errors of 40 roundings on huge numbers", "in place of 3.0", "--less-accurate"] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
    assert_eq!(fs::read_to_string(&shipped).expect("readable"), before);
    let folder = cached.parent().and_then(|it| it.parent()).expect("a store").display().to_string();
    let into = sandbox.package().join("tvmtune").display().to_string();
    check(&sandbox, &["merge", &folder, "--into", &into], 1);
    assert_eq!(fs::read_to_string(&shipped).expect("readable"), before);
    check(&sandbox, &["accept", "--less-accurate"], 0);
    assert_ne!(fs::read_to_string(&shipped).expect("readable"), before);
    // A record that is about as accurate is accepted.
    with_error(50.0);
    check(&sandbox, &["accept"], 0);
}

#[test]
fn what_was_tuned_with_free_numerics_serves_a_crate_that_fixes_them() {
    let source = "
use tvmtune_runtime::autotune;

#[autotune(dims(M = 1..=8, K = 40, N = 64))]
pub fn product(x: Tensor<f32, M, K>, w: Weight<f32, K, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[k, j]]))
}
";
    let sandbox = Sandbox::new("sandbox", source);
    check(&sandbox, &["tune", "--trials", "4"], 0);
    let row = || -> serde_json::Value {
        let text = check(&sandbox, &["status", "--json"], 0).out;
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")[0].clone()
    };
    assert_eq!((&row()["numerics"], &row()["tier"]), (&"free".into(), &"exact".into()));
    sandbox.write("tvmtune.toml", "schema = 1\nnumerics = \"fixed\"\n");
    let fixed = row();
    assert_eq!(fixed["numerics"], "fixed");
    assert!(fixed["tier"] == "unfinished" || fixed["tier"] == "replayed", "{fixed}");
    assert!(fixed["source"].is_string(), "a recorded schedule runs: {fixed}");
    check(&sandbox, &["verify", "--bits"], 0);
    // Its own search goes on, and has a record of its own.
    check(&sandbox, &["tune", "--trials", "6"], 0);
    assert_eq!(sandbox.records().len(), 2);
}
