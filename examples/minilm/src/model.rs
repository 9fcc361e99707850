//! The network: its weights as the kernels take them, and the order in which they run.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use tvmtune_runtime::{Cpu, Error, Weight};

use crate::device::Device;
use crate::ops;
use crate::weights::Weights;

/// Hidden size: features of a token.
const WIDTH: usize = 384;
/// Intermediate size of the feed-forward network.
const INNER: usize = 1536;
/// Rows of the word embedding.
const VOCABULARY: usize = 30522;
/// Rows of the position embedding.
const POSITIONS: usize = 512;

/// Longest sentence, in tokens: what the model was trained on.
pub const MAX_TOKENS: usize = 256;
/// Most sentences in one batch.
pub const MAX_BATCH: usize = 32;
/// Number of batch shapes whose sessions are cached.
const MAX_SESSIONS: usize = 8;

/// One layer of the encoder.
struct Layer<D: Device> {
    qkv: Weight<f32>,
    qkv_bias: D::Floats,
    output: Weight<f32>,
    output_bias: D::Floats,
    output_norm: Norm<D>,
    expand: Weight<f32>,
    expand_bias: D::Floats,
    contract: Weight<f32>,
    contract_bias: D::Floats,
    contract_norm: Norm<D>,
}

/// Scale and shift of a normalization.
struct Norm<D: Device> {
    gamma: D::Floats,
    beta: D::Floats,
}

/// Kernels, loaded once.
struct Kernels<D: Device> {
    embed: ops::embed::Kernel<D>,
    project_qkv: ops::project_qkv::Kernel<D>,
    attention: ops::attention::Kernel<D>,
    project_residual_norm: ops::project_residual_norm::Kernel<D>,
    expand_gelu: ops::expand_gelu::Kernel<D>,
    contract_residual_norm: ops::contract_residual_norm::Kernel<D>,
    pool_normalize: ops::pool_normalize::Kernel<D>,
}

/// all-MiniLM-L6-v2, ready to run on a device.
pub struct Model<D: Device = Cpu> {
    device: D,
    kernels: Kernels<D>,
    words: D::Floats,
    positions: D::Floats,
    segments: D::Floats,
    norm: Norm<D>,
    layers: Vec<Layer<D>>,
    sessions: Mutex<Vec<Session<D>>>,
}

/// Memory for batches of one shape, and what was recorded with it.
pub struct Session<D: Device = Cpu> {
    activations: Activations<D>,
    graph: D::Graph,
}

/// Activation buffers from ids to embeddings.
struct Activations<D: Device> {
    /// Sentences, and tokens of each.
    shape: (usize, usize),
    ids: D::Ints,
    lengths: D::Ints,
    x: D::Floats,
    qkv: D::Floats,
    context: D::Floats,
    hidden: D::Floats,
    inner: D::Floats,
    pooled: D::Floats,
}

impl Model {
    /// Reads `model.safetensors` in that folder, to run on the CPU.
    ///
    /// # Errors
    ///
    /// If the file can't be read, or does not hold this model.
    pub fn load(folder: &Path) -> Result<Self> {
        Self::new(Cpu::default(), &Weights::read(folder)?)
    }
}

impl<D: Device> Model<D> {
    /// The model with these weights, on that device.
    ///
    /// # Errors
    ///
    /// If they are not those of this model, or the device can't run it.
    pub fn new(device: D, weights: &Weights) -> Result<Self> {
        let embedding = |name: &str, rows| {
            let name = format!("embeddings.{name}_embeddings.weight");
            device.floats(weights.tensor(&name, &[rows, WIDTH])?)
        };
        let kernels = Kernels::load(&device)?;
        let layer = |n| Layer::read(&device, weights, n);
        Ok(Self {
            words: embedding("word", VOCABULARY)?,
            positions: embedding("position", POSITIONS)?,
            segments: embedding("token_type", 2)?,
            norm: Norm::read(&device, weights, "embeddings.LayerNorm")?,
            layers: (0..weights.n_layers()).map(layer).collect::<Result<_>>()?,
            sessions: Mutex::default(),
            kernels,
            device,
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
            let mut session = self.session(batch)?;
            self.run(&mut session)?;
            let pooled = self.device.read(&session.activations.pooled)?;
            embeddings.extend(pooled.chunks(WIDTH).map(<[f32]>::to_vec));
            self.keep(session);
        }
        Ok(embeddings)
    }

    /// A session that has the ids of a batch, as long as its longest sentence: one that was kept, or
    /// a new one.
    ///
    /// # Errors
    ///
    /// If an id is out of range, or the device has no room.
    pub fn session(&self, batch: &[Vec<u32>]) -> Result<Session<D>> {
        let longest = batch.iter().map(Vec::len).max().unwrap_or(0);
        let mut ids = vec![0_i32; batch.len() * longest];
        for (row, sentence) in ids.chunks_mut(longest.max(1)).zip(batch) {
            for (slot, id) in row.iter_mut().zip(sentence) {
                *slot = i32::try_from(*id).context("a token id is out of range")?;
            }
        }
        let lengths: Vec<i32> = batch.iter().map(|it| it.len() as i32).collect();

        let shape = (batch.len(), longest);
        let mut kept = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|it| it.activations.shape == shape);
        let found = found.map(|n| kept.remove(n));
        drop(kept);
        let mut session = match found {
            Some(session) => session,
            None => Session::new(&self.device, shape)?,
        };
        self.device.write(&ids, &mut session.activations.ids)?;
        self.device.write(&lengths, &mut session.activations.lengths)?;
        Ok(session)
    }

    /// Keeps a session for the next batch of its shape, instead of the one that was not used for
    /// longest.
    fn keep(&self, session: Session<D>) {
        let mut kept = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MAX_SESSIONS {
            kept.remove(0);
        }
        kept.push(session);
    }

    /// Runs all kernels on what a session has.
    ///
    /// # Errors
    ///
    /// If one can't be launched.
    pub fn run(&self, session: &mut Session<D>) -> Result<(), Error> {
        let Session { activations, graph } = session;
        self.device.launch(graph, || self.launch_all(activations))
    }

    fn launch_all(&self, activations: &mut Activations<D>) -> Result<(), Error> {
        let Activations { shape: (b, s), ids, x, .. } = activations;
        let (b, s) = (*b, *s);
        self.kernels.embed.launch(
            &self.device,
            ops::embed::Dims { b, s },
            ids,
            &self.words,
            &self.positions,
            &self.segments,
            &self.norm.gamma,
            &self.norm.beta,
            x,
        )?;
        for layer in &self.layers {
            self.launch_layer(layer, activations)?;
        }
        let Activations { lengths, x, pooled, .. } = activations;
        let dims = ops::pool_normalize::Dims { b, s };
        self.kernels.pool_normalize.launch(&self.device, dims, x, lengths, pooled)
    }

    /// One layer of the encoder, in place.
    fn launch_layer(&self, layer: &Layer<D>, on: &mut Activations<D>) -> Result<(), Error> {
        let (device, kernels) = (&self.device, &self.kernels);
        let Activations { shape: (b, s), lengths, x, qkv, context, hidden, inner, .. } = on;
        let (b, s, t) = (*b, *s, *b * *s);
        let dims = ops::project_qkv::Dims { t };
        kernels.project_qkv.launch(device, dims, x, &layer.qkv, &layer.qkv_bias, qkv)?;
        let dims = ops::attention::Dims { b, s };
        kernels.attention.launch(device, dims, qkv, lengths, context)?;
        kernels.project_residual_norm.launch(
            device,
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
            device,
            dims,
            hidden,
            &layer.expand,
            &layer.expand_bias,
            inner,
        )?;
        kernels.contract_residual_norm.launch(
            device,
            ops::contract_residual_norm::Dims { t },
            inner,
            &layer.contract,
            &layer.contract_bias,
            hidden,
            &layer.contract_norm.gamma,
            &layer.contract_norm.beta,
            x,
        )
    }
}

impl<D: Device> Session<D> {
    fn new(device: &D, (b, s): (usize, usize)) -> Result<Self> {
        let features = |n: usize| device.floats(vec![0.0; b * s * n]);
        let activations = Activations {
            shape: (b, s),
            ids: device.ints(vec![0; b * s])?,
            lengths: device.ints(vec![0; b])?,
            x: features(WIDTH)?,
            qkv: features(3 * WIDTH)?,
            context: features(WIDTH)?,
            hidden: features(WIDTH)?,
            inner: features(INNER)?,
            pooled: device.floats(vec![0.0; b * WIDTH])?,
        };
        Ok(Self { activations, graph: D::Graph::default() })
    }
}

impl<D: Device> Kernels<D> {
    fn load(device: &D) -> Result<Self, Error> {
        Ok(Self {
            embed: ops::embed::load(device)?,
            project_qkv: ops::project_qkv::load(device)?,
            attention: ops::attention::load(device)?,
            project_residual_norm: ops::project_residual_norm::load(device)?,
            expand_gelu: ops::expand_gelu::load(device)?,
            contract_residual_norm: ops::contract_residual_norm::load(device)?,
            pool_normalize: ops::pool_normalize::load(device)?,
        })
    }
}

impl<D: Device> Layer<D> {
    fn read(device: &D, weights: &Weights, n: usize) -> Result<Self> {
        let name = |it: &str| format!("encoder.layer.{n}.{it}");
        let matrix = |it: &str, rows, columns| {
            weights.tensor(&name(&format!("{it}.weight")), &[rows, columns])
        };
        let vector = |it: &str, rows| weights.tensor(&name(&format!("{it}.bias")), &[rows]);
        let bias = |it: &str, rows| device.floats(vector(it, rows)?);
        let norm = |it: &str| Norm::read(device, weights, &name(it));
        let (mut qkv, mut qkv_bias) = (Vec::new(), Vec::new());
        for part in ["query", "key", "value"] {
            let part = format!("attention.self.{part}");
            qkv.extend(matrix(&part, WIDTH, WIDTH)?);
            qkv_bias.extend(vector(&part, WIDTH)?);
        }
        Ok(Self {
            qkv: Weight::new(qkv),
            qkv_bias: device.floats(qkv_bias)?,
            output: Weight::new(matrix("attention.output.dense", WIDTH, WIDTH)?),
            output_bias: bias("attention.output.dense", WIDTH)?,
            output_norm: norm("attention.output.LayerNorm")?,
            expand: Weight::new(matrix("intermediate.dense", INNER, WIDTH)?),
            expand_bias: bias("intermediate.dense", INNER)?,
            contract: Weight::new(matrix("output.dense", WIDTH, INNER)?),
            contract_bias: bias("output.dense", WIDTH)?,
            contract_norm: norm("output.LayerNorm")?,
        })
    }
}

impl<D: Device> Norm<D> {
    fn read(device: &D, weights: &Weights, name: &str) -> Result<Self> {
        let tensor = |it: &str| device.floats(weights.tensor(&format!("{name}.{it}"), &[WIDTH])?);
        Ok(Self { gamma: tensor("weight")?, beta: tensor("bias")? })
    }
}
