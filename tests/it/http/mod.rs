//! The HTTP API over real connections.

mod approvals;
mod auth;
mod bad_input;
mod blocks;
mod catalogue;
mod client;
mod custom;
mod document;
mod etags;
mod explain;
mod groups;
mod idempotency;
mod interim;
mod keys;
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
mod tenancy;
