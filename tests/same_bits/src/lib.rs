//! The example `minilm` with fixed numerics, as its `tvmtune.toml` asks for; the sources are the same.

#[path = "../../../examples/minilm/src/device.rs"]
pub mod device;
#[path = "../../../examples/minilm/src/model.rs"]
pub mod model;
#[path = "../../../examples/minilm/src/ops.rs"]
pub mod ops;
#[path = "../../../examples/minilm/src/weights.rs"]
pub mod weights;

/// Sentences of pseudo-random tokens, the same in each run: most are short, and some are as long as a vector,
/// a bucket or the model allows, or one token more or less.
pub fn sentences(n: usize) -> Vec<Vec<u32>> {
    const EDGES: [usize; 16] = [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 128, 255, 256];
    /// Token ids below are of no words.
    const FIRST_WORD: u64 = 1000;
    const N_WORDS: u64 = 29_000;
    let mut state = 0_u64;
    // SplitMix64: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators".
    let mut random = |below: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let it = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (it ^ (it >> 31)) % below
    };
    let sentence = |n: usize| {
        let length = match n % 16 {
            0 => EDGES[n / 16 % EDGES.len()],
            _ => 3 + random(26) as usize,
        };
        (0..length).map(|_| (FIRST_WORD + random(N_WORDS)) as u32).collect()
    };
    (0..n).map(sentence).collect()
}
