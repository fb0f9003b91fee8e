//! The actors of oracled: who holds which state, who tells whom, and who starts again after a panic.
//!
//! An actor's handler checks, asks `domain` for the decision, commits through the logger and replies. Each has a
//! file of its own; [`system`] wires them, bottom-up, and nothing else does.

pub mod audit;
pub mod ground;
pub mod platform;
pub mod rules;
pub mod system;
pub mod upstream;
pub mod verdict;
pub mod verification;

#[cfg(test)]
mod testing;

pub use platform::clock::Clock;
pub use platform::door::{Door, NoAnswer};
#[cfg(debug_assertions)]
pub use platform::guardian::InjectPanic;
pub use platform::guardian::Supervision;
pub use system::System;
