//! The integration tests, one binary: each topic is a module, and what they share is `support`.

mod fixture;
mod support;
