//! The command line: what can be asked for, and how answers are printed.

pub mod args;
pub mod bench;
pub mod check_config;
pub mod commands;
pub mod compose;
mod deliveries;
mod delivery_args;
mod demo;
mod eval;
mod exit;
mod explain;
mod import;
mod keys;
mod named;
mod pause;
mod preview;
pub mod progress;
mod release;
mod reports;
mod resweep;
pub mod sample;
mod serve;
pub mod table;
pub mod terminal;
mod window;

use std::io::{self, Write};

use clap::Parser;

pub use args::{Args, Command};
pub use exit::ExitCode;

/// Reads the command line. Where it can't be understood, or help or the version was asked for, this prints that and ends the
/// process.
pub fn parse() -> Args {
    Args::parse()
}

/// Prints an answer to standard output. A reader that has gone away, as `head` does, is no failure.
pub fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            fail(ExitCode::Failed, &format!("the answer could not be written to standard output: {error}"))
        }
        _ => ExitCode::Fine,
    }
}

/// Prints an error to standard error and hands on the code that says so.
pub fn fail(code: ExitCode, error: &dyn std::fmt::Display) -> ExitCode {
    let _ = writeln!(io::stderr(), "error: {error}");
    code
}
