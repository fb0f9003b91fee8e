//! The errors of sled as errors of the store.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`. If it panics, returns the first line of the panic message.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let before = CATCHING.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(before);
    done.map_err(|panic| first_line_of_panic(&*panic))
}

/// Whether a panic on this thread will be returned as a store error, so that a panic hook need not report it.
#[must_use]
pub fn is_panic_caught() -> bool {
    CATCHING.get()
}

fn first_line_of_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into());
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_that_sled_finds_is_described_without_a_backtrace() {
        let error = database_error(Path::new("state"), &sled::Error::Corruption { at: None, bt: () });
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        assert!(!error.to_string().contains("backtrace"), "{error}");
    }
}
