//! The HTTP API over real connections.

mod auth;
mod bad_input;
mod catalogue;
mod explain;
mod groups;
mod milestone;
mod otlp;
mod resweeps;
mod spans;
mod sweep;
