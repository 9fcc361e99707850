//! Certificates of accuracy in records: their text, their schema, and what becomes of them in a merge.

use super::*;
use crate::record::accuracy::Errors;
use crate::record::{Accuracy, Class};

fn certificate(worst: f64) -> Accuracy {
    Accuracy([(Class::Tiny, Errors { worst, typical: 0.5, wrong: 0 })].into())
}

fn certified(artifact: &str, median_ns: f64, worst: f64) -> Entry {
    let entry = entry(artifact, Source::Evolved, median_ns);
    Entry { accuracy: Some(certificate(worst)), ..entry }
}

#[test]
fn errors_take_schema_6_and_survive_the_way_to_text() {
    let mut record = record(vec![bucket(1, 16, vec![certified("a", 100.0, 3.0)])]);
    assert_eq!(record.needed_schema(), 6);
    let refused = Record::from_toml(&record.to_toml()).unwrap_err().to_string();
    assert!(refused.contains("more than records of its schema can"), "{refused}");
    record.schema = 6;
    let text = record.to_toml();
    assert!(text.contains("accuracy = { tiny = { worst = 3.0, typical = 0.5 } }"), "{text}");
    assert_eq!(Record::from_toml(&text).as_ref(), Ok(&record));
    for nonsense in ["worst = -1.0", "worst = inf", "worst = nan"] {
        let text = text.replace("worst = 3.0", nonsense);
        let refused = Record::from_toml(&text).unwrap_err().to_string();
        assert!(refused.contains("`accuracy` is not of errors"), "{refused}");
    }
    assert!(Record::from_toml(&text.replace("tiny", "tepid")).is_err(), "no such class");
}

#[test]
fn the_same_code_keeps_its_errors_whoever_timed_it() {
    let errors = |first: &Entry, then: &Entry| {
        let mut bucket = bucket(1, 16, Vec::new());
        bucket.add(first.clone());
        bucket.add(then.clone());
        bucket.schedules[0].accuracy.clone()
    };
    let plain = |median_ns| entry("a", Source::Evolved, median_ns);
    for median_ns in [50.0, 100.0, 200.0] {
        let known = certified("a", 100.0, 3.0);
        assert_eq!(errors(&known, &plain(median_ns)), known.accuracy);
        assert_eq!(errors(&plain(median_ns), &known), known.accuracy);
        // The latest measurement of both is that of the code generator of now.
        let other = certified("a", median_ns, 4.0);
        assert_eq!(errors(&known, &other), other.accuracy);
    }
    let mut bucket = bucket(1, 16, vec![certified("a", 100.0, 3.0)]);
    bucket.supersede(Isa::Avx512, vec![plain(90.0)], &|_| true);
    assert_eq!(bucket.schedules[0].accuracy, Some(certificate(3.0)));
}

#[test]
fn a_record_loses_accuracy_by_its_best_schedules() {
    let of = |entries: Vec<Entry>| record(vec![bucket(1, 16, entries)]);
    let known = of(vec![certified("a", 100.0, 3.0), certified("b", 120.0, 90.0)]);
    let loss = |entries| of(entries).loss_of_accuracy(&known);
    assert_eq!(loss(vec![certified("c", 80.0, 19.0), certified("d", 90.0, 500.0)]), None);
    let found = loss(vec![certified("d", 90.0, 500.0), certified("a", 100.0, 3.0)]).unwrap();
    assert_eq!((found.before.worst, found.after.worst), (3.0, 500.0));
    assert_eq!(loss(vec![entry("e", Source::Evolved, 80.0)]), None, "nobody measured it");
}
