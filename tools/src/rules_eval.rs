//! `oraclectl rules eval`.

mod case;

use crate::rules_eval::case::{CaseOutcome, CaseStatus, ReceivedBatchLine};
use bytes::Bytes;
use case::{CaseLineFault, EvalCase};
use comfy_table::Table;
use domain_base::text_form::visible_json;
use domain_base::wording::format_count;
use indicatif::{ProgressBar, ProgressDrawTarget};
use oracled_api::client::{ClientError, DaemonClient, PATIENCE, ResponseLines};
use oracled_api::streamed_body::{StreamedBody, StreamedBodySender};
use oracled_ctl::base::error::CtlError;
use oracled_ctl::base::input::{self, InputLine, InputLineReader};
use oracled_ctl::base::options::{GlobalOptions, response_lines};
use oracled_ctl::base::output::{OutputStyle, shorten_line, write_section};
use oracled_ctl::base::program::{ProgramArgs, block_on, run_program};
use oracled_ctl::rules::check::ComplaintTable;
use oracled_ctl::rules::{RulesCommandError, RulesEvalArgs};
use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};
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
        let ended = ended.and_then(|()| Ok(run.tally.check_result(&input::display_name(&self.0.file))?));
        let EvalOutput { out, tally, .. } = run;
        let shown =
            if options.json { Ok(()) } else { tally.write(out, began.elapsed(), OutputStyle::for_stdout()) };
        // the exit status is the result of the cases, even if printing fails
        ended.and(shown.map_err(CtlError::from))
    }

    async fn evaluate(&self, options: &GlobalOptions, run: &mut EvalOutput<'_>) -> Result<(), CtlError> {
        let (input, bar) = input::open(&self.0.file, "evaluating").map_err(|cause| self.read_error(cause))?;
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
        CtlError::Read { file: input::display_name(&self.0.file), cause }
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
    /// Starts a thread that reads. It is not joined, since a read from a terminal or a pipe may never return.
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

/// Maximum number of listed cases without the expected result; the rest are counted.
const LISTED_MAX: usize = 1_000;
/// Maximum number of categories counted separately; the rest are counted together.
const CATEGORIES_MAX: usize = 100;
/// Maximum length of a category's name in the table, in characters.
const NAME_MAX_CHARS: usize = 24;
/// Minimum width for a column with the category, in columns.
const WIDTH_OF_CATEGORIES: u16 = 100;
/// The category of cases without one.
pub(crate) const NO_CATEGORY: &str = "uncategorized";
/// The category for all categories above the limit.
pub(crate) const OTHER_CATEGORIES: &str = "other categories";

/// The outcomes of the cases so far, in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct CaseTally {
    all: CaseCounts,
    categories: CategoryMap<CaseCounts>,
    listed: Vec<CaseOutcome>,
    not_listed: u64,
}

/// Number of lines by outcome.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CaseCounts {
    /// The result is the expected one.
    pub(crate) agreed: u64,
    /// Passed, which was not expected.
    pub(crate) false_passes: u64,
    /// Failed, which was not expected.
    pub(crate) false_failures: u64,
    /// Failed as expected, but not by the expected rules.
    pub(crate) other_rules: u64,
    /// The verdict is `ERROR`, which was not expected.
    pub(crate) undecided: u64,
    /// The daemon failed on these cases.
    pub(crate) not_evaluated: u64,
    /// Lines that are not cases.
    pub(crate) no_cases: u64,
}

/// One `T` per category, in the order of first occurrence.
#[derive(Debug)]
pub(crate) struct CategoryMap<T>(Vec<(String, T)>);

impl<T> Default for CategoryMap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Default> CategoryMap<T> {
    /// The value of an outcome's category.
    pub(crate) fn get_or_insert(&mut self, outcome: &CaseOutcome) -> &mut T {
        let name = outcome.category.as_deref().unwrap_or(NO_CATEGORY);
        let Self(all) = self;
        let find_name = |all: &[(String, T)], name: &str| all.iter().position(|(known, _)| known == name);
        let name = match find_name(all, name) {
            None if all.len() >= CATEGORIES_MAX => OTHER_CATEGORIES,
            _ => name,
        };
        let index = find_name(all, name).unwrap_or(all.len());
        if index == all.len() {
            all.push((name.to_owned(), T::default()));
        }
        let (_, of_category) = all.get_mut(index).expect("the entry exists, or was just added");
        of_category
    }

    pub(crate) fn into_entries(self) -> Vec<(String, T)> {
        self.0
    }
}

impl CaseCounts {
    pub(crate) fn add(&mut self, end: CaseStatus) {
        *match end {
            CaseStatus::AsExpected => &mut self.agreed,
            CaseStatus::FalsePass => &mut self.false_passes,
            CaseStatus::FalseFailure => &mut self.false_failures,
            CaseStatus::OtherRules => &mut self.other_rules,
            CaseStatus::Undecided => &mut self.undecided,
            CaseStatus::NotEvaluated => &mut self.not_evaluated,
            CaseStatus::NoCase => &mut self.no_cases,
        } += 1;
    }

    const fn cases(&self) -> u64 {
        self.agreed
            + self.false_passes
            + self.false_failures
            + self.other_rules
            + self.undecided
            + self.not_evaluated
    }

    /// Number of cases, and of lines that are not cases.
    pub(crate) const fn lines(&self) -> u64 {
        self.cases() + self.no_cases
    }

    /// The counts as columns of a table.
    const fn columns(&self) -> [(&'static str, u64); 8] {
        [
            ("cases", self.cases()),
            ("agree", self.agreed),
            ("false passes", self.false_passes),
            ("false failures", self.false_failures),
            ("other rules", self.other_rules),
            ("ERROR", self.undecided),
            ("not evaluated", self.not_evaluated),
            ("not a case", self.no_cases),
        ]
    }

    /// The counts in words.
    fn format_counts(&self) -> String {
        let Self { agreed, other_rules, undecided, not_evaluated, no_cases, .. } = *self;
        let cases = format_count(self.cases(), "case", "cases");
        let share = agreed as f64 * 100.0 / self.cases().max(1) as f64;
        let mut text = format!(
            "{cases}: {agreed} agree ({share:.1} %), {}, {}",
            format_count(self.false_passes, "false pass", "false passes"),
            format_count(self.false_failures, "false failure", "false failures")
        );
        if other_rules > 0 {
            text += &format!(", {other_rules} failed by other rules");
        }
        if undecided > 0 {
            text += &format!(", {undecided} ended in ERROR");
        }
        if not_evaluated > 0 {
            text += &format!(", {not_evaluated} could not be evaluated");
        }
        if no_cases > 0 {
            text += &format!("; {}", format_count(no_cases, "line is not a case", "lines are not cases"));
        }
        text
    }
}

impl CaseTally {
    pub(crate) fn add(&mut self, outcome: CaseOutcome) {
        self.all.add(outcome.end);
        self.categories.get_or_insert(&outcome).add(outcome.end);
        if outcome.end == CaseStatus::AsExpected {
            return;
        }
        if self.listed.len() < LISTED_MAX {
            self.listed.push(outcome);
        } else {
            self.not_listed += 1;
        }
    }

    /// The message of the progress bar.
    pub(crate) fn progress(&self) -> String {
        let unexpected = self.all.lines() - self.all.agreed;
        format!("; {}, {unexpected} not as expected", format_count(self.all.lines(), "line", "lines"))
    }

    /// The result of all cases of `file`.
    pub(crate) fn check_result(&self, file: &str) -> Result<(), RulesCommandError> {
        let file = || file.to_owned();
        match self.all {
            CaseCounts { not_evaluated: cases @ 1.., .. } => Err(RulesCommandError::NotEvaluated(cases)),
            CaseCounts { no_cases: lines @ 1.., .. } => {
                Err(RulesCommandError::NoCases { file: file(), lines })
            }
            all if all.cases() == 0 => Err(RulesCommandError::Empty { file: file() }),
            all if all.agreed < all.cases() => Err(RulesCommandError::UnexpectedResults),
            _ => Ok(()),
        }
    }

    /// Prints the cases without the expected result, and the counts by category. Prints nothing if there are no lines.
    pub(crate) fn write(self, out: &mut dyn Write, took: Duration, look: OutputStyle) -> io::Result<()> {
        if self.all.lines() == 0 {
            return Ok(());
        }
        if !self.listed.is_empty() {
            write_listed(out, &self.listed, look)?;
            if self.not_listed > 0 {
                let more = format_count(self.not_listed, "more is", "more are");
                writeln!(out, "\n{more} not listed; --json lists all.")?;
            }
            writeln!(out)?;
        }
        let rate = self.all.cases() as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE);
        writeln!(out, "{}; {rate:.0} evaluations/s", self.all.format_counts())?;
        let categories = self.categories.into_entries();
        if categories.iter().any(|(name, _)| name != NO_CATEGORY) {
            write_section(out, "By category", &category_table(categories, self.all, look))?;
        }
        Ok(())
    }
}

/// The number of columns that are shown even if they are zero everywhere.
const ALWAYS: usize = 4;

/// One row per category. Columns for rare outcomes are left out if they are zero everywhere.
fn category_table(categories: Vec<(String, CaseCounts)>, all: CaseCounts, look: OutputStyle) -> Table {
    let shown = |counts: CaseCounts| {
        let with_all = counts.columns().into_iter().zip(all.columns());
        with_all
            .enumerate()
            .filter(|(index, (_, (_, all)))| *index < ALWAYS || *all > 0)
            .map(|(_, (column, _))| column)
    };
    let header: Vec<_> = ["category"].into_iter().chain(shown(all).map(|(name, _)| name)).collect();
    let mut table = look.table(&header, &[0]);
    for (name, counts) in categories {
        let numbers = shown(counts).map(|(_, number)| number.to_string());
        table.add_row([shorten_line(&name, NAME_MAX_CHARS)].into_iter().chain(numbers));
    }
    table
}

/// Prints the cases without the expected result.
fn write_listed(out: &mut dyn Write, listed: &[CaseOutcome], look: OutputStyle) -> io::Result<()> {
    let names: &[&str] = if look.width < WIDTH_OF_CATEGORIES { &["case"] } else { &["case", "category"] };
    let mut table = ComplaintTable::new(names, look);
    for outcome in listed {
        let names = [&outcome.case_name(), outcome.category.as_deref().unwrap_or_default()];
        table.add_complaints(
            &names,
            &outcome.complaints,
            outcome.complaints_omitted,
            outcome.note.as_deref(),
        );
    }
    table.write(out)
}

#[cfg(test)]
mod tests;
