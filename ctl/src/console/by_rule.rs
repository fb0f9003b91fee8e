//! Open disputes that a review rule resolves: the result of the rule for each of them, and their resolution by one press.

use super::forms::{Draft, Fields, action_button, reason_field};
use super::items::{ItemKind, format_percent, read_items, value_text};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page, with_fault};
use super::parts::{Tone, badge, card, group_in_text, message, table, words};
use super::several_items::{ITEMS_MAX, ItemFields, ItemOutcomes, check_all, digest_items};
use super::{Console, ConsoleState};
use crate::audit::log::SinceTime;
use crate::base::error::CtlError;
use crate::base::options::encode_segment;
use crate::verification::review::resolve::{
    RulePreview, find_rule, preview_rule, read_open_reviews, read_rules,
};
use crate::verification::review::{format_subject, post};
use axum::extract::State;
use domain_base::text_form::visible_json;
use domain_base::wording::format_count;
use domain_ground::version_name::ReviewRuleName;
use domain_verification::review::{REASON_MAX_BYTES, ReviewResolution, ReviewState};
use domain_verification::review_rule::{ReviewRule, TakenValue};
use domain_verification::wire::ReviewSummary;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// The path of the page.
pub(super) const PATH: &str = "/inbox/rule";
/// Maximum number of disputes to which the rule is applied for a preview. Each takes a request.
const READ_MAX: usize = 2 * ITEMS_MAX;
/// The value of a dispute is its resolution.
const DISPUTES: ItemFields = ItemFields { prefix: "resolution:", noun: "disputes" };

pub(super) async fn page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    show(&console, &fields, &Draft::default()).await
}

/// Resolves the disputes that the preview has shown.
pub(super) async fn resolve(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    match read_resolutions(&fields) {
        Ok(resolutions) => {
            let question = html! {
                "Press the button once more to resolve " (format_count(resolutions.len(), "dispute", "disputes")) ". Nothing is changed yet."
            };
            if let Some(draft) = DISPUTES.first_press(&fields, "resolve", &question) {
                return show(&console, &fields, &draft).await;
            }
            let outcomes = resolve_all(&console, &resolutions).await;
            let body = render_outcomes(&outcomes, &preview_path(&fields));
            let head = PageHead::below(PATH, "Resolve by a rule", "Outcomes");
            Ok(render_page(&console, Section::Inbox, head, &body).await)
        }
        Err(error) => {
            let draft = Draft::failed(error, fields.clone())?;
            draft.with_status(show(&console, &fields, &draft).await)
        }
    }
}

async fn show(console: &Console, fields: &Fields, draft: &Draft) -> PageResult {
    let rules = read_rules(&console.options).await?;
    let (preview, fault) = PageError::beside_form(Preview::of(console, fields).await)?;
    let body = html! {
        (draft.note())
        (card("Rule", &html! {}, &html! { div.body { (choice_form(&rules, fields)) } }))
        @if let Some(error) = &fault { (error.render()) }
        @if let Some(preview) = &preview { (render_preview(preview, fields, draft)) }
    };
    let head = PageHead::below("/inbox", "Inbox", "Resolve by a rule");
    Ok(with_fault(render_page(console, Section::Inbox, head, &body).await, fault.as_ref()))
}

/// The results of a rule for open disputes.
#[derive(Debug)]
struct Preview {
    rule: ReviewRule,
    /// The disputes to which the rule applies.
    applicable: Vec<RulePreview>,
    /// The others.
    others: Vec<RulePreview>,
    /// The number of disputes that were not read.
    unread: usize,
    /// The titles of disputes in the inbox, by their ids.
    titles: BTreeMap<String, String>,
}

impl Preview {
    /// The preview of the rule in the fields; `None` if they name none.
    async fn of(console: &Console, fields: &Fields) -> Result<Option<Self>, PageError> {
        match fields.parsed::<ReviewRuleName>("rule", "Rule")? {
            Some(name) => Ok(Some(Self::read(console, &name, fields).await?)),
            None => Ok(None),
        }
    }

    async fn read(console: &Console, name: &ReviewRuleName, fields: &Fields) -> Result<Self, PageError> {
        let options = &console.options;
        let rule = find_rule(options, name).await?;
        let workflow = fields.parsed("workflow", "Workflow")?;
        let since = fields.parsed("since", "Opened since")?.map(SinceTime::to_timestamp);
        let mut reviews = read_open_reviews(options, &rule, workflow.as_ref(), since).await?.into_iter();
        let items = read_items(console).await?.into_iter();
        let titles = items.filter(|item| item.kind == ItemKind::Dispute).map(|item| (item.id, item.title));
        let titles = titles.collect();
        let mut preview = Self { rule, applicable: Vec::new(), others: Vec::new(), unread: 0, titles };
        while preview.applicable.len() < ITEMS_MAX
            && preview.applicable.len() + preview.others.len() < READ_MAX
        {
            let Some(review) = reviews.next() else { break };
            let read = preview_rule(options, &preview.rule.reference(), review).await?;
            let list = if read.resolution.is_some() { &mut preview.applicable } else { &mut preview.others };
            list.push(read);
        }
        preview.unread = reviews.len();
        Ok(preview)
    }
}

fn preview_path(fields: &Fields) -> String {
    let params = ["rule", "workflow", "since"].into_iter();
    let params = params.filter_map(|name| Some(format!("{name}={}", encode_segment(fields.filled(name)?))));
    format!("{PATH}?{}", params.collect::<Vec<_>>().join("&"))
}

fn choice_form(rules: &[ReviewRule], fields: &Fields) -> Markup {
    if rules.is_empty() {
        return html! { p { "No review rule is registered. " code { "oraclectl apply -f rule.yaml" } " registers one." } };
    }
    html! {
        form.fields method="get" action=(PATH) {
            label.f {
                "Rule"
                select name="rule" required {
                    @for rule in rules {
                        @let name = rule.reference().to_string();
                        option value=(name) selected[fields.text("rule") == name] { (name) @if let Some(text) = &rule.description { ": " (text) } }
                    }
                }
            }
            label.f { "Workflow" input type="text" name="workflow" value=(fields.text("workflow")) autocomplete="off"; }
            label.f { "Opened since (a day, or a period such as 30d)" input type="text" name="since" value=(fields.text("since")) placeholder="30d" autocomplete="off"; }
            button.btn type="submit" { "Show the preview" }
        }
    }
}

fn render_preview(preview: &Preview, fields: &Fields, draft: &Draft) -> Markup {
    let Preview { rule, applicable, others, unread, titles } = preview;
    let heading = ["dispute", "axis", "values", "#difference", "result"];
    let rows = |previews: &[RulePreview]| {
        previews.iter().take(ITEMS_MAX).flat_map(|preview| preview_rows(preview, titles)).collect::<Vec<_>>()
    };
    let chosen_rows: Vec<_> =
        applicable.iter().flat_map(|preview| rows_with_choice(preview, titles, fields)).collect();
    let chosen_heading: Vec<_> = ["resolve"].into_iter().chain(heading).collect();
    let count = |previews: &[RulePreview]| html! { span.count.neutral { (previews.len()) } };
    let beside = html! { (check_all()) (count(applicable)) };
    html! {
        (card("Disputes that the rule resolves", &beside, &html! {
            div.body { p { (describe_rule(rule)) } }
            (DISPUTES.changed_note(fields, &shown_resolutions(applicable)))
            @if *unread > 0 {
                (message(Tone::Waiting, &html! {
                    (format_count(unread, "older dispute was", "older disputes were")) " not read: a preview has at most " (ITEMS_MAX) " disputes that the rule resolves, and "
                    (READ_MAX) " in total. Resolve these first, or choose a workflow. " code { "oraclectl review resolve --rule" } " reads all."
                }))
            }
            (table("Disputes that the rule resolves", &chosen_heading, &chosen_rows))
        }))
        @if !applicable.is_empty() { (resolve_form(rule, applicable, fields, draft)) }
        @if !others.is_empty() {
            (card("Disputes to which the rule does not apply", &count(others), &html! {
                @if others.len() > ITEMS_MAX { div.body { p { "The newest " (ITEMS_MAX) " are listed." } } }
                (table("Disputes to which the rule does not apply", &heading, &rows(others)))
            }))
        }
    }
}

fn describe_rule(rule: &ReviewRule) -> String {
    let taken = match &rule.take {
        TakenValue::NewerRelease => "the value of the latest release".to_owned(),
        TakenValue::Source(oracle_id) => format!("the value of {oracle_id}"),
    };
    format!(
        "Rule {} takes {taken} for {} if all values of an axis differ by less than {} %.",
        rule.reference(),
        format_count(rule.valid_for_days, "day", "days"),
        rule.difference_below_percent
    )
}

fn resolve_form(rule: &ReviewRule, applicable: &[RulePreview], fields: &Fields, draft: &Draft) -> Markup {
    let item = digest_items(&preview_path(fields), shown_resolutions(applicable));
    html! {
        form.card.decide #decide method="post" action=(PATH) aria-label="Resolve" {
            header { h2 { "Resolve" } }
            div.body {
                (reason_field("Why?", REASON_MAX_BYTES, draft, &item))
                input type="hidden" name="rule" value=(rule.reference());
                @for name in ["workflow", "since"] { input type="hidden" name=(name) value=(fields.text(name)); }
                (draft.confirmation())
                div.acts {
                    (action_button("plain", &html! { "Resolve the checked disputes" }, "r", ("action", "resolve"), PATH))
                    p.note { "Only checked disputes are resolved, and more than one after a second press. Each is a decision of its own, which can be revoked. One that has changed meanwhile stays open." }
                }
            }
        }
    }
}

/// The JSON of the resolution. Its values come back exactly, since JSON has escapes for hidden characters.
fn resolution_json(preview: &RulePreview) -> String {
    visible_json(&serde_json::to_string(&preview.resolution).unwrap_or_default()).into_owned()
}

/// The resolutions of the page as its fields have them, by the ids of their reviews.
fn shown_resolutions(applicable: &[RulePreview]) -> BTreeMap<String, String> {
    let shown = applicable.iter().map(|preview| (preview.review.review_id.clone(), resolution_json(preview)));
    shown.collect()
}

fn review_path(review_id: &str) -> String {
    format!("/reviews/{}", encode_segment(review_id))
}

/// The rows of a dispute with the choice whether it is resolved, in the first one.
fn rows_with_choice(
    preview: &RulePreview,
    titles: &BTreeMap<String, String>,
    fields: &Fields,
) -> Vec<Vec<Markup>> {
    let label = format!("Resolve {}", title(&preview.review, titles));
    let (review_id, resolution) = (&preview.review.review_id, resolution_json(preview));
    let choice = DISPUTES.item_box(fields, (review_id, &resolution), &label);
    let rows = preview_rows(preview, titles).into_iter().enumerate();
    rows.map(|(number, row)| {
        let first = if number == 0 {
            choice.clone()
        } else {
            html! {}
        };
        [first].into_iter().chain(row).collect()
    })
    .collect()
}

/// The title of a dispute as the inbox has it. One that is not there has its subject.
fn title(review: &ReviewSummary, titles: &BTreeMap<String, String>) -> String {
    titles.get(&review.review_id).cloned().unwrap_or_else(|| format_subject(review))
}

/// The rows of a dispute, one for each axis.
fn preview_rows(preview: &RulePreview, titles: &BTreeMap<String, String>) -> Vec<Vec<Markup>> {
    let RulePreview { review, differences_percent, .. } = preview;
    let rows = preview.axis_rows().into_iter().map(|[axis, values, difference, result]| {
        let shown = differences_percent.get(&axis).map_or_else(|| "–".to_owned(), format_percent);
        vec![
            html! { a data-row href=(review_path(&review.review_id)) { (title(review, titles)) } },
            html! { (words(&axis)) },
            html! { (group_in_text(&values)) },
            html! { span title=(difference) { (shown) } },
            html! { (group_in_text(&result)) },
        ]
    });
    rows.collect()
}

/// The resolutions in the fields of the form, with its reason, by the ids of their reviews.
///
/// # Errors
/// A field is missing or invalid.
fn read_resolutions(fields: &Fields) -> Result<Vec<(String, ReviewResolution)>, PageError> {
    let reason = fields.required("reason", "Reason")?;
    DISPUTES.read(fields, |review_id, json| {
        let resolution: ReviewResolution = serde_json::from_str(json).map_err(|error| {
            PageError::input(format!(
                "the resolution of {review_id} cannot be read: {error}; reload the page"
            ))
        })?;
        Ok(ReviewResolution { reason: reason.clone(), ..resolution })
    })
}

/// Resolves the reviews one after the other, until the daemon does not answer.
async fn resolve_all(
    console: &Console,
    resolutions: &[(String, ReviewResolution)],
) -> ItemOutcomes<ReviewState> {
    let mut outcomes = ItemOutcomes::of(resolutions.len());
    for (review_id, resolution) in resolutions {
        let outcome = post(&console.options, review_id, "resolve", resolution).await;
        if !outcomes.add(review_id, outcome) {
            break;
        }
    }
    outcomes
}

fn render_outcomes(outcomes: &ItemOutcomes<ReviewState>, preview_path: &str) -> Markup {
    let all = format_count(outcomes.all, "dispute is", "disputes are");
    let summary = format!("Done: {} of {all} resolved.", outcomes.done());
    outcomes.render(&summary, (preview_path, "Show the preview again"), "dispute", outcome_row)
}

fn outcome_row(review_id: &str, outcome: &Result<ReviewState, CtlError>) -> Vec<Markup> {
    let link = |text: &str| html! { a data-row href=(review_path(review_id)) { (text) } };
    match outcome {
        Ok(state) => {
            let resolved = state.resolved.iter().flat_map(|resolved| &resolved.resolution.values);
            let values = resolved.map(|(path, value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                format!("{} {}", words(path), value_text(&value, None))
            });
            vec![
                link(&format_subject(&ReviewSummary::from(state.clone()))),
                badge(Tone::Ok, "resolved"),
                html! { (values.collect::<Vec<_>>().join(", ")) },
            ]
        }
        Err(error) => vec![link(review_id), badge(Tone::Waiting, "not resolved"), html! { (error) }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_verification::wire::RuleMismatchReport;
    use serde_json::json;

    fn rule() -> ReviewRule {
        serde_json::from_value(json!({
            "review_rule_id": "small-difference", "version": 1, "workflows": ["census"], "take": "newer_release",
            "difference_below_percent": "0.1", "valid_for_days": 90,
        }))
        .expect("a valid rule")
    }

    fn preview(review_id: &str, resolution: Option<&str>) -> RulePreview {
        let review = json!({
            "review_id": review_id, "workflow_id": "census", "where": {"area": review_id}, "axes": {"population": ["require_human"]},
            "values": {"office-a": {"population": {"value": "54208"}}, "office-b": {"population": {"value": "54210"}}},
            "opened_at": "2026-11-20T10:00:00Z",
        });
        let resolution = resolution.map(|value| {
            let given = json!({
                "values": {"population": value}, "reason": "review rule small-difference@1", "valid_for_seconds": 7_776_000,
                "rule": "small-difference@1",
            });
            serde_json::from_value(given).expect("a valid resolution")
        });
        RulePreview {
            review: serde_json::from_value(review).expect("a valid summary"),
            differences_percent: [("population".to_owned(), "0.003689".parse().expect("a number"))].into(),
            mismatch: resolution.is_none().then(|| RuleMismatchReport {
                reason: "no_release_date".to_owned(),
                detail: "office-b is live".to_owned(),
            }),
            resolution,
        }
    }

    #[test]
    fn preview_has_the_values_and_a_form_with_the_shown_resolutions_only() {
        let mut shown = Preview {
            rule: rule(),
            applicable: vec![preview("v-1", Some("54210"))],
            others: vec![preview("v-2", None)],
            unread: 0,
            titles: [("v-1".to_owned(), "Population, World, 2016".to_owned())].into(),
        };
        let render =
            |preview: &Preview| render_preview(preview, &Fields::default(), &Draft::default()).into_string();
        let page = render(&shown);
        for part in [
            "54,208 (office-a), 54,210 (office-b)",
            "0.003689 %",
            ">0.0036 %",
            ">Population, World, 2016</a>",
            "take 54,210",
            "office-b is live",
            "0.1 %",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(
            page.contains("name=\"resolution:v-1\"") && !page.contains("name=\"resolution:v-2\""),
            "{page}"
        );
        assert!(page.contains("name=\"action\" value=\"resolve\""), "{page}");
        assert!(!page.contains("oraclectl review resolve --rule"), "{page}");
        assert!(page.contains("type=\"checkbox\" form=\"decide\" name=\"resolution:v-1\""), "{page}");
        (shown.applicable, shown.unread) = (Vec::new(), 1);
        let page = render(&shown);
        assert!(!page.contains("<form") && page.contains("<div>1 "), "{page}");
        assert!(page.contains("<code>oraclectl review resolve --rule</code>"), "{page}");
    }

    #[test]
    fn form_returns_the_resolution_with_its_rule_and_the_reason() {
        let shown = preview("v-1", Some("54210"));
        let fields = |reason: &str| {
            let fields = [("resolution:v-1", resolution_json(&shown)), ("reason", reason.to_owned())];
            Fields::of(fields)
        };
        let read = read_resolutions(&fields("later release")).expect("valid fields");
        let expected = shown.resolution.clone().expect("a resolution");
        let expected = ReviewResolution { reason: "later release".to_owned(), ..expected };
        assert_eq!(read, [("v-1".to_owned(), expected)]);
        assert!(read_resolutions(&fields("")).is_err(), "no reason");
        assert!(read_resolutions(&Fields::of([("reason", "x".to_owned())])).is_err(), "no dispute");
        let many = (0..=ITEMS_MAX).map(|number| (format!("resolution:v-{number}"), resolution_json(&shown)));
        let many = Fields::of(many.chain([("reason".to_owned(), "x".to_owned())]));
        assert!(read_resolutions(&many).is_err(), "too many");
    }

    #[test]
    fn dispute_with_another_value_than_the_sent_one_is_marked_and_not_checked() {
        let shown = Preview {
            rule: rule(),
            applicable: vec![preview("v-1", Some("54210")), preview("v-2", Some("54300"))],
            others: Vec::new(),
            unread: 0,
            titles: BTreeMap::new(),
        };
        let sent = ["v-1", "v-2"].map(|review_id| {
            let name = format!("resolution:{review_id}");
            (name, resolution_json(&preview(review_id, Some("54210"))))
        });
        let action = ("action".to_owned(), "resolve".to_owned());
        let fields = Fields::of(sent.into_iter().chain([action]));
        let page = render_preview(&shown, &fields, &Draft::default()).into_string();
        assert_eq!(page.matches(" checked aria-label").count(), 1, "{page}");
        assert_eq!(page.matches("</svg>changed</span>").count(), 1, "{page}");
        assert!(page.contains("<strong>1 "), "{page}");
    }
}
