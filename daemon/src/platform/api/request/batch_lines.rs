//! Reads a request's body line by line while it arrives, within limits.

use super::essence;
use crate::platform::api::lent_body::DISCARDED_MAX_BYTES;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_platform::clock::monotonic;
use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use domain_base::wording::excerpt;
use http_body_util::BodyExt;
use std::mem;
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// Maximum number of lines in one batch.
const SOME_LINES: usize = 64;
/// A batch with this many bytes takes no further line: the answers can be a hundred times as long, and are
/// held until the client reads them.
const SOME_BYTES: usize = 16 * 1024;
/// The media types of newline-delimited JSON; none is registered.
const MEDIA_TYPES: [&str; 3] = ["application/x-ndjson", "application/ndjson", "application/jsonl"];

/// A line that is not blank.
#[derive(Debug)]
pub(crate) struct BatchLine {
    /// Line number, from 1; blank lines count.
    pub(crate) number: u64,
    pub(crate) text: Result<Vec<u8>, Problem>,
}

/// The remaining lines of a body.
#[derive(Debug)]
pub(crate) struct BatchLineReader {
    body: Body,
    /// Bytes that have arrived and are not yet in a batch.
    buffer: Vec<u8>,
    /// Length of the beginning of the buffer without a line end.
    scanned: usize,
    /// Number of lines in batches or skipped so far.
    number: u64,
    /// Whether the rest of an overlong line is still to be skipped.
    skipping: bool,
    ended: bool,
    max_bytes: usize,
    /// Maximum time without new bytes.
    idle: Duration,
    /// Maximum time from the first to the last byte of a line.
    whole: Duration,
    /// When the first byte of an incomplete line was in the buffer; `None` without one.
    started_at: Option<Instant>,
    /// The memory for the buffer and the last batch, as a part of the memory for all bodies.
    permit: Option<OwnedSemaphorePermit>,
}

impl BatchLineReader {
    /// The lines of `request`.
    ///
    /// # Errors
    /// `UnsupportedMediaType` if the body is not declared as newline-delimited JSON.
    pub(crate) fn from_request(request: Request, service: &DaemonService) -> Result<Self, Problem> {
        let given = essence(request.headers());
        if !MEDIA_TYPES.iter().any(|known| given.eq_ignore_ascii_case(known)) {
            return Err(Problem::unsupported_media_type(&excerpt(given), "application/x-ndjson"));
        }
        let limits = &service.limits;
        Ok(Self {
            body: request.into_body(),
            buffer: Vec::new(),
            scanned: 0,
            number: 0,
            skipping: false,
            ended: false,
            max_bytes: limits.body_bytes,
            idle: Duration::from_secs(limits.idle_s),
            whole: Duration::from_secs(limits.request_s),
            started_at: None,
            permit: None,
        })
    }

    /// The next batch of lines that are not blank. Waits for a complete line if none has arrived; `None` at the end.
    /// Releases the memory of the previous batch.
    pub(crate) async fn next_batch(&mut self, service: &DaemonService) -> Option<Vec<BatchLine>> {
        self.release();
        loop {
            let lines = self.take_lines();
            if !lines.is_empty() {
                self.started_at = None;
                return Some(lines);
            }
            if self.ended {
                return None;
            }
            self.started_at =
                if self.buffer.is_empty() { None } else { self.started_at.or_else(|| Some(monotonic())) };
            if let Err(problem) = self.read_more(service).await {
                // further lines cannot be separated, or there is no memory for them
                self.ended = true;
                self.buffer.clear();
                return Some(vec![BatchLine { number: self.number + 1, text: Err(problem) }]);
            }
        }
    }

    /// Reads the rest of the body without keeping it: at most [`DISCARDED_MAX_BYTES`], within the time of a request.
    pub(crate) async fn discard_rest(&mut self, service: &DaemonService) {
        (self.buffer, self.ended) = (Vec::new(), true);
        self.release();
        let mut stopping = service.subscribe_stop();
        let body = &mut self.body;
        let discard = async {
            let mut bytes = 0;
            while bytes < DISCARDED_MAX_BYTES
                && let Some(Ok(frame)) = body.frame().await
            {
                bytes += frame.data_ref().map_or(0, Bytes::len);
            }
        };
        tokio::select! {
            biased;
            _ = timeout(self.whole, discard) => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    }

    /// Releases the part of the memory for all bodies that is no longer in the buffer.
    fn release(&mut self) {
        if let Some(permit) = &mut self.permit {
            drop(permit.split(permit.num_permits().saturating_sub(self.buffer.len())));
        }
    }

    /// Reads the next bytes into the buffer.
    async fn read_more(&mut self, service: &DaemonService) -> Result<(), Problem> {
        let mut stopping = service.subscribe_stop();
        let left = self.started_at.map(|started_at| self.whole.saturating_sub(started_at.elapsed()));
        let patience = left.map_or(self.idle, |left| left.min(self.idle));
        let frame = tokio::select! {
            biased;
            frame = timeout(patience, self.body.frame()) => frame,
            // lines that have arrived are answered; waiting for further lines would block the stop of the daemon
            _ = stopping.wait_for(|stopping| *stopping) => return Err(Problem::draining()),
        };
        let has_stalled = patience == self.idle;
        let timed_out = || {
            if has_stalled { Problem::body_stalled(self.idle) } else { Problem::request_timeout(self.whole) }
        };
        let frame = frame.map_err(|_| timed_out())?;
        match frame {
            None => self.ended = true,
            Some(frame) => {
                let frame = frame.map_err(|error| Problem::body_broken(error.to_string()))?;
                let Ok(data) = frame.into_data() else { return Ok(()) };
                let more = service.reserve_body(data.len())?;
                match &mut self.permit {
                    Some(permit) => permit.merge(more),
                    None => self.permit = Some(more),
                }
                self.buffer.extend_from_slice(&data);
            }
        }
        Ok(())
    }

    /// Takes lines out of the buffer: the complete ones, the last one at the end of the body, and an overlong
    /// one as soon as it exceeds the limit.
    fn take_lines(&mut self) -> Vec<BatchLine> {
        let (mut lines, mut bytes, mut from) = (Vec::new(), 0, 0);
        while lines.len() < SOME_LINES && bytes < SOME_BYTES {
            let rest = self.buffer.get(from..).unwrap_or_default();
            let unseen = rest.get(self.scanned..).unwrap_or_default();
            let Some(length) = unseen.iter().position(|byte| *byte == b'\n') else {
                self.scanned = rest.len();
                break;
            };
            let length = self.scanned + length;
            let line = rest.get(..length).unwrap_or_default();
            lines.extend(parse_line(line, &mut self.number, mem::take(&mut self.skipping), self.max_bytes));
            (from, bytes, self.scanned) = (from + length + 1, bytes + length, 0);
        }
        self.buffer.drain(..from);
        let open = self.scanned == self.buffer.len();
        if open && self.buffer.len() > self.max_bytes && !self.skipping {
            self.number += 1;
            let problem = Problem::body_too_large(self.max_bytes);
            lines.push(BatchLine { number: self.number, text: Err(problem) });
            self.skipping = true;
        }
        if open && (self.skipping || self.ended) {
            let last = mem::take(&mut self.buffer);
            self.scanned = 0;
            if !self.skipping {
                lines.extend(parse_line(&last, &mut self.number, false, self.max_bytes));
            }
        }
        if self.skipping {
            // a line that is skipped holds no memory
            self.release();
        }
        lines
    }
}

/// The line with `text`; `None` if it is blank, or the end of an overlong line.
fn parse_line(text: &[u8], number: &mut u64, skipped: bool, max_bytes: usize) -> Option<BatchLine> {
    if skipped {
        return None;
    }
    *number += 1;
    if text.trim_ascii().is_empty() {
        return None;
    }
    let text =
        if text.len() > max_bytes { Err(Problem::body_too_large(max_bytes)) } else { Ok(text.to_vec()) };
    Some(BatchLine { number: *number, text })
}
