//! `oraclectl rules eval`.

mod case;
mod outcome;
mod tally;

use bytes::Bytes;
use case::{CaseLineFault, EvalCase};
use domain_base::visible::visible_json;
use indicatif::{ProgressBar, ProgressDrawTarget};
use oracled_api::base::client::{ClientError, DaemonClient, PATIENCE, ResponseLines};
use oracled_api::base::streamed_body::{StreamedBody, StreamedBodySender};
use oracled_ctl::base::error::CtlError;
use oracled_ctl::base::input_lines::{self, InputLine, InputLineReader};
use oracled_ctl::base::options::{GlobalOptions, response_lines};
use oracled_ctl::base::output_style::OutputStyle;
use oracled_ctl::base::program::{ProgramArgs, block_on, run_program};
use oracled_ctl::rules::{RulesCommandError, RulesEvalArgs};
use outcome::{CaseOutcome, ReceivedBatchLine};
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;
use tally::CaseTally;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

const PATH: &str = "/v1/rules/evaluate:batch";

/// The name of the program.
pub const PROGRAM: &str = RulesEvalArgs::PROGRAM;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    run_program(|args: &RulesEvalArgs, options, out| block_on(Evaluation(args).run(options, out)))
}

/// The evaluation of a file of cases.
struct Evaluation<'a>(&'a RulesEvalArgs);

impl Evaluation<'_> {
    /// Evaluates the cases. Prints the table even after an error.
    async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let began = Instant::now();
        let mut run = EvalOutput { out, json: options.json, tally: CaseTally::default() };
        let ended = self.evaluate(options, &mut run).await;
        let ended =
            ended.and_then(|()| Ok(run.tally.check_result(&input_lines::display_name(&self.0.file))?));
        let EvalOutput { out, tally, .. } = run;
        let shown =
            if options.json { Ok(()) } else { tally.write(out, began.elapsed(), OutputStyle::for_stdout()) };
        // the exit status is the result of the cases, even if printing fails
        ended.and(shown.map_err(CtlError::from))
    }

    async fn evaluate(&self, options: &GlobalOptions, run: &mut EvalOutput<'_>) -> Result<(), CtlError> {
        let (input, bar) =
            input_lines::open(&self.0.file, "evaluating").map_err(|cause| self.read_error(cause))?;
        if run.json && io::stdout().is_terminal() {
            // a bar would appear between the lines
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let client = DaemonClient::connect(&options.routes_path()?).await?;
        let feed = CaseFeed::start(input).map_err(|cause| self.read_error(cause))?;
        let ended = self.read_answers(feed, client, run, &bar).await;
        bar.finish_and_clear();
        ended
    }

    /// Receives the daemon's answer to each case, in order.
    async fn read_answers(
        &self,
        CaseFeed { mut items, requests }: CaseFeed,
        client: DaemonClient,
        run: &mut EvalOutput<'_>,
        bar: &ProgressBar,
    ) -> Result<(), CtlError> {
        let mut answers = BatchResponseReader { client, requests: Some(requests), lines: None, read: 0 };
        loop {
            let outcome = match items.recv().await {
                Some(CaseFeedItem::Case(case, _room)) => {
                    CaseOutcome::from_answer(case, answers.next().await?)?
                }
                Some(CaseFeedItem::NoCase(line, fault)) => CaseOutcome::from_line_fault(line, &fault),
                Some(CaseFeedItem::Unreadable(cause)) => return Err(self.read_error(cause)),
                Some(CaseFeedItem::End) => return answers.expect_end().await,
                None => return Err(self.read_error(io::Error::other("its reader failed"))),
            };
            run.add_outcome(outcome)?;
            bar.set_message(run.tally.progress());
        }
    }

    fn read_error(&self, cause: io::Error) -> CtlError {
        CtlError::Read { file: input_lines::display_name(&self.0.file), cause }
    }
}

/// The destination of outcomes.
struct EvalOutput<'a> {
    out: &'a mut dyn Write,
    json: bool,
    tally: CaseTally,
}

impl EvalOutput<'_> {
    fn add_outcome(&mut self, outcome: CaseOutcome) -> Result<(), RulesCommandError> {
        if self.json {
            writeln!(self.out, "{}", visible_json(&outcome.to_json())).map_err(RulesCommandError::Output)?;
        }
        self.tally.add(outcome);
        Ok(())
    }
}

/// The daemon's answer.
struct BatchResponseReader {
    client: DaemonClient,
    /// The request body, until the first case is sent. Without a case, no request is sent.
    requests: Option<BatchRequest>,
    lines: Option<ResponseLines>,
    /// Number of answer lines read.
    read: u64,
}

impl BatchResponseReader {
    /// The answer to the next case.
    async fn next(&mut self) -> Result<ReceivedBatchLine, CtlError> {
        if let Some(BatchRequest { body, accepted }) = self.requests.take() {
            let response = self.client.post_lines(PATH, body).await?;
            self.lines = Some(response_lines(response).await?);
            // the receiver is gone if the reading thread has ended
            accepted.send(()).ok();
        }
        let Some(line) = self.next_line().await? else {
            return Err(ClientError::Unreadable("it ends before all cases are answered".into()).into());
        };
        self.read += 1;
        match serde_json::from_slice::<ReceivedBatchLine>(&line) {
            Ok(answer) if answer.line == self.read => Ok(answer),
            Ok(answer) => {
                let text = format!("it has line {} instead of line {}", answer.line, self.read);
                Err(ClientError::Unreadable(text).into())
            }
            Err(error) => Err(ClientError::Unreadable(error.to_string()).into()),
        }
    }

    /// Checks that the answer ends after the last case.
    async fn expect_end(&mut self) -> Result<(), CtlError> {
        match self.next_line().await? {
            None => Ok(()),
            Some(_) => Err(ClientError::Unreadable("it continues after the last case".into()).into()),
        }
    }

    async fn next_line(&mut self) -> Result<Option<Bytes>, ClientError> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        timeout(PATIENCE, lines.next_line()).await.unwrap_or(Err(ClientError::Silent(PATIENCE)))
    }
}

/// Maximum number of cases in flight.
const CASES_AT_ONCE: usize = 256;
/// Maximum size of the cases in flight, in bytes: several of the longest lines.
const BYTES_AT_ONCE: usize = 16 * 1024 * 1024;

/// The result of reading a line.
enum CaseFeedItem {
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
struct CaseFeed {
    /// Every line that is not blank, in order, then `End` or `Unreadable`. If neither comes, the reading thread failed.
    pub(crate) items: mpsc::Receiver<CaseFeedItem>,
    pub(crate) requests: BatchRequest,
}

/// The request to the daemon.
struct BatchRequest {
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

#[cfg(test)]
mod tests;
