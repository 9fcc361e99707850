//! A launch: fills the argument table and parameters, and enqueues functions on the stream.
#![expect(unsafe_code, reason = "code of a device is launched here, and nowhere else")]

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use cudarc::driver::sys::CUstream;

use super::arg::DeviceArg;
use super::driver::{EncodedMap, error_name};
use super::kernel::{ALIGN, Chosen, DeviceKernel, MOST_MAPS, MOST_PARAMS};
use super::timer;
use crate::cpu::call::with_words;
use crate::raw::cuda::{Field, FieldValue, Param, TableEntry, Variant};
use crate::raw::{Call, Layout};
use crate::trace::{self, LaunchedCode};
use crate::{Error, Isa};

/// Enqueues the functions of a variant on a stream. A launch that is traced is waited for, as nothing
/// else would tell how long it took.
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
pub(crate) unsafe fn run<'a, A: AsRef<DeviceArg<'a>>>(
    chosen: &Chosen<'_>,
    stream: CUstream,
    call: &Call<'_, A>,
) -> Result<(), Error> {
    // SAFETY: by the contract of this function.
    let enqueue = || unsafe { enqueue(chosen, stream, call) };
    let Some(launch) = trace::begin(call.traced) else { return enqueue() };
    // SAFETY: the stream is one of the context.
    let time = unsafe { timer::time_launch(chosen.context, stream, enqueue)? };
    let Variant { tier, artifact, .. } = *chosen.variant;
    let code = LaunchedCode { isa: Isa::Cuda(chosen.arch), tier, threads: None, artifact };
    if let Some(clock) = time {
        launch.end(call.dims, &code, clock);
    }
    Ok(())
}

/// As `run`, without waiting.
unsafe fn enqueue<'a, A: AsRef<DeviceArg<'a>>>(
    chosen: &Chosen<'_>,
    stream: CUstream,
    call: &Call<'_, A>,
) -> Result<(), Error> {
    let variant = chosen.variant;
    with_words(variant.n_numbers(), |numbers| {
        (variant.numbers)(call.dims, numbers);
        let (table, rest) = numbers.split_at_mut(variant.table.len());
        let (grids, map_numbers) = rest.split_at(3 * variant.functions.len());
        let (grids, _) = grids.as_chunks::<3>();
        let address = |arg: usize, layout| {
            let name = (call.kernel, call.names[arg]);
            call.args[arg].as_ref().address(name, chosen.context, layout)
        };
        let temporaries = chosen.temporaries..chosen.temporaries + chosen.n_bytes;
        fill(table, variant.table, temporaries, call, &address)?;
        // Before the first call of the driver that may need one.
        chosen
            .context
            .bind_to_thread()
            .map_err(|error| failed(call.kernel, "cuCtxSetCurrent", error_name(error)))?;
        let mut maps = [EncodedMap::EMPTY; MOST_MAPS];
        for (map, encoded) in variant.maps.iter().zip(&mut maps) {
            let numbers = map_numbers.get(map.numbers..).unwrap_or(&[]);
            encoded
                .encode(map, table[map.entry], numbers)
                .map_err(|reason| failed(call.kernel, "cuTensorMapEncodeTiled", reason))?;
        }
        let _alone = chosen.alone();
        let mut params = [ptr::null_mut::<c_void>(); MOST_PARAMS];
        for ((function, entry), grid) in variant.functions.iter().zip(chosen.entries).zip(grids) {
            if grid.contains(&0) {
                continue;
            }
            point(function.params, table, &mut maps, &mut params);
            let grid = grid.map(|it| u32::try_from(it).unwrap_or(u32::MAX));
            let params = &mut params[..function.params.len()];
            // SAFETY: the context was made current; parameters are entries of the table, one or more
            // in a row, and maps, as the code that was generated with this list has them; the rest is the contract of
            // this function.
            unsafe { entry.launch(stream, grid, params) }
                .map_err(|reason| failed(call.kernel, "cuLaunchKernel", reason))?;
        }
        Ok(())
    })
}

fn failed(kernel: &'static str, call: &'static str, reason: &'static str) -> Error {
    Error::Cuda { kernel, call, reason }
}

/// Writes addresses and scalars into a table that has its numbers. `address` says where an argument
/// is in some layout.
fn fill<A>(
    table: &mut [u64],
    entries: &[TableEntry],
    temporaries: Range<u64>,
    call: &Call<'_, A>,
    address: &dyn Fn(usize, Option<&'static Layout>) -> Result<u64, Error>,
) -> Result<(), Error> {
    let (kernel, mut free) = (call.kernel, temporaries.start);
    for (entry, word) in entries.iter().zip(table) {
        match *entry {
            TableEntry::Param => {}
            TableEntry::Scalar(n) => *word = call.scalars[n],
            TableEntry::Fields(fields) => *word = packed(fields, call.dims, call.scalars),
            TableEntry::Workspace => {
                let bytes = std::mem::replace(word, free).next_multiple_of(ALIGN);
                free += bytes;
                if free > temporaries.end {
                    return Err(Error::OutOfMemory { kernel, bytes: bytes as usize });
                }
            }
            TableEntry::Pointer { arg, layout, align } => {
                *word = address(arg, layout)?;
                if *word == 0 || !word.is_multiple_of(align as u64) {
                    return Err(Error::Misaligned { kernel, arg: call.names[arg], align });
                }
            }
        }
    }
    Ok(())
}

/// Returns the word that has the low bits of some values at their places.
fn packed(fields: &[Field], dims: &[i64], scalars: &[u64]) -> u64 {
    fields.iter().fold(0, |word, Field { value, shift, bits }| {
        let value = match *value {
            FieldValue::Dim(n) => dims[n].cast_unsigned(),
            FieldValue::Scalar(n) => scalars[n],
        };
        word | (value & (u64::MAX >> (u64::BITS - bits))) << shift
    })
}

/// Writes the addresses of a function's parameters. That of an entry is one of the table from there on:
/// a struct has several entries.
fn point(params: &[Param], table: &mut [u64], maps: &mut [EncodedMap], places: &mut [*mut c_void]) {
    let (n_entries, first) = (table.len(), table.as_mut_ptr());
    for (param, place) in params.iter().zip(places) {
        *place = match param {
            Param::Entry(n) => {
                assert!(*n < n_entries, "a parameter is an entry of the table");
                first.wrapping_add(*n).cast()
            }
            Param::TensorMap(n) => (&raw mut maps[*n]).cast(),
        };
    }
}

/// As `run`, on a stream that is known by its handle.
///
/// # Errors
///
/// As `run`.
///
/// # Safety
///
/// As `run`; and the kernel must be the one that the call is for.
pub unsafe fn run_raw(
    kernel: &DeviceKernel,
    stream: *mut c_void,
    call: &Call<'_, DeviceArg<'_>>,
) -> Result<(), Error> {
    let chosen = kernel.choose(call.kernel, call.dims)?;
    // SAFETY: by the contract of this function.
    unsafe { run(&chosen, stream.cast(), call) }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SWAPPED: Layout = Layout { splits: &[], order: &[1, 0] };
    const ENTRIES: [TableEntry; 6] = [
        TableEntry::Pointer { arg: 1, layout: Some(&SWAPPED), align: 16 },
        TableEntry::Workspace,
        TableEntry::Param,
        TableEntry::Scalar(1),
        TableEntry::Workspace,
        TableEntry::Pointer { arg: 0, layout: None, align: 4 },
    ];

    /// The table, of which `Workspace` and `Param` were computed, filled for arguments at these
    /// addresses and memory of so many bytes at 4096.
    fn filled(addresses: [u64; 2], n_bytes: u64) -> Result<[u64; 6], Error> {
        let mut table = [0, 100, 7, 0, 256, 0];
        let (names, scalars) = (&["x", "w"], &[5, 6]);
        let call =
            Call { kernel: "test", names, dims: &[], args: &addresses, scalars, traced: None };
        let address = |arg: usize, layout: Option<&'static Layout>| {
            assert_eq!(layout.is_some(), arg == 1);
            Ok(addresses[arg])
        };
        fill(&mut table, &ENTRIES, 4096..4096 + n_bytes, &call, &address)?;
        Ok(table)
    }

    #[test]
    fn a_table_has_addresses_temporaries_numbers_and_scalars() {
        let table = [160, 4096, 7, 6, 4096 + 256, 20];
        assert_eq!(filled([20, 160], 512), Ok(table));
    }

    #[test]
    fn what_a_kernel_could_not_use_is_refused() {
        let (kernel, align) = ("test", 16);
        assert_eq!(filled([20, 168], 512), Err(Error::Misaligned { kernel, arg: "w", align }));
        assert_eq!(filled([0, 160], 512), Err(Error::Misaligned { kernel, arg: "x", align: 4 }));
        assert_eq!(filled([20, 160], 511), Err(Error::OutOfMemory { kernel, bytes: 256 }));
    }

    #[test]
    fn fields_of_a_struct_share_words() {
        let field = |value, shift, bits| Field { value, shift, bits };
        let fields = [
            field(FieldValue::Dim(1), 0, 32),
            field(FieldValue::Scalar(0), 32, 8),
            field(FieldValue::Scalar(1), 48, 16),
        ];
        let word = packed(&fields, &[7, 0x1_2345_6789], &[0xabc, 0x1_fffe]);
        assert_eq!(word, 0xfffe_00bc_2345_6789);
        assert_eq!(packed(&[field(FieldValue::Dim(0), 0, 64)], &[-2], &[]), u64::MAX - 1);
        assert_eq!(packed(&[], &[], &[]), 0, "padding");
    }

    #[test]
    fn parameters_are_entries_and_maps_in_the_order_of_the_function() {
        let (mut table, mut maps) = ([0; 3], [EncodedMap::EMPTY; 2]);
        let expected = [(&raw const maps[1]).addr(), (&raw const table[2]).addr(), 0];
        let mut places = [ptr::null_mut(); 3];
        point(&[Param::TensorMap(1), Param::Entry(2)], &mut table, &mut maps, &mut places);
        assert_eq!(places.map(|it| it.addr()), expected);
        assert_eq!((size_of::<EncodedMap>(), align_of::<EncodedMap>()), (128, 64));
    }
}
