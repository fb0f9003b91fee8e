//! Shared by all verbs: options, input, output, errors.

pub mod error;
pub mod examples;
pub mod input;
pub mod man;
pub mod options;
pub mod output;
pub mod program;
