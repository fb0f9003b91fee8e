//! `oraclectl orders` and `oraclectl order`.

use crate::audit::log::SinceTime;
use crate::base::error::CtlError;
use crate::base::input::with_style;
use crate::base::options::{GlobalOptions, encode_segment, id_parser, limit_parser};
use crate::base::output::{
    format_pairs, format_table, format_user, print_json, print_note, shorten_line, warn_of_omitted_rows,
};
use crate::base::program::examples;
use clap::ArgGroup;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain_base::caller::OPERATOR_REASON_MAX_BYTES;
use domain_base::page::{ListPage, PageLimit};
use domain_base::session_id::{ApplicationName, SessionId};
use domain_base::text_form::{is_blank, visible_json};
use domain_base::upstream_text::UpstreamText;
use domain_base::wording::format_count;
use domain_verdict::opinion::{OpinionShare, OpinionTally};
use domain_verdict::order::{
    OperatorAction, Order, OrderAction, OrderAttempt, OrderState, OrderStopCause, OrderWait,
};
use domain_verdict::policy::join_causes;
use domain_verdict::wire::{HeldVerdictReport, OrderActionRequest, OrderReport};
use hyper::Method;
use indicatif::ProgressBar;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use std::io::Write;
use strum::VariantArray;

/// List the orders of verdicts that the model generates, the latest one first
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl orders --state held"]))]
pub(crate) struct OrdersArgs {
    /// Only orders in this state
    #[arg(long, value_name = "STATE", value_parser = state_parser())]
    state: Option<OrderState>,
    /// Only orders of this application
    #[arg(long, value_name = "NAME")]
    application: Option<ApplicationName>,
    /// Only orders after this position in the list
    #[arg(long, value_name = "POSITION", value_parser = id_parser())]
    after: Option<String>,
    /// Maximum number of orders, up to 1000 [default: 100]
    #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(<PageLimit>::MAX))]
    limit: Option<usize>,
}

fn state_parser() -> impl TypedValueParser<Value = OrderState> {
    let names = OrderState::VARIANTS.iter().map(|state| state.into_str());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<OrderState>())
}

fn cause_parser() -> impl TypedValueParser<Value = OrderStopCause> {
    let names = OrderStopCause::VARIANTS.iter().map(|cause| cause.into_str());
    PossibleValuesParser::new(names).try_map(|name| {
        let known = OrderStopCause::VARIANTS.iter().find(|cause| cause.into_str() == name);
        known.copied().ok_or("an unknown cause")
    })
}

/// Show, retry, fail, cancel or release one order, or all orders that match
#[derive(Debug, clap::Args)]
pub(crate) struct OrderArgs {
    #[command(subcommand)]
    action: OrderVerb,
}

#[derive(Debug, clap::Subcommand)]
enum OrderVerb {
    /// Show an order with its last attempts
    #[command(after_help = examples(&["oraclectl order show cs_1", "oraclectl order show cs_1 --text"]))]
    Show {
        /// Session id; shop/cs_1 for a session of the application `shop`
        #[arg(value_parser = id_parser())]
        session_id: String,
        /// Show the verdict that the policy holds instead; the audit log names you as its reader
        #[arg(long)]
        text: bool,
    },
    /// Release the verdict that the policy holds: it is delivered and mailed
    #[command(after_help = examples(&["oraclectl order release cs_1 --reason 'the conflict is explained'"]))]
    Release(ChangeArgs),
    /// Retry an order: its limits of age and of rejected answers start again, and a held verdict is destroyed
    #[command(after_help = examples(&["oraclectl order retry cs_1 --reason 'the model works again'", "oraclectl order retry --state held --cause expired --since 2d --dry-run", "oraclectl order retry --state held --cause expired --since 2d --reason 'the model works again'"]))]
    Retry(ChangeArgs),
    /// Fail a queued or held order; a held verdict is destroyed
    #[command(after_help = examples(&["oraclectl order fail cs_1 --reason 'the model cannot answer this'"]))]
    Fail(ChangeArgs),
    /// Cancel a queued, generating or held order for good; its session gets no verdict, and a held verdict is destroyed
    #[command(after_help = examples(&["oraclectl order cancel cs_1 --reason 'the customer has cancelled'"]))]
    Cancel(ChangeArgs),
}

/// The order to change, or the selection of all that are changed one after the other.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("orders").required(true).args(["session_id", "state"]))]
struct ChangeArgs {
    /// Session id; shop/cs_1 for a session of the application `shop`
    #[arg(value_parser = id_parser())]
    session_id: Option<String>,
    /// In place of a session id: all orders in this state, to which the next options apply
    #[arg(long, value_name = "STATE", value_parser = state_parser())]
    state: Option<OrderState>,
    /// Only orders that were stopped for this cause
    #[arg(long, value_name = "CAUSE", value_parser = cause_parser(), conflicts_with = "session_id")]
    cause: Option<OrderStopCause>,
    /// Only orders of this application
    #[arg(long, value_name = "NAME", conflicts_with = "session_id")]
    application: Option<ApplicationName>,
    /// Only orders that were placed since a time (2026-11-20T10:00:00Z) or a day (in UTC), or in the last period (90s, 15m, 2h, 7d)
    #[arg(long, value_name = "TIME", conflicts_with = "session_id")]
    since: Option<SinceTime>,
    /// Only orders that were last changed before a time. It leaves out orders that an interrupted command has changed
    #[arg(long, value_name = "TIME", conflicts_with = "session_id")]
    changed_before: Option<SinceTime>,
    /// Show the orders, and change none
    #[arg(long, conflicts_with = "session_id")]
    dry_run: bool,
    /// Reason, for the audit log
    #[arg(long, required_unless_present = "dry_run", value_parser = parse_reason)]
    reason: Option<String>,
}

/// Checks a reason before anything is sent.
fn parse_reason(text: &str) -> Result<String, String> {
    if is_blank(text) {
        return Err(format!("it has no visible text (1 to {OPERATOR_REASON_MAX_BYTES} bytes allowed)"));
    }
    if text.len() > OPERATOR_REASON_MAX_BYTES {
        return Err(format!("it has {} bytes (1 to {OPERATOR_REASON_MAX_BYTES} bytes allowed)", text.len()));
    }
    Ok(text.to_owned())
}

/// What a change of many orders has done.
#[derive(Debug, Serialize)]
struct ChangedOrders {
    /// The number of orders that matched and could be changed.
    matched: usize,
    changed: Vec<SessionId>,
    failed: Vec<SessionId>,
}

impl OrdersArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let limit = self.limit.unwrap_or(*<PageLimit>::default());
        let page =
            read_orders(options, limit, self.state, self.application.as_ref(), self.after.as_deref()).await?;
        if options.json {
            return print_json(out, &page);
        }
        if let Some(next) = &page.next {
            warn_of_omitted_rows(Some(next));
        }
        Ok(writeln!(out, "{}", format_orders(&page.items))?)
    }
}

impl OrderArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let report = match &self.action {
            OrderVerb::Show { session_id, text: true } => return show_held(options, session_id, out).await,
            OrderVerb::Show { session_id, .. } => {
                let answer = options.call_for_reviewer(Method::GET, &order_path(session_id), None).await;
                answer.map_err(|error| error.with_application_hint(session_id))?.json()?
            }
            OrderVerb::Release(orders) => return orders.change(options, OrderAction::Release, out).await,
            OrderVerb::Retry(orders) => return orders.change(options, OrderAction::Retry, out).await,
            OrderVerb::Fail(orders) => return orders.change(options, OrderAction::Fail, out).await,
            OrderVerb::Cancel(orders) => return orders.change(options, OrderAction::Cancel, out).await,
        };
        show_report(options, &report, out)
    }
}

impl ChangeArgs {
    async fn change(
        &self,
        options: &GlobalOptions,
        action: OrderAction,
        out: &mut dyn Write,
    ) -> Result<(), CtlError> {
        let reason = self.reason.as_deref().unwrap_or_default();
        if let Some(session_id) = &self.session_id {
            return show_report(options, &change(options, session_id, action, reason, None).await?, out);
        }
        let selection = OrderSelection {
            state: self.state,
            cause: self.cause,
            application: self.application.as_ref(),
            since: self.since,
            changed_before: self.changed_before,
        };
        let mut matching = selection.read(options, usize::MAX).await?;
        let selected = matching.len();
        matching.retain(|report| report.order.allows(action));
        let left_out = selected - matching.len();
        if left_out > 0 {
            print_note(&format!("oraclectl: {}", describe_left_out(action, left_out)));
        }
        if self.dry_run && options.json {
            return print_json(out, &matching);
        }
        if self.dry_run {
            let matched = format_count(matching.len(), "order matches", "orders match");
            return Ok(writeln!(out, "{}\n{matched}; none was changed", format_orders(&matching))?);
        }
        change_all(options, &matching, (action, reason), out).await
    }
}

/// The selected orders that `action` cannot change, with the reason.
fn describe_left_out(action: OrderAction, count: usize) -> String {
    let orders = format_count(count, "order", "orders");
    let are = if count == 1 { "is" } else { "are" };
    match action {
        OrderAction::Release => format!("{orders} without a verdict that the policy holds {are} left out"),
        _ => format!("{orders} whose state does not allow `{}` {are} left out", action.into_str()),
    }
}

/// The orders to change.
#[derive(Debug)]
pub(crate) struct OrderSelection<'s> {
    pub(crate) state: Option<OrderState>,
    pub(crate) cause: Option<OrderStopCause>,
    pub(crate) application: Option<&'s ApplicationName>,
    pub(crate) since: Option<SinceTime>,
    pub(crate) changed_before: Option<SinceTime>,
}

impl OrderSelection<'_> {
    /// The selected orders, the latest one first, and at most `most` of them.
    pub(crate) async fn read(
        &self,
        options: &GlobalOptions,
        most: usize,
    ) -> Result<Vec<OrderReport>, CtlError> {
        let times = [self.since, self.changed_before];
        let [since, changed_before] = times.map(|time| time.map(SinceTime::to_timestamp));
        let (mut matching, mut after) = (Vec::new(), None::<String>);
        loop {
            let limit = <PageLimit>::MAX;
            let page = read_orders(options, limit, self.state, self.application, after.as_deref()).await?;
            let is_selected = |order: &Order| {
                self.cause.is_none_or(|cause| order.stop_cause == Some(cause))
                    && since.is_none_or(|since| order.placed_at >= since)
                    && changed_before.is_none_or(|before| order.changed_at < before)
            };
            let selected = page.items.into_iter().filter(|report| is_selected(&report.order));
            matching.extend(selected.take(most - matching.len()));
            after = page.next.filter(|_| matching.len() < most);
            if after.is_none() {
                return Ok(matching);
            }
        }
    }
}

/// The time just after the last of these changes.
pub(crate) fn time_after(changes: impl Iterator<Item = Timestamp>) -> Option<Timestamp> {
    changes.max()?.checked_add(SignedDuration::from_nanos(1)).ok()
}

/// Changes orders one after the other, each only if it is still as it was listed. An order that cannot be changed does not prevent the others;
/// the command can be repeated for the rest.
async fn change_all(
    options: &GlobalOptions,
    orders: &[OrderReport],
    (action, reason): (OrderAction, &str),
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    // before the first change: an interruption may leave no time for a message
    if action == OrderAction::Retry
        && let Some(before) = time_after(orders.iter().map(|report| report.order.changed_at))
    {
        print_note(&format!(
            "oraclectl: if this is interrupted, repeat the command with `--changed-before {before}`, so that no order is retried twice"
        ));
    }
    let mut done = ChangedOrders { matched: orders.len(), changed: Vec::new(), failed: Vec::new() };
    let bar = with_style(ProgressBar::new(orders.len() as u64), "{bar:20} {pos} of {len}, {eta} left");
    let mut first = None;
    for OrderReport { session_id, order, .. } in orders {
        match change(options, &session_id.to_string(), action, reason, Some(order.changed_at)).await {
            Ok(_) => done.changed.push(session_id.clone()),
            Err(error) => {
                let is_disconnected = matches!(error, CtlError::Client(_));
                done.failed.push(session_id.clone());
                bar.suspend(|| print_note(&format!("{session_id}: {error}")));
                first.get_or_insert(error);
                if is_disconnected {
                    break;
                }
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if options.json {
        print_json(out, &done)?;
    } else {
        let matched = format_count(done.matched, "order", "orders");
        writeln!(out, "{}: {} of {matched}", action.into_str(), done.changed.len())?;
    }
    first.map_or(Ok(()), |error| Err(CtlError::Printed(Box::new(error))))
}

fn show_report(options: &GlobalOptions, report: &OrderReport, out: &mut dyn Write) -> Result<(), CtlError> {
    if options.json {
        return print_json(out, report);
    }
    Ok(write!(out, "{}", format_report(report))?)
}

async fn read_orders(
    options: &GlobalOptions,
    limit: usize,
    state: Option<OrderState>,
    application: Option<&ApplicationName>,
    after: Option<&str>,
) -> Result<ListPage<OrderReport>, CtlError> {
    let state = state.map(|state| format!("&state={}", state.into_str())).unwrap_or_default();
    let after = after.map(|after| format!("&after={}", encode_segment(after))).unwrap_or_default();
    let application = application.map(|name| format!("&application={name}")).unwrap_or_default();
    let path = format!("/v1/orders?limit={limit}{state}{application}{after}");
    Ok(options.call_for_reviewer(Method::GET, &path, None).await?.json()?)
}

/// An order with its session.
pub(super) fn format_report(report: &OrderReport) -> String {
    let named = vec![("session", report.session_id.to_string()), ("tier", report.tier.to_string())];
    format_order(named, &report.order, report.waiting_for.as_ref())
}

/// Shows the verdict that the policy holds.
async fn show_held(options: &GlobalOptions, session_id: &str, out: &mut dyn Write) -> Result<(), CtlError> {
    let path = format!("{}/verdict", order_path(session_id));
    let answer = options.call_for_reviewer(Method::GET, &path, None).await;
    let held: HeldVerdictReport = answer.map_err(|error| error.with_application_hint(session_id))?.json()?;
    if options.json {
        return print_json(out, &held);
    }
    let pairs = [
        ("session", held.session_id.to_string()),
        ("query", held.query.as_str().to_owned()),
        ("held at", held.held_at.to_string()),
        ("path", held.path.into_str().to_owned()),
        ("causes", join_causes(&held.causes)),
        ("coherence", held.decision.coherence_score.to_string()),
    ];
    write!(out, "{}", format_pairs(&pairs))?;
    Ok(writeln!(out, "{}", visible_json(held.verdict.get()))?)
}

pub(crate) async fn change(
    options: &GlobalOptions,
    session_id: &str,
    action: OrderAction,
    reason: &str,
    changed_at: Option<Timestamp>,
) -> Result<OrderReport, CtlError> {
    let request = OrderActionRequest { action, reason: reason.to_owned(), changed_at };
    let body = serde_json::to_vec(&request).map_err(std::io::Error::from)?;
    let answer = options.call_for_reviewer(Method::POST, &order_path(session_id), Some(body.into())).await;
    Ok(answer.map_err(|error| error.with_application_hint(session_id))?.json()?)
}

pub(crate) fn order_path(session_id: &str) -> String {
    format!("/v1/orders/{}", encode_segment(session_id))
}

fn next_attempt(order: &Order) -> String {
    order.next_attempt_at.map_or_else(|| "none".into(), |at: Timestamp| at.to_string())
}

/// Maximum length of a reason in the list of orders; `order show` has all of it.
const REASON_MAX_CHARS: usize = 100;

fn format_orders(orders: &[OrderReport]) -> String {
    if orders.is_empty() {
        return "no orders".into();
    }
    let rows = orders.iter().map(|report| {
        let order = &report.order;
        [
            report.session_id.to_string(),
            order.state.into_str().to_owned(),
            report.tier.to_string(),
            order.placed_at.to_string(),
            order.attempts.to_string(),
            next_attempt(order),
            shorten_line(&report.reason().unwrap_or_else(|| "none".into()), REASON_MAX_CHARS),
        ]
    });
    format_table(
        ["session", "state", "tier", "placed at", "attempts", "next attempt", "reason"],
        rows.collect(),
    )
}

/// The state of an order and what it waits for, after the pairs `head`, and its last attempts.
pub(super) fn format_order(
    head: Vec<(&'static str, String)>,
    order: &Order,
    waiting_for: Option<&OrderWait>,
) -> String {
    let mut pairs = head;
    pairs.extend([
        ("state", order.state.into_str().to_owned()),
        ("placed at", order.placed_at.to_string()),
        ("changed at", order.changed_at.to_string()),
        ("attempts", order.attempts.to_string()),
        ("next attempt", next_attempt(order)),
    ]);
    if let Some(OrderWait { detail, until, .. }) = waiting_for {
        let until = until.map(|at| format!(" (until {at})")).unwrap_or_default();
        pairs.push(("waits for", format!("{detail}{until}")));
    }
    if let Some(cause) = order.stop_cause {
        let causes = join_causes(&order.policy_causes);
        let causes = if causes.is_empty() { String::new() } else { format!(": {causes}") };
        pairs.push(("stopped by", format!("{}{causes}", cause.into_str())));
    }
    if let Some(OperatorAction { action, at, uid, user_name, reason }) = &order.operator_action {
        let by = format_user(&uid.to_string(), user_name.as_deref());
        pairs.push(("operator", format!("{} by {by} at {at}: {reason}", action.into_str())));
    }
    let mut text = format_pairs(&pairs);
    if !order.last_attempts.is_empty() {
        let rows = order.last_attempts.iter().map(|attempt| attempt_row(order, attempt)).collect();
        text.push('\n');
        text.push_str(&format_table(
            ["attempt", "started at", "model", "outcome", "tokens", "cost", "error"],
            rows,
        ));
        text.push('\n');
    }
    if let Some(opinions) = &order.opinions {
        let agreed = opinions.agreed_label.map_or("none", |label| label.into_str());
        let OpinionTally { count, agree, shares, .. } = opinions;
        text.push_str(&format!("\nopinions: {agree} of {count} must agree; agreed label: {agreed}\n"));
        let rows = shares.iter().map(share_row).collect();
        text.push_str(&format_table(SHARE_COLUMNS, rows));
        text.push('\n');
    }
    text
}

/// The columns of [`share_row`].
pub(crate) const SHARE_COLUMNS: [&str; 4] = ["model", "label", "opinions", "95 % interval of its share"];

/// How often a model gave a label.
pub(crate) fn share_row(share: &OpinionShare) -> [String; 4] {
    [
        share.oracle_id.to_string(),
        share.verdict_label.to_string(),
        format!("{} of {}", share.opinions, share.of),
        format!("{:.2} to {:.2} %", share.share_min * 100.0, share.share_max * 100.0),
    ]
}

/// The model of an attempt: its id, which the opinions have, and its name.
pub(crate) fn name_model(attempt: &OrderAttempt) -> String {
    let name = &attempt.generation.model;
    attempt.oracle_id.as_ref().map_or_else(|| name.clone(), |id| format!("{id} ({name})"))
}

fn attempt_row(order: &Order, attempt: &OrderAttempt) -> [String; 7] {
    let tokens = attempt.usage.and_then(|usage| usage.total_tokens);
    [
        format!("{}{}", attempt.attempt, if attempt.is_last { " (last)" } else { "" }),
        attempt.started_at.to_string(),
        name_model(attempt),
        order.outcome_of(attempt).to_owned(),
        tokens.map_or_else(|| "unknown".into(), |tokens| tokens.to_string()),
        attempt.cost.as_ref().map_or_else(|| "unknown".into(), ToString::to_string),
        attempt.cause.as_ref().map_or("none", UpstreamText::reveal).to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_of_an_attempt_has_its_id_before_its_name() {
        let examples: serde_json::Value =
            serde_json::from_str(include_str!("../../../docs/openapi-examples.json")).expect("valid JSON");
        let mut attempt = examples["change_order"]["200"]["last_attempts"][0].clone();
        let name = |attempt: &serde_json::Value| {
            name_model(&serde_json::from_value(attempt.clone()).expect("a valid attempt"))
        };
        assert_eq!(name(&attempt), "gemini-2.5-flash");
        attempt["oracle_id"] = "primary".into();
        assert_eq!(name(&attempt), "primary (gemini-2.5-flash)");
    }

    #[test]
    fn orders_that_an_action_leaves_out_are_counted_with_the_reason() {
        for (action, count, expected) in [
            (OrderAction::Release, 2, "2 orders without a verdict that the policy holds are left out"),
            (OrderAction::Release, 1, "1 order without a verdict that the policy holds is left out"),
            (OrderAction::Fail, 1, "1 order whose state does not allow `fail` is left out"),
        ] {
            assert_eq!(describe_left_out(action, count), expected);
        }
    }
}
