//! The decisions of people, from the entries of the log: by whom, when, why, and the way back to the item.

use super::Console;
use super::delivery::message_name;
use super::forms::Fields;
use super::items::value_text;
use super::layout::PageError;
use super::log::read_entries;
use super::parts::{Tone, badge, card, cut, short_id, table, user, words};
use crate::base::options::encode_segment;
use domain_base::event::EntryMembers;
use domain_base::moment::Moment;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use nix::unistd::geteuid;
use serde_json::Value as Json;

/// Number of decisions that are shown.
const SHOWN: usize = 50;
/// Number of the newest entries that are read of [`BY_PEOPLE`], and of [`MOSTLY_AUTOMATIC`].
const READ: usize = 1_000;
/// The kinds of entries that people cause, with few exceptions.
const BY_PEOPLE: [&str; 10] = [
    "order_released",
    "order_retried",
    "order_cancelled",
    "review_resolved",
    "review_dismissed",
    "review_revoked",
    "recall_notice_released",
    "recall_notice_discarded",
    "message_requeued",
    "message_dropped",
];
/// The kinds of entries of which few are decisions. They are read apart, so that they do not displace the others.
const MOSTLY_AUTOMATIC: [&str; 2] = ["order_stopped", "ingestion_ended"];

/// The decisions that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
enum Shown {
    Today,
    Mine,
    All,
}

/// A decision of a person.
#[derive(Debug)]
struct Decision {
    at: Timestamp,
    seq: String,
    /// The page of the item, and its name.
    item: (String, String),
    /// The id of the review, if it is about one.
    review_id: Option<String>,
    tone: Tone,
    word: String,
    uid: String,
    by: String,
    reason: String,
}

/// The decisions that an address selects. Reviewers have no log.
pub(super) async fn render(console: &Console, fields: &Fields) -> Result<Markup, PageError> {
    if console.has_only_reviews {
        return Ok(html! {});
    }
    let shown = fields.text("decided").parse().unwrap_or(Shown::Today);
    // as few requests as possible, since the log has an entry of each read
    let mut entries = read_entries(console, &format!("event={}", BY_PEOPLE.join(",")), READ).await?;
    entries.extend(read_entries(console, &format!("event={}", MOSTLY_AUTOMATIC.join(",")), READ).await?);
    let mut decisions: Vec<_> = entries.iter().map(EntryMembers).filter_map(Decision::read).collect();
    let (now, own) = (Timestamp::now(), geteuid().as_raw().to_string());
    let date = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
    decisions.retain(|decision| match shown {
        Shown::Today => date(decision.at) == date(now),
        Shown::Mine => decision.uid == own,
        Shown::All => true,
    });
    decisions.sort_by_key(|decision| std::cmp::Reverse(decision.at));
    decisions.truncate(SHOWN);
    name_reviews(console, &mut decisions).await;
    Ok(render_table(&decisions, shown))
}

/// Names the reviews as their pages do. A review that cannot be read keeps its name.
async fn name_reviews(console: &Console, decisions: &mut [Decision]) {
    for decision in decisions {
        let Some(review_id) = &decision.review_id else { continue };
        if let Some(title) = console.frame.read_title(console, review_id).await {
            decision.item.1 = title;
        }
    }
}

fn render_table(decisions: &[Decision], shown: Shown) -> Markup {
    use strum::VariantArray;
    let rows: Vec<_> = decisions.iter().map(row).collect();
    let chips = html! {
        @for choice in Shown::VARIANTS {
            a.chip href=(format!("/inbox?decided={}#decided", choice.into_str())) aria-current=[(*choice == shown).then_some("true")] { (choice.into_str()) }
        }
    };
    let parts = html! {
        (table("Decided", &["when, UTC", "what", "decision", "by", "reason", "#entry"], &rows))
        @if decisions.len() == SHOWN { div.pager { span { "The latest " (SHOWN) ". " a href="/log" { "The log has all" } "." } } }
    };
    html! { div #decided { (card("Decided", &chips, &parts)) } }
}

fn row(decision: &Decision) -> Vec<Markup> {
    let Decision { at, seq, item, tone, word, by, reason, .. } = decision;
    vec![
        html! { time.nowrap datetime=(at) title=(at.strftime("%Y-%m-%d %H:%M:%S UTC")) { (at.strftime("%-d %b %H:%M")) } },
        html! { a href=(item.0) { (item.1) } },
        badge(*tone, word),
        html! { (by) },
        html! { (cut(reason, 120)) },
        html! { a href=(format!("/log/{seq}")) { (seq) } },
    ]
}

impl Decision {
    /// The decision in an entry; `None` if no person has made it.
    fn read(entry: EntryMembers<'_>) -> Option<Self> {
        let text = |path: &str| entry.text(path);
        let Moment(at) = text("timestamp").parse().ok()?;
        let uid = text("peer/uid");
        let session = text("session_id");
        let session = || (format!("/sessions/{}", encode_segment(&session)), short_id(&session));
        let review = || {
            let id = text("review_id");
            (format!("/reviews/{}", encode_segment(&id)), name_review(entry).unwrap_or(id))
        };
        let (tone, word, item) = match text("event").as_str() {
            "order_released" => (Tone::Ok, "released".to_owned(), session()),
            // a limit and the policy stop orders, too
            "order_stopped" if !uid.is_empty() => (Tone::Refused, "failed".to_owned(), session()),
            "order_retried" => (Tone::Info, "retried".to_owned(), session()),
            // an application gives no reason
            "order_cancelled" if !text("reason").is_empty() => {
                (Tone::Neutral, "cancelled".to_owned(), session())
            }
            "review_resolved" => (Tone::Ok, format!("resolved{}", resolved_values(entry)), review()),
            "review_dismissed" => (Tone::Neutral, "dismissed".to_owned(), review()),
            "review_revoked" => (Tone::Stale, "revoked".to_owned(), review()),
            "recall_notice_released" => (Tone::Ok, "notice released".to_owned(), session()),
            "recall_notice_discarded" => (Tone::Neutral, "notice discarded".to_owned(), session()),
            "message_requeued" => (Tone::Info, "sent again".to_owned(), name_message(entry)),
            "message_dropped" => (Tone::Refused, "removed unsent".to_owned(), name_message(entry)),
            "ingestion_ended" if !text("decision/decided_by").is_empty() => {
                let (tone, word) = match text("state").as_str() {
                    "discarded" => (Tone::Neutral, "discarded"),
                    _ if !text("undoes").is_empty() => (Tone::Stale, "undone"),
                    _ => (Tone::Ok, "approved"),
                };
                let name = format!("{}, release {}", text("oracle_id"), text("version"));
                (tone, word.to_owned(), (format!("/runs/{}", text("run_id")), name))
            }
            _ => return None,
        };
        let decided_by = text("decision/decided_by");
        let uid = if decided_by.is_empty() { uid } else { decided_by };
        let name = [text("user_name"), text("verifier_name")].into_iter().find(|name| !name.is_empty());
        let reason = ["reason", "resolution/reason", "decision/reason"].map(text).concat();
        Some(Self {
            at,
            seq: text("seq"),
            item,
            review_id: Some(text("review_id")).filter(|id| !id.is_empty()),
            tone,
            word,
            by: user(&uid, name.as_deref()),
            uid,
            reason,
        })
    }
}

/// The values of a resolution.
fn resolved_values(entry: EntryMembers<'_>) -> String {
    let values = entry.0.pointer("/resolution/values").and_then(Json::as_object);
    let values = values
        .into_iter()
        .flatten()
        .map(|(_, value)| value_text(&value.as_str().map_or_else(|| value.to_string(), str::to_owned), None));
    let values: Vec<_> = values.collect();
    if values.is_empty() { String::new() } else { format!(": {}", values.join(", ")) }
}

/// The page and the name of a message: its kind, and its session or its receiver.
fn name_message(entry: EntryMembers<'_>) -> (String, String) {
    let text = |path: &str| entry.text(path);
    let (what, session, application) = (message_name(entry), text("session_id"), text("application"));
    if !session.is_empty() {
        let name = format!("{what} of {}", short_id(&session));
        return (format!("/sessions/{}", encode_segment(&session)), name);
    }
    let receiver = if application.is_empty() { "operators" } else { application.as_str() };
    (format!("/log/{}", text("seq")), format!("{what} to {receiver}"))
}

/// The axes and the subject of a resolution, from its locks.
fn name_review(entry: EntryMembers<'_>) -> Option<String> {
    let locks = entry.0.pointer("/locks")?.as_array()?;
    let axes = locks.iter().filter_map(|lock| lock.get("axis")?.as_str()).map(words);
    let subject = locks.first()?.get("where")?.as_object()?.values();
    let subject = subject.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    Some(axes.chain(subject).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn decision_is_read_only_from_entries_of_a_person() {
        let read = |event: &str, mut members: Json| {
            members["timestamp"] = json!("2026-11-20T10:00:00Z");
            members["seq"] = json!(7);
            members["event"] = json!(event);
            Decision::read(EntryMembers(&members)).map(|made| (made.word, made.by, made.reason))
        };
        let peer = json!({"uid": 1000, "gid": 1000, "pid": 1});
        let stopped = json!({"session_id": "cs_1", "peer": peer, "user_name": "ann", "reason": "no"});
        let failed = read("order_stopped", stopped).expect("a person has failed it");
        assert_eq!(failed.0, "failed");
        assert!(failed.1.starts_with("ann") && failed.2 == "no", "{failed:?}");
        assert_eq!(read("order_stopped", json!({"session_id": "cs_1", "peer": null})), None);
        assert_eq!(read("order_cancelled", json!({"session_id": "cs_1", "peer": peer})), None);
        assert_eq!(read("ingestion_ended", json!({"run_id": "a", "decision": null})), None);
        let resolution = json!({"values": {"population": "54611"}, "reason": "census"});
        let resolved = json!({"review_id": "v-1", "peer": peer, "resolution": resolution});
        let resolved = read("review_resolved", resolved).expect("a person has resolved it");
        assert_eq!((resolved.0.as_str(), resolved.2.as_str()), ("resolved: 54,611", "census"));
        let decision = json!({"decided_by": "1000", "decided_at": "2026-11-20T10:00:00Z", "reason": "same"});
        let run = json!({"run_id": "a", "oracle_id": "b", "version": "1", "state": "discarded", "decision": decision});
        assert_eq!(read("ingestion_ended", run).expect("a decision").0, "discarded");
    }

    #[test]
    fn decided_message_is_named_by_its_kind_and_session() {
        for (members, path, name) in [
            (
                json!({"message_id": "verdict:shop/cs_1", "kind": "verdict", "session_id": "shop/cs_1"}),
                "/sessions/shop%2Fcs_1",
                "mail with the verdict of shop/cs_1",
            ),
            (
                json!({"message_id": "msg_1", "kind": "order.failed", "application": "shop", "session_id": "shop/cs_1"}),
                "/sessions/shop%2Fcs_1",
                "webhook order.failed of shop/cs_1",
            ),
            (
                json!({"message_id": "msg_1", "kind": "mail.dead_letter", "seq": 7}),
                "/log/7",
                "webhook mail.dead_letter to operators",
            ),
        ] {
            assert_eq!(name_message(EntryMembers(&members)), (path.to_owned(), name.to_owned()));
        }
    }
}
