//! How the walk is shown: for people, in a few lines a step.

use super::mailbox::Kept;
use super::step::{Socket, Step};
use oracled_actors::ground::queries::ChangesPage;
use oracled_api::base::client::Answer;
use oracled_domain::verdict::health::HealthStatus;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// So much of a line is shown, in characters.
const SHOWN_CHARS: usize = 150;
/// So many lines of a mail.
const MAIL_LINES: usize = 5;
/// The headers that say something of a verdict.
const HEADERS: [&str; 2] = ["x-cache", "retry-after"];
/// What is shown of an answer, and where it stands.
const FIELDS: [(&str, &str); 39] = [
    ("code", "/code"),
    ("detail", "/detail"),
    ("replayed", "/replayed"),
    ("purged", "/purged"),
    ("verdict", "/verdict"),
    ("verdict", "/verdict/verdict"),
    ("summary", "/verdict/summary"),
    ("original", "/original_verdict"),
    ("divergence", "/divergence_level"),
    ("disclaimer", "/disclaimer"),
    ("reason", "/decision/crosscheck_reason"),
    ("coherence", "/decision/coherence_score"),
    ("flags", "/decision/flags"),
    ("rules", "/evaluation/verdict"),
    ("field", "/evaluation/rules/0/violations/0/span/field"),
    ("violation", "/evaluation/rules/0/violations/0/text"),
    ("violation", "/rules/0/violations/0/text"),
    ("opposites", "/rules/4/violations/0/message"),
    ("status", "/document/review_status"),
    ("status", "/review_status"),
    ("run", "/run/run_id"),
    ("population", "/response/records/0/axes/population"),
    ("definition", "/response/records/0/definitions/population"),
    ("since", "/response/records/0/valid_from"),
    ("release", "/response/query_metadata/data_version"),
    ("raw hash", "/raw_hash"),
    ("in payload", "/raw/raw_sha256"),
    ("from byte", "/raw/offset"),
    ("rows", "/rows"),
    ("records", "/runs/1/records"),
    ("faults", "/runs/1/fault_count"),
    ("kind", "/kind"),
    ("population", "/axes/population/value"),
    ("rests on", "/axes/population/basis"),
    ("apart", "/axes/population/delta"),
    ("why", "/reasons/0"),
    ("review", "/review_id"),
    ("reason", "/resolved/resolution/reason"),
    ("reproduced", "/decisions/0/reproduced"),
];

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    AsExpected,
    Wrong(String),
    /// As it did: nobody could know.
    Unforeseen,
}

/// Where the walk is shown.
#[derive(Debug)]
pub(super) struct Screen<W> {
    pub(super) out: W,
    pub(super) colour: bool,
}

impl<W: Write> Screen<W> {
    /// A step's title, behind how it ended.
    pub(super) fn title(&mut self, title: &str, ended: &Ended) -> io::Result<()> {
        let (mark, code, wrong) = match ended {
            Ended::AsExpected => ("✓", "32", String::new()),
            Ended::Wrong(wrong) => ("✗", "31", format!(": {wrong}")),
            Ended::Unforeseen => ("·", "33", String::new()),
        };
        let mark = if self.colour { format!("\x1b[{code}m{mark}\x1b[0m") } else { mark.to_owned() };
        writeln!(self.out, "{mark} {title}{}", shortened(&wrong))
    }

    /// What was sent.
    pub(super) fn sent(&mut self, step: &Step) -> io::Result<()> {
        let socket = if step.socket == Socket::Control { " to the control socket" } else { "" };
        writeln!(self.out, "  sent {} {}{socket}", step.method, step.path)?;
        step.body.as_ref().map_or(Ok(()), |body| self.line("", body))
    }

    /// What came.
    pub(super) fn came(&mut self, answer: &Answer) -> io::Result<()> {
        writeln!(self.out, "  came {}", answer.status)?;
        for name in HEADERS {
            if let Some(value) = answer.headers.get(name).and_then(|value| value.to_str().ok()) {
                self.field(name, value)?;
            }
        }
        let document: Value = answer.json().unwrap_or_default();
        for (name, place) in FIELDS {
            if let Some(value) = document.pointer(place).filter(|value| !value.is_object()) {
                self.field(name, &value.to_string())?;
            }
        }
        for oracle in answer.json::<Vec<HealthStatus>>().unwrap_or_default() {
            let HealthStatus { status, consecutive_failures, last_error, .. } = &oracle;
            let last = last_error.as_ref().map(|error| format!(", the last: {error}")).unwrap_or_default();
            let status = format!("{}, {consecutive_failures} failures in a row{last}", status.into_str());
            self.field(oracle.oracle_id.as_str(), &status)?;
        }
        if let Ok(ChangesPage { changes, .. }) = answer.json() {
            let kinds: BTreeSet<_> = changes.iter().map(|change| change.kind).collect();
            for kind in kinds {
                let count = changes.iter().filter(|change| change.kind == kind).count();
                self.field(kind.into_str(), &count.to_string())?;
            }
        }
        Ok(())
    }

    /// A mail that has come.
    pub(super) fn mail(&mut self, mail: &Kept) -> io::Result<()> {
        writeln!(self.out, "  mail {}", mail.file.display())?;
        let lines = mail.text.lines().filter(|line| !line.is_empty()).take(MAIL_LINES);
        lines.map(str::to_owned).try_for_each(|line| self.line("", &line))
    }

    /// Entries of the log.
    pub(super) fn entries(&mut self, entries: &[Value]) -> io::Result<()> {
        entries.iter().try_for_each(|entry| self.line("", &entry.to_string()))
    }

    /// A line between the steps.
    pub(super) fn note(&mut self, note: &str) -> io::Result<()> {
        writeln!(self.out, "{note}")
    }

    fn field(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.line(&format!("{name:<11} "), value)
    }

    fn line(&mut self, name: &str, value: &str) -> io::Result<()> {
        writeln!(self.out, "       {name}{}", shortened(value))
    }
}

/// `text` on one line that steers no terminal, cut where it gets too long to read.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(SHOWN_CHARS).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
}
