//! A drafted notice to a customer about a recalled verdict: its mail, the statements then and now, and its decision.

use super::access::LoginEnd;
use super::done;
use super::forms::{Draft, Fields, action_button, after_action, reason_field};
use super::items::Neighbors;
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{
    Tone, age, badge, card, decided, live, message, minute, pairs, session_link, table, words,
};
use super::recall::result_tone;
use super::{Console, ConsoleState};
use crate::base::error::CtlError;
use crate::base::options::encode_segment;
use crate::base::output::short_run_id;
use crate::console;
use crate::verdict::notice::{decide, find_drafted_at, read_notice};
use axum::Extension;
use axum::extract::{Path, State};
use domain_base::caller::OPERATOR_REASON_MAX_BYTES;
use domain_base::moment::Moment;
use domain_verdict::mail_template::MailContent;
use domain_verdict::recall_notice::{NoticeStatement, RecallNotice, RecallNoticeAction};
use domain_verdict::wire::RecallNoticeReport;
use maud::{Markup, html};

const GONE: &str = "The notice was released or discarded.";

fn page_path(session_id: &str) -> String {
    format!("/notices/{}", encode_segment(session_id))
}

pub(super) async fn page(
    State(console): State<ConsoleState>,
    Path(session_id): Path<String>,
    fields: Fields,
) -> PageResult {
    show(&console, &session_id, &fields, &Draft::default()).await
}

async fn show(console: &Console, session_id: &str, fields: &Fields, draft: &Draft) -> PageResult {
    let neighbors = Neighbors::read(console, &page_path(session_id)).await;
    let parts = match read_notice(&console.options, session_id).await {
        Ok(report) => render(&report, &neighbors, draft, console.has_only_reviews),
        Err(CtlError::Problem { status: 404, .. }) => html! {
            section.card.decide #decide { div.body { p { (GONE) } (draft.kept_reason()) } (neighbors.footer()) }
        },
        Err(error) => return Err(error.into()),
    };
    let body = html! { (done::note(console, fields).await) (draft.note()) (parts) };
    let head = PageHead {
        crumbs: Some(neighbors.crumbs()),
        actions: Some(neighbors.actions()),
        ..PageHead::titled(format!("Notice about the verdict of {session_id}"))
    };
    Ok(render_page(console, Section::Inbox, head, &body).await)
}

fn render(
    report: &RecallNoticeReport,
    neighbors: &Neighbors,
    draft: &Draft,
    has_only_reviews: bool,
) -> Markup {
    let RecallNoticeReport { notice, mail, fault } = report;
    let rows: Vec<_> = notice.statements().iter().map(statement_row).collect();
    let heading = ["claim", "result", "then", "now", "source"];
    html! {
        (watch(notice))
        div.split {
            div {
                @if let Some(fault) = fault { (message(Tone::Refused, &html! { "It cannot be sent: " (fault) "." })) }
                @if let Some(mail) = mail { (render_mail(mail)) }
                (card("Statements", &html! { span.count.neutral { (rows.len()) } }, &table("Statements", &heading, &rows)))
            }
            div {
                (decision_form(notice, mail.is_some(), neighbors, draft))
                (render_facts(notice, has_only_reviews))
            }
        }
    }
}

fn render_mail(MailContent { subject, text, html: as_html, language }: &MailContent) -> Markup {
    let body = html! {
        div.body {
            h3 { (subject) }
            pre.raw tabindex="0" { (text) }
            @if let Some(as_html) = as_html { details { summary { "Show the HTML part" } pre.raw tabindex="0" { (as_html) } } }
        }
    };
    card("As the customer would get it", &html! { span.muted.small { (language) } }, &body)
}

fn statement_row(statement: &NoticeStatement<'_>) -> Vec<Markup> {
    let NoticeStatement { source, claim, then, now, result } = statement;
    let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
    vec![
        html! { (or(claim, "not known")) },
        badge(result_tone(*result), words(result.into())),
        html! { (or(then, "not stored")) },
        html! { (or(now, "no such statement")) },
        html! { (source) },
    ]
}

/// Reviewers have no page of the session or of a run.
fn render_facts(notice: &RecallNotice, has_only_reviews: bool) -> Markup {
    let session_id = notice.session_id.as_str();
    let session = if has_only_reviews {
        html! { (session_id) }
    } else {
        session_link(session_id)
    };
    let mut rows = vec![("session", session)];
    rows.extend(notice.recalls.iter().map(|recall| {
        let run = short_run_id(&recall.run_id);
        let page = (!has_only_reviews).then(|| format!("/runs/{}", recall.run_id));
        let run = html! { @match page { Some(page) => a href=(page) { (run) }, None => (run) } };
        ("recalled by", html! { (recall.oracle_id) ", run " (run) })
    }));
    rows.push(("facts of", minute(notice.drafted_at)));
    card("Recall", &html! {}, &html! { div.body { (pairs(rows)) } })
}

fn decision_form(notice: &RecallNotice, can_be_sent: bool, neighbors: &Neighbors, draft: &Draft) -> Markup {
    let path = page_path(notice.session_id.as_str());
    let action = |class: &str, text: &str, key: &str, value: &str| {
        action_button(class, &html! { (text) }, key, ("action", value), &path)
    };
    html! {
        form.card.decide #decide method="post" action=(path) aria-label="Decide" {
            header { h2 { "Decide" } span.right.chips { (badge(Tone::Held, "drafted")) span.muted.small { (age(notice.drafted_at)) } } }
            div.body {
                (reason_field("Why?", OPERATOR_REASON_MAX_BYTES, draft, &format!("{path} {}", notice.drafted_at)))
                // the daemon refuses the action if the notice has changed since this page
                input type="hidden" name="drafted_at" value=(notice.drafted_at);
                div.acts {
                    @if can_be_sent {
                        (action("plain", "Send the notice", "r", "release"))
                        p.note { "It is mailed to the present address of the session. The delivered verdict stays as it is." }
                    }
                    (action("danger", "Discard", "x", "discard"))
                    p.note { "It is not sent. A later recall drafts another one." }
                }
                (neighbors.next_field())
            }
            (neighbors.footer())
        }
    }
}

/// The live part of the page: it appears when the notice is no longer as the page shows it.
fn watch(notice: &RecallNotice) -> Markup {
    let seen = encode_segment(&notice.drafted_at.to_string());
    live(&format!("/events{}?seen={seen}", page_path(notice.session_id.as_str())), &html! {})
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
            let drafted_at = find_drafted_at(&console.options, &session_id).await?;
            Ok::<_, PageError>(match drafted_at {
                Some(at) if at.to_string() == seen => html! {},
                Some(_) => decided(&html! {
                    strong { "The notice was changed: a later recall has drafted it again. " }
                    a href=(page_path(&session_id)) { "Show the new draft" }
                }),
                None => decided(&html! { (GONE) }),
            })
        }
    })
}

pub(super) async fn act(
    State(console): State<ConsoleState>,
    Path(session_id): Path<String>,
    fields: Fields,
) -> PageResult {
    match send(&console, &session_id, &fields).await {
        Ok(done) => Ok(after_action(&page_path(&session_id), done, &fields)),
        Err(error) => {
            let draft = Draft::failed(error, fields)?;
            draft.with_status(show(&console, &session_id, &Fields::default(), &draft).await)
        }
    }
}

async fn send(console: &Console, session_id: &str, fields: &Fields) -> Result<&'static str, PageError> {
    let (action, done) = match fields.text("action") {
        "release" => (RecallNoticeAction::Release, "notice released"),
        "discard" => (RecallNoticeAction::Discard, "notice discarded"),
        other => {
            return Err(PageError::input(format!("`{other}` is not an action; allowed: release, discard")));
        }
    };
    let reason = fields.required("reason", "Reason")?;
    let Moment(drafted_at) = fields
        .text("drafted_at")
        .parse()
        .map_err(|_| PageError::input("`drafted_at` is not a time; reload the page"))?;
    decide(&console.options, session_id, action, &reason, Some(drafted_at)).await?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn page_shows_the_mail_as_text_and_sends_it_only_if_it_can_be_sent() {
        let notice = json!({
            "session_id": "shop/cs_1", "drafted_at": "2026-11-20T10:00:00Z", "verdict_sha256": "0".repeat(64),
            "recalls": [{"oracle_id": "office", "run_id": "1".repeat(64), "verdict": {
                "session_id": "shop/cs_1", "entry": 7, "evaluated_at": "2026-11-19T10:00:00Z", "result": "no_longer_supported",
                "rules_verdict": null, "statements": [{
                    "oracle_id": "office", "record_id": "3d1cfd6fdde7e4fb-3", "then": "Bees make honey", "now": [],
                    "now_version": null, "checked": []}]}}],
            "mail": {"subject": "A <b>", "text": "t", "html": "<script>alert(1)</script>", "language": "en"}, "fault": null});
        let mut report: RecallNoticeReport = serde_json::from_value(notice).expect("a notice");
        let page = |report: &RecallNoticeReport| {
            render(report, &Neighbors::default(), &Draft::default(), false).into_string()
        };
        let sendable = page(&report);
        assert!(sendable.contains("A &lt;b&gt;") && !sendable.contains("<script>"), "{sendable}");
        assert!(
            sendable.contains("no such statement") && sendable.contains("no longer supported"),
            "{sendable}"
        );
        assert!(
            sendable.contains("value=\"release\"") && sendable.contains("action=\"/notices/shop%2Fcs_1\"")
        );
        (report.mail, report.fault) = (None, Some("no address".to_owned()));
        let unsendable = page(&report);
        assert!(!unsendable.contains("value=\"release\"") && unsendable.contains("value=\"discard\""));
    }
}
