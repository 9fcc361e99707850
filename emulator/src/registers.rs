//! The registers of a warp: a row of 32 lanes each, and what it takes to compute on rows.
//!
//! A register is a row of 32-bit words or of 64-bit ones; 16-bit registers live in words.
//! Predicates are masks, a bit for each lane. Constants and special registers are rows as well, so
//! that an instruction never asks where an operand comes from.

use half::{bf16, f16};

/// Threads of a warp.
pub(crate) const LANES: usize = 32;

/// All lanes of a warp.
pub(crate) const FULL: u32 = u32::MAX;

/// Returns the lanes of a mask for which something holds.
pub(crate) fn lanes_where(mask: u32, holds: impl Fn(usize) -> bool) -> u32 {
    lanes(mask).filter(|it| holds(*it)).fold(0, |all, it| all | 1 << it)
}

/// Divides the lanes of a mask by a key that each of them has.
pub(crate) fn lanes_by_key<K: PartialEq>(
    mask: u32,
    key: impl Fn(usize) -> K,
) -> impl Iterator<Item = (K, u32)> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let common = key((left != 0).then(|| first_lane(left))?);
        let same = lanes_where(left, |it| key(it) == common);
        left &= !same;
        Some((common, same))
    })
}

/// Returns the first lane of a non-empty mask.
pub(crate) fn first_lane(mask: u32) -> usize {
    mask.trailing_zeros() as usize
}

/// The numbers of the lanes in a mask.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let lane = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}

/// The register file of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// One bit for each lane.
    Predicate,
    /// 16 or 32 bits for each lane.
    Word,
    /// 64 bits for each lane.
    Double,
}

/// The row of a register within its file.
pub(crate) type Slot = u32;

/// A register of any file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    pub(crate) class: Class,
    pub(crate) slot: Slot,
}

/// The register files of one warp.
#[derive(Clone, Default)]
pub(crate) struct Registers {
    pub(crate) predicates: Vec<u32>,
    pub(crate) words: Vec<[u32; LANES]>,
    pub(crate) doubles: Vec<[u64; LANES]>,
}

impl Registers {
    /// The lanes for which a predicate holds.
    pub(crate) fn predicate(&self, slot: Slot) -> u32 {
        self.predicates[slot as usize]
    }

    /// Sets the lanes of `mask` in a predicate to those of `value`.
    pub(crate) fn set_predicate(&mut self, slot: Slot, mask: u32, value: u32) {
        let row = &mut self.predicates[slot as usize];
        *row = *row & !mask | value & mask;
    }

    /// Returns one lane of a register of numbers.
    pub(crate) fn get(&self, from: Register, lane: usize) -> u64 {
        match from.class {
            Class::Double => self.doubles[from.slot as usize][lane],
            _ => u64::from(self.words[from.slot as usize][lane]),
        }
    }

    /// Sets one lane of a register of numbers.
    pub(crate) fn set(&mut self, to: Register, lane: usize, value: u64) {
        match to.class {
            Class::Double => self.doubles[to.slot as usize][lane] = value,
            _ => self.words[to.slot as usize][lane] = value as u32,
        }
    }

    /// Sets the lanes of `mask` in any register: numbers, or whether they are not 0.
    pub(crate) fn set_lanes(&mut self, to: Register, mask: u32, values: &[u64; LANES]) {
        match to.class {
            Class::Predicate => {
                self.set_predicate(to.slot, mask, lanes_where(mask, |it| values[it] != 0));
            }
            Class::Word => self.write::<u32>(to.slot, mask, &values.map(|it| it as u32)),
            Class::Double => self.write::<u64>(to.slot, mask, values),
        }
    }

    /// Writes the lanes of `mask`.
    pub(crate) fn write<T: Lane>(&mut self, slot: Slot, mask: u32, values: &[T::Raw; LANES]) {
        let row = T::row_mut(self, slot);
        if mask == FULL {
            *row = *values;
            return;
        }
        for (lane, (to, from)) in row.iter_mut().zip(values).enumerate() {
            if mask >> lane & 1 == 1 {
                *to = *from;
            }
        }
    }
}

/// A type that the lanes of a row can be read as.
pub(crate) trait Lane: Copy + 'static {
    /// The bits of a lane.
    type Raw: Copy + Default;
    /// The file of such rows.
    const CLASS: Class;
    /// The row of a register.
    fn row(registers: &Registers, slot: Slot) -> &[Self::Raw; LANES];
    /// The row of a register, to be changed.
    fn row_mut(registers: &mut Registers, slot: Slot) -> &mut [Self::Raw; LANES];
    /// A value from its bits.
    fn of(raw: Self::Raw) -> Self;
    /// The bits of a value.
    fn raw(self) -> Self::Raw;
}

macro_rules! lane {
    ($type:ty, $raw:ty, $class:ident, $file:ident, $of:expr, $into:expr) => {
        impl Lane for $type {
            type Raw = $raw;
            const CLASS: Class = Class::$class;
            fn row(registers: &Registers, slot: Slot) -> &[$raw; LANES] {
                &registers.$file[slot as usize]
            }
            fn row_mut(registers: &mut Registers, slot: Slot) -> &mut [$raw; LANES] {
                &mut registers.$file[slot as usize]
            }
            #[inline(always)]
            fn of(raw: $raw) -> Self {
                $of(raw)
            }
            #[inline(always)]
            fn raw(self) -> $raw {
                $into(self)
            }
        }
    };
}

/// Two 16-bit floats in one word, the first in the low half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair<T>(pub(crate) T, pub(crate) T);

fn halves(word: u32) -> (u16, u16) {
    (word as u16, (word >> 16) as u16)
}

fn join(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

lane!(u32, u32, Word, words, |it| it, |it| it);
lane!(i32, u32, Word, words, |it| it as i32, |it| it as u32);
lane!(u16, u32, Word, words, |it| it as u16, u32::from);
lane!(i16, u32, Word, words, |it| it as i16, |it| u32::from(it as u16));
lane!(f32, u32, Word, words, f32::from_bits, f32::to_bits);
lane!(f16, u32, Word, words, |it| f16::from_bits(it as u16), |it: f16| u32::from(it.to_bits()));
lane!(bf16, u32, Word, words, |it| bf16::from_bits(it as u16), |it: bf16| u32::from(it.to_bits()));
lane!(
    Pair<f16>,
    u32,
    Word,
    words,
    |it| {
        let (low, high) = halves(it);
        Pair(f16::from_bits(low), f16::from_bits(high))
    },
    |it: Pair<f16>| join(it.0.to_bits(), it.1.to_bits())
);
lane!(
    Pair<bf16>,
    u32,
    Word,
    words,
    |it| {
        let (low, high) = halves(it);
        Pair(bf16::from_bits(low), bf16::from_bits(high))
    },
    |it: Pair<bf16>| join(it.0.to_bits(), it.1.to_bits())
);
lane!(u64, u64, Double, doubles, |it| it, |it| it);
lane!(i64, u64, Double, doubles, |it| it as i64, |it| it as u64);
lane!(f64, u64, Double, doubles, f64::from_bits, f64::to_bits);

/// A lane-wise instruction: a function of the active lanes and the rows of its operands,
/// the destination first.
pub(crate) type Lanewise = Box<dyn Fn(&mut Registers, u32, &[Slot; 5]) + Send + Sync>;

/// The lanes for which something holds of two rows.
pub(crate) type Relation = Box<dyn Fn(&Registers, Slot, Slot) -> u32 + Send + Sync>;

/// One operand to one result.
pub(crate) fn unary<A: Lane, R: Lane>(f: impl Fn(A) -> R + Send + Sync + 'static) -> Lanewise {
    Box::new(move |registers, mask, slots| {
        let a = A::row(registers, slots[1]);
        let mut out = [R::Raw::default(); LANES];
        for (out, a) in out.iter_mut().zip(a) {
            *out = f(A::of(*a)).raw();
        }
        registers.write::<R>(slots[0], mask, &out);
    })
}

/// Two operands to one result.
pub(crate) fn binary<A: Lane, B: Lane, R: Lane>(
    f: impl Fn(A, B) -> R + Send + Sync + 'static,
) -> Lanewise {
    Box::new(move |registers, mask, slots| {
        let (a, b) = (A::row(registers, slots[1]), B::row(registers, slots[2]));
        let mut out = [R::Raw::default(); LANES];
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out = f(A::of(*a), B::of(*b)).raw();
        }
        registers.write::<R>(slots[0], mask, &out);
    })
}

/// Three operands to one result.
pub(crate) fn ternary<A: Lane, B: Lane, C: Lane, R: Lane>(
    f: impl Fn(A, B, C) -> R + Send + Sync + 'static,
) -> Lanewise {
    Box::new(move |registers, mask, slots| {
        let (a, b, c) =
            (A::row(registers, slots[1]), B::row(registers, slots[2]), C::row(registers, slots[3]));
        let mut out = [R::Raw::default(); LANES];
        for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
            *out = f(A::of(*a), B::of(*b), C::of(*c)).raw();
        }
        registers.write::<R>(slots[0], mask, &out);
    })
}

/// Four operands to one result.
pub(crate) fn quaternary<A: Lane, B: Lane, C: Lane, D: Lane, R: Lane>(
    f: impl Fn(A, B, C, D) -> R + Send + Sync + 'static,
) -> Lanewise {
    Box::new(move |registers, mask, slots| {
        let (a, b) = (A::row(registers, slots[1]), B::row(registers, slots[2]));
        let (c, d) = (C::row(registers, slots[3]), D::row(registers, slots[4]));
        let mut out = [R::Raw::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(A::of(a[lane]), B::of(b[lane]), C::of(c[lane]), D::of(d[lane])).raw();
        }
        registers.write::<R>(slots[0], mask, &out);
    })
}

/// `b` where the predicate in slot 3 holds, else `c`.
pub(crate) fn select<A: Lane>() -> Lanewise {
    Box::new(move |registers, mask, slots| {
        let chosen = registers.predicate(slots[3]);
        let (a, b) = (A::row(registers, slots[1]), A::row(registers, slots[2]));
        let mut out = [A::Raw::default(); LANES];
        for lane in 0..LANES {
            out[lane] = if chosen >> lane & 1 == 1 { a[lane] } else { b[lane] };
        }
        registers.write::<A>(slots[0], mask, &out);
    })
}

/// The lanes for which a relation of two rows holds.
pub(crate) fn relation<A: Lane, B: Lane>(
    f: impl Fn(A, B) -> bool + Send + Sync + 'static,
) -> Relation {
    Box::new(move |registers, a, b| {
        let (a, b) = (A::row(registers, a), B::row(registers, b));
        let mut holds = 0;
        for lane in 0..LANES {
            holds |= u32::from(f(A::of(a[lane]), B::of(b[lane]))) << lane;
        }
        holds
    })
}
