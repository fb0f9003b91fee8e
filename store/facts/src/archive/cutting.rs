//! Cuts a payload into chunks at places that its content decides (FastCDC), so that a change moves no other cut.

use domain_base::digest::Sha256Stream;
use fastcdc::v2020::FastCDC;

/// The longest chunk, in bytes.
pub const CHUNK_MAX_BYTES: usize = 4 << 20;

/// The digest of a chunk: the first half of its SHA-256. Chunks with equal digests are compared.
pub(super) type ChunkDigest = [u8; 16];

/// The lengths of chunks, in bytes.
#[derive(Debug, PartialEq, Eq)]
struct ChunkLengths {
    min: usize,
    average: usize,
    max: usize,
}

/// The lengths of chunks from offset `at` on. Short chunks make small changes cheap; longer ones further on bound the
/// list of the chunks of a huge payload.
const fn lengths(at: u64) -> ChunkLengths {
    match at {
        0..0x400_0000 => ChunkLengths { min: 4 << 10, average: 16 << 10, max: 64 << 10 },
        0x400_0000..0x1_0000_0000 => ChunkLengths { min: 16 << 10, average: 64 << 10, max: 256 << 10 },
        _ => ChunkLengths { min: 256 << 10, average: 1 << 20, max: CHUNK_MAX_BYTES },
    }
}

/// The length of the first chunk of `bytes`, which begin at offset `at` of the payload. `None` if more bytes are needed
/// and `bytes` is not the end of the payload.
pub(super) fn first_chunk(bytes: &[u8], at: u64, is_end: bool) -> Option<usize> {
    let ChunkLengths { min, average, max } = lengths(at);
    if bytes.is_empty() || bytes.len() < max && !is_end {
        return None;
    }
    let (_, end) = FastCDC::new(bytes, min, average, max).cut(0, bytes.len());
    Some(end)
}

pub(super) fn digest(chunk: &[u8]) -> ChunkDigest {
    let mut sha256 = Sha256Stream::default();
    sha256.push(chunk);
    sha256.finish_bytes().first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(payload: &[u8]) -> Vec<&[u8]> {
        let (mut rest, mut chunks) = (payload, Vec::new());
        while let Some(len) = first_chunk(rest, (payload.len() - rest.len()) as u64, true) {
            let (chunk, after) = rest.split_at(len);
            chunks.push(chunk);
            rest = after;
        }
        chunks
    }

    #[test]
    fn inserted_bytes_change_few_chunks() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut payload: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(2 << 20).collect();
        let before: std::collections::HashSet<_> = cut(&payload).into_iter().map(digest).collect();
        assert!(before.len() > 60, "{} chunks", before.len());
        payload.splice(1000..1000, *b"a row");
        payload.splice(1_500_000..1_500_000, *b"another row");
        let changed = cut(&payload).into_iter().filter(|chunk| !before.contains(&digest(chunk))).count();
        assert!((2..8).contains(&changed), "{changed} chunks changed");
    }

    #[test]
    fn chunks_are_within_their_limits_at_each_offset() {
        let bytes = vec![0; CHUNK_MAX_BYTES];
        for at in [0, 0x3ff_ffff, 0x400_0000, 0xffff_ffff, 0x1_0000_0000, u64::MAX] {
            let len = first_chunk(&bytes, at, false).expect("the bytes are enough");
            assert_eq!(len, lengths(at).max, "{at}");
            assert_eq!(first_chunk(&bytes[..len - 1], at, false), None);
            assert_eq!(first_chunk(&bytes[..5], at, true), Some(5));
        }
        assert_eq!(first_chunk(b"", 0, true), None);
    }
}
