//! Sentence embeddings with all-MiniLM-L6-v2, on kernels that tvmtune generated.
//!
//! ```text
//! cargo run --release -p minilm -- "How do I reset my password?" "Forgot my login"
//! ```

mod bench;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use clap::{Parser, ValueEnum};
use minilm::device::Device;
use minilm::model::{MAX_TOKENS, Model};
use minilm::weights::{self, Weights};
use serde_json::json;
use tokenizers::{Tokenizer, TruncationParams};
use tvmtune_runtime::Cpu;

/// Embeds sentences and compares them with each other.
#[derive(Parser)]
#[command(about)]
struct Arguments {
    /// The sentences to embed.
    #[arg(required_unless_present = "bench")]
    sentences: Vec<String>,
    /// A folder with model.safetensors and tokenizer.json; without it, pip fetches them once.
    #[arg(long, value_name = "DIR")]
    weights: Option<PathBuf>,
    /// The device.
    #[arg(long, value_enum, default_value_t = Place::Cpu)]
    device: Place,
    /// Print one JSON object: embeddings, latency and tokens.
    #[arg(long)]
    json: bool,
    /// Measure latency at several lengths and batches: on the CPU beside candle if it is compiled
    /// in, on a GPU after a comparison with the CPU.
    #[arg(long)]
    bench: bool,
    /// Measure with made-up weights, of as many layers, where nobody has the model.
    #[arg(
        long,
        value_name = "LAYERS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "6",
        requires = "bench",
        conflicts_with = "weights"
    )]
    random_weights: Option<usize>,
    #[command(flatten, next_help_heading = "Options of --bench")]
    options: bench::Options,
}

/// The device.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Place {
    /// The CPU.
    Cpu,
    /// The first CUDA device.
    Cuda,
}

/// Repetitions of a latency measurement.
const REPEATS: usize = 11;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(
        arguments.device == Place::Cpu || cfg!(feature = "cuda"),
        "this program has no code for GPUs; build it with `--features cuda`"
    );
    if let Some(n_layers) = arguments.random_weights {
        return bench(&arguments, &Weights::Synthetic { n_layers });
    }
    let folder = weights::locate(arguments.weights.clone())?;
    let weights = Weights::read(&folder)?;
    if arguments.bench {
        return bench(&arguments, &weights);
    }
    let tokenizer = tokenizer(&folder)?;
    match arguments.device {
        #[cfg(feature = "cuda")]
        Place::Cuda => {
            embed(&arguments, &tokenizer, &Model::new(minilm::device::gpu()?, &weights)?)
        }
        _ => embed(&arguments, &tokenizer, &Model::new(Cpu::default(), &weights)?),
    }
}

#[expect(clippy::print_stdout, reason = "the program's output")]
fn bench(arguments: &Arguments, weights: &Weights) -> Result<()> {
    let table = match arguments.device {
        #[cfg(feature = "cuda")]
        Place::Cuda => bench::on_gpu(weights, &arguments.options)?,
        _ => bench::on_cpu(weights, &arguments.options)?,
    };
    if arguments.json {
        println!("{}", table.to_json());
        return Ok(());
    }
    println!("{table}");
    if arguments.device == Place::Cpu && !cfg!(feature = "candle") {
        println!(
            "\nTo measure candle in the same run: \
             cargo run --release -p minilm --features candle -- --bench"
        );
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the program's output")]
fn embed<D: Device>(arguments: &Arguments, tokenizer: &Tokenizer, model: &Model<D>) -> Result<()> {
    let encoded = tokenizer
        .encode_batch(arguments.sentences.clone(), true)
        .map_err(|error| anyhow!("tokenizing failed: {error}"))?;
    let ids: Vec<Vec<u32>> = encoded.iter().map(|it| it.get_ids().to_vec()).collect();

    let embeddings = model.embed(&ids)?;
    let mut times_ms = Vec::with_capacity(REPEATS);
    for _ in 0..REPEATS {
        let start = Instant::now();
        let again = model.embed(&ids)?;
        times_ms.push(start.elapsed().as_secs_f64() * 1e3);
        ensure!(again == embeddings, "two runs on the same input differ: please report this");
    }
    times_ms.sort_by(f64::total_cmp);
    let latency_ms = times_ms[REPEATS / 2];

    if arguments.json {
        let tokens: Vec<&[String]> = encoded.iter().map(|it| it.get_tokens()).collect();
        let object =
            json!({ "embeddings": embeddings, "latency_ms": latency_ms, "tokens": tokens });
        println!("{object}");
    } else {
        print_similarity(&arguments.sentences, &embeddings);
        let n_tokens: usize = ids.iter().map(Vec::len).sum();
        println!(
            "\n{} sentences, {n_tokens} tokens: {latency_ms:.2} ms (median of {REPEATS}, \
             {:.2} to {:.2})",
            ids.len(),
            times_ms[0],
            times_ms[REPEATS - 1]
        );
    }
    Ok(())
}

/// The model's own tokenizer, cutting sentences to what the model takes.
fn tokenizer(folder: &Path) -> Result<Tokenizer> {
    let path = folder.join("tokenizer.json");
    let failed = |error| anyhow!("{} can't be used: {error}", path.display());
    let mut tokenizer = Tokenizer::from_file(&path).map_err(failed)?;
    let truncation = TruncationParams { max_length: MAX_TOKENS, ..TruncationParams::default() };
    tokenizer.with_truncation(Some(truncation)).map_err(failed)?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}

/// Cosine similarities, a row and a column for each sentence.
#[expect(clippy::print_stdout, reason = "the program's output")]
fn print_similarity(sentences: &[String], embeddings: &[Vec<f32>]) {
    for (n, sentence) in sentences.iter().enumerate() {
        println!("{:>3}  {sentence}", n + 1);
    }
    println!();
    for (n, a) in embeddings.iter().enumerate() {
        let dot = |b: &Vec<f32>| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        let row: Vec<String> = embeddings.iter().map(|b| format!("{:>6.3}", dot(b))).collect();
        println!("{:>3}  {}", n + 1, row.join(" "));
    }
}
