//! Kernels of ordinary instructions: results against plain Rust, at sizes around the edges.

use tvmtune_emulator::{Launch, Memory, Options};

use crate::common::{Numbers, all_options, assert_close, buffer, module, of_bytes};

#[test]
fn vectors_are_added_to_the_end() {
    let module = module("vector_add.sm_75");
    for n in [1, 31, 32, 100, 256] {
        let mut memory = Memory::new();
        let (x, y) = (Numbers::new(1).floats(n), Numbers::new(2).floats(n));
        let a = buffer(&mut memory, "a", &x);
        let b = buffer(&mut memory, "b", &y);
        let c = buffer(&mut memory, "c", &vec![f32::NAN; n]);
        let launch = Launch::linear((n as u32).div_ceil(64), 64);
        let kernel = module.kernel("vector_add").unwrap();
        let arguments = [a.into(), b.into(), c.into(), (n as i32).into()];
        kernel.run(&launch, &arguments, &mut memory, &Options::default()).unwrap();
        let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        assert_eq!(of_bytes::<f32>(memory.bytes(c)), want);
    }
}

/// Runs `C = A * B` on some tile and returns `C` and what it should be.
pub(crate) fn sgemm(
    fixture: &str,
    [m, n, k]: [usize; 3],
    options: &Options,
) -> Result<(Vec<f32>, Vec<f64>), Box<tvmtune_emulator::Fault>> {
    let module = module(fixture);
    let mut memory = Memory::new();
    let (x, y) = (Numbers::new(3).floats(m * k), Numbers::new(4).floats(k * n));
    let a = buffer(&mut memory, "a", &x);
    let b = buffer(&mut memory, "b", &y);
    let c = buffer(&mut memory, "c", &vec![f32::NAN; m * n]);
    let mut launch = Launch::linear(n.div_ceil(32) as u32, 128);
    launch.grid[1] = m.div_ceil(32) as u32;
    let sizes = [m, n, k].map(|it| it as i32);
    let arguments =
        [a.into(), b.into(), c.into(), sizes[0].into(), sizes[1].into(), sizes[2].into()];
    module.kernel("sgemm").unwrap().run(&launch, &arguments, &mut memory, options)?;
    let mut want = vec![0.0; m * n];
    for (n_th, want) in want.iter_mut().enumerate() {
        let (i, j) = (n_th / n, n_th % n);
        *want = (0..k).map(|l| f64::from(x[i * k + l]) * f64::from(y[l * n + j])).sum();
    }
    Ok((of_bytes(memory.bytes(c)), want))
}

#[test]
fn tiles_of_shared_memory_multiply_matrices_of_any_size() {
    for fixture in ["sgemm.sm_75", "sgemm.sm_90a"] {
        for sizes in [[32, 32, 8], [32, 32, 3], [33, 31, 17], [64, 70, 40], [1, 1, 1]] {
            let (got, want) = sgemm(fixture, sizes, &Options::default()).unwrap();
            assert_close(&got, &want, 1e-6);
        }
    }
    for options in all_options() {
        let (got, want) = sgemm("sgemm.sm_75", [40, 50, 20], &options).unwrap();
        assert_close(&got, &want, 1e-6);
    }
}

#[test]
fn rows_are_normalized() {
    for (fixture, tolerance) in [("softmax.sm_80", 1e-6), ("softmax.fast.sm_80", 1e-5)] {
        let module = module(fixture);
        for cols in [1, 100, 128, 333] {
            let rows = 3;
            let mut memory = Memory::new();
            let values: Vec<f32> =
                Numbers::new(5).floats(rows * cols).iter().map(|it| it * 9.0).collect();
            let x = buffer(&mut memory, "x", &values);
            let y = buffer(&mut memory, "y", &vec![f32::NAN; rows * cols]);
            let kernel = module.kernel("softmax").unwrap();
            let arguments = [x.into(), y.into(), (cols as i32).into()];
            let launch = Launch::linear(rows as u32, 128);
            kernel.run(&launch, &arguments, &mut memory, &Options::default()).unwrap();
            let want: Vec<f64> = values
                .chunks(cols)
                .flat_map(|row| {
                    let most = row.iter().copied().fold(f32::MIN, f32::max);
                    let powers: Vec<f64> =
                        row.iter().map(|it| f64::from(it - most).exp()).collect();
                    let sum: f64 = powers.iter().sum();
                    powers.into_iter().map(move |it| it / sum)
                })
                .collect();
            assert_close(&of_bytes(memory.bytes(y)), &want, tolerance);
        }
    }
}

#[test]
fn tiles_are_transposed() {
    for fixture in ["transpose.sm_75", "transpose.no_padding.sm_75"] {
        let module = module(fixture);
        for (rows, cols) in [(32, 32), (40, 70), (1, 33)] {
            let mut memory = Memory::new();
            let values = Numbers::new(6).floats(rows * cols);
            let a = buffer(&mut memory, "a", &values);
            let b = buffer(&mut memory, "b", &vec![f32::NAN; rows * cols]);
            let launch = Launch {
                grid: [cols.div_ceil(32) as u32, rows.div_ceil(32) as u32, 1],
                block: [32, 8, 1],
                cluster: None,
                dynamic_shared_bytes: 0,
            };
            let arguments = [a.into(), b.into(), (rows as i32).into(), (cols as i32).into()];
            let kernel = module.kernel("transpose").unwrap();
            kernel.run(&launch, &arguments, &mut memory, &Options::default()).unwrap();
            let got: Vec<f32> = of_bytes(memory.bytes(b));
            for (n, got) in got.iter().enumerate() {
                assert_eq!(*got, values[n % rows * cols + n / rows]);
            }
        }
    }
}

#[test]
fn sums_take_two_kernels() {
    let module = module("reduce.sm_80");
    for n in [1, 100, 1000] {
        let mut memory = Memory::new();
        let values = Numbers::new(7).floats(n);
        let x = buffer(&mut memory, "x", &values);
        let slices = buffer(&mut memory, "slices", &[f32::NAN; 5]);
        let sum = buffer(&mut memory, "sum", &[f32::NAN]);
        let options = Options::default();
        let partial = module.kernel("partial").unwrap();
        let arguments = [x.into(), slices.into(), (n as i32).into()];
        partial.run(&Launch::linear(5, 128), &arguments, &mut memory, &options).unwrap();
        let finish = module.kernel("finish").unwrap();
        let arguments = [slices.into(), sum.into(), 5i32.into()];
        finish.run(&Launch::linear(1, 128), &arguments, &mut memory, &options).unwrap();
        let want = values.iter().map(|it| f64::from(*it)).sum();
        assert_close(&of_bytes(memory.bytes(sum)), &[want], 1e-5);
    }
}

#[test]
fn the_last_block_adds_up_what_all_have_left() {
    let module = module("reduce.sm_80");
    let values = Numbers::new(7).floats(1000);
    let want = values.iter().map(|it| f64::from(*it)).sum();
    for options in all_options() {
        let mut memory = Memory::new();
        let x = buffer(&mut memory, "x", &values);
        let slices = buffer(&mut memory, "slices", &[f32::NAN; 6]);
        let sum = buffer(&mut memory, "sum", &[f32::NAN]);
        let count = buffer(&mut memory, "count", &[0u32]);
        let arguments = [x.into(), slices.into(), sum.into(), count.into(), 1000i32.into()];
        let kernel = module.kernel("last_block").unwrap();
        kernel.run(&Launch::linear(6, 128), &arguments, &mut memory, &options).unwrap();
        assert_close(&of_bytes(memory.bytes(sum)), &[want], 1e-5);
    }
}

#[test]
fn sums_run_along_a_block() {
    let module = module("scan.sm_75");
    for n in [1, 256, 600] {
        let mut memory = Memory::new();
        let values: Vec<i32> = (0..n).map(|it| (it * 7919 % 101) - 50).collect();
        let x = buffer(&mut memory, "x", &values);
        let y = buffer(&mut memory, "y", &vec![-1i32; n as usize]);
        let arguments = [x.into(), y.into(), n.into()];
        let kernel = module.kernel("scan").unwrap();
        kernel.run(&Launch::linear(1, 256), &arguments, &mut memory, &Options::default()).unwrap();
        let want: Vec<i32> = values
            .iter()
            .scan(0, |sum, it| {
                *sum += it;
                Some(*sum)
            })
            .collect();
        assert_eq!(of_bytes::<i32>(memory.bytes(y)), want);
    }
}

#[test]
fn threads_of_a_warp_work_together() {
    let module = module("warps.sm_80");
    let mut memory = Memory::new();
    let values: Vec<i32> = (0..32).map(|it| it * it - 100).collect();
    let x = buffer(&mut memory, "x", &values);
    let y = buffer(&mut memory, "y", &[0i32; 32]);
    let kernel = module.kernel("warps").unwrap();
    let arguments = [x.into(), y.into()];
    kernel.run(&Launch::linear(1, 32), &arguments, &mut memory, &Options::default()).unwrap();
    let reversed: Vec<i32> = (0..32).map(|t| values[31 - t]).collect();
    let mut v: Vec<i32> = (0..32).map(|t| reversed[t] + reversed[t ^ 1]).collect();
    let (sum, most) = (v[..16].iter().sum::<i32>(), *v[16..].iter().max().unwrap());
    for (t, v) in v.iter_mut().enumerate() {
        if t < 16 { *v += sum } else { *v -= most }
    }
    let odd = v.iter().filter(|it| *it & 1 == 1).count() as i32;
    v.iter_mut().for_each(|it| *it += odd);
    // The other two votes see what the line before them made.
    let got: Vec<i32> = of_bytes(memory.bytes(y));
    let any = i32::from(v.iter().any(|it| it - odd > 1000));
    v.iter_mut().for_each(|it| *it += any + 1);
    let class = |it: i32| it & 3;
    let with_match: Vec<i32> = (0..32)
        .map(|t| {
            let mask =
                (0..32).filter(|o| class(v[*o]) == class(v[t])).fold(0u32, |m, o| m | 1 << o);
            v[t] + (mask & 7) as i32
        })
        .collect();
    assert_eq!(got, with_match);
}

#[test]
fn threads_take_their_own_way() {
    let module = module("control.sm_75");
    let values: Vec<i32> = (1..=128).collect();
    let mut want: Vec<i32> = (0..192).map(|_| 0).collect();
    let mut steps = [0; 128];
    for t in 0..128 {
        let mut n = values[t];
        while n != 1 {
            n = if n % 2 == 1 { 3 * n + 1 } else { n / 2 };
            steps[t] += 1;
            if steps[t] > 100 {
                break;
            }
        }
        for i in (0..t as i32 % 5).filter(|i| *i != 3) {
            steps[t] += (0..i).map(|j| if j % 2 == 1 { 3 } else { 5 }).sum::<i32>();
        }
    }
    for t in 0..64 {
        want[128 + t] = (0..64).filter(|k| k % 4 == t % 4).map(|k| steps[k]).sum();
    }
    for t in 0..128 {
        want[t] = steps[t] + 1000 * 43 + 100_000 + 200_000;
    }
    for options in all_options() {
        let mut memory = Memory::new();
        let x = buffer(&mut memory, "x", &values);
        let y = buffer(&mut memory, "y", &[0i32; 192]);
        let kernel = module.kernel("control").unwrap();
        let arguments = [x.into(), y.into()];
        kernel.run(&Launch::linear(1, 128), &arguments, &mut memory, &options).unwrap();
        assert_eq!(of_bytes::<i32>(memory.bytes(y)), want);
    }
}

#[test]
fn functions_are_called_with_what_they_take() {
    let module = module("calls.sm_80");
    let kernel = module.kernel("calls").unwrap();
    let values = Numbers::new(8).floats(13);
    let mut memory = Memory::new();
    let x = buffer(&mut memory, "x", &values);
    let y = buffer(&mut memory, "y", &[77f32; 40]);
    let mut pair = 1.5f32.to_le_bytes().to_vec();
    pair.extend(3i32.to_le_bytes());
    let pair = tvmtune_emulator::Argument::Value(pair);
    let arguments = [x.into(), y.into(), 13i32.into(), pair, (-1i32).into()];
    kernel.run(&Launch::linear(1, 40), &arguments, &mut memory, &Options::default()).unwrap();
    let got: Vec<f32> = of_bytes(memory.bytes(y));
    for (i, got) in got.iter().enumerate() {
        let mut v = [0.0; 8];
        (0..8).for_each(|k| v[(k + i) & 7] = values[(i + k) % 13]);
        let mut r = 0f32;
        for (k, v) in v.iter().enumerate().take(4 + (i & 3)) {
            r = v.mul_add([1.0, 2.0, 3.0, 4.0][k & 3], r);
        }
        if i & 1 == 1 {
            r = r * 2.0 + (i * 2) as f32 + 3.0;
        }
        let want = match i % 7 {
            0 => r + 1.0,
            1 => r * 2.0,
            2 => r - 1.5,
            3 => -r,
            4 => r * r,
            5 => 77.0,
            _ => v[i & 7],
        };
        assert!((got - want).abs() < 1e-4, "thread {i}: {got} for {want}");
    }
}
