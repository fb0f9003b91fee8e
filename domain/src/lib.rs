//! The documents, tables, events and problems of all features: a line for each feature. What they mean is decided in the crates of the
//! features.

pub mod documents;
pub mod events;
pub mod problems;
pub mod status;
pub mod tables;
