//! Several held or failed orders, changed by one press: their list, and the outcome of each.

use super::forms::{Draft, Fields, action_button, reason_field};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page, with_fault};
use super::parts::{
    Tone, badge, card, free_text, message, order_badge, order_reason, short_moment, table,
    whole_session_link, words,
};
use super::several_items::{ITEMS_MAX, ItemFields, ItemOutcomes, check_all, digest_items};
use super::verdict::read_action;
use super::{Console, ConsoleState};
use crate::audit::log::SinceTime;
use crate::base::error::CtlError;
use crate::base::options::encode_segment;
use crate::verdict::orders::{OrderSelection, change, time_after};
use axum::extract::State;
use domain_base::caller::OPERATOR_REASON_MAX_BYTES;
use domain_base::moment::Moment;
use domain_base::session_id::ApplicationName;
use domain_base::wording::format_count;
use domain_verdict::order::{OrderAction, OrderState, OrderStopCause};
use domain_verdict::wire::OrderReport;
use jiff::Timestamp;
use maud::{Markup, html};
use std::collections::BTreeMap;
use strum::VariantArray;

/// The path of the page.
pub(super) const PATH: &str = "/orders/several";
/// The value of an order is the time of its last change.
const ORDERS: ItemFields = ItemFields { prefix: "changed_at:", noun: "orders" };
/// The parameters of the preview.
const PARAMS: [&str; 4] = ["state", "cause", "application", "since"];
/// The parameter that leaves out the orders which an earlier press has changed.
const CHANGED_BEFORE: &str = "changed_before";

pub(super) async fn page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    show(&console, &fields, &Draft::default()).await
}

/// Changes the orders that the preview has shown.
pub(super) async fn act(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    match OrderChanges::read(&fields) {
        Ok(changes) => {
            if let Some(draft) = ORDERS.first_press(&fields, changes.action.into_str(), &changes.question()) {
                return show(&console, &fields, &draft).await;
            }
            let before = changes.begin(Timestamp::now());
            let outcomes = changes.make(&console).await;
            let body = render_outcomes(&outcomes, changes.done, &preview_path(&fields, before));
            let head = PageHead::below(PATH, "Several orders", "Outcomes");
            Ok(render_page(&console, Section::Orders, head, &body).await)
        }
        Err(error) => {
            let draft = Draft::failed(error, fields.clone())?;
            draft.with_status(show(&console, &fields, &draft).await)
        }
    }
}

async fn show(console: &Console, fields: &Fields, draft: &Draft) -> PageResult {
    let (mut orders, fault) = PageError::beside_form(read_orders(console, fields).await)?;
    let has_more = orders.len() > ITEMS_MAX;
    orders.truncate(ITEMS_MAX);
    let body = html! {
        (draft.note())
        (card("Orders", &html! {}, &html! { div.body { (selection_form(console, fields)) } }))
        @match &fault { Some(error) => (error.render()), None => (render_orders(&orders, has_more, fields)) }
        @if !orders.is_empty() { (change_form(&orders, fields, draft)) }
    };
    let head = PageHead::below("/orders", "Orders", "Several orders");
    Ok(with_fault(render_page(console, Section::Orders, head, &body).await, fault.as_ref()))
}

/// The latest orders that the fields select: up to those that are shown, and one more if there are more.
async fn read_orders(console: &Console, fields: &Fields) -> Result<Vec<OrderReport>, PageError> {
    let application = fields.parsed::<ApplicationName>("application", "Application")?;
    let selection = OrderSelection {
        state: Some(read_state(console, fields)?),
        cause: read_cause(fields)?,
        application: application.as_ref(),
        since: fields.parsed::<SinceTime>("since", "Placed since")?,
        changed_before: fields.parsed::<SinceTime>(CHANGED_BEFORE, "Changed before")?,
    };
    Ok(selection.read(&console.options, ITEMS_MAX + 1).await?)
}

/// The states of orders that can be changed here. Reviewers have held orders only.
const fn states(console: &Console) -> &'static [OrderState] {
    if console.has_only_reviews { &[OrderState::Held] } else { &[OrderState::Held, OrderState::Failed] }
}

fn read_state(console: &Console, fields: &Fields) -> Result<OrderState, PageError> {
    let Some(name) = fields.filled("state") else { return Ok(OrderState::Held) };
    let known = states(console).iter().find(|state| state.into_str() == name);
    known.copied().ok_or_else(|| {
        let known: Vec<_> = states(console).iter().map(|state| state.into_str()).collect();
        PageError::input(format!("`State` is `{name}`; allowed: {}", known.join(", ")))
    })
}

fn read_cause(fields: &Fields) -> Result<Option<OrderStopCause>, PageError> {
    let Some(name) = fields.filled("cause") else { return Ok(None) };
    let known = OrderStopCause::VARIANTS.iter().find(|cause| cause.into_str() == name);
    known.copied().map(Some).ok_or_else(|| {
        let known: Vec<_> = OrderStopCause::VARIANTS.iter().map(|cause| cause.into_str()).collect();
        PageError::input(format!("`Cause` is `{name}`; allowed: {}", known.join(", ")))
    })
}

/// The preview of the orders that no press has changed. `before` is the time of this press; that of an earlier one stays.
fn preview_path(fields: &Fields, before: Timestamp) -> String {
    let before = fields.filled(CHANGED_BEFORE).map_or_else(|| before.to_string(), str::to_owned);
    let params = PARAMS.into_iter().map(|name| (name, fields.filled(name)));
    let params = params.chain([(CHANGED_BEFORE, Some(before.as_str()))]);
    let params = params.filter_map(|(name, text)| Some(format!("{name}={}", encode_segment(text?))));
    format!("{PATH}?{}", params.collect::<Vec<_>>().join("&"))
}

fn selection_form(console: &Console, fields: &Fields) -> Markup {
    html! {
        form.fields method="get" action=(PATH) {
            label.f {
                "State"
                select name="state" {
                    @for state in states(console) {
                        option value=(state.into_str()) selected[fields.text("state") == state.into_str()] { (state.into_str()) }
                    }
                }
            }
            label.f {
                "Stopped by"
                select name="cause" {
                    option value="" { "any cause" }
                    @for cause in OrderStopCause::VARIANTS {
                        option value=(cause.into_str()) selected[fields.text("cause") == cause.into_str()] { (words(cause.into_str())) }
                    }
                }
            }
            label.f { "Application" input type="text" name="application" value=(fields.text("application")) placeholder="any application" autocomplete="off"; }
            label.f { "Placed since (a day, or a period such as 2d)" input type="text" name="since" value=(fields.text("since")) placeholder="2d" autocomplete="off"; }
            button.btn type="submit" { "Show the orders" }
            @if let Some(before) = fields.filled(CHANGED_BEFORE) { p.note { "Only orders that have not changed since " (before) " are shown." } }
        }
    }
}

fn render_orders(orders: &[OrderReport], has_more: bool, fields: &Fields) -> Markup {
    let row = |report: &OrderReport| {
        let order = &report.order;
        // the daemon refuses the action if an order has changed since this page
        let (value, label) = (order.changed_at.to_string(), format!("Change {}", report.session_id));
        vec![
            ORDERS.item_box(fields, (report.session_id.as_str(), &value), &label),
            whole_session_link(report.session_id.as_str()),
            order_badge(order.state),
            html! { (report.tier) },
            short_moment(order.placed_at),
            html! { (order.attempts) },
            order_reason(report.reason()),
        ]
    };
    let rows: Vec<_> = orders.iter().map(row).collect();
    let heading = ["change", "session", "state", "tier", "placed", "#attempts", "reason"];
    card(
        "Matching orders",
        &html! { (check_all()) span.count.neutral { @if has_more { "more than " } (orders.len()) } },
        &html! {
            @if has_more {
                (message(Tone::Waiting, &html! { "There are more. One press changes at most " (ITEMS_MAX) " orders. These are the latest; repeat the action for the others." }))
            }
            (ORDERS.changed_note(fields, &shown_changes(orders)))
            (table("Matching orders", &heading, &rows))
        },
    )
}

/// The times of the last changes as the fields of the page have them, by the sessions.
fn shown_changes(orders: &[OrderReport]) -> BTreeMap<String, String> {
    orders.iter().map(|report| (report.session_id.to_string(), report.order.changed_at.to_string())).collect()
}

/// The form with the actions that the state of at least one order allows.
fn change_form(orders: &[OrderReport], fields: &Fields, draft: &Draft) -> Markup {
    let count = |action| orders.iter().filter(|report| report.order.allows(action)).count();
    let held = count(OrderAction::Release);
    let action = |class: &str, text: &str, key: &str, value: &str| {
        action_button(class, &html! { (text) }, key, ("action", value), PATH)
    };
    let query = PARAMS.map(|name| fields.text(name)).join(" ");
    let item = digest_items(&query, shown_changes(orders));
    html! {
        form.card.decide #decide method="post" action=(PATH) aria-label="Decide" {
            header { h2 { "Decide the checked orders" } }
            div.body {
                (reason_field("Why?", OPERATOR_REASON_MAX_BYTES, draft, &item))
                @for name in PARAMS { input type="hidden" name=(name) value=(fields.text(name)); }
                @if let Some(before) = fields.filled(CHANGED_BEFORE) { input type="hidden" name=(CHANGED_BEFORE) value=(before); }
                (draft.confirmation())
                @if held > 0 { p.small { "The policy holds the verdicts of " (format_count(held, "order", "orders")) " on this page. Every action except the release discards those of the checked orders." } }
                div.acts {
                    @if held > 0 { (action("plain", "Release them to the customers", "r", "release")) }
                    @if count(OrderAction::Retry) > 0 {
                        (action(if held > 0 { "danger" } else { "plain" }, "Ask the model again for each", "t", "retry"))
                    }
                    @if count(OrderAction::Fail) > 0 { (action("danger", "Fail them", "f", "fail")) }
                    @if count(OrderAction::Cancel) > 0 { (action("danger", "Cancel them", "x", "cancel")) }
                    p.note { "Only checked orders are changed, and more than one after a second press. Each is a change of its own. An order that has changed meanwhile, or does not allow the action, stays as it is." }
                }
            }
        }
    }
}

/// The change of the orders that the preview has shown.
#[derive(Debug)]
struct OrderChanges {
    action: OrderAction,
    /// The words for an order that is changed.
    done: &'static str,
    reason: String,
    /// The sessions, each with the time of the last change of its order.
    orders: Vec<(String, Timestamp)>,
}

impl OrderChanges {
    /// # Errors
    /// A field is missing or invalid.
    fn read(fields: &Fields) -> Result<Self, PageError> {
        let (action, done) = read_action(fields)?;
        let reason = fields.required("reason", "Reason")?;
        let orders = ORDERS.read(fields, |session_id, changed_at| {
            let Moment(changed_at) = changed_at.parse().map_err(|_| {
                PageError::input(format!("the change of {session_id} is not a time; reload the page"))
            })?;
            Ok(changed_at)
        })?;
        Ok(Self { action, done, reason, orders })
    }

    fn question(&self) -> Markup {
        let orders = format_count(self.orders.len(), "order is", "orders are");
        html! { "Press the same button once more: " (orders) " then " (self.done) ". Nothing is changed yet." }
    }

    /// A time before the changes of a press at `now`, and after all earlier changes of its orders.
    fn begin(&self, now: Timestamp) -> Timestamp {
        let changes = self.orders.iter().map(|(_, changed_at)| *changed_at);
        time_after(changes).map_or(now, |after| after.max(now))
    }

    /// Changes the orders one after the other, until the daemon does not answer.
    async fn make(&self, console: &Console) -> ItemOutcomes<OrderReport> {
        let Self { action, reason, orders, .. } = self;
        let mut outcomes = ItemOutcomes::of(orders.len());
        for (session_id, changed_at) in orders {
            let outcome = change(&console.options, session_id, *action, reason, Some(*changed_at)).await;
            if !outcomes.add(session_id, outcome) {
                break;
            }
        }
        outcomes
    }
}

fn render_outcomes(outcomes: &ItemOutcomes<OrderReport>, done: &str, preview_path: &str) -> Markup {
    let row = |session_id: &str, outcome: &Result<OrderReport, CtlError>| {
        let (state, details) = match outcome {
            Ok(_) => (badge(Tone::Ok, done), html! {}),
            Err(error) => (badge(Tone::Waiting, "not changed"), free_text(&error.to_string())),
        };
        vec![whole_session_link(session_id), state, details]
    };
    let all = format_count(outcomes.all, "order", "orders");
    let summary = format!("Done: {done} {} of {all}.", outcomes.done());
    outcomes.render(&summary, (preview_path, "Show the orders again"), "session", row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(fields: &[(&str, &str)]) -> Result<OrderChanges, PageError> {
        OrderChanges::read(&Fields::of(fields.iter().map(|(name, text)| (*name, (*text).to_owned()))))
    }

    #[test]
    fn orders_shown_again_are_those_that_no_press_has_changed() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let changed =
            changes(&[("action", "retry"), ("reason", "x"), ("changed_at:cs_1", "2026-11-20T10:00:00Z")])
                .expect("valid fields");
        // an order that is not among the shown ones can have changed since
        let now = at("2026-11-20T10:05:00Z");
        assert_eq!(changed.begin(now), now);
        // the clock of the console can be slow
        assert_eq!(changed.begin(at("2026-11-20T09:00:00Z")), at("2026-11-20T10:00:00.000000001Z"));
        let path = |shown: &[(&str, &str)]| {
            preview_path(&Fields::of(shown.iter().map(|(name, text)| (*name, (*text).to_owned()))), now)
        };
        assert_eq!(
            path(&[("state", "held")]),
            format!("{PATH}?state=held&changed_before=2026-11-20T10:05:00Z")
        );
        let again = path(&[("state", "held"), (CHANGED_BEFORE, "2026-11-20T10:00:00Z")]);
        assert_eq!(again, format!("{PATH}?state=held&changed_before=2026-11-20T10:00:00Z"));
    }

    #[test]
    fn form_returns_the_orders_as_the_preview_has_shown_them() {
        let at = "2026-11-20T10:00:00Z";
        let (action, reason) = (("action", "retry"), ("reason", "the model works again"));
        let sent = [action, reason, ("changed_at:shop/cs_1", at), ("changed_at:cs_2", at)];
        let read = changes(&sent).expect("valid fields");
        let sessions: Vec<_> = read.orders.iter().map(|(session_id, _)| session_id.as_str()).collect();
        assert_eq!((read.action, sessions), (OrderAction::Retry, vec!["cs_2", "shop/cs_1"]));
        for fields in [
            &[action, reason][..],
            &[action, ("changed_at:cs_1", at)],
            &[("action", "deliver"), reason, ("changed_at:cs_1", at)],
            &[action, reason, ("changed_at:cs_1", "now")],
        ] {
            assert!(changes(fields).is_err(), "{fields:?}");
        }
    }
}
