//! Files that a verb reads.

use super::error::CtlError;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::builder::{PathBufValueParser, TypedValueParser};
use domain_base::blank::is_blank;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The largest file that is read, in bytes.
const FILE_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// The text of a file, or of standard input if the name is `-`.
pub fn read_text(file: &Path) -> Result<String, CtlError> {
    let read =
        if file == Path::new("-") { read_all(io::stdin()) } else { File::open(file).and_then(read_all) };
    read.map_err(|cause| CtlError::Read { file: file.display().to_string(), cause })
}

/// All text of `source`, which can be foreign; an error if it has more than [`FILE_MAX_BYTES`].
pub fn read_all(source: impl Read) -> io::Result<String> {
    read_limited(source, FILE_MAX_BYTES)
}

fn read_limited(source: impl Read, bytes_max: u64) -> io::Result<String> {
    let mut text = Vec::new();
    source.take(bytes_max + 1).read_to_end(&mut text)?;
    if text.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it is too long; allowed: {bytes_max} bytes")));
    }
    String::from_utf8(text).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// The facts in a file, one per line. Blank lines are skipped.
pub fn read_facts(file: &Path) -> Result<Vec<String>, CtlError> {
    let text = read_text(file)?;
    Ok(text.lines().filter(|line| !is_blank(line)).map(str::to_owned).collect())
}

/// The list of a request's `read_facts_from`, read from a file.
pub fn read_facts_from(file: &Path) -> Result<serde_json::Value, CtlError> {
    let text = read_text(file)?;
    serde_json::from_str(&text).map_err(|error| CtlError::Read {
        file: file.display().to_string(),
        cause: io::Error::other(format!("invalid JSON: {error}")),
    })
}

/// Parses a file name. Rejects `-`, since another argument of the same command may already read standard input.
pub fn regular_file_parser() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|file| {
        if file == Path::new("-") { Err("`-` is not supported here; name a file") } else { Ok(file) }
    })
}

/// The key in the content of a file; `None` if it has another form.
pub fn decode_secret_key(content: &[u8]) -> Option<[u8; 32]> {
    BASE64_STANDARD.decode(content.trim_ascii_end()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_refused_if_it_is_longer_than_the_limit() {
        assert_eq!(read_limited(&b"four"[..], 4).ok().as_deref(), Some("four"));
        let error = read_limited(io::repeat(b'x'), 4).expect_err("it is endless");
        assert_eq!(error.to_string(), "it is too long; allowed: 4 bytes");
        assert!(read_limited(&b"\xff"[..], 4).is_err());
    }
}
