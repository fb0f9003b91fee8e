//! Batches: one request per line, answered in order while further lines arrive.

use super::body::{ReservedBody, ReservedBodyStream};
use super::request::{BatchLine, BatchLineReader};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_platform::caller::{run_as_current_caller, spawn_for_caller};
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::header::CONTENT_TYPE;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The media type of request and response.
const MEDIA_TYPE: &str = "application/x-ndjson";
/// The maximum length of the answers of a batch that its client has not read yet, in bytes. It is less if the memory for
/// all answers is small.
const SPOOL_MAX_BYTES: usize = 16 * 1024 * 1024;
/// The share of the memory for all answers that one batch may hold.
const SPOOL_SHARE: usize = 4;
/// The memory of an answer in addition to its length, in bytes.
const ANSWER_EXTRA_BYTES: usize = 128;
/// Interval at which an answer without memory is attempted again.
const MEMORY_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The answers of a batch, on their way to the client.
///
/// Answers are spooled within a limit, because some clients write the whole request before they read. If a client reads
/// nothing while the spool is full, the batch ends with the problem `client_not_reading`.
pub(crate) struct BatchSender {
    service: Arc<DaemonService>,
    sender: mpsc::UnboundedSender<ReservedBody>,
    /// The free bytes of the spool.
    spool: Arc<Semaphore>,
    spool_bytes: usize,
    /// Number of pieces that the client has taken.
    taken: Arc<AtomicU64>,
    /// Number of lines that were answered.
    answered: u64,
    stopping: watch::Receiver<bool>,
}

/// The answer to one line, or to several ones together.
pub(crate) struct BatchPart {
    /// The number of the first line.
    pub(crate) line: u64,
    /// Number of lines.
    pub(crate) lines: u64,
    pub(crate) body: ReservedBody,
}

/// The last line of a batch whose other lines are not answered.
#[derive(Serialize)]
struct LastBatchAnswer {
    line: u64,
    problem: Box<RawValue>,
}

impl BatchSender {
    fn new(service: &Arc<DaemonService>) -> (Self, ReservedBodyStream) {
        let (sender, answers) = ReservedBodyStream::channel();
        let spool_bytes = SPOOL_MAX_BYTES.min(service.limits.bodies_bytes / SPOOL_SHARE).max(1);
        let sender = Self {
            service: Arc::clone(service),
            sender,
            spool: Arc::new(Semaphore::new(spool_bytes)),
            spool_bytes,
            taken: answers.taken(),
            answered: 0,
            stopping: service.subscribe_stop(),
        };
        (sender, answers)
    }

    /// Sends an answer. Returns false if the client has disconnected or does not read, or the daemon stops. If the
    /// client does not read, the rest of `lines` is discarded: it may read once it has written everything.
    pub(crate) async fn send(&mut self, part: BatchPart, lines: &mut BatchLineReader) -> bool {
        let BatchPart { line, lines: answered, mut body } = part;
        let patience = Duration::from_secs(self.service.limits.idle_s) / 2;
        let mut stopping = self.stopping.clone();
        let reserved = tokio::select! {
            biased;
            reserved = self.reserve(&body) => Some(reserved),
            () = self.sender.closed() => return false,
            // a client that does not read must not block the stop of the daemon
            _ = stopping.wait_for(|stopping| *stopping) => return false,
            () = self.wait_while_read(patience) => None,
        };
        if let Some(reserved) = reserved {
            reserved.into_iter().for_each(|permit| body.hold(permit));
            self.answered += answered;
            return self.sender.send(body).is_ok();
        }
        let problem = Problem::client_not_reading(self.answered, patience).to_raw();
        let last = to_line(&LastBatchAnswer { line, problem });
        if self.sender.send(ReservedBody::new(last, None)).is_ok() {
            lines.discard_rest(&self.service).await;
        }
        false
    }

    /// Waits for room in the spool, and for memory unless the client has taken all earlier answers or the answer has its
    /// own memory. Without free memory, the spool counts as full.
    async fn reserve(&self, body: &ReservedBody) -> Vec<OwnedSemaphorePermit> {
        let bytes = (body.unsent_bytes() + ANSWER_EXTRA_BYTES).min(self.spool_bytes);
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let spooled = Arc::clone(&self.spool).acquire_many_owned(permits).await;
        let mut reserved = vec![spooled.expect("the semaphore is never closed")];
        if !body.has_memory() {
            let is_next = || self.spool.available_permits() + bytes == self.spool_bytes;
            reserved.extend(reserve_memory(is_next, || self.service.try_reserve_response(bytes)).await);
        }
        reserved
    }

    /// Waits until the client has taken nothing for `patience`.
    async fn wait_while_read(&self, patience: Duration) {
        let mut before = self.taken.load(Ordering::Relaxed);
        loop {
            sleep(patience).await;
            let taken = self.taken.load(Ordering::Relaxed);
            if taken == before {
                return;
            }
            before = taken;
        }
    }
}

/// Waits for the memory of an answer, by attempts: a place in the queue for memory would take all free memory, and so
/// disconnect all clients with unread answers. Returns `None` once `is_next`: the client has taken all earlier answers.
async fn reserve_memory(
    is_next: impl Fn() -> bool + Send,
    try_reserve: impl Fn() -> Option<OwnedSemaphorePermit> + Send,
) -> Option<OwnedSemaphorePermit> {
    loop {
        if is_next() {
            return None;
        }
        if let Some(memory) = try_reserve() {
            return Some(memory);
        }
        sleep(MEMORY_CHECK_INTERVAL).await;
    }
}

/// Responds with the answers that `answer` sends for the lines of `request`.
///
/// # Errors
/// `UnsupportedMediaType` if the body is not declared as newline-delimited JSON.
pub(crate) fn respond<Fut: Future<Output = ()> + Send + 'static>(
    service: &Arc<DaemonService>,
    request: Request,
    answer: impl FnOnce(BatchLineReader, BatchSender) -> Fut,
) -> Result<Response, Problem> {
    let lines = BatchLineReader::from_request(request, service)?;
    let (sender, answers) = BatchSender::new(service);
    spawn_for_caller(answer(lines, sender));
    Ok(([(CONTENT_TYPE, MEDIA_TYPE)], Body::from(answers)).into_response())
}

/// Answers each line by `answer`, at most `at_once` at the same time. An answer is a line of JSON.
pub(crate) async fn answer_each<Fut: Future<Output = ReservedBody> + Send + 'static>(
    service: Arc<DaemonService>,
    mut lines: BatchLineReader,
    mut sender: BatchSender,
    at_once: usize,
    answer: impl Fn(BatchLine) -> Fut,
) {
    while let Some(some) = lines.next_batch(&service).await {
        let mut waiting = VecDeque::new();
        for line in some {
            if waiting.len() == at_once && !send_first(&mut waiting, &mut sender, &mut lines).await {
                return;
            }
            waiting.push_back((line.number, tokio::spawn(run_as_current_caller(answer(line)))));
        }
        while !waiting.is_empty() {
            if !send_first(&mut waiting, &mut sender, &mut lines).await {
                return;
            }
        }
    }
}

/// Sends the first of the answers. Returns false if no further answer can be sent.
async fn send_first(
    waiting: &mut VecDeque<(u64, JoinHandle<ReservedBody>)>,
    sender: &mut BatchSender,
    lines: &mut BatchLineReader,
) -> bool {
    match waiting.pop_front() {
        // an answer that panicked ends the batch, so that the client does not count lines wrongly
        Some((line, answer)) => match answer.await {
            Ok(body) => sender.send(BatchPart { line, lines: 1, body }, lines).await,
            Err(_) => false,
        },
        None => true,
    }
}

/// The line of an answer.
pub(crate) fn to_line(answer: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(answer).expect("an answer is plain data with string keys");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    async fn reserve_8(memory: &Arc<Semaphore>, is_next: bool) -> Option<OwnedSemaphorePermit> {
        reserve_memory(|| is_next, || Arc::clone(memory).try_acquire_many_owned(8).ok()).await
    }

    #[tokio::test(start_paused = true)]
    async fn answer_that_waits_for_memory_leaves_the_free_memory_to_others() {
        let memory = Arc::new(Semaphore::new(5));
        let mut waiting = Box::pin(reserve_8(&memory, false));
        assert!(timeout(Duration::from_secs(1), &mut waiting).await.is_err(), "5 bytes are free");
        assert_eq!(memory.available_permits(), 5);
        memory.add_permits(3);
        let reserved = waiting.await.expect("8 bytes are free");
        assert_eq!(reserved.num_permits(), 8);
        assert!(reserve_8(&memory, true).await.is_none(), "the next answer needs no memory");
    }
}
