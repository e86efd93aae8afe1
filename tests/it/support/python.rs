//! A Python of the tests' own: a virtual environment with pinned packages, kept under `target/` and reused between runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::absent;

/// The interpreter of a virtual environment that holds `pins`, such as `agentx-python==0.8.29`. The folder is named after
/// Python's version and the pins, so that other pins get another one. `None`, with a message, where Python or the packages
/// can't be had; under `AFTERWORD_TEST_ALL=1` that fails the test.
pub fn interpreter(pins: &[&str]) -> Option<PathBuf> {
    match environment(pins) {
        Ok(interpreter) => Some(interpreter),
        Err(why) => {
            absent(&format!("Python with {} can't be had: {why}", pins.join(", ")));
            None
        }
    }
}

fn environment(pins: &[&str]) -> Result<PathBuf, String> {
    let version = run(Command::new("python3").args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]))?;
    let key = pins.join("_").replace(|c: char| !c.is_ascii_alphanumeric() && !"-.".contains(c), "_");
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let name = format!("python-{}-{key}", version.trim());
    let folder = home.join(&name);
    let interpreter = folder.join("bin/python");
    let complete = folder.join("complete");

    // Two test processes may want the same environment: the second waits here, then finds it made.
    let lock = File::create(home.join(name + ".lock")).map_err(|e| format!("its lock file: {e}"))?;
    lock.lock().map_err(|e| format!("its lock file: {e}"))?;
    if !complete.exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let pip = ["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"];
        run(Command::new(&interpreter).args(pip).args(pins))?;
        fs::write(&complete, pins.join("\n")).map_err(|e| format!("{}: {e}", complete.display()))?;
    }
    Ok(interpreter)
}

/// Runs a command to its end. Gives what it printed, or what went wrong in its own words.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{command:?}: {} {}", text(&output.stdout), text(&output.stderr)))
}
