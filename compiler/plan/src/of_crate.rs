//! The part of `tvmtune.toml` that decides about programs, which the macro needs as much as a build script:
//! the numerics of a crate.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;
use tvmtune_ir::dag::Numerics;
use tvmtune_ir::dag::order::UnknownNumerics;

use crate::read::{self, limit};

/// The name of a crate's configuration, beside its `Cargo.toml`.
pub const CONFIG_FILE: &str = "tvmtune.toml";

/// The reason why the numerics of a crate are not known.
#[derive(Debug, thiserror::Error)]
pub enum NumericsError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file is not TOML, or the key has no text.
    #[error(transparent)]
    Toml(Box<toml::de::Error>),
    /// The text names no numerics.
    #[error(transparent)]
    Unknown(#[from] UnknownNumerics),
}

/// The one key; a build script checks the others.
#[derive(Deserialize)]
struct Keys {
    numerics: Option<String>,
}

/// Returns the numerics of the programs of the crate in `manifest_dir` whose attributes say none.
///
/// # Errors
///
/// [`NumericsError`]; a crate without the file has none.
pub fn numerics(manifest_dir: &Path) -> Result<Numerics, NumericsError> {
    let text = match read::text(&manifest_dir.join(CONFIG_FILE), limit::SMALL) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Numerics::default()),
        text => text?,
    };
    let keys: Keys = toml::from_str(&text).map_err(|it| NumericsError::Toml(Box::new(it)))?;
    Ok(keys.numerics.as_deref().map(str::parse).transpose()?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_says_its_numerics_or_has_free_ones() {
        let folder = tempfile::tempdir().unwrap();
        let read = || numerics(folder.path()).map_err(|it| it.to_string());
        assert_eq!(read(), Ok(Numerics::Free));
        let check = |text: &str, expected: Result<Numerics, &str>| {
            std::fs::write(folder.path().join(CONFIG_FILE), text).unwrap();
            match (read(), expected) {
                (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
                (found, expected) => assert_eq!(found, expected.map_err(str::to_owned)),
            }
        };
        check("[budget]\ntrials = 3", Ok(Numerics::Free));
        check("numerics = \"fixed\"\n[budget]\ntrials = 3", Ok(Numerics::Fixed));
        check("numerics = \"exact\"", Err("`exact` is no kind of numerics; expected `fixed`"));
        check("numerics = 1", Err("expected a string"));
        check("numerics", Err("TOML parse error"));
    }
}
