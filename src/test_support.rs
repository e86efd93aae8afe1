//! What unit tests share: the data laid beside the checkout, which is for tests only, and the step points of simulations.

pub(crate) mod steps;

use std::path::PathBuf;

/// A file or folder of `../shared`. Where it is absent the caller skips, with a message; under `AFTERWORD_TEST_ALL=1` its
/// absence fails the test.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let full = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared").join(path);
    if full.exists() {
        return Some(full);
    }
    assert!(
        std::env::var("AFTERWORD_TEST_ALL").as_deref() != Ok("1"),
        "AFTERWORD_TEST_ALL=1 and {} is absent",
        full.display()
    );
    eprintln!("skipped: {} is absent", full.display());
    None
}
