//! Afterword: once a conversation with an AI agent has gone quiet, decides whether it went well.
//!
//! The floors, imports pointing down only: [`domain`] holds the rules, [`clock`], [`entropy`] and [`store`] the facts,
//! [`ingest`], [`scorers`] and [`notify`] the ways in, the opinions and the ways out, [`worker`] and [`http`] the services,
//! [`config`] and [`cli`] the wiring. `docs/ARCHITECTURE.md` maps every file.

pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod entropy;
pub mod http;
pub mod ingest;
pub mod lifecycle;
pub mod notify;
pub mod scorers;
pub mod store;
pub mod telemetry;
pub mod worker;

#[cfg(test)]
mod test_support;
