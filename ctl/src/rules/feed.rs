//! Reads cases ahead of the daemon's answers, within limits, and sends them.

use super::case::{CaseLineFault, EvalCase};
use crate::base::lines::{InputLine, InputLineReader};
use oracled_api::base::streamed_body::{StreamedBody, StreamedBodySender};
use std::io::{self, BufRead};
use std::sync::Arc;
use std::thread;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Maximum number of cases in flight.
const CASES_AT_ONCE: usize = 256;
/// Maximum size of the cases in flight, in bytes: several of the longest lines.
const BYTES_AT_ONCE: usize = 16 * 1024 * 1024;

/// The result of reading a line.
pub(crate) enum CaseFeedItem {
    /// A case, which is being sent to the daemon.
    Case(EvalCase, OwnedSemaphorePermit),
    /// A line that is not a case.
    NoCase(u64, CaseLineFault),
    /// The file cannot be read any further.
    Unreadable(io::Error),
    /// The end of the file.
    End,
}

/// The reading side of a file of cases.
pub(crate) struct CaseFeed {
    /// Every line that is not blank, in order, then `End` or `Unreadable`. If neither comes, the reading thread failed.
    pub(crate) items: mpsc::Receiver<CaseFeedItem>,
    pub(crate) requests: BatchRequest,
}

/// The request to the daemon.
pub(crate) struct BatchRequest {
    /// The cases' requests, in the same order.
    pub(crate) body: StreamedBody,
    /// Signals that the daemon has begun to answer. Until then only the first case is sent: a rejection would
    /// be lost on a connection that breaks during a write.
    pub(crate) accepted: oneshot::Sender<()>,
}

impl CaseFeed {
    /// Starts a thread that reads. No one joins the thread, since a read from a terminal or a pipe may never return.
    pub(crate) fn start(input: impl BufRead + Send + 'static) -> io::Result<Self> {
        let (items_in, items) = mpsc::channel(CASES_AT_ONCE);
        let (requests, body) = StreamedBody::new(1);
        let (accepted, is_accepted) = oneshot::channel();
        let runtime = Handle::current();
        let read = move || {
            runtime.block_on(read(InputLineReader::new(input), items_in, requests, is_accepted));
        };
        thread::Builder::new().name("cases".into()).spawn(read)?;
        Ok(Self { items, requests: BatchRequest { body, accepted } })
    }
}

/// Reads until the end, or until the receiver is gone.
async fn read(
    mut lines: InputLineReader<impl BufRead>,
    items: mpsc::Sender<CaseFeedItem>,
    mut requests: StreamedBodySender,
    is_accepted: oneshot::Receiver<()>,
) -> Option<()> {
    let mut is_accepted = Some(is_accepted);
    let room = Arc::new(Semaphore::new(BYTES_AT_ONCE));
    let end = loop {
        let InputLine { number, text } = match lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => break CaseFeedItem::End,
            Err(cause) => break CaseFeedItem::Unreadable(cause),
        };
        match text.map_err(CaseLineFault::from).and_then(|text| EvalCase::parse(number, text)) {
            Ok((case, request)) => {
                let bytes = u32::try_from(request.len()).expect("a line has at most 4 MiB");
                let permit = room.clone().acquire_many_owned(bytes).await.ok()?;
                items.send(CaseFeedItem::Case(case, permit)).await.ok()?;
                requests.send(request).await.ok()?;
                if let Some(is_accepted) = is_accepted.take() {
                    is_accepted.await.ok()?;
                }
            }
            Err(fault) => items.send(CaseFeedItem::NoCase(number, fault)).await.ok()?,
        }
    };
    // the cases that were sent are complete and are answered, even if the next line cannot be read
    requests.finish();
    items.send(end).await.ok()
}
