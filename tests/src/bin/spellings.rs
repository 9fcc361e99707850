//! Times operators in all their spellings, each under its default schedule.
//!
//! `spellings FOLDER path/to/cargo-tvmtune` writes a crate of them to the folder, benches it several times, and
//! prints how much slower than the fastest spelling of its operator each is. The least time of all rounds
//! counts: where other work shares the machine, the median tells how much of it there was.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

use clap::Parser;
use serde::Deserialize;
use tvmtune_tests::spellings;

/// See the module.
#[derive(Parser)]
struct Options {
    /// The folder that the crate is written to.
    folder: PathBuf,
    /// The command line tool.
    command: PathBuf,
    /// Runs of the whole crate; the least time of each spelling counts.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// The factor over the fastest spelling from which on a spelling is named.
    #[arg(long, default_value_t = 1.1)]
    above: f64,
}

/// The row of a kernel in the report of `bench`.
#[derive(Deserialize)]
struct Row {
    name: String,
    default_us: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let operators = spellings::operators(false);
    write_crate(&options, &operators)?;
    let mut times: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..options.rounds {
        for row in bench(&options)? {
            let name = row.name.rsplit("::").next().unwrap_or(&row.name).to_owned();
            times.entry(name).or_default().push(row.default_us);
        }
    }
    let above = options.above;
    println!(
        "| operator | spellings | fastest, us | slowest, times | by medians | above {above} |"
    );
    println!("|---|---|---|---|---|---|");
    for (operator, spellings) in &operators {
        // Spellings with the same canonical text are one kernel, under the name of the first.
        let sorted = |name: &str| {
            let mut found = times.get(&format!("{operator}_{name}"))?.clone();
            found.sort_by(f64::total_cmp);
            Some((name.to_owned(), found))
        };
        let all: Vec<(String, Vec<f64>)> =
            spellings.iter().filter_map(|it| sorted(&it.name)).collect();
        let ratios = |of: fn(&[f64]) -> f64| -> Vec<f64> {
            let fastest = all.iter().map(|it| of(&it.1)).fold(f64::INFINITY, f64::min);
            all.iter().map(|it| of(&it.1) / fastest).collect()
        };
        let least = ratios(|it| it[0]);
        let slowest = |ratios: &[f64]| ratios.iter().copied().fold(1.0, f64::max);
        let by_medians = slowest(&ratios(|it| it[it.len() / 2]));
        let fastest = all.iter().map(|it| it.1[0]).fold(f64::INFINITY, f64::min);
        let named = all.iter().zip(&least).filter(|it| *it.1 > above);
        let named: Vec<String> = named.map(|(it, ratio)| format!("{} {ratio:.2}", it.0)).collect();
        let (n, named, slowest) = (all.len(), named.join(", "), slowest(&least));
        println!("| {operator} | {n} | {fastest:.0} | {slowest:.2} | {by_medians:.2} | {named} |");
    }
    Ok(())
}

fn write_crate(
    options: &Options,
    operators: &[(&'static str, Vec<spellings::Spelling>)],
) -> Result<(), Box<dyn Error>> {
    let runtime = concat!(env!("CARGO_MANIFEST_DIR"), "/../tvmtune-runtime");
    let manifest = format!(
        "[package]\nname = \"spellings\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         tvmtune-runtime = {{ path = \"{runtime}\" }}\n\n[workspace]\n"
    );
    let functions = operators.iter().flat_map(|it| &it.1).map(|it| it.text.clone());
    let source =
        "use tvmtune_runtime::autotune;\n\n".to_owned() + &functions.collect::<Vec<_>>().join("\n");
    std::fs::create_dir_all(options.folder.join("src"))?;
    std::fs::write(options.folder.join("Cargo.toml"), manifest)?;
    std::fs::write(options.folder.join("src/lib.rs"), source)?;
    Ok(())
}

fn bench(options: &Options) -> Result<Vec<Row>, Box<dyn Error>> {
    let run = Command::new(&options.command)
        .args(["tvmtune", "bench", "--json", "--default", "--operands", "warm", "--target", "cpu"])
        .arg("--manifest-path")
        .arg(options.folder.join("Cargo.toml"))
        .output()?;
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into());
    }
    Ok(serde_json::from_slice(&run.stdout)?)
}
