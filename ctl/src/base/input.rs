//! Files that the command line names.

use super::error::CtlError;
use clap::builder::{PathBufValueParser, TypedValueParser};
use std::io;
use std::path::{Path, PathBuf};

/// The text of a file, or of standard input if the name is `-`.
pub(crate) fn read_text(file: &Path) -> Result<String, CtlError> {
    let read =
        if file == Path::new("-") { io::read_to_string(io::stdin()) } else { std::fs::read_to_string(file) };
    read.map_err(|cause| CtlError::Read { file: file.display().to_string(), cause })
}

/// The facts in a file, one per line. Blank lines are skipped.
pub(crate) fn read_facts(file: &Path) -> Result<Vec<String>, CtlError> {
    let text = read_text(file)?;
    Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
}

/// The list of a request's `read_facts_from`, read from a file.
pub(crate) fn read_facts_from(file: &Path) -> Result<serde_json::Value, CtlError> {
    let text = read_text(file)?;
    serde_json::from_str(&text).map_err(|error| CtlError::Read {
        file: file.display().to_string(),
        cause: io::Error::other(format!("invalid JSON: {error}")),
    })
}

/// Parses a file name. Rejects `-`, since another argument of the same command may already read standard input.
pub(crate) fn regular_file_parser() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|file| {
        if file == Path::new("-") { Err("`-` is not supported here; name a file") } else { Ok(file) }
    })
}
