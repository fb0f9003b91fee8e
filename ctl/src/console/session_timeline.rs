//! The rows of a session's timeline: its order with its attempts and waits, and the entries of its history under names in words.

use super::delivery::is_webhook;
use super::parts::{Tone, badge, capitalized, card, words};
use super::timeline::{self, TimelineRow};
use domain_base::event::EntryMembers;
use domain_base::moment::Moment;
use domain_verdict::generation::GenerationOutcome;
use domain_verdict::order::{Order, OrderState};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// From and until.
type TimeSpan = (Timestamp, Timestamp);

pub(super) fn render(order: Option<&Order>, history: &[Json]) -> Markup {
    let now = Timestamp::now();
    let is_held = order.is_some_and(|order| order.state == OrderState::Held);
    let entries = HistoryRows::read(history, is_held.then_some(now)).rows;
    let holds: Vec<_> =
        entries.iter().filter(|row| row.name == HOLD).flat_map(|row| &row.spans).copied().collect();
    let mut rows = match order {
        Some(order) => order_rows(order, &holds, now),
        None => vec![whole_row(&entries)],
    };
    rows.extend(entries);
    let legend = html! {
        (badge(Tone::Waiting, "dashed: waiting"))
        (badge(Tone::Neutral, "hatched: a time without events, shortened"))
    };
    card("Timeline", &legend, &timeline::render(&rows))
}

/// Without an order, the whole is the time of its entries.
fn whole_row(entries: &[TimelineRow]) -> TimelineRow {
    let spans = || entries.iter().flat_map(|row| &row.spans);
    let whole = spans().map(|(from, _)| *from).min().zip(spans().map(|(_, until)| *until).max());
    TimelineRow {
        name: "Session".to_owned(),
        note: String::new(),
        tone: Tone::Neutral,
        is_wait: false,
        spans: whole.into_iter().collect(),
    }
}

fn order_rows(order: &Order, holds: &[TimeSpan], now: Timestamp) -> Vec<TimelineRow> {
    let end = if order.state.has_ended() { order.changed_at } else { now };
    let (tone, note) = match order.state {
        OrderState::Delivered => (Tone::Ok, "placed to delivered".to_owned()),
        OrderState::Failed => (Tone::Refused, "placed to failed".to_owned()),
        state => (Tone::Info, format!("placed, {}", state.into_str())),
    };
    let row = |name: String, note: String, tone: Tone, spans: Vec<TimeSpan>| TimelineRow {
        name,
        note,
        tone,
        is_wait: tone == Tone::Waiting,
        spans,
    };
    let mut rows = vec![row("Order".to_owned(), note, tone, vec![(order.placed_at, end)])];
    let mut waits = Vec::new();
    let mut free_since = order.placed_at;
    for attempt in &order.last_attempts {
        waits.push((free_since, attempt.started_at));
        free_since = attempt.ended_at.unwrap_or(now);
        let tone = match attempt.outcome {
            None => Tone::Info,
            Some(GenerationOutcome::Held) => Tone::Held,
            Some(_) if attempt.cause.is_none() => Tone::Ok,
            Some(_) => Tone::Refused,
        };
        let name = format!("Attempt {}", attempt.attempt);
        rows.push(row(name, words(order.outcome_of(attempt)), tone, vec![(attempt.started_at, free_since)]));
    }
    waits.push((free_since, end));
    // a hold has a row of its own
    for (held_from, held_until) in holds {
        let apart = |(from, until): TimeSpan| [(from, until.min(*held_from)), (from.max(*held_until), until)];
        waits = waits.into_iter().flat_map(apart).collect();
    }
    waits.retain(|(from, until)| from < until);
    if !waits.is_empty() {
        rows.push(row("Waits".to_owned(), "for an attempt".to_owned(), Tone::Waiting, waits));
    }
    rows
}

/// The name of the row with the times in which an order was held.
const HOLD: &str = "Hold";

/// The rows of the entries, in the order of their first ones.
#[derive(Default)]
struct HistoryRows {
    rows: Vec<TimelineRow>,
    /// When messages were queued, by their ids. An attempt removes its message: the wait for the next attempt is no work.
    messages: BTreeMap<String, Timestamp>,
    held_from: Option<Timestamp>,
}

impl HistoryRows {
    /// `held_until` is the time until which the order is held, if it still is.
    fn read(history: &[Json], held_until: Option<Timestamp>) -> Self {
        let mut rows = Self::default();
        for entry in history.iter().map(EntryMembers) {
            if let Ok(Moment(at)) = entry.text("timestamp").parse() {
                rows.read_entry(entry, at);
            }
        }
        if let Some(span) = rows.held_from.take().zip(held_until) {
            rows.add((HOLD.to_owned(), "for a person".to_owned(), Tone::Held), span);
        }
        rows
    }

    fn read_entry(&mut self, entry: EntryMembers<'_>, at: Timestamp) {
        match entry.text("event").as_str() {
            // the rows of the order have them
            "order_placed" | "order_attempted" | "order_attempt_failed" => {}
            "order_stopped" if entry.text("state") == "held" => self.held_from = Some(at),
            event @ ("order_released" | "order_retried" | "order_cancelled" | "order_stopped") => {
                let from = self.held_from.take();
                let (name, note) = match from {
                    Some(_) => (HOLD.to_owned(), words(event.trim_start_matches("order_"))),
                    None => (capitalized(event), String::new()),
                };
                self.add((name, note, Tone::Held), (from.unwrap_or(at), at));
            }
            _ => {
                let span = self.span_of(entry, at);
                self.add(describe(entry), span);
            }
        }
    }

    /// The time of an entry: that of the call or the attempt that it ends, or only its own.
    fn span_of(&mut self, entry: EntryMembers<'_>, at: Timestamp) -> TimeSpan {
        let text = |path: &str| entry.text(path);
        let latency = text("latency_ms").parse().ok().map(SignedDuration::from_millis);
        let began = match text("event").as_str() {
            "message_queued" | "message_requeued" => {
                self.messages.insert(text("message_id"), at);
                None
            }
            "message_sent" | "message_failed" => self.messages.remove(&text("message_id")),
            // the entries of a call are committed when its last request has ended
            "oracle_interaction" => {
                let from = text("request_timestamp").parse().map_or(at, |Moment(from)| from);
                return (from, from.checked_add(latency.unwrap_or_default()).unwrap_or(from));
            }
            _ => None,
        };
        let called = latency.and_then(|latency| at.checked_sub(latency).ok());
        (called.or(began).unwrap_or(at), at)
    }

    fn add(&mut self, (name, note, tone): (String, String, Tone), span: TimeSpan) {
        match self.rows.iter_mut().find(|row| row.name == name) {
            Some(row) => {
                row.tone = tone;
                row.spans.push(span);
                if !note.is_empty() && row.note.split(", ").all(|known| known != note) {
                    row.note = format!("{}, {note}", row.note).trim_start_matches(", ").to_owned();
                }
            }
            None => {
                let is_wait = name == HOLD;
                self.rows.push(TimelineRow { name, note, tone, is_wait, spans: vec![span] });
            }
        }
    }
}

/// The row of an entry, its note there, and its tone. An event that is not known has a row with its name.
fn describe(entry: EntryMembers<'_>) -> (String, String, Tone) {
    let text = |path: &str| entry.text(path);
    let judged = |is_good: bool| if is_good { Tone::Ok } else { Tone::Refused };
    let event = text("event");
    let (name, note, tone) = match event.as_str() {
        "tmm_crosscheck" => ("Decision", "crosscheck".to_owned(), judged(entry.is_true("approved"))),
        "crosscheck_error" => ("Decision", "crosscheck".to_owned(), Tone::Refused),
        "rules_evaluated" => ("Decision", "rules".to_owned(), judged(text("verdict") == "PASS")),
        "policy_applied" => ("Decision", "policy".to_owned(), Tone::Held),
        "verdict_cached" => ("Delivery", "stored".to_owned(), Tone::Ok),
        "order_delivered" => ("Delivery", String::new(), Tone::Ok),
        "message_queued" | "message_requeued" | "message_sent" | "message_failed" | "message_dropped" => {
            let tone = match event.as_str() {
                "message_sent" => Tone::Ok,
                "message_queued" | "message_requeued" => Tone::Waiting,
                _ => Tone::Refused,
            };
            (if is_webhook(entry) { "Webhook" } else { "Mail" }, words(&text("kind")), tone)
        }
        "regen_attempted" => ("Regeneration", "of a lost verdict".to_owned(), Tone::Stale),
        "regen_failed" => ("Regeneration", words(&text("outcome")), Tone::Refused),
        "oracle_interaction" if text("path") == "regen" => {
            ("Regeneration", String::new(), judged(text("status") == "success"))
        }
        "oracle_interaction" => ("Model", text("oracle_id"), judged(text("status") == "success")),
        "regen_divergence_check" => {
            let tone = match text("divergence_level").as_str() {
                "" => Tone::Neutral,
                "none" => Tone::Ok,
                _ => Tone::Diverged,
            };
            ("Divergence", format!("{} → {}", text("original_verdict"), text("regen_verdict")), tone)
        }
        _ => return (capitalized(&event), String::new(), Tone::Info),
    };
    (name.to_owned(), note, tone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn entry(second: i64, event: &str, mut members: Json) -> Json {
        members["timestamp"] = json!(at(second));
        members["event"] = json!(event);
        members
    }

    /// The name and the note of a row, and its spans in seconds.
    type ShownRow = (String, String, Vec<(i64, i64)>);

    fn shown(history: &[Json], held_until: Option<Timestamp>) -> Vec<ShownRow> {
        let rows = HistoryRows::read(history, held_until).rows.into_iter();
        let seconds = |row: &TimelineRow| {
            row.spans.iter().map(|(from, until)| (from.as_second(), until.as_second())).collect()
        };
        rows.map(|row| (row.name.clone(), row.note.clone(), seconds(&row))).collect()
    }

    fn row(name: &str, note: &str, spans: &[(i64, i64)]) -> ShownRow {
        (name.to_owned(), note.to_owned(), spans.to_vec())
    }

    #[test]
    fn entries_have_rows_in_words_with_the_spans_of_their_calls() {
        let mail = json!({"message_id": "verdict:cs_1", "kind": "verdict"});
        let webhook =
            json!({"message_id": "msg_1", "kind": "order.delivered", "latency_ms": 2_000, "status": 204});
        let history = [
            entry(1, "order_placed", json!({})),
            entry(
                5,
                "oracle_interaction",
                json!({"request_timestamp": at(2), "latency_ms": 3_000, "oracle_id": "gemini"}),
            ),
            entry(5, "tmm_crosscheck", json!({"approved": true})),
            entry(6, "policy_applied", json!({})),
            entry(7, "verdict_cached", json!({})),
            entry(8, "message_queued", mail.clone()),
            entry(12, "message_sent", mail),
            entry(14, "message_sent", webhook),
            entry(
                20,
                "oracle_interaction",
                json!({"request_timestamp": at(19), "latency_ms": 1_000, "path": "regen"}),
            ),
            entry(21, "regen_divergence_check", json!({"original_verdict": "GREEN", "regen_verdict": "RED"})),
            entry(22, "session_exported", json!({})),
        ];
        let expected = [
            row("Model", "gemini", &[(2, 5)]),
            row("Decision", "crosscheck, policy", &[(5, 5), (6, 6)]),
            row("Delivery", "stored", &[(7, 7)]),
            row("Mail", "verdict", &[(8, 8), (8, 12)]),
            row("Webhook", "order.delivered", &[(12, 14)]),
            row("Regeneration", "", &[(19, 20)]),
            row("Divergence", "GREEN → RED", &[(21, 21)]),
            row("Session exported", "", &[(22, 22)]),
        ];
        assert_eq!(shown(&history, None), expected);
    }

    #[test]
    fn requeued_message_is_idle_between_its_attempts() {
        let mail = || json!({"message_id": "verdict:cs_1", "kind": "verdict"});
        let history = [
            entry(1, "message_queued", mail()),
            entry(3, "message_failed", mail()),
            entry(9, "message_failed", mail()),
            entry(60, "message_requeued", mail()),
            entry(62, "message_sent", mail()),
        ];
        let spans = [(1, 1), (1, 3), (9, 9), (60, 60), (60, 62)];
        assert_eq!(shown(&history, None), [row("Mail", "verdict", &spans)]);
    }

    #[test]
    fn note_that_is_a_part_of_another_one_is_shown() {
        let model = |second: i64, id: &str| entry(second, "oracle_interaction", json!({"oracle_id": id}));
        let history = [model(1, "gemini-pro"), model(2, "gemini"), model(3, "gemini")];
        assert_eq!(shown(&history, None), [row("Model", "gemini-pro, gemini", &[(1, 1), (2, 2), (3, 3)])]);
    }

    #[test]
    fn hold_lasts_from_the_stop_to_the_release_and_is_no_other_wait() {
        let stopped = entry(10, "order_stopped", json!({"state": "held"}));
        let released = entry(30, "order_released", json!({}));
        let both = shown(&[stopped.clone(), released], None);
        assert_eq!(both, [row(HOLD, "released", &[(10, 30)])]);
        assert_eq!(shown(&[stopped], Some(at(50))), [row(HOLD, "for a person", &[(10, 50)])]);
        let order = Order { state: OrderState::Delivered, changed_at: at(30), ..Order::placed(at(0)) };
        let rows = order_rows(&order, &[(at(10), at(30))], at(90));
        let waits = rows.iter().find(|row| row.is_wait).map(|row| row.spans.clone());
        assert_eq!(waits, Some(vec![(at(0), at(10))]));
        let attempt = json!({"attempt": 1, "started_at": at(0), "ended_at": at(10), "outcome": "held", "cause": "policy",
            "generation": {"model": "m", "candidateCount": 1}});
        let attempt = serde_json::from_value(attempt).expect("a valid attempt");
        let order = Order { last_attempts: vec![attempt], ..order };
        let rows = order_rows(&order, &[], at(90));
        assert_eq!(rows.get(1).map(|row| row.tone), Some(Tone::Held), "a held attempt has not failed");
    }
}
