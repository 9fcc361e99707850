//! Evaluation of vector expressions.

use crate::vector::{
    Address, Count, EntryId, LaneStride, Linear, Mask, Reg, ScalarBits, Storage, Value,
    VectorBinary, VectorCompare, VectorUnary, int_bits,
};

use super::FaultKind;
use super::memory::EntryValue;
use super::task::{Task, Vector};
use tvmtune_math::lane::{self, Width};
use tvmtune_math::lane64;

/// Reads a truth value; anything but all bits or none is a fault.
pub(super) fn is_true(bits: u64, width: Width) -> Result<bool, FaultKind> {
    match bits {
        lane64::FALSE => Ok(false),
        bits if bits == truth(true, width) => Ok(true),
        _ => Err(FaultKind::NotATruthValue { bits }),
    }
}

/// Makes a truth value.
pub(super) fn truth(holds: bool, width: Width) -> u64 {
    match width {
        Width::Bits32 => lane::truth(holds).into(),
        Width::Bits64 => lane64::truth(holds),
    }
}

fn unary(width: Width, op: VectorUnary, x: u64) -> u64 {
    match width {
        Width::Bits32 => lane::unary(op, x as u32).into(),
        Width::Bits64 => lane64::unary(op, x),
    }
}

fn binary(width: Width, op: VectorBinary, x: u64, y: u64) -> u64 {
    match width {
        Width::Bits32 => lane::binary(op, x as u32, y as u32).into(),
        Width::Bits64 => lane64::binary(op, x, y),
    }
}

fn fma(width: Width, x: u64, y: u64, z: u64) -> u64 {
    match width {
        Width::Bits32 => lane::fma(x as u32, y as u32, z as u32).into(),
        Width::Bits64 => lane64::fma(x, y, z),
    }
}

fn compare(width: Width, op: VectorCompare, x: u64, y: u64) -> u64 {
    match width {
        Width::Bits32 => lane::compare(op, x as u32, y as u32).into(),
        Width::Bits64 => lane64::compare(op, x, y),
    }
}

/// Returns the integer of a lane.
fn integer(width: Width, bits: u64) -> i64 {
    match width {
        Width::Bits32 => (bits as u32).cast_signed().into(),
        Width::Bits64 => bits.cast_signed(),
    }
}

impl Task<'_, '_> {
    /// Reads a parameter of the table.
    pub(super) fn param(&self, entry: EntryId) -> Result<i64, FaultKind> {
        match self.memory.cell(entry.0) {
            Some(EntryValue::Integer(value)) => Ok(*value),
            _ => Err(FaultKind::WrongEntry { entry }),
        }
    }

    pub(super) fn count(&self, count: Count) -> Result<i64, FaultKind> {
        match count {
            Count::Const(value) => Ok(value),
            Count::Param(entry) => self.param(entry),
        }
    }

    pub(super) fn linear(&self, linear: &Linear) -> Result<i64, FaultKind> {
        let mut sum = linear.constant;
        if let Some(entry) = linear.param {
            sum += self.param(entry)?;
        }
        for (var, stride) in &linear.strides {
            let value = self.var(*var).ok_or(FaultKind::NoValue { var: *var })?;
            sum += value * self.count(*stride)?;
        }
        Ok(sum)
    }

    fn read(&self, reg: Reg) -> Result<Vector, FaultKind> {
        self.regs.get(reg.0 as usize).copied().flatten().ok_or(FaultKind::Unassigned { reg })
    }

    /// Returns the active lanes as a bit mask.
    pub(super) fn mask(&mut self, mask: Option<&Mask>) -> Result<u32, FaultKind> {
        let all = (1 << self.lanes) - 1;
        match mask {
            None => Ok(all),
            Some(Mask::First(count)) => {
                let n = self.count(*count)?;
                if !(0..=self.lanes as i64).contains(&n) {
                    return Err(FaultKind::MaskTooLong { lanes: n });
                }
                Ok((1 << n) - 1)
            }
            Some(Mask::Where(value)) => self.lanes_of(value),
        }
    }

    /// Returns the lanes in which a truth value is true as a bit mask.
    pub(super) fn lanes_of(&mut self, truth: &Value) -> Result<u32, FaultKind> {
        let value = self.value(truth)?;
        let mut bits = 0;
        for (lane, word) in value.iter().enumerate().take(self.lanes) {
            bits |= u32::from(is_true(*word, self.width)?) << lane;
        }
        Ok(bits)
    }

    /// Returns the offset of each lane's element from the base, in bytes.
    pub(super) fn lane_offsets(
        &self,
        address: &Address,
        lanes: LaneStride,
        storage: Storage,
    ) -> Result<[i64; 16], FaultKind> {
        let step = match lanes {
            LaneStride::Uniform => 0,
            LaneStride::Contiguous => storage.bytes(),
            LaneStride::Strided(count) => self.count(count)?,
        };
        let reach = step.checked_mul(self.lanes as i64).and_then(|it| i32::try_from(it).ok());
        if reach.is_none() {
            return Err(FaultKind::TooFar { step });
        }
        let start = self.linear(&address.offset)?;
        Ok(std::array::from_fn(|lane| start + lane as i64 * step))
    }

    pub(super) fn load(
        &mut self,
        address: &Address,
        lane_offsets: &[i64; 16],
        storage: Storage,
        active: u32,
    ) -> Result<Vector, FaultKind> {
        let mut result = [0; 16];
        for lane in (0..self.lanes).filter(|it| active >> it & 1 == 1) {
            result[lane] = self.memory.load(address.base, lane_offsets[lane], storage)?;
        }
        Ok(result)
    }

    fn gather(
        &mut self,
        address: &Address,
        index: &Value,
        mask: Option<&Mask>,
    ) -> Result<Vector, FaultKind> {
        let index = self.value(index)?;
        let active = self.mask(mask)?;
        let start = self.linear(&address.offset)?;
        let storage = Storage::of_lanes(self.width);
        let place = |lane: usize| start + integer(self.width, index[lane]) * storage.bytes();
        let places = std::array::from_fn(place);
        self.load(address, &places, storage, active)
    }

    /// Reduces over lanes by a butterfly: lane `n` with lane `n ^ step`, for steps of half the width
    /// down to 1, in the order of machine code.
    fn reduce(&self, op: VectorBinary, mut value: Vector) -> Vector {
        let mut step = self.lanes / 2;
        while step > 0 {
            let old = value;
            for lane in 0..self.lanes {
                value[lane] = binary(self.width, op, old[lane], old[lane ^ step]);
            }
            step /= 2;
        }
        value
    }

    pub(super) fn value(&mut self, value: &Value) -> Result<Vector, FaultKind> {
        Ok(match value {
            Value::Splat(bits) => [*bits; 16],
            Value::Scalar(entry, part) => match (self.memory.cell(entry.0), part) {
                (Some(EntryValue::Bits(bits)), ScalarBits::Low) => match self.width {
                    Width::Bits32 => [*bits & u64::from(u32::MAX); 16],
                    Width::Bits64 => [*bits; 16],
                },
                (Some(EntryValue::Bits(bits)), ScalarBits::HighWord) => [*bits >> 32; 16],
                _ => return Err(FaultKind::WrongEntry { entry: *entry }),
            },
            Value::Lanes(bits) => {
                std::array::from_fn(|lane| truth(bits >> lane & 1 == 1, self.width))
            }
            Value::Reg(reg) => self.read(*reg)?,
            Value::Load { address, lanes, storage, mask } => {
                let active = self.mask(mask.as_ref())?;
                let lane_offsets = self.lane_offsets(address, *lanes, *storage)?;
                self.load(address, &lane_offsets, *storage, active)?
            }
            Value::Gather { address, index, storage, mask }
                if *storage == Storage::of_lanes(self.width) =>
            {
                self.gather(address, index, mask.as_ref())?
            }
            Value::Gather { storage, .. } => {
                return Err(FaultKind::NoSuchGather { storage: *storage });
            }
            Value::LoadAt { lanes: LaneStride::Strided(_), storage, .. } => {
                return Err(FaultKind::NoSuchGather { storage: *storage });
            }
            Value::LoadAt { address, index, lanes, storage, mask } => {
                let index = integer(self.width, self.value(index)?[0]);
                let active = self.mask(mask.as_ref())?;
                let lane_offsets = self.lane_offsets(address, *lanes, *storage)?;
                let lane_offsets = lane_offsets.map(|it| it + index * storage.bytes());
                self.load(address, &lane_offsets, *storage, active)?
            }
            Value::Index { base, step } => {
                let base = self.linear(base)?;
                std::array::from_fn(|lane| {
                    int_bits(base + lane as i64 * i64::from(*step), self.width)
                })
            }
            Value::Unary(op, x) => self.value(x)?.map(|it| unary(self.width, *op, it)),
            Value::Binary(op, x, y) => {
                let (x, y) = (self.value(x)?, self.value(y)?);
                std::array::from_fn(|lane| binary(self.width, *op, x[lane], y[lane]))
            }
            Value::Fma(a, b, c) => {
                let (a, b, c) = (self.value(a)?, self.value(b)?, self.value(c)?);
                std::array::from_fn(|lane| fma(self.width, a[lane], b[lane], c[lane]))
            }
            Value::Compare(op, x, y) => {
                let (x, y) = (self.value(x)?, self.value(y)?);
                std::array::from_fn(|lane| compare(self.width, *op, x[lane], y[lane]))
            }
            Value::Select { condition, then, otherwise } => {
                let active = self.mask(Some(&Mask::Where(condition.clone())))?;
                let (then, otherwise) = (self.value(then)?, self.value(otherwise)?);
                let pick = |lane: usize| active >> lane & 1 == 1;
                std::array::from_fn(|it| if pick(it) { then[it] } else { otherwise[it] })
            }
            Value::Reduce(op, x) => {
                let x = self.value(x)?;
                self.reduce(*op, x)
            }
        })
    }
}
