//! The data laid beside the checkout, which is for tests only.

use std::path::{Path, PathBuf};

/// A file or folder of `../shared/data`. `None`, with a message, where it is absent; under `AFTERWORD_TEST_ALL=1` that fails
/// the test.
#[track_caller]
pub fn shared(path: &str) -> Option<PathBuf> {
    let full = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(path);
    if full.exists() {
        return Some(full);
    }
    super::absent(&format!("../shared/data/{path} is not there"));
    None
}
