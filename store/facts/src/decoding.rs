//! Decodes a payload from the source's compression and text encoding to plain UTF-8.

use domain_ground::format::payload_kind::explain_failure;
use domain_ground::format::{PayloadCompression, TextEncoding};
use domain_ground::pipeline::PipelineRetrieval;
use encoding_rs::{Decoder, DecoderResult, UTF_16BE, UTF_16LE, WINDOWS_1252};
use flate2::read::MultiGzDecoder;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, ErrorKind, Read};

/// The number of bytes that are converted at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// The most bytes of UTF-8 that a chunk of another encoding can have, with the rest of a character from the chunk before.
const DECODED_MAX_BYTES: usize = 3 * CHUNK_BYTES + 16;

/// How a payload is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadEncoding {
    compression: Option<PayloadCompression>,
    text: TextEncoding,
}

/// The error of a payload that has another encoding than its pipeline names, as the source of an [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("the payload is not {encoding}, as its pipeline names it, after {at} bytes of its text: {fault}")]
pub struct DecodingError {
    encoding: PayloadEncoding,
    /// The number of decoded bytes.
    at: u64,
    fault: String,
}

/// The plain text of a payload in UTF-8.
pub struct DecodedPayload<R: Read> {
    plain: PlainReader<R>,
    encoding: PayloadEncoding,
    /// `None` for UTF-8.
    text: Option<TextDecoder>,
    /// The number of decoded bytes.
    at: u64,
}

impl PayloadEncoding {
    #[must_use]
    pub const fn new(compression: Option<PayloadCompression>, text: TextEncoding) -> Self {
        Self { compression, text }
    }

    /// The encoding of the payloads of a pipeline.
    #[must_use]
    pub const fn of(retrieval: &PipelineRetrieval) -> Self {
        Self::new(retrieval.compression, retrieval.encoding)
    }

    /// Decodes the payload of `reader`. Reads fail with a [`DecodingError`] if it has another encoding.
    ///
    /// # Errors
    /// The memory for the decompression cannot be allocated.
    pub fn decode<R: Read>(self, reader: R) -> io::Result<DecodedPayload<R>> {
        let plain = match self.compression {
            None => PlainReader::Uncompressed(reader),
            Some(PayloadCompression::Gzip) => PlainReader::Gzip(Box::new(MultiGzDecoder::new(reader))),
            Some(PayloadCompression::Zstd) => {
                PlainReader::Zstd(Box::new(zstd::stream::read::Decoder::new(reader)?))
            }
        };
        let decoder = match self.text {
            TextEncoding::Utf8 => None,
            TextEncoding::Latin1 => Some(WINDOWS_1252),
            TextEncoding::Utf16Le => Some(UTF_16LE),
            TextEncoding::Utf16Be => Some(UTF_16BE),
        };
        let text = decoder.map(|encoding| TextDecoder::new(encoding.new_decoder_with_bom_removal()));
        Ok(DecodedPayload { plain, encoding: self, text, at: 0 })
    }

    /// The cause of a failure to read a payload, with the kind of the payload if that probably explains it. `decoded` is the beginning
    /// of the decoded payload.
    #[must_use]
    pub fn explain_failure(self, cause: String, decoded: &[u8]) -> String {
        let explained = explain_failure(cause.clone(), &self.unconverted(decoded), self.text);
        if explained != cause {
            return explained;
        }
        // such as a page in the UTF-16 of its pipeline
        explain_failure(cause, decoded, self.text)
    }

    /// The bytes of a text before it was converted. The conversion back is exact, but a byte order mark of UTF-16 is missing.
    fn unconverted(self, decoded: &[u8]) -> Cow<'_, [u8]> {
        // the end can be within a character
        let text = decoded.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let utf_16 = |bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
        match self.text {
            TextEncoding::Utf8 => Cow::Borrowed(decoded),
            TextEncoding::Latin1 => WINDOWS_1252.encode(text).0,
            TextEncoding::Utf16Le => Cow::Owned(utf_16(u16::to_le_bytes)),
            TextEncoding::Utf16Be => Cow::Owned(utf_16(u16::to_be_bytes)),
        }
    }
}

impl fmt::Display for PayloadEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compression = match self.compression {
            None => "",
            Some(PayloadCompression::Gzip) => "gzip of ",
            Some(PayloadCompression::Zstd) => "zstd of ",
        };
        let text = match self.text {
            TextEncoding::Utf8 => "utf-8",
            TextEncoding::Latin1 => "latin-1",
            TextEncoding::Utf16Le => "utf-16le",
            TextEncoding::Utf16Be => "utf-16be",
        };
        write!(f, "{compression}{text}")
    }
}

impl<R: Read> Read for DecodedPayload<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Self { plain, encoding, text, at } = self;
        let read = match text {
            None => plain.read(into),
            Some(text) => text.read(plain, into),
        };
        // other kinds are errors of the reader below
        let is_encoding = |error: &io::Error| {
            let kinds =
                [ErrorKind::InvalidData, ErrorKind::InvalidInput, ErrorKind::UnexpectedEof, ErrorKind::Other];
            error.raw_os_error().is_none() && kinds.contains(&error.kind())
        };
        let read = read.map_err(|error| {
            if !is_encoding(&error) {
                return error;
            }
            let error = DecodingError { encoding: *encoding, at: *at, fault: error.to_string() };
            io::Error::new(ErrorKind::InvalidData, error)
        })?;
        self.at += read as u64;
        Ok(read)
    }
}

impl<R: Read> fmt::Debug for DecodedPayload<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodedPayload").field("encoding", &self.encoding).field("at", &self.at).finish()
    }
}

/// Finds out by its records whether a text that was converted from `latin-1` was UTF-8 before.
#[derive(Debug, Default)]
pub struct Utf8Check {
    utf8_records: u64,
    has_other: bool,
    has_evidence: bool,
}

impl Utf8Check {
    /// Notes the converted text of a record.
    pub fn note(&mut self, raw: &[u8]) {
        if self.has_other || raw.is_ascii() {
            return;
        }
        // the conversion back is exact: Windows-1252 has a character for each byte
        let before = std::str::from_utf8(raw).ok().map(|text| WINDOWS_1252.encode(text));
        let bytes = before.as_ref().filter(|(_, _, is_lossy)| !is_lossy).map(|(bytes, ..)| &**bytes);
        match bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()) {
            Some(text) => {
                self.utf8_records += 1;
                self.has_evidence |= is_hardly_windows_1252(text);
            }
            None => self.has_other = true,
        }
    }

    /// The number of records with characters outside ASCII if all of them were UTF-8 and one of them is evidence for it, else 0.
    #[must_use]
    pub const fn utf8_records(&self) -> u64 {
        if self.has_other || !self.has_evidence { 0 } else { self.utf8_records }
    }
}

/// Whether the bytes of this UTF-8 hardly occur in a text in Windows-1252. There, many capitals before a sign are a character of
/// UTF-8, such as `É®`, and so are some small letters before two signs. Words do not end in `Â`, `Ã`, `â` or `ð`, which begin the
/// signs and letters up to `ÿ`, the punctuation, and the characters beyond U+FFFF. Nor do two such series follow each other.
fn is_hardly_windows_1252(text: &str) -> bool {
    let mut follows_other = false;
    text.chars().any(|character| {
        let is_other = !character.is_ascii();
        let is_evidence = match character {
            '\u{80}'..='\u{bf}' => true,
            '\u{c0}'..='\u{ff}' => character.is_alphabetic(),
            '\u{2000}'..='\u{2fff}' | '\u{10000}'.. => true,
            _ => false,
        };
        let found = is_other && (follows_other || is_evidence);
        follows_other = is_other;
        found
    })
}

/// A payload without its compression.
enum PlainReader<R: Read> {
    Uncompressed(R),
    Gzip(Box<MultiGzDecoder<R>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, io::BufReader<R>>>),
}

impl<R: Read> Read for PlainReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Uncompressed(reader) => reader.read(into),
            Self::Gzip(reader) => reader.read(into),
            Self::Zstd(reader) => reader.read(into),
        }
    }
}

/// Converts text to UTF-8.
struct TextDecoder {
    decoder: Decoder,
    chunk: Vec<u8>,
    text: Vec<u8>,
    /// The converted bytes that were not read yet.
    start: usize,
    end: usize,
    is_at_end: bool,
}

impl TextDecoder {
    fn new(decoder: Decoder) -> Self {
        let (chunk, text) = (vec![0; CHUNK_BYTES], vec![0; DECODED_MAX_BYTES]);
        Self { decoder, chunk, text, start: 0, end: 0, is_at_end: false }
    }

    fn read(&mut self, plain: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
        while self.start == self.end && !self.is_at_end {
            let read = plain.read(&mut self.chunk)?;
            self.is_at_end = read == 0;
            let bytes = self.chunk.get(..read).unwrap_or_default();
            let (result, _, written) =
                self.decoder.decode_to_utf8_without_replacement(bytes, &mut self.text, self.is_at_end);
            if result != DecoderResult::InputEmpty {
                let fault = "it has half of a surrogate pair, or ends within a character";
                return Err(io::Error::new(ErrorKind::InvalidData, fault));
            }
            (self.start, self.end) = (0, written);
        }
        let count = into.len().min(self.end - self.start);
        let text = self.text.get(self.start..self.start + count).unwrap_or_default();
        into.get_mut(..count).unwrap_or_default().copy_from_slice(text);
        self.start += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use std::io::Write;

    /// A reader that returns pieces of this size.
    struct Pieces<'p>(&'p [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let (now, rest) = self.0.split_at(self.1.min(into.len()).min(self.0.len()));
            into[..now.len()].copy_from_slice(now);
            self.0 = rest;
            Ok(now.len())
        }
    }

    fn decode(
        compression: Option<PayloadCompression>,
        text: TextEncoding,
        payload: &[u8],
    ) -> Result<String, String> {
        let decoded = [1, 3, usize::MAX].map(|size| {
            let mut decoded = String::new();
            let reader = PayloadEncoding { compression, text }.decode(Pieces(payload, size)).expect("memory");
            let read = { reader }.read_to_string(&mut decoded);
            read.map(|_| decoded).map_err(|error| {
                assert!(error.get_ref().is_some_and(|source| source.is::<DecodingError>()), "{error}");
                error.to_string()
            })
        });
        assert_eq!(decoded[0].is_ok(), decoded[1].is_ok());
        assert_eq!(decoded[1], decoded[2]);
        decoded[2].clone()
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).expect("a write to memory succeeds");
        encoder.finish().expect("a write to memory succeeds")
    }

    #[test]
    fn payload_is_decoded_in_pieces_of_any_size() {
        let text = "Zürich 😀\n";
        let utf_16 = |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
        };
        let zstd = zstd::encode_all(text.as_bytes(), 1).expect("compressed");
        use PayloadCompression::{Gzip, Zstd};
        for (compression, encoding, payload) in [
            (None, TextEncoding::Utf8, text.as_bytes().to_vec()),
            (None, TextEncoding::Utf16Le, utf_16(u16::to_le_bytes)),
            (None, TextEncoding::Utf16Be, utf_16(u16::to_be_bytes)),
            (Some(Gzip), TextEncoding::Utf8, gzip(text)),
            (Some(Gzip), TextEncoding::Utf8, [gzip("Zür"), gzip("ich 😀\n")].concat()),
            (Some(Zstd), TextEncoding::Utf8, zstd),
        ] {
            assert_eq!(
                decode(compression, encoding, &payload).as_deref(),
                Ok(text),
                "{compression:?} {encoding:?}"
            );
        }
        assert_eq!(decode(None, TextEncoding::Latin1, b"Z\xfcrich \x80").as_deref(), Ok("Zürich €"));
        let long = "ü€😀".repeat(CHUNK_BYTES);
        let bytes: Vec<u8> = long.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(decode(None, TextEncoding::Utf16Le, &bytes) == Ok(long));
    }

    /// The result of the check of these records.
    fn utf8_records(records: &[&[u8]]) -> u64 {
        let mut check = Utf8Check::default();
        for record in records {
            let converted = decode(None, TextEncoding::Latin1, record).expect("each byte is a character");
            check.note(converted.as_bytes());
        }
        check.utf8_records()
    }

    #[test]
    fn utf8_check_counts_records_only_if_all_were_utf8() {
        let all_bytes: Vec<u8> = (0x80..=0xff).collect();
        assert_eq!(utf8_records(&["Zürich".as_bytes(), b"Bern", "Łódź 😀".as_bytes()]), 2);
        assert_eq!(utf8_records(&["Zürich".as_bytes(), b"Gen\xe8ve"]), 0);
        assert_eq!(utf8_records(&[b"Z\xfcrich", "Zürich".as_bytes()]), 0);
        assert_eq!(utf8_records(&[b"Bern"]), 0);
        assert_eq!(utf8_records(&[all_bytes.as_slice()]), 0);
    }

    #[test]
    fn utf8_check_needs_more_than_a_letter_before_signs() {
        for text in ["München", "NESCAFÉ®", "Łódź", "Москва", "don’t", "5 €", "Nº 5", "20 °C", "日本", "😀"]
        {
            assert_eq!(utf8_records(&[text.as_bytes(), b"Bern"]), 1, "{text}");
        }
        // capitals or small letters, and then `®`, `”`, `»`, `™`, or a space and `»`
        for latin in [
            &b"NESCAF\xc9\xae"[..],
            b"CAF\xc9\x94 ",
            b"K\xd6\xbb",
            b"Spa\xdf\xbb",
            b"caf\xe9\xae\x99",
            b"priv\xe9\xa0\xbb",
        ] {
            assert!(std::str::from_utf8(latin).is_ok(), "{latin:?}");
            assert_eq!(utf8_records(&[latin, b"Bern"]), 0, "{latin:?}");
        }
    }

    #[test]
    fn failure_names_the_kind_of_a_payload_whose_text_is_converted() {
        use TextEncoding::{Latin1, Utf16Be, Utf16Le};
        let utf_16 = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            text.encode_utf16().flat_map(bytes).collect()
        };
        for (encoding, payload, named) in [
            (Latin1, gzip("id,name\n1,a\n"), Some("`compression: gzip`")),
            (Latin1, utf_16("\u{feff}id,name\n", u16::to_le_bytes), Some("`encoding: utf-16le`")),
            (Latin1, b"PK\x03\x04\xe9rest".to_vec(), Some("spreadsheets")),
            (Latin1, b"<!DOCTYPE html>".to_vec(), Some("HTML")),
            (Latin1, b"id,name\n1,Z\xfcrich\n".to_vec(), None),
            (Utf16Le, b"<html><body>ab".to_vec(), Some("HTML")),
            (Utf16Le, utf_16("<html>", u16::to_le_bytes), Some("HTML")),
            (Utf16Le, utf_16("id,name\n", u16::to_be_bytes), Some("`encoding: utf-16be`")),
            (Utf16Le, utf_16("id,name\n", u16::to_le_bytes), None),
            (Utf16Be, utf_16("id,name\n", u16::to_le_bytes), Some("`encoding: utf-16le`")),
        ] {
            let decoded = decode(None, encoding, &payload).expect("the text is converted");
            let cause =
                PayloadEncoding::new(None, encoding).explain_failure("cause".into(), decoded.as_bytes());
            match named {
                Some(named) => assert!(cause.starts_with("cause; ") && cause.contains(named), "{cause}"),
                None => assert_eq!(cause, "cause", "{encoding:?}"),
            }
        }
    }

    #[test]
    fn payload_in_another_encoding_is_an_error() {
        use PayloadCompression::{Gzip, Zstd};
        let gzipped = gzip("text");
        let zstd = zstd::encode_all(&b"text"[..], 1).expect("compressed");
        for (compression, encoding, payload) in [
            (Some(Gzip), TextEncoding::Utf8, b"text".to_vec()),
            (Some(Gzip), TextEncoding::Utf8, zstd.clone()),
            (Some(Gzip), TextEncoding::Utf8, gzipped[..gzipped.len() - 3].to_vec()),
            (Some(Gzip), TextEncoding::Utf8, [&gzipped[..], b"rest"].concat()),
            (Some(Zstd), TextEncoding::Utf8, gzipped),
            (Some(Zstd), TextEncoding::Utf8, zstd[..zstd.len() - 1].to_vec()),
            (None, TextEncoding::Utf16Le, b"a\0b".to_vec()),
            (None, TextEncoding::Utf16Be, vec![0xd8, 0, 0, b'a']),
        ] {
            assert!(decode(compression, encoding, &payload).is_err(), "{compression:?} {encoding:?}");
        }
    }
}
