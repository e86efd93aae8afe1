//! What integration tests stand on: a PostgreSQL of their own, a Python of their own, a judge and a receiver that do what they are
//! told, a server, the real binary, and the data laid beside the checkout.

pub mod data;
pub mod judge;
pub mod openapi;
pub mod postgres;
pub mod program;
pub mod python;
pub mod server;
pub mod webhook;
pub mod witness;

pub use postgres::{absent, address};

/// How long a test waits for what must come before it gives up: far longer than a machine of many jobs may stand still.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_mins(5);

/// The store of a test: whoever holds a lock or a connection may be on a machine that stands still for a while.
pub fn store_at(url: &str) -> afterword::store::StoreSettings {
    afterword::store::StoreSettings { busy_timeout: PATIENCE, ..afterword::store::StoreSettings::at(url) }
}
