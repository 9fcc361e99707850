//! MobileNetV2: blocks that are wide inside, where each channel is convolved on its own.
//!
//! # Source
//!
//! M. Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks" (2018), table 2.

use crate::Network;
use crate::builder::{Builder, IMAGENET, same};
use crate::program::{Activation, Conv, Image};

/// Blocks that are alike: by how much they expand, the channels of their results, how many there
/// are, and the stride of the first.
const BLOCKS: [(u32, u32, u32, u32); 7] = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
];

pub(crate) fn mobilenet_v2() -> Network {
    let mut net = Builder::default();
    let mut x = net.conv(IMAGENET, relu6(3, 32, 2));
    for (expansion, channels, n_blocks, stride) in BLOCKS {
        for n in 0..n_blocks {
            let stride = if n == 0 { stride } else { 1 };
            x = block(&mut net, x, expansion, Image { channels, size: x.size / stride });
        }
    }
    x = net.conv(x, relu6(1, 1280, 1));
    net.classify_mean(x);
    net.finish("mobilenet-v2")
}

fn block(net: &mut Builder, x: Image, expansion: u32, result: Image) -> Image {
    let wide = x.channels * expansion;
    let mut h = x;
    if expansion > 1 {
        h = net.conv(h, relu6(1, wide, 1));
    }
    h = net.conv(h, Conv { depthwise: true, ..relu6(3, wide, x.size / result.size) });
    let residual = x == result;
    let linear = Conv { residual, activation: Activation::None, ..same(1, result.channels, 1) };
    net.conv(h, linear)
}

fn relu6(window: u32, channels: u32, stride: u32) -> Conv {
    Conv { activation: Activation::Relu6, ..same(window, channels, stride) }
}
