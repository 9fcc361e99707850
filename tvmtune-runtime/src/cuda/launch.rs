//! One launch: the table is filled, parameters are pointed to, functions are put on the stream.
#![expect(unsafe_code, reason = "code of a device is launched here, and nowhere else")]

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::CUstream;

use super::arg::DeviceArg;
use super::driver::{EncodedMap, error_name};
use super::kernel::{ALIGN, Chosen, DeviceKernel, MOST_MAPS, MOST_PARAMS};
use crate::Error;
use crate::cpu::call::with_words;
use crate::raw::Call;
use crate::raw::cuda::{Param, TableEntry};

/// Puts the functions of a variant on a stream.
///
/// # Errors
///
/// If an argument is not where it must be, or the driver refuses.
///
/// # Safety
///
/// The variant must be of the program whose arguments these are, with as many elements as the
/// dimensions say, and the stream one of the kernel's context; memory must stay until the functions
/// have run, and launches that share temporaries must run one after the other.
pub(super) unsafe fn run(
    chosen: &Chosen<'_>,
    stream: CUstream,
    call: &Call<'_, DeviceArg<'_>>,
) -> Result<(), Error> {
    let variant = chosen.variant;
    with_words(variant.n_numbers(), |numbers| {
        (variant.numbers)(call.dims, numbers);
        let (table, rest) = numbers.split_at_mut(variant.table.len());
        let (n_blocks, map_numbers) = rest.split_at(variant.functions.len());
        fill(table, chosen, call)?;
        let mut maps = [EncodedMap::EMPTY; MOST_MAPS];
        for (map, encoded) in variant.maps.iter().zip(&mut maps) {
            let numbers = map_numbers.get(map.numbers..).unwrap_or(&[]);
            encoded
                .encode(map, table[map.entry], numbers)
                .map_err(|reason| failed(call.kernel, "cuTensorMapEncodeTiled", reason))?;
        }
        chosen
            .context
            .bind_to_thread()
            .map_err(|error| failed(call.kernel, "cuCtxSetCurrent", error_name(error)))?;
        let mut params = [ptr::null_mut::<c_void>(); MOST_PARAMS];
        for ((function, entry), n_blocks) in
            variant.functions.iter().zip(chosen.entries).zip(n_blocks)
        {
            if *n_blocks == 0 {
                continue;
            }
            for (param, place) in function.params.iter().zip(&mut params) {
                *place = match param {
                    Param::Entry(n) => (&raw mut table[*n]).cast(),
                    Param::Map(n) => (&raw mut maps[*n]).cast(),
                };
            }
            let n_blocks = u32::try_from(*n_blocks).unwrap_or(u32::MAX);
            let params = &mut params[..function.params.len()];
            // SAFETY: the context was made current; parameters are entries of the table and maps,
            // as the code that was generated with this list has them; the rest is the contract of
            // this function.
            unsafe { entry.launch(stream, n_blocks, params) }
                .map_err(|reason| failed(call.kernel, "cuLaunchKernel", reason))?;
        }
        Ok(())
    })
}

fn failed(kernel: &'static str, call: &'static str, reason: &'static str) -> Error {
    Error::Cuda { kernel, call, reason }
}

/// Writes addresses and scalars into a table that has its numbers.
fn fill(
    table: &mut [u64],
    chosen: &Chosen<'_>,
    call: &Call<'_, DeviceArg<'_>>,
) -> Result<(), Error> {
    let (kernel, end) = (call.kernel, chosen.temporaries + chosen.n_bytes);
    let mut free = chosen.temporaries;
    for (entry, word) in chosen.variant.table.iter().zip(table) {
        match *entry {
            TableEntry::Param => {}
            TableEntry::Scalar(n) => *word = call.scalars[n],
            TableEntry::Shared => {
                let bytes = std::mem::replace(word, free).next_multiple_of(ALIGN);
                free += bytes;
                if free > end {
                    return Err(Error::OutOfMemory { kernel, bytes: bytes as usize });
                }
            }
            TableEntry::Pointer { arg, layout, align } => {
                let name = call.names[arg];
                *word = call.args[arg].address((kernel, name), chosen.context, layout)?;
                if *word == 0 || !word.is_multiple_of(align as u64) {
                    return Err(Error::Misaligned { kernel, arg: name, align });
                }
            }
        }
    }
    Ok(())
}

/// As [`run`], on a stream that is known by its handle.
///
/// # Errors
///
/// As [`run`].
///
/// # Safety
///
/// As [`run`]; and the kernel must be the one that the call is for.
pub unsafe fn run_raw(
    kernel: &DeviceKernel,
    stream: *mut c_void,
    call: &Call<'_, DeviceArg<'_>>,
) -> Result<(), Error> {
    let chosen = kernel.choose(call.kernel, call.dims)?;
    // SAFETY: by the contract of this function.
    unsafe { run(&chosen, stream.cast(), call) }
}
