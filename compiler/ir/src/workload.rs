//! Identity of programs: hashes of their canonical text.
//!
//! A [`WorkloadId`] is the SHA-256 of the canonical text of a dag, ranges of dimensions included.
//! A [`ClassId`] is that of a text with fewer details, always without extents: schedules transfer
//! within a class. The [`Strength`] of the class says how many details are left out.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dag::{Dag, print, signature};
use crate::digest::Digest;

/// The identity of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkloadId(pub Digest);

/// The identity of a class of workloads, for one strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClassId(pub Digest);

/// The similarity of the workloads of a class, the most similar first. Workloads of one strong class
/// may be of two weaker ones, where another compute has most of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    /// All but extents.
    Shape,
    /// Operations in order, and the patterns in which reductions read.
    Access,
    /// The pattern in which the compute with most of the work reads.
    Anchor,
}

impl Strength {
    /// All of them, the strongest first.
    pub const ALL: [Strength; 3] = [Strength::Shape, Strength::Access, Strength::Anchor];

    /// The spelling in reports and logs.
    pub fn name(self) -> &'static str {
        match self {
            Strength::Shape => "shape",
            Strength::Access => "access",
            Strength::Anchor => "anchor",
        }
    }
}

impl WorkloadId {
    /// Returns the identity of the workload with that canonical text.
    pub fn of(canonical: &str) -> Self {
        Self(Digest::of([canonical.as_bytes()]))
    }
}

/// Returns the identity of `dag`, ranges of dimensions included.
pub fn id(dag: &Dag) -> WorkloadId {
    WorkloadId::of(&print::canonical(dag))
}

/// Returns the class of `dag`.
pub fn class(dag: &Dag, strength: Strength) -> ClassId {
    let text = match strength {
        Strength::Shape => print::class(dag),
        Strength::Access => signature::access_signature(dag),
        Strength::Anchor => signature::anchor_signature(dag),
    };
    ClassId(Digest::of([text.as_bytes()]))
}

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl;

    fn program(source: &str) -> Dag {
        dsl::program(source).unwrap()
    }

    /// A padded convolution of windows of `r` by `r`, then the expression `after` of `y`.
    fn conv([c, h, o, r, stride]: [i64; 5], after: &str) -> Dag {
        let (p, pad) = (h / stride, r / 2);
        program(&format!(
            "#[autotune(dims(B = 1, C = {c}, H = {h}, O = {o}, R = {r}, P = {p}))]
            fn conv(x: Tensor<f32, B, C, H, H>, w: Weight<f32, O, C, R, R>, scale: Tensor<f32, O>,
                    shift: Tensor<f32, O>) -> Tensor<f32, B, O, P, P> {{
                let y: Tensor<f32, B, O, P, P> = compute(|b, o, i, j| sum((0..C, 0..R, 0..R), |c, r, s| {{
                    x.get([b, c, {stride} * i + r - {pad}, {stride} * j + s - {pad}]).unwrap_or(0.0)
                        * w[[o, c, r, s]]
                }}));
                compute(|b, o, i, j| {after})
            }}"
        ))
    }

    const NOTHING: &str = "y[[b, o, i, j]] + shift[[o]] * scale[[o]]";
    const RELU: &str = "max(y[[b, o, i, j]] + shift[[o]], scale[[o]])";
    const SCALED_RELU: &str = "max(y[[b, o, i, j]] * scale[[o]] + shift[[o]], 0.0)";

    /// A product of matrices, with the second one as it is or transposed.
    fn matmul(m: i64, n: i64, k: i64, transposed: bool, after: &str) -> Dag {
        let (shape, at) = if transposed { ("N, K", "j, k") } else { ("K, N", "k, j") };
        program(&format!(
            "#[autotune(dims(M = {m}, N = {n}, K = {k}))]
            fn matmul(a: Tensor<f32, M, K>, w: Tensor<f32, {shape}>) -> Tensor<f32, M, N> {{
                let y = compute(|i, j| sum(0..K, |k| a[[i, k]] * w[[{at}]]));
                compute(|i, j| {after})
            }}"
        ))
    }

    fn rows(body: &str) -> Dag {
        program(&format!(
            "#[autotune(dims(M = 1..=64, N = 96))]
            fn rows(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {{ {body} }}"
        ))
    }

    const SOFTMAX: &str = "let m = compute(|i| max(0..N, |j| x[[i, j]]));
        let e = compute(|i, j| exp(x[[i, j]] - m[[i]]));
        let s = compute(|i| sum(0..N, |j| e[[i, j]]));
        compute(|i, j| e[[i, j]] / s[[i]])";
    const LAYERNORM: &str = "let c = compute(|i| mean(0..N, |j| x[[i, j]]));
        let v = compute(|i| mean(0..N, |j| (x[[i, j]] - c[[i]]) * (x[[i, j]] - c[[i]])));
        compute(|i, j| (x[[i, j]] - c[[i]]) * rsqrt(v[[i]] + 1e-5))";

    /// The strongest class that two programs share.
    #[track_caller]
    fn check(one: &Dag, other: &Dag, expected: Option<Strength>) {
        let shared = |it: &Strength| class(one, *it) == class(other, *it);
        assert_eq!(Strength::ALL.into_iter().find(shared), expected);
    }

    #[test]
    fn extents_are_in_no_class() {
        let one = conv([64, 56, 64, 3, 1], NOTHING);
        check(&one, &conv([512, 7, 16, 3, 1], NOTHING), Some(Strength::Shape));
        assert_ne!(id(&one), id(&conv([512, 7, 16, 3, 1], NOTHING)));
        let product = matmul(128, 768, 64, false, "y[[i, j]]");
        check(&product, &matmul(1, 10, 1000, false, "y[[i, j]]"), Some(Strength::Shape));
    }

    #[test]
    fn windows_of_another_size_are_read_alike_and_other_windows_are_not() {
        let one = conv([64, 56, 64, 3, 1], NOTHING);
        check(&one, &conv([64, 56, 64, 5, 1], NOTHING), Some(Strength::Access));
        check(&one, &conv([64, 56, 64, 1, 1], NOTHING), None);
        check(&one, &conv([64, 56, 64, 3, 2], NOTHING), None);
        let strided = conv([64, 56, 64, 3, 2], NOTHING);
        check(&strided, &conv([64, 55, 64, 7, 2], NOTHING), Some(Strength::Access));
    }

    #[test]
    fn epilogues_of_an_anchor_are_in_all_classes_but_the_weakest() {
        let one = conv([64, 56, 64, 3, 1], NOTHING);
        let relu = conv([64, 56, 64, 3, 1], RELU);
        check(&one, &relu, Some(Strength::Anchor));
        check(&relu, &conv([64, 56, 64, 3, 1], SCALED_RELU), Some(Strength::Anchor));
        let product = matmul(128, 768, 64, false, "y[[i, j]]");
        check(&product, &matmul(96, 9, 64, false, "gelu(y[[i, j]])"), Some(Strength::Anchor));
    }

    #[test]
    fn layouts_reductions_and_types_tell_anchors_apart() {
        let product = matmul(128, 768, 64, false, "y[[i, j]]");
        check(&product, &matmul(128, 768, 64, true, "y[[i, j]]"), None);
        check(&product, &conv([64, 56, 64, 1, 1], NOTHING), None);
        check(&rows(SOFTMAX), &rows(LAYERNORM), None);
        check(&rows(SOFTMAX), &rows(SOFTMAX), Some(Strength::Shape));
    }
}
