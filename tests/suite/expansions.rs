//! Ops that no build script sees: made by other macros, in included files, behind a `cfg`. They are
//! planned where they expand, tuned one build later, and refused where records are required.

use std::fs;

use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, said};

use crate::cargo::{cargo, command};

/// Two ops that a macro makes, with a function that tells their tiers.
const MADE: &str = "
macro_rules! kernels { ($($name:ident $by:literal)*) => { $(
    #[tvmtune_runtime::autotune(dims(N = 8))]
    pub fn $name(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] * $by) }
)* } }
kernels! { twice 2.0 thrice 3.0 }
";

/// Runs cargo with `TVMTUNE=require`; returns what it printed, and whether it succeeded.
fn required(sandbox: &Sandbox, arguments: &[&str]) -> (String, bool) {
    let output = said(command(sandbox, "", arguments).env("TVMTUNE", "require"));
    (output.err, output.code == Some(0))
}

/// The names of the programs that have records.
pub(crate) fn recorded(sandbox: &Sandbox) -> Vec<String> {
    let folder = |it: &std::path::PathBuf| {
        it.parent().and_then(|it| it.file_name()).map(|it| it.to_string_lossy().into_owned())
    };
    sandbox.records().iter().filter_map(folder).collect()
}

/// Moves the records of the cache into the package.
fn ship(sandbox: &Sandbox) {
    let (from, to) = (sandbox.cache().join("v4/records"), sandbox.package().join("tvmtune"));
    let _ = fs::remove_dir_all(&to);
    fs::rename(from, to).expect("both are here");
}

fn mentions(output: &Said, name: &str) -> bool {
    output.err.contains(&format!("`{name}` stands in no source"))
}

#[test]
fn an_op_that_a_macro_makes_is_tuned_by_the_build_after_its_first() {
    let sandbox = Sandbox::new("made", &format!("{SOURCE}{MADE}"));
    let check = cargo(&sandbox, "", &["check"]);
    assert!(!mentions(&check, "twice"), "{check:?}");
    let first = cargo(&sandbox, "", &["build"]);
    assert!(mentions(&first, "twice") && !mentions(&first, "thrice"), "once is enough: {first:?}");
    assert_eq!(recorded(&sandbox), ["scaled_sum"]);
    // An editor's check between two builds changes nothing.
    cargo(&sandbox, "", &["check"]);
    let second = cargo(&sandbox, "", &["build"]);
    assert!(!mentions(&second, "twice"), "{second:?}");
    assert_eq!(recorded(&sandbox), ["scaled_sum", "thrice", "twice"]);
    let third = cargo(&sandbox, "", &["build"]);
    assert!(!third.err.contains("Compiling"), "{third:?}");
}

#[test]
fn an_op_that_is_gone_is_tuned_no_more() {
    let sandbox = Sandbox::new("gone", &format!("{SOURCE}{MADE}"));
    cargo(&sandbox, "", &["build"]);
    sandbox.write("src/lib.rs", &format!("{SOURCE}{}", MADE.replace("thrice 3.0", "")));
    for _ in 0..3 {
        cargo(&sandbox, "", &["build"]);
    }
    assert_eq!(recorded(&sandbox), ["scaled_sum", "twice"]);
    // The last expansion goes, and with it every chance to say so.
    sandbox.write("src/lib.rs", &MADE.replace("twice 2.0 thrice 3.0", ""));
    cargo(&sandbox, "", &["build"]);
    sandbox.write("src/lib.rs", &SOURCE.replace("0.5", "0.25"));
    let last = cargo(&sandbox, "", &["build"]);
    assert!(!last.err.contains("tvmtune:"), "{last:?}");
}

#[test]
fn an_included_op_is_seen_like_any_other() {
    let sandbox = Sandbox::new("included", "include!(\"kernels.inc\");\n");
    sandbox.write("src/kernels.inc", SOURCE);
    let first = cargo(&sandbox, "", &["build"]);
    assert!(mentions(&first, "scaled_sum"), "{first:?}");
    cargo(&sandbox, "", &["build"]);
    assert_eq!(recorded(&sandbox), ["scaled_sum"]);
}

#[test]
fn a_cfg_that_is_off_is_neither_tuned_nor_required() {
    let off = "
        #[cfg(some_day)]
        #[autotune(dims(N = 8))]
        pub fn later(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] * 7.0) }

        #[cfg(test)]
        mod tests {
            use tvmtune_runtime::autotune;
            #[autotune(dims(N = 8))]
            fn in_test(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] * 9.0) }
            #[test]
            fn runs() { in_test(&tvmtune_runtime::Cpu::new(), &[1.0; 8], &mut [0.0; 8]).unwrap() }
        }
    ";
    let sandbox = Sandbox::new("behind_cfg", &format!("{SOURCE}{off}"));
    cargo(&sandbox, "", &["build"]);
    cargo(&sandbox, "", &["build"]);
    assert_eq!(recorded(&sandbox), ["scaled_sum"]);
    ship(&sandbox);
    let (said, passed) = required(&sandbox, &["check"]);
    assert!(passed, "{said}");
    let (said, passed) = required(&sandbox, &["test", "--lib"]);
    assert!(!passed && said.contains("`in_test`") && !said.contains("`later`"), "{said}");
    cargo(&sandbox, "", &["test", "--lib"]);
    cargo(&sandbox, "", &["test", "--lib"]);
    assert!(recorded(&sandbox).contains(&"in_test".to_owned()));
}

#[test]
fn what_nobody_saw_is_refused_where_records_are_required() {
    let sandbox = Sandbox::new("unseen", MADE);
    for arguments in [["check"], ["build"]] {
        let (said, passed) = required(&sandbox, &arguments);
        assert!(!passed, "{said}");
        for name in ["twice", "thrice"] {
            assert!(said.contains(&format!("`{name}` is refused")), "{said}");
        }
    }
}

#[test]
fn without_a_build_script_the_mode_is_kept_and_said_once() {
    let sandbox = Sandbox::new("scriptless", &format!("{SOURCE}{MADE}"));
    fs::remove_file(sandbox.package().join("build.rs")).expect("it is there");
    let plain = cargo(&sandbox, "", &["check"]);
    assert!(!plain.err.contains("tvmtune:"), "{plain:?}");
    let (said, passed) = required(&sandbox, &["check"]);
    assert!(!passed && said.contains("build.rs"), "{said}");
    let misspelt = said_with(&sandbox, "requre");
    assert!(misspelt.err.contains("`TVMTUNE=requre`"), "{misspelt:?}");
    // Back without the variable: cargo must expand again.
    cargo(&sandbox, "", &["check"]);
    sandbox.write("tvmtune.toml", "schema = 1\n");
    sandbox.write("src/lib.rs", &format!("{SOURCE}{MADE}\n"));
    let warned = cargo(&sandbox, "", &["check"]);
    assert_eq!(warned.err.matches("for want of a build script").count(), 1, "{warned:?}");
}

fn said_with(sandbox: &Sandbox, mode: &str) -> Said {
    let output = said(command(sandbox, "", &["check"]).env("TVMTUNE", mode));
    assert_ne!(output.code, Some(0), "{output:?}");
    output
}

#[test]
fn a_hand_edited_trace_is_refused_where_records_are_required() {
    let sandbox = Sandbox::new("edited", SOURCE);
    cargo(&sandbox, "", &["build"]);
    ship(&sandbox);
    let (said, passed) = required(&sandbox, &["check"]);
    assert!(passed, "{said}");
    let folder = sandbox.package().join("tvmtune/scaled_sum");
    let record = fs::read_dir(folder).expect("it is there").next().expect("one").expect("readable");
    let text = fs::read_to_string(record.path()).expect("readable");
    let edited = text.replacen("trace = [", "trace = [\"inline s77\", ", 1);
    fs::write(record.path(), edited).expect("writable");
    let (said, passed) = required(&sandbox, &["check"]);
    assert!(!passed && said.contains("`scaled_sum` is refused"), "{said}");
}

#[test]
fn functions_of_one_program_with_other_buckets_have_plans_of_their_own() {
    let other = SOURCE.replace("scaled_sum", "coarse").replace("M = [8, 64]", "M = [32, 64]");
    let other = other.replace("use tvmtune_runtime::autotune;", "");
    let sandbox = Sandbox::new("twins", &format!("{SOURCE}{other}"));
    sandbox.write(
        "src/main.rs",
        "
        use tvmtune_runtime::Tier;
        fn main() {
            let fine = |m| twins::scaled_sum::plan(twins::scaled_sum::Dims { m }).unwrap();
            let coarse = |m| twins::coarse::plan(twins::coarse::Dims { m }).unwrap();
            assert_eq!([fine(8), fine(9)].map(|it| it.bucket[0]), [(1, 8), (9, 64)]);
            assert_eq!([coarse(9), coarse(33)].map(|it| it.bucket[0]), [(1, 32), (33, 64)]);
            for plan in [fine(8), fine(9), coarse(9), coarse(33)] {
                assert_eq!(plan.tier, Tier::Exact, \"{plan:?}\");
            }
        }
    ",
    );
    cargo(&sandbox, "", &["run"]);
}
