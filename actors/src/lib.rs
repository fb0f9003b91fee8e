//! The supervised actors and services of oracled, and the clients of models, mail services and live sources.
//!
//! An actor's handler checks the request, calls `domain` for the decision, commits through the logger and replies. Each
//! actor has its own file. Only [`system`] wires the actors, bottom-up.

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

pub use platform::actor_handle::{ActorCallError, ActorHandle};
pub use platform::clock::Clock;
#[cfg(debug_assertions)]
pub use platform::guardian::InjectPanic;
pub use platform::guardian::SupervisionLimits;
pub use system::ActorSystem;
