//! The supervised actors and services of oracled, and the clients of models, mail services and live sources.
//!
//! An actor's handler checks the request, calls `domain` for the decision, commits through the logger and replies. Each
//! actor has its own file in the crate of its feature. Only [`system`] wires the actors, bottom-up.

pub mod system;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use actors_audit as audit;
pub use actors_ground as ground;
pub use actors_platform as platform;
pub use actors_platform::actor_handle::{ActorCallError, ActorHandle};
pub use actors_platform::clock::Clock;
#[cfg(debug_assertions)]
pub use actors_platform::guardian::InjectPanic;
pub use actors_platform::guardian::SupervisionLimits;
pub use actors_rules as rules;
pub use actors_upstream as upstream;
pub use actors_verdict as verdict;
pub use actors_verification as verification;
pub use system::ActorSystem;
