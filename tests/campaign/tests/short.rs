//! Every section for a few cases, by the command that runs the campaign.

use std::process::Command;

use tvmtune_campaign::sections::ALL;

fn campaign() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_campaign"));
    command.env_remove("PROPTEST_CASES");
    command
}

#[test]
fn every_section_runs_without_findings() {
    let out = tempfile::tempdir().unwrap();
    for section in ALL {
        let mut command = campaign();
        command.arg(section.name()).args(["--cases", &section.cases_of_a_test().to_string()]);
        let output = command.arg("--out").arg(out.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}\n{errors}");
        assert!(text.contains("seed "), "{text}");
    }
}
