//! Two-dimensional convolutions, NCHW, weights OIHW, zero padding.

use tvmtune_runtime::autotune;

/// Convolution 7x7, stride 2: 3 to 64 channels of 224x224; ResNet-18/50.
#[autotune(dims(B = 1, C = 3, H = 224, W = 224, O = 64, R = 7, Y = 112, P = 112))]
pub fn resnet_stem_7x7s2(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| {
        sum((0..C, 0..R, 0..R), |c, r, s| {
            x.get([n, c, y * 2 + r - 3, p * 2 + s - 3]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

/// Convolution 3x3: 64 to 64 channels of 56x56; ResNet-18/50.
#[autotune(dims(B = 1, C = 64, H = 56, W = 56, O = 64, R = 3, Y = 56, P = 56))]
pub fn resnet_3x3_64_56(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| {
        sum((0..C, 0..R, 0..R), |c, r, s| {
            x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

/// Convolution 3x3: 128 to 128 channels of 28x28; ResNet-18/50.
#[autotune(dims(B = 1, C = 128, H = 28, W = 28, O = 128, R = 3, Y = 28, P = 28))]
pub fn resnet_3x3_128_28(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| {
        sum((0..C, 0..R, 0..R), |c, r, s| {
            x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

/// Convolution 3x3: 256 to 256 channels of 14x14; ResNet-18/50.
#[autotune(dims(B = 1, C = 256, H = 14, W = 14, O = 256, R = 3, Y = 14, P = 14))]
pub fn resnet_3x3_256_14(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| {
        sum((0..C, 0..R, 0..R), |c, r, s| {
            x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

/// Convolution 3x3: 512 to 512 channels of 7x7; ResNet-18/50.
#[autotune(dims(B = 1, C = 512, H = 7, W = 7, O = 512, R = 3, Y = 7, P = 7))]
pub fn resnet_3x3_512_7(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| {
        sum((0..C, 0..R, 0..R), |c, r, s| {
            x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

/// Convolution 1x1: 64 to 256 channels of 56x56; ResNet-50.
#[autotune(dims(B = 1, C = 64, H = 56, W = 56, O = 256, R = 1, Y = 56, P = 56))]
pub fn resnet50_1x1_64_256_56(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| sum(0..C, |c| x[[n, c, y, p]] * w[[o, c, 0, 0]]))
}

/// Convolution 1x1: 1024 to 256 channels of 14x14; ResNet-50.
#[autotune(dims(B = 1, C = 1024, H = 14, W = 14, O = 256, R = 1, Y = 14, P = 14))]
pub fn resnet50_1x1_1024_256_14(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| sum(0..C, |c| x[[n, c, y, p]] * w[[o, c, 0, 0]]))
}

/// Convolution 1x1, stride 2: 256 to 512 channels of 56x56; ResNet-50 projection shortcut.
#[autotune(dims(B = 1, C = 256, H = 56, W = 56, O = 512, R = 1, Y = 28, P = 28))]
pub fn resnet50_1x1s2_256_512_56(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| sum(0..C, |c| x[[n, c, y * 2, p * 2]] * w[[o, c, 0, 0]]))
}

/// Convolution 5x5: 64 to 192 channels of 27x27; AlexNet conv2.
#[autotune(dims(B = 1, C = 64, H = 27, W = 27, O = 192, R = 5, Y = 27, P = 27))]
pub fn alexnet_5x5_64_192_27(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| {
        sum((0..C, 0..R, 0..R), |c, r, s| {
            x.get([n, c, y + r - 2, p + s - 2]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

/// Convolution 3x3: 96 to 128 channels of 28x28; GoogLeNet inception 3a.
#[autotune(dims(B = 1, C = 96, H = 28, W = 28, O = 128, R = 3, Y = 28, P = 28))]
pub fn googlenet3a_3x3_96_128_28(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| {
        sum((0..C, 0..R, 0..R), |c, r, s| {
            x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

/// Convolution 5x5: 16 to 32 channels of 28x28; GoogLeNet inception 3a.
#[autotune(dims(B = 1, C = 16, H = 28, W = 28, O = 32, R = 5, Y = 28, P = 28))]
pub fn googlenet3a_5x5_16_32_28(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| {
        sum((0..C, 0..R, 0..R), |c, r, s| {
            x.get([n, c, y + r - 2, p + s - 2]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

/// Convolution 3x3: 64 to 64 channels of 224x224; VGG-16 conv1_2.
#[autotune(dims(B = 1, C = 64, H = 224, W = 224, O = 64, R = 3, Y = 224, P = 224))]
pub fn vgg16_3x3_64_64_224(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| {
        sum((0..C, 0..R, 0..R), |c, r, s| {
            x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

/// Convolution 3x3: 512 to 512 channels of 28x28; VGG-16 conv4_2.
#[autotune(dims(B = 1, C = 512, H = 28, W = 28, O = 512, R = 3, Y = 28, P = 28))]
pub fn vgg16_3x3_512_512_28(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| {
        sum((0..C, 0..R, 0..R), |c, r, s| {
            x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

/// Convolution 1x1: 96 to 16 channels of 54x54; SqueezeNet 1.0 fire2 squeeze.
#[autotune(dims(B = 1, C = 96, H = 54, W = 54, O = 16, R = 1, Y = 54, P = 54))]
pub fn squeezenet_squeeze_96_16_54(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| sum(0..C, |c| x[[n, c, y, p]] * w[[o, c, 0, 0]]))
}

/// Convolution 3x3: 16 to 64 channels of 54x54; SqueezeNet 1.0 fire2 expand 3x3.
#[autotune(dims(B = 1, C = 16, H = 54, W = 54, O = 64, R = 3, Y = 54, P = 54))]
pub fn squeezenet_expand_16_64_54(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| {
        sum((0..C, 0..R, 0..R), |c, r, s| {
            x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

/// Depthwise 3x3: 32 to 32 channels of 112x112; MobileNet v1.
#[autotune(dims(B = 1, O = 32, H = 112, W = 112, G = 1, R = 3, Y = 112, P = 112))]
pub fn mobilenet_dw_32_112(
    x: Tensor<f32, B, O, H, W>,
    w: Weight<f32, O, G, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| {
        sum((0..R, 0..R), |r, s| {
            x.get([n, o, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, 0, r, s]]
        })
    })
}

/// Depthwise 3x3: 512 to 512 channels of 14x14; MobileNet v1.
#[autotune(dims(B = 1, O = 512, H = 14, W = 14, G = 1, R = 3, Y = 14, P = 14))]
pub fn mobilenet_dw_512_14(
    x: Tensor<f32, B, O, H, W>,
    w: Weight<f32, O, G, R, R>,
) -> Tensor<f32, B, O, Y, P> {
    compute(|n, o, y, p| {
        sum((0..R, 0..R), |r, s| {
            x.get([n, o, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, 0, r, s]]
        })
    })
}
