//! Fuzzes OTLP batches as JSON.
#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::otlp_json(data));
