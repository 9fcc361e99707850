//! Tensor maps (TMA descriptors) of tensors in global memory.

use crate::memory::{Buffer, Memory};

/// The swizzle of a copy's 16-byte chunks in shared memory, so that columns are read without bank
/// conflicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Swizzle {
    /// Not at all.
    #[default]
    None,
    /// Within 32 bytes.
    Bytes32,
    /// Within 64 bytes.
    Bytes64,
    /// Within 128 bytes.
    Bytes128,
}

impl Swizzle {
    /// Returns the swizzled address of a byte: higher bits of the address are added to those that
    /// count 16-byte chunks.
    #[must_use]
    pub fn apply(self, address: u32) -> u32 {
        let mask = match self {
            Self::None => 0,
            Self::Bytes32 => 0x10,
            Self::Bytes64 => 0x30,
            Self::Bytes128 => 0x70,
        };
        address ^ (address >> 3 & mask)
    }

    /// The widest row of a box, if it is limited.
    fn row_bytes(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Bytes32 => Some(32),
            Self::Bytes64 => Some(64),
            Self::Bytes128 => Some(128),
        }
    }
}

/// The element of a tensor, as far as copies that add or round need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// Half precision.
    F16,
    /// Half precision with the exponent of single precision.
    Bf16,
    /// Single precision.
    F32,
    /// Single precision, rounded on its way to shared memory, to the nearest that has 10 bits of
    /// mantissa, to the even one of two.
    Tf32,
    /// Double precision.
    F64,
}

impl Element {
    /// Returns the element with a number of `CUtensorMapDataType`, if it is known here.
    #[must_use]
    pub fn of_driver(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::U8,
            1 => Self::U16,
            2 => Self::U32,
            3 => Self::I32,
            4 => Self::U64,
            5 => Self::I64,
            6 => Self::F16,
            7 => Self::F32,
            8 => Self::F64,
            9 => Self::Bf16,
            11 => Self::Tf32,
            _ => return None,
        })
    }

    /// Returns the bytes of an element.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 | Self::Tf32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// A tensor and the box that one copy moves; dimensions are listed from the innermost.
///
/// Elements outside of the tensor read as zero and are not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// The buffer, and bytes from its start.
    pub base: (Buffer, u64),
    /// Of the tensor.
    pub element: Element,
    /// Elements in each of up to five dimensions.
    pub dims: Vec<u64>,
    /// Bytes from one element to the next, of every dimension but the innermost.
    pub strides: Vec<u64>,
    /// Elements of a box in each dimension.
    pub box_dims: Vec<u32>,
    /// Traversal strides: one of so many elements is copied, in each dimension.
    pub element_strides: Vec<u32>,
    /// The swizzle of the box in shared memory.
    pub swizzle: Swizzle,
}

impl TensorMap {
    /// Size of the parameter.
    pub(crate) const BYTES: usize = 128;

    /// A row-major tensor whose elements lie without gaps: `dims` and `box_dims` from the
    /// innermost dimension.
    #[must_use]
    pub fn dense(buffer: Buffer, element: Element, dims: &[u64], box_dims: &[u32]) -> Self {
        let mut strides = Vec::new();
        let mut bytes = u64::from(element.bytes());
        for extent in &dims[..dims.len().saturating_sub(1)] {
            bytes *= extent;
            strides.push(bytes);
        }
        Self {
            base: (buffer, 0),
            element,
            dims: dims.to_vec(),
            strides,
            box_dims: box_dims.to_vec(),
            element_strides: vec![1; dims.len()],
            swizzle: Swizzle::None,
        }
    }

    /// Returns this map with a swizzle.
    #[must_use]
    pub fn swizzled(mut self, swizzle: Swizzle) -> Self {
        self.swizzle = swizzle;
        self
    }

    /// Elements that one copy moves in each dimension.
    pub(crate) fn extent(&self, dimension: usize) -> u32 {
        self.box_dims[dimension].div_ceil(self.element_strides[dimension])
    }

    /// Bytes that one copy moves, those outside of the tensor included.
    #[must_use]
    pub fn box_bytes(&self) -> u32 {
        (0..self.dims.len()).map(|it| self.extent(it)).product::<u32>() * self.element.bytes()
    }

    /// Returns the contiguous pieces of a box that are inside the tensor, row by row.
    pub(crate) fn pieces(&self, at: &[i32]) -> Vec<Piece> {
        let rank = self.dims.len();
        let size = u64::from(self.element.bytes());
        let (n_rows, row_bytes) =
            ((1..rank).map(|it| self.extent(it)).product::<u32>(), self.extent(0) * size as u32);
        let inside = |dimension: usize, n: u32| {
            let step = i64::from(self.element_strides[dimension]);
            let index = i64::from(at[dimension]) + i64::from(n) * step;
            u64::try_from(index).ok().filter(|it| *it < self.dims[dimension])
        };
        let mut found: Vec<Piece> = Vec::new();
        for row in 0..n_rows {
            let (mut left, mut global, mut outside) = (row, self.base.1, false);
            for dimension in 1..rank {
                let extent = self.extent(dimension);
                match inside(dimension, left % extent) {
                    Some(index) => global += index * self.strides[dimension - 1],
                    None => outside = true,
                }
                left /= extent;
            }
            if outside {
                continue;
            }
            for n in 0..self.extent(0) {
                let Some(index) = inside(0, n) else { continue };
                let piece = Piece {
                    shared: row * row_bytes + n * size as u32,
                    global: global + index * size,
                    bytes: size as u32,
                };
                match found.last_mut() {
                    Some(last) if last.is_before(&piece) => last.bytes += piece.bytes,
                    _ => found.push(piece),
                }
            }
        }
        found
    }

    /// Checks the map as the driver does.
    pub(crate) fn check(&self, memory: &Memory) -> Result<(), String> {
        let rank = self.dims.len();
        let lengths = [self.strides.len() + 1, self.box_dims.len(), self.element_strides.len()];
        if !(1..=5).contains(&rank) || lengths.iter().any(|it| *it != rank) {
            return Err(format!("a tensor map of {rank} dimensions with lists of {lengths:?}"));
        }
        if let Some(bad) = self.strides.iter().find(|it| !it.is_multiple_of(16) || **it >= 1 << 40)
        {
            return Err(format!("a stride of {bad} bytes; it must be a multiple of 16"));
        }
        if let Some(bad) = self.box_dims.iter().find(|it| **it == 0 || **it > 256) {
            return Err(format!("a box of {bad}; 1 to 256 are possible"));
        }
        if let Some(bad) = self.element_strides.iter().find(|it| **it == 0 || **it > 8) {
            return Err(format!("an element stride of {bad}; 1 to 8 are possible"));
        }
        if let Some(bad) = self.dims.iter().find(|it| **it == 0 || **it > 1 << 32) {
            return Err(format!("a dimension of {bad}"));
        }
        let address = memory.address(self.base.0) + self.base.1;
        if !address.is_multiple_of(16) {
            return Err("a tensor that does not begin at a multiple of 16 bytes".to_owned());
        }
        let last =
            self.dims[1..].iter().zip(&self.strides).map(|(extent, stride)| (extent - 1) * stride);
        let end = self.base.1 + last.sum::<u64>() + self.dims[0] * u64::from(self.element.bytes());
        let size = memory.bytes(self.base.0).len() as u64;
        if end > size {
            return Err(format!("a tensor that ends at byte {end} of {size}"));
        }
        let row = self.extent(0) * self.element.bytes();
        if !row.is_multiple_of(16) {
            return Err(format!("box rows of {row} bytes; they must be a multiple of 16"));
        }
        match self.swizzle.row_bytes() {
            Some(most) if row > most => {
                Err(format!("box rows of {row} bytes; the swizzle allows {most}"))
            }
            // Nobody says where a device puts the rows then.
            Some(span) if row < span => {
                Err(format!("box rows of {row} bytes, narrower than the swizzle of {span}"))
            }
            _ => Ok(()),
        }
    }
}

/// Bytes of a box that are next to each other on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// From the start of the box, before any swizzle.
    pub(crate) shared: u32,
    /// From the start of the buffer.
    pub(crate) global: u64,
    pub(crate) bytes: u32,
}

impl Piece {
    fn is_before(&self, next: &Self) -> bool {
        self.shared + self.bytes == next.shared
            && self.global + u64::from(self.bytes) == next.global
    }
}
