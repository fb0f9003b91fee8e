//! A request's body line by line, within bounds, while it is sent.

use super::essence;
use crate::platform::problem::Problem;
use crate::platform::service::Service;
use axum::body::Body;
use axum::extract::Request;
use http_body_util::BodyExt;
use oracled_actors::platform::clock::monotonic;
use oracled_domain::base::wording::excerpt;
use std::mem;
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// So many lines are handed out at once at the most.
const SOME_LINES: usize = 64;
/// No further line is handed out with those that have so many bytes together: what is answered to them can be a hundred
/// times as much, and is held until it is read.
const SOME_BYTES: usize = 16 * 1024;
/// What newline-delimited JSON is declared as; it has no registered name.
const MEDIA_TYPES: [&str; 3] = ["application/x-ndjson", "application/ndjson", "application/jsonl"];

/// A line that is not blank.
#[derive(Debug)]
pub(crate) struct Line {
    /// Its number, from 1, blank lines counted.
    pub(crate) number: u64,
    /// It, or why it is not taken.
    pub(crate) text: Result<Vec<u8>, Problem>,
}

/// The lines that are still to come.
#[derive(Debug)]
pub(crate) struct Lines {
    body: Body,
    /// What has come and was not handed out.
    buffer: Vec<u8>,
    /// So much of it holds no line's end.
    scanned: usize,
    /// The lines that were handed out or skipped so far.
    number: u64,
    /// The rest of a line that is too long is passed over.
    skipping: bool,
    ended: bool,
    max_bytes: usize,
    /// How long nothing may come.
    idle: Duration,
    /// How long a line may take from its beginning to its end.
    whole: Duration,
    /// Since when there has been the beginning of one.
    begun: Option<Instant>,
    /// The part of the memory for all bodies that the buffer has, and what was handed out last.
    held: Option<OwnedSemaphorePermit>,
}

impl Lines {
    /// Those of `request`.
    ///
    /// # Errors
    /// `UnsupportedMediaType` where it is not declared to be newline-delimited JSON.
    pub(crate) fn of(request: Request, service: &Service) -> Result<Self, Problem> {
        let given = essence(request.headers());
        if !MEDIA_TYPES.iter().any(|known| given.eq_ignore_ascii_case(known)) {
            return Err(Problem::unsupported_media_type(&excerpt(given), "application/x-ndjson"));
        }
        let limits = &service.config.limits;
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
            begun: None,
            held: None,
        })
    }

    /// The next lines that are not blank: those that have come, or, where none has, as soon as one comes; nothing at the
    /// end. What was handed out before counts as done with.
    pub(crate) async fn next_some(&mut self, service: &Service) -> Option<Vec<Line>> {
        self.release();
        loop {
            let lines = self.take();
            if !lines.is_empty() {
                self.begun = None;
                return Some(lines);
            }
            if self.ended {
                return None;
            }
            self.begun = if self.buffer.is_empty() { None } else { self.begun.or_else(|| Some(monotonic())) };
            if let Err(problem) = self.read(service).await {
                // what comes behind it cannot be told apart, or not be held
                self.ended = true;
                self.buffer.clear();
                return Some(vec![Line { number: self.number + 1, text: Err(problem) }]);
            }
        }
    }

    /// Gives back what is not in the buffer any more of the memory for all bodies.
    fn release(&mut self) {
        if let Some(held) = &mut self.held {
            drop(held.split(held.num_permits().saturating_sub(self.buffer.len())));
        }
    }

    /// Reads what comes next into the buffer.
    async fn read(&mut self, service: &Service) -> Result<(), Problem> {
        let mut stopping = service.stopping();
        let left = self.begun.map(|begun| self.whole.saturating_sub(begun.elapsed()));
        let patience = left.map_or(self.idle, |left| left.min(self.idle));
        let frame = tokio::select! {
            biased;
            frame = timeout(patience, self.body.frame()) => frame,
            // what has come is answered; what may still come would keep the daemon from stopping
            _ = stopping.wait_for(|stopping| *stopping) => return Err(Problem::draining()),
        };
        let max_s = if self.begun.is_some() { self.whole.min(self.idle) } else { self.idle }.as_secs();
        let frame = frame.map_err(|_| Problem::request_timeout(Duration::from_secs(max_s)))?;
        match frame {
            None => self.ended = true,
            Some(frame) => {
                let frame = frame.map_err(|error| Problem::body_broken(error.to_string()))?;
                let Ok(data) = frame.into_data() else { return Ok(()) };
                let more = service.hold_body(data.len())?;
                match &mut self.held {
                    Some(held) => held.merge(more),
                    None => self.held = Some(more),
                }
                self.buffer.extend_from_slice(&data);
            }
        }
        Ok(())
    }

    /// Takes lines out of the buffer: those that are whole, the last one at the body's end, and one that is too long as soon
    /// as it is.
    fn take(&mut self) -> Vec<Line> {
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
            lines.extend(line_of(line, &mut self.number, mem::take(&mut self.skipping), self.max_bytes));
            (from, bytes, self.scanned) = (from + length + 1, bytes + length, 0);
        }
        self.buffer.drain(..from);
        let open = self.scanned == self.buffer.len();
        if open && self.buffer.len() > self.max_bytes && !self.skipping {
            self.number += 1;
            let problem = Problem::body_too_large(self.max_bytes);
            lines.push(Line { number: self.number, text: Err(problem) });
            self.skipping = true;
        }
        if open && (self.skipping || self.ended) {
            let last = mem::take(&mut self.buffer);
            self.scanned = 0;
            if !self.skipping {
                lines.extend(line_of(&last, &mut self.number, false, self.max_bytes));
            }
        }
        if self.skipping {
            // a line that is passed over holds no memory
            self.release();
        }
        lines
    }
}

/// The line that `text` is, unless it is blank, or the end of one that was too long.
fn line_of(text: &[u8], number: &mut u64, skipped: bool, max_bytes: usize) -> Option<Line> {
    if skipped {
        return None;
    }
    *number += 1;
    if text.trim_ascii().is_empty() {
        return None;
    }
    let text =
        if text.len() > max_bytes { Err(Problem::body_too_large(max_bytes)) } else { Ok(text.to_vec()) };
    Some(Line { number: *number, text })
}
