//! Decodes a payload while it arrives: from the source's compression and text encoding to plain UTF-8.

use bytes::{Buf, Bytes};
use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_16BE, UTF_16LE, WINDOWS_1252};
use flate2::read::MultiGzDecoder;
use oracled_domain::ground::format::{PayloadCompression, TextEncoding};
use oracled_domain::ground::pipeline::PipelineRetrieval;
use oracled_store::StoreError;
use oracled_store::ground::archive::ArchiveWriter;
use std::io::{self, Read};
use tokio::sync::mpsc;

/// The number of bytes that are decoded at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// The most bytes of UTF-8 that a chunk of another encoding can have, with the rest of a character from the chunk before.
const DECODED_MAX_BYTES: usize = 3 * CHUNK_BYTES + 16;

#[derive(Debug)]
pub(super) enum ArchiverMessage {
    More(Bytes),
    End,
}

/// Why a payload is not in the archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store could not write the payload.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The payload is not compressed or encoded as its pipeline names it.
    #[error("{0}")]
    Undecodable(String),
    /// The decoded payload is too long.
    #[error(
        "the payload has more than {max_bytes} bytes after its decompression (`ingestion.max_payload_bytes`)"
    )]
    TooLarge {
        /// The limit, in bytes.
        max_bytes: u64,
    },
    /// An internal error.
    #[error("the payload could not be archived: {0}")]
    Inside(String),
}

/// How a payload is encoded, and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadEncoding {
    compression: Option<PayloadCompression>,
    encoding: TextEncoding,
    /// The longest payload after its decoding, in bytes.
    max_bytes: u64,
}

impl PayloadEncoding {
    /// The encoding of the payloads of a pipeline.
    #[must_use]
    pub const fn of(retrieval: &PipelineRetrieval, max_bytes: u64) -> Self {
        Self { compression: retrieval.compression, encoding: retrieval.encoding, max_bytes }
    }

    /// Passes the decoded payload of `pieces` to `archive`. Returns false if the sender was dropped before the end.
    pub(super) fn decode(
        self,
        pieces: mpsc::Receiver<ArchiverMessage>,
        archive: &mut ArchiveWriter,
    ) -> Result<bool, ArchiveError> {
        let mut pieces = PieceReader { pieces, piece: Bytes::new(), state: PieceState::Receiving };
        let decoded = match self.compression {
            None => self.copy_text(&mut pieces, archive),
            Some(PayloadCompression::Gzip) => self.copy_text(&mut MultiGzDecoder::new(&mut pieces), archive),
            Some(PayloadCompression::Zstd) => zstd::stream::read::Decoder::new(&mut pieces)
                .map_err(|error| ArchiveError::Inside(error.to_string()))
                .and_then(|mut plain| self.copy_text(&mut plain, archive)),
        };
        match pieces.state {
            PieceState::Dropped => Ok(false),
            PieceState::Receiving | PieceState::AtEnd => decoded.map(|()| true),
        }
    }

    fn copy_text(self, plain: &mut impl Read, archive: &mut ArchiveWriter) -> Result<(), ArchiveError> {
        let mut text = self.text_decoder();
        let (mut chunk, mut total) = (vec![0; CHUNK_BYTES], 0);
        loop {
            let read = match plain.read(&mut chunk) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.undecodable(total, &error)),
            };
            let bytes = chunk.get(..read).unwrap_or_default();
            let written = match &mut text {
                None => push(archive, bytes)?,
                Some(text) => text.push(bytes, archive).map_err(|fault| match fault {
                    ArchiveError::Undecodable(fault) => self.undecodable(total, &fault),
                    other => other,
                })?,
            };
            total += written as u64;
            if total > self.max_bytes {
                return Err(ArchiveError::TooLarge { max_bytes: self.max_bytes });
            }
            if read == 0 {
                return Ok(());
            }
        }
    }

    fn text_decoder(self) -> Option<TextDecoder> {
        let encoding = match self.encoding {
            TextEncoding::Utf8 => return None,
            TextEncoding::Latin1 => WINDOWS_1252,
            TextEncoding::Utf16Le => UTF_16LE,
            TextEncoding::Utf16Be => UTF_16BE,
        };
        Some(TextDecoder::new(encoding))
    }

    fn undecodable(self, at: u64, fault: &dyn std::fmt::Display) -> ArchiveError {
        let name = |value: serde_json::Result<serde_json::Value>| {
            value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
        };
        let encoding = name(serde_json::to_value(self.encoding));
        let kind = match self.compression {
            Some(compression) => format!("{} and {encoding}", name(serde_json::to_value(compression))),
            None => encoding,
        };
        ArchiveError::Undecodable(format!(
            "the payload is not {kind}, which the pipeline names, after {at} bytes of its text: {fault}"
        ))
    }
}

fn push(archive: &mut ArchiveWriter, bytes: &[u8]) -> Result<usize, ArchiveError> {
    archive.push(bytes)?;
    Ok(bytes.len())
}

/// Converts text to UTF-8.
struct TextDecoder {
    decoder: Decoder,
    text: Vec<u8>,
}

impl TextDecoder {
    fn new(encoding: &'static Encoding) -> Self {
        Self { decoder: encoding.new_decoder_with_bom_removal(), text: vec![0; DECODED_MAX_BYTES] }
    }

    /// Converts the next bytes; no bytes are the end. Returns the number of bytes of UTF-8.
    fn push(&mut self, bytes: &[u8], archive: &mut ArchiveWriter) -> Result<usize, ArchiveError> {
        let (result, _, written) =
            self.decoder.decode_to_utf8_without_replacement(bytes, &mut self.text, bytes.is_empty());
        let text = self.text.get(..written).unwrap_or_default();
        match result {
            DecoderResult::InputEmpty => push(archive, text),
            DecoderResult::OutputFull => {
                Err(ArchiveError::Inside("the buffer of a text is too short".into()))
            }
            DecoderResult::Malformed(..) => Err(ArchiveError::Undecodable(
                "it has half of a surrogate pair, or ends within a character".into(),
            )),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum PieceState {
    Receiving,
    AtEnd,
    /// The sender was dropped.
    Dropped,
}

/// Reads the pieces of a payload as they arrive.
struct PieceReader {
    pieces: mpsc::Receiver<ArchiverMessage>,
    piece: Bytes,
    state: PieceState,
}

impl Read for PieceReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !self.piece.has_remaining() {
            match self.state {
                PieceState::Receiving => match self.pieces.blocking_recv() {
                    Some(ArchiverMessage::More(piece)) => self.piece = piece,
                    Some(ArchiverMessage::End) => self.state = PieceState::AtEnd,
                    None => self.state = PieceState::Dropped,
                },
                PieceState::AtEnd => return Ok(0),
                PieceState::Dropped => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        let count = self.piece.remaining().min(into.len());
        self.piece.copy_to_slice(into.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}
