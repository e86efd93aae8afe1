//! What integration tests stand on: a PostgreSQL of their own, a Python of their own, and a judge that says what it is told.

pub mod judge;
pub mod postgres;
pub mod python;

pub use postgres::absent;
