//! Tests of sketches: points, encoding and import.

mod attention;
mod chains;
mod points;
mod programs;
mod scans;
mod traces;
