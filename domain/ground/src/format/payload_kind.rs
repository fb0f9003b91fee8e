//! The kind of a payload by its first bytes: what `oraclectl new source` recognizes, and why a run cannot read a payload.

use super::{PayloadCompression, TextEncoding};

/// The first bytes by which a kind is recognized.
pub const START_BYTES: usize = 1024;

const HTML: &str = "it is an HTML page, not the data: probably the address leads to a page for readers or to an error; download the file \
                    that the page links to";
/// Files that hold no records, by their first text in any case, and the remedy.
const FOREIGN_TEXTS: [(&[u8], &str); 9] = [
    (
        b"version https://git-lfs.github.com/spec/",
        "it is a Git LFS pointer, not the data; fetch the file, such as by `git lfs pull`",
    ),
    (b"/annex/objects/", "it is a git-annex pointer, not the data; fetch the file by `git annex get`"),
    (b"../.git/annex/objects/", "it is a git-annex pointer, not the data; fetch the file by `git annex get`"),
    (b"<!doctype html", HTML),
    (b"<html", HTML),
    (b"<head", HTML),
    (b"<body", HTML),
    (b"<?xml", "it is XML, which is not read; export the data as CSV, JSON or NDJSON"),
    (b"<!--", "it is HTML or XML, which is not read; export the data as CSV, JSON or NDJSON"),
];
/// Those of binary files, which begin exactly so.
const FOREIGN_MAGICS: [(&[u8], &str); 7] = [
    (b"%PDF-", "it is a PDF, which is not read; export the data as CSV, JSON or NDJSON"),
    (b"PK\x03\x04", "ZIP archives and spreadsheets are not read; extract the file, or save it as CSV"),
    (b"\xd0\xcf\x11\xe0", "a spreadsheet of Excel is not read; save it as CSV"),
    (b"\xfd7zXZ", "xz is not read; decompress the file"),
    (b"7z\xbc\xaf\x27\x1c", "7z archives are not read; extract the file"),
    (b"SQLite format 3", "an SQLite database is not read; export a table as CSV"),
    (b"ARROW1", "an Arrow file is not read; convert it to Parquet"),
];

/// Why a file that begins with `start` holds no records, and the remedy; `None` if it is no such file.
#[must_use]
pub fn foreign_kind(start: &[u8]) -> Option<&'static str> {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    if let [b'B', b'Z', b'h', b'1'..=b'9', ..] = start {
        return Some("bzip2 is not read; decompress the file");
    }
    let is_text = |kind: &[u8]| start.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind));
    let text = FOREIGN_TEXTS.iter().find(|(kind, _)| is_text(kind));
    text.or_else(|| FOREIGN_MAGICS.iter().find(|(kind, _)| start.starts_with(kind)))
        .map(|(_, reason)| *reason)
}

/// The compression of a file that begins with `start`.
#[must_use]
pub const fn compression_of(start: &[u8]) -> Option<PayloadCompression> {
    match start {
        [0x1f, 0x8b, ..] => Some(PayloadCompression::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(PayloadCompression::Zstd),
        _ => None,
    }
}

/// The form of UTF-16 of a text that begins with `start`, and whether it is a guess; `None` if it is probably not UTF-16.
#[must_use]
pub fn utf_16_of(start: &[u8]) -> Option<(TextEncoding, bool)> {
    let start = start.get(..START_BYTES).unwrap_or(start);
    let nuls = |first: usize| start.iter().skip(first).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd) = (nuls(0), nuls(1));
    match start {
        [0xff, 0xfe, ..] => Some((TextEncoding::Utf16Le, false)),
        [0xfe, 0xff, ..] => Some((TextEncoding::Utf16Be, false)),
        // most characters of a table are ASCII
        _ if even == 0 && odd * 4 > start.len() => Some((TextEncoding::Utf16Le, true)),
        _ if odd == 0 && even * 4 > start.len() => Some((TextEncoding::Utf16Be, true)),
        _ => None,
    }
}

/// The cause of a failure to read a payload, with the kind of the payload if that probably explains it. `start` is the beginning of
/// the payload before its text is converted from `encoding`.
#[must_use]
pub fn explain_failure(cause: String, start: &[u8], encoding: TextEncoding) -> String {
    let option =
        |option: &str| format!("the payload is probably of another kind; write `{option}` in its pipeline");
    let utf_16 = utf_16_of(start).filter(|(found, _)| *found != encoding);
    let hint = match (compression_of(start), utf_16) {
        (Some(PayloadCompression::Gzip), _) => Some(option("compression: gzip")),
        (Some(PayloadCompression::Zstd), _) => Some(option("compression: zstd")),
        (None, Some((TextEncoding::Utf16Le, _))) => Some(option("encoding: utf-16le")),
        (None, Some((TextEncoding::Utf16Be, _))) => Some(option("encoding: utf-16be")),
        _ => foreign_kind(start).map(|reason| format!("the payload is probably of another kind: {reason}")),
    };
    match hint {
        Some(hint) => format!("{cause}; {hint}"),
        None => cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_names_the_kind_of_the_payload_if_the_pipeline_has_another_one() {
        let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<_>>();
        for (start, named) in [
            (&b"\x1f\x8b\x08\x00rest"[..], Some("`compression: gzip`")),
            (b"\x28\xb5\x2f\xfdrest", Some("`compression: zstd`")),
            (b"PK\x03\x04rest", Some("spreadsheets")),
            (b"\xef\xbb\xbf\n<!DOCTYPE html>", Some("HTML")),
            (b"\xff\xfei\0d\0", Some("`encoding: utf-16le`")),
            (&utf_16("id;name\n1;a\n"), Some("`encoding: utf-16be`")),
            (b"BZh91AY&SY", Some("bzip2")),
            (b"ARROW1\x00\x00", Some("Arrow")),
            (b"id,name\n1,a\n", None),
            (b"bzh_code,name\n", None),
            (b"BZh,name\n", None),
            (b"Arrow1,Arrow2\n", None),
            (b"", None),
        ] {
            let cause = explain_failure("cause".to_owned(), start, TextEncoding::Utf8);
            match named {
                Some(named) => assert!(cause.starts_with("cause; ") && cause.contains(named), "{cause}"),
                None => assert_eq!(cause, "cause"),
            }
        }
        let named = explain_failure("cause".to_owned(), &utf_16("id;name\n1;a\n"), TextEncoding::Utf16Be);
        assert_eq!(named, "cause", "the pipeline has this encoding");
    }
}
