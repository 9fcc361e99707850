//! Profiles of applications: the launches that a file in Chrome's trace event format has, summed up.
//!
//! In: the file that an application wrote, see [`read`]. Out: [`rows`], one for each kernel, bucket and
//! code. Next: `cargo tvmtune profile` prints them.

pub(crate) mod event;
pub(crate) mod read;
pub(crate) mod roofline;
pub(crate) mod rows;
