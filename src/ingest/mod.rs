//! Floor 2: the ways in.

pub mod writer;
