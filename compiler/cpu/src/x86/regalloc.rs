//! Which interval lives in which register, and which in the frame.
//!
//! In: [`Code`]. Out: the code, changed where vectors had to move to the frame, and an
//! [`Assignment`]. Next: [`super::emit`].
//!
//! Integers and masks in the frame need no change of the code: the emitter moves them through
//! registers that are set aside. There are none to spare among vectors, so instructions are
//! rewritten ([`super::spill`]) and allocation starts over, until everything fits.
//!
//! # Source
//!
//! Linear scan (Poletto and Sarkar, 1999), which gives up the interval that is used least; here by
//! guessed uses, not by its end.

use super::inst::{Class, Code, Inst, Operand, Virt};
use super::liveness::{Interval, intervals};
use super::registers::RegisterFile;
use super::spill;
use super::stack::Slots;

/// Where an interval lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// A register of its class, counted from 0 among those to be had.
    Register(u8),
    /// So many bytes into the part of the frame for spilled integers and masks.
    Frame(u32),
}

/// An interval and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub virt: Virt,
    pub start: u32,
    pub location: Location,
}

/// Places for everything, by start.
pub(super) struct Assignment {
    pub placed: Vec<Placed>,
    /// Bytes for spilled integers and masks.
    pub frame_bytes: u32,
    /// Vectors that moved to the frame.
    pub spills: u32,
}

/// Allocates registers; changes the code until its vectors fit.
pub(super) fn allocate(code: &mut Code, file: RegisterFile, vector_bytes: u32) -> Assignment {
    let mut spills = 0;
    // Registers made by spilling are needed for one instruction only: spilling them again would
    // not help.
    let spillable = code.classes.len() as u32;
    loop {
        let intervals = intervals(code);
        let mut scan = Scan::new(code, file, spillable);
        for (at, interval) in intervals.iter().enumerate() {
            scan.place(&intervals, at, interval);
        }
        let spilled: Vec<Interval> = (intervals.iter().zip(&scan.places))
            .filter(|(it, place)| {
                place.is_none() && code.classes[it.virt.0 as usize] == Class::Vector
            })
            .map(|(it, _)| *it)
            .collect();
        if spilled.is_empty() {
            return finish(code, &intervals, &scan.places, spills);
        }
        spills += spilled.len() as u32;
        spill::rewrite(code, &spilled, vector_bytes);
    }
}

fn finish(code: &Code, intervals: &[Interval], places: &[Option<u8>], spills: u32) -> Assignment {
    let mut slots = Slots::default();
    let mut placed = Vec::with_capacity(intervals.len());
    for (interval, place) in intervals.iter().zip(places) {
        let location = match place {
            Some(register) => Location::Register(*register),
            None => Location::Frame(slots.take(interval) * 8),
        };
        placed.push(Placed { virt: interval.virt, start: interval.start, location });
    }
    debug_assert_eq!(intervals.len(), places.len(), "of {} registers", code.classes.len());
    Assignment { placed, frame_bytes: slots.len() * 8, spills }
}

struct Scan<'a> {
    code: &'a Code,
    spillable: u32,
    /// For each class, which interval each register holds.
    files: [Vec<Option<usize>>; 3],
    /// For each interval so far, its register; `None` is the frame.
    places: Vec<Option<u8>>,
    /// The place each virtual register had last.
    latest: Vec<Option<u8>>,
}

impl<'a> Scan<'a> {
    fn new(code: &'a Code, file: RegisterFile, spillable: u32) -> Self {
        let sizes = [file.vectors, file.masks, file.ints];
        let files = sizes.map(|it| vec![None; it]);
        Self { code, spillable, files, places: Vec::new(), latest: vec![None; code.classes.len()] }
    }

    fn place(&mut self, intervals: &[Interval], at: usize, interval: &Interval) {
        let class = self.code.classes[interval.virt.0 as usize] as usize;
        for held in &mut self.files[class] {
            if held.is_some_and(|it| intervals[it].end < interval.start) {
                *held = None;
            }
        }
        let place = self.free(class, interval).or_else(|| self.evict(intervals, class, interval));
        self.places.push(place);
        self.latest[interval.virt.0 as usize] = place;
        if let Some(register) = place {
            self.files[class][register as usize] = Some(at);
        }
    }

    /// A register that is free, of a source if one is: an addend that the target replaces, or
    /// what is copied.
    fn free(&self, class: usize, interval: &Interval) -> Option<u8> {
        let file = &self.files[class];
        let is_free = |it: &u8| file[*it as usize].is_none();
        let hints = hints(&self.code.insts[interval.start as usize / 2]);
        let hint = hints.into_iter().flatten().find_map(|it| {
            let same_class = self.code.classes[it.0 as usize] as usize == class;
            self.latest[it.0 as usize].filter(|it| same_class && is_free(it))
        });
        hint.or_else(|| (0..file.len() as u8).find(is_free))
    }

    /// Frees the register of the interval that is used least, if that is not the new one.
    fn evict(&mut self, intervals: &[Interval], class: usize, new: &Interval) -> Option<u8> {
        // Vectors come back through registers, so those made for that must have one. Integers and
        // masks come back through the emitter's own.
        let is_vector = class == Class::Vector as usize;
        let is_short = |it: &Interval| it.virt.0 >= self.spillable || it.end <= it.start + 1;
        let can_spill = |it: &Interval| !is_vector || !is_short(it);
        let cost = |it: &Interval| (it.weight, std::cmp::Reverse(it.end));
        let held = self.files[class].iter().enumerate();
        let cheapest = held
            .filter_map(|(register, it)| Some((register as u8, (*it)?)))
            .filter(|(_, it)| can_spill(&intervals[*it]))
            .min_by(|a, b| {
                let (a, b) = (cost(&intervals[a.1]), cost(&intervals[b.1]));
                a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
            });
        let (register, victim) = match cheapest {
            Some(it) if !can_spill(new) || cost(&intervals[it.1]) < cost(new) => it,
            Some(_) => return None,
            None if can_spill(new) => return None,
            None => unreachable!("an instruction needs more registers than there are"),
        };
        self.places[victim] = None;
        Some(register)
    }
}

/// Registers that the target of an instruction would best share, most wanted first.
fn hints(inst: &Inst) -> [Option<Virt>; 3] {
    let register = |it: &Operand| if let Operand::Reg(virt) = it { Some(*virt) } else { None };
    match inst {
        Inst::Fma { a, b, c, .. } => [register(c), register(a), register(b)],
        Inst::Vector(it) => [it.dst.filter(|_| it.updates), it.a, it.b.as_ref().and_then(register)],
        Inst::Copy { src: super::inst::IntOperand::Reg(src), .. } => [Some(*src), None, None],
        _ => [None; 3],
    }
}
