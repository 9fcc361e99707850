//! Studies, from their text to cells on disk and back to a report.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::cell::{Cell, Layer, Missing, Step};
use super::plan::Terms;
use super::{analysis, *};

const STUDY: &str = r#"
    name = "both"
    question = "Which is better?"
    networks = ["alexnet", "vgg-16", "resnet-18"]
    seeds = [1, 2, 3]
    budget = { trials = 20 }
    baseline = "plain"
    full = "plain"
    analytic = false
    donors = { pairs = "every-ordered-pair", budget = { trials = 40 } }
    [[arm]]
    name = "plain"
    recipe = { transfer = "never" }
    [[arm]]
    name = "given"
    recipe = { transfer = "once" }
"#;

fn study() -> Study {
    STUDY.parse().expect("a study")
}

/// A cell in which each of two layers became so many times as fast, at this pace.
fn cell(study: &Study, key: &Key, speedup: f64, pace: f64) -> Cell {
    let Terms { recipe, scheduler, budget } = study.terms(key).expect("a cell of the study");
    let curve = |default: f64| -> Vec<Step> {
        let half = (1.0 + 1.0 / speedup) / 2.0;
        let steps = [(1, 1.0, 1.0), (4, 4.0, half), (8, 8.0, 1.0 / speedup)];
        steps.map(|(n, at, part)| Step { trials: n, seconds: at / pace, ns: default * part }).into()
    };
    let layer = |name: &str, multiplicity: u32, default_ns: f64| Layer {
        name: name.to_owned(),
        multiplicity,
        default_ns,
        best_ns: default_ns / speedup,
        trials: 8,
        seconds: 4.0,
        source: "evolved".to_owned(),
        curve: curve(default_ns),
    };
    Cell {
        key: key.clone(),
        device: "here".to_owned(),
        tool: "tests".to_owned(),
        recipe,
        scheduler,
        budget,
        sources: study.sources_of_cell(key),
        other_load: Some(0.01),
        seconds: 16.0 / pace,
        unix_ms: 1,
        layers: vec![layer("first", 1, 1000.0), layer("second", 3, 2000.0)],
        missing: Vec::new(),
        curve: curve(7000.0),
    }
}

/// All cells of a study, with the speedup and the pace of each arm; seeds differ a little.
fn measured(study: &Study, arms: &[(&str, f64, f64)]) -> Vec<Cell> {
    let cells = study.source_cells().into_iter().chain(study.cells());
    let cell = |key: Key| {
        let (_, speedup, pace) = arms.iter().find(|it| it.0 == key.arm)?;
        Some(cell(study, &key, speedup * (1.0 + 0.002 * key.seed as f64), *pace))
    };
    cells.filter_map(cell).collect()
}

#[test]
fn studies_that_are_shipped_can_be_read() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/studies");
    let mut n_studies = 0;
    for entry in fs::read_dir(dir).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|it| it != "toml") {
            continue;
        }
        let study = Study::read(&path).expect("it can be read");
        assert_eq!(path.file_stem().and_then(|it| it.to_str()), Some(study.name.as_str()));
        assert!(!study.question.is_empty());
        assert!(study.smoke().cells().len() < 30, "smoke tests are short");
        n_studies += 1;
    }
    assert_eq!(n_studies, 10);
}

#[test]
fn inconsistent_studies_are_refused() {
    let check = |from: &str, to: &str, error: &str| {
        let text = STUDY.replacen(from, to, 1);
        assert_ne!(text, STUDY);
        let error_text = format!("{:#}", text.parse::<Study>().expect_err("it is wrong"));
        assert!(error_text.contains(error), "{error_text}");
    };
    check("alexnet", "alexnot", "no network is called `alexnot`");
    check("baseline = \"plain\"", "baseline = \"plan\"", "no arm is called `plan`");
    check("[1, 2, 3]", "[]", "`seeds` names none");
    check("\"given\"", "\"plain\"", "two arms have the same name");
    check("\"given\"", "\"donor\"", "an arm is called `donor`");
    check("transfer = \"once\"", "transfer = \"twice\"", "unknown variant `twice`");
}

#[test]
fn compared_cells_run_one_after_the_other() {
    let study = study();
    assert_eq!(study.source_cells().len(), 9, "each network from each seed");
    let cells = study.cells();
    assert_eq!(cells.iter().collect::<BTreeSet<_>>().len(), cells.len(), "none twice");
    // Of each seed and network: one without transfer, and one for each source.
    let blocks: Vec<&[Key]> = cells.chunks(3).collect();
    assert_eq!(blocks.len(), 9);
    for block in &blocks {
        assert!(block.iter().all(|it| (it.seed, &it.target) == (block[0].seed, &block[0].target)));
        assert!(block.iter().all(|it| it.source.as_ref() != Some(&it.target)));
        let given = block.iter().filter(|it| it.arm == "given");
        assert_eq!(given.map(|it| &it.source).collect::<BTreeSet<_>>().len(), 2);
    }
    let first: BTreeMap<u64, &Key> = blocks.iter().map(|it| (it[0].seed, &it[0])).collect();
    let first: BTreeSet<_> = first.values().map(|it| (&it.arm, &it.source)).collect();
    assert_eq!(first.len(), 3, "each comes first once");
    let Terms { recipe, .. } = study.terms(&cells[0]).expect("its own");
    assert!(!recipe.analytic, "the study forbids it");
}

#[test]
fn finished_cells_are_kept_and_cut_off_ones_forgotten() {
    let study = study();
    let dir = tempfile::tempdir().expect("a folder");
    let all: Vec<Cell> = study.cells().iter().map(|it| cell(&study, it, 2.0, 1.0)).collect();
    let mut cells = Cells::read(dir.path(), &study).expect("there is none");
    for cell in &all[..3] {
        cells.push(cell.clone()).expect("it can be written");
    }
    let read = || Cells::read(dir.path(), &study).expect("it can be read").cells;
    assert_eq!(read(), all[..3]);

    let path = dir.path().join("cells.jsonl");
    let text = fs::read_to_string(&path).expect("it is there");
    assert_eq!(text.lines().count(), 3, "a cell a line, and nothing else");
    fs::write(&path, &text[..text.len() - 20]).expect("it can be written");
    assert_eq!(read(), all[..2]);
    let mut cells = Cells::read(dir.path(), &study).expect("it can be read");
    assert!(cells.has(&all[1].key, "here") && !cells.has(&all[1].key, "there"));
    assert!(!cells.has(&all[2].key, "here"));
    let again = Cell { unix_ms: 2, ..all[1].clone() };
    for cell in [&all[3], &again] {
        cells.push(cell.clone()).expect("it can be written");
    }
    assert_eq!(read(), [all[0].clone(), all[3].clone(), again]);

    let other = STUDY.replace("trials = 20", "trials = 21").parse().expect("a study");
    assert!(Cells::read(dir.path(), &other).expect("it can be read").cells.is_empty());
}

#[test]
fn cells_with_the_records_of_other_sources_are_of_another_study() {
    let study = study();
    let pooled: Study = STUDY.replace("every-ordered-pair", "pooled").parse().expect("a study");
    let key = |source: &str, seed| Key {
        seed,
        target: "vgg-16".to_owned(),
        source: Some(source.to_owned()),
        arm: "given".to_owned(),
    };
    assert!(study.cells().contains(&key("alexnet", 2)));
    assert!(pooled.cells().contains(&key(Study::OTHERS, 3)));
    let names = |keys: Vec<Key>| {
        keys.into_iter().map(|it| (it.target, it.arm, it.seed)).collect::<Vec<_>>()
    };
    let donor = |network: &str, seed| (network.to_owned(), "donor".to_owned(), seed);
    let of_pair = study.sources_of_cell(&key("alexnet", 2));
    assert_eq!(names(of_pair), [donor("alexnet", 2)], "of its own seed");
    let of_pool = pooled.sources_of_cell(&key(Study::OTHERS, 3));
    assert_eq!(names(of_pool), [donor("alexnet", 3), donor("resnet-18", 3)]);
    let plain = study.cells().into_iter().find(|it| it.arm == "plain").expect("a cell");
    assert!(study.sources_of_cell(&plain).is_empty());

    let dir = tempfile::tempdir().expect("a folder");
    let mut cells = Cells::read(dir.path(), &study).expect("there is none");
    let own = cell(&study, &key("alexnet", 2), 2.0, 1.0);
    let other_seed = study.sources_of_cell(&key("alexnet", 1));
    let foreign = Cell { sources: other_seed, ..own.clone() };
    cells.push(foreign).expect("it can be written");
    assert!(Cells::read(dir.path(), &study).expect("it can be read").cells.is_empty());
    cells.push(own.clone()).expect("it can be written");
    assert_eq!(Cells::read(dir.path(), &study).expect("it can be read").cells, [own]);
}

#[test]
fn an_effect_is_seen_and_none_is_not() {
    let study = study();
    let check = |given: (f64, f64), networks: f64, trials: f64, seconds: f64, is_effect: bool| {
        let cells = measured(&study, &[("plain", 1.5, 1.0), ("given", given.0, given.1)]);
        let cells: Vec<&Cell> = cells.iter().collect();
        let pairs = analysis::pairs(&cells, ["given", "plain"]);
        assert_eq!(pairs.len(), 18);
        for (a, b) in &pairs {
            assert_eq!((a.key.seed, &a.key.target), (b.key.seed, &b.key.target));
        }
        let it = analysis::compare(&pairs);
        let mean = |it: Option<tvmtune_tuner::statistics::Ratio>| it.expect("pairs").mean;
        assert!((mean(it.networks) - networks).abs() < 1e-9, "{:?}", it.networks);
        assert!((mean(it.layers) - networks).abs() < 1e-9);
        assert!((it.layers_median - networks).abs() < 1e-9);
        assert!((mean(it.trials) - trials).abs() < 1e-9, "{:?}", it.trials);
        assert!((mean(it.seconds) - seconds).abs() < 1e-9, "{:?}", it.seconds);
        assert_eq!(it.networks.expect("pairs").is_effect(), is_effect);
        // Layers and networks keep the same pace here.
        assert!((mean(it.network_seconds) - seconds).abs() < 1e-9, "{:?}", it.network_seconds);
        mean(it.at_equal_time)
    };
    let is_near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-2, "{found}");
    // As good, twice as fast.
    is_near(check((1.5, 2.0), 1.0, 1.0, 0.5, false), 0.8);
    // Better, but half of it is not as good as the other.
    is_near(check((2.0, 1.0), 0.75, 1.0, 1.0, true), 0.75);
    // Better, and as good as the other half-way.
    is_near(check((4.0, 0.5), 0.375, 0.5, 1.0, true), 0.625 * 1.5);
    // So slow that nothing is found when the other is over.
    is_near(check((4.0, 0.25), 0.375, 0.5, 2.0, true), 1.5);
    // Worse: the other was as good before its end.
    is_near(check((1.05, 1.0), 1.5 / 1.05, 2.0, 2.0, true), 1.5 / 1.05);
}

/// The confidence interval is that of the networks' means: neither more layers, nor more transfer sources, nor
/// more seeds make it narrower.
#[test]
fn layers_sources_and_seeds_do_not_count_as_networks() {
    let study = study();
    let speedups = [("alexnet", 2.0), ("vgg-16", 1.0), ("resnet-18", 1.5)];
    let of_network = |key: &Key| {
        let found = speedups.iter().find(|it| it.0 == key.target).expect("a network").1;
        if key.arm == "given" { found } else { 1.0 }
    };
    let cells: Vec<Cell> =
        study.cells().iter().map(|it| cell(&study, it, of_network(it), 1.0)).collect();
    let compared = |keep: &dyn Fn(&&Cell) -> bool| {
        let cells: Vec<&Cell> = cells.iter().filter(keep).collect();
        analysis::compare(&analysis::pairs(&cells, ["given", "plain"]))
    };
    let all = compared(&|_| true);
    let [of_networks, of_layers] = [all.networks, all.layers].map(|it| it.expect("pairs"));
    assert_eq!((all.n_pairs, of_networks.n), (18, 3));
    assert!((of_networks.low - of_layers.low).abs() < 1e-9, "layers are as much faster");
    assert!(of_networks.low < 0.5 && of_networks.high > 1.0, "{of_networks:?}");
    let one_seed = compared(&|it| it.key.seed == 1);
    let one_source = compared(&|it| it.key.source.as_deref().is_none_or(|it| it != "alexnet"));
    for fewer in [one_seed, one_source] {
        assert!(fewer.n_pairs < all.n_pairs);
        let fewer = fewer.networks.expect("pairs");
        assert!((fewer.low - of_networks.low).abs() < 1e-9, "{fewer:?}");
    }
    // The seeds of a single network are independent values.
    let one_network = compared(&|it| it.key.target == "alexnet").networks.expect("pairs");
    assert_eq!(one_network.n, 3);
}

#[test]
fn a_report_says_what_it_cannot_tell() {
    let study = study();
    let dir = tempfile::tempdir().expect("a folder");
    let effect = |cells: &[Cell]| {
        let path = report(dir.path(), &study, cells).expect("it can be written");
        let text = fs::read_to_string(path).expect("it is there");
        let line = text.lines().find(|it| it.starts_with("| given |") && it.contains(" to "));
        let line = line.unwrap_or_else(|| panic!("no comparison:\n{text}"));
        assert!(text.contains("Other programs used 1.0 % of the processors' time"), "{text}");
        line.trim_end_matches(" |").rsplit(" | ").next().expect("a cell").to_owned()
    };
    let arms = [("plain", 2.0, 1.0), ("given", 2.0, 1.0)];
    assert_eq!(effect(&measured(&study, &arms)), "none shown");
    let mut two = measured(&study, &[("plain", 2.0, 1.0), ("given", 3.0, 1.0)]);
    two.retain(|it| it.key.target != "alexnet");
    assert_eq!(effect(&two), "too few");
}

#[test]
fn a_report_says_what_was_found_and_what_was_left_out() {
    let study = study();
    let dir = tempfile::tempdir().expect("a folder");
    let mut cells =
        measured(&study, &[("plain", 2.0, 1.0), ("given", 1.5, 8.0), ("donor", 2.0, 1.0)]);
    let dropped = cells.pop().expect("a cell");
    let lame = cells.iter_mut().find(|it| it.key.arm == "plain").expect("a cell");
    let why = "its default schedule crashed".to_owned();
    lame.missing.push(Missing { name: "third".to_owned(), why });
    let path = report(dir.path(), &study, &cells).expect("it can be written");
    let text = fs::read_to_string(path).expect("it is there");
    for part in [
        "Which is better?",
        "## here",
        "| plain | 9 | 2.008x | 2.008x |",
        "slower |",
        "| given | alexnet | vgg-16 | 75.0 % | 67.",
        "| given | all | - | 75.0 % |",
        "third: its default schedule crashed",
        "1 cells have not been run",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert_eq!(dropped.key.arm, "given");
    for plot in ["alexnet_trials.svg", "vgg-16_seconds.svg", "alexnet/first_trials.svg"] {
        let plot =
            fs::read_to_string(dir.path().join("plots/here").join(plot)).expect("it is there");
        assert!(plot.contains("<polyline") && plot.contains("given"), "{plot}");
    }
    let nothing = report(dir.path(), &study, &[]).expect("it can be written");
    assert!(fs::read_to_string(nothing).expect("there").contains("Nothing has been measured"));
}
