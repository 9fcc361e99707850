//! GoogLeNet: four convolutions of different windows beside each other, nine times.
//!
//! # Source
//!
//! C. Szegedy et al., "Going deeper with convolutions" (2015), as in torchvision, whose weights are
//! the ones in use: normalized, and with windows of 3x3 in the branch that has 5x5 in the paper.
//! Without the classifiers on the side, which help in training only.

use crate::Network;
use crate::builder::{Builder, IMAGENET, max_pool, same};
use crate::program::{Image, MaxPool};

/// The channels of one module.
struct Inception {
    /// Of the branch of single elements.
    single: u32,
    /// Of the branches of windows: before, and after.
    windows: [(u32, u32); 2],
    /// Of the branch that pools.
    pooled: u32,
}

const fn inception(single: u32, first: (u32, u32), second: (u32, u32), pooled: u32) -> Inception {
    Inception { single, windows: [first, second], pooled }
}

/// The modules between reductions of the image.
const STAGES: [&[Inception]; 3] = [
    &[inception(64, (96, 128), (16, 32), 32), inception(128, (128, 192), (32, 96), 64)],
    &[
        inception(192, (96, 208), (16, 48), 64),
        inception(160, (112, 224), (24, 64), 64),
        inception(128, (128, 256), (24, 64), 64),
        inception(112, (144, 288), (32, 64), 64),
        inception(256, (160, 320), (32, 128), 128),
    ],
    &[inception(256, (160, 320), (32, 128), 128), inception(384, (192, 384), (48, 128), 128)],
];

/// The window by which the image is reduced before each stage.
const POOLS: [u32; 3] = [3, 3, 2];

pub(crate) fn googlenet() -> Network {
    let pool = |window| MaxPool { partial: true, ..max_pool(window, 2) };
    let mut net = Builder::default();
    let mut x = net.conv(IMAGENET, same(7, 64, 2));
    x = net.max_pool(x, pool(3));
    x = net.conv(x, same(1, 64, 1));
    x = net.conv(x, same(3, 192, 1));
    for (window, stage) in POOLS.into_iter().zip(STAGES) {
        x = net.max_pool(x, pool(window));
        for module in stage {
            x = branches(&mut net, x, module);
        }
    }
    net.classify_mean(x);
    net.finish("googlenet")
}

fn branches(net: &mut Builder, x: Image, module: &Inception) -> Image {
    let mut channels = net.conv(x, same(1, module.single, 1)).channels;
    for (before, after) in module.windows {
        let h = net.conv(x, same(1, before, 1));
        channels += net.conv(h, same(3, after, 1)).channels;
    }
    let pooled = net.max_pool(x, MaxPool { padding: 1, ..max_pool(3, 1) });
    channels += net.conv(pooled, same(1, module.pooled, 1)).channels;
    Image { channels, ..x }
}
