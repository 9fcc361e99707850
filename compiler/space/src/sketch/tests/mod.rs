//! Tests of sketches: points, encoding and import.

mod points;
mod programs;
mod traces;
