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
mod devices;
mod elements;
mod expansions;
mod fake_driver;
mod former;
mod gpu_tuning;
mod in_place;
mod kernels;
mod macros;
mod mistakes;
mod nvrtc;
mod online;
mod plan;
mod prepared;
mod profile;
mod programs;
mod replay;
mod search;
mod semantics;
mod space;
mod study;
mod tidy;
mod top;
mod transfer;
mod tuning;
mod types;
mod unsigned;
mod upgrade;
mod workers;
#[cfg(target_arch = "x86_64")]
mod x86;
