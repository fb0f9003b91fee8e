//! `oraclectl rules eval`.

use super::RulesError;
use super::feed::{Feed, Item, Requests};
use super::outcome::{Answer, Outcome};
use super::tally::Tally;
use crate::base::error::CtlError;
use crate::base::lines;
use crate::base::look::Look;
use crate::base::options::{Options, answer_lines};
use crate::base::output::harmless;
use bytes::Bytes;
use indicatif::{ProgressBar, ProgressDrawTarget};
use oracled_api::base::client::{AnswerLines, Client, ClientError, PATIENCE};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Instant;
use tokio::time::timeout;

const PATH: &str = "/v1/rules/evaluate:batch";

/// Evaluate test cases through the daemon, and show the cases with an unexpected result
///
/// A case is an evaluation request that can have three more members, which are not sent: `category` and
/// `note` (text), and `want` (`{"verdict", "failed"?}`, where `failed` lists the rules that must fail).
/// Without `want`, the expected verdict is PASS. If a line is not a case, it is reported, the other lines are
/// still evaluated, and the exit status is 5.
#[derive(Debug, clap::Args)]
pub(crate) struct Eval {
    /// The cases, one `{"candidate_output", "facts", …}` object per line; `-` reads standard input
    #[arg(value_name = "FILE.ndjson")]
    pub(crate) file: PathBuf,
}

impl Eval {
    /// Evaluates the cases. Prints the table even after an error.
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let began = Instant::now();
        let mut run = Run { out, json: options.json, tally: Tally::default() };
        let ended = self.evaluate(options, &mut run).await;
        let ended = ended.and_then(|()| Ok(run.tally.verdict(&lines::name(&self.file))?));
        let Run { out, tally, .. } = run;
        let shown = if options.json { Ok(()) } else { tally.write(out, began.elapsed(), Look::of_stdout()) };
        // the exit status is the result of the cases, even if printing fails
        ended.and(shown.map_err(CtlError::from))
    }

    async fn evaluate(&self, options: &Options, run: &mut Run<'_>) -> Result<(), CtlError> {
        let (input, bar) = lines::open(&self.file, "evaluating").map_err(|cause| self.unreadable(cause))?;
        if run.json && io::stdout().is_terminal() {
            // a bar would appear between the lines
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let client = Client::connect(&options.routes_path()).await?;
        let feed = Feed::of(input).map_err(|cause| self.unreadable(cause))?;
        let ended = self.answered(feed, client, run, &bar).await;
        bar.finish_and_clear();
        ended
    }

    /// Receives the daemon's answer to each case, in order.
    async fn answered(
        &self,
        Feed { mut items, requests }: Feed,
        client: Client,
        run: &mut Run<'_>,
        bar: &ProgressBar,
    ) -> Result<(), CtlError> {
        let mut answers = Answers { client, requests: Some(requests), lines: None, read: 0 };
        loop {
            let outcome = match items.recv().await {
                Some(Item::Case(case, _room)) => Outcome::of(case, answers.next().await?)?,
                Some(Item::NoCase(line, fault)) => Outcome::of_no_case(line, &fault),
                Some(Item::Unreadable(cause)) => return Err(self.unreadable(cause)),
                Some(Item::End) => return answers.end().await,
                None => return Err(self.unreadable(io::Error::other("its reader failed"))),
            };
            run.take(outcome)?;
            bar.set_message(run.tally.progress());
        }
    }

    fn unreadable(&self, cause: io::Error) -> CtlError {
        CtlError::Read { file: lines::name(&self.file), cause }
    }
}

/// The destination of outcomes.
struct Run<'a> {
    out: &'a mut dyn Write,
    json: bool,
    tally: Tally,
}

impl Run<'_> {
    fn take(&mut self, outcome: Outcome) -> Result<(), RulesError> {
        if self.json {
            writeln!(self.out, "{}", harmless(&outcome.to_json())).map_err(RulesError::Output)?;
        }
        self.tally.add(outcome);
        Ok(())
    }
}

/// The daemon's answer.
struct Answers {
    client: Client,
    /// The request body, until the first case is sent. Without a case, no request is sent.
    requests: Option<Requests>,
    lines: Option<AnswerLines>,
    /// Number of answer lines read.
    read: u64,
}

impl Answers {
    /// The answer to the next case.
    async fn next(&mut self) -> Result<Answer, CtlError> {
        if let Some(Requests { body, accepted }) = self.requests.take() {
            let response = self.client.exchange(PATH, body).await?;
            self.lines = Some(answer_lines(response).await?);
            // the receiver is gone if the reading thread has ended
            accepted.send(()).ok();
        }
        let Some(line) = self.line().await? else {
            return Err(ClientError::Unreadable("it ends before all cases are answered".into()).into());
        };
        self.read += 1;
        match serde_json::from_slice::<Answer>(&line) {
            Ok(answer) if answer.line == self.read => Ok(answer),
            Ok(answer) => {
                let text = format!("it has line {} instead of line {}", answer.line, self.read);
                Err(ClientError::Unreadable(text).into())
            }
            Err(error) => Err(ClientError::Unreadable(error.to_string()).into()),
        }
    }

    /// Checks that the answer ends after the last case.
    async fn end(&mut self) -> Result<(), CtlError> {
        match self.line().await? {
            None => Ok(()),
            Some(_) => Err(ClientError::Unreadable("it continues after the last case".into()).into()),
        }
    }

    async fn line(&mut self) -> Result<Option<Bytes>, ClientError> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        timeout(PATIENCE, lines.next_line()).await.unwrap_or(Err(ClientError::Silent(PATIENCE)))
    }
}
