//! Shared by all verbs: options, input, output, errors.

pub(crate) mod arguments;
pub(crate) mod error;
pub(crate) mod examples;
pub(crate) mod input;
pub(crate) mod input_lines;
pub(crate) mod man;
pub(crate) mod options;
pub(crate) mod output;
pub(crate) mod output_stream;
pub(crate) mod output_style;
