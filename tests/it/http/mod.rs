//! The HTTP API over real connections.

mod auth;
mod bad_input;
mod catalogue;
mod explain;
mod groups;
mod milestone;
mod operations;
mod otlp;
mod spans;
mod sweep;
