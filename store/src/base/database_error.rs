//! The errors of sled as errors of the store.

use std::io;
use std::path::Path;
use store_base::error::StoreError;

/// The error for a failed read or write by sled.
pub(crate) fn database_error(dir: &Path, error: &sled::Error) -> StoreError {
    match error {
        // includes the error of an earlier failed write, which sled returns for reads until it is reopened
        sled::Error::Io(error) if !StoreError::is_damage(error) => {
            StoreError::Io { path: dir.to_owned(), source: io::Error::new(error.kind(), error.to_string()) }
        }
        _ => StoreError::Corrupt { dir: dir.to_owned(), detail: describe(error) },
    }
}

/// The text of an error of sled. Sled's own text for damage ends with an empty backtrace.
fn describe(error: &sled::Error) -> String {
    match error {
        sled::Error::Corruption { at, .. } => {
            let offset = at.map(|at| format!(" at {at:?}")).unwrap_or_default();
            format!("a checksum is wrong{offset}")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_that_sled_finds_is_described_without_a_backtrace() {
        let error = database_error(Path::new("state"), &sled::Error::Corruption { at: None, bt: () });
        let text = error.to_string();
        assert!(text.contains("a checksum is wrong") && !text.contains("backtrace"), "{text}");
    }
}
