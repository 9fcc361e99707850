//! `--bench`: latency at several lengths and batches, from ids on the host to embeddings there.

use std::fmt;
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use minilm::device::Device;
use minilm::model::Model;
use minilm::weights::Weights;
use serde_json::json;
use tvmtune_runtime::Cpu;

/// Measurements and their repetitions.
#[derive(Args)]
pub(crate) struct Options {
    /// Sentences, and tokens of each; of sentences of several lengths those of the shortest and the
    /// longest, such as `8x32-128`
    #[arg(
        long,
        value_name = "BxS",
        value_delimiter = ',',
        default_value = "1x8,1x32,1x128,1x256,8x32,32x128"
    )]
    shapes: Vec<Shape>,
    /// Rounds of one shape; in each, every contestant runs once, so that a slow moment hits all
    #[arg(long, value_name = "N", default_value = "15", value_parser = positive)]
    rounds: usize,
}

/// Sentences of a batch, whose lengths are spread evenly from the shortest to the longest.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    n_sentences: usize,
    shortest: usize,
    longest: usize,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (n_sentences, tokens) = text.split_once('x')?;
            let (shortest, longest) = tokens.split_once('-').unwrap_or((tokens, tokens));
            let [n_sentences, shortest, longest] = [n_sentences, shortest, longest].map(positive);
            let shape = Self {
                n_sentences: n_sentences.ok()?,
                shortest: shortest.ok()?,
                longest: longest.ok()?,
            };
            (shape.shortest <= shape.longest).then_some(shape)
        };
        parse().ok_or_else(|| {
            "expected sentences and tokens, such as `32x128` or `8x32-128`".to_owned()
        })
    }
}

impl Shape {
    fn batch(&self) -> Vec<Vec<u32>> {
        let Self { n_sentences, shortest, longest } = *self;
        let n_steps = n_sentences.saturating_sub(1).max(1);
        let length = |n: usize| longest - n * (longest - shortest) / n_steps;
        (0..n_sentences).map(|n| synthetic_sentence(n as u32, length(n))).collect()
    }

    /// Tokens of a sentence, as they are said on the command line.
    fn tokens(&self) -> String {
        match self.shortest == self.longest {
            true => self.longest.to_string(),
            false => format!("{}-{}", self.shortest, self.longest),
        }
    }
}

fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|it| *it > 0);
    number.ok_or_else(|| "expected a number from 1".to_owned())
}

/// Rounds that warm up: in the first, weights are packed and launches recorded.
const WARM_UP: usize = 2;

/// Tolerance of components of embeddings, which have length 1, against the CPU.
const TOLERANCE: f32 = 1e-4;

/// Embeds the tokens of sentences.
type Run<'a> = Box<dyn FnMut(&[Vec<u32>]) -> Result<Vec<Vec<f32>>> + 'a>;
/// The milliseconds that a device takes for a batch that it has, by its own clock.
type OnDevice<'a> = Box<dyn Fn(&[Vec<u32>]) -> Result<f64> + 'a>;

/// An implementation of the model: ours, or that of a peer.
struct Implementation<'a> {
    name: &'static str,
    run: Run<'a>,
    on_device: Option<OnDevice<'a>>,
}

impl<'a> Implementation<'a> {
    fn ours<D: Device>(model: &'a Model<D>) -> Self {
        Self { name: "tvmtune", run: Box::new(|it| model.embed(it)), on_device: None }
    }
}

/// Measures the CPU, beside candle if it is compiled in.
///
/// # Errors
///
/// If a model can't be loaded or fails.
pub(crate) fn on_cpu(weights: &Weights, options: &Options) -> Result<Table> {
    let model = Model::new(Cpu::default(), weights)?;
    let mut implementations = vec![Implementation::ours(&model)];
    #[cfg(feature = "candle")]
    implementations.extend(candle::peer(weights)?);
    measure(&mut implementations, options, None)
}

/// Measures the GPU, after a look at whether it agrees with the CPU.
///
/// # Errors
///
/// If there is none, if a model can't be loaded or fails, or if they disagree.
#[cfg(feature = "cuda")]
pub(crate) fn on_gpu(weights: &Weights, options: &Options) -> Result<Table> {
    use tvmtune_runtime::cuda::Timer;

    let stream = minilm::device::gpu()?;
    let (model, on_cpu) =
        (Model::new(stream.clone(), weights)?, Model::new(Cpu::default(), weights)?);
    let on_device = |batch: &[Vec<u32>]| {
        let mut session = model.session(batch)?;
        // The first run of a session records it.
        model.run(&mut session)?;
        let replays = || (0..options.rounds).try_for_each(|_| model.run(&mut session));
        Ok(Timer::new(&stream)?.time(replays)? / 1e6 / options.rounds as f64)
    };
    let mut ours = Implementation::ours(&model);
    ours.on_device = Some(Box::new(on_device));
    measure(&mut [ours], options, Some(&on_cpu))
}

/// Times of all implementations on all shapes. Where there is a reference, all must agree with it.
fn measure(
    implementations: &mut [Implementation<'_>],
    options: &Options,
    reference: Option<&Model>,
) -> Result<Table> {
    let mut table = Table(Vec::new());
    for &shape in &options.shapes {
        let batch = shape.batch();
        let expected = reference.map(|it| it.embed(&batch)).transpose()?;
        let mut times_ms = vec![Vec::with_capacity(options.rounds); implementations.len()];
        for round in 0..WARM_UP + options.rounds {
            for (implementation, times_ms) in implementations.iter_mut().zip(&mut times_ms) {
                let start = Instant::now();
                let embeddings = std::hint::black_box((implementation.run)(&batch)?);
                let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
                if round >= WARM_UP {
                    times_ms.push(elapsed_ms);
                } else if let Some(expected) = &expected {
                    agree(&embeddings, expected)?;
                }
            }
        }
        for (implementation, mut times_ms) in implementations.iter().zip(times_ms) {
            times_ms.sort_by(f64::total_cmp);
            let device_ms = implementation.on_device.as_ref().map(|it| it(&batch)).transpose()?;
            let name = implementation.name;
            table.0.push(Row { shape, name, times_ms, device_ms });
        }
    }
    Ok(table)
}

/// Token ids that depend on the seed; any will do for a measurement.
fn synthetic_sentence(seed: u32, n_tokens: usize) -> Vec<u32> {
    (0..n_tokens as u32).map(|n| 1000 + (seed * 7919 + n * 104_729) % 29_000).collect()
}

fn agree(embeddings: &[Vec<f32>], expected: &[Vec<f32>]) -> Result<()> {
    for (n, (got, want)) in embeddings.iter().zip(expected).enumerate() {
        // Not a number is not within any tolerance.
        let is_near = |(g, w): (&f32, &f32)| (g - w).abs() <= TOLERANCE;
        let wrong = got.iter().zip(want).position(|it| !is_near(it));
        ensure!(
            wrong.is_none(),
            "sentence {n} differs from what the CPU computes by more than {TOLERANCE}, first in \
             component {}",
            wrong.unwrap_or(0)
        );
    }
    Ok(())
}

/// The result of a measurement.
pub(crate) struct Table(Vec<Row>);

/// The times of one implementation on one shape.
struct Row {
    shape: Shape,
    name: &'static str,
    /// Sorted.
    times_ms: Vec<f64>,
    device_ms: Option<f64>,
}

impl Row {
    fn quantile(&self, q: f64) -> f64 {
        self.times_ms[((self.times_ms.len() - 1) as f64 * q).round() as usize]
    }
}

impl Table {
    /// An object for each row.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let row = |it: &Row| {
            json!({
                "sentences": it.shape.n_sentences, "tokens": it.shape.longest,
                "shortest": it.shape.shortest,
                "model": it.name,
                "median_ms": it.quantile(0.5), "p10_ms": it.quantile(0.1),
                "p25_ms": it.quantile(0.25), "p75_ms": it.quantile(0.75),
                "p90_ms": it.quantile(0.9), "device_ms": it.device_ms,
                "rounds": it.times_ms.len(),
            })
        };
        self.0.iter().map(row).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sentences   tokens  model      median ms      p25      p75  on the device")?;
        for it in &self.0 {
            let [p25, median, p75] = [0.25, 0.5, 0.75].map(|q| it.quantile(q));
            write!(
                f,
                "\n{:>9}  {:>7}  {:<9} {median:>10.3} {p25:>8.3} {p75:>8.3}",
                it.shape.n_sentences,
                it.shape.tokens(),
                it.name
            )?;
            if let Some(device_ms) = it.device_ms {
                write!(f, " {device_ms:>14.3}")?;
            }
        }
        Ok(())
    }
}

#[cfg(feature = "candle")]
mod candle {
    //! The same model through candle.

    use anyhow::Result;
    use candle_core::{DType, Device, Tensor};
    use candle_nn::VarBuilder;
    use candle_transformers::models::bert::{BertModel, Config};
    use minilm::weights::Weights;

    use super::Implementation;

    const CONFIG: &str = r#"{
        "vocab_size": 30522, "hidden_size": 384, "num_hidden_layers": 6,
        "num_attention_heads": 12, "intermediate_size": 1536, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "max_position_embeddings": 512, "type_vocab_size": 2,
        "initializer_range": 0.02, "layer_norm_eps": 1e-12, "pad_token_id": 0,
        "position_embedding_type": "absolute", "use_cache": true, "model_type": "bert"
    }"#;

    /// None for synthetic weights, of which there is no file.
    pub(super) fn peer(weights: &Weights) -> Result<Option<Implementation<'static>>> {
        let Weights::File { bytes, .. } = weights else { return Ok(None) };
        let variables =
            VarBuilder::from_buffered_safetensors(bytes.clone(), DType::F32, &Device::Cpu)?;
        let config: Config = serde_json::from_str(CONFIG)?;
        let model = BertModel::load(variables, &config)?;
        let run = Box::new(move |it: &[Vec<u32>]| embed(&model, it));
        Ok(Some(Implementation { name: "candle", run, on_device: None }))
    }

    fn embed(model: &BertModel, sentences: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
        let (batch, mask) = padded(sentences);
        let ids = Tensor::new(batch, &Device::Cpu)?;
        let is_padded = mask.iter().flatten().any(|it| *it == 0);
        let mask = Tensor::new(mask, &Device::Cpu)?;
        // Without padding no mask is needed, which takes time.
        let hidden = model.forward(&ids, &ids.zeros_like()?, is_padded.then_some(&mask))?;
        let pooled = match is_padded {
            true => {
                let mask = mask.to_dtype(DType::F32)?;
                let total = hidden.broadcast_mul(&mask.unsqueeze(2)?)?.sum(1)?;
                total.broadcast_div(&mask.sum_keepdim(1)?)?
            }
            false => hidden.mean(1)?,
        };
        let length = pooled.sqr()?.sum_keepdim(1)?.sqrt()?;
        Ok(pooled.broadcast_div(&length)?.to_vec2()?)
    }

    /// Sentences padded to one length, and 1 where a token is no padding.
    fn padded(sentences: &[Vec<u32>]) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
        let longest = sentences.iter().map(Vec::len).max().unwrap_or(0);
        let pad = |it: &Vec<u32>| {
            let (mut ids, mut mask) = (it.clone(), vec![1; it.len()]);
            ids.resize(longest, 0);
            mask.resize(longest, 0);
            (ids, mask)
        };
        sentences.iter().map(pad).unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_sentences_and_tokens() {
        let lengths = |it: &str| -> Vec<usize> {
            it.parse::<Shape>().unwrap().batch().iter().map(Vec::len).collect()
        };
        assert_eq!(lengths("2x7"), [7, 7]);
        assert_eq!(lengths("3x32-128"), [128, 80, 32]);
        assert_eq!(lengths("1x32-128"), [128]);
        for wrong in ["", "3", "0x8", "3x", "3x8-", "3x8-4", "3x-8", "axb", "3x8x4"] {
            assert!(wrong.parse::<Shape>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn embeddings_agree_up_to_the_tolerance() {
        let agrees = |got: f32| agree(&[vec![0.5, got]], &[vec![0.5, 0.25]]);
        assert!(agrees(0.25 + 0.9 * TOLERANCE).is_ok());
        for wrong in [0.25 + 1.1 * TOLERANCE, f32::NAN] {
            let error = agrees(wrong).unwrap_err().to_string();
            assert!(error.ends_with("by more than 0.0001, first in component 1"), "{error}");
        }
    }
}
