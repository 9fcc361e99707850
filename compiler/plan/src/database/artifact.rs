//! Compiled code in files beside records: named by their hashes, which are checked when they are read.
//!
//! The file of an image is `<the record's name>.<12 digits of its SHA-256>.cubin` or `.ptx`; that
//! of the source it was compiled from is `<..>.<12 digits of the artifact>.cu`, for people.
//!
//! # Invariants
//!
//! - Compiled code leaves here only if it has the hash that a record says. Sources are for people:
//!   they are copied along, and never compiled.
//! - A record that is written names no file that is not there.
//! - Code is run that the crate's author or this user compiled ([`StoreKind::is_trusted`]). What
//!   any other database contributes are schedules.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::read;
use crate::record::{Entry, Image, Record};
use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::digest::Digest;
use tvmtune_ir::target::Platform;

use super::atomic;
use super::error::DatabaseError;
use super::files::{entries, read as read_record, records_in};
use super::store::StoreKind;

/// The longest source in bytes: it is for people.
const MAX_SOURCE: u64 = 4 << 20;

/// Files that belong to schedules: compiled code by its SHA-256, sources by the artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(BTreeMap<Digest, Vec<u8>>);

/// An image with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFile {
    /// Its entry in a record.
    pub image: Image,
    /// The bytes of the file.
    pub bytes: Vec<u8>,
}

/// The images of the schedules of a workload that may be run.
#[derive(Debug, Default)]
pub struct Images {
    by_artifact: BTreeMap<(Platform, ArtifactId), Vec<ImageFile>>,
    /// Their files.
    pub paths: Vec<PathBuf>,
}

impl Files {
    /// Adds a file; returns its SHA-256.
    pub fn add(&mut self, bytes: Vec<u8>) -> Digest {
        let sha256 = Digest::of([bytes.as_slice()]);
        self.0.insert(sha256, bytes);
        sha256
    }

    /// Adds the text that an artifact was compiled from.
    pub fn add_source(&mut self, artifact: &ArtifactId, source: &str) {
        self.0.insert(artifact.0, source.as_bytes().to_vec());
    }

    /// Gives the sources of schedules whose artifacts were stamped anew their new names.
    pub(super) fn restamp(&mut self, before: &Record, after: &Record) {
        let artifacts = |it: &Record| -> Vec<Digest> {
            let schedules = it.buckets.iter().flat_map(|it| &it.schedules);
            schedules.map(|it| it.artifact.0).collect()
        };
        for (before, after) in artifacts(before).iter().zip(artifacts(after)) {
            if let Some(source) = self.0.remove(before) {
                self.0.insert(after, source);
            }
        }
    }

    /// Returns the file of that SHA-256.
    pub fn get(&self, sha256: &Digest) -> Option<&[u8]> {
        self.0.get(sha256).map(Vec::as_slice)
    }

    /// Reads the files beside a record; returns those with the right hash, and errors of the others.
    pub fn beside(path: &Path, record: &Record) -> (Self, Vec<DatabaseError>) {
        let (mut files, mut warnings) = (Self::default(), Vec::new());
        for name in names(record) {
            match read(&name.path(path), &name) {
                Ok(bytes) => drop(files.0.insert(name.sha256, bytes)),
                Err(warning) => warnings.push(warning),
            }
        }
        (files, warnings)
    }

    /// Removes the images from a record whose files are not here.
    pub(super) fn restrict(&self, record: &mut Record) {
        let entries = record.buckets.iter_mut().flat_map(|it| &mut it.schedules);
        entries.for_each(|it| it.images.retain(|it| self.0.contains_key(&it.sha256)));
    }

    pub(super) fn write(&self, path: &Path, record: &Record) -> Result<(), DatabaseError> {
        for name in names(record) {
            if let Some(bytes) = self.get(&name.sha256) {
                atomic::write(&name.path(path), bytes)?;
            }
        }
        Ok(())
    }
}

impl StoreKind {
    /// Tells if code from such a store may be run.
    pub fn is_trusted(self) -> bool {
        matches!(self, StoreKind::Cache | StoreKind::Crate)
    }
}

impl Images {
    /// Returns the images of an artifact; none if it was not compiled, or its files are damaged.
    pub fn of(&self, platform: impl Into<Platform>, artifact: &ArtifactId) -> &[ImageFile] {
        let key = (platform.into(), *artifact);
        self.by_artifact.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Returns the SHA-256 of each, in a fixed order.
    pub fn hashes(&self) -> impl Iterator<Item = Digest> {
        self.by_artifact.values().flatten().map(|it| it.image.sha256)
    }

    /// Reads the images of a schedule; returns the errors.
    pub(super) fn add(&mut self, record: &Path, entry: &Entry) -> Vec<DatabaseError> {
        let mut warnings = Vec::new();
        let key = (entry.platform, entry.artifact);
        for image in &entry.images {
            let images = self.by_artifact.entry(key).or_default();
            let is_same =
                |it: &ImageFile| (it.image.format, it.image.arch) == (image.format, image.arch);
            if images.iter().any(is_same) {
                continue;
            }
            let name = Name::of_image(image);
            let path = name.path(record);
            match read(&path, &name) {
                Ok(bytes) => images.push(ImageFile { image: image.clone(), bytes }),
                Err(warning) => warnings.push(warning),
            }
            self.paths.push(path);
        }
        warnings
    }
}

/// The expected content of a file beside a record.
struct Name {
    sha256: Digest,
    extension: &'static str,
    /// Its size, if the record has it.
    n_bytes: Option<u64>,
}

fn names(record: &Record) -> impl Iterator<Item = Name> {
    let schedules = record.buckets.iter().flat_map(|it| &it.schedules);
    schedules.filter(|it| !it.images.is_empty()).flat_map(|it| {
        let source = Name { sha256: it.artifact.0, extension: "cu", n_bytes: None };
        it.images.iter().map(Name::of_image).chain([source])
    })
}

impl Name {
    fn of_image(image: &Image) -> Self {
        let Image { format, bytes, sha256, .. } = *image;
        Self { sha256, extension: format.extension(), n_bytes: Some(bytes) }
    }

    /// Returns the path beside a record.
    fn path(&self, record: &Path) -> PathBuf {
        let (digits, extension) = (self.sha256.short(), self.extension);
        record.with_file_name(format!("{}{digits}.{extension}", prefix(record)))
    }
}

fn prefix(record: &Path) -> String {
    let stem = record.file_stem().and_then(|it| it.to_str()).unwrap_or_default();
    format!("{stem}.")
}

/// Reads a file, and checks its size and hash.
fn read(path: &Path, name: &Name) -> Result<Vec<u8>, DatabaseError> {
    let damaged = |what| DatabaseError::Artifact { path: path.to_owned(), what };
    const OTHER_LENGTH: &str = "it does not have the length that its record says";
    let failed = |it: io::Error| match it.kind() {
        io::ErrorKind::NotFound => damaged("it is missing"),
        io::ErrorKind::FileTooLarge => damaged(OTHER_LENGTH),
        _ => DatabaseError::io("read", path, it),
    };
    // A file that is longer is not read.
    let limit = name.n_bytes.unwrap_or(MAX_SOURCE).min(Image::TOO_LARGE);
    let bytes = read::bytes(path, limit).map_err(failed)?;
    if name.n_bytes.is_some_and(|it| it != bytes.len() as u64) {
        return Err(damaged(OTHER_LENGTH));
    }
    let is_source = name.n_bytes.is_none();
    match is_source || Digest::of([bytes.as_slice()]) == name.sha256 {
        true => Ok(bytes),
        false => Err(damaged("it does not have the hash that its record says")),
    }
}

/// Returns the files beside a record that it does not name.
pub(super) fn left_by(path: &Path, record: &Record) -> Vec<PathBuf> {
    let (named, prefix) = (paths(path, record), prefix(path));
    let is_of = |it: &PathBuf| {
        let name = it.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        name.starts_with(&prefix) && !named.contains(it)
    };
    artifacts_in(path.parent().unwrap_or(Path::new("."))).filter(is_of).collect()
}

/// Returns the files in a folder that no record for which `is_kept` holds names.
pub(super) fn orphans(folder: &Path, is_kept: &dyn Fn(&Record) -> bool) -> Vec<PathBuf> {
    let named = |path: PathBuf| match read_record(&path) {
        Ok(record) if is_kept(&record) => paths(&path, &record),
        Ok(_) | Err(_) => BTreeSet::new(),
    };
    let named: BTreeSet<PathBuf> = records_in(folder).into_iter().flat_map(named).collect();
    artifacts_in(folder).filter(|it| !named.contains(it)).collect()
}

fn paths(path: &Path, record: &Record) -> BTreeSet<PathBuf> {
    names(record).map(|it| it.path(path)).collect()
}

/// Returns the files in a folder with source or compiled code.
fn artifacts_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let is_artifact = |it: &PathBuf| {
        let extension = it.extension().and_then(|it| it.to_str());
        extension.is_some_and(|it| ["cubin", "ptx", "cu"].contains(&it))
    };
    entries(folder).into_iter().filter(is_artifact)
}
