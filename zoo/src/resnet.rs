//! ResNet-18 and ResNet-50: blocks of convolutions, to whose result their argument is added.
//!
//! # Source
//!
//! K. He et al., "Deep residual learning for image recognition" (2016), as in torchvision: blocks
//! of ResNet-50 stride in their 3x3 convolution.

use crate::Network;
use crate::builder::{Builder, IMAGENET, same};
use crate::program::{Activation, Conv, Image, MaxPool};

/// The channels of each stage, before they are expanded.
const CHANNELS: [u32; 4] = [64, 128, 256, 512];

pub(crate) fn resnet_18() -> Network {
    resnet("resnet-18", [2, 2, 2, 2], basic_block)
}

pub(crate) fn resnet_50() -> Network {
    resnet("resnet-50", [3, 4, 6, 3], bottleneck)
}

type Block = fn(&mut Builder, Image, u32, u32) -> Image;

fn resnet(name: &'static str, n_blocks: [u32; 4], block: Block) -> Network {
    let mut net = Builder::default();
    let mut x = net.conv(IMAGENET, same(7, 64, 2));
    x = net.max_pool(x, MaxPool { window: 3, stride: 2, padding: 1, partial: false });
    for (stage, (channels, n_blocks)) in CHANNELS.into_iter().zip(n_blocks).enumerate() {
        for n in 0..n_blocks {
            let stride = if stage > 0 && n == 0 { 2 } else { 1 };
            x = block(&mut net, x, channels, stride);
        }
    }
    net.classify_mean(x);
    net.finish(name)
}

fn basic_block(net: &mut Builder, x: Image, channels: u32, stride: u32) -> Image {
    shortcut(net, x, channels, stride);
    let h = net.conv(x, same(3, channels, stride));
    net.conv(h, Conv { residual: true, ..same(3, channels, 1) })
}

fn bottleneck(net: &mut Builder, x: Image, channels: u32, stride: u32) -> Image {
    const EXPANSION: u32 = 4;
    shortcut(net, x, channels * EXPANSION, stride);
    let h = net.conv(x, same(1, channels, 1));
    let h = net.conv(h, same(3, channels, stride));
    net.conv(h, Conv { residual: true, ..same(1, channels * EXPANSION, 1) })
}

/// The shortcut of a block: its argument, projected where their shapes differ.
fn shortcut(net: &mut Builder, x: Image, channels: u32, stride: u32) {
    if x.channels != channels || stride != 1 {
        net.conv(x, Conv { activation: Activation::None, ..same(1, channels, stride) });
    }
}
