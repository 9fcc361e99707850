//! The kernel on a GPU, which is the emulator: what lies in `tvmtune/` is what runs.
//!
//! If the kernel has no code here, it or the code around it has changed since it was prepared:
//! `cargo tvmtune compile --record -p custom_kernel`, with `--target cuda:sm_80` too, then `cargo tvmtune
//! accept -p custom_kernel`.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Command;

use custom_kernel::histogram;
use tvmtune_runtime::{Cpu, cuda};

/// Set where the driver is the fake one.
const FAKE_DRIVER: &str = "CUSTOM_KERNEL_TESTS_FAKE_DRIVER";

/// Values of which some are much more frequent than others, some beyond the ends, and one is none.
fn values(n: usize) -> Vec<f32> {
    let value = |it: usize| match it % 7 {
        0 => 0.25,
        1 => -3.0,
        _ => (it * it % 1009) as f32 / 500.0 - 1.0,
    };
    (0..n).map(|it| if it == 5 { f32::NAN } else { value(it) }).collect()
}

#[test]
fn counts_are_those_of_the_cpu_and_of_plain_rust() {
    if std::env::var_os(FAKE_DRIVER).is_none() {
        let folder = tempfile::tempdir().unwrap();
        let this = std::env::current_exe().unwrap();
        let driver = this.with_file_name("libtvmtune_fake_driver.so");
        fs::copy(&driver, folder.path().join("libcuda.so.1")).unwrap();
        let mut command = Command::new(&this);
        command.args(["counts_are_those_of_the_cpu_and_of_plain_rust", "--exact"]);
        command.env(FAKE_DRIVER, "yes").env("LD_LIBRARY_PATH", folder.path());
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
        return;
    }
    let stream = cuda::Device::open(0).unwrap().context().per_thread_stream();
    let (lo, scale) = (-1.0, 128.0);
    for n in [1, 63, 64, 1021, 4096, 4097, 10_007] {
        let x = values(n);
        let mut expected = vec![0_i32; 256];
        for it in &x {
            // `as` takes what is no number to 0.
            let bin = ((it - lo) * scale).floor().clamp(0.0, 255.0);
            expected[bin as usize] += 1;
        }
        let mut on_cpu = vec![-1_i32; 256];
        histogram(&Cpu::new(), &x, lo, scale, &mut on_cpu).unwrap();
        assert_eq!(on_cpu, expected, "{n} values on the CPU");
        let on_gpu = stream.clone_htod(&x).unwrap();
        let mut counts = stream.clone_htod(&vec![-1_i32; 256]).unwrap();
        histogram(&stream, &on_gpu, lo, scale, &mut counts).unwrap();
        assert_eq!(stream.clone_dtoh(&counts).unwrap(), expected, "{n} values on the GPU");
    }
}
