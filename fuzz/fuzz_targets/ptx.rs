//! PTX: a module of kernels, or an error. Kernels of two pointers and a number are launched.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tvmtune_emulator::{Launch, Memory, Module, Options};

/// Instructions of warps after which a kernel is taken to hang.
const INSTRUCTIONS: u64 = 5000;

fuzz_target!(|text: &str| {
    let Ok(module) = Module::parse(text) else { return };
    let Some(kernel) = module.kernel("softmax_f32_0") else { return };
    let mut memory = Memory::new();
    let (x, y) = (memory.add("x", vec![0; 4096]), memory.add("y", vec![0; 4096]));
    let options = Options { instruction_limit: INSTRUCTIONS, ..Options::default() };
    // A fault is what mutants mostly come to.
    let _ = kernel.run(&Launch::linear(1, 128), &[x.into(), y.into(), 4.into()], &mut memory, &options);
});
