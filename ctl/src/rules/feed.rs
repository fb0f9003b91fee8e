//! Cases on their way to the daemon: read ahead of the answers, within bounds.

use super::case::{Case, LineFault};
use crate::base::lines::{Line, Lines};
use oracled_api::base::pieces::{Pieces, Sender};
use std::io::{self, BufRead};
use std::sync::Arc;
use std::thread;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// So many cases are on their way at the most.
const CASES_AT_ONCE: usize = 256;
/// And so many bytes of them: several of the longest lines.
const BYTES_AT_ONCE: usize = 16 * 1024 * 1024;

/// What a line came to.
pub(crate) enum Item {
    /// A case, which the daemon is being sent.
    Case(Case, OwnedSemaphorePermit),
    /// A line that is none.
    NoCase(u64, LineFault),
    /// Nothing more can be read.
    Unreadable(io::Error),
    /// There was no more to read.
    End,
}

/// The reading side of a file of cases.
pub(crate) struct Feed {
    /// Every line that is not blank, in order, and how they end. Where that is missing, the reading failed.
    pub(crate) items: mpsc::Receiver<Item>,
    pub(crate) requests: Requests,
}

/// What the daemon is sent.
pub(crate) struct Requests {
    /// The cases' requests, in the same order.
    pub(crate) body: Pieces,
    /// To be told when the daemon has begun to answer: until then it is sent the first case alone, since a refusal
    /// would be lost on a connection that breaks amid a write.
    pub(crate) accepted: oneshot::Sender<()>,
}

impl Feed {
    /// Begins to read. A thread does, which nothing waits for: a read from a terminal or a pipe may never return.
    pub(crate) fn of(input: impl BufRead + Send + 'static) -> io::Result<Self> {
        let (items_in, items) = mpsc::channel(CASES_AT_ONCE);
        let (requests, body) = Pieces::new(1);
        let (accepted, is_accepted) = oneshot::channel();
        let runtime = Handle::current();
        let read = move || {
            runtime.block_on(read(Lines::new(input), items_in, requests, is_accepted));
        };
        thread::Builder::new().name("cases".into()).spawn(read)?;
        Ok(Self { items, requests: Requests { body, accepted } })
    }
}

/// Reads to the end, or until nobody wants more.
async fn read(
    mut lines: Lines<impl BufRead>,
    items: mpsc::Sender<Item>,
    mut requests: Sender,
    is_accepted: oneshot::Receiver<()>,
) -> Option<()> {
    let mut is_accepted = Some(is_accepted);
    let room = Arc::new(Semaphore::new(BYTES_AT_ONCE));
    let end = loop {
        let Line { number, text } = match lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => break Item::End,
            Err(cause) => break Item::Unreadable(cause),
        };
        match text.map_err(LineFault::from).and_then(|text| Case::read(number, text)) {
            Ok((case, request)) => {
                let bytes = u32::try_from(request.len()).expect("a request is as short as its line");
                let permit = room.clone().acquire_many_owned(bytes).await.ok()?;
                items.send(Item::Case(case, permit)).await.ok()?;
                requests.send(request).await.ok()?;
                if let Some(is_accepted) = is_accepted.take() {
                    is_accepted.await.ok()?;
                }
            }
            Err(fault) => items.send(Item::NoCase(number, fault)).await.ok()?,
        }
    };
    // the cases that were sent are whole, and answered, whatever became of those behind them
    requests.finish();
    items.send(end).await.ok()
}
