//! `oraclectl review resolve`: one review with given values, or many reviews by a review rule.

use super::{
    changed_lines, format_resolution, format_subject, post, read_evidence, read_review, review_path,
};
use crate::audit::log::{SinceTime, parse_duration};
use crate::base::error::CtlError;
use crate::base::input::with_style;
use crate::base::options::{
    AxisValueArg, GlobalOptions, collect_by_axis, encode_segment, id_parser, parse_axis_value, read_pages,
};
use crate::base::output::{format_pairs, format_table, print_json, print_note};
use domain_base::decimal::Decimal;
use domain_base::wording::format_count;
use domain_ground::id::WorkflowId;
use domain_ground::version_name::{ReviewRuleName, ReviewRuleRef};
use domain_verification::review::{ReviewResolution, ReviewState};
use domain_verification::review_rule::ReviewRule;
use domain_verification::wire::{ReviewSummary, RuleMismatchReport, RuledReview};
use hyper::Method;
use indicatif::ProgressBar;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::io::Write;

/// The review to resolve with its values, or the rule by which open reviews are resolved.
#[derive(Debug, clap::Args)]
pub(super) struct ResolveArgs {
    /// The review
    #[arg(value_parser = id_parser(), required_unless_present = "rule", conflicts_with = "rule")]
    review_id: Option<String>,
    /// The value of every axis of the review, such as `population=54208`
    #[arg(value_name = "AXIS=VALUE", required_unless_present = "rule", conflicts_with = "rule", value_parser = parse_axis_value)]
    values: Vec<AxisValueArg>,
    /// The definition of a value, if the sources have different ones: `population=without Kosovo`, or `population=`
    /// for the axis's own definition
    #[arg(long = "definition", value_name = "AXIS=TEXT", conflicts_with = "rule", value_parser = parse_axis_value)]
    definitions: Vec<AxisValueArg>,
    /// Allow a value that no source and no claim has
    #[arg(long, conflicts_with = "rule")]
    own_value: bool,
    /// The review rule that resolves all open reviews to which it applies, in place of a review and its values. Without a
    /// version, the newest one
    #[arg(long, value_name = "RULE[@VERSION]")]
    rule: Option<ReviewRuleName>,
    /// Only reviews of this workflow
    #[arg(long, value_name = "ID", conflicts_with = "review_id")]
    workflow: Option<WorkflowId>,
    /// Only reviews that were opened since a time (2026-11-20T10:00:00Z) or a day (in UTC), or in the last period (90s, 15m, 2h, 7d)
    #[arg(long, value_name = "TIME", conflicts_with = "review_id")]
    since: Option<SinceTime>,
    /// Show what the rule gives for each review, and resolve none
    #[arg(long, conflicts_with = "review_id")]
    dry_run: bool,
    /// The reason, required without --rule [default with a rule: the name of the rule]
    #[arg(long, required_unless_present = "rule")]
    reason: Option<String>,
    /// Validity of the resolution, required without --rule, such as 90d, 12h, 30m
    #[arg(long, value_name = "TIME", value_parser = parse_duration, required_unless_present = "rule", conflicts_with = "rule")]
    valid_for: Option<SignedDuration>,
}

impl ResolveArgs {
    pub(super) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.rule {
            Some(rule) => self.resolve_by_rule(options, rule, out).await,
            None => self.resolve_one(options, out).await,
        }
    }

    async fn resolve_one(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let review_id = self.review_id.as_deref().unwrap_or_default();
        let values = collect_by_axis(&self.values)?;
        let given = collect_by_axis(&self.definitions)?;
        let resolution = ReviewResolution {
            definitions: complete_definitions(options, review_id, &values, given).await?,
            values,
            own_value: self.own_value,
            reason: self.reason.clone().unwrap_or_default(),
            // the daemon rejects a validity out of range, with the allowed range
            valid_for_seconds: u64::try_from(self.valid_for.unwrap_or_default().as_secs()).unwrap_or(0),
            rule: None,
        };
        // an error of this note must not prevent the decision
        if let Ok(evidence) = read_evidence(options, review_id).await {
            for line in changed_lines(&evidence) {
                print_note(&line);
            }
        }
        let state = post(options, review_id, "resolve", &resolution).await?;
        if options.json { print_json(out, &state) } else { show_resolved(out, &state) }
    }

    async fn resolve_by_rule(
        &self,
        options: &GlobalOptions,
        name: &ReviewRuleName,
        out: &mut dyn Write,
    ) -> Result<(), CtlError> {
        let rule = find_rule(options, name).await?;
        let since = self.since.map(SinceTime::to_timestamp);
        let reviews = read_open_reviews(options, &rule, self.workflow.as_ref(), since).await?;
        let bar = bar(reviews.len());
        let mut previews = Vec::new();
        for review in reviews {
            previews.push(preview_rule(options, &rule.reference(), review).await?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        if self.dry_run && options.json {
            return print_json(out, &previews);
        }
        if !options.json {
            writeln!(out, "{}", format_previews(&previews))?;
        }
        if self.dry_run {
            let applicable = previews.iter().filter(|preview| preview.resolution.is_some()).count();
            let reviews = format_count(previews.len(), "review", "reviews");
            return Ok(writeln!(
                out,
                "rule {} applies to {applicable} of {reviews}; none was resolved",
                rule.reference()
            )?);
        }
        resolve_all(options, &rule.reference(), &previews, self.reason.as_deref(), out).await
    }
}

fn bar(len: usize) -> ProgressBar {
    with_style(ProgressBar::new(len as u64), "{bar:20} {pos} of {len}, {eta} left")
}

/// The definitions of `values`: the given ones, else the only definition with this value.
async fn complete_definitions(
    options: &GlobalOptions,
    review_id: &str,
    values: &BTreeMap<String, Json>,
    given: BTreeMap<String, Json>,
) -> Result<BTreeMap<String, String>, CtlError> {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let mut definitions: BTreeMap<_, _> =
        given.iter().map(|(axis, definition)| (axis.clone(), text(definition))).collect();
    let state = read_review(options, review_id).await?;
    for (axis, value) in values.iter().filter(|(axis, _)| state.review.is_definition_required(axis)) {
        if definitions.contains_key(axis) {
            continue;
        }
        if let Some(only) = state.review.only_definition_of(axis, &text(value)) {
            definitions.insert(axis.clone(), only.to_owned());
        }
    }
    Ok(definitions)
}

/// Prints a review that was just resolved.
fn show_resolved(out: &mut dyn Write, state: &ReviewState) -> Result<(), CtlError> {
    writeln!(out, "review {} is resolved", state.review.review_id)?;
    let resolved: Vec<_> = state.resolved.iter().flat_map(format_resolution).collect();
    Ok(out.write_all(format_pairs(&resolved).as_bytes())?)
}

/// The registered review rules, in the order of their ids.
pub(crate) async fn read_rules(options: &GlobalOptions) -> Result<Vec<ReviewRule>, CtlError> {
    read_pages(&options.reviewer_socket_path()?, "/v1/review-rules?").await
}

/// The review rule that `name` names.
///
/// # Errors
/// It is not registered.
pub(crate) async fn find_rule(
    options: &GlobalOptions,
    name: &ReviewRuleName,
) -> Result<ReviewRule, CtlError> {
    let mut rules = read_rules(options).await?;
    let known: Vec<_> = rules.iter().map(|rule| rule.reference().to_string()).collect();
    rules.retain(|rule| name.matches(&rule.reference()));
    rules.into_iter().max_by_key(|rule| rule.version).ok_or_else(|| {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        CtlError::NotOne(format!("no review rule {name} is registered; registered: {known}"))
    })
}

/// The open reviews of the workflows of a rule, the newest first.
pub(crate) async fn read_open_reviews(
    options: &GlobalOptions,
    rule: &ReviewRule,
    workflow: Option<&WorkflowId>,
    since: Option<Timestamp>,
) -> Result<Vec<ReviewSummary>, CtlError> {
    let mut reviews: Vec<ReviewSummary> =
        read_pages(&options.reviewer_socket_path()?, "/v1/reviews?open=true").await?;
    reviews.retain(|review| {
        rule.workflows.contains(&review.workflow_id)
            && workflow.is_none_or(|id| *id == review.workflow_id)
            && since.is_none_or(|since| review.opened_at >= since)
    });
    Ok(reviews)
}

/// An open review, and the result of a rule for it.
#[derive(Debug, Serialize)]
pub(crate) struct RulePreview {
    pub(crate) review: ReviewSummary,
    pub(crate) differences_percent: BTreeMap<String, Decimal>,
    /// The resolution; null if the rule gives none.
    pub(crate) resolution: Option<ReviewResolution>,
    /// Why there is no resolution.
    pub(crate) mismatch: Option<RuleMismatchReport>,
}

/// Reads what a rule gives for a review.
///
/// # Errors
/// The daemon does not answer. Its problem is the mismatch.
pub(crate) async fn preview_rule(
    options: &GlobalOptions,
    rule: &ReviewRuleRef,
    review: ReviewSummary,
) -> Result<RulePreview, CtlError> {
    let path = format!("{}/rules/{}", review_path(&review.review_id), encode_segment(&rule.to_string()));
    let ruled: RuledReview = match options.call_for_reviewer(Method::GET, &path, None).await {
        Ok(answer) => answer.json()?,
        Err(CtlError::Problem { code, detail, .. }) => {
            return Ok(RulePreview {
                review,
                differences_percent: BTreeMap::new(),
                resolution: None,
                mismatch: Some(RuleMismatchReport { reason: code, detail }),
            });
        }
        Err(error) => return Err(error),
    };
    Ok(RulePreview {
        review,
        differences_percent: ruled.differences_percent,
        resolution: ruled.resolution,
        mismatch: ruled.mismatch,
    })
}

impl RulePreview {
    /// The row of each axis: the axis, the values with their sources, the difference, and the taken value or why there is none.
    pub(crate) fn axis_rows(&self) -> Vec<[String; 4]> {
        let row = |path: &String| {
            let stated = self.review.values.iter();
            let stated = stated
                .filter_map(|(oracle_id, values)| Some(format!("{} ({oracle_id})", values.get(path)?.value)));
            let percent = self.differences_percent.get(path);
            let taken = self.resolution.as_ref().and_then(|resolution| resolution.values.get(path)?.as_str());
            let result = match (taken, &self.mismatch) {
                (Some(taken), _) => format!("take {taken}"),
                (None, Some(mismatch)) => mismatch.detail.clone(),
                (None, None) => "no value".to_owned(),
            };
            [
                path.clone(),
                stated.collect::<Vec<_>>().join(", "),
                percent.map_or_else(|| "-".into(), |percent| format!("{percent} %")),
                result,
            ]
        };
        self.review.axes.keys().map(row).collect()
    }
}

fn format_previews(previews: &[RulePreview]) -> String {
    if previews.is_empty() {
        return "no open reviews match".into();
    }
    let rows = previews.iter().flat_map(|preview| {
        let RulePreview { review, .. } = preview;
        preview.axis_rows().into_iter().map(|[axis, values, difference, result]| {
            [review.review_id.clone(), format_subject(review), axis, values, difference, result]
        })
    });
    format_table(["review", "subject", "axis", "values", "difference", "result"], rows.collect())
}

/// The outcome of a resolution of many reviews.
#[derive(Debug, Serialize)]
struct ResolvedReviews {
    rule: ReviewRuleRef,
    /// The number of open reviews that matched.
    matched: usize,
    resolved: Vec<String>,
    /// The reviews to which the rule does not apply.
    not_applicable: Vec<String>,
    /// The reviews whose resolution the daemon rejects, such as those that have changed since they were read.
    rejected: Vec<RejectedReview>,
    failed: Vec<String>,
}

/// A review that the daemon does not resolve, with its problem.
#[derive(Debug, Serialize)]
struct RejectedReview {
    review_id: String,
    code: String,
    detail: String,
}

/// Resolves the reviews one after the other. A review whose resolution is rejected is reported. A review that cannot be resolved does not
/// stop the others. The command can be repeated: resolved reviews are no longer open.
async fn resolve_all(
    options: &GlobalOptions,
    rule: &ReviewRuleRef,
    previews: &[RulePreview],
    reason: Option<&str>,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let mut done = ResolvedReviews {
        rule: rule.clone(),
        matched: previews.len(),
        resolved: Vec::new(),
        not_applicable: Vec::new(),
        rejected: Vec::new(),
        failed: Vec::new(),
    };
    let (bar, mut first) = (bar(previews.len()), None);
    for RulePreview { review, resolution, .. } in previews {
        let review_id = review.review_id.clone();
        bar.inc(1);
        let Some(mut resolution) = resolution.clone() else {
            done.not_applicable.push(review_id);
            continue;
        };
        if let Some(reason) = reason {
            reason.clone_into(&mut resolution.reason);
        }
        match post(options, &review_id, "resolve", &resolution).await {
            Ok(_) => done.resolved.push(review_id),
            Err(error) => {
                bar.suspend(|| print_note(&format!("{review_id}: {error}")));
                if let CtlError::Problem { status: 409, code, detail, .. } = error {
                    done.rejected.push(RejectedReview { review_id, code, detail });
                    continue;
                }
                let is_disconnected = matches!(error, CtlError::Client(_));
                done.failed.push(review_id);
                first.get_or_insert(error);
                if is_disconnected {
                    break;
                }
            }
        }
    }
    bar.finish_and_clear();
    if options.json {
        print_json(out, &done)?;
    } else {
        let reviews = format_count(done.matched, "review", "reviews");
        writeln!(out, "resolved by rule {rule}: {} of {reviews}", done.resolved.len())?;
    }
    first.map_or(Ok(()), |error| Err(CtlError::Printed(Box::new(error))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn preview(resolution: Option<ReviewResolution>, detail: Option<&str>) -> RulePreview {
        let review = serde_json::from_value(json!({
            "review_id": "v-1", "workflow_id": "census", "where": {"area": "ABW"}, "axes": {"population": ["require_human"]},
            "values": {"office-a": {"population": {"value": "54208"}}, "office-b": {"population": {"value": "54210"}}},
            "opened_at": "2026-11-20T10:00:00Z",
        }));
        RulePreview {
            review: review.expect("a valid summary"),
            differences_percent: [("population".to_owned(), "0.003689".parse().expect("a number"))].into(),
            resolution,
            mismatch: detail.map(|detail| RuleMismatchReport {
                reason: "too_large".to_owned(),
                detail: detail.to_owned(),
            }),
        }
    }

    #[test]
    fn row_has_the_taken_value_or_why_there_is_none() {
        let resolution = serde_json::from_value(json!({
            "values": {"population": "54210"}, "reason": "x", "valid_for_seconds": 60, "rule": "small-difference@1",
        }));
        let values = "54208 (office-a), 54210 (office-b)";
        for (preview, result) in [
            (preview(Some(resolution.expect("a resolution")), None), "take 54210"),
            (preview(None, Some("the difference is too large")), "the difference is too large"),
        ] {
            let expected = ["population", values, "0.003689 %", result].map(str::to_owned);
            assert_eq!(preview.axis_rows(), [expected]);
        }
        assert_eq!(format_previews(&[]), "no open reviews match");
    }

    #[test]
    fn rule_excludes_a_review_with_values() {
        let exit_code = |line: &str| {
            let given = ["oraclectl", "review", "resolve"].into_iter().chain(line.split_whitespace());
            crate::command().try_get_matches_from(given).err().map(|error| error.exit_code())
        };
        for (line, expected) in [
            ("--rule=small-difference@1", None),
            ("--rule=small-difference --workflow=census --since=30d --dry-run --reason=x", None),
            ("--rule=small-difference@0", Some(2)),
            ("", Some(2)),
            ("v-1 population=1", Some(2)),
            ("--dry-run", Some(2)),
            ("v-1 population=1 --reason=x --valid-for=1d", None),
            ("v-1 population=1 --reason=x --valid-for=1d --since=1d", Some(2)),
            ("v-1 population=1 --rule=small-difference --reason=x", Some(2)),
            ("v-1 --rule=small-difference", Some(2)),
            ("--rule=small-difference --valid-for=1d", Some(2)),
            ("--rule=small-difference --own-value", Some(2)),
        ] {
            assert_eq!(exit_code(line), expected, "{line}");
        }
    }
}
