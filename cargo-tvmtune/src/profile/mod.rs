//! Profiles of applications: the launches that a file in Chrome's trace event format has, summed up.
//!
//! In: the file that an application wrote, see [`read`]. Out: [`rows`], one for each kernel, bucket and
//! code, which `cargo tvmtune profile` prints, and [`runs`], by which `cargo tvmtune tune --profile` shares
//! its time, and `cargo tvmtune buckets` chooses buckets.

pub(crate) mod event;
pub(crate) mod fewest;
pub(crate) mod proposal;
pub(crate) mod read;
pub(crate) mod rows;
pub(crate) mod runs;
pub(crate) mod valid;
