//! Tests of sketches: points, encoding and import.

mod attention;
mod chains;
mod points;
mod programs;
mod rows;
mod scans;
mod scatters;
mod traces;
