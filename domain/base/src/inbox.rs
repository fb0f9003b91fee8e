//! The inbox: everything that waits for a decision of a person, whichever feature has it.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use crate::page::{ListPage, PageLimit};
use crate::wording::ParseTextError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The maximum number of items of one kind that are read.
pub const ITEMS_PER_KIND: usize = 1000;

/// Who waits, the most important first.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::FromRepr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum InboxImportance {
    /// A customer waits.
    Customer,
    /// Questions have no answer, or an outdated one.
    Answer,
    /// Another system waits.
    Operation,
}

/// Something that waits for a decision of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WaitingItem {
    /// The kind: `held_order`, `recall_notice`, `dead_mail`, `review`, `held_run` or `dead_webhook`.
    pub kind: String,
    /// The id: of the session of a held order or a notice, of the mail, the review, the run or the webhook.
    pub id: String,
    /// What it is about, in words.
    pub title: String,
    /// Why it waits.
    pub cause: String,
    /// Who waits.
    pub importance: InboxImportance,
    /// Since when it waits.
    pub since: Timestamp,
    /// The sources that it concerns.
    pub sources: Vec<String>,
    /// The path of its page in the console.
    pub link: String,
}

/// An item of the inbox, with its age.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InboxItem {
    /// The item.
    #[serde(flatten)]
    pub item: WaitingItem,
    /// How long it has waited, in seconds.
    pub age_s: u64,
}

/// The parameters of `GET /v1/inbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct InboxParams {
    /// Only this kind.
    pub kind: Option<String>,
    /// Only items that concern this source.
    pub source: Option<String>,
    /// Only items that have waited for at least this many seconds.
    pub min_age_s: Option<u64>,
    /// Only items after this position: the `next` of the previous page.
    pub after: Option<String>,
    /// The most items in the answer.
    #[param(inline)]
    pub limit: PageLimit,
}

/// A page of the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InboxResponse {
    /// The number of waiting items by kind, whatever the parameters. At most 1,000 items of a kind are counted and listed; of
    /// held orders and reviews the oldest ones.
    pub counts: BTreeMap<String, usize>,
    /// The items, the most important first; of the same importance, the oldest first.
    pub items: Vec<InboxItem>,
    /// The value of `after` for the next page; null on the last page.
    pub next: Option<String>,
}

/// The position of an item in the list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct InboxPosition {
    importance: InboxImportance,
    since: Timestamp,
    id: String,
}

impl InboxPosition {
    fn of(item: &WaitingItem) -> Self {
        Self { importance: item.importance, since: item.since, id: item.id.clone() }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ',');
        let importance = InboxImportance::from_repr(parts.next()?.parse().ok()?)?;
        let since = Timestamp::from_microsecond(parts.next()?.parse().ok()?).ok()?;
        Some(Self { importance, since, id: parts.next()?.to_owned() })
    }

    fn name(&self) -> String {
        format!("{},{},{}", self.importance as usize, self.since.as_microsecond(), self.id)
    }
}

impl InboxResponse {
    /// The page of `waiting` that `params` select, at the time `now`. `kinds` are all kinds of the inbox.
    ///
    /// # Errors
    /// `params.kind` is not a kind, or `params.after` not a position.
    pub fn select(
        waiting: Vec<WaitingItem>,
        kinds: &[&str],
        params: &InboxParams,
        now: Timestamp,
    ) -> Result<Self, ParseTextError> {
        let InboxParams { kind, source, min_age_s, after, limit } = params;
        if let Some(kind) = kind.as_ref().filter(|kind| !kinds.contains(&kind.as_str())) {
            return Err(ParseTextError::new("a kind", kind, kinds.join(", ")));
        }
        let position = |after: &String| {
            let parsed = InboxPosition::parse(after);
            parsed.ok_or_else(|| ParseTextError::new("a position", after, "the `next` of a page"))
        };
        let after = after.as_ref().map(position).transpose()?;
        let mut counts: BTreeMap<_, _> = kinds.iter().map(|kind| ((*kind).to_owned(), 0)).collect();
        for item in &waiting {
            *counts.entry(item.kind.clone()).or_default() += 1;
        }
        let age_s =
            |item: &WaitingItem| u64::try_from(now.duration_since(item.since).as_secs()).unwrap_or_default();
        let mut selected: Vec<_> = waiting
            .into_iter()
            .filter(|item| kind.as_ref().is_none_or(|kind| *kind == item.kind))
            .filter(|item| source.as_ref().is_none_or(|source| item.sources.contains(source)))
            .filter(|item| min_age_s.is_none_or(|least| age_s(item) >= least))
            .map(|item| (InboxPosition::of(&item), item))
            .filter(|(position, _)| after.as_ref().is_none_or(|after| position > after))
            .collect();
        selected.sort_by(|(one, _), (other, _)| one.cmp(other));
        let items = selected.into_iter().map(|(_, item)| InboxItem { age_s: age_s(&item), item });
        let page =
            ListPage::from_items(items.collect(), **limit, |listed| InboxPosition::of(&listed.item).name());
        Ok(Self { counts, items: page.items, next: page.next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [&str; 2] = ["review", "held_order"];

    fn waiting(kind: &str, id: &str, importance: InboxImportance, since: i64) -> WaitingItem {
        WaitingItem {
            kind: kind.into(),
            id: id.into(),
            title: id.into(),
            cause: "a cause".into(),
            importance,
            since: Timestamp::from_second(since).expect("a time"),
            sources: if kind == "review" { vec!["office-a".into()] } else { Vec::new() },
            link: String::new(),
        }
    }

    fn select(params: &InboxParams) -> Result<InboxResponse, ParseTextError> {
        let items = vec![
            waiting("review", "v-2", InboxImportance::Answer, 20),
            waiting("held_order", "shop/a,b", InboxImportance::Customer, 90),
            waiting("review", "v-1", InboxImportance::Answer, 10),
            waiting("held_order", "cs_1", InboxImportance::Customer, 30),
        ];
        InboxResponse::select(items, &KINDS, params, Timestamp::from_second(100).expect("a time"))
    }

    fn ids(response: &InboxResponse) -> Vec<&str> {
        response.items.iter().map(|listed| listed.item.id.as_str()).collect()
    }

    #[test]
    fn items_are_sorted_by_importance_and_age_and_counted() {
        let all = select(&InboxParams::default()).expect("valid parameters");
        assert_eq!(ids(&all), ["cs_1", "shop/a,b", "v-1", "v-2"]);
        assert_eq!(all.items.iter().map(|listed| listed.age_s).collect::<Vec<_>>(), [70, 10, 90, 80]);
        assert_eq!(all.counts, [("held_order".into(), 2), ("review".into(), 2)].into());
        assert_eq!(all.next, None);
    }

    #[test]
    fn filters_select_by_kind_source_and_age() {
        let old = InboxParams { min_age_s: Some(75), ..InboxParams::default() };
        assert_eq!(ids(&select(&old).expect("valid")), ["v-1", "v-2"]);
        let source = InboxParams { source: Some("office-a".into()), ..old.clone() };
        assert_eq!(ids(&select(&source).expect("valid")), ["v-1", "v-2"]);
        let kind = InboxParams { kind: Some("held_order".into()), ..InboxParams::default() };
        let held = select(&kind).expect("valid");
        assert_eq!((ids(&held), held.counts["review"]), (vec!["cs_1", "shop/a,b"], 2));
        let unknown = InboxParams { kind: Some("orders".into()), ..InboxParams::default() };
        let error = select(&unknown).expect_err("it is no kind").to_string();
        assert_eq!(error, "`orders` is not a kind; allowed: review, held_order");
    }

    #[test]
    fn pages_continue_after_the_position_of_the_last_item() {
        let limit = serde_json::from_str("2").expect("a limit");
        let first = select(&InboxParams { limit, ..InboxParams::default() }).expect("valid");
        assert_eq!(ids(&first), ["cs_1", "shop/a,b"]);
        let second =
            select(&InboxParams { limit, after: first.next, ..InboxParams::default() }).expect("valid");
        assert_eq!((ids(&second), &second.next), (vec!["v-1", "v-2"], &None));
        let bad = InboxParams { after: Some("v-1".into()), ..InboxParams::default() };
        assert!(select(&bad).is_err());
    }
}
