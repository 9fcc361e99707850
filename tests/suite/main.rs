//! The one test binary.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what tests call is part of a test")]

mod acceptance;
mod ansor;
mod backends;
mod budgets;
mod build;
mod candle;
mod capacity;
mod cargo;
mod circumstances;
mod cli;
mod configuration;
mod constants;
mod cuda;
mod database;
mod dependencies;
mod devices;
mod elements;
mod expansions;
mod extremes;
mod fake_driver;
mod former;
mod gpu_tuning;
mod hostile;
mod in_place;
mod kernels;
mod locks;
mod macros;
mod mistakes;
mod numerics;
mod nvrtc;
mod online;
mod plan;
mod prepared;
mod processes;
mod profile;
mod programs;
#[cfg(unix)]
mod remote;
mod replay;
mod search;
mod semantics;
mod sharing;
mod space;
mod study;
mod tidy;
mod top;
mod transfer;
mod tuning;
mod types;
mod unsigned;
mod upgrade;
mod weights;
mod workers;
#[cfg(target_arch = "x86_64")]
mod x86;
