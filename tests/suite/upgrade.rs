//! Records of earlier releases, carried over by `cargo tvmtune upgrade`.

use std::fs;

use tvmtune_plan::record::{Bucket, Entry, Record, Source};
use tvmtune_tests::sandbox::{Said, Sandbox, files, said};

/// A record that release 0.1 wrote of [`SOURCE`].
const FORMER: &str = include_str!("../../compiler/plan/src/fixtures/generator-1.toml");

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");

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
fn upgrade(sandbox: &Sandbox) -> Said {
    let said = said(sandbox.command(TVMTUNE).args(["upgrade", "--shipped", "--without-measuring"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    said
}

#[test]
fn a_shipped_record_is_carried_over_once() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    sandbox.write(RECORD, FORMER);
    let n = FORMER.matches("[[bucket.schedule]]").count();
    let first = upgrade(&sandbox);
    assert!(
        first.out.contains(&format!("1 record: {n} schedules carried over, 0 replayed")),
        "{first:?}"
    );
    let text = fs::read_to_string(sandbox.package().join(RECORD)).expect("readable");
    assert!(text.contains("generator = 2"), "{text}");
    let measured = |text: &str| text.matches("median_ns = ").count();
    assert_eq!(measured(&text), measured(FORMER), "times are kept");
    let again = upgrade(&sandbox);
    assert!(again.out.contains("0 records"), "{again:?}");
    assert_eq!(fs::read_to_string(sandbox.package().join(RECORD)).expect("readable"), text);
}

#[test]
fn a_schedule_whose_code_is_another_by_now_is_named_and_kept_as_it_was() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let artifact = FORMER.split("artifact = \"").nth(1).and_then(|it| it.get(..64)).expect("one");
    sandbox.write(RECORD, &FORMER.replacen(artifact, &"0".repeat(64), 1));
    let said = upgrade(&sandbox);
    assert!(said.out.contains(": 1 schedule replayed"), "{said:?}");
    let text = fs::read_to_string(sandbox.package().join(RECORD)).expect("readable");
    assert!(text.contains(&"0".repeat(64)), "{text}");
}

const LINEAR: &str = "
use tvmtune_runtime::autotune;

#[autotune(dims(M = 1..=64, N = 96, K = 64), buckets(M = [8, 64]))]
pub fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
}
";

/// Changes the traces of the only record, as if an earlier release had made their code of others.
fn change_traces(sandbox: &Sandbox) {
    let path = sandbox.records().remove(0);
    let text = fs::read_to_string(&path).expect("readable");
    let mut record = Record::from_toml(&text).expect("a record");
    for bucket in &mut record.buckets {
        bucket.schedules.truncate(1);
        let entry = &mut bucket.schedules[0];
        (entry.source, entry.trace, entry.lineage) = (Source::Evolved, Vec::new(), Vec::new());
    }
    fs::write(&path, record.to_toml()).expect("writable");
}

#[test]
fn kept_code_is_timed_beside_that_of_now_and_what_is_damaged_is_named() {
    let sandbox = Sandbox::new("sandbox", LINEAR);
    let tvmtune = |arguments: &[&str]| {
        let said = said(sandbox.command(TVMTUNE).args(arguments));
        assert_eq!(said.code, Some(0), "{said:?}");
        said
    };
    let not_kept = "did not keep the earlier code of 2 kernels";
    let rows = |said: &Said| said.out.lines().filter(|it| it.starts_with("linear")).count();
    tvmtune(&["tune", "--trials", "8"]);
    change_traces(&sandbox);
    let compared = tvmtune(&["upgrade"]);
    assert!(rows(&compared) >= 2 && !compared.out.contains(not_kept), "{compared:?}");
    assert!(!compared.out.contains("recorded"), "{compared:?}");

    change_traces(&sandbox);
    let kept = files(&sandbox.cache().join("v1/code"));
    assert!(kept.len() >= 2, "{kept:?}");
    kept.iter().for_each(|it| fs::write(it, "damaged").expect("writable"));
    let damaged = tvmtune(&["upgrade"]);
    assert!(rows(&damaged) >= 2 && damaged.out.contains(not_kept), "{damaged:?}");
    let is_named = |it: &&std::path::PathBuf| damaged.err.contains(&it.display().to_string());
    assert!(kept.iter().filter(is_named).count() >= 2, "{damaged:?}");

    // A sandbox that is gone has left what its builds registered.
    let gone = sandbox.cache().join("v1/packages/gone-0123456789ab");
    fs::create_dir_all(&gone).expect("writable");
    let folder = sandbox.package().join("no-such-folder").display().to_string();
    fs::write(gone.join("stamp"), folder + "\n").expect("writable");
    sandbox.records().iter().for_each(|it| fs::remove_file(it).expect("it is there"));
    let listed = tvmtune(&["gc"]);
    assert!(listed.out.contains("1 folder in the cache of packages that are gone;"), "{listed:?}");
    assert!(listed.out.contains("of code that no record names;"), "{listed:?}");
    assert!(gone.exists() && !files(&sandbox.cache().join("v1/code")).is_empty());
    let removed = tvmtune(&["gc", "--apply"]);
    assert!(removed.out.contains("of code that no record names removed"), "{removed:?}");
    assert!(!gone.exists() && files(&sandbox.cache().join("v1/code")).is_empty());
    let packages = fs::read_dir(sandbox.cache().join("v1/packages")).into_iter().flatten();
    let n_before = packages.count();
    assert!(!tvmtune(&["gc", "--apply"]).out.contains("packages that are gone"));
    let packages = fs::read_dir(sandbox.cache().join("v1/packages")).into_iter().flatten();
    assert_eq!(packages.count(), n_before, "the folder of a package that exists stays");
}

#[test]
fn a_schedule_that_makes_other_code_is_replayed_until_it_is_measured_again() {
    let sandbox = Sandbox::new("sandbox", LINEAR);
    let tvmtune = |arguments: &[&str]| {
        let said = said(sandbox.command(TVMTUNE).args(arguments));
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out
    };
    tvmtune(&["tune", "--trials", "8"]);
    let path = sandbox.records().remove(0);
    let record = || Record::from_toml(&fs::read_to_string(&path).expect("readable")).expect("one");
    let before = record();
    // As if another release had made the code.
    let mut other = before.clone();
    for entry in other.buckets.iter_mut().flat_map(|it| &mut it.schedules) {
        entry.artifact = format!("{:064x}", entry.trace.len()).parse().expect("64 digits");
    }
    fs::write(&path, other.to_toml()).expect("writable");
    let status = || -> Vec<String> {
        let rows: serde_json::Value =
            serde_json::from_str(&tvmtune(&["status", "--json"])).expect("JSON");
        let rows = rows.as_array().expect("a list").iter();
        rows.map(|it| it["tier"].as_str().expect("a text").to_owned()).collect()
    };
    // By more than the noise of a busy machine: else the default schedule is as good.
    let is_searched = |bucket: &Bucket| {
        let default = bucket.schedules.iter().find(|it| it.source == Source::Default);
        default.is_some_and(|it| bucket.schedules[0].clearly_beats(it))
    };
    let n_searched = before.buckets.iter().filter(|it| is_searched(it)).count();
    let n_replayed = || status().iter().filter(|it| *it == "replayed").count();
    assert!(n_replayed() >= n_searched, "{:?}", status());
    let n_named = n_replayed();
    let said = tvmtune(&["upgrade"]);
    assert_eq!(said.lines().filter(|it| it.starts_with("linear")).count(), n_named, "{said}");
    assert_eq!(n_replayed(), 0, "{:?}", status());
    let after = record();
    for (before, after) in before.buckets.iter().zip(&after.buckets) {
        assert!(after.trials >= before.trials && after.complete == before.complete);
        let is_fresh =
            |it: &Entry| !it.is_replayed() && !it.artifact.to_string().starts_with("000000");
        assert!(after.schedules.iter().all(is_fresh) || !is_searched(before), "{after:?}");
    }
}

#[test]
fn what_is_replayed_is_marked_so_and_verified_for_what_it_says() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let tvmtune = |arguments: &[&str], code: i32| {
        let said = said(sandbox.command(TVMTUNE).args(arguments));
        assert_eq!(said.code, Some(code), "{said:?}");
        said.out
    };
    tvmtune(&["tune", "--trials", "4"], 0);
    tvmtune(&["accept"], 0);
    let path = files(&sandbox.package().join("tvmtune")).remove(0);
    let record = || Record::from_toml(&fs::read_to_string(&path).expect("readable")).expect("one");
    let good = record();
    let mut other = good.clone();
    let former = tvmtune_tests::code("of a former release");
    other.buckets[0].schedules[0].artifact = former;
    fs::write(&path, other.to_toml()).expect("writable");
    let verify = ["verify", "--shipped"];
    assert!(tvmtune(&verify, 1).contains("1 not as recorded"));
    let upgrade = ["upgrade", "--shipped", "--without-measuring"];
    assert!(tvmtune(&upgrade, 0).contains("1 record: 0 schedules carried over, 1 replayed"));
    let marked = record();
    let first = &marked.buckets[0].schedules[0];
    assert_eq!(
        (first.artifact, first.timed_code()),
        (good.buckets[0].schedules[0].artifact, former)
    );
    let said = tvmtune(&verify, 0);
    assert!(said.contains("0 not as recorded") && said.contains("1 replayed"), "{said}");
    assert!(tvmtune(&upgrade, 0).contains("0 records"), "once is enough");
    assert_eq!(record(), marked);
    // A mark excuses no other code, and no trace that does not apply.
    let mut bad = marked.clone();
    bad.buckets[0].schedules[0].artifact = former;
    fs::write(&path, bad.to_toml()).expect("writable");
    tvmtune(&verify, 1);
    let mut bad = marked.clone();
    bad.buckets[0].schedules[0].trace.push("split s0 a99 [4, 4]".to_owned());
    fs::write(&path, bad.to_toml()).expect("writable");
    tvmtune(&verify, 1);
    assert!(tvmtune(&upgrade, 0).contains("a trace does not apply"));
    // A time of other code is not shown, and is tuned again.
    fs::write(&path, marked.to_toml()).expect("writable");
    fs::remove_dir_all(sandbox.cache()).expect("writable");
    let said = tvmtune(&["check"], 1);
    assert!(said.contains("replayed"), "{said}");
    // What is measured takes the place of what is marked.
    tvmtune(&["tune", "--trials", "4"], 0);
    tvmtune(&["accept"], 0);
    assert!(record().buckets.iter().flat_map(|it| &it.schedules).all(|it| !it.is_replayed()));
    tvmtune(&verify, 0);
}

#[test]
fn the_records_that_ship_say_the_truth() {
    let checkout = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a checkout");
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let packages = ["-p", "tvmtune-kernels", "-p", "minilm"];
    let mut command = sandbox.command(TVMTUNE);
    let said = said(command.current_dir(checkout).args(["verify", "--shipped"]).args(packages));
    assert_eq!(
        said.code,
        Some(0),
        "where generated code changed, `cargo tvmtune upgrade --shipped --without-measuring \
         -p tvmtune-kernels -p minilm` says so in the records:\n{}{}",
        said.out,
        said.err
    );
    assert!(said.out.contains(" 0 not as recorded"), "{said:?}");
}
