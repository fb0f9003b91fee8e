//! The form that resolves a review.

use super::form_fields::Fields;
use super::page_error::PageError;
use crate::audit::log::parse_duration;
use domain_base::decimal::{Decimal, Rounding};
use domain_base::visible::visible_json;
use domain_verification::review::{ReviewCase, ReviewResolution};
use maud::{Markup, html};
use oracled_api::verification::ReviewEvidence;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// The field with the choice for an axis begins with this.
const CHOICE: &str = "choice:";

/// The choice of a reviewer for an axis. The value of a radio button is its JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "take", rename_all = "snake_case")]
enum AxisChoice {
    /// The value of a candidate or a claim.
    Offered { value: String, definition: Option<String> },
    /// The mean of the candidates.
    Mean,
    /// The value in the field beside it.
    Own,
}

/// The candidates' values on an axis and the claimed one, each with the sources that have it.
fn offered(review: &ReviewCase, path: &str) -> BTreeMap<AxisChoice, Vec<String>> {
    let claim = review.claimed.get(path);
    // without a definition, the daemon takes that of the candidates, but a claim has the axis's own
    let is_claim_other = claim.is_some() && review.definitions_of(path).iter().any(|name| !name.is_empty());
    let is_named = review.is_definition_required(path) || is_claim_other;
    let choice = |value: String, definition: Option<&String>| AxisChoice::Offered {
        value,
        definition: is_named.then(|| definition.cloned().unwrap_or_default()),
    };
    let mut offered: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (oracle_id, candidate) in &review.candidates {
        let Some(stated) = candidate.values.get(path) else { continue };
        let choice = choice(stated.value.to_string(), stated.definition.as_ref());
        offered.entry(choice).or_default().push(oracle_id.to_string());
    }
    if let Some(claim) = claim {
        let sources = offered.entry(choice(claim.value.to_string(), None)).or_default();
        sources.push(format!("claimed by {}", claim.claimed_by));
    }
    offered
}

/// The mean of the candidates' values on an axis, rounded to their longest fraction. `None` unless there are several numbers of one
/// definition.
fn mean(review: &ReviewCase, path: &str) -> Option<Decimal> {
    let values = review.candidates.values().filter_map(|candidate| candidate.values.get(path));
    let values: Vec<Decimal> =
        values.map(|stated| stated.value.to_string().parse().ok()).collect::<Option<_>>()?;
    let is_mixed = review.is_definition_required(path) || values.len() < 2;
    let places = values.iter().map(Decimal::places).max().filter(|_| !is_mixed)?;
    let sum = values.iter().try_fold(Decimal::from(0), |sum, value| sum.checked_add(value)).ok()?;
    let count = Decimal::from(i64::try_from(values.len()).ok()?);
    sum.div_rounded(&count, places.max(0), Rounding::HalfEven).ok()
}

pub(super) fn render_form(review: &ReviewCase, evidence: &ReviewEvidence, action: &str) -> Markup {
    html! {
        form.action method="post" action=(action) {
            @for path in review.axes.keys() { (render_axis(review, evidence, path)) }
            label { "Valid for" input name="valid_for" value="90d" required size="6" autocomplete="off"; }
            label { "Reason" textarea name="reason" required maxlength="4096" rows="3" {} }
            button type="submit" { "Resolve the review" }
        }
    }
}

fn render_axis(review: &ReviewCase, evidence: &ReviewEvidence, path: &str) -> Markup {
    let name = format!("{CHOICE}{path}");
    // the values come back exactly, since JSON has escapes for hidden characters
    let json =
        |choice: &AxisChoice| visible_json(&serde_json::to_string(choice).unwrap_or_default()).into_owned();
    let unit = evidence.units.get(path).map(|unit| format!(" {unit}")).unwrap_or_default();
    let definitions = review.definitions_of(path);
    let own_definition =
        |definition: &str| if definition.is_empty() { "the axis's own" } else { definition }.to_owned();
    html! {
        fieldset {
            legend { "Value of " (path) }
            @for (choice, sources) in offered(review, path) {
                @if let AxisChoice::Offered { value, definition } = &choice {
                    label.check {
                        input type="radio" name=(name) value=(json(&choice)) required;
                        span {
                            strong { (value) (unit) }
                            @if let Some(definition) = definition { " (definition: " (own_definition(definition)) ")" }
                            " – " (sources.join(", "))
                        }
                    }
                }
            }
            @if let Some(mean) = mean(review, path) {
                label.check {
                    input type="radio" name=(name) value=(json(&AxisChoice::Mean)) required;
                    span { strong { (mean) (unit) } " – the mean of the sources" }
                }
            }
            div.own {
                label.check {
                    input type="radio" name=(name) value=(json(&AxisChoice::Own)) required;
                    span { "Own value" }
                }
                label { "Own value of " (path) input name=(format!("own:{path}")) autocomplete="off"; }
                @if review.is_definition_required(path) {
                    label {
                        "Its definition"
                        select name=(format!("definition:{path}")) {
                            @for definition in definitions {
                                option value=(definition) { (own_definition(definition)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The resolution in the fields of the form.
///
/// # Errors
/// A field is missing or invalid.
pub(super) fn read_resolution(review: &ReviewCase, fields: &Fields) -> Result<ReviewResolution, PageError> {
    let mut resolution = ReviewResolution {
        values: BTreeMap::new(),
        definitions: BTreeMap::new(),
        own_value: false,
        reason: fields.required("reason", "Reason")?,
        valid_for_seconds: 0,
    };
    let valid_for = parse_duration(&fields.required("valid_for", "Valid for")?).map_err(PageError::input)?;
    // the daemon rejects a validity out of range, with the allowed range
    resolution.valid_for_seconds = u64::try_from(valid_for.as_secs()).unwrap_or(0);
    let given: BTreeSet<_> = fields.with_prefix(CHOICE).map(|(path, _)| path).collect();
    for (path, choice) in fields.with_prefix(CHOICE) {
        let choice = serde_json::from_str(choice);
        let (value, definition) =
            match choice.map_err(|_| PageError::input(format!("choose a value of {path}")))? {
                AxisChoice::Offered { value, definition } => (value, definition),
                AxisChoice::Mean => {
                    resolution.own_value = true;
                    let mean = mean(review, path);
                    let mean =
                        mean.ok_or_else(|| PageError::input(format!("the values of {path} have no mean")))?;
                    (mean.to_string(), None)
                }
                AxisChoice::Own => {
                    resolution.own_value = true;
                    let definition = fields.text(&format!("definition:{path}")).to_owned();
                    let value = fields.required(&format!("own:{path}"), &format!("Own value of {path}"))?;
                    (value, review.is_definition_required(path).then_some(definition))
                }
            };
        resolution.values.insert(path.to_owned(), Json::String(value));
        resolution.definitions.extend(definition.map(|definition| (path.to_owned(), definition)));
    }
    match review.axes.keys().find(|path| !given.contains(path.as_str())) {
        Some(path) => Err(PageError::input(format!("choose a value of {path}"))),
        None => Ok(resolution),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A review with the values and definitions of candidates on the axis `height`, and the claimed value.
    fn review(stated: &[(&str, Option<&str>)], claimed: &str) -> ReviewCase {
        let at = "2026-11-20T10:00:00Z";
        let candidates: serde_json::Map<_, _> = stated
            .iter()
            .enumerate()
            .map(|(number, (value, definition))| {
                let mut height = json!({"value": value});
                if let Some(definition) = definition {
                    height["definition"] = json!(definition);
                }
                let oracle_id = format!("office-{number}");
                let record = json!({
                    "oracle_id": oracle_id, "oracle_tier": "primary", "source_locator": "urn:a", "retrieved_at": at,
                    "verified_at": at, "verification_method": "checksum", "verifier_id": "oracled",
                });
                let candidate = json!({
                    "where": {"tower": "a"}, "values": {"height": height}, "record": record, "observed_at": at, "freshness": [],
                });
                (oracle_id, candidate)
            })
            .collect();
        let sha256 = "0".repeat(64);
        serde_json::from_value(json!({
            "review_id": "v-1", "workflow_id": "towers", "ontology": {"ontology_id": "towers", "version": "1"},
            "where": {"tower": "a"}, "axes": {"height": ["require_human"]}, "sources": {}, "candidates": candidates,
            "claimed": {"height": {"value": claimed, "claimed_by": "ann", "confirmed": false}},
            "evidence_hash": sha256, "envelope_sha256": sha256, "opened_at": at,
        }))
        .expect("a valid review")
    }

    #[test]
    fn claim_is_offered_under_the_own_definition_of_the_axis() {
        let roof = Some("to the roof");
        for (stated, claimed, expected) in [
            // one definition, which is the axis's own
            (vec![("7", None), ("8", None)], "7", vec![("7", None, 2), ("8", None, 1)]),
            (vec![("7", None)], "9", vec![("7", None, 1), ("9", None, 1)]),
            // one definition, which is another
            (vec![("7", roof)], "7", vec![("7", Some(""), 1), ("7", roof, 1)]),
            // several definitions
            (vec![("7", None), ("8", roof)], "7", vec![("7", Some(""), 2), ("8", roof, 1)]),
            (
                vec![("7", None), ("8", roof)],
                "8",
                vec![("7", Some(""), 1), ("8", Some(""), 1), ("8", roof, 1)],
            ),
        ] {
            let offered = offered(&review(&stated, claimed), "height");
            let expected = expected.into_iter().map(|(value, definition, count)| {
                let definition = definition.map(str::to_owned);
                (AxisChoice::Offered { value: value.to_owned(), definition }, count)
            });
            let counts: Vec<_> =
                offered.into_iter().map(|(choice, sources)| (choice, sources.len())).collect();
            assert_eq!(counts, expected.collect::<Vec<_>>(), "{stated:?}, {claimed}");
        }
    }
}
