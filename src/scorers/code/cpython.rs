//! CPython as a worker process, where an operator allows it: gives up privileges, then becomes Python, which seals itself before
//! it reads its one script.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::frames::Terms;
use super::sandbox;

/// What Python runs.
const PROGRAM: &str = include_str!("cpython.py");
/// Open files that Python may have while it loads its modules.
const FILES: u64 = 64;
/// Memory that Python may take while it loads its modules, in bytes.
const LOADING: u64 = 1 << 30;

/// Becomes Python.
///
/// # Errors
/// Why it can't; else it does not return.
pub(super) fn become_python(python: &Path, terms: &Terms) -> Result<(), String> {
    sandbox::drop_privileges()?;
    let own = json!({
        "soft_ms": terms.soft_ms,
        "memory": terms.memory,
        "filter": sandbox::filter_as_hex()?,
        "late": super::too_late(terms.soft_limit()),
        "memory_out": super::out_of_memory(terms.memory),
    });
    sandbox::limit_processor_time(terms.cpu_seconds)?;
    sandbox::limit(LOADING, FILES)?;
    let error = Command::new(python).args(["-I", "-S", "-B", "-c", PROGRAM]).arg(own.to_string()).exec();
    Err(format!("{} can't be run: {error}", python.display()))
}
