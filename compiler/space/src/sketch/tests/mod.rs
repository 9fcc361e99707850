//! Tests of sketches: points, encoding and import.

mod attention;
mod points;
mod programs;
mod traces;
