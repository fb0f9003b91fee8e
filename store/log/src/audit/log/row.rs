//! The value of a row of the log: the latest timestamp in it, in microseconds, and the lines of its entries.
//!
//! The lines of a long record are compressed, alone in their row. A decision of verification has its inputs and its envelope,
//! which repeat each other and those of other decisions: with a dictionary, 15 KB take 1.3 KB.

use crate::base::rows::ROW_MAX_BYTES;
use std::borrow::Cow;
use std::cell::RefCell;
use std::io;
use std::sync::LazyLock;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

/// The bytes of the timestamp, which is big-endian.
pub(crate) const TIME_BYTES: usize = 8;
/// The longest lines of a record that are not compressed.
const PLAIN_MAX_BYTES: usize = 4 * 1024;
/// The first byte of lines that are stored as they are. No zstd frame begins with it.
const PLAIN_START: u8 = b'{';
/// The fastest level: the segment is compressed again when it is sealed.
const LEVEL: i32 = 1;
/// The entries of a typical verification. Stored rows can be read only with these bytes, so they never change.
const DICTIONARY: &[u8] = include_bytes!("dictionary.jsonl");

thread_local! {
    // a new context takes longer than a record
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

static ENCODER: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));
static DECODER: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(DICTIONARY));

/// Whether the lines of a record are compressed.
pub(crate) const fn is_long(lines: &[u8]) -> bool {
    lines.len() > PLAIN_MAX_BYTES
}

/// The value of a row with the lines of records that are not long.
pub(crate) fn plain(latest_time_us: i64, lines: &[u8]) -> Vec<u8> {
    [&latest_time_us.to_be_bytes()[..], lines].concat()
}

/// The value of a row with the lines of a long record.
pub(crate) fn compressed(latest_time_us: i64, lines: &[u8]) -> Vec<u8> {
    assert!(lines.len() <= ROW_MAX_BYTES, "a record with {} bytes of lines", lines.len());
    let frame = COMPRESSOR.with_borrow_mut(|kept| {
        let mut compressor = match kept.take() {
            Some(compressor) => compressor,
            None => {
                let mut new = Compressor::with_prepared_dictionary(&ENCODER)?;
                new.include_checksum(true)?;
                new
            }
        };
        // after an error, the next call makes a new one
        let frame = compressor.compress(lines)?;
        *kept = Some(compressor);
        io::Result::Ok(frame)
    });
    let frame = frame.expect("zstd compresses every text in memory");
    plain(latest_time_us, &frame)
}

/// The value of a row with other lines, compressed if `value` is.
pub(crate) fn with_lines(value: &[u8], lines: &[u8]) -> Vec<u8> {
    let write = if is_plain(value) { plain } else { compressed };
    write(time_of(value), lines)
}

fn is_plain(value: &[u8]) -> bool {
    value.get(TIME_BYTES).is_none_or(|first| *first == PLAIN_START)
}

/// The lines in the value of a row; `None` if it is damaged.
pub(crate) fn decode(value: &[u8]) -> Option<Cow<'_, str>> {
    let stored = value.get(TIME_BYTES..)?;
    if is_plain(value) {
        return str::from_utf8(stored).ok().map(Cow::Borrowed);
    }
    let lines = decompress(stored).ok()?;
    String::from_utf8(lines).ok().map(Cow::Owned)
}

fn decompress(frame: &[u8]) -> io::Result<Vec<u8>> {
    let length = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten();
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| *length <= ROW_MAX_BYTES).ok_or(io::ErrorKind::InvalidData)?;
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let mut decompressor = match kept.take() {
            Some(decompressor) => decompressor,
            None => Decompressor::with_prepared_dictionary(&DECODER)?,
        };
        let lines = decompressor.decompress(frame, length)?;
        *kept = Some(decompressor);
        Ok(lines)
    })
}

/// The latest timestamp in the value of a row.
pub(crate) fn time_of(value: &[u8]) -> i64 {
    value.first_chunk::<TIME_BYTES>().map_or(i64::MAX, |time| i64::from_be_bytes(*time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_base::digest::Sha256Hex;
    use proptest::prelude::*;

    #[test]
    fn dictionary_is_the_one_of_stored_rows() {
        let sha256 = "8f673b29ea266c2cfeaa1a76c222c6be27906ebeeef6a5ff34396b6ce466227e";
        assert_eq!(Sha256Hex::of(DICTIONARY).as_str(), sha256);
    }

    #[test]
    fn long_lines_are_compressed_with_the_dictionary() {
        let lines = str::from_utf8(DICTIONARY).expect("valid UTF-8").replace("office", "bureau");
        assert!(is_long(lines.as_bytes()));
        let value = compressed(7, lines.as_bytes());
        assert!(value.len() < lines.len() / 20, "{}", value.len());
        assert_eq!((time_of(&value), decode(&value).as_deref()), (7, Some(lines.as_str())));
    }

    proptest! {
        #[test]
        fn row_has_the_lines_that_were_put_into_it(line in "\\{[a-z\"é]{0,40}\n", count in 1..500_usize, time: i64) {
            let lines = line.repeat(count);
            for value in [plain(time, lines.as_bytes()), compressed(time, lines.as_bytes())] {
                prop_assert_eq!(time_of(&value), time);
                prop_assert!(decode(&value).is_some_and(|read| read == lines));
                let other = with_lines(&value, b"{0}\n");
                prop_assert_eq!(time_of(&other), time);
                prop_assert_eq!(decode(&other).map(|read| read.len()), Some(4));
                prop_assert_eq!(is_plain(&other), is_plain(&value));
            }
        }

        #[test]
        fn changed_compressed_row_is_damaged(at: prop::sample::Index, change in 1u8..) {
            let lines = "{\"seq\":1}\n".repeat(1000);
            let mut value = compressed(1, lines.as_bytes());
            let at = TIME_BYTES + at.index(value.len() - TIME_BYTES);
            value[at] ^= change;
            // a changed first byte can turn the frame into lines that are not JSON
            prop_assert!(decode(&value).is_none_or(|read| read == lines || is_plain(&value)));
        }

        #[test]
        fn bytes_of_any_kind_do_not_panic(value: Vec<u8>) {
            drop(decode(&value));
        }
    }
}
