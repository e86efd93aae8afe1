//! What integration tests stand on: a PostgreSQL of their own, a Python of their own, a judge that says what it is told, and a server.

pub mod judge;
pub mod postgres;
pub mod python;
pub mod server;

pub use postgres::absent;
