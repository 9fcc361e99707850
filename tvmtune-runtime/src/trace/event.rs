//! The text of an event: one line of Chrome's trace event format.

use std::fmt::{self, Write};

use super::LaunchedCode;
use crate::raw::{Bucket, Traced, are_inside};

/// A launch, as a trace has it.
pub(super) struct Event<'a> {
    pub(super) traced: &'a Traced,
    pub(super) dims: &'a [i64],
    pub(super) code: &'a LaunchedCode,
    pub(super) process: u32,
    pub(super) thread: u32,
    /// The begin, on an axis that all processes share.
    pub(super) begin_us: f64,
    /// `None` if nothing says when it ran.
    pub(super) duration_ns: Option<f64>,
    /// The time since this thread's former launch ended; `None` of the first one.
    pub(super) idle_ns: Option<f64>,
}

impl fmt::Display for Event<'_> {
    /// Writes the event with the comma and the line break after it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { traced, process, thread, begin_us, .. } = self;
        write!(f, "{{\"name\":{},\"cat\":\"tvmtune\",", Quoted(traced.spec.name))?;
        match self.duration_ns {
            Some(ns) => write!(f, "\"ph\":\"X\",\"dur\":{:.3},", ns / 1e3)?,
            // An instant, on its thread.
            None => f.write_str("\"ph\":\"i\",\"s\":\"t\",")?,
        }
        write!(f, "\"ts\":{begin_us:.3},\"pid\":{process},\"tid\":{thread},\"args\":{{")?;
        self.arguments(f)?;
        f.write_str("}},\n")
    }
}

impl Event<'_> {
    fn arguments(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { traced, dims, code, .. } = self;
        let LaunchedCode { isa, tier, threads, artifact } = code;
        let bucket = traced.buckets.iter().find(|it| are_inside(it.ranges, dims));
        let names = traced.spec.dims.iter().map(|(name, ..)| *name);
        f.write_str("\"dims\":")?;
        object(f, names.clone().zip(dims.iter()))?;
        f.write_str(",\"bucket\":")?;
        let ranges = bucket.map_or(&[][..], |it| it.ranges).iter();
        object(f, names.zip(ranges.map(|(lo, hi)| format!("[{lo},{hi}]"))))?;
        write!(f, ",\"isa\":\"{isa}\",\"tier\":\"{tier}\"")?;
        if let Some(threads) = threads {
            write!(f, ",\"threads\":{threads}")?;
        }
        write!(f, ",\"artifact\":{}", Quoted(artifact))?;
        write!(f, ",\"workload\":{}", Quoted(traced.spec.workload))?;
        self.work(f, bucket)?;
        match self.idle_ns {
            Some(ns) => write!(f, ",\"idle_us\":{:.3}", ns / 1e3),
            None => Ok(()),
        }
    }

    /// Writes the work of the launch, and how fast it was done.
    fn work(&self, f: &mut fmt::Formatter<'_>, bucket: Option<&Bucket>) -> fmt::Result {
        let Some(bucket) = bucket else { return Ok(()) };
        let [flops, bytes] = (bucket.work)(self.dims);
        write!(f, ",\"gflop\":{},\"mbytes\":{}", flops / 1e9, bytes / 1e6)?;
        match self.duration_ns {
            Some(ns) if ns > 0.0 => {
                write!(f, ",\"gflops\":{:.4},\"gbps\":{:.4}", flops / ns, bytes / ns)
            }
            _ => Ok(()),
        }
    }
}

/// Writes an object, whose values are JSON.
fn object<'a>(
    f: &mut fmt::Formatter<'_>,
    fields: impl Iterator<Item = (&'a str, impl fmt::Display)>,
) -> fmt::Result {
    f.write_char('{')?;
    for (n, (name, value)) in fields.enumerate() {
        let comma = if n > 0 { "," } else { "" };
        write!(f, "{comma}{}:{value}", Quoted(name))?;
    }
    f.write_char('}')
}

/// A text as JSON has it.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}")?,
                '\0'..='\x1f' => write!(f, "\\u{:04x}", u32::from(char))?,
                _ => f.write_char(char)?,
            }
        }
        f.write_char('"')
    }
}
