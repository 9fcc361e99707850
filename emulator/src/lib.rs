//! An emulator of PTX, for tests of generated CUDA on any machine: it runs the output of NVRTC with
//! exact semantics, and reports races and other faults by the line of the source.
//!
//! ```
//! use tvmtune_emulator::{Launch, Memory, Module, Options};
//!
//! let ptx = "
//!     .version 9.0
//!     .target sm_80
//!     .address_size 64
//!     .visible .entry double_it(.param .u64 x) {
//!         .reg .b32 %r<3>;
//!         .reg .b64 %rd<4>;
//!         ld.param.u64 %rd1, [x];
//!         mov.u32 %r1, %tid.x;
//!         mul.wide.u32 %rd2, %r1, 4;
//!         add.s64 %rd3, %rd1, %rd2;
//!         ld.global.u32 %r2, [%rd3];
//!         add.s32 %r2, %r2, %r2;
//!         st.global.u32 [%rd3], %r2;
//!         ret;
//!     }";
//! let module = Module::parse(ptx)?;
//! let kernel = module.kernel("double_it").expect("it is in the text");
//! let mut memory = Memory::new();
//! let x = memory.add("x", vec![7; 8]);
//! kernel.run(&Launch::linear(1, 2), &[x.into()], &mut memory, &Options::default())?;
//! assert_eq!(memory.bytes(x), [14; 8]);
//!
//! // One thread more than there are elements.
//! let fault = kernel
//!     .run(&Launch::linear(1, 3), &[x.into()], &mut memory, &Options::default())
//!     .unwrap_err();
//! assert_eq!(
//!     fault.to_string(),
//! "`double_it`: out of bounds: read of 4 bytes at `x`+8 of 8 by thread (2, 0, 0) of CTA (0, 0, 0)"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod code;
mod decode;
mod fault;
mod kernel;
mod launch;
mod machine;
mod memory;
mod number;
mod parse;
mod race;
mod random;
mod registers;
mod report;
mod space;
mod tensor_map;

pub use fault::{Event, Fault, FaultKind, SourceLocation};
pub use kernel::{Kernel, Module};
pub use launch::{Argument, Completion, Launch, Options, Order};
pub use memory::{Buffer, Memory};
pub use parse::ParseError;
pub use report::{AccessCost, AccessedMemory, Report};
pub use tensor_map::{Element, Swizzle, TensorMap};
