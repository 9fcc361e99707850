//! Device functions that generated CUDA kernels call, as headers for NVRTC.
//!
//! All inline PTX is in here. Generated source is plain C++ that includes what it calls:
//!
//! | header | what is in it | since |
//! |---|---|---|
//! | `types.cuh` | names of types, 16-bit floats, vectors, Rust's `as` | sm_75 |
//! | `math.cuh` | arithmetic as programs mean it | sm_75 |
//! | `warp.cuh` | exchange between lanes, reductions | sm_75 |
//! | `copy.cuh` | vector loads and stores; `cp.async` | sm_75; sm_80 |
//! | `mma.cuh` | matrix instructions of a warp | sm_75, sm_80; `stmatrix` sm_90 |
//! | `barrier.cuh` | named barriers; barriers in memory, clusters | sm_75; sm_90 |
//! | `tma.cuh` | copies of boxes | sm_90 |
//! | `quad.cuh` | exchange between the four lanes that have a row of a fragment | sm_75 |
//! | `stream.cuh` | parts of tiles | sm_75 |
//! | `wgmma.cuh` | matrix instructions of a warpgroup | sm_90a |
//! | `kernel.cuh` | parameters of hand-written kernels | sm_75 |
//!
//! A function is declared where the architecture has it, so that a kernel that asks for too much
//! fails to compile.

#![forbid(unsafe_code)]

/// A file that kernels include.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// As in `#include "tvmtune/math.cuh"`.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
}

macro_rules! headers {
    ($($name:literal)*) => {
        /// Every header, those that others include first.
        pub const HEADERS: &[Header] = &[$(Header {
            name: concat!("tvmtune/", $name),
            text: include_str!(concat!("../include/tvmtune/", $name)),
        }),*];
    };
}

headers!("types.cuh" "math.cuh" "warp.cuh" "copy.cuh" "mma.cuh" "barrier.cuh" "tma.cuh" "quad.cuh" "stream.cuh" "wgmma.cuh" "kernel.cuh");

/// The headers that a kernel's source includes, and those that they include, in the order of
/// [`HEADERS`]. What compiles the source needs these and no others; with the source they are all
/// that its code depends on.
///
/// ```
/// let source = "#include \"tvmtune/math.cuh\"\n";
/// let names: Vec<&str> = tvmtune_device::needed(source).iter().map(|it| it.name).collect();
/// assert_eq!(names, ["tvmtune/types.cuh", "tvmtune/math.cuh"]);
/// ```
pub fn needed(source: &str) -> Vec<&'static Header> {
    let mut needed = vec![false; HEADERS.len()];
    mark(source, &mut needed);
    HEADERS.iter().zip(needed).filter(|(_, needed)| *needed).map(|(it, _)| it).collect()
}

fn mark(source: &str, needed: &mut [bool]) {
    for line in source.lines() {
        let name =
            line.trim_start().strip_prefix("#include \"").and_then(|it| it.split('"').next());
        let found = name.and_then(|name| HEADERS.iter().position(|it| it.name == name));
        if let Some(n) = found.filter(|n| !needed[*n]) {
            needed[n] = true;
            mark(HEADERS[n].text, needed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_includes_only_those_before_it() {
        for (n, header) in HEADERS.iter().enumerate() {
            let included = needed(header.text);
            let before = included.iter().all(|it| HEADERS[..n].contains(it));
            assert!(before, "{}: {included:?}", header.name);
            assert_eq!(header.text.matches("#include").count() > 0, n > 0, "{}", header.name);
            assert!(header.text.contains("#pragma once"), "{}", header.name);
        }
    }

    #[test]
    fn what_is_no_include_of_ours_is_left_out() {
        assert!(
            needed("// tvmtune/math.cuh\n#include \"other.cuh\"\n#include <tvmtune>").is_empty()
        );
        assert_eq!(needed("  #include \"tvmtune/types.cuh\" // types"), [&HEADERS[0]]);
    }
}
