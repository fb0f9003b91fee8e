//! The walk: it sends, checks and shows each step.

use super::outside::{Model, Outside};
use super::step::{Chapter, Socket, Step, Turn};
use super::{delivery, gate, ground, rules, verification};
use anyhow::Context;
use hyper::Method;
use oracled_actors::Clock;
use oracled_actors::platform::clock::monotonic;
use oracled_api::base::client::{Answer, Client};
use serde_json::Value;
use std::io::{self, Write};
use std::time::Duration;
use tokio::time::sleep;

/// Time limit for the arrival of a mail.
const MAIL_PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of characters shown of a body.
const SHOWN_CHARS: usize = 4000;

/// A walk in progress.
#[derive(Debug)]
pub(super) struct Walk<'w, W> {
    pub(super) out: W,
    pub(super) colour: bool,
    /// Whether to show each request and its response.
    pub(super) verbose: bool,
    pub(super) routes: Client,
    pub(super) control: Client,
    pub(super) outside: &'w Outside,
    /// The number of the log's last entry before the walk.
    pub(super) before: u64,
}

impl<W: Write> Walk<'_, W> {
    /// Walks through all chapters. Returns the number of failed ones.
    pub(super) async fn walk(mut self) -> anyhow::Result<usize> {
        let began = monotonic();
        let mut chapters = gate::chapters(self.before);
        chapters.extend(rules::chapters(self.before));
        chapters.extend(ground::chapters(self.before)?);
        chapters.extend(verification::chapters(self.before)?);
        chapters.extend(delivery::chapters(self.outside, self.before, Clock::system().now()));
        let count = chapters.len();
        let (mut failed, mut unchecked, mut requests) = (0, 0, 0);
        for chapter in chapters {
            requests += chapter.steps.len();
            unchecked += usize::from(!chapter.is_checked);
            failed += usize::from(!self.chapter(chapter).await?);
        }
        let passed = count - failed - unchecked;
        let unchecked = if unchecked == 0 { String::new() } else { format!(", {unchecked} not checked") };
        let seconds = began.elapsed().as_secs_f64();
        writeln!(
            self.out,
            "\n{passed} of {count} steps passed{unchecked} ({requests} requests, {seconds:.1} s)"
        )?;
        Ok(failed)
    }

    /// Runs the steps of a chapter up to the first failure. Returns whether no step failed.
    async fn chapter(&mut self, chapter: Chapter) -> anyhow::Result<bool> {
        let Chapter { title, steps, is_checked } = chapter;
        let (mut detail, mut fault) = (Vec::new(), None);
        let mut previous = Value::Null;
        for mut step in steps {
            step.fill_in(&previous);
            let answer = self.answer(&step, is_checked).await?;
            describe(&mut detail, &step, &answer)?;
            if is_checked {
                fault = match step.fault(&answer) {
                    None => self.mail(&step, &mut detail).await?,
                    fault => fault,
                };
            }
            if let Some(fault) = &mut fault {
                *fault = format!("{} {}: {fault}", step.method, step.path);
                break;
            }
            previous = answer.json().unwrap_or_default();
        }
        let (mark, code) = match (is_checked, &fault) {
            (false, _) => ("·", "33"),
            (true, None) => ("✓", "32"),
            (true, Some(_)) => ("✗", "31"),
        };
        let mark = if self.colour { format!("\x1b[{code}m{mark}\x1b[0m") } else { mark.to_owned() };
        let is_ok = fault.is_none();
        let fault = fault.map(|fault| format!(": {}", shortened(&fault))).unwrap_or_default();
        writeln!(self.out, "{mark} {title}{fault}")?;
        if self.verbose || !is_checked || !is_ok {
            self.out.write_all(&detail)?;
        }
        Ok(is_ok)
    }

    /// The first expected response to a step, or the last response within the step's patience.
    async fn answer(&mut self, step: &Step, is_checked: bool) -> anyhow::Result<Answer> {
        if let (Some(turn), Model::Recorded { model, .. }) = (step.turn, &self.outside.model) {
            model.set_down(turn == Turn::GoesDown);
        }
        let client = if step.socket == Socket::Routes { &mut self.routes } else { &mut self.control };
        let began = monotonic();
        loop {
            let body = step.body.clone().map(Into::into);
            let answer = client.call(step.method.clone(), &step.path, body).await?;
            if !is_checked || step.fault(&answer).is_none() || began.elapsed() >= step.patience {
                return Ok(answer);
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits for the mail that a step causes, if mails go into files. Returns an error text if the mail does not arrive.
    async fn mail(&self, step: &Step, detail: &mut Vec<u8>) -> anyhow::Result<Option<String>> {
        let (Some(id), Some(mailbox)) = (&step.mail, &self.outside.mailbox) else { return Ok(None) };
        let began = monotonic();
        while began.elapsed() < MAIL_PATIENCE {
            if let Some(mail) = mailbox.mail(id)? {
                writeln!(detail, "    mail {}", mail.file.display())?;
                writeln!(detail, "      {}", shortened(&mail.text))?;
                return Ok(None);
            }
            sleep(PAUSE).await;
        }
        Ok(Some(format!("expected a mail {id}")))
    }
}

fn describe(out: &mut impl Write, step: &Step, answer: &Answer) -> io::Result<()> {
    let socket = if step.socket == Socket::Control { " (control socket)" } else { "" };
    writeln!(out, "    {} {}{socket}", step.method, step.path)?;
    if let Some(body) = &step.body {
        writeln!(out, "      {}", shortened(body))?;
    }
    writeln!(out, "      {}", answer.status)?;
    writeln!(out, "      {}", shortened(&String::from_utf8_lossy(&answer.body)))
}

/// `text` on one line, without control characters, and shortened.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown = String::new();
    for character in line.chars().take(SHOWN_CHARS) {
        match character {
            '"' | '\'' | '\\' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    let end = if line.chars().count() > SHOWN_CHARS { "…" } else { "" };
    shown + end
}

/// The number of the last entry in the log.
pub(super) async fn last_seq(control: &mut Client) -> anyhow::Result<u64> {
    let status: Value = control.call(Method::GET, "/v1/status", None).await?.json()?;
    status.get("entries").and_then(Value::as_u64).context("the status has no `entries`")
}
