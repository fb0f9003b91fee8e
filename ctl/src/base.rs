//! Shared by all verbs: options, input, output, errors.

pub mod arguments;
pub mod error;
pub mod examples;
pub mod input;
pub mod input_lines;
pub mod man;
pub mod options;
pub mod output;
pub mod output_stream;
pub mod output_style;
pub mod program;
