//! Batches: one request per line, answered in order while further lines arrive.

use super::request::lines::{BatchLine, BatchLineReader};
use super::reserved_body::{ReservedBody, ReservedBodyStream};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::header::CONTENT_TYPE;
use oracled_actors::platform::caller::run_as_current_caller;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// The media type of request and response.
const MEDIA_TYPE: &str = "application/x-ndjson";

/// The answers of a batch, on their way to the client.
pub(crate) struct BatchSender {
    sender: mpsc::Sender<ReservedBody>,
    stopping: watch::Receiver<bool>,
}

impl BatchSender {
    /// Sends an answer. Returns false if the client has disconnected, or the daemon stops.
    pub(crate) async fn send(&mut self, answer: ReservedBody) -> bool {
        tokio::select! {
            biased;
            sent = self.sender.send(answer) => sent.is_ok(),
            // a client that does not read must not block the stop of the daemon
            _ = self.stopping.wait_for(|stopping| *stopping) => false,
        }
    }
}

/// Responds with the answers that `answer` sends for the lines of `request`.
///
/// # Errors
/// `UnsupportedMediaType` if the body is not declared as newline-delimited JSON.
pub(crate) fn respond<Fut: Future<Output = ()> + Send + 'static>(
    service: &DaemonService,
    request: Request,
    answer: impl FnOnce(BatchLineReader, BatchSender) -> Fut,
) -> Result<Response, Problem> {
    let lines = BatchLineReader::from_request(request, service)?;
    let (sender, answers) = ReservedBodyStream::channel();
    let sender = BatchSender { sender, stopping: service.subscribe_stop() };
    tokio::spawn(run_as_current_caller(answer(lines, sender)));
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
        let mut waiting: VecDeque<JoinHandle<ReservedBody>> = VecDeque::new();
        for line in some {
            if waiting.len() == at_once && !send_first(&mut waiting, &mut sender).await {
                return;
            }
            waiting.push_back(tokio::spawn(run_as_current_caller(answer(line))));
        }
        while !waiting.is_empty() {
            if !send_first(&mut waiting, &mut sender).await {
                return;
            }
        }
    }
}

/// Sends the first of the answers. Returns false if no further answer can be sent.
async fn send_first(waiting: &mut VecDeque<JoinHandle<ReservedBody>>, sender: &mut BatchSender) -> bool {
    match waiting.pop_front() {
        // an answer that panicked ends the batch, so that the client does not count lines wrongly
        Some(answer) => match answer.await {
            Ok(answer) => sender.send(answer).await,
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
