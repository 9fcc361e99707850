//! Well-known neural networks as lists of tensor programs: what experiments tune.
//!
//! In: architectures, as their authors describe them: channels, strides, blocks. Out: for each
//! network its distinct layers, how often each occurs, and the program of each. Next: `cargo
//! tvmtune study` tunes them.
//!
//! All of it is inference at batch 1 in single precision, fused as an inference engine would:
//! normalizations of convolutions are folded into weights and bias, and bias, residual and
//! activation are part of the layer whose result they take. What moves nothing is no layer:
//! flattening, and at batch 1 the concatenation of channels too, since its parts lie side by side.
//!
//! # Invariants
//!
//! - What a layer is called follows from what it computes: in two networks, the same name is the
//!   same program.
//! - Parameters that a network learned are `Weight`s, nothing else is.

#![forbid(unsafe_code)]

mod builder; // layers, one after the other
mod classic; // AlexNet, VGG-16, SqueezeNet
mod googlenet;
mod mobilenet;
mod program; // the text of a layer
mod resnet;
mod transformer; // BERT-base, MiniLM

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use tvmtune_ir::dag::{self, BinaryOp, Dag, Expr, Reducer, TensorKind};
use tvmtune_ir::dsl::{self, Program};

/// A network at batch 1.
#[derive(Clone, Debug)]
pub struct Network {
    /// Its name, as on a command line: `resnet-50`.
    pub name: &'static str,
    /// Its distinct layers, in the order in which they first run.
    pub layers: Vec<Layer>,
}

/// A layer of a network: a program, and how often it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The name of the program: `conv3x3_64_64_56_relu`.
    pub name: String,
    /// The number of runs in one pass through the network, each with weights of its own.
    pub multiplicity: u32,
    /// The text of the program.
    pub source: String,
}

static NETWORKS: LazyLock<Vec<Network>> = LazyLock::new(|| {
    vec![
        resnet::resnet_18(),
        resnet::resnet_50(),
        classic::alexnet(),
        googlenet::googlenet(),
        classic::vgg_16(),
        classic::squeezenet(),
        mobilenet::mobilenet_v2(),
        transformer::bert_base(),
        transformer::minilm(),
    ]
});

/// The networks there are.
pub fn networks() -> &'static [Network] {
    &NETWORKS
}

/// The network of that name.
pub fn network(name: &str) -> Option<&'static Network> {
    networks().iter().find(|it| it.name == name)
}

impl Network {
    /// Multiplications with an addition to a sum, in one pass.
    pub fn multiply_adds(&self) -> u64 {
        self.total(Layer::multiply_adds)
    }

    /// Numbers that were learned.
    pub fn parameters(&self) -> u64 {
        self.total(Layer::parameters)
    }

    fn total(&self, of: impl Fn(&Layer) -> u64) -> u64 {
        self.layers.iter().map(|it| u64::from(it.multiplicity) * of(it)).sum()
    }
}

impl Layer {
    /// The program, read.
    ///
    /// # Panics
    ///
    /// Never: that the text of every layer can be read is tested.
    pub fn program(&self) -> Program {
        let function = syn::parse_str(&self.source).expect("layers are functions");
        let options = dsl::attribute(&function).expect("layers are annotated");
        let options = options.expect("annotations are lists");
        dsl::parse(options, &function).expect("layers are programs")
    }

    /// The program.
    ///
    /// # Panics
    ///
    /// Never: that the text of every layer can be read is tested.
    pub fn dag(&self) -> Dag {
        dsl::build(&self.program()).expect("layers have a meaning")
    }

    /// Products that are added to a sum, in one run of the layer.
    pub fn multiply_adds(&self) -> u64 {
        let dag = self.dag();
        let is_product = |it: &Expr| matches!(it, Expr::Binary(BinaryOp::Mul, ..));
        let sums = dag.computes.iter().filter(|it| it.reducer == Some(Reducer::Sum));
        let points = |it: &dag::Compute| {
            it.axes.iter().map(|axis| axis.extent.eval_dims(&[]) as u64).product::<u64>()
        };
        sums.filter(|it| is_product(&it.body)).map(points).sum()
    }

    /// Numbers of the layer that were learned.
    pub fn parameters(&self) -> u64 {
        self.weights().map(|shape| shape.iter().product::<u64>()).sum()
    }

    /// The extents of each weight.
    fn weights(&self) -> impl Iterator<Item = Vec<u64>> {
        let dag = self.dag();
        let shape = |it: &dag::Tensor| it.shape.iter().map(|it| it.eval_dims(&[]) as u64).collect();
        let weights = dag.tensors.iter().filter(|it| it.kind == TensorKind::Weight);
        weights.map(shape).collect::<Vec<_>>().into_iter()
    }
}
