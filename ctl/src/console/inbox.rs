//! The inbox: everything that waits for a person, by consequence and age.

use super::access::LoginEnd;
use super::by_rule;
use super::decisions;
use super::done;
use super::forms::Fields;
use super::items::{InboxItem, ItemKind, read_disputed_values, read_items};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{Tone, age, badge, cut, group_in_text, icon, live};
use super::several_orders;
use super::{Console, ConsoleState};
use crate::console;
use axum::Extension;
use axum::extract::State;
use domain_base::inbox::InboxImportance;
use domain_base::wording::format_count;
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
            span { (format_count(items.len(), "item needs", "items need")) " a decision. The oldest has waited " (age(oldest)) "." }
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
            item.cause = format!("{}: {}", item.id, item.cause);
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

/// The filter of the page.
#[derive(Debug, Clone, Default)]
struct InboxFilter {
    kind: Option<ItemKind>,
    by_age: bool,
}

impl InboxFilter {
    fn read(fields: &Fields) -> Self {
        Self { kind: fields.text("kind").parse().ok(), by_age: fields.text("sort") == "age" }
    }

    fn query(&self) -> String {
        let kind = self.kind.map(|kind| format!("kind={}", kind.into_str()));
        let sort = self.by_age.then(|| "sort=age".to_owned());
        let params: Vec<_> = kind.into_iter().chain(sort).collect();
        if params.is_empty() { String::new() } else { format!("?{}", params.join("&")) }
    }

    fn path(&self) -> String {
        format!("/inbox{}", self.query())
    }
}

fn render(items: &[InboxItem], filter: &InboxFilter) -> Markup {
    let mut shown: Vec<_> =
        items.iter().filter(|item| filter.kind.is_none_or(|kind| kind == item.kind)).collect();
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
            div.card {
                @if groups.is_empty() {
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
        let count = items.iter().filter(|item| kind.is_none_or(|kind| kind == item.kind)).count();
        let path = InboxFilter { kind, ..filter.clone() }.path();
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

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn item(kind: ItemKind, second: i64, path: &str) -> InboxItem {
        let since = Timestamp::from_second(second).expect("a time");
        let importance = match kind {
            ItemKind::HeldOrder => InboxImportance::Customer,
            _ => InboxImportance::Answer,
        };
        let (title, cause, path) = (path.to_owned(), "54208".to_owned(), path.to_owned());
        InboxItem { kind, id: String::new(), title, cause, since, importance, path }
    }

    #[test]
    fn inbox_is_grouped_by_importance_or_sorted_by_age() {
        let items = [item(ItemKind::HeldOrder, 5, "/a"), item(ItemKind::Dispute, 1, "/b")];
        let place = |text: &str, part: &str| text.find(part).expect("it is shown");
        let grouped = render(&items, &InboxFilter::default()).into_string();
        assert!(
            place(&grouped, "href=\"/a\"") < place(&grouped, "href=\"/b\"")
                && grouped.contains("Customers wait")
                && grouped.contains("54,208")
        );
        let by_age = render(&items, &InboxFilter { kind: None, by_age: true }).into_string();
        assert!(place(&by_age, "href=\"/b\"") < place(&by_age, "href=\"/a\""), "{by_age}");
        let only =
            render(&items, &InboxFilter { kind: Some(ItemKind::HeldRun), by_age: false }).into_string();
        assert!(only.contains("Nothing waits for you"), "{only}");
    }
}
