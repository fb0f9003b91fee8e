//! What became of the cases as JUnit XML, as CI systems read it: a suite for each category.

use super::super::CtlError;
use super::super::output::on_one_line;
use super::super::xml::Xml;
use super::RulesError;
use super::complaint::Complaint;
use super::excerpt::plain;
use super::outcome::{End, Outcome};
use super::tally::{Categories, Counts, NO_CATEGORY};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;
use std::time::Duration;
use tempfile::SpooledTempFile;

/// Of one suite, so much is held in memory before it goes to a temporary file: a suite begins with the numbers of what
/// is in it, which are known at the end.
const SUITE_MAX_BYTES: usize = 64 * 1024;

/// A report that is being made. The file is there from the beginning, and empty until the end, which nobody takes for
/// a success.
pub(super) struct Junit {
    name: String,
    file: File,
    all: Counts,
    suites: Categories<Suite>,
}

struct Suite {
    counts: Counts,
    cases: SpooledTempFile,
}

impl Default for Suite {
    fn default() -> Self {
        Self { counts: Counts::default(), cases: SpooledTempFile::new(SUITE_MAX_BYTES) }
    }
}

impl Junit {
    pub(super) fn create(path: &Path) -> Result<Self, RulesError> {
        let name = path.display().to_string();
        match File::create(path) {
            Ok(file) => Ok(Self { name, file, all: Counts::default(), suites: Categories::default() }),
            Err(cause) => Err(RulesError::Report { file: name, cause }),
        }
    }

    pub(super) fn add(&mut self, outcome: &Outcome) -> Result<(), RulesError> {
        self.all.add(outcome.end);
        let suite = self.suites.of(outcome);
        suite.counts.add(outcome.end);
        let written = suite.cases.write_all(test_case(outcome).as_bytes());
        written.map_err(|cause| RulesError::Report { file: self.name.clone(), cause })
    }

    /// Writes the report. An end before the last case is an error in it.
    pub(super) fn finish(mut self, took: Duration, end: Option<&CtlError>) -> Result<(), RulesError> {
        let file = self.name.clone();
        let cut_short = end.filter(|end| !matches!(end, CtlError::Rules(end) if end.is_of_all_cases()));
        self.write(took, cut_short).map_err(|cause| RulesError::Report { file, cause })
    }

    fn write(&mut self, took: Duration, cut_short: Option<&CtlError>) -> io::Result<()> {
        let mut out = BufWriter::new(&self.file);
        let mut all = self.all;
        if cut_short.is_some() {
            all.add(End::NotEvaluated);
        }
        let mut xml = Xml::default();
        let time = format!("{:.3}", took.as_secs_f64());
        xml.declare();
        let numbers = Numbers::of(&all);
        let numbers = numbers.beside(&"oraclectl rules eval");
        xml.start("testsuites", &[&numbers[..], &[("time", &time)]].concat());
        for (category, suite) in std::mem::take(&mut self.suites).into_all() {
            let (name, mut cases) = (on_one_line(&category), suite.cases);
            xml.start("testsuite", &Numbers::of(&suite.counts).beside(&name));
            out.write_all(xml.take().as_bytes())?;
            cases.rewind()?;
            io::copy(&mut cases, &mut out)?;
            xml.end("testsuite");
        }
        if let Some(cause) = cut_short {
            let mut counts = Counts::default();
            counts.add(End::NotEvaluated);
            xml.element("testsuite", &Numbers::of(&counts).beside(&"the run"), |xml| {
                xml.element("testcase", &[("name", &"the end"), ("classname", &"the run")], |xml| {
                    let message = on_one_line(&cause.to_string());
                    xml.leaf("error", &[("message", &message), ("type", &"cut_short")]);
                });
            });
        }
        xml.end("testsuites");
        out.write_all(xml.take().as_bytes())?;
        out.flush()
    }
}

/// What JUnit counts.
struct Numbers {
    tests: u64,
    failures: u64,
    errors: u64,
}

impl Numbers {
    fn of(counts: &Counts) -> Self {
        Self { tests: counts.lines(), failures: counts.failed, errors: counts.errors() }
    }

    fn beside<'a>(&'a self, name: &'a dyn Display) -> [(&'static str, &'a dyn Display); 4] {
        [("name", name), ("tests", &self.tests), ("failures", &self.failures), ("errors", &self.errors)]
    }
}

fn test_case(outcome: &Outcome) -> String {
    let mut xml = Xml::default();
    let name = on_one_line(&outcome.name());
    let category = on_one_line(outcome.category.as_deref().unwrap_or(NO_CATEGORY));
    let attributes: [(&'static str, &dyn Display); 2] = [("name", &name), ("classname", &category)];
    let kind = match outcome.end {
        End::AsWanted => {
            xml.leaf("testcase", &attributes);
            return xml.take();
        }
        End::Otherwise => "failure",
        End::Undecided | End::NoCase | End::NotEvaluated => "error",
    };
    let first = outcome.complaints.first();
    let message = first.map_or("", |complaint| complaint.message.as_str());
    let about = first.map_or_else(String::new, |complaint| complaint.about.join(", "));
    xml.element("testcase", &attributes, |xml| {
        xml.words(kind, &[("message", &message), ("type", &about)], described(outcome));
    });
    xml.take()
}

/// Every complaint with its excerpt.
fn described(outcome: &Outcome) -> String {
    let mut lines = Vec::new();
    for Complaint { about, message, excerpt } in &outcome.complaints {
        lines.push(format!("{}: {message}", about.join(", ")));
        lines.extend(excerpt.as_ref().map(|excerpt| format!("    {}", plain(&excerpt.whole()))));
    }
    if outcome.complaints_omitted > 0 {
        lines.push(format!("{} more", outcome.complaints_omitted));
    }
    lines.extend(outcome.note.as_ref().map(|note| format!("note: {note}")));
    lines.join("\n")
}
