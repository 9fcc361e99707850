//! AlexNet, VGG-16 and SqueezeNet 1.1: convolutions one after the other.
//!
//! # Source
//!
//! A. Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014);
//! K. Simonyan and A. Zisserman, "Very deep convolutional networks for large-scale image
//! recognition" (2015), configuration D; F. Iandola et al., "SqueezeNet" (2016), release 1.1. All
//! as in torchvision.

use crate::Network;
use crate::builder::{Builder, CLASSES, IMAGENET, max_pool, same};
use crate::program::{Activation, Conv, Image, MaxPool, global_mean};

pub(crate) fn alexnet() -> Network {
    let mut net = Builder::default();
    let mut x = net.conv(IMAGENET, Conv { padding: 2, ..same(11, 64, 4) });
    x = net.max_pool(x, max_pool(3, 2));
    x = net.conv(x, same(5, 192, 1));
    x = net.max_pool(x, max_pool(3, 2));
    for channels in [384, 256, 256] {
        x = net.conv(x, same(3, channels, 1));
    }
    x = net.max_pool(x, max_pool(3, 2));
    classify(&mut net, x);
    net.finish("alexnet")
}

pub(crate) fn vgg_16() -> Network {
    let mut net = Builder::default();
    let mut x = IMAGENET;
    for (n_convs, channels) in [(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)] {
        for _ in 0..n_convs {
            x = net.conv(x, same(3, channels, 1));
        }
        x = net.max_pool(x, max_pool(2, 2));
    }
    classify(&mut net, x);
    net.finish("vgg-16")
}

/// Two hidden layers, and a score for each class.
fn classify(net: &mut Builder, x: Image) {
    const HIDDEN: u32 = 4096;
    net.dense(x.channels * x.size * x.size, HIDDEN, Activation::Relu);
    net.dense(HIDDEN, HIDDEN, Activation::Relu);
    net.dense(HIDDEN, CLASSES, Activation::None);
}

pub(crate) fn squeezenet() -> Network {
    let pool = MaxPool { partial: true, ..max_pool(3, 2) };
    let mut net = Builder::default();
    let mut x = net.conv(IMAGENET, Conv { padding: 0, ..same(3, 64, 2) });
    for stage in [&[(16, 64), (16, 64)][..], &[(32, 128), (32, 128)][..]] {
        x = net.max_pool(x, pool);
        for (squeezed, expanded) in stage {
            x = fire(&mut net, x, *squeezed, *expanded);
        }
    }
    x = net.max_pool(x, pool);
    for (squeezed, expanded) in [(48, 192), (48, 192), (64, 256), (64, 256)] {
        x = fire(&mut net, x, squeezed, expanded);
    }
    x = net.conv(x, same(1, CLASSES, 1));
    net.push(global_mean(x));
    net.finish("squeezenet-1.1")
}

/// Few channels, and from them many: half of those by windows.
fn fire(net: &mut Builder, x: Image, squeezed: u32, expanded: u32) -> Image {
    let x = net.conv(x, same(1, squeezed, 1));
    let halves = [1, 3].map(|window| net.conv(x, same(window, expanded, 1)).channels);
    Image { channels: halves.iter().sum(), ..x }
}
