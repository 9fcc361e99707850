//! Embedded code of a program for CUDA devices, and the choice of an image for a device.
//!
//! All of it exists without the feature `cuda` as well, so that a plan compiles either way. A plan
//! that has code for devices has, beside `BUCKETS`, a static `CUDA` with a list for each bucket:
//!
//! ```
//! # use tvmtune_runtime as rt;
//! pub static CUDA: [&[rt::raw::cuda::Variant]; 2] = [&CUDA_0, &[]];
//! static CUDA_0: [rt::raw::cuda::Variant; 1] = [
//!     rt::raw::cuda::Variant {
//!         images: &[
//!             rt::raw::cuda::Image {
//!                 arch: rt::raw::cuda::Arch { major: 9, minor: 0, exact: true },
//!                 format: rt::raw::cuda::Format::Cubin,
//!                 bytes: b"\x7fELF and so on",
//!             },
//!             rt::raw::cuda::Image {
//!                 arch: rt::raw::cuda::Arch { major: 9, minor: 0, exact: true },
//!                 format: rt::raw::cuda::Format::Ptx((9, 0)),
//!                 bytes: b".version 9.0\n and so on",
//!             },
//!         ],
//!         functions: &[
//!             rt::raw::cuda::Function {
//!                 name: "linear",
//!                 block: [384, 1, 1],
//!                 shared_bytes: 196608,
//!                 params: &[
//!                     rt::raw::cuda::Param::TensorMap(0),
//!                     rt::raw::cuda::Param::Entry(1),
//!                     rt::raw::cuda::Param::Entry(2),
//!                 ],
//!             },
//!         ],
//!         table: &[
//!             rt::raw::cuda::TableEntry::Pointer { arg: 0, layout: None, align: 16 },
//!             rt::raw::cuda::TableEntry::Pointer {
//!                 arg: 1,
//!                 layout: Some(&rt::raw::Layout { splits: &[(0, 64)], order: &[0, 2, 1] }),
//!                 align: 16,
//!             },
//!             rt::raw::cuda::TableEntry::Param,
//!         ],
//!         maps: &[
//!             rt::raw::cuda::TensorMap {
//!                 entry: 0,
//!                 element: 9,
//!                 box_dims: &[64, 128],
//!                 element_strides: &[1, 1],
//!                 swizzle: 3,
//!                 numbers: 0,
//!             },
//!         ],
//!         numbers: cuda_0_0_numbers,
//!         tier: rt::Tier::Exact,
//!         median_ns: Some(1500.0),
//!         effort: rt::Effort { trials: 64, seconds: 3.5, search: rt::Search::Partial },
//!         artifact: "0123456789abcdef",
//!     },
//! ];
//! fn cuda_0_0_numbers(dims: &[i64], numbers: &mut [u64]) {
//!     numbers[2] = dims[0] as u64; // the table: a `Param`
//!     numbers[3] = ((dims[0] + 127) / 128) as u64; // blocks of the first function in x,
//!     numbers[4] = 1; // in y,
//!     numbers[5] = 1; // and in z
//!     numbers[6] = 768; // the map: extents, innermost first
//!     numbers[7] = dims[0] as u64;
//!     numbers[8] = 768 * 2; // bytes from row to row
//! }
//! # let mut numbers = [0; 9];
//! # (CUDA[0][0].numbers)(&[300], &mut numbers);
//! # assert_eq!(CUDA[0][0].n_numbers(), numbers.len());
//! # assert_eq!(numbers, [0, 0, 300, 3, 1, 1, 768, 300, 1536]);
//! ```

use std::fmt;

use super::Layout;

/// An architecture of CUDA devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    /// Major version: 9 of `sm_90a`.
    pub major: u8,
    /// Minor version: 0 of `sm_90a`.
    pub minor: u8,
    /// Architecture-specific, without forward compatibility: the `a` of `sm_90a`. Set in a device's own
    /// architecture.
    pub exact: bool,
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, exact } = self;
        // Architecture-specific features exist from 9.0 on.
        let suffix = if *exact && *major >= 9 { "a" } else { "" };
        write!(f, "sm_{major}{minor}{suffix}")
    }
}

/// The format of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An ELF file with machine code.
    Cubin,
    /// PTX of version `(major, minor)`, which the driver compiles.
    Ptx((u8, u8)),
}

/// One compiled file.
#[derive(Clone, Copy)]
pub struct Image {
    /// The target architecture.
    pub arch: Arch,
    /// The format of `bytes`.
    pub format: Format,
    /// The content of the file.
    pub bytes: &'static [u8],
}

/// A parameter of a kernel function.
#[derive(Clone, Copy, Debug)]
pub enum Param {
    /// An entry of the table: its low bytes, as many as the parameter has; a struct has those that follow
    /// it, too.
    Entry(usize),
    /// A tensor map (TMA descriptor), by value.
    TensorMap(usize),
}

/// A kernel function of an image. Those of a variant are launched in order.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The name of the symbol.
    pub name: &'static str,
    /// Threads per block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// The parameters, in order.
    pub params: &'static [Param],
}

/// An entry of the argument table.
#[derive(Clone, Copy, Debug)]
pub enum TableEntry {
    /// The address of an argument, by position: parameters, then results. A packed weight has a
    /// layout; `align` is the alignment of the widest access, in bytes.
    Pointer { arg: usize, layout: Option<&'static Layout>, align: usize },
    /// The address of workspace memory, for one launch.
    Workspace,
    /// An integer computed from the dimensions.
    Param,
    /// A run-time scalar, by position.
    Scalar(usize),
    /// A word of a struct that a kernel takes by value; those of one struct follow each other.
    Fields(&'static [Field]),
}

/// A field in a word of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its value, of which the low bits count.
    pub value: FieldValue,
    /// Its place in the word, in bits.
    pub shift: u32,
    /// Its size, in bits: 8 to 64.
    pub bits: u32,
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub enum FieldValue {
    /// A dynamic dimension, by position.
    Dim(usize),
    /// A run-time scalar, by position.
    Scalar(usize),
}

/// The parameters of a tensor map (`cuTensorMapEncodeTiled`).
#[derive(Clone, Copy, Debug)]
pub struct TensorMap {
    /// The entry of the table with the tensor's address: a multiple of 16.
    pub entry: usize,
    /// The element type: `CUtensorMapDataType`.
    pub element: u32,
    /// Box dimensions in elements of the tensor, innermost first: one per dimension, 1 to 5.
    pub box_dims: &'static [u32],
    /// Element strides, 1 to 8: one per dimension, the first of them 1.
    pub element_strides: &'static [u32],
    /// Swizzle of boxes in shared memory, `CUtensorMapSwizzle`: 0 none, 1 to 3 for 32, 64 or 128 bytes.
    pub swizzle: u32,
    /// Position of its numbers, from the first number of all maps: the tensor's extents, innermost
    /// first, then its strides in bytes but for the innermost.
    pub numbers: usize,
}

impl TensorMap {
    /// Returns the count of its numbers.
    pub const fn n_numbers(&self) -> usize {
        2 * self.box_dims.len() - 1
    }
}

/// The code of a kernel for one bucket and architecture.
#[derive(Clone, Copy)]
pub struct Variant {
    /// Images of the same functions, the most specific first.
    pub images: &'static [Image],
    /// The functions, launched in order.
    pub functions: &'static [Function],
    /// The argument table.
    pub table: &'static [TableEntry],
    /// Tensor maps of the launch.
    pub maps: &'static [TensorMap],
    /// Writes, for given dimensions: for each entry of the table the value of a `Param` or the
    /// bytes of a `Workspace`; then the blocks of each function in x, y and z; then the numbers of
    /// each tensor map.
    pub numbers: fn(&[i64], &mut [u64]),
    /// The tier of the schedule.
    pub tier: crate::Tier,
    /// The time of one launch when it was measured, in ns.
    pub median_ns: Option<f64>,
    /// The effort of finding the schedule.
    pub effort: crate::Effort,
    /// SHA-256 of the code, in hex.
    pub artifact: &'static str,
}

impl fmt::Debug for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let archs: Vec<String> = self.images.iter().map(|it| it.arch.to_string()).collect();
        let Self { tier, artifact, .. } = self;
        let mut debug = f.debug_struct("Variant");
        debug.field("archs", &archs).field("tier", tier).field("artifact", artifact);
        debug.finish_non_exhaustive()
    }
}

impl Variant {
    /// Returns the count of numbers that a launch computes.
    pub fn n_numbers(&self) -> usize {
        let of_maps: usize = self.maps.iter().map(TensorMap::n_numbers).sum();
        self.table.len() + 3 * self.functions.len() + of_maps
    }

    /// Returns the images to try on a device, whose driver compiles PTX up to a version. The first one
    /// that the driver accepts runs: it may refuse machine code newer than itself.
    ///
    /// # Errors
    ///
    /// [`Misfit`], if no image fits.
    pub fn images_for(
        &self,
        device: Arch,
        driver: (u8, u8),
    ) -> Result<Vec<&'static Image>, Misfit> {
        let (mut misfit, mut found) = (Misfit::Arch, Vec::new());
        for image in self.images {
            match (image.runs_on(device), image.format) {
                (true, Format::Ptx(version)) if version > driver => {
                    misfit = Misfit::PtxTooNew(version);
                }
                (true, _) => found.push(image),
                (false, _) => {}
            }
        }
        if found.is_empty() { Err(misfit) } else { Ok(found) }
    }
}

/// The reason why no image of a variant runs on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// All images are for other architectures.
    Arch,
    /// The PTX version is newer than the driver.
    PtxTooNew((u8, u8)),
}

impl Image {
    fn runs_on(&self, device: Arch) -> bool {
        let Arch { major, minor, exact } = self.arch;
        match self.format {
            _ if exact => (major, minor) == (device.major, device.minor),
            // Machine code runs on later minor versions of its major one; PTX on all later ones.
            Format::Cubin => major == device.major && minor <= device.minor,
            Format::Ptx(_) => (major, minor) <= (device.major, device.minor),
        }
    }
}

/// Returns the PTX version that a driver compiles, by its CUDA version: 13000 for 13.0.
pub fn ptx_of_driver(cuda: i32) -> (u8, u8) {
    let (major, minor) = (cuda / 1000, cuda % 1000 / 10);
    let minor = u8::try_from(minor).unwrap_or(0);
    match (major, minor) {
        (..=10, _) => (6, 0),
        (11, _) => (7, minor),
        (12, 0..=5) => (8, minor),
        (12, _) => (8, minor - 1),
        (major, _) => (u8::try_from(major - 4).unwrap_or(u8::MAX), minor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn image(major: u8, minor: u8, exact: bool, format: Format) -> Image {
        Image { arch: Arch { major, minor, exact }, format, bytes: b"" }
    }

    fn device(major: u8, minor: u8) -> Arch {
        Arch { major, minor, exact: true }
    }

    /// Positions of the images to try.
    fn tried(
        images: &'static [Image],
        device: Arch,
        driver: (u8, u8),
    ) -> Result<Vec<usize>, Misfit> {
        let variant = Variant {
            images,
            functions: &[],
            table: &[],
            maps: &[],
            numbers: |_, _| {},
            tier: crate::Tier::Default,
            median_ns: None,
            effort: crate::Effort::NONE,
            artifact: "",
        };
        let position =
            |found: &Image| images.iter().position(|it| std::ptr::eq(it, found)).unwrap();
        Ok(variant.images_for(device, driver)?.into_iter().map(position).collect())
    }

    static IMAGES: [Image; 4] = [
        image(9, 0, true, Format::Cubin),
        image(8, 6, false, Format::Cubin),
        image(9, 0, true, Format::Ptx((8, 0))),
        image(8, 0, false, Format::Ptx((8, 8))),
    ];

    #[test]
    fn a_device_gets_the_images_it_can_run_in_order() {
        let tried = |major, minor| tried(&IMAGES, device(major, minor), (9, 0));
        assert_eq!(tried(9, 0), Ok(vec![0, 2, 3]));
        assert_eq!(tried(8, 6), Ok(vec![1, 3]));
        assert_eq!(tried(8, 9), Ok(vec![1, 3]));
        assert_eq!(tried(8, 0), Ok(vec![3]), "code for 8.6 does not run on 8.0");
        assert_eq!(tried(12, 0), Ok(vec![3]));
        assert_eq!(tried(7, 5), Err(Misfit::Arch));
    }

    #[test]
    fn ptx_is_for_drivers_that_know_its_version() {
        assert_eq!(tried(&IMAGES, device(12, 0), (8, 7)), Err(Misfit::PtxTooNew((8, 8))));
        assert_eq!(tried(&IMAGES, device(12, 0), (8, 8)), Ok(vec![3]));
        assert_eq!(tried(&IMAGES, device(8, 9), (7, 0)), Ok(vec![1]), "cubins need no compiler");
    }

    #[test]
    fn drivers_know_the_ptx_of_their_time() {
        let versions = [11040, 12000, 12050, 12060, 12080, 12090, 13000, 13020, 14010];
        let ptx = [(7, 4), (8, 0), (8, 5), (8, 5), (8, 7), (8, 8), (9, 0), (9, 2), (10, 1)];
        assert_eq!(versions.map(ptx_of_driver), ptx);
    }

    #[test]
    fn architectures_have_their_usual_names() {
        assert_eq!(device(9, 0).to_string(), "sm_90a");
        assert_eq!(device(8, 6).to_string(), "sm_86");
        assert_eq!(Arch { major: 12, minor: 0, exact: false }.to_string(), "sm_120");
    }
}
