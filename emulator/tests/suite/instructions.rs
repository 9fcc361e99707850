//! Single instructions, written by hand, against plain Rust: what NVRTC prints too seldom to be met
//! in kernels.

use tvmtune_emulator::{Fault, FaultKind, Module, Options, ParseError};

use crate::common::{Numbers, Run};

/// A kernel that reads `%r1` to `%r3` from `x`, by lane, and writes `%r0` to `y`.
fn module_of(body: &str) -> Result<Module, ParseError> {
    Module::parse(&format!(
        ".version 9.0
        .target sm_90a
        .address_size 64
        .visible .entry k(.param .u64 x, .param .u64 y) {{
            .reg .pred %p<4>;
            .reg .b16 %h<4>;
            .reg .b32 %r<9>;
            .reg .b64 %d<9>;
            ld.param.u64 %d1, [x];
            ld.param.u64 %d2, [y];
            mov.u32 %r4, %tid.x;
            mul.wide.u32 %d3, %r4, 4;
            add.s64 %d2, %d2, %d3;
            mul.wide.u32 %d3, %r4, 12;
            add.s64 %d1, %d1, %d3;
            ld.global.u32 %r1, [%d1];
            ld.global.u32 %r2, [%d1+4];
            ld.global.u32 %r3, [%d1+8];
            mov.u32 %r0, -1;
            {body}
            st.global.u32 [%d2], %r0;
            ret;
        }}"
    ))
}

/// The inputs and results of a warp's lanes.
type Lanes = (Vec<[u32; 3]>, Vec<u32>);

fn run(body: &str) -> Lanes {
    try_run(body).unwrap_or_else(|it| panic!("{body}: {it}"))
}

fn try_run(body: &str) -> Result<Lanes, Box<Fault>> {
    let module = module_of(body).unwrap_or_else(|it| panic!("{body}: {it}"));
    let mut numbers = Numbers::new(17);
    let mut word = |n: usize| match n % 4 {
        0 => numbers.bits() as u32,
        1 => numbers.bits() as u32 % 40,
        2 => (numbers.bits() as u32 % 100).wrapping_sub(50),
        _ => numbers.float().to_bits(),
    };
    let inputs: Vec<[u32; 3]> = (0..32).map(|n| [word(n), word(n / 2), word(n / 3 + 1)]).collect();
    let run = Run::new(1, 32).buffer(&inputs.concat()).buffer(&[0u32; 32]).run(&module, "k")?;
    Ok((inputs, run.read(1)))
}

/// The fault that instructions lead to.
fn fault_of(body: &str) -> FaultKind {
    try_run(body).unwrap_err().kind
}

#[test]
fn threads_that_take_a_uniform_branch_take_it_together() {
    let jump = |condition: &str, uni: &str| {
        format!("setp.lt.u32 %p1, %r4, {condition}; @%p1 bra{uni} OUT; mov.u32 %r0, 1; OUT:")
    };
    assert_eq!(fault_of(&jump("7", ".uni")), FaultKind::DivergentCollective);
    for condition in ["0", "32"] {
        assert_eq!(run(&jump(condition, ".uni")).1, run(&jump(condition, "")).1);
    }
    assert_eq!(run(&jump("7", "")).1[6..8], [u32::MAX, 1]);
}

/// Checks that an instruction computes in each lane what a function does.
#[track_caller]
fn check(body: &str, want: impl Fn(u32, u32, u32) -> u32) {
    let (inputs, got) = run(body);
    for ([a, b, c], got) in inputs.into_iter().zip(got) {
        assert_eq!(got, want(a, b, c), "{body} of {a:#x}, {b:#x}, {c:#x}");
    }
}

/// Checks that the lanes of a warp compute together what a function of all of them does.
#[track_caller]
fn check_warp(body: &str, want: impl Fn(usize, &[[u32; 3]]) -> u32) {
    let (inputs, got) = run(body);
    for (lane, got) in got.into_iter().enumerate() {
        assert_eq!(got, want(lane, &inputs), "{body} in lane {lane}");
    }
}

#[test]
fn bits_are_picked_and_put() {
    check("lop3.b32 %r0, %r1, %r2, %r3, 0xE8;", |a, b, c| a & b | a & c | b & c);
    check("lop3.b32 %r0, %r1, %r2, %r3, 0x96;", |a, b, c| a ^ b ^ c);
    check("bfe.u32 %r0, %r1, 5, 9;", |a, _, _| a >> 5 & 0x1FF);
    check("bfe.s32 %r0, %r1, 5, 9;", |a, _, _| ((a << 18) as i32 >> 23) as u32);
    check("bfe.s32 %r0, %r1, 28, 9;", |a, _, _| (a as i32 >> 28) as u32);
    check("bfe.u32 %r0, %r1, 40, 9;", |_, _, _| 0);
    check("bfi.b32 %r0, %r1, %r2, 4, 12;", |a, b, _| b & !0xFFF0 | (a & 0xFFF) << 4);
    check("bfi.b32 %r0, %r1, %r2, 32, 12;", |_, b, _| b);
    check("bmsk.clamp.b32 %r0, 4, %r2;", |_, b, _| if b >= 28 { !15 } else { ((1 << b) - 1) << 4 });
    check("szext.wrap.s32 %r0, %r1, 8;", |a, _, _| i32::from(a as i8) as u32);
    check("bfind.u32 %r0, %r1;", |a, _, _| a.checked_ilog2().unwrap_or(u32::MAX));
    check("bfind.shiftamt.s32 %r0, %r1;", |a, _, _| {
        let a = if (a as i32) < 0 { !a } else { a };
        a.checked_ilog2().map_or(u32::MAX, |it| 31 - it)
    });
    check("prmt.b32.f4e %r0, %r1, %r2, 1;", |a, b, _| {
        ((u64::from(b) << 32 | u64::from(a)) >> 8) as u32
    });
    check("prmt.b32.rc8 %r0, %r1, %r2, 2;", |a, _, _| (a >> 16 & 0xFF) * 0x0101_0101);
    check("prmt.b32 %r0, %r1, %r2, 0x9541;", |a, b, _| {
        let sign = if a >> 15 & 1 == 1 { 0xFF } else { 0 };
        u32::from_le_bytes([(a >> 8) as u8, b as u8, (b >> 8) as u8, sign])
    });
    check("shf.l.clamp.b32 %r0, %r1, %r2, %r3;", |a, b, c| {
        (((u64::from(b) << 32 | u64::from(a)) << c.min(32)) >> 32) as u32
    });
    check("shr.s32 %r0, %r1, %r2;", |a, b, _| (i64::from(a as i32) >> b.min(63)) as u32);
    check("shl.b32 %r0, %r1, %r2;", |a, b, _| a.checked_shl(b).unwrap_or(0));
    check("cnot.b32 %r0, %r2;", |_, b, _| u32::from(b == 0));
}

#[test]
fn integers_saturate_and_carry() {
    check("add.sat.s32 %r0, %r1, %r1;", |a, _, _| (a as i32).saturating_add(a as i32) as u32);
    check("mad.hi.u32 %r0, %r1, %r2, %r3;", |a, b, c| {
        (((u64::from(a) * u64::from(b)) >> 32) as u32).wrapping_add(c)
    });
    check("mad24.lo.u32 %r0, %r1, %r2, %r3;", |a, b, c| {
        (a & 0xFF_FFFF).wrapping_mul(b & 0xFF_FFFF).wrapping_add(c)
    });
    check("add.cc.u32 %r5, %r1, %r2; addc.u32 %r0, %r3, 0;", |a, b, c| {
        c.wrapping_add(u32::from(a.checked_add(b).is_none()))
    });
    check("sub.cc.u32 %r5, %r1, %r2; subc.u32 %r0, %r3, 1;", |a, b, c| {
        c.wrapping_sub(1).wrapping_sub(u32::from(a < b))
    });
    check("mad.lo.cc.u32 %r5, %r1, %r2, %r3; madc.hi.u32 %r0, %r1, %r2, %r3;", |a, b, c| {
        let product = u64::from(a) * u64::from(b);
        let carry = (product as u32).checked_add(c).is_none();
        ((product >> 32) as u32).wrapping_add(c).wrapping_add(u32::from(carry))
    });
    check("dp4a.u32.s32 %r0, %r1, %r2, %r3;", |a, b, c| {
        let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
        pairs.fold(c, |sum, (a, b)| sum.wrapping_add((i32::from(a) * i32::from(b as i8)) as u32))
    });
    check("div.u32 %r0, %r1, 0;", |_, _, _| u32::MAX);
    check("cvt.sat.u8.s32 %r0, %r3;", |_, _, c| (c as i32).clamp(0, 255) as u32);
    check("cvt.s32.s8 %r0, %r1;", |a, _, _| i32::from(a as i8) as u32);
    check("cvt.u64.u32 %d4, %r1; mul.hi.u64 %d4, %d4, -1; cvt.u32.u64 %r0, %d4;", |a, _, _| {
        a.saturating_sub(1)
    });
}

#[test]
fn comparisons_combine_and_choose() {
    let float = f32::from_bits;
    check("setp.lt.s32 %p1, %r1, %r2; selp.b32 %r0, 7, 9, %p1;", |a, b, _| {
        if (a as i32) < b as i32 { 7 } else { 9 }
    });
    check("setp.gtu.f32 %p1|%p2, %r1, %r2; selp.b32 %r0, 7, 9, %p2;", |a, b, _| {
        if float(a) > float(b) || float(a).is_nan() || float(b).is_nan() { 9 } else { 7 }
    });
    check(
        "setp.eq.u32 %p1, %r1, %r1; setp.lo.and.u32 %p2, %r1, %r2, !%p1; selp.u32 %r0, 1, 0, %p2;",
        |_, _, _| 0,
    );
    check(
        "setp.ne.u32 %p1, %r1, %r1; setp.hs.xor.u32 %p2, %r1, %r2, !%p1; selp.u32 %r0, 1, 0, %p2;",
        |a, b, _| u32::from(a < b),
    );
    check("set.ge.f32.u32 %r0, %r1, %r2;", |a, b, _| if a >= b { 1f32.to_bits() } else { 0 });
    check("set.ne.u32.s32 %r0, %r1, %r2;", |a, b, _| if a == b { 0 } else { u32::MAX });
    check("slct.u32.s32 %r0, %r1, %r2, %r3;", |a, b, c| if c as i32 >= 0 { a } else { b });
    check("testp.subnormal.f32 %p1, %r2; selp.u32 %r0, 1, 0, %p1;", |_, b, _| {
        u32::from(float(b).is_subnormal())
    });
    check("copysign.f32 %r0, %r1, %r2;", |a, b, _| a & 1 << 31 | b & !(1 << 31));
    check("add.ftz.f32 %r0, %r2, 0f00000000;", |_, b, _| {
        let b = if float(b).is_subnormal() { 0.0f32.copysign(float(b)) } else { float(b) };
        if b.is_nan() { b.to_bits() } else { (b + 0.0).to_bits() }
    });
    check("max.xorsign.abs.f32 %r0, 0fC0000000, 0f3F800000;", |_, _, _| (-2f32).to_bits());
    check("min.NaN.f32 %r0, 0f7FC00000, %r1;", |_, _, _| 0x7FFF_FFFF);
}

#[test]
fn lanes_exchange_values() {
    let first = |inputs: &[[u32; 3]], lane: usize| inputs[lane][0];
    check_warp("shfl.sync.up.b32 %r0|%p1, %r1, 3, 0, -1; @!%p1 mov.u32 %r0, 5;", |lane, it| {
        if lane < 3 { 5 } else { first(it, lane - 3) }
    });
    check_warp("shfl.sync.down.b32 %r0, %r1, 2, 0x181F, -1;", |lane, it| {
        // Segments of eight lanes.
        first(it, if lane % 8 < 6 { lane + 2 } else { lane })
    });
    check_warp("shfl.sync.idx.b32 %r0, %r1, 1, 0x1C1F, -1;", |lane, it| {
        first(it, lane / 4 * 4 + 1)
    });
    check_warp("shfl.sync.bfly.b32 %r0, %r1, 5, 0x1F, -1;", |lane, it| first(it, lane ^ 5));
    let negative = |it: &[u32; 3]| (it[0] as i32) < 0;
    let holds = "setp.lt.s32 %p1, %r1, 0;";
    check_warp(&format!("{holds} vote.sync.ballot.b32 %r0, !%p1, -1;"), |_, it| {
        it.iter().enumerate().fold(0, |mask, (n, it)| mask | u32::from(!negative(it)) << n)
    });
    check_warp(
        &format!("{holds} vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r0, 1, 0, %p2;"),
        |_, it| u32::from(it.iter().all(negative) || !it.iter().any(negative)),
    );
    check_warp("and.b32 %r1, %r1, 3; match.any.sync.b32 %r0, %r1, -1;", |lane, it| {
        let class = |lane: usize| first(it, lane) & 3;
        (0..32).filter(|it| class(*it) == class(lane)).fold(0, |mask, it| mask | 1 << it)
    });
    check_warp("match.all.sync.b32 %r0|%p1, 4, -1; @!%p1 mov.u32 %r0, 5;", |_, _| u32::MAX);
    check_warp("redux.sync.min.s32 %r0, %r1, -1;", |_, it| {
        it.iter().map(|it| it[0] as i32).min().unwrap() as u32
    });
    check_warp(
        "elect.sync %r5|%p1, -1; selp.u32 %r0, %r5, 9, %p1;",
        |lane, _| {
            if lane == 0 { 0 } else { 9 }
        },
    );
    check_warp("setp.lt.u32 %p1, %r4, 9; @!%p1 bra L; activemask.b32 %r0; L:", |lane, _| {
        if lane < 9 { 0x1FF } else { u32::MAX }
    });
    check_warp("mov.u32 %r0, %lanemask_lt;", |lane, _| (1 << lane) - 1);
}

#[test]
fn branches_go_by_tables_and_addresses_by_windows() {
    let body = "T: .branchtargets A, B, C;
        and.b32 %r5, %r1, 3; min.u32 %r5, %r5, 2;
        brx.idx %r5, T;
        A: mov.u32 %r0, 10; bra D;
        B: mov.u32 %r0, 11; bra D;
        C: mov.u32 %r0, 12;
        D:";
    check(body, |a, _, _| 10 + (a & 3).min(2));
    let body = ".shared .align 4 .b32 s[32];
        .local .align 4 .b32 l[4];
        mov.u64 %d4, s; cvta.shared.u64 %d4, %d4; mul.wide.u32 %d5, %r4, 4; add.s64 %d4, %d4, %d5;
        st.u32 [%d4], %r1;
        mov.u64 %d6, l; cvta.local.u64 %d6, %d6;
        st.u32 [%d6+8], %r2;
        isspacep.shared %p1, %d4; isspacep.local %p2, %d4; isspacep.local %p3, %d6;
        ld.u32 %r5, [%d4]; ld.local.u32 %r6, [l+8];
        add.u32 %r0, %r5, %r6;
        @%p2 mov.u32 %r0, 1;
        @!%p1 mov.u32 %r0, 2;
        @!%p3 mov.u32 %r0, 3;";
    check(body, |a, b, _| a.wrapping_add(b));
}

#[test]
fn threads_wait_for_their_own_copies_too() {
    let copy = ".shared .align 16 .b32 s[32];
        mov.u32 %r5, s; mad.lo.u32 %r5, %r4, 4, %r5;
        cp.async.ca.shared.global [%r5], [%d1], 4;
        cp.async.commit_group;";
    check(&format!("{copy} cp.async.wait_group 0; ld.shared.u32 %r0, [%r5];"), |a, _, _| a);
    let early = format!("{copy} ld.shared.u32 %r0, [%r5]; cp.async.wait_group 0;");
    assert_eq!(fault_of(&early), FaultKind::Race);
    let never = format!("{copy} mov.u32 %r0, 0;");
    assert_eq!(fault_of(&never), FaultKind::ExitWhilePending);
}

#[test]
fn accesses_must_be_aligned_and_waits_must_end() {
    assert_eq!(try_run("ld.global.u32 %r0, [%d1+2];").unwrap_err().kind, FaultKind::Misaligned);
    let uninitialised = ".shared .align 4 .b32 s[32]; ld.shared.u32 %r0, [s];";
    assert_eq!(fault_of(uninitialised), FaultKind::Uninitialised);
    let unknown = ".shared .align 8 .b64 b; mbarrier.arrive.shared.b64 _, [b];";
    assert_eq!(fault_of(unknown), FaultKind::BarrierMisuse);
    let many = ".shared .align 8 .b64 b; setp.eq.u32 %p1, %r4, 0;
        @%p1 mbarrier.init.shared.b64 [b], 31; bar.warp.sync -1; mbarrier.arrive.shared.b64 _, [b];
        mbarrier.arrive.shared.b64 _, [b], 32;";
    assert_eq!(fault_of(many), FaultKind::BarrierMisuse);
    assert_eq!(try_run("bar.sync 16;").unwrap_err().kind, FaultKind::BarrierMisuse);
    assert_eq!(try_run("trap;").unwrap_err().kind, FaultKind::Assertion);
    let module = module_of("L: bra L;").unwrap();
    let options = Options { instruction_limit: 1000, ..Options::default() };
    let run = Run::new(1, 32).options(&options).buffer(&[0u32; 96]).buffer(&[0u32; 96]);
    let fault = run.run(&module, "k").err().expect("it never ends");
    assert_eq!(fault.kind, FaultKind::InstructionLimit);
}

#[test]
fn lanes_may_store_the_same_value_to_one_place() {
    let store =
        ".shared .align 4 .b32 s[32]; st.shared.u32 [s], %r5; bar.sync 0; ld.shared.u32 %r0, [s];";
    check(&format!("mov.u32 %r5, 7; {store}"), |_, _, _| 7);
    assert_eq!(try_run(&format!("mov.u32 %r5, %r4; {store}")).unwrap_err().kind, FaultKind::Race);
}

#[test]
fn the_last_element_must_be_whole() {
    let module = module_of("").unwrap();
    let run = Run::new(1, 32).buffer(&[0u8; 96 * 4 - 2]).buffer(&[0u32; 32]);
    let fault = run.run(&module, "k").err().expect("half of an element is missing").to_string();
    assert!(fault.contains("read of 4 bytes at `x`+380 of 382 by thread (31, 0, 0)"), "{fault}");
}

#[test]
fn unknown_instructions_are_refused_when_they_are_read() {
    let refusals = [
        "frobnicate.b32 %r0, %r1;",
        "add.u32.fast %r0, %r1, %r2;",
        "add.u32 %r0, %r1;",
        "add.u32 %r0, %d1, %r1;",
        "mov.u32 %r0, nowhere;",
        "mov.u32 %r0, %nonsense;",
        "@%p9 bra L; L:",
        "bra M;",
        "fma.rz.f64 %d4, %d4, %d4, %d4;",
        "ld.global.v2.u32 %r0, [%d1];",
        "call (%r0), f, (%r1);",
    ];
    let texts: Vec<String> = refusals
        .iter()
        .map(|it| match module_of(it) {
            Ok(_) => format!("{it} is accepted"),
            Err(error) => error.to_string(),
        })
        .collect();
    insta::assert_snapshot!(texts.join("\n"), @r#"
    PTX line 20: `frobnicate.b32`: unknown instruction
    PTX line 20: `add.u32.fast`: unknown modifier `.fast`
    PTX line 20: `add.u32`: expected 3 operands
    PTX line 20: `add.u32`: expected a 32-bit operand
    PTX line 20: `mov.u32`: unknown name `nowhere`
    PTX line 20: unknown register `%nonsense`
    PTX line 20: no predicate `%p9`
    PTX line 20: no label `M`
    PTX line 20: `fma.rz.f64`: double precision rounds to nearest only
    PTX line 20: `ld.global.v2.u32`: expected 2 destinations
    PTX line 20: `call`: the function `f` is not in the module
    "#);
}

#[test]
fn instructions_without_all_their_operands_are_refused() {
    let bulk = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
    let short = [
        "and.pred %p1;".to_owned(),
        "not.pred %p1;".to_owned(),
        "barrier.red.popc.u32 %r0;".to_owned(),
        "barrier.red.popc.u32 %r0, 0;".to_owned(),
        format!("{bulk};"),
        format!("{bulk} [%d1];"),
        format!("{bulk}.multicast::cluster [%d1];"),
        format!("{bulk}.L2::cache_hint;"),
    ];
    for body in short {
        let refusal = module_of(&body).err().unwrap_or_else(|| panic!("`{body}` is accepted"));
        assert!(!refusal.to_string().is_empty(), "{body}");
    }
}
