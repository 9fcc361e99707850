//! Embeddings against PyTorch in double precision (`reference.py` wrote `reference.json`), for
//! sentences of 1 to 256 tokens, alone and in batches of up to 32.

#![expect(clippy::unwrap_used, reason = "what tests call is part of a test")]

use std::sync::OnceLock;

use minilm::model::Model;
use minilm::weights;

struct Reference {
    ids: Vec<u32>,
    embedding: Vec<f32>,
}

fn references() -> Vec<Reference> {
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("reference.json")).unwrap();
    let row = |it: &serde_json::Value| Reference {
        ids: it["ids"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap() as u32).collect(),
        embedding: (it["embedding"].as_array().unwrap().iter())
            .map(|it| it.as_f64().unwrap() as f32)
            .collect(),
    };
    rows.iter().map(row).collect()
}

/// The model; `None` where it can't be fetched, which only a machine that is no CI may claim.
fn model() -> Option<&'static Model> {
    static MODEL: OnceLock<Option<Model>> = OnceLock::new();
    MODEL
        .get_or_init(|| match weights::locate(std::env::var_os("MINILM_WEIGHTS").map(Into::into)) {
            Ok(folder) => Some(Model::load(&folder).unwrap()),
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "{error:#}");
                eprintln!("not checked, for want of the model: {error:#}");
                None
            }
        })
        .as_ref()
}

#[track_caller]
fn check(batch: &[&Reference]) {
    let Some(model) = model() else { return };
    let ids: Vec<Vec<u32>> = batch.iter().map(|it| it.ids.clone()).collect();
    let embeddings = model.embed(&ids).unwrap();
    assert_eq!(embeddings.len(), batch.len());
    for (got, want) in embeddings.iter().zip(batch) {
        assert_eq!(got.len(), 384);
        for (n, (g, w)) in got.iter().zip(&want.embedding).enumerate() {
            let tokens = want.ids.len();
            assert!((g - w).abs() <= 1e-4, "{tokens} tokens, component {n}: {g}, expected {w}");
        }
    }
}

#[test]
fn a_sentence_of_any_length_agrees() {
    for reference in &references() {
        check(&[reference]);
    }
}

#[test]
fn padding_in_a_batch_changes_nothing() {
    let references = references();
    let of = |n: usize| &references[n % references.len()];
    for size in [2, 3, 5, 8, 17, 31, 32] {
        // Short ones beside long ones, in an order that differs from size to size.
        let batch: Vec<&Reference> = (0..size).map(|n| of(n * 7 + size)).collect();
        check(&batch);
    }
}

#[test]
fn more_sentences_than_a_batch_holds_are_split() {
    let references = references();
    let short: Vec<&Reference> = references.iter().filter(|it| it.ids.len() <= 17).collect();
    let many: Vec<&Reference> = (0..70).map(|n| short[n % short.len()]).collect();
    check(&many);
}

#[test]
fn sentences_that_do_not_fit_are_errors() {
    let Some(model) = model() else { return };
    let text = |ids: Vec<u32>| format!("{:#}", model.embed(&[ids]).unwrap_err());
    assert_eq!(text(vec![]), "sentence 0 has 0 tokens; expected 1 to 256");
    assert_eq!(text(vec![5; 257]), "sentence 0 has 257 tokens; expected 1 to 256");
    assert_eq!(model.embed(&[]).unwrap(), Vec::<Vec<f32>>::new());
}
