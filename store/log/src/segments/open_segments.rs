//! Segments that are open for reads of parts of them.

use super::frames::{Frames, FramesReader};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

/// Open segments, at most.
const OPEN_MAX: usize = 64;
/// The memory for the content of frames, in bytes. It is for values that are read soon after each other; verdicts that are read often are
/// in the cache of verdicts.
const FRAMES_BYTES: u64 = 4 << 20;
/// The typical content of a frame, with its share of the cache.
const TYPICAL_BYTES: u64 = 32 << 10;

/// Segments that are open for reads, and frames of them.
#[derive(Debug, Default)]
pub(super) struct OpenSegments {
    segments: OnceLock<Cache<u64, Arc<OpenSegment>>>,
    frames: OnceLock<FrameCache>,
}

/// The content of frames, by their segments and their numbers in them.
type FrameCache = Cache<(u64, u64), Arc<Vec<u8>>, FrameWeighter>;

#[derive(Debug, Clone)]
struct FrameWeighter;

impl Weighter<(u64, u64), Arc<Vec<u8>>> for FrameWeighter {
    fn weight(&self, _: &(u64, u64), frame: &Arc<Vec<u8>>) -> u64 {
        frame.len() as u64 + 100
    }
}

/// A file of a segment that is open for reads.
#[derive(Debug)]
pub(super) enum OpenSegment {
    Plain(File),
    Compressed(Frames),
    /// The content that is in no file.
    Merged(Arc<[u8]>),
}

impl OpenSegment {
    /// Reads the whole content.
    pub(super) fn into_read(self) -> Box<dyn Read> {
        match self {
            Self::Plain(file) => Box::new(file),
            Self::Compressed(frames) => Box::new(FramesReader::new(frames)),
            Self::Merged(content) => Box::new(io::Cursor::new(content)),
        }
    }
}

impl OpenSegments {
    fn segments(&self) -> &Cache<u64, Arc<OpenSegment>> {
        self.segments.get_or_init(|| Cache::new(OPEN_MAX))
    }

    fn frames(&self) -> &FrameCache {
        let typical = usize::try_from(FRAMES_BYTES / TYPICAL_BYTES).unwrap_or(usize::MAX);
        self.frames.get_or_init(|| Cache::with_weighter(typical, FRAMES_BYTES, FrameWeighter))
    }

    /// Closes segment `number`, whose file was replaced by one with the same content.
    pub(super) fn close(&self, number: u64) {
        self.segments().remove(&number);
    }

    /// Closes all segments, since they have other contents from now on.
    pub(super) fn clear(&self) {
        self.segments().clear();
        self.frames().clear();
    }

    /// The `length` bytes at byte `at` of segment `number`, which `open` opens.
    pub(super) fn read(
        &self,
        number: u64,
        at: u64,
        length: usize,
        open: impl FnOnce() -> io::Result<OpenSegment>,
    ) -> io::Result<Vec<u8>> {
        let segment = self.segments().get_or_insert_with(&number, || open().map(Arc::new))?;
        let frames = match &*segment {
            OpenSegment::Plain(file) => {
                let mut value = vec![0; length];
                file.read_exact_at(&mut value, at)?;
                return Ok(value);
            }
            OpenSegment::Merged(content) => {
                let start = usize::try_from(at).unwrap_or(usize::MAX);
                let value = content.get(start..).and_then(|rest| rest.get(..length));
                return value.map(<[u8]>::to_vec).ok_or(io::ErrorKind::UnexpectedEof.into());
            }
            OpenSegment::Compressed(frames) => frames,
        };
        let (first, mut start) = Frames::place_of(at);
        let mut value = Vec::with_capacity(length);
        for frame in first.. {
            let read = || frames.read(frame).map(Arc::new);
            let content = self.frames().get_or_insert_with(&(number, frame), read)?;
            let rest = content.get(start..).filter(|rest| !rest.is_empty());
            let rest = rest.ok_or(io::ErrorKind::UnexpectedEof)?;
            let (part, _) = rest.split_at(rest.len().min(length - value.len()));
            value.extend_from_slice(part);
            if value.len() == length {
                break;
            }
            start = 0;
        }
        Ok(value)
    }
}
