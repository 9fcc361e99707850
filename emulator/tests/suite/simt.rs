//! Kernels of ordinary instructions: results against plain Rust, at sizes around the edges.

use tvmtune_emulator::{Launch, Options};

use crate::common::{Numbers, Product, Run, all_options, assert_close, module};

#[test]
fn vectors_are_added_to_the_end() {
    let module = module("vector_add.sm_75");
    for n in [1, 31, 32, 100, 256] {
        let (x, y) = (Numbers::new(1).floats(n), Numbers::new(2).floats(n));
        let run = Run::new((n as u32).div_ceil(64), 64).buffer(&x).buffer(&y);
        let run = run.buffer(&vec![f32::NAN; n]).argument(n as i32);
        let run = run.run(&module, "vector_add").unwrap();
        let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        assert_eq!(run.read::<f32>(2), want);
    }
}

/// Runs `C = A * B` on some tile and returns `C` and what it should be.
pub(crate) fn sgemm(
    fixture: &str,
    [m, n, k]: [usize; 3],
    options: &Options,
) -> Result<Product, Box<tvmtune_emulator::Fault>> {
    let module = module(fixture);
    let (x, y) = (Numbers::new(3).floats(m * k), Numbers::new(4).floats(k * n));
    let mut launch = Launch::linear(n.div_ceil(32) as u32, 128);
    launch.grid[1] = m.div_ceil(32) as u32;
    let run = Run::of(launch).options(options).buffer(&x).buffer(&y).buffer(&vec![f32::NAN; m * n]);
    let run = [m, n, k].into_iter().fold(run, |run, it| run.argument(it as i32));
    let got = run.run(&module, "sgemm")?.read(2);
    let mut want = vec![0.0; m * n];
    for (n_th, want) in want.iter_mut().enumerate() {
        let (i, j) = (n_th / n, n_th % n);
        *want = (0..k).map(|l| f64::from(x[i * k + l]) * f64::from(y[l * n + j])).sum();
    }
    Ok((got, want))
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
            let values: Vec<f32> =
                Numbers::new(5).floats(rows * cols).iter().map(|it| it * 9.0).collect();
            let run = Run::new(rows as u32, 128).buffer(&values);
            let run = run.buffer(&vec![f32::NAN; rows * cols]).argument(cols as i32);
            let run = run.run(&module, "softmax").unwrap();
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
            assert_close(&run.read(1), &want, tolerance);
        }
    }
}

#[test]
fn tiles_are_transposed() {
    for fixture in ["transpose.sm_75", "transpose.no_padding.sm_75"] {
        let module = module(fixture);
        for (rows, cols) in [(32, 32), (40, 70), (1, 33)] {
            let values = Numbers::new(6).floats(rows * cols);
            let launch = Launch {
                grid: [cols.div_ceil(32) as u32, rows.div_ceil(32) as u32, 1],
                block: [32, 8, 1],
                cluster: None,
                dynamic_shared_bytes: 0,
            };
            let run = Run::of(launch).buffer(&values).buffer(&vec![f32::NAN; rows * cols]);
            let run = run.argument(rows as i32).argument(cols as i32);
            let got: Vec<f32> = run.run(&module, "transpose").unwrap().read(1);
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
        let values = Numbers::new(7).floats(n);
        let partial = Run::new(5, 128).buffer(&values).buffer(&[f32::NAN; 5]).argument(n as i32);
        let slices: Vec<f32> = partial.run(&module, "partial").unwrap().read(1);
        let finish = Run::new(1, 128).buffer(&slices).buffer(&[f32::NAN]).argument(5i32);
        let want = values.iter().map(|it| f64::from(*it)).sum();
        assert_close(&finish.run(&module, "finish").unwrap().read(1), &[want], 1e-5);
    }
}

#[test]
fn the_last_block_adds_up_what_all_have_left() {
    let module = module("reduce.sm_80");
    let values = Numbers::new(7).floats(1000);
    let want = values.iter().map(|it| f64::from(*it)).sum();
    for options in all_options() {
        let run = Run::new(6, 128).options(&options).buffer(&values).buffer(&[f32::NAN; 6]);
        let run = run.buffer(&[f32::NAN]).buffer(&[0u32]).argument(1000i32);
        assert_close(&run.run(&module, "last_block").unwrap().read(2), &[want], 1e-5);
    }
}

#[test]
fn sums_run_along_a_block() {
    let module = module("scan.sm_75");
    for n in [1, 256, 600] {
        let values: Vec<i32> = (0..n).map(|it| (it * 7919 % 101) - 50).collect();
        let run = Run::new(1, 256).buffer(&values).buffer(&vec![-1i32; n as usize]).argument(n);
        let run = run.run(&module, "scan").unwrap();
        let want: Vec<i32> = values
            .iter()
            .scan(0, |sum, it| {
                *sum += it;
                Some(*sum)
            })
            .collect();
        assert_eq!(run.read::<i32>(1), want);
    }
}

#[test]
fn threads_of_a_warp_work_together() {
    let module = module("warps.sm_80");
    let values: Vec<i32> = (0..32).map(|it| it * it - 100).collect();
    let run = Run::new(1, 32).buffer(&values).buffer(&[0i32; 32]);
    let got: Vec<i32> = run.run(&module, "warps").unwrap().read(1);
    let reversed: Vec<i32> = (0..32).map(|t| values[31 - t]).collect();
    let mut v: Vec<i32> = (0..32).map(|t| reversed[t] + reversed[t ^ 1]).collect();
    let (sum, most) = (v[..16].iter().sum::<i32>(), *v[16..].iter().max().unwrap());
    for (t, v) in v.iter_mut().enumerate() {
        if t < 16 { *v += sum } else { *v -= most }
    }
    let odd = v.iter().filter(|it| *it & 1 == 1).count() as i32;
    v.iter_mut().for_each(|it| *it += odd);
    // The other two votes see what the line before them made.
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
        let run = Run::new(1, 128).options(&options).buffer(&values).buffer(&[0i32; 192]);
        assert_eq!(run.run(&module, "control").unwrap().read::<i32>(1), want);
    }
}

#[test]
fn functions_are_called_with_what_they_take() {
    let module = module("calls.sm_80");
    let values = Numbers::new(8).floats(13);
    let mut pair = 1.5f32.to_le_bytes().to_vec();
    pair.extend(3i32.to_le_bytes());
    let run = Run::new(1, 40).buffer(&values).buffer(&[77f32; 40]).argument(13i32);
    let run = run.argument(tvmtune_emulator::Argument::Value(pair)).argument(-1i32);
    let got: Vec<f32> = run.run(&module, "calls").unwrap().read(1);
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
