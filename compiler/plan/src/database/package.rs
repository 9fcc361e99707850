//! The folder of a package in the user's cache: what its builds and the command line tell each other.
//!
//! Its *stamp* is a file that the build scripts of the package watch. Records in the cache come and
//! go while nothing of the package changes, so whoever writes records for it touches the stamp, and
//! the next cargo command plans anew.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::atomic;
use super::error::DatabaseError;
use crate::read::{self, limit};

/// The folder of one package: of one checkout, whatever its target folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageCache {
    dir: PathBuf,
    manifest_dir: PathBuf,
}

/// The name of the stamp.
pub(super) const STAMP: &str = "stamp";

/// Digits of the hash in a folder's name.
const HASH_DIGITS: usize = 12;
/// Letters of the package's own folder in it, at most.
const NAME_LENGTH: usize = 40;

impl PackageCache {
    /// Names the folder of a package; it need not exist.
    pub(super) fn new(packages: &Path, manifest_dir: &Path) -> Self {
        // The hash tells packages apart: the name is for people, and is printed to cargo.
        let name = manifest_dir.file_name().map_or("package".into(), |it| it.to_string_lossy());
        let is_plain = |it: &char| it.is_alphanumeric() || matches!(it, '-' | '_' | '.');
        let name: String = name.chars().filter(is_plain).take(NAME_LENGTH).collect();
        let hash = Sha256::digest(manifest_dir.as_os_str().as_encoded_bytes());
        let hash: String = hash.iter().map(|it| format!("{it:02x}")).collect();
        let dir = packages.join(format!("{name}-{}", &hash[..HASH_DIGITS]));
        Self { dir, manifest_dir: manifest_dir.to_owned() }
    }

    /// Returns the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the stamp; it names the package, for readers of the cache.
    pub fn stamp(&self) -> PathBuf {
        self.dir.join(STAMP)
    }

    /// Returns the folder of the package that a stamp names; `None` without a stamp.
    pub(super) fn manifest_dir_of(dir: &Path) -> Option<PathBuf> {
        let text = read::text(&dir.join(STAMP), limit::SMALL).ok()?;
        Some(PathBuf::from(text.strip_suffix('\n')?))
    }

    /// Creates the folder and the stamp, unless they exist. A new stamp is from long ago: cargo runs a
    /// script again if one of its inputs is younger than its last run.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Io`].
    pub fn create(&self) -> Result<(), DatabaseError> {
        let stamp = self.stamp();
        if stamp.exists() {
            return Ok(());
        }
        let text = format!("{}\n", self.manifest_dir.display());
        atomic::write(&stamp, text.as_bytes())?;
        atomic::set_modified(&stamp, SystemTime::UNIX_EPOCH)
    }

    /// Touches the stamp, so that the next build plans anew.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Io`].
    pub fn touch(&self) -> Result<(), DatabaseError> {
        self.create()?;
        atomic::set_modified(&self.stamp(), SystemTime::now())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::Duration;

    use super::*;
    use crate::database::Cache;

    #[test]
    fn packages_of_one_name_have_folders_of_their_own() {
        let cache = Cache::new(Path::new("cache"));
        let dir = |it: &str| cache.package(Path::new(it)).dir().to_owned();
        assert_ne!(dir("a/model"), dir("b/model"));
        assert_eq!(dir("a/model"), dir("a/model"));
        assert!(dir("a/model").to_string_lossy().contains("model-"));
    }

    #[test]
    fn the_name_of_a_package_may_be_printed() {
        let cache = Cache::new(Path::new("cache"));
        let long = "é".repeat(300);
        for name in ["x\ncargo::rustc-env=A=B", "\u{1b}[2J", &long] {
            let dir = cache.package(&Path::new("a").join(name)).dir().to_owned();
            let name = dir.file_name().unwrap().to_str().unwrap();
            assert!(name.len() < 100 && !name.chars().any(char::is_control), "{name:?}");
        }
    }

    #[test]
    fn packages_are_gone_once_their_folder_is() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, model) = (Cache::new(folder.path()), folder.path().join("a model"));
        fs::create_dir(&model).unwrap();
        let package = cache.package(&model);
        package.create().unwrap();
        assert_eq!(cache.packages_gone(), []);
        fs::remove_dir(&model).unwrap();
        assert_eq!(cache.packages_gone(), [(package.dir().to_owned(), model)]);
        fs::remove_file(package.stamp()).unwrap();
        assert_eq!(cache.packages_gone(), [], "nobody knows whose it is");
    }

    #[test]
    fn a_touch_changes_the_time_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let package = Cache::new(folder.path()).package(Path::new("a/model"));
        package.create().unwrap();
        let touched = || fs::metadata(package.stamp()).unwrap().modified().unwrap();
        let old = SystemTime::now() - Duration::from_secs(60);
        File::options().append(true).open(package.stamp()).unwrap().set_modified(old).unwrap();
        package.create().unwrap();
        assert!(touched() <= old);
        package.touch().unwrap();
        assert!(touched() > old);
        File::options().append(true).open(package.stamp()).unwrap().set_modified(old).unwrap();
        Cache::new(folder.path()).touch_packages().unwrap();
        assert!(touched() > old);
        assert_eq!(fs::read_to_string(package.stamp()).unwrap(), "a/model\n");
    }
}
