//! Circumstances that no program shows: names that clash, examples in documentation, folders that moved
//! or are files, other builds that measure.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tvmtune_plan::database::Cache;
use tvmtune_plan::device;
use tvmtune_tests::sandbox::{SOURCE, Sandbox, said};
use tvmtune_tuner::executor::MachineLock;
use tvmtune_tuner::tune::{Event, Phase, Progress, ProgressFile, running};

use crate::cargo::{cargo, command};
use crate::expansions::recorded;
use crate::locks::until;

const SCRIPT: &str = env!("CARGO_BIN_EXE_script");

#[test]
fn nothing_is_tuned_where_two_kernels_of_a_module_have_one_name() {
    let twin = "
        #[autotune(dims(N = 8))]
        pub fn scaled_sum(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] * 7.0) }";
    let sandbox = Sandbox::new("clash", &format!("{SOURCE}{twin}"));
    let output = said(&mut command(&sandbox, "", &["build"]));
    assert!(output.code != Some(0) && output.err.contains("error[E0428]"), "{output:?}");
    assert!(!output.err.contains("tvmtune:"), "the compiler says it: {output:?}");
    assert!(sandbox.records().is_empty());
    // The same name elsewhere is another function.
    let elsewhere = format!("{SOURCE} pub mod other {{ use tvmtune_runtime::autotune; {twin} }}");
    sandbox.write("src/lib.rs", &elsewhere);
    cargo(&sandbox, "", &["build"]);
    assert_eq!(recorded(&sandbox), ["other.scaled_sum", "scaled_sum"]);
}

#[test]
fn kernels_of_one_name_that_only_expansions_show_are_told_apart() {
    let source = "
macro_rules! kernels { ($($module:ident $by:literal)*) => { $( pub mod $module {
    #[tvmtune_runtime::autotune(dims(N = 8))]
    pub fn scale(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] * $by) }
} )* } }
kernels! { double 2.0 triple 3.0 }
";
    let sandbox = Sandbox::new("namesakes", source);
    cargo(&sandbox, "", &["build"]);
    let second = cargo(&sandbox, "", &["build"]);
    assert!(!second.err.contains("is not used"), "{second:?}");
    let folders = recorded(&sandbox);
    let has_suffix = |it: &String| it.strip_prefix("scale_").is_some_and(|it| it.len() == 6);
    assert!(folders.len() == 2 && folders.iter().all(has_suffix), "{folders:?}");
    assert_ne!(folders[0], folders[1]);
    let tvmtune = |arguments: &[&str]| {
        let said = said(sandbox.command(env!("CARGO_BIN_EXE_tvmtune")).args(arguments));
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out
    };
    let one = tvmtune(&["status", "-k", &folders[0]]);
    assert!(one.contains(&folders[0]) && !one.contains(&folders[1]), "{one}");
    let third = cargo(&sandbox, "", &["build"]);
    assert!(!third.err.contains("is not used"), "records are found again: {third:?}");
}

#[test]
fn an_op_in_an_example_runs_by_its_default_schedule_and_leaves_nothing() {
    let example = "
/// ```
/// use tvmtune_runtime::autotune;
/// #[autotune(dims(N = 16))]
/// fn in_example(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] * 0.125) }
/// let mut y = [0.0; 16];
/// in_example(&tvmtune_runtime::Cpu::new(), &[1.0; 16], &mut y).unwrap();
/// assert_eq!(y[0], 0.125);
/// ```
pub fn documented() {}
";
    let sandbox = Sandbox::new("documented", &format!("{SOURCE}{example}"));
    cargo(&sandbox, "", &["build"]);
    let tested = cargo(&sandbox, "", &["test", "--doc"]);
    assert!(tested.out.contains("1 passed"), "{tested:?}");
    cargo(&sandbox, "", &["build"]);
    assert_eq!(recorded(&sandbox), ["scaled_sum"]);
    // An example is no part of what ships.
    let shipped = sandbox.package().join("tvmtune");
    fs::rename(sandbox.cache().join("v4/records"), shipped).expect("both are here");
    let required = said(command(&sandbox, "", &["test", "--doc"]).env("TVMTUNE", "require"));
    assert!(required.code == Some(0) && required.out.contains("1 passed"), "{required:?}");
}

#[test]
fn a_target_folder_may_move() {
    let sandbox = Sandbox::new("moving", SOURCE);
    cargo(&sandbox, "", &["build"]);
    let records = sandbox.records();
    // Hard links: dependencies must not compile again.
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sandbox");
    let moved = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moved");
    let build = |target: &Path| {
        let output = said(sandbox.cargo("", target).arg("build"));
        assert_eq!(output.code, Some(0), "{output:?}");
        output.err
    };
    // Other tests write there meanwhile: what they have not finished is compiled again.
    let _ = fs::remove_dir_all(&moved);
    if link_all(&shared, &moved).is_err() {
        return;
    }
    assert!(!build(&moved).contains("tvmtune:"));
    assert_eq!(sandbox.records(), records, "nothing is tuned again");
    sandbox.write("src/lib.rs", &SOURCE.replace("0.5", "0.25"));
    assert!(!build(&moved).contains("tvmtune:"));
    assert_eq!(sandbox.records().len(), 2, "the script is found at its new place");
    fs::remove_dir_all(&moved).expect("it was made");
    assert!(!build(&shared).contains("tvmtune:"));
    assert_eq!(sandbox.records().len(), 2);
}

/// Links all files below a folder into another one.
fn link_all(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => link_all(&entry.path(), &target)?,
            false => fs::hard_link(entry.path(), target)?,
        }
    }
    Ok(())
}

#[test]
fn a_folder_of_records_that_is_a_file_is_named_and_nothing_else_is_lost() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    sandbox.write("tvmtune", "a file");
    let tune = [("TVMTUNE", "tune")];
    let output = sandbox.build(SCRIPT, "out", &tune);
    let shipped = sandbox.package().join("tvmtune").display().to_string();
    let warnings = output.directives("warning");
    assert!(warnings.len() == 1 && warnings[0].contains(&shipped), "{output:?}");
    assert!(warnings[0].contains("it is a file"), "{output:?}");
    assert_eq!((output.code, sandbox.records().len()), (Some(0), 1), "it is tuned as usual");

    // The build goes on without results that can't be written.
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let records = sandbox.cache().join("v4/records");
    fs::create_dir_all(records.parent().expect("it has one")).expect("writable");
    fs::write(&records, "a file").expect("writable");
    let output = sandbox.build(SCRIPT, "out", &tune);
    let named = |it: &&&str| it.contains(&records.display().to_string());
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.directives("warning").iter().filter(named).count() >= 1, "{output:?}");
    assert_eq!(sandbox.plans("out").len(), 1, "by default");
}

#[test]
fn waiting_for_another_build_is_said_and_counts() {
    let Some(target) = device::detect() else { return };
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let cache = Cache::new(&sandbox.cache());
    let lock = MachineLock::of_device(&cache, &target.into(), Duration::ZERO).unwrap();
    let mut other = ProgressFile::new(&cache, "other_model", Duration::from_secs(60));
    other.on_event(&Event::Started { n_tasks: 1 });
    let budget = Duration::from_secs(8);
    let holder = thread::spawn(move || {
        let has_waited = || {
            let waits = |it: &Progress| it.phase == Phase::Waiting && it.elapsed().as_secs() >= 2;
            running(&cache).iter().any(waits)
        };
        until(has_waited, "the build waits");
        drop((lock, other));
    });
    let start = Instant::now();
    let variables = [("TVMTUNE", "tune"), ("TVMTUNE_BUDGET", "8s")];
    let output = sandbox.build(SCRIPT, "out", &variables);
    let took = start.elapsed();
    holder.join().unwrap();
    assert_eq!((output.code, sandbox.records().len()), (Some(0), 1), "{output:?}");
    let warnings = output.directives("warning");
    let waited = |it: &&&str| it.starts_with("tvmtune: waited ") && it.contains("`other_model`");
    assert_eq!(warnings.iter().filter(waited).count(), 1, "{output:?}");
    // The search of two small kernels has eight seconds less those of waiting.
    assert!(took < 2 * budget, "{took:?}");
}
