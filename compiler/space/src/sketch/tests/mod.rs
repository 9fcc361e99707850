//! Tests of sketches: points, encoding and import.

mod attention;
mod chains;
mod orders;
mod points;
mod programs;
mod ragged;
mod rows;
mod scans;
mod scatters;
mod traces;
mod transposed;
