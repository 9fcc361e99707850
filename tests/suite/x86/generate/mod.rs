//! Random vector code of every construct; all offsets are nonnegative.
//!
//! Choices come from a tape of numbers, so that proptest shrinks a kernel by shortening it and by
//! making numbers smaller; 0 is always the simplest choice.
//!
//! Values have a kind. The bits of floats never become integers unless a minimum has removed NaNs
//! first: which of two NaNs an operation passes on is not specified.

mod bytes;
mod runs;
mod values;

use tvmtune_cpu::vector::{
    Address, Base, Count, DivOp, EntryId, LaneStride, Linear, Mask, Phase, Reg, Simd, Stmt,
    Storage, TableEntry, Value, VectorCode, Width,
};
use tvmtune_ir::dag::{DType, ScalarId, TensorId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::Threads;

/// Vector code with its inputs.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub kernel: VectorCode,
    /// Bits of the scalars.
    pub scalars: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Float,
    Int,
    Truth,
}

/// The buffers, in the order of the table; elements of one kind in each.
type Buffers = [(Storage, bool); 8];

const OF_32_BITS: Buffers = [
    (Storage::Word, true),
    (Storage::Word, false),
    (Storage::F16, true),
    (Storage::Bf16, true),
    (Storage::I8, false),
    (Storage::U8, false),
    (Storage::Bool, false),
    (Storage::Word, true), // shared by tasks
];

const OF_64_BITS: Buffers = [
    (Storage::Long, true),
    (Storage::Long, false),
    (Storage::F32, true),
    (Storage::F32, true),
    (Storage::I8, false),
    (Storage::U8, false),
    (Storage::Bool, false),
    (Storage::Long, true), // shared by tasks
];

/// Returns the buffers of a kernel in lanes of a width.
pub(super) fn buffers(width: Width) -> &'static Buffers {
    match width {
        Width::Bits32 => &OF_32_BITS,
        Width::Bits64 => &OF_64_BITS,
    }
}

/// Bytes of scratch memory, floats; a task writes all of it first.
const SCRATCH: i64 = 512;

/// The kinds of parameters, with the range of their values. Offsets and steps are times the bytes of a lane:
/// floats are aligned, lest half a NaN be overwritten.
const COUNTS: [i64; 2] = [0, 4];
const OFFSETS: [i64; 2] = [0, 22];
const STEPS: [i64; 2] = [1, 10];
const DIVISORS: [i64; 2] = [1, 9];
const N_PARAMS: u32 = 3;

struct Tape<'a>(std::slice::Iter<'a, u32>);

impl Tape<'_> {
    fn below(&mut self, n: u32) -> u32 {
        self.0.next().copied().unwrap_or(0) % n
    }

    fn between(&mut self, [lo, hi]: [i64; 2]) -> i64 {
        lo + i64::from(self.below((hi - lo + 1) as u32))
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == n - 1
    }
}

struct Generator<'a> {
    tape: Tape<'a>,
    simd: Simd,
    /// Registers with a value, and what it is.
    regs: Vec<(Reg, Kind)>,
    /// The kind of each register.
    kinds: Vec<Kind>,
    max_regs: u32,
    vars: Vec<VarId>,
    n_vars: u32,
    uses_scratch: bool,
}

/// Makes a kernel of a tape, with up to so many registers.
pub(super) fn program(tape: &[u32], simd: Simd, max_regs: u32) -> Program {
    let mut generator = Generator {
        tape: Tape(tape.iter()),
        simd,
        regs: Vec::new(),
        kinds: Vec::new(),
        max_regs,
        vars: Vec::new(),
        n_vars: 0,
        uses_scratch: false,
    };
    let table = generator.table();
    let n_phases = 1 + generator.tape.below(2);
    let phases = (0..n_phases).map(|_| generator.phase()).collect();
    // Lanes of 32 bits take either word.
    let high = match generator.simd.width {
        Width::Bits32 => generator.tape.below(100),
        Width::Bits64 => 0,
    };
    let int = u64::from(high) << 32 | u64::from(generator.tape.below(100));
    let scalars = vec![generator.float_bits(), int];
    let kernel = VectorCode {
        name: "random".into(),
        isa: simd.isa,
        width: simd.width,
        table,
        scratch_bytes: Poly::constant(SCRATCH),
        n_regs: generator.kinds.len() as u32,
        threads: Threads::One,
        phases,
    };
    Program { kernel, scalars }
}

impl Generator<'_> {
    fn table(&mut self) -> Vec<TableEntry> {
        let pointer = |n| TableEntry::Pointer { tensor: TensorId(n), layout: None };
        let mut table: Vec<TableEntry> = (0..7).map(pointer).collect();
        table.push(TableEntry::Workspace { bytes: Poly::constant(0) });
        let lanes = self.simd.lanes();
        let scale = self.bytes();
        let sorts = [(COUNTS, 1), (OFFSETS, scale), (STEPS, scale), (DIVISORS, 1), ([0, lanes], 1)];
        for (range, scale) in sorts {
            for _ in 0..N_PARAMS {
                let value = self.tape.between(range) * scale;
                table.push(TableEntry::Param(Poly::constant(value)));
            }
        }
        let float = match self.simd.width {
            Width::Bits32 => DType::F32,
            Width::Bits64 => DType::F64,
        };
        table.push(TableEntry::Scalar(ScalarId(0), float));
        table.push(TableEntry::Scalar(ScalarId(1), DType::I64));
        table
    }

    /// A parameter of the sort: counts, offsets, steps, divisors, lanes.
    fn param(&mut self, sort: u32) -> EntryId {
        EntryId(8 + sort * N_PARAMS + self.tape.below(N_PARAMS))
    }

    fn count(&mut self, sort: u32, range: [i64; 2]) -> Count {
        self.scaled(sort, range, 1)
    }

    fn scaled(&mut self, sort: u32, range: [i64; 2], scale: i64) -> Count {
        if self.tape.one_in(3) {
            Count::Param(self.param(sort))
        } else {
            Count::Const(self.tape.between(range) * scale)
        }
    }

    fn var(&mut self) -> VarId {
        self.n_vars += 1;
        VarId(self.n_vars - 1)
    }

    fn float_bits(&mut self) -> u64 {
        let nice = [0.0, 1.0, -1.5, 0.1, 3e38, -7.25, 1e-40, 65520.0, f32::INFINITY, f32::NAN];
        let float = self.tape.pick(&nice);
        self.float_of(float)
    }

    /// Returns the bits of a float of the lanes' width.
    fn float_of(&self, float: f32) -> u64 {
        match self.simd.width {
            Width::Bits32 => float.to_bits().into(),
            Width::Bits64 => f64::from(float).to_bits(),
        }
    }

    /// Returns the bytes of a lane.
    fn bytes(&self) -> i64 {
        self.storage().bytes()
    }

    /// Returns the format of elements as wide as lanes.
    fn storage(&self) -> Storage {
        Storage::of_lanes(self.simd.width)
    }

    fn phase(&mut self) -> Phase {
        self.regs.clear();
        self.vars.clear();
        let n_tasks = self.tape.below(4);
        let mut tasks = Vec::new();
        for _ in 0..n_tasks {
            let var = self.var();
            tasks.push((var, self.count(0, [1, 4])));
            self.vars.push(var);
        }
        self.uses_scratch = false;
        // Asked first: at the end of the tape every answer is no.
        let stores_registers = self.tape.one_in(2);
        let mut body = self.block(3);
        if stores_registers {
            body.extend(self.store_registers());
        }
        if self.uses_scratch {
            body.splice(0..0, self.clear_scratch());
        }
        Phase { tasks, body }
    }

    /// Writes all of scratch: what is there when a task starts is not defined.
    fn clear_scratch(&self) -> Vec<Stmt> {
        let bytes = self.simd.lanes() * self.bytes();
        let store = |at: i64| Stmt::Store {
            address: Address { base: Base::Scratch, offset: Linear::constant(at * bytes) },
            lanes: LaneStride::Contiguous,
            storage: self.storage(),
            value: Value::Splat(self.float_of(1.0)),
            mask: None,
        };
        (0..SCRATCH / bytes).map(store).collect()
    }

    /// Stores every register that has a value: what a loop or a branch did not change must have
    /// survived it.
    fn store_registers(&self) -> Vec<Stmt> {
        let store = |(at, (reg, kind)): (i64, &(Reg, Kind))| {
            let (slot, storage) = match kind {
                Kind::Float => (0, self.storage()),
                Kind::Int => (1, self.storage()),
                Kind::Truth => (6, Storage::Bool),
            };
            let offset = Linear::constant(at * self.simd.lanes() * self.bytes());
            Stmt::Store {
                address: Address { base: Base::Table(EntryId(slot)), offset },
                lanes: LaneStride::Contiguous,
                storage,
                value: Value::Reg(*reg),
                mask: None,
            }
        };
        (0..).zip(&self.regs).map(store).collect()
    }

    fn block(&mut self, depth: u32) -> Vec<Stmt> {
        let vars = self.vars.len();
        let n = 1 + self.tape.below(6);
        let mut body = Vec::new();
        for _ in 0..n {
            match self.tape.below(10) {
                6 => body.extend(self.four_loads()),
                7 => body.extend(self.four_stores()),
                8 => body.extend(self.byte_stores()),
                9 => body.extend(self.many_loads()),
                _ => body.push(self.stmt(depth)),
            }
        }
        self.vars.truncate(vars);
        body
    }

    /// A block after which only what had a value before has one for certain.
    fn uncertain(&mut self, depth: u32) -> Vec<Stmt> {
        let regs = self.regs.clone();
        let body = self.block(depth);
        self.regs = regs;
        body
    }

    fn stmt(&mut self, depth: u32) -> Stmt {
        match self.tape.below(if depth > 0 { 11 } else { 6 }) {
            0..3 => self.set(),
            3 | 4 => self.store(),
            5 => {
                let op = self.tape.pick(&[DivOp::Div, DivOp::Mod]);
                let value = self.linear(60);
                let by = self.count(3, DIVISORS);
                let var = self.var();
                self.vars.push(var);
                Stmt::Let { var, op, value, by }
            }
            6 | 7 => {
                let count = self.count(0, COUNTS);
                let var = self.var();
                self.vars.push(var);
                let body = if matches!(count, Count::Const(1..)) {
                    self.block(depth - 1)
                } else {
                    self.uncertain(depth - 1)
                };
                self.vars.pop();
                Stmt::Loop { var, count, body }
            }
            8 => {
                let condition = self.value(Kind::Truth, 2);
                Stmt::IfAny { condition, then: self.uncertain(depth - 1) }
            }
            _ => {
                let (value, bound) = (self.linear(8), self.linear(12));
                let regs = self.regs.clone();
                let then = self.block(depth - 1);
                let after_then = std::mem::replace(&mut self.regs, regs);
                let otherwise =
                    if self.tape.one_in(2) { self.block(depth - 1) } else { Vec::new() };
                self.regs.retain(|it| after_then.contains(it));
                Stmt::If { value, bound, then, otherwise }
            }
        }
    }

    /// Four strided accesses of consecutive words, or nearly so: that may be a transposition, or some of them
    /// an interleaving.
    fn four(&mut self) -> [(Address, LaneStride); 4] {
        let base = Base::Table(EntryId(self.tape.pick(&[0, 7])));
        let bytes = self.bytes();
        let offset = self.scaled_linear(50, bytes);
        let steps = [STEPS, [-4, -4], [4, 100]];
        let range = self.tape.pick(&steps);
        let filling = self.tape.pick(&[None, None, Some(2 * bytes), Some(3 * bytes)]);
        let stride = filling.map_or_else(|| self.scaled(2, range, bytes), Count::Const);
        let lanes = LaneStride::Strided(stride);
        // Lanes go backwards from here.
        let is_reversed = range[0] < 0 && filling.is_none();
        let start = if is_reversed { 4 * bytes * self.simd.lanes() } else { 0 };
        let near = if self.tape.one_in(8) { 2 } else { 1 };
        [0, 1, 2, 2 + near].map(|it| it * bytes).map(|at| {
            let offset = Linear { constant: offset.constant + start + at, ..offset.clone() };
            (Address { base, offset }, lanes)
        })
    }

    /// Returns the bits of an integer.
    fn int_bits(&mut self) -> u64 {
        let least = 1 << (self.simd.width.bits() - 1);
        self.tape.pick(&[0, 1, 7, least, self.ones(), 1234])
    }

    /// Returns all bits of a lane.
    fn ones(&self) -> u64 {
        u64::MAX >> (64 - self.simd.width.bits())
    }

    /// Returns whether there are instructions between floats and integers.
    fn converts(&self) -> bool {
        self.simd.width == Width::Bits32 || self.simd.isa == Isa::Avx512
    }

    fn four_loads(&mut self) -> Vec<Stmt> {
        let load = |this: &mut Self, (address, lanes)| {
            let (storage, mask) = (this.storage(), this.rarely_masked());
            let value = Value::Load { address, lanes, storage, mask };
            Stmt::Set { reg: this.assigned(Kind::Float), value, mask: None }
        };
        self.four().into_iter().map(|it| load(self, it)).collect()
    }

    fn four_stores(&mut self) -> Vec<Stmt> {
        let store = |this: &mut Self, (address, lanes)| {
            let value = this.value(Kind::Float, 2);
            let (storage, mask) = (this.storage(), this.rarely_masked());
            Stmt::Store { address, lanes, storage, value, mask }
        };
        self.four().into_iter().map(|it| store(self, it)).collect()
    }

    fn rarely_masked(&mut self) -> Option<Mask> {
        if self.tape.one_in(16) { self.mask(1) } else { None }
    }

    fn kind(&mut self) -> Kind {
        self.tape.pick(&[Kind::Float, Kind::Float, Kind::Int, Kind::Truth])
    }

    fn set(&mut self) -> Stmt {
        if !self.regs.is_empty() && self.tape.one_in(3) {
            let (reg, kind) = {
                let n = self.regs.len() as u32;
                self.regs[self.tape.below(n) as usize]
            };
            if kind == Kind::Float && self.tape.one_in(3) {
                let value = self.sum_where(reg);
                return Stmt::Set { reg, value, mask: None };
            }
            let value = self.value(kind, 3);
            return Stmt::Set { reg, value, mask: self.mask(2) };
        }
        let kind = self.kind();
        let value = self.value(kind, 3);
        Stmt::Set { reg: self.assigned(kind), value, mask: None }
    }

    /// A register plus a product in the lanes of a condition, which is one instruction on AVX-512.
    fn sum_where(&mut self, reg: Reg) -> Value {
        let old = || Box::new(Value::Reg(reg));
        let mut operand = |kind| Box::new(self.value(kind, 2));
        let condition = operand(Kind::Truth);
        let [a, b] = [operand(Kind::Float), operand(Kind::Float)];
        Value::Select { condition, then: Box::new(Value::Fma(a, b, old())), otherwise: old() }
    }

    /// A register that receives a value: new if there is one, else one of that kind, which loops and
    /// branches rely on.
    fn assigned(&mut self, kind: Kind) -> Reg {
        let alike = (0..).zip(&self.kinds).filter(|it| *it.1 == kind).map(|it| Reg(it.0));
        let alike: Vec<Reg> = alike.collect();
        let reg = if self.kinds.len() < self.max_regs as usize || alike.is_empty() {
            self.kinds.push(kind);
            Reg(self.kinds.len() as u32 - 1)
        } else {
            self.tape.pick(&alike)
        };
        self.regs.retain(|it| it.0 != reg);
        self.regs.push((reg, kind));
        reg
    }

    fn store(&mut self) -> Stmt {
        let (address, storage, kind) = self.place(None);
        let value = self.value(kind, 3);
        let lanes = self.lanes(address.base, storage);
        Stmt::Store { address, lanes, storage, value, mask: self.mask(2) }
    }

    fn lanes(&mut self, base: Base, storage: Storage) -> LaneStride {
        if base == Base::Scratch {
            return LaneStride::Contiguous;
        }
        match self.tape.below(5) {
            0 | 1 => LaneStride::Contiguous,
            2 => LaneStride::Uniform,
            3 if self.tape.one_in(3) => {
                let most = if storage.bytes() == 1 { 17 } else { 9 };
                let elements = i64::from(2 + self.tape.below(most - 1));
                LaneStride::Strided(Count::Const(elements * storage.bytes()))
            }
            3 if storage.bytes() > 1 => {
                let bytes = self.bytes();
                LaneStride::Strided(self.scaled(2, STEPS, bytes))
            }
            3 => LaneStride::Strided(self.count(2, STEPS)),
            _ => LaneStride::Strided(Count::Const(storage.bytes())),
        }
    }

    fn mask(&mut self, depth: u32) -> Option<Mask> {
        match self.tape.below(6) {
            0..3 => None,
            3 => {
                let lanes = self.simd.lanes();
                Some(Mask::First(Count::Const(self.tape.between([0, lanes]))))
            }
            4 => Some(Mask::First(Count::Param(self.param(4)))),
            _ => Some(Mask::Where(Box::new(self.value(Kind::Truth, depth)))),
        }
    }

    fn linear(&mut self, constant: u32) -> Linear {
        self.scaled_linear(constant, 1)
    }

    fn scaled_linear(&mut self, constant: u32, scale: i64) -> Linear {
        let constant = i64::from(self.tape.below(constant)) * scale;
        let param = if self.tape.one_in(3) { Some(self.param(1)) } else { None };
        let mut strides = Vec::new();
        for var in self.vars.clone() {
            if self.tape.one_in(2) {
                strides.push((var, self.scaled(2, [0, 25], scale)));
            }
        }
        strides.sort();
        Linear { constant, param, strides }
    }

    /// Somewhere in memory, of that kind if there is one; and how elements are stored there.
    fn place(&mut self, kind: Option<Kind>) -> (Address, Storage, Kind) {
        let kind = match kind {
            Some(kind) => kind,
            None => self.kind(),
        };
        let (at, storage) = match kind {
            Kind::Float => {
                let at = self.tape.pick(&[0, 0, 2, 3, 7, 8]);
                let buffers = buffers(self.simd.width);
                (at, buffers.get(at as usize).map_or(self.storage(), |it| it.0))
            }
            Kind::Int => {
                let all = [
                    (1, self.storage()),
                    (4, Storage::I8),
                    (5, Storage::U8),
                    (1, Storage::I32),
                    (1, Storage::U32),
                ];
                let n = if self.simd.width == Width::Bits64 { 5 } else { 3 };
                self.tape.pick(&all[..n])
            }
            Kind::Truth => (6, Storage::Bool),
        };
        if at == 8 {
            self.uses_scratch = true;
            // Scratch has a fixed size: whole vectors at constant places.
            let bytes = self.simd.lanes() * self.bytes();
            let offset = Linear::constant(self.tape.between([0, SCRATCH / bytes - 1]) * bytes);
            return (Address { base: Base::Scratch, offset }, storage, kind);
        }
        let offset = if storage.bytes() > 1 {
            let bytes = self.bytes();
            self.scaled_linear(50, bytes)
        } else {
            self.linear(200)
        };
        (Address { base: Base::Table(EntryId(at)), offset }, storage, kind)
    }
}
