//! Items that wait for a person, and their order. The pages of decisions show the neighbors of their item.

use super::Console;
use super::parts::{Tone, cut, group_digits, unit_of};
use crate::base::error::CtlError;
use crate::base::options::encode_segment;
use crate::ground::new_source::read_number;
use domain_base::decimal::Decimal;
use domain_base::inbox::{InboxImportance, InboxResponse, WaitingItem};
use domain_base::page::{ListPage, PageLimit};
use domain_base::session_id::SessionId;
use domain_ground::run::IngestionRun;
use domain_verdict::mail::{MailId, MailState, MessageAttempts};
use domain_verdict::webhook::WebhookState;
use domain_verification::review_rule::{PERCENT_PLACES, percent_between};
use domain_verification::wire::ReviewSummary;
use hyper::Method;
use jiff::Timestamp;
use maud::{Markup, html};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use strum::VariantArray;

/// A kind of items that wait for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, VariantArray, strum::IntoStaticStr, strum::EnumString)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum ItemKind {
    HeldOrder,
    DeadLetter,
    Dispute,
    HeldRun,
    RecallNotice,
}

impl ItemKind {
    /// The kind of an item that the daemon lists.
    fn of(kind: &str) -> Option<Self> {
        match kind {
            "held_order" => Some(Self::HeldOrder),
            "dead_mail" | "dead_webhook" => Some(Self::DeadLetter),
            "review" => Some(Self::Dispute),
            "held_run" => Some(Self::HeldRun),
            "recall_notice" => Some(Self::RecallNotice),
            _ => None,
        }
    }

    pub(crate) const fn tone(self) -> Tone {
        match self {
            Self::HeldOrder | Self::HeldRun | Self::RecallNotice => Tone::Held,
            Self::DeadLetter => Tone::Refused,
            Self::Dispute => Tone::Diverged,
        }
    }

    /// One of them, and several.
    pub(crate) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::HeldOrder => ("Held order", "Held orders"),
            Self::DeadLetter => ("Dead letter", "Dead letters"),
            Self::Dispute => ("Dispute", "Disputes"),
            Self::HeldRun => ("Held run", "Held runs"),
            Self::RecallNotice => ("Notice", "Notices"),
        }
    }

    /// The effect that lasts until the item is decided.
    pub(crate) const fn consequence(self) -> &'static str {
        match self {
            Self::HeldOrder => "Not delivered",
            Self::DeadLetter => "Not sent",
            Self::Dispute => "Answers “in review”",
            Self::HeldRun => "Release not visible",
            Self::RecallNotice => "Customer not notified",
        }
    }
}

/// One item of the inbox.
#[derive(Debug, Clone)]
pub(crate) struct InboxItem {
    pub(crate) kind: ItemKind,
    /// The id of its session, mail, review, run or webhook.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Why it waits.
    pub(crate) cause: String,
    pub(crate) since: Timestamp,
    pub(crate) importance: InboxImportance,
    /// The sources that it concerns.
    pub(crate) sources: Vec<String>,
    /// The page that decides it.
    pub(crate) path: String,
}

impl InboxItem {
    /// `None` if this console does not know the kind.
    fn of(item: WaitingItem) -> Option<Self> {
        let WaitingItem { kind, id, title, cause, since, importance, sources, link } = item;
        Some(Self { kind: ItemKind::of(&kind)?, id, title, cause, since, importance, sources, path: link })
    }
}

/// All items in the daemon's order: by importance and then by age.
pub(crate) async fn read_items(console: &Console) -> Result<Vec<InboxItem>, CtlError> {
    let (mut items, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/inbox?limit={}{after}", <PageLimit>::MAX);
        let page: InboxResponse = read(console, &path).await?;
        items.extend(page.items.into_iter().filter_map(|listed| InboxItem::of(listed.item)));
        let Some(next) = page.next else { break };
        after = format!("&after={}", encode_segment(&next));
    }
    Ok(items)
}

/// The values of the open disputes of one axis, by the pages of the disputes: `54,208 (office-a) against 54,611 (office-b): 403
/// persons, 0.73 %`.
pub(crate) async fn read_disputed_values(console: &Console) -> Result<BTreeMap<String, String>, CtlError> {
    let path = format!("/v1/reviews?open=true&limit={}", <PageLimit>::MAX);
    let reviews: ListPage<ReviewSummary> = read(console, &path).await?;
    let named = reviews.items.into_iter().filter_map(|review| {
        let path = format!("/reviews/{}", encode_segment(&review.review_id));
        Some((path, disputed_values(&review)?))
    });
    Ok(named.collect())
}

fn disputed_values(review: &ReviewSummary) -> Option<String> {
    let axis = review.axes.keys().next().filter(|_| review.axes.len() == 1)?;
    let stated = review.values.iter();
    let stated: Vec<_> =
        stated.filter_map(|(source, values)| Some((source, values.get(axis)?.value.to_string()))).collect();
    let [(first_source, first), (second_source, second)] = stated.as_slice() else { return None };
    let difference = Difference::of(first, second)?;
    let (low, high) = (group_digits(first), group_digits(second));
    let percent = difference.percent();
    let size = if difference.size == percent { String::new() } else { format!("{}, ", difference.size) };
    Some(format!("{low} ({first_source}) against {high} ({second_source}): {size}{percent}"))
}

async fn read<T: DeserializeOwned>(console: &Console, path: &str) -> Result<T, CtlError> {
    Ok(console.options.call_for_reviewer(Method::GET, path, None).await?.json()?)
}

/// The page of a held verdict with its decision.
pub(crate) fn held_path(session_id: &str) -> String {
    format!("/sessions/{}/held", encode_segment(session_id))
}

/// The page of a message of the outbox.
pub(crate) fn dead_path(outbox: &str, id: &str) -> String {
    format!("/dead/{}/{}", encode_segment(outbox), encode_segment(id))
}

/// A mail or a webhook in the outbox, usually one that could not be sent.
#[derive(Debug)]
pub(crate) struct DeadLetter {
    /// `outbox` or `webhooks`, as in the daemon's routes.
    outbox: &'static str,
    id: String,
    pub(crate) title: String,
    /// The address of a mail, or the application and the endpoint of a webhook.
    pub(crate) receiver: String,
    pub(crate) session_id: Option<SessionId>,
    pub(crate) tries: MessageAttempts,
}

impl DeadLetter {
    /// The page that decides it.
    pub(crate) fn path(&self) -> String {
        dead_path(self.outbox, &self.id)
    }

    /// Its title with its session.
    pub(crate) fn name(&self) -> String {
        match &self.session_id {
            Some(session_id) if self.outbox == "outbox" => format!("{}, session {session_id}", self.title),
            _ => self.title.clone(),
        }
    }
}

pub(crate) async fn read_dead(console: &Console) -> Result<Vec<DeadLetter>, CtlError> {
    read_messages(console, "&dead=true").await
}

/// The messages of the outbox that `filter` selects.
pub(crate) async fn read_messages(console: &Console, filter: &str) -> Result<Vec<DeadLetter>, CtlError> {
    let most = <PageLimit>::MAX;
    let mails: ListPage<MailState> = read(console, &format!("/v1/outbox?limit={most}{filter}")).await?;
    let webhooks: ListPage<WebhookState> =
        read(console, &format!("/v1/webhooks?limit={most}{filter}")).await?;
    let mails = mails.items.into_iter().map(|mail| {
        let receiver = String::from(mail.to);
        DeadLetter {
            outbox: "outbox",
            id: mail.mail_id.as_str().to_owned(),
            title: format!("Mail to {receiver}"),
            receiver,
            session_id: Some(mail.session_id),
            tries: mail.tries,
        }
    });
    let webhooks = webhooks.items.into_iter().map(|webhook| DeadLetter {
        outbox: "webhooks",
        id: webhook.webhook_id.as_str().to_owned(),
        title: webhook.describe(),
        receiver: webhook.receiver().describe(),
        session_id: webhook.session_id,
        tries: webhook.tries,
    });
    Ok(mails.chain(webhooks).collect())
}

/// The message with the page at `path`, if it is still in the outbox.
pub(crate) async fn find_queued(console: &Console, path: &str) -> Option<DeadLetter> {
    let messages = read_messages(console, "").await.unwrap_or_default();
    messages.into_iter().find(|message| message.path() == path)
}

/// The name of a message. One that was removed has only its id.
pub(crate) async fn describe_message(console: &Console, outbox: &str, id: &str) -> String {
    if let Some(message) = find_queued(console, &dead_path(outbox, id)).await {
        return message.name();
    }
    match session_of(id) {
        Some(session_id) => format!("Mail {id}, session {session_id}"),
        None if outbox == "webhooks" => format!("Webhook {id}"),
        None => format!("Mail {id}"),
    }
}

/// The session in the id of a mail.
pub(crate) fn session_of(id: &str) -> Option<String> {
    Some(id.parse::<MailId>().ok()?.session_id()?.to_string())
}

pub(crate) fn run_title(run: &IngestionRun) -> String {
    format!("{}, release {}", run.oracle_id, run.input.version)
}

/// The difference between two numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) size: String,
    /// In percent of the larger magnitude, as review rules have it.
    percent: Option<Decimal>,
}

impl Difference {
    /// `None` if one of the texts is not a number, or both are the same number. Texts of an axis that is not one of numbers, such as
    /// `1.234,5`, are compared unless one of them can be read as several numbers.
    pub(crate) fn of(first: &str, second: &str) -> Option<Self> {
        let plain = |text: &str| text.parse::<Decimal>().ok();
        let of_texts = || read_number(first).zip(read_number(second));
        let (first, second) = plain(first).zip(plain(second)).or_else(of_texts)?;
        let (low, high) = if first < second { (first, second) } else { (second, first) };
        let size = high.checked_sub(&low).ok().filter(|size| *size != Decimal::from(0))?;
        let percent = percent_between(&low, &high).ok();
        Some(Self { size: group_digits(&size.to_string()), percent })
    }

    /// The difference in percent of the larger magnitude; the difference itself if that cannot be computed.
    pub(crate) fn percent(&self) -> String {
        self.percent.as_ref().map_or_else(|| self.size.clone(), format_percent)
    }

    /// The difference as a share of the larger magnitude, from 0 to 2.
    pub(crate) fn share(&self) -> f64 {
        let percent = self.percent.as_ref().and_then(|percent| percent.to_string().parse::<f64>().ok());
        percent.unwrap_or_default() / 100.0
    }
}

/// A percentage with two digits after the point, and at least two significant ones. It is cut and not rounded: a percentage below the
/// limit of a review rule must not be shown as the limit.
pub(crate) fn format_percent(percent: &Decimal) -> String {
    let text = percent.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((text.as_str(), ""));
    if text == "0" {
        let zeros = usize::try_from(PERCENT_PLACES - 1).unwrap_or_default();
        return format!("below 0.{}1 %", "0".repeat(zeros));
    }
    let zeros = fraction.bytes().take_while(|digit| *digit == b'0').count();
    let shown = if whole == "0" { zeros + 2 } else { 2 };
    let fraction = fraction.get(..shown).unwrap_or(fraction);
    // as shares of counts have it
    let fraction = if fraction.bytes().all(|digit| digit == b'0') { "" } else { fraction };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction} %", group_digits(whole))
}

/// The values of a review on one axis with their unit, for a button or a heading.
pub(crate) fn value_with_unit(value: &str, unit: Option<&String>) -> Markup {
    html! { (group_digits(value)) @if let Some(unit) = unit { " " small { (unit_of(value, unit)) } } }
}

/// The same in a sentence.
pub(crate) fn value_text(value: &str, unit: Option<&String>) -> String {
    let unit = unit.map(|unit| format!(" {}", unit_of(value, unit))).unwrap_or_default();
    format!("{}{unit}", group_digits(value))
}

/// The place of an item among those of its kind, and its neighbors in the inbox.
#[derive(Debug, Default)]
pub(crate) struct Neighbors {
    /// The number of the item among those of its kind, and their number.
    place: Option<(ItemKind, usize, usize)>,
    previous: Option<InboxItem>,
    pub(crate) next: Option<InboxItem>,
}

impl Neighbors {
    /// The neighbors of the item with the page `path`. An item that is decided has the first one as its next.
    pub(crate) fn of(items: &[InboxItem], path: &str) -> Self {
        let Some(at) = items.iter().position(|item| item.path == path) else {
            return Self { next: items.first().cloned(), ..Self::default() };
        };
        let kind = items.get(at).map(|item| item.kind);
        let place = kind.map(|kind| {
            let of_kind = |items: &[InboxItem]| items.iter().filter(|item| item.kind == kind).count();
            (kind, of_kind(items.get(..=at).unwrap_or_default()), of_kind(items))
        });
        let previous = at.checked_sub(1).and_then(|before| items.get(before)).cloned();
        Self { place, previous, next: items.get(at + 1).cloned() }
    }

    pub(crate) async fn read(console: &Console, path: &str) -> Self {
        read_items(console).await.map(|items| Self::of(&items, path)).unwrap_or_default()
    }

    /// Whether the item waits in the inbox.
    pub(crate) const fn has_place(&self) -> bool {
        self.place.is_some()
    }

    pub(crate) fn crumbs(&self) -> Markup {
        html! {
            a href="/inbox" { "Inbox" }
            @if let Some((kind, number, all)) = self.place {
                " › " a href=(format!("/inbox?kind={}", kind.into_str())) { (kind.words().1) } " › " (number) " of " (all)
            }
        }
    }

    pub(crate) fn actions(&self) -> Markup {
        html! {
            a.btn.slim.only-s href="#decide" { "Decide" }
            @if let Some(item) = &self.previous { a.btn.slim href=(item.path) data-key="p" { kbd aria-hidden="true" { "p" } " Previous" } }
            @if let Some(item) = &self.next { a.btn.slim href=(item.path) data-key="n" { "Next " kbd aria-hidden="true" { "n" } } }
        }
    }

    /// The hidden field with the page after the decision: the next item, or the inbox after the last one.
    pub(crate) fn next_field(&self) -> Markup {
        let next = self.next.as_ref().map_or("/inbox", |item| &item.path);
        html! { @if self.place.is_some() { input type="hidden" name="next" value=(next); } }
    }

    /// The end of a form: what comes next.
    pub(crate) fn footer(&self) -> Markup {
        html! {
            footer {
                @match &self.next {
                    Some(item) => span { "Next: " a href=(item.path) { (cut(&item.title, 60)) } },
                    None => span { "The last item of the " a href="/inbox" { "inbox" } "." },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: ItemKind, second: i64, path: &str) -> InboxItem {
        let since = Timestamp::from_second(second).expect("a time");
        InboxItem {
            kind,
            id: String::new(),
            title: path.to_owned(),
            cause: String::new(),
            since,
            importance: InboxImportance::Answer,
            sources: Vec::new(),
            path: path.to_owned(),
        }
    }

    #[test]
    fn difference_is_in_percent_of_the_larger_magnitude_as_review_rules_have_it() {
        for (first, second, size, percent) in [
            ("90588", "90866", "278", "0.30 %"),
            ("90866", "90588", "278", "0.30 %"),
            ("145.68", "100", "45.68", "31.35 %"),
            // below a limit of 0.1 %
            ("99901.15", "100000", "98.85", "0.098 %"),
            ("99900.1", "100000", "99.9", "0.099 %"),
            ("1000000", "1000001", "1", "0.000099 %"),
            ("1000000000", "1000000001", "1", "below 0.000001 %"),
            ("0", "7", "7", "100 %"),
            ("90588", "81529", "9,059", "10 %"),
            ("-1", "1", "2", "200 %"),
            ("-100", "-50", "50", "50 %"),
            // texts that are each one number
            ("1.234,5", "1.234,7", "0.2", "0.016 %"),
            ("1,5", "2", "0.5", "25 %"),
            ("1 234 500", "1.234.567", "67", "0.0054 %"),
        ] {
            let difference = Difference::of(first, second).expect("two numbers");
            assert_eq!((difference.size.as_str(), difference.percent().as_str()), (size, percent));
        }
    }

    #[test]
    fn difference_is_not_shown_of_equal_numbers_or_texts_that_are_not_one_number() {
        for (first, second) in [
            ("north", "1"),
            ("1", "1"),
            ("1.0", "1"),
            ("1.234,5", "1.236"),
            ("1,234", "1,236"),
            ("1.234,5", "1.234,50"),
        ] {
            assert_eq!(Difference::of(first, second), None, "{first} {second}");
        }
    }

    #[test]
    fn neighbors_are_those_in_the_order_of_the_inbox() {
        let items = [
            item(ItemKind::HeldOrder, 5, "/a"),
            item(ItemKind::Dispute, 1, "/b"),
            item(ItemKind::Dispute, 2, "/c"),
        ];
        let of = |path: &str| {
            let Neighbors { place, previous, next } = Neighbors::of(&items, path);
            (
                place.map(|(_, number, all)| (number, all)),
                previous.map(|item| item.path),
                next.map(|item| item.path),
            )
        };
        assert_eq!(of("/a"), (Some((1, 1)), None, Some("/b".to_owned())));
        assert_eq!(of("/c"), (Some((2, 2)), Some("/b".to_owned()), None));
        assert_eq!(of("/gone"), (None, None, Some("/a".to_owned())));
    }
}
