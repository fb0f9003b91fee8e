//! A decision about several items by one press: the boxes that check the items, the second press, and the outcome of each.

use super::forms::{Draft, Fields};
use super::layout::PageError;
use super::parts::{Tone, badge, card, message, table};
use crate::base::error::CtlError;
use domain_base::digest::Sha256Hex;
use domain_base::wording::format_count;
use maud::{Markup, html};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of items that one press changes.
pub(super) const ITEMS_MAX: usize = 300;

/// The fields of the checked items of a form. The value of a field is that of the item on the page, such as the time of its last change:
/// an item with another value has changed.
#[derive(Debug)]
pub(super) struct ItemFields {
    /// The name of the field of an item is this and the id of the item.
    pub(super) prefix: &'static str,
    /// The items in the plural.
    pub(super) noun: &'static str,
}

impl ItemFields {
    /// The checked items by their ids, with what `parse` reads from the id and the value of each.
    ///
    /// # Errors
    /// None or too many are checked, or `parse` fails.
    pub(super) fn read<T>(
        &self,
        fields: &Fields,
        parse: impl Fn(&str, &str) -> Result<T, PageError>,
    ) -> Result<Vec<(String, T)>, PageError> {
        let mut items = Vec::new();
        for (id, value) in fields.with_prefix(self.prefix) {
            items.push((id.to_owned(), parse(id, value)?));
        }
        if (1..=ITEMS_MAX).contains(&items.len()) {
            return Ok(items);
        }
        let (given, noun) = (items.len(), self.noun);
        Err(PageError::input(format!(
            "the form has {given} {noun} (1 to {ITEMS_MAX} allowed); reload the page"
        )))
    }

    /// The draft that asks `question`, if several items are checked and no press has been about the same action, items and values.
    pub(super) fn first_press(&self, fields: &Fields, action: &str, question: &Markup) -> Option<Draft> {
        let confirmed = digest_items(action, fields.with_prefix(self.prefix));
        let is_first =
            fields.with_prefix(self.prefix).count() > 1 && fields.text("confirmed") != confirmed.as_str();
        is_first.then(|| Draft::to_confirm(question, &confirmed, fields.clone()))
    }

    /// The box that checks an item. A form that was sent keeps its choice, except of an item that has changed: the person has not read
    /// its new `value`.
    pub(super) fn item_box(&self, fields: &Fields, (id, value): (&str, &str), label: &str) -> Markup {
        let name = format!("{}{id}", self.prefix);
        let sent = fields.filled(&name);
        let is_first = fields.filled("action").is_none();
        html! {
            input type="checkbox" form="decide" name=(name) value=(value) checked[is_first || sent == Some(value)] aria-label=(label);
            @if sent.is_some_and(|sent| sent != value) { " " (badge(Tone::Waiting, "changed")) }
        }
    }

    /// The note about checked items that the page does not show any longer as they were sent. `shown` has the value of each item on it.
    pub(super) fn changed_note(&self, fields: &Fields, shown: &BTreeMap<String, String>) -> Markup {
        let is_changed = |(id, value): &(&str, &str)| shown.get(*id).is_none_or(|shown| shown != value);
        let changed = fields.with_prefix(self.prefix).filter(is_changed).count();
        html! {
            @if changed > 0 {
                (message(Tone::Waiting, &html! {
                    strong { (format_count(changed, "checked row has", "checked rows have")) " changed or gone since." }
                    " A changed row is not checked any longer: read it before you check it again."
                }))
            }
        }
    }
}

/// A digest of the action, and of the items with their values on the page. The second press repeats it.
pub(super) fn digest_items<I: Serialize + Ord>(action: &str, items: impl IntoIterator<Item = I>) -> String {
    let items: BTreeSet<I> = items.into_iter().collect();
    Sha256Hex::of_json(&(action, items)).to_string()
}

/// A box that checks all items. It needs the script, which shows it.
pub(super) fn check_all() -> Markup {
    html! { label.check data-check-all hidden { input type="checkbox"; "Check all" } }
}

/// The outcomes of the items that were tried, by their ids.
#[derive(Debug)]
pub(super) struct ItemOutcomes<T> {
    /// The number of items, also of those that were not tried.
    pub(super) all: usize,
    outcomes: Vec<(String, Result<T, CtlError>)>,
}

impl<T> ItemOutcomes<T> {
    pub(super) const fn of(all: usize) -> Self {
        Self { all, outcomes: Vec::new() }
    }

    /// Adds an outcome. Returns whether the daemon has answered, so that the next item can be tried.
    pub(super) fn add(&mut self, id: &str, outcome: Result<T, CtlError>) -> bool {
        let has_answered = !matches!(outcome, Err(CtlError::Client(_)));
        self.outcomes.push((id.to_owned(), outcome));
        has_answered
    }

    /// The number of items that were changed.
    pub(super) fn done(&self) -> usize {
        self.outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).count()
    }

    /// The outcomes below `summary` and a link to `path`, the page with the items. `heading` is that of the first column, and `row`
    /// returns the cells of an item: the item, its outcome and details.
    pub(super) fn render(
        &self,
        summary: &str,
        (path, again): (&str, &str),
        heading: &str,
        row: impl Fn(&str, &Result<T, CtlError>) -> Vec<Markup>,
    ) -> Markup {
        let rows: Vec<_> = self.outcomes.iter().map(|(id, outcome)| row(id, outcome)).collect();
        let tone = if self.done() == self.all { Tone::Ok } else { Tone::Waiting };
        html! {
            div role="status" data-after-action {
                (message(tone, &html! {
                    strong { (summary) }
                    @if self.outcomes.len() < self.all { " The daemon did not answer, so the others were not tried." }
                    " " a href=(path) { (again) }
                }))
            }
            (card("Outcomes", &html! {}, &table("Outcomes", &[heading, "outcome", "details"], &rows)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEMS: ItemFields = ItemFields { prefix: "at:", noun: "items" };

    fn fields(sent: &[(&str, &str)]) -> Fields {
        Fields::of(sent.iter().map(|(name, text)| (*name, (*text).to_owned())))
    }

    #[test]
    fn second_press_repeats_the_action_and_the_items_in_any_order() {
        let confirmed = digest_items("release", [("a", "1"), ("b", "1")]);
        assert_eq!(confirmed, digest_items("release", [("b", "1"), ("a", "1")]));
        let asks = |action: &str, confirmed: &str, items: &[(&str, &str)]| {
            let sent = fields(&[items, &[("confirmed", confirmed)]].concat());
            ITEMS.first_press(&sent, action, &html! { "Sure?" }).is_some()
        };
        let both = [("at:a", "1"), ("at:b", "1")];
        assert!(asks("release", "", &both), "the first press");
        assert!(asks("release", "2", &both), "only a number");
        assert!(!asks("release", "", &[("at:a", "1")]), "one item needs no second press");
        assert!(!asks("release", &confirmed, &both));
        assert!(asks("fail", &confirmed, &both), "another action");
        assert!(asks("release", &confirmed, &[("at:a", "1"), ("at:c", "1")]), "another item");
        assert!(asks("release", &confirmed, &[("at:a", "1"), ("at:b", "2")]), "it has changed since");
    }

    #[test]
    fn item_that_has_changed_is_marked_and_not_checked() {
        let fields = fields(&[("action", "fail"), ("at:a", "1"), ("at:b", "1"), ("at:gone", "1")]);
        let shown = |fields: &Fields, id: &str, value: &str| {
            let page = ITEMS.item_box(fields, (id, value), "x").into_string();
            (page.contains(" checked"), page.contains("</svg>changed</span>"))
        };
        assert_eq!(shown(&fields, "a", "1"), (true, false));
        assert_eq!(shown(&fields, "b", "2"), (false, true));
        assert_eq!(shown(&fields, "new", "1"), (false, false));
        assert_eq!(shown(&Fields::default(), "new", "1"), (true, false));
        let note = |shown: &[(&str, &str)]| {
            let shown = shown.iter().map(|(id, value)| ((*id).to_owned(), (*value).to_owned())).collect();
            ITEMS.changed_note(&fields, &shown).into_string()
        };
        assert!(note(&[("a", "1"), ("b", "2")]).contains("<strong>2 "));
        assert_eq!(note(&[("a", "1"), ("b", "1"), ("gone", "1"), ("new", "1")]), "");
    }
}
