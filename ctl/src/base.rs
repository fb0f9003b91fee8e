//! Shared by all verbs: options, input, output, errors.

pub mod error;
pub mod input;
pub mod options;
pub mod output;
pub mod program;
