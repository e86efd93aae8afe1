//! Floor 3: the worker, which finds quiet sessions and has them judged.

pub mod schedule;
