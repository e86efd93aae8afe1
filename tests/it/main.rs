//! The integration tests, one binary: each topic is a module, and what they share is `support`.

#![allow(clippy::unwrap_used, reason = "every function here serves a test")]

mod code;
mod commands;
mod crash;
mod crash_delivery;
mod crewai;
mod deliver;
mod demo;
mod demo_data;
mod eval;
mod faults;
mod fixture;
mod full_disk;
mod fuzz_corpus;
mod house;
mod http;
mod import;
mod judging;
mod operator;
mod otel;
mod real_model;
mod recipes;
mod resweep;
mod sdk;
mod secrets;
mod store;
mod support;
mod tau_bench;
