//! Converts panics to errors: sled reports some damage by panicking.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`. If it panics, returns the first line of the panic message.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let before = CATCHING.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(before);
    done.map_err(|panic| words_of(&*panic))
}

/// Whether a panic on this thread will be returned as a store error, so that a panic hook need not report it.
#[must_use]
pub fn panic_becomes_an_error() -> bool {
    CATCHING.get()
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into());
    text.lines().next().unwrap_or_default().to_owned()
}
