//! Layers, one after the other: the list of a network while it is put together.

use crate::program::{Activation, Conv, Dense, Image, MaxPool, Text, global_mean};
use crate::{Layer, Network};

/// The shape of ImageNet images.
pub(crate) const IMAGENET: Image = Image { channels: 3, size: 224 };
/// The classes of ImageNet.
pub(crate) const CLASSES: u32 = 1000;

/// A network's layers so far.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    layers: Vec<Layer>,
}

impl Builder {
    /// Adds a run of a layer.
    pub(crate) fn push(&mut self, text: Text) {
        match self.layers.iter_mut().find(|it| it.source == text.source) {
            Some(known) => known.multiplicity += 1,
            None => {
                self.layers.push(Layer { name: text.name, multiplicity: 1, source: text.source });
            }
        }
    }

    pub(crate) fn conv(&mut self, x: Image, conv: Conv) -> Image {
        self.push(conv.text(x));
        conv.result(x)
    }

    pub(crate) fn max_pool(&mut self, x: Image, pool: MaxPool) -> Image {
        self.push(pool.text(x));
        pool.result(x)
    }

    /// Adds the head of most classifiers: the mean of each channel, and a score for each class.
    pub(crate) fn classify_mean(&mut self, x: Image) {
        self.push(global_mean(x));
        self.dense(x.channels, CLASSES, Activation::None);
    }

    /// A vector times a matrix.
    pub(crate) fn dense(&mut self, inputs: u32, outputs: u32, activation: Activation) {
        self.push(Dense { rows: 1, inputs, outputs, residual: false, activation }.text());
    }

    pub(crate) fn finish(self, name: &'static str) -> Network {
        Network { name, layers: self.layers }
    }
}

/// A convolution whose result is as large as what it takes, or as much smaller as the stride says,
/// and rectified.
pub(crate) fn same(window: u32, channels: u32, stride: u32) -> Conv {
    Conv {
        channels,
        window,
        stride,
        padding: window / 2,
        depthwise: false,
        residual: false,
        activation: Activation::Relu,
    }
}

/// The largest of windows that lie inside.
pub(crate) fn max_pool(window: u32, stride: u32) -> MaxPool {
    MaxPool { window, stride, padding: 0, partial: false }
}
