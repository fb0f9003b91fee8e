//! The walk: each step is sent, held against what must come of it, and shown.

use super::mailbox::Kept;
use super::outside::{Model, Outside};
use super::show::{Ended, Screen};
use super::step::{MAIL_EVENTS, Outcome, Socket, Step, Turn, session};
use super::{delivery, gate, ground, rules, verification};
use anyhow::Context;
use hyper::Method;
use oracled_actors::Clock;
use oracled_actors::platform::clock::monotonic;
use oracled_api::base::client::{Answer, Client};
use serde_json::Value;
use std::io::Write;
use std::time::Duration;
use tokio::time::sleep;

/// How long the log and the mail are waited for, which an answer does not wait for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a mail may take of which nobody knows whether it comes.
const MAIL_TAKES: Duration = Duration::from_millis(500);
/// Between two looks at something that is waited for.
const PAUSE: Duration = Duration::from_millis(20);
/// What happens beside the walk's sessions, and because of it.
const HEALTH_EVENT: &str = "oracle_health_changed";
/// What happens because of it in nobody's session.
const RULES_EVENT: &str = "rules_evaluated";
/// What happens because of it to a review, which has the name of a decision.
const REVIEW_EVENTS: &str = "review_";
/// Where an entry says whose it is.
const NAMED_BY: [&str; 4] = ["session_id", "ontology_id", "oracle_id", "workflow_id"];
/// So many entries are read at once: all of a walk.
const ENTRIES: usize = 1000;
/// The mail service's name among the oracles.
const MAIL_ORACLE: &str = "mail";

/// A walk under way.
#[derive(Debug)]
pub(super) struct Walk<'w, W> {
    pub(super) screen: Screen<W>,
    pub(super) routes: Client,
    pub(super) control: Client,
    pub(super) outside: &'w Outside,
    /// The number of the last entry before it.
    pub(super) before: u64,
}

impl<W: Write> Walk<'_, W> {
    /// Walks and shows every step; hands back how many were not as they should be.
    pub(super) async fn walk(mut self) -> anyhow::Result<usize> {
        let mut steps = gate::steps(self.before);
        steps.extend(rules::steps(self.before));
        steps.extend(ground::steps(self.before)?);
        steps.extend(verification::steps(self.before)?);
        // what nobody can foresee comes last: it may go on behind its steps
        steps.extend(delivery::steps(self.outside, self.before, Clock::system().now()));
        let count = steps.len() + 1;
        let (mut failed, mut seen) = (0, self.before);
        let mut story = Some(Vec::new());
        let mut before = Value::Null;
        for (number, mut step) in (1..).zip(steps) {
            let title = format!("{number}/{count}  {}", step.title);
            step.fill_in(&before);
            let (ended, entries, answer) = self.step(&title, &step, seen).await?;
            before = answer.json().unwrap_or_default();
            failed += usize::from(matches!(ended, Ended::Wrong(_)));
            seen = entries.last().and_then(|entry| entry.get("seq")?.as_u64()).unwrap_or(seen);
            // what nobody can foresee may go on behind the step
            story = story.filter(|_| ended != Ended::Unforeseen).map(|story| [story, entries].concat());
        }
        let entries = self.entries(self.before).await?;
        let ended = match story {
            None => Ended::Unforeseen,
            Some(story) if story == self.of_the_walk(entries.clone()) => Ended::AsExpected,
            Some(_) => Ended::Wrong("expected no more than the steps have left there".into()),
        };
        failed += usize::from(matches!(ended, Ended::Wrong(_)));
        self.screen.title(&format!("{count}/{count}  the log tells the whole story"), &ended)?;
        self.screen.entries(&entries)?;
        self.screen.note("")?;
        Ok(failed)
    }

    /// Takes a step and shows it; hands back how it ended, the entries that it has left behind the one of number `seen`, and
    /// the answer.
    async fn step(
        &mut self,
        title: &str,
        step: &Step,
        seen: u64,
    ) -> anyhow::Result<(Ended, Vec<Value>, Answer)> {
        if let (Some(turn), Model::Recorded { model, .. }) = (step.turn, &self.outside.model) {
            model.set_down(turn == Turn::GoesDown);
        }
        if step.outcome.is_none() && step.socket == Socket::Routes {
            self.screen.note("  … may take its time")?;
        }
        let answer = self.answer(step).await?;
        let (mut wrong, mut entries) = (None, Vec::new());
        if let Some(outcome) = &step.outcome {
            wrong = outcome.wrong(&answer);
            let patience = if wrong.is_none() { PATIENCE } else { Duration::ZERO };
            entries = self.entries_of(outcome, seen, patience).await?;
            wrong = wrong.or_else(|| outcome.wrong_in_log(&entries));
        }
        let mail = self.mail(step).await?;
        if let (None, None, Some(id)) = (&wrong, &mail, &step.mail) {
            wrong = Some(format!("expected a mail {id}"));
        }
        let ended = match (&step.outcome, wrong) {
            (None, _) => Ended::Unforeseen,
            (Some(_), None) => Ended::AsExpected,
            (Some(_), Some(wrong)) => Ended::Wrong(wrong),
        };
        self.screen.title(title, &ended)?;
        self.screen.sent(step)?;
        self.screen.came(&answer)?;
        if let Some(mail) = mail {
            self.screen.mail(&mail)?;
        }
        self.screen.note("")?;
        Ok((ended, entries, answer))
    }

    /// The answer to a step: the first one that is as it should be, or the last one within its patience.
    async fn answer(&mut self, step: &Step) -> anyhow::Result<Answer> {
        let began = monotonic();
        let mut told = false;
        loop {
            let client = if step.socket == Socket::Routes { &mut self.routes } else { &mut self.control };
            let body = step.body.clone().map(Into::into);
            let answer = client.call(step.method.clone(), &step.path, body).await?;
            let wrong = step.outcome.as_ref().and_then(|outcome| outcome.wrong(&answer));
            if wrong.is_none() || began.elapsed() >= step.patience {
                return Ok(answer);
            }
            if !told {
                self.screen.note("  … waits a moment")?;
                told = true;
            }
            sleep(PAUSE).await;
        }
    }

    /// The entries that have come of a step, as soon as there are as many as it must leave, or within `patience`.
    async fn entries_of(
        &mut self,
        outcome: &Outcome,
        seen: u64,
        patience: Duration,
    ) -> anyhow::Result<Vec<Value>> {
        let began = monotonic();
        loop {
            let entries = self.entries(seen).await?;
            let entries = self.of_the_walk(entries);
            if entries.len() >= outcome.events.len() || began.elapsed() >= patience {
                return Ok(entries);
            }
            sleep(PAUSE).await;
        }
    }

    /// The mail that has come of a step. Where its entries are there, so is the mail; else it gets a moment.
    async fn mail(&self, step: &Step) -> anyhow::Result<Option<Kept>> {
        let (Some(id), Some(mailbox)) = (&step.mail, &self.outside.mailbox) else { return Ok(None) };
        if step.outcome.is_none() {
            sleep(MAIL_TAKES).await;
        }
        Ok(mailbox.mail(id)?)
    }

    /// The entries behind the one of number `seen`.
    async fn entries(&mut self, seen: u64) -> anyhow::Result<Vec<Value>> {
        let answer =
            self.control.call(Method::GET, &format!("/v1/log?after={seen}&limit={ENTRIES}"), None).await?;
        let entries = serde_json::Deserializer::from_slice(&answer.body).into_iter();
        Ok(entries.collect::<Result<_, _>>()?)
    }

    /// Those of them that are the walk's doing: the store may have a past, and a configured mail service fails or not.
    fn of_the_walk(&self, mut entries: Vec<Value>) -> Vec<Value> {
        let names = session(self.before, "");
        let mail_is_foreseen = self.outside.mailbox.is_some();
        entries.retain(|entry| {
            let word = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let of_mail = word("event").starts_with(MAIL_EVENTS) || word("oracle_id") == MAIL_ORACLE;
            let of_no_session = [HEALTH_EVENT, RULES_EVENT].contains(&word("event"))
                || word("event").starts_with(REVIEW_EVENTS);
            let is_named = NAMED_BY.iter().any(|field| word(field).starts_with(&names));
            let is_ours = is_named || of_no_session;
            is_ours && (mail_is_foreseen || !of_mail)
        });
        entries
    }
}

/// The number of the last entry in the log.
pub(super) async fn last_seq(control: &mut Client) -> anyhow::Result<u64> {
    let status: Value = control.call(Method::GET, "/v1/status", None).await?.json()?;
    status.get("entries").and_then(Value::as_u64).context("the status does not say how long the log is")
}
