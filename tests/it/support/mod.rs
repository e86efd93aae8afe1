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
