//! BERT-base and MiniLM, on 128 tokens.
//!
//! Queries, keys and values are one product, as engines compute them; no token is padding, so
//! there is no mask.
//!
//! # Source
//!
//! J. Devlin et al., "BERT" (2019), uncased; W. Wang et al., "MiniLM" (2020), in the shape of
//! all-MiniLM-L6-v2, a model of sentences: what comes out is one vector of length 1.

use crate::Network;
use crate::builder::Builder;
use crate::program::{Activation, Dense, Heads, embedding, layer_norm, mean_normalized};

/// Word pieces that have an embedding.
const VOCABULARY: u32 = 30522;
/// Places in a text that have an embedding.
const POSITIONS: u32 = 512;
const TOKENS: u32 = 128;

pub(crate) fn bert_base() -> Network {
    let heads = Heads { tokens: TOKENS, heads: 12, features: 64 };
    let mut net = Builder::default();
    encoder(&mut net, heads, 12);
    // The pooled output: the first token alone.
    net.dense(heads.heads * heads.features, heads.heads * heads.features, Activation::Tanh);
    net.finish("bert-base")
}

pub(crate) fn minilm() -> Network {
    let heads = Heads { tokens: TOKENS, heads: 12, features: 32 };
    let mut net = Builder::default();
    encoder(&mut net, heads, 6);
    net.push(mean_normalized(TOKENS, heads.heads * heads.features));
    net.finish("minilm")
}

fn encoder(net: &mut Builder, heads: Heads, n_layers: u32) {
    let (rows, width) = (heads.tokens, heads.heads * heads.features);
    net.push(embedding(rows, VOCABULARY, POSITIONS, width));
    let dense = |inputs, outputs, residual, activation| {
        Dense { rows, inputs, outputs, residual, activation }.text()
    };
    for _ in 0..n_layers {
        net.push(dense(width, 3 * width, false, Activation::None));
        net.push(heads.scores());
        net.push(heads.softmax());
        net.push(heads.context());
        net.push(dense(width, width, true, Activation::None));
        net.push(layer_norm(rows, width));
        net.push(dense(width, 4 * width, false, Activation::Gelu));
        net.push(dense(4 * width, width, true, Activation::None));
        net.push(layer_norm(rows, width));
    }
}
