//! The network: its weights as the kernels take them, and the order in which they run.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use safetensors::SafeTensors;
use tvmtune_runtime::{Cpu, Weight};

use crate::ops;
use crate::weights::tensor;

/// Features of a token.
const WIDTH: usize = 384;
/// Features in the middle of the feed-forward network.
const INNER: usize = 1536;
/// Rows of the word embedding.
const VOCABULARY: usize = 30522;
/// Rows of the position embedding.
const POSITIONS: usize = 512;
/// Layers of the encoder.
const LAYERS: usize = 6;

/// Longest sentence, in tokens: what the model was trained on.
pub const MAX_TOKENS: usize = 256;
/// Most sentences in one batch.
pub const MAX_BATCH: usize = 32;

/// One layer of the encoder.
struct Layer {
    qkv: Weight<f32>,
    qkv_bias: Vec<f32>,
    output: Weight<f32>,
    output_bias: Vec<f32>,
    output_norm: Norm,
    expand: Weight<f32>,
    expand_bias: Vec<f32>,
    contract: Weight<f32>,
    contract_bias: Vec<f32>,
    contract_norm: Norm,
}

/// Scale and shift of a normalization.
struct Norm {
    gamma: Vec<f32>,
    beta: Vec<f32>,
}

/// Kernels, loaded once.
struct Kernels {
    embed: ops::embed::Kernel,
    project_qkv: ops::project_qkv::Kernel,
    attention: ops::attention::Kernel,
    project_residual_norm: ops::project_residual_norm::Kernel,
    expand_gelu: ops::expand_gelu::Kernel,
    contract_residual_norm: ops::contract_residual_norm::Kernel,
    pool_normalize: ops::pool_normalize::Kernel,
}

/// all-MiniLM-L6-v2, ready to run.
pub struct Model {
    queue: Cpu,
    kernels: Kernels,
    words: Vec<f32>,
    positions: Vec<f32>,
    segments: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

impl Model {
    /// Reads `model.safetensors` in that folder.
    ///
    /// # Errors
    ///
    /// If the file can't be read, or does not hold this model.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join("model.safetensors");
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let file = SafeTensors::deserialize(&bytes)
            .with_context(|| format!("{} is not a safetensors file", path.display()))?;
        let queue = Cpu::default();
        let embedding = |name: &str, rows| {
            tensor(&file, &format!("embeddings.{name}_embeddings.weight"), &[rows, WIDTH])
        };
        Ok(Self {
            kernels: Kernels::load(&queue)?,
            queue,
            words: embedding("word", VOCABULARY)?,
            positions: embedding("position", POSITIONS)?,
            segments: embedding("token_type", 2)?,
            norm: Norm::read(&file, "embeddings.LayerNorm")?,
            layers: (0..LAYERS).map(|n| Layer::read(&file, n)).collect::<Result<_>>()?,
        })
    }

    /// The embedding of each sentence, given as token ids; 384 numbers of length 1 each.
    ///
    /// # Errors
    ///
    /// If there is a sentence with no tokens, or with more than [`MAX_TOKENS`].
    pub fn embed(&self, sentences: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
        for (n, ids) in sentences.iter().enumerate() {
            let fits = (1..=MAX_TOKENS).contains(&ids.len());
            ensure!(fits, "sentence {n} has {} tokens; expected 1 to {MAX_TOKENS}", ids.len());
        }
        let mut embeddings = Vec::with_capacity(sentences.len());
        for batch in sentences.chunks(MAX_BATCH) {
            embeddings.extend(self.embed_batch(batch)?);
        }
        Ok(embeddings)
    }

    fn embed_batch(&self, batch: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
        let longest = batch.iter().map(Vec::len).max().unwrap_or(0);
        let tokens = batch.len() * longest;
        let mut ids = vec![0_i32; tokens];
        for (row, sentence) in ids.chunks_mut(longest).zip(batch) {
            for (slot, id) in row.iter_mut().zip(sentence) {
                *slot = i32::try_from(*id).context("a token id is out of range")?;
            }
        }
        let lengths: Vec<i32> = batch.iter().map(|it| it.len() as i32).collect();
        let (b, s, t) = (batch.len(), longest, tokens);

        let mut x = vec![0.0; tokens * WIDTH];
        self.kernels.embed.launch(
            &self.queue,
            ops::embed::Dims { b, s },
            &ids,
            &self.words,
            &self.positions,
            &self.segments,
            &self.norm.gamma,
            &self.norm.beta,
            &mut x,
        )?;
        let mut scratch = Scratch::new(tokens);
        for layer in &self.layers {
            self.run_layer(layer, (b, s, t), &lengths, &mut x, &mut scratch)?;
        }
        let mut pooled = vec![0.0; batch.len() * WIDTH];
        let dims = ops::pool_normalize::Dims { b, s };
        self.kernels.pool_normalize.launch(&self.queue, dims, &x, &lengths, &mut pooled)?;
        Ok(pooled.chunks(WIDTH).map(<[f32]>::to_vec).collect())
    }

    /// One layer of the encoder, in place.
    fn run_layer(
        &self,
        layer: &Layer,
        (b, s, t): (usize, usize, usize),
        lengths: &[i32],
        x: &mut Vec<f32>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (queue, kernels) = (&self.queue, &self.kernels);
        let Scratch { qkv, context, hidden, inner } = scratch;
        let dims = ops::project_qkv::Dims { t };
        kernels.project_qkv.launch(queue, dims, x, &layer.qkv, &layer.qkv_bias, qkv)?;
        kernels.attention.launch(queue, ops::attention::Dims { b, s }, qkv, lengths, context)?;
        kernels.project_residual_norm.launch(
            queue,
            ops::project_residual_norm::Dims { t },
            context,
            &layer.output,
            &layer.output_bias,
            x,
            &layer.output_norm.gamma,
            &layer.output_norm.beta,
            hidden,
        )?;
        let dims = ops::expand_gelu::Dims { t };
        kernels.expand_gelu.launch(
            queue,
            dims,
            hidden,
            &layer.expand,
            &layer.expand_bias,
            inner,
        )?;
        kernels.contract_residual_norm.launch(
            queue,
            ops::contract_residual_norm::Dims { t },
            inner,
            &layer.contract,
            &layer.contract_bias,
            hidden,
            &layer.contract_norm.gamma,
            &layer.contract_norm.beta,
            x,
        )?;
        Ok(())
    }
}

/// Activations between the kernels of a layer.
struct Scratch {
    qkv: Vec<f32>,
    context: Vec<f32>,
    hidden: Vec<f32>,
    inner: Vec<f32>,
}

impl Scratch {
    fn new(tokens: usize) -> Self {
        let features = |n: usize| vec![0.0; tokens * n];
        Self {
            qkv: features(3 * WIDTH),
            context: features(WIDTH),
            hidden: features(WIDTH),
            inner: features(INNER),
        }
    }
}

impl Kernels {
    fn load(queue: &Cpu) -> Result<Self> {
        Ok(Self {
            embed: ops::embed::load(queue)?,
            project_qkv: ops::project_qkv::load(queue)?,
            attention: ops::attention::load(queue)?,
            project_residual_norm: ops::project_residual_norm::load(queue)?,
            expand_gelu: ops::expand_gelu::load(queue)?,
            contract_residual_norm: ops::contract_residual_norm::load(queue)?,
            pool_normalize: ops::pool_normalize::load(queue)?,
        })
    }
}

impl Layer {
    fn read(file: &SafeTensors<'_>, n: usize) -> Result<Self> {
        let name = |it: &str| format!("encoder.layer.{n}.{it}");
        let weight = |it: &str, rows, columns| {
            tensor(file, &name(&format!("{it}.weight")), &[rows, columns])
        };
        let bias = |it: &str, rows| tensor(file, &name(&format!("{it}.bias")), &[rows]);
        let (mut qkv, mut qkv_bias) = (Vec::new(), Vec::new());
        for part in ["query", "key", "value"] {
            let part = format!("attention.self.{part}");
            qkv.extend(weight(&part, WIDTH, WIDTH)?);
            qkv_bias.extend(bias(&part, WIDTH)?);
        }
        Ok(Self {
            qkv: Weight::new(qkv),
            qkv_bias,
            output: Weight::new(weight("attention.output.dense", WIDTH, WIDTH)?),
            output_bias: bias("attention.output.dense", WIDTH)?,
            output_norm: Norm::read(file, &name("attention.output.LayerNorm"))?,
            expand: Weight::new(weight("intermediate.dense", INNER, WIDTH)?),
            expand_bias: bias("intermediate.dense", INNER)?,
            contract: Weight::new(weight("output.dense", WIDTH, INNER)?),
            contract_bias: bias("output.dense", WIDTH)?,
            contract_norm: Norm::read(file, &name("output.LayerNorm"))?,
        })
    }
}

impl Norm {
    fn read(file: &SafeTensors<'_>, name: &str) -> Result<Self> {
        Ok(Self {
            gamma: tensor(file, &format!("{name}.weight"), &[WIDTH])?,
            beta: tensor(file, &format!("{name}.bias"), &[WIDTH])?,
        })
    }
}
