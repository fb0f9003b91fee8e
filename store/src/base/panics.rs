//! Converts panics to errors: sled reports some damage by panicking.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
