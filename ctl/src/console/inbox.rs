//! The inbox: everything that waits for a person, by consequence and age.

use super::access::LoginEnd;
use super::by_rule;
use super::decisions;
use super::done;
use super::forms::Fields;
use super::items::{InboxItem, ItemKind, read_disputed_values, read_items};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{Tone, age, badge, cut, group_in_text, icon, live, short_id};
use super::several_orders;
use super::{Console, ConsoleState};
use crate::audit::log::parse_duration;
use crate::base::options::encode_segment;
use crate::console;
use axum::Extension;
use axum::extract::State;
use domain_base::inbox::InboxImportance;
use domain_base::wording::format_count;
use jiff::Timestamp;
use maud::{Markup, html};
use std::collections::BTreeMap;
use strum::VariantArray;

pub(super) async fn page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let filter = InboxFilter::read(&fields);
    let items = read_named_items(&console).await?;
    let parts = render(&items, &filter);
    let decided = decisions::render(&console, &fields).await.unwrap_or_else(|error| error.render());
    let sub = match items.iter().map(|item| item.since).min() {
        Some(oldest) => html! {
            span { (format_count(items.len(), "item needs", "items need")) " a decision. The oldest has waited " (age(oldest)) ". Times are UTC." }
        },
        None => html! { (badge(Tone::Ok, "nothing waits")) },
    };
    let body = html! {
        (done::note(&console, &fields).await)
        (live(&format!("/events/inbox{}", filter.query()), &parts))
        (decided)
        p.keys {
            span { kbd { "j" } kbd { "k" } "move" }
            span { kbd { "Enter" } "open" }
            span { kbd { "1" } "…" kbd { "6" } "filter" }
            span { kbd { "s" } "change the order" }
            span { kbd { "?" } "all keys" }
        }
    };
    let several = html! {
        a.btn.slim href=(by_rule::PATH) { "Resolve by a rule" }
        a.btn.slim href=(several_orders::PATH) { "Decide several orders" }
    };
    let head = PageHead { sub: Some(sub), actions: Some(several), ..PageHead::titled("Inbox") };
    Ok(render_page(&console, Section::Inbox, head, &body).await)
}

pub(super) async fn events(
    State(console): State<ConsoleState>,
    Extension(login): Extension<LoginEnd>,
    fields: Fields,
) -> PageResult {
    let (shared, filter) = (console.clone(), InboxFilter::read(&fields));
    console::stream(&console, login, move || {
        let (console, filter) = (shared.clone(), filter.clone());
        async move { Ok::<_, PageError>(render(&read_named_items(&console).await?, &filter)) }
    })
}

/// The items: those of disputes with the difference of their values, and held orders with their queries, unless a reviewer asks.
async fn read_named_items(console: &Console) -> Result<Vec<InboxItem>, PageError> {
    let (mut items, mut values) = (read_items(console).await?, read_disputed_values(console).await?);
    for item in &mut items {
        if let Some(values) = values.remove(&item.path) {
            item.cause = values;
        }
        if item.kind == ItemKind::HeldOrder
            && let Some(query) = console.frame.read_query(console, &item.id).await
        {
            item.cause = format!("{}: {}", short_id(&item.id), item.cause);
            item.title = query;
        }
    }
    Ok(items)
}

/// The heading of a group.
const fn waiting_name(importance: InboxImportance) -> &'static str {
    match importance {
        InboxImportance::Customer => "Customers wait",
        InboxImportance::Answer => "Answers are blocked",
        InboxImportance::Operation => "Other systems wait",
    }
}

/// The ages that the page offers.
const AGES: [(&str, &str); 3] =
    [("1h", "older than 1 hour"), ("1d", "older than 1 day"), ("7d", "older than 7 days")];
/// Number of sources that the page offers: those with the most items.
const SOURCES: usize = 8;

/// The filter of the page.
#[derive(Debug, Clone, Default)]
struct InboxFilter {
    kind: Option<ItemKind>,
    source: Option<String>,
    /// The shortest wait, such as `1d`.
    older: Option<String>,
    by_age: bool,
}

impl InboxFilter {
    fn read(fields: &Fields) -> Self {
        Self {
            kind: fields.text("kind").parse().ok(),
            source: fields.filled("source").map(str::to_owned),
            older: fields.filled("older").filter(|text| parse_duration(text).is_ok()).map(str::to_owned),
            by_age: fields.text("sort") == "age",
        }
    }

    fn query(&self) -> String {
        let params = [
            ("kind", self.kind.map(|kind| kind.into_str())),
            ("source", self.source.as_deref()),
            ("older", self.older.as_deref()),
            ("sort", self.by_age.then_some("age")),
        ];
        let params =
            params.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", encode_segment(value?))));
        let params: Vec<_> = params.collect();
        if params.is_empty() { String::new() } else { format!("?{}", params.join("&")) }
    }

    fn selects(&self, item: &InboxItem) -> bool {
        let least = self.older.as_ref().and_then(|text| parse_duration(text).ok());
        self.kind.is_none_or(|kind| kind == item.kind)
            && self.source.as_ref().is_none_or(|source| item.sources.contains(source))
            && least.is_none_or(|least| Timestamp::now().duration_since(item.since) >= least)
    }

    fn path(&self) -> String {
        format!("/inbox{}", self.query())
    }

    /// The same order of the items, without filters.
    fn without_filters(&self) -> Self {
        Self { by_age: self.by_age, ..Self::default() }
    }
}

fn render(items: &[InboxItem], filter: &InboxFilter) -> Markup {
    let mut shown: Vec<_> = items.iter().filter(|item| filter.selects(item)).collect();
    let mut groups: BTreeMap<Option<InboxImportance>, Vec<&InboxItem>> = BTreeMap::new();
    if filter.by_age {
        shown.sort_by_key(|item| item.since);
    }
    for item in shown {
        groups.entry((!filter.by_age).then_some(item.importance)).or_default().push(item);
    }
    html! {
        div.section {
            header { (filter_chips(items, filter)) }
            (further_chips(items, filter))
            div.card {
                @if groups.is_empty() && !items.is_empty() {
                    div.empty { h3 { "No item matches the filter" } p { a href=(filter.without_filters().path()) { "Show all items" } } }
                } @else if groups.is_empty() {
                    div.empty { (icon("ok")) h3 { "Nothing waits for you" } p { "Held orders, disputes, held runs, drafted notices and dead letters appear here." } }
                } @else {
                    ul.inbox {
                        @for (importance, items) in &groups {
                            @if let Some(importance) = importance {
                                li { div.group { (waiting_name(*importance)) span.count.neutral { (items.len()) } } }
                            }
                            @for item in items { li { (item_row(item)) } }
                        }
                    }
                }
            }
        }
    }
}

fn item_row(item: &InboxItem) -> Markup {
    html! {
        a.item data-row href=(item.path) {
            span.kind { (badge(item.kind.tone(), item.kind.words().0)) }
            span.tt { span.t { (item.title) } span.s { (cut(&group_in_text(&item.cause.replace('`', "")), 160)) } }
            span.why { (item.kind.consequence()) }
            span.age { b { (age(item.since)) } br; (item.since.strftime("%d %b, %H:%M")) }
            (icon("next"))
        }
    }
}

fn filter_chips(items: &[InboxItem], filter: &InboxFilter) -> Markup {
    let chip = |kind: Option<ItemKind>, name: &str, key: usize| {
        let chosen = InboxFilter { kind, ..filter.clone() };
        let (count, path) = (items.iter().filter(|item| chosen.selects(item)).count(), chosen.path());
        html! {
            a.chip href=(path) data-key=(key) aria-current=[(filter.kind == kind).then_some("true")] { (name) " " span.n { (count) } }
        }
    };
    let other = InboxFilter { by_age: !filter.by_age, ..filter.clone() };
    html! {
        nav.chips aria-label="Kind" {
            (chip(None, "All", 1))
            @for (place, kind) in ItemKind::VARIANTS.iter().enumerate() { (chip(Some(*kind), kind.words().1, place + 2)) }
        }
        span.right.chips {
            a.chip href=(other.path()) data-key="s" { (icon("down")) @if filter.by_age { "Age" } @else { "Importance, then age" } }
        }
    }
}

/// The sources that the page offers, each with the number of its items that the other filters select. The selected one is always among them.
fn offered_sources<'i>(items: &'i [InboxItem], filter: &'i InboxFilter) -> Vec<(&'i str, usize)> {
    let others = InboxFilter { source: None, ..filter.clone() };
    let mut counts: BTreeMap<&str, usize> = filter.source.iter().map(|name| (name.as_str(), 0)).collect();
    for source in items.iter().filter(|item| others.selects(item)).flat_map(|item| &item.sources) {
        *counts.entry(source).or_default() += 1;
    }
    let is_source = |name: &str| filter.source.as_deref() == Some(name);
    let mut sources: Vec<_> = counts.into_iter().collect();
    sources.sort_by_key(|&(name, count)| (!is_source(name), std::cmp::Reverse(count)));
    sources.truncate(SOURCES);
    sources
}

/// The filters by source and by age. A second press removes one.
fn further_chips(items: &[InboxItem], filter: &InboxFilter) -> Markup {
    let is_source = |name: &str| filter.source.as_deref() == Some(name);
    let is_older = |age: &str| filter.older.as_deref() == Some(age);
    let other = |text: &str, is_on: bool| (!is_on).then(|| text.to_owned());
    // an age of an address that is none of those of the page
    let own_age = filter.older.as_deref().filter(|age| AGES.iter().all(|(offered, _)| offered != age));
    html! {
        nav.chips aria-label="Source and age" {
            @for (name, count) in offered_sources(items, filter) {
                @let path = InboxFilter { source: other(name, is_source(name)), ..filter.clone() }.path();
                a.chip href=(path) aria-current=[is_source(name).then_some("true")] { (name) " " span.n { (count) } }
            }
            @for (age, name) in AGES {
                @let path = InboxFilter { older: other(age, is_older(age)), ..filter.clone() }.path();
                a.chip href=(path) aria-current=[is_older(age).then_some("true")] { (name) }
            }
            @if let Some(age) = own_age {
                a.chip href=(InboxFilter { older: None, ..filter.clone() }.path()) aria-current="true" { "older than " (age) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: ItemKind, second: i64, path: &str) -> InboxItem {
        let since = Timestamp::from_second(second).expect("a time");
        let importance = match kind {
            ItemKind::HeldOrder => InboxImportance::Customer,
            _ => InboxImportance::Answer,
        };
        let (title, cause, path) = (path.to_owned(), "54208".to_owned(), path.to_owned());
        InboxItem { kind, id: String::new(), title, cause, since, importance, sources: Vec::new(), path }
    }

    #[test]
    fn inbox_is_grouped_by_importance_or_sorted_by_age() {
        let items = [item(ItemKind::HeldOrder, 5, "/a"), item(ItemKind::Dispute, 1, "/b")];
        let place = |text: &str, part: &str| text.find(part).expect("it is shown");
        let grouped = render(&items, &InboxFilter::default()).into_string();
        assert!(
            place(&grouped, "href=\"/a\"") < place(&grouped, "href=\"/b\"")
                && grouped.matches("<div class=\"group\">").count() == 2
                && grouped.contains("54,208")
        );
        let by_age = render(&items, &InboxFilter { by_age: true, ..InboxFilter::default() }).into_string();
        assert!(place(&by_age, "href=\"/b\"") < place(&by_age, "href=\"/a\""), "{by_age}");
        let empty = render(&[], &InboxFilter::default()).into_string();
        assert!(empty.contains("<div class=\"empty\"><svg"), "{empty}");
    }

    #[test]
    fn filter_without_a_match_can_be_removed() {
        let items = [item(ItemKind::HeldOrder, 5, "/a")];
        for (name, value) in [("kind", "held_run"), ("source", "gone"), ("older", "300d")] {
            let since = if name == "older" { Timestamp::now() } else { Timestamp::UNIX_EPOCH };
            let items = items.clone().map(|item| InboxItem { since, ..item });
            let fields = Fields::of([(name, value.to_owned()), ("sort", "age".to_owned())]);
            let page = render(&items, &InboxFilter::read(&fields)).into_string();
            assert!(!page.contains("<div class=\"empty\"><svg"), "{page}");
            assert!(page.contains("</h3><p><a href=\"/inbox?sort=age\">"), "{page}");
            if name != "kind" {
                assert!(page.contains("href=\"/inbox?sort=age\" aria-current=\"true\""), "{page}");
            }
        }
    }

    #[test]
    fn counts_of_chips_are_those_of_the_other_filters() {
        let of = |kind, source: &str| InboxItem { sources: vec![source.to_owned()], ..item(kind, 5, "/a") };
        let mut items = vec![of(ItemKind::Dispute, "rare"), of(ItemKind::HeldRun, "rare")];
        for number in 0..SOURCES {
            let frequent = of(ItemKind::Dispute, &format!("source-{number}"));
            items.extend([frequent.clone(), frequent]);
        }
        let filter = InboxFilter {
            kind: Some(ItemKind::HeldRun),
            source: Some("rare".to_owned()),
            ..InboxFilter::default()
        };
        assert_eq!(offered_sources(&items, &filter), [("rare", 1)]);
        let by_source = InboxFilter { kind: None, ..filter };
        let offered = offered_sources(&items, &by_source);
        assert_eq!((offered.len(), offered.first()), (SOURCES, Some(&("rare", 2))));
        let page = render(&items, &by_source).into_string();
        assert!(page.contains("Disputes <span class=\"n\">1</span>"), "{page}");
    }

    #[test]
    fn inbox_is_filtered_by_source_and_age_with_chips_that_keep_the_other_filters() {
        let old = InboxItem { sources: vec!["a/b".to_owned()], ..item(ItemKind::Dispute, 5, "/old") };
        let new = InboxItem { since: Timestamp::now(), ..item(ItemKind::Dispute, 5, "/new") };
        let is_shown = |page: &str, path: &str| page.contains(&format!("data-row href=\"{path}\""));
        for (name, value) in [("source", "a/b"), ("older", "1d")] {
            let fields = Fields::of([(name, value.to_owned()), ("sort", "age".to_owned())]);
            let page = render(&[old.clone(), new.clone()], &InboxFilter::read(&fields)).into_string();
            assert!(is_shown(&page, "/old") && !is_shown(&page, "/new"), "{page}");
            assert!(
                page.contains("href=\"/inbox?sort=age\" aria-current=\"true\""),
                "it removes the filter: {page}"
            );
        }
        let all = render(&[old, new], &InboxFilter::read(&Fields::of([("older", "long".to_owned())])))
            .into_string();
        assert!(
            is_shown(&all, "/new")
                && all.contains("href=\"/inbox?source=a%2Fb\"")
                && all.contains("/inbox?older=7d"),
            "{all}"
        );
    }
}
