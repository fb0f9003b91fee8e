//! A verdict as its customer would see it: one that the policy holds, with its decision, and a delivered one.

use super::access::LoginEnd;
use super::delivery::{divergence_note, read_session, render_delivery};
use super::done;
use super::forms::{Draft, Fields, action_button, reason_field};
use super::items::{Neighbors, held_path};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::opinions::{opinions_row, render_opinions};
use super::parts::{
    Tone, age, badge, card, cut, decided, icon, live, message, minute, moment, order_badge, pairs,
    session_link, times_in_text, user, verdict_label, words,
};
use super::{Console, ConsoleState};
use crate::base::error::CtlError;
use crate::base::options::encode_segment;
use crate::console;
use crate::verdict::card::read_stored_card;
use crate::verdict::orders::{name_model, order_path};
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use domain_base::caller::OPERATOR_REASON_MAX_BYTES;
use domain_verdict::crosscheck::{CrosscheckDecision, CrosscheckReason, unexpected_members};
use domain_verdict::flag::Flag;
use domain_verdict::generation::GenerationOutcome;
use domain_verdict::label::{ProductTier, VerdictDimension};
use domain_verdict::legal_hold::LegalHold;
use domain_verdict::order::{OperatorAction, Order, OrderAction, OrderAttempt};
use domain_verdict::policy::join_causes;
use domain_verdict::wire::{HeldVerdictReport, OrderReport, SessionExport};
use hyper::Method;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use maud::{Markup, html};
use serde_json::Value as Json;

pub(super) async fn held_page(
    State(console): State<ConsoleState>,
    Path(session_id): Path<String>,
    fields: Fields,
) -> PageResult {
    show_held(&console, &session_id, &fields, &Draft::default()).await
}

/// The page of a held verdict, or that of its decision.
pub(super) async fn show_held(
    console: &Console,
    session_id: &str,
    fields: &Fields,
    draft: &Draft,
) -> PageResult {
    let path = format!("{}/verdict", order_path(session_id));
    let held: HeldVerdictReport = match console.options.call_for_reviewer(Method::GET, &path, None).await {
        Ok(answer) => answer.json()?,
        Err(CtlError::Problem { status: 404 | 409, .. }) => {
            return decided_page(console, session_id, fields, draft).await;
        }
        Err(error) => return Err(error.into()),
    };
    let answer = console.options.call_for_reviewer(Method::GET, &order_path(session_id), None).await?;
    let report: OrderReport = answer.json()?;
    let neighbors = Neighbors::read(console, &held_path(session_id)).await;
    let hold =
        if console.has_only_reviews { None } else { read_session(console, session_id).await?.legal_hold };
    let verdict: Json = serde_json::from_str(held.verdict.get()).unwrap_or_default();
    let flags = &held.decision.flags;
    let beside = html! { @for flag in flags { (badge(Tone::Held, words(flag.into_str()))) } };
    let body = html! {
        (done::note(console, fields).await)
        (draft.note())
        (watch_order(session_id, &report.order))
        div.split {
            div {
                section.card.verdict aria-label="As the customer would see it" {
                    header { h2 { "As the customer would see it" } span.right.chips { (beside) } }
                    div.body { (render_verdict(report.tier, (&verdict, flags), "It would be delivered")) }
                }
                (render_judgment(&held.decision, Some(&join_causes(&held.causes))))
            }
            div {
                (decision_form(session_id, (&report.order, hold.as_ref()), &neighbors, draft))
                (render_order_facts(&report, &held))
            }
        }
    };
    let head = PageHead {
        title: cut(held.query.as_str(), 80),
        crumbs: Some(neighbors.crumbs()),
        sub: Some(html! {
            span { "Held " time datetime=(held.held_at) { (held.held_at.strftime("%Y-%m-%d %H:%M:%S UTC")) } " by the policy: " (join_causes(&held.causes)) ". The crosscheck has approved it." }
        }),
        actions: Some(neighbors.actions()),
    };
    Ok(render_page(console, Section::Inbox, head, &body).await)
}

/// An order as it is now; `None` for reviewers if it is not held, since they see no others.
async fn read_order(console: &Console, session_id: &str) -> Result<Option<Order>, PageError> {
    match console.options.call_for_reviewer(Method::GET, &order_path(session_id), None).await {
        Ok(answer) => Ok(Some(answer.json::<OrderReport>()?.order)),
        Err(CtlError::Problem { status: 404, .. }) if console.has_only_reviews => Ok(None),
        Err(error) => Err(error.with_application_hint(session_id).into()),
    }
}

/// The state and the last decision of an order that has changed since its page was read.
fn order_news(session_id: &str, order: Option<&Order>) -> Markup {
    let Some(order) = order else {
        return html! { strong { "The order is not held any longer." } " A colleague or its application has decided it." };
    };
    html! {
        strong { "The order is " (order.state.into_str()) " now. " }
        @if let Some(OperatorAction { action, at, uid, user_name, reason }) = &order.operator_action {
            (user(&uid.to_string(), user_name.as_deref())) " has " (past(*action)) " it at " (minute(*at)) ": “" (reason) "”. "
        }
        a href=(format!("/sessions/{}", encode_segment(session_id))) { "Show the session" }
    }
}

/// The change of an order since its page was read at `seen`; `None` if nothing has.
pub(super) async fn changed_since(console: &Console, session_id: &str, seen: &str) -> Option<Markup> {
    let order = read_order(console, session_id).await.ok()?;
    let is_same = order.as_ref().is_some_and(|order| order.changed_at.to_string() == seen);
    (!is_same).then(|| {
        html! {
            "This order has changed"
            @if let Some(order) = &order { " at " (minute(order.changed_at)) }
            ". " (order_news(session_id, order.as_ref()))
        }
    })
}

const fn past(action: OrderAction) -> &'static str {
    match action {
        OrderAction::Release => "released",
        OrderAction::Retry => "retried",
        OrderAction::Fail => "failed",
        OrderAction::Cancel => "cancelled",
    }
}

/// The live part of a page that decides an order: it appears when the order is not any longer as the page shows it.
pub(super) fn watch_order(session_id: &str, order: &Order) -> Markup {
    let seen = encode_segment(&order.changed_at.to_string());
    live(&format!("/events/orders/{}?seen={seen}", encode_segment(session_id)), &html! {})
}

pub(super) async fn events(
    State(console): State<ConsoleState>,
    Extension(login): Extension<LoginEnd>,
    Path(session_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let (shared, seen) = (console.clone(), fields.text("seen").to_owned());
    console::stream(&console, login, move || {
        let (console, session_id, seen) = (shared.clone(), session_id.clone(), seen.clone());
        async move {
            let order = read_order(&console, &session_id).await?;
            let is_same = order.as_ref().is_some_and(|order| order.changed_at.to_string() == seen);
            Ok(if is_same {
                html! {}
            } else {
                decided(&order_news(&session_id, order.as_ref()))
            })
        }
    })
}

/// The page of a verdict that is not held any longer: who has decided it, and what comes next.
pub(super) async fn decided_page(
    console: &Console,
    session_id: &str,
    fields: &Fields,
    draft: &Draft,
) -> PageResult {
    let order = read_order(console, session_id).await?;
    let neighbors = Neighbors::read(console, &held_path(session_id)).await;
    let body = html! {
        (done::note(console, fields).await)
        (draft.note())
        section.card.decide #decide aria-label="Decided" {
            header { h2 { "Decided" } span.right { @if let Some(order) = &order { (order_badge(order.state)) } } }
            div.body { p { (order_news(session_id, order.as_ref())) } (draft.kept_reason()) }
            (neighbors.footer())
        }
    };
    let head = PageHead {
        crumbs: Some(neighbors.crumbs()),
        actions: Some(neighbors.actions()),
        ..PageHead::titled(format!("Verdict of {session_id}"))
    };
    Ok(render_page(console, Section::Inbox, head, &body).await)
}

fn render_order_facts(report: &OrderReport, held: &HeldVerdictReport) -> Markup {
    let order = &report.order;
    // with several opinions, the held answer can be that of an earlier attempt
    let is_held = |attempt: &&OrderAttempt| attempt.outcome == Some(GenerationOutcome::Held);
    let attempt = order.last_attempts.iter().rfind(is_held).or(order.last_attempts.last());
    let mut rows = vec![
        ("session", session_link(report.session_id.as_str())),
        ("query", html! { "“" (held.query.as_str()) "”" }),
        ("tier", html! { (report.tier) }),
        ("placed", moment(order.placed_at)),
        ("path", html! { (held.path.into_str()) }),
        ("cause", html! { code { (join_causes(&held.causes)) } }),
    ];
    if let Some(attempt) = attempt {
        rows.push(("model", html! { (name_model(attempt)) }));
    }
    if let Some(cost) = attempt.and_then(|attempt| attempt.cost.as_ref()) {
        rows.push(("cost", html! { (cost) ", this attempt" }));
    }
    rows.extend(opinions_row(order));
    card("Order", &html! {}, &html! { div.body { (pairs(rows)) } (render_opinions(order)) })
}

/// The reason and the actions that the state of an order and the legal hold of its session allow. Reviewers do not see the hold.
pub(super) fn decision_form(
    session_id: &str,
    (order, hold): (&Order, Option<&LegalHold>),
    neighbors: &Neighbors,
    draft: &Draft,
) -> Markup {
    let path = format!("/sessions/{}/order", encode_segment(session_id));
    let action = |class: &str, text: &str, key: &str, value: &str| {
        action_button(class, &html! { (text) }, key, ("action", value), &path)
    };
    let is_held = order.is_held_by_policy();
    let destroys = is_held.then_some("Destroys the held verdict. ");
    let hold = hold.filter(|_| is_held);
    let allows = |action| hold.is_none() && order.allows(action);
    // a failed order has ended
    let name = if order.state.has_ended() { "Retry the order" } else { "Decide" };
    html! {
        form.card.decide #decide method="post" action=(path) aria-label=(name) {
            header { h2 { (name) } span.right.chips { (order_badge(order.state)) span.muted.small { (age(order.changed_at)) } } }
            div.body {
                (reason_field("Why?", OPERATOR_REASON_MAX_BYTES, draft, &format!("{path} {}", order.changed_at)))
                // the daemon refuses the action if the order has changed since this page
                input type="hidden" name="changed_at" value=(order.changed_at);
                div.acts {
                    @if is_held {
                        (action("plain", "Release to the customer", "r", "release"))
                        p.note { "Stores the verdict without the parts that were removed, and sends its mail and its webhook." }
                    }
                    @if let Some(LegalHold { placed_at, reason, .. }) = hold {
                        p.note {
                            "The session is on legal hold since " (minute(*placed_at)) ": “" (reason) "”. The held verdict cannot be destroyed until the hold is released: "
                            code { "oraclectl hold --session " (session_id) " --release --reason …" }
                        }
                    }
                    @if allows(OrderAction::Retry) {
                        (action(if is_held { "danger" } else { "plain" }, "Ask the model again", "t", "retry"))
                        p.note { (destroys.unwrap_or_default()) "Attempt " (order.attempts + 1) "; " @if order.opinions.is_some() { "all opinions are requested again." } @else { "it may cost as much as the last one." } }
                    }
                    @if allows(OrderAction::Fail) {
                        (action("danger", "Fail the order", "f", "fail"))
                        p.note { (destroys.unwrap_or_default()) "It can be retried." }
                    }
                    @if allows(OrderAction::Cancel) {
                        (action("danger", "Cancel the order", "x", "cancel"))
                        p.note { (destroys.unwrap_or_default()) "It never gets a verdict." }
                    }
                }
                (neighbors.next_field())
                // a refused decision is shown on this page again
                @if is_held && neighbors.has_place() { input type="hidden" name="page" value="held"; }
            }
            (neighbors.footer())
        }
    }
}

/// The action in a form about orders, and the words for an order for which it is done.
///
/// # Errors
/// There is no such action.
pub(super) fn read_action(fields: &Fields) -> Result<(OrderAction, &'static str), PageError> {
    match fields.text("action") {
        "release" => Ok((OrderAction::Release, "released")),
        "retry" => Ok((OrderAction::Retry, "retried")),
        "fail" => Ok((OrderAction::Fail, "failed")),
        "cancel" => Ok((OrderAction::Cancel, "cancelled")),
        other => Err(PageError::input(format!(
            "`{other}` is not an action; allowed: release, retry, fail, cancel"
        ))),
    }
}

/// The page of a delivered verdict. The log names its reader.
pub(super) async fn delivered_page(
    State(console): State<ConsoleState>,
    Path(session_id): Path<String>,
) -> PageResult {
    let path = format!("/v1/sessions/{}/export", encode_segment(&session_id));
    let export: SessionExport = console.options.call_control(Method::GET, &path, None).await?.json()?;
    let delivery = export
        .verdict
        .ok_or_else(|| PageError::input(format!("session {session_id} has no stored verdict")))?;
    let part = |name: &str| delivery.get(name).cloned().unwrap_or_default();
    let verdict = part("verdict");
    let decision: Option<CrosscheckDecision> = serde_json::from_value(part("decision")).ok();
    let flags = decision.as_ref().map(|decision| decision.flags.clone()).unwrap_or_default();
    let text = |name: &str| part(name).as_str().map(str::to_owned);
    let session = read_session(&console, &session_id).await?;
    let body = html! {
        (divergence_note(&session.history, &html! {}))
        @if let Some(disclaimer) = text("disclaimer") { (message(Tone::Diverged, &html! { (disclaimer) })) }
        @if let Some(notice) = text("notice") { (message(Tone::Info, &html! { (notice) })) }
        section.card.verdict aria-label="As the customer sees it" {
            header { h2 { "As the customer sees it" } span.right.chips { @for flag in &flags { (badge(Tone::Neutral, words(flag.into_str()))) } } }
            div.body { (render_verdict(session.session.tier, (&verdict, &flags), "It is delivered")) }
            footer { span { "The log has you as its reader." } }
        }
        @if let Some(decision) = &decision { (render_judgment(decision, None)) }
        (render_delivery(&session_id, &session))
    };
    let head = PageHead {
        sub: text("cached_at").map(|at| html! { "Stored at " (times_in_text(&at)) }),
        ..PageHead::below(
            &format!("/sessions/{}", encode_segment(&session_id)),
            &session_id,
            cut(&text("query").unwrap_or_default(), 80),
        )
    };
    Ok(render_page(&console, Section::Orders, head, &body).await)
}

/// The card of a delivered verdict as a file. It is no page: the console escapes characters in pages, and the card shows each changed
/// byte.
pub(super) async fn card_file(
    State(console): State<ConsoleState>,
    Path(session_id): Path<String>,
) -> PageResult {
    let Some(answer) = read_stored_card(&console.options, &session_id).await? else {
        return Err(CtlError::Verb {
            message: format!(
                "the verdict of session {session_id} is not stored, so it has no card; `oraclectl card` regenerates a lost verdict"
            ),
            exit_code: 1,
            was_printed: false,
        }
        .into());
    };
    let name = format!("attachment; filename=\"{}.html\"", encode_segment(&session_id));
    let headers = [(CONTENT_TYPE, "application/octet-stream".to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((headers, answer.body).into_response())
}

fn render_judgment(decision: &CrosscheckDecision, causes: Option<&str>) -> Markup {
    let body = html! {
        div.stats.three {
            div.stat { span.k { "Coherence" } span.v { (format!("{:.4}", decision.coherence_score)) } span.d { (format!("{:.4}", decision.threshold)) " or more is approved" } }
            div.stat { span.k { "Crosscheck" } span.v { @if decision.approved { "approved" } @else { "rejected" } } span.d title=(decision.crosscheck_reason.into_str()) { (reason_words(decision.crosscheck_reason)) } }
            div.stat {
                span.k { "Policy" }
                span.v { @if causes.is_some() { "held" } @else { "delivered" } }
                span.d { code { (causes.unwrap_or("no cause applied")) } }
            }
        }
    };
    card("How it was judged", &html! {}, &body)
}

fn reason_words(reason: CrosscheckReason) -> String {
    match reason {
        CrosscheckReason::Pass => "coherent".to_owned(),
        CrosscheckReason::DegenerateManifold => "its parts contradict each other".to_owned(),
        other => words(other.into_str()),
    }
}

/// The parts of a verdict, with each flag where it applies. `delivered` is the fate of a part that was not asked for.
fn render_verdict(tier: ProductTier, (verdict, flags): (&Json, &[Flag]), delivered: &str) -> Markup {
    let text = |value: Option<&Json>| value.and_then(Json::as_str).unwrap_or_default().to_owned();
    let at = |path: &str| verdict.pointer(path);
    let of_dimension = |flag: &Flag| {
        let place = flag.to_string();
        VerdictDimension::ALL.into_iter().find(|dimension| place.ends_with(&format!(":{dimension}")))
    };
    let dimensions =
        VerdictDimension::ALL.map(|dimension| (dimension, at(&format!("/breakdown/{dimension}"))));
    let has_dimensions = dimensions.iter().any(|(_, value)| value.is_some());
    html! {
        div.top { (verdict_label(&text(at("/verdict")), "big")) }
        p.sum { (text(at("/summary"))) }
        @for flag in flags.iter().filter(|flag| of_dimension(flag).is_none()) { (flag_note(flag)) }
        (unexpected_parts(tier, (verdict, flags), delivered))
        @if has_dimensions {
            h3 { "Dimensions" }
            ul.dims {
                @for (dimension, value) in dimensions {
                    @let own: Vec<_> = flags.iter().filter(|flag| of_dimension(flag) == Some(dimension)).collect();
                    @let member = |name: &str| text(value.and_then(|value| value.get(name)));
                    li.flag[!own.is_empty()] {
                        span.nm { (dimension.to_string()) }
                        span { (verdict_label(&member("verdict"), "plain")) }
                        span.an { (member("analysis")) @for flag in own { (flag_note(flag)) } }
                    }
                }
            }
        }
        @if let Some(strategy) = at("/strategy").filter(|strategy| strategy.is_object()) { (render_strategy(strategy)) }
        details { summary { "Show as JSON" } pre.raw tabindex="0" { (serde_json::to_string_pretty(verdict).unwrap_or_default()) } }
    }
}

/// The parts that were not asked for. The gate removes all of them or none, so they were removed if the verdict has none. A flag may
/// have a shortened name, or count the parts after the first ones.
fn unexpected_parts(tier: ProductTier, (verdict, flags): (&Json, &[Flag]), delivered: &str) -> Markup {
    let parts = unexpected_members(tier, verdict);
    let is_removed = parts.is_empty() && verdict.is_object();
    html! {
        @for (path, value) in &parts {
            p.small { "The model has added the part " code.breakall { (path) } ". " strong { (delivered) "." } }
            details { summary { "Show the part" } pre.raw.wrap tabindex="0" { (serde_json::to_string_pretty(value).unwrap_or_default()) } }
        }
        @for flag in flags.iter().filter(|_| is_removed) {
            @if let Flag::UnexpectedField(path) = flag {
                p.small {
                    "The model has added "
                    @match path.strip_prefix('~') { Some(more) => { (more) " parts" }, None => { "the part " code.breakall { (path) } } }
                    ". " strong { "Not delivered: " } "removed, and not stored."
                }
            }
        }
    }
}

fn flag_note(flag: &Flag) -> Markup {
    html! { span.flagged { span.why.held.fg { (icon("held")) (words(flag.into_str())) } span.muted.xs { "flag " code { (flag) } } } }
}

fn render_strategy(strategy: &Json) -> Markup {
    let text = |name: &str| strategy.get(name).and_then(Json::as_str).unwrap_or_default();
    let tests = strategy.get("tests").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    html! {
        h3 { "Strategy" }
        dl.strat {
            div { dt { "Next step" } dd { (text("next_step")) } }
            div { dt { "Alternative" } dd { (text("alternative")) } }
            div { dt { "Tests" } dd { ol { @for test in tests { li { @match test { Json::String(text) => (text), other => (other) } } } } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_verdict::order::OrderStopCause;
    use serde_json::json;

    #[test]
    fn held_verdict_on_legal_hold_can_only_be_released() {
        let at = "2026-11-20T10:00:00Z".parse().expect("a time");
        let order = Order::placed(at).stopped(OrderStopCause::Policy, true, at);
        let hold = serde_json::from_value::<LegalHold>(json!({
            "session_id": "cs_1", "reason": "case 17", "placed_at": at,
            "peer": {"uid": 0, "gid": 0, "pid": null}, "first_seq": 1,
        }));
        let hold = hold.expect("a valid hold");
        let form = |hold| {
            decision_form("cs_1", (&order, hold), &Neighbors::default(), &Draft::default()).into_string()
        };
        let offers = |page: &str| {
            ["release", "retry", "fail", "cancel"].map(|action| page.contains(&format!("value=\"{action}\"")))
        };
        assert_eq!(offers(&form(None)), [true; 4]);
        let on_hold = form(Some(&hold));
        assert_eq!(offers(&on_hold), [true, false, false, false], "{on_hold}");
        assert!(on_hold.contains("case 17"), "{on_hold}");
    }

    #[test]
    fn part_that_was_not_asked_for_says_whether_it_would_be_delivered() {
        let flags: [Flag; 2] =
            ["unexpected_field:mood", "unexpected_field:~3 more"].map(|flag| flag.parse().expect("a flag"));
        let page = |verdict: &Json| {
            render_verdict(ProductTier::Quick, (verdict, &flags), "It would be delivered").into_string()
        };
        let removed = page(&json!({"verdict": "GREEN", "summary": "Open it."}));
        assert_eq!(removed.matches("Not delivered: ").count(), 2, "{removed}");
        assert!(removed.contains(">mood</code>") && removed.contains("3 more parts"), "{removed}");
        assert!(!removed.contains("It would be delivered"), "{removed}");
        let long = "x".repeat(2000);
        let kept =
            page(&json!({"verdict": "GREEN", "summary": "Open it.", "mood": "<b>good</b>", "a.b": long}));
        assert_eq!(kept.matches("It would be delivered.").count(), 2, "{kept}");
        assert!(kept.contains("&lt;b&gt;good") && kept.contains(">a.b</code>"), "{kept}");
        assert!(kept.matches(&long).count() == 2 && !kept.contains("Not delivered"), "{kept}");
        let unread = page(&Json::Null);
        assert!(!unread.contains("elivered"), "{unread}");
    }

    #[test]
    fn flag_stands_at_its_dimension() {
        let dimension = |analysis: &str| json!({"verdict": "GREEN", "analysis": analysis});
        let verdict = json!({
            "verdict": "AMBER", "summary": "<b>Open</b> it.",
            "breakdown": {"Stability": dimension("Two years."), "Curvature": dimension("")},
            "strategy": {"next_step": "Ask.", "alternative": "Wait.", "tests": ["one", {"by": "two"}]},
        });
        let flags: [Flag; 2] =
            ["empty_analysis:Curvature", "few_tests"].map(|flag| flag.parse().expect("a flag"));
        let page = render_verdict(ProductTier::Strategy, (&verdict, &flags), "It is delivered").into_string();
        let flagged = page.split("<li class=\"flag\">").nth(1).expect("a flagged dimension");
        assert!(
            flagged.starts_with("<span class=\"nm\">Curvature")
                && page.matches("class=\"flag\"").count() == 1,
            "{page}"
        );
        assert!(page.contains("&lt;b&gt;Open&lt;/b&gt; it.") && page.contains("few tests"), "{page}");
        assert!(page.contains("<li>one</li>") && page.contains("{&quot;by&quot;:&quot;two&quot;}"), "{page}");
    }
}
