//! The HTTP API over real connections.

mod auth;
mod bad_input;
mod catalogue;
mod groups;
mod milestone;
mod otlp;
mod scorecards;
mod spans;
mod sweep;
