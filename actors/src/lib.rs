//! The supervised actors and services of oracled, and the clients of models, mail services and live sources.
//!
//! An actor's handler checks the request, calls `domain` for the decision, commits through the logger and replies. Each
//! actor has its own file in the crate of its feature. Only [`system`] wires the actors, bottom-up.

pub mod system;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use system::ActorSystem;
