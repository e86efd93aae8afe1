//! The `afterword` command.

fn main() {}
