//! `--bench`: latency at several lengths and batches, in one run beside candle.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use minilm::model::Model;
use serde_json::json;

/// `(sentences, tokens of each)`.
const SHAPES: [(usize, usize); 6] = [(1, 8), (1, 32), (1, 128), (1, 256), (8, 32), (32, 128)];

/// Rounds of one shape; in each, every contestant runs once, so that a slow moment hits all.
const ROUNDS: usize = 15;

/// Embeds the tokens of sentences.
type Run<'a> = Box<dyn FnMut(&[Vec<u32>]) -> Result<Vec<Vec<f32>>> + 'a>;

/// A model under test.
struct Contestant<'a> {
    name: &'static str,
    run: Run<'a>,
}

/// Measures and prints.
///
/// # Errors
///
/// If a model can't be loaded or fails.
#[expect(clippy::print_stdout, reason = "the program's output")]
pub(crate) fn run(folder: &Path, as_json: bool) -> Result<()> {
    let ours = Model::load(folder)?;
    let mut contestants = vec![Contestant { name: "tvmtune", run: Box::new(|it| ours.embed(it)) }];
    #[cfg(feature = "candle")]
    contestants.push(candle::contestant(folder)?);

    let mut rows = Vec::new();
    for (n_sentences, n_tokens) in SHAPES {
        let batch: Vec<Vec<u32>> =
            (0..n_sentences).map(|n| made_up_sentence(n as u32, n_tokens)).collect();
        let times_ms = measure(&mut contestants, &batch)?;
        for (contestant, times_ms) in contestants.iter().zip(times_ms) {
            rows.push(Row { n_sentences, n_tokens, name: contestant.name, times_ms });
        }
    }
    if as_json {
        println!("{}", json!(rows.iter().map(Row::to_json).collect::<Vec<_>>()));
        return Ok(());
    }
    println!("sentences  tokens  model      median ms      p10      p90");
    for row in &rows {
        let (p10, median, p90) = row.quantiles();
        println!(
            "{:>9}  {:>6}  {:<9} {median:>10.3} {p10:>8.3} {p90:>8.3}",
            row.n_sentences, row.n_tokens, row.name
        );
    }
    if !cfg!(feature = "candle") {
        println!(
            "\nTo measure candle in the same run: \
             cargo run --release -p minilm --features candle -- --bench"
        );
    }
    Ok(())
}

/// The times of one contestant on one shape.
struct Row {
    n_sentences: usize,
    n_tokens: usize,
    name: &'static str,
    /// Sorted.
    times_ms: Vec<f64>,
}

impl Row {
    fn quantiles(&self) -> (f64, f64, f64) {
        let at = |q: f64| self.times_ms[((self.times_ms.len() - 1) as f64 * q).round() as usize];
        (at(0.1), at(0.5), at(0.9))
    }

    fn to_json(&self) -> serde_json::Value {
        let (p10, median, p90) = self.quantiles();
        json!({
            "sentences": self.n_sentences, "tokens": self.n_tokens, "model": self.name,
            "median_ms": median, "p10_ms": p10, "p90_ms": p90, "rounds": self.times_ms.len(),
        })
    }
}

/// Sorted times of each contestant; the first two rounds warm up.
fn measure(contestants: &mut [Contestant<'_>], batch: &[Vec<u32>]) -> Result<Vec<Vec<f64>>> {
    let mut times_ms = vec![Vec::with_capacity(ROUNDS); contestants.len()];
    for round in 0..ROUNDS + 2 {
        for (contestant, times_ms) in contestants.iter_mut().zip(&mut times_ms) {
            let start = Instant::now();
            std::hint::black_box((contestant.run)(batch)?);
            if round >= 2 {
                times_ms.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    for it in &mut times_ms {
        it.sort_by(f64::total_cmp);
    }
    Ok(times_ms)
}

/// Token ids that depend on the seed; any will do for a measurement.
fn made_up_sentence(seed: u32, n_tokens: usize) -> Vec<u32> {
    (0..n_tokens as u32).map(|n| 1000 + (seed * 7919 + n * 104_729) % 29_000).collect()
}

#[cfg(feature = "candle")]
mod candle {
    //! The same model through candle.

    use std::path::Path;

    use anyhow::Result;
    use candle_core::{DType, Device, Tensor};
    use candle_nn::VarBuilder;
    use candle_transformers::models::bert::{BertModel, Config};

    use super::Contestant;

    const CONFIG: &str = r#"{
        "vocab_size": 30522, "hidden_size": 384, "num_hidden_layers": 6,
        "num_attention_heads": 12, "intermediate_size": 1536, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "max_position_embeddings": 512, "type_vocab_size": 2,
        "initializer_range": 0.02, "layer_norm_eps": 1e-12, "pad_token_id": 0,
        "position_embedding_type": "absolute", "use_cache": true, "model_type": "bert"
    }"#;

    pub(super) fn contestant(folder: &Path) -> Result<Contestant<'static>> {
        let bytes = std::fs::read(folder.join("model.safetensors"))?;
        let variables = VarBuilder::from_buffered_safetensors(bytes, DType::F32, &Device::Cpu)?;
        let config: Config = serde_json::from_str(CONFIG)?;
        let model = BertModel::load(variables, &config)?;
        Ok(Contestant { name: "candle", run: Box::new(move |it| embed(&model, it)) })
    }

    /// Sentences of equal length, so no mask is needed.
    fn embed(model: &BertModel, sentences: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
        let ids = Tensor::new(sentences.to_vec(), &Device::Cpu)?;
        let hidden = model.forward(&ids, &ids.zeros_like()?, None)?;
        let pooled = hidden.mean(1)?;
        let length = pooled.sqr()?.sum_keepdim(1)?.sqrt()?;
        Ok(pooled.broadcast_div(&length)?.to_vec2()?)
    }
}
