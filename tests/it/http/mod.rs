//! The HTTP API over real connections.

mod approvals;
mod auth;
mod bad_input;
mod blocks;
mod catalogue;
mod client;
mod custom;
mod explain;
mod groups;
mod interim;
mod keys;
mod live;
mod milestone;
mod operations;
mod otlp;
mod resweeps;
mod scorecards;
mod slow;
mod spans;
mod sweep;
