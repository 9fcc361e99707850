//! `mbarrier.try_wait` may end before the phase does: a kernel has to ask again.

use tvmtune_emulator::{Completion, Fault, FaultKind, Module, Options, Order};

use crate::common::Run;

/// A kernel in which warp 1 reads what warp 0 wrote, after it has waited by these instructions.
fn run(wait: &str, options: &Options) -> Result<Vec<u32>, Box<Fault>> {
    let text = format!(
        ".version 9.0
        .target sm_90
        .address_size 64
        .visible .entry k(.param .u64 y) {{
            .shared .align 8 .b64 ready;
            .shared .align 4 .b32 value;
            .reg .pred %p<3>;
            .reg .b32 %r<3>;
            .reg .b64 %d<2>;
            ld.param.u64 %d0, [y];
            mov.u32 %r0, %tid.x;
            setp.ne.u32 %p0, %r0, 0;
            @!%p0 mbarrier.init.shared::cta.b64 [ready], 1;
            bar.sync 0;
            setp.ge.u32 %p1, %r0, 32;
            @%p1 bra READER;
            @%p0 ret;
            st.shared.u32 [value], 7;
            mbarrier.arrive.shared::cta.b64 _, [ready];
            ret;
        READER:
            {wait}
            ld.shared.u32 %r1, [value];
            setp.ne.u32 %p1, %r0, 32;
            @!%p1 st.global.u32 [%d0], %r1;
            ret;
        }}"
    );
    let module = Module::parse(&text).unwrap_or_else(|it| panic!("{it}"));
    Run::new(1, 64).options(options).buffer(&[0u32]).run(&module, "k").map(|it| it.read(0))
}

const ONCE: &str = "mbarrier.try_wait.parity.shared::cta.b64 %p2, [ready], 0;";

#[test]
fn a_wait_that_is_not_asked_again_is_seen() {
    let again = format!("AGAIN: {ONCE} @!%p2 bra AGAIN;");
    let mut n_seen = 0;
    for seed in 1..=32 {
        let completion = Completion::Random(seed);
        // The reader is the last one at the barrier, so it goes on first.
        let options = Options { completion, order: Order::Ascending, ..Options::default() };
        assert_eq!(run(&again, &options).unwrap(), [7]);
        if let Err(fault) = run(ONCE, &options) {
            let is_order = matches!(fault.kind, FaultKind::Race | FaultKind::Uninitialised);
            assert!(is_order, "{fault}");
            n_seen += 1;
        }
    }
    assert!((1..32).contains(&n_seen), "{n_seen} of 32");
    assert_eq!(run(ONCE, &Options::default()).unwrap(), [7], "otherwise it waits to the end");
}
