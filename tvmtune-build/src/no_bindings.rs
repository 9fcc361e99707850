//! A build without the feature `templates` makes no bindings: it reads those that packages ship.

use std::path::Path;

use tvmtune_plan::source::{Header, NoBindings};

/// Says what makes bindings.
///
/// # Errors
///
/// Always.
pub(crate) fn make(_: &Path, header: Header, why: &'static str) -> Result<String, String> {
    Err(NoBindings::Missing { header, why }.to_string())
}
