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
mod rail;
mod receivers;
mod resweeps;
mod runs;
mod scorecards;
mod slow;
mod spans;
mod sweep;
