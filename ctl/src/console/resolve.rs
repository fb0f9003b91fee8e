//! The fields that resolve a dispute: a value of a source, a claimed one, or another one; and the resolution in them.

use super::forms::{Draft, Fields, action_button};
use super::items::{value_text, value_with_unit};
use super::layout::PageError;
use super::parts::{group_digits, unit_of, words};
use crate::audit::log::parse_duration;
use domain_base::decimal::Decimal;
use domain_base::text_form::visible_json;
use domain_ground::id::SourceId;
use domain_verification::review::{ReviewCase, ReviewResolution};
use domain_verification::wire::ReviewEvidence;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// The field with the choice for an axis begins with this.
const CHOICE: &str = "choice:";

/// The choice of a reviewer for an axis. The value of a radio button is its JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "take", rename_all = "snake_case")]
enum AxisChoice {
    /// The value of a candidate or a claim.
    Offered { value: String, definition: Option<String> },
    /// The present value of a source, which has changed since the review was opened.
    Present { value: String },
    /// The value in the field beside it.
    Own,
}

impl AxisChoice {
    /// The value of the choice; `None` for that in the field beside it.
    fn value(&self) -> Option<&str> {
        match self {
            Self::Offered { value, .. } | Self::Present { value } => Some(value.as_str()),
            Self::Own => None,
        }
    }
}

/// The candidates' values on an axis in the order of their cards, then the claimed one, each with the sources that have it.
fn offered(review: &ReviewCase, path: &str) -> Vec<(AxisChoice, Vec<String>)> {
    let claim = review.claimed.get(path);
    // without a definition, the daemon takes that of the candidates, but a claim has the axis's own
    let is_claim_other = claim.is_some() && review.definitions_of(path).iter().any(|name| !name.is_empty());
    let is_named = review.is_definition_required(path) || is_claim_other;
    let choice = |value: String, definition: Option<&String>| AxisChoice::Offered {
        value,
        definition: is_named.then(|| definition.cloned().unwrap_or_default()),
    };
    let mut offered: Vec<(AxisChoice, Vec<String>)> = Vec::new();
    let mut add =
        |choice: AxisChoice, source: String| match offered.iter_mut().find(|(known, _)| *known == choice) {
            Some((_, sources)) => sources.push(source),
            None => offered.push((choice, vec![source])),
        };
    for (oracle_id, candidate) in &review.candidates {
        let Some(stated) = candidate.values.get(path) else { continue };
        add(choice(stated.value.to_string(), stated.definition.as_ref()), oracle_id.to_string());
    }
    if let Some(claim) = claim {
        add(choice(claim.value.to_string(), None), format!("claimed by {}", claim.claimed_by));
    }
    offered
}

/// The choices of the page on an axis: first the values of the review, then the present ones of sources that have changed since.
/// Where a definition was stated, there are no present ones: a present answer has none, and it may have changed, too.
fn choices(review: &ReviewCase, evidence: &ReviewEvidence, path: &str) -> Vec<(AxisChoice, Vec<String>)> {
    let mut choices = offered(review, path);
    let is_defined = review.definitions_of(path).iter().any(|name| !name.is_empty());
    if is_defined || review.is_definition_required(path) {
        return choices;
    }
    let stated = |oracle_id: &SourceId| review.candidates.get(oracle_id)?.values.get(path);
    for (oracle_id, answer) in &evidence.changed {
        let Some(value) = answer.values.get(path).map(ToString::to_string) else { continue };
        if stated(oracle_id).is_some_and(|stated| stated.value.to_string() == value) {
            continue;
        }
        let source = format!("{oracle_id} now");
        match choices.iter_mut().find(|(choice, _)| choice.value() == Some(value.as_str())) {
            Some((_, sources)) => sources.push(source),
            None => choices.push((AxisChoice::Present { value }, vec![source])),
        }
    }
    choices
}

/// The number of the button, and its key, that uses the value of a source.
pub(super) fn key_of(review: &ReviewCase, path: &str, oracle_id: &SourceId) -> Option<usize> {
    let choices = offered(review, path);
    let at = choices.iter().position(|(_, sources)| sources.iter().any(|name| name == oracle_id.as_str()));
    at.map(|at| at + 1)
}

/// The key of another value, whatever the number of candidates.
const OWN_KEY: &str = "v";

/// The fields and buttons that resolve a review: a button for each value of one axis, or a choice for each of several axes.
pub(super) fn resolve_fields(
    review: &ReviewCase,
    evidence: &ReviewEvidence,
    action: &str,
    draft: &Draft,
) -> Markup {
    let paths: Vec<_> = review.axes.keys().collect();
    let validity = Some(draft.text("valid_for")).filter(|text| !text.is_empty()).unwrap_or("90d");
    let valid_for = html! {
        label.f { "Valid for" input type="text" name="valid_for" value=(validity) required autocomplete="off"; span.hint { "such as 90d, 12h, 30m" } }
    };
    html! {
        (valid_for)
        div.acts {
            @if let [path] = paths.as_slice() {
                @for (number, (choice, sources)) in choices(review, evidence, path).into_iter().enumerate() {
                    @let text = html! { "Use " (choice_text(&choice, evidence.units.get(*path))) " " span.muted { (sources.join(", ")) } };
                    (action_button("plain", &text, &(number + 1).to_string(), (&format!("{CHOICE}{path}"), &choice_json(&choice)), action))
                }
                (own_value(review, evidence, (path, action), draft))
            } @else {
                @for path in &paths { (render_axis(review, evidence, path, draft)) }
                (action_button("plain", &html! { "Use the chosen values" }, "1", ("action", "resolve"), action))
            }
        }
    }
}

/// The JSON of a choice. Its values come back exactly, since JSON has escapes for hidden characters.
fn choice_json(choice: &AxisChoice) -> String {
    visible_json(&serde_json::to_string(choice).unwrap_or_default()).into_owned()
}

fn choice_text(choice: &AxisChoice, unit: Option<&String>) -> Markup {
    html! {
        @if let Some(value) = choice.value() { b { (value_with_unit(value, unit)) } }
        @if let AxisChoice::Offered { definition: Some(definition), .. } = choice { " (definition: " (own_definition(definition)) ")" }
    }
}

fn own_definition(definition: &str) -> &str {
    if definition.is_empty() { "the axis's own" } else { definition }
}

fn own_value(
    review: &ReviewCase,
    evidence: &ReviewEvidence,
    (path, action): (&str, &str),
    draft: &Draft,
) -> Markup {
    let id = format!("own-{path}");
    html! {
        details.own open[!draft.text(&format!("own:{path}")).is_empty()] {
            // its key leads to the field, whatever is entered there
            summary data-key=(OWN_KEY) aria-keyshortcuts=(OWN_KEY) data-focus=(id) { "Use another value " kbd aria-hidden="true" { (OWN_KEY) } }
            (own_fields(review, evidence, path, draft))
            button.btn type="submit" formaction=(action) name=(format!("{CHOICE}{path}")) value=(choice_json(&AxisChoice::Own)) data-enter=(id) {
                span { "Use this value" }
                kbd aria-hidden="true" { "Enter" }
            }
        }
    }
}

fn own_fields(review: &ReviewCase, evidence: &ReviewEvidence, path: &str, draft: &Draft) -> Markup {
    let unit = evidence.units.get(path).map(|unit| format!(", {}", unit_of("", unit))).unwrap_or_default();
    let name = format!("own:{path}");
    // the second press is Enter again
    let is_asked = draft.is_to_confirm() && !draft.text(&name).is_empty();
    html! {
        label.f { "Value of " (words(path)) (unit) input #(format!("own-{path}")) type="text" name=(name) value=(draft.text(&name)) autocomplete="off" autofocus[is_asked]; }
        @if review.is_definition_required(path) {
            label.f {
                "Its definition"
                select name=(format!("definition:{path}")) {
                    @for definition in review.definitions_of(path) {
                        option value=(definition) selected[draft.text(&format!("definition:{path}")) == definition] { (own_definition(definition)) }
                    }
                }
            }
        }
    }
}

fn render_axis(review: &ReviewCase, evidence: &ReviewEvidence, path: &str, draft: &Draft) -> Markup {
    let name = format!("{CHOICE}{path}");
    let is_chosen = |choice: &AxisChoice| draft.text(&name) == choice_json(choice);
    html! {
        fieldset.pick {
            legend.f { "Value of " (words(path)) }
            @for (choice, sources) in choices(review, evidence, path) {
                label {
                    input type="radio" name=(name) value=(choice_json(&choice)) checked[is_chosen(&choice)];
                    span { (choice_text(&choice, evidence.units.get(path))) " " span.muted { (sources.join(", ")) } }
                }
            }
            label {
                input type="radio" name=(name) value=(choice_json(&AxisChoice::Own)) checked[is_chosen(&AxisChoice::Own)];
                span { "Another value" }
            }
            (own_fields(review, evidence, path, draft))
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
        rule: None,
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
                // it is none of the review's candidates
                AxisChoice::Present { value } => {
                    resolution.own_value = true;
                    (value, None)
                }
                AxisChoice::Own => {
                    resolution.own_value = true;
                    let definition = fields.text(&format!("definition:{path}")).to_owned();
                    let value = fields.required(&format!("own:{path}"), &format!("Own value of {path}"))?;
                    let is_number = !known_numbers(review, None, path).is_empty();
                    (
                        if is_number { without_separators(&value) } else { value },
                        review.is_definition_required(path).then_some(definition),
                    )
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

/// The question about values that are lower or higher than every value of a source and every claim; `None` if there is none.
pub(super) fn outside_candidates(
    review: &ReviewCase,
    evidence: &ReviewEvidence,
    resolution: &ReviewResolution,
) -> Option<Markup> {
    let outside: Vec<_> = resolution
        .values
        .iter()
        .filter_map(|(path, value)| {
            let value = value.as_str()?;
            let number: Decimal = value.parse().ok()?;
            let known = known_numbers(review, Some(evidence), path);
            let (low, high) = (known.first()?, known.last()?);
            let unit = evidence.units.get(path);
            let text = |number: &Decimal| value_text(&number.to_string(), unit);
            let range = if low == high {
                text(low)
            } else {
                format!("{} to {}", group_digits(&low.to_string()), text(high))
            };
            (number < *low || number > *high).then(|| (words(path), value_text(value, unit), range))
        })
        .collect();
    (!outside.is_empty()).then(|| {
        html! {
            @for (axis, value, range) in outside {
                strong { "The sources have " (range) " for " (axis) ", and you have entered " (value) ". " }
            }
            "Correct it, or press the same button once more to use it."
        }
    })
}

/// The values of the sources and of a claim on an axis, with the present ones of the evidence, from the lowest; none if one of them is
/// not a number.
fn known_numbers(review: &ReviewCase, evidence: Option<&ReviewEvidence>, path: &str) -> Vec<Decimal> {
    let stated = review.candidates.values().filter_map(|candidate| candidate.values.get(path));
    let claimed = review.claimed.get(path).map(|claim| claim.value.to_string());
    let changed = evidence.into_iter().flat_map(|evidence| evidence.changed.values());
    let present = changed.filter_map(|answer| answer.values.get(path)).map(ToString::to_string);
    let texts = stated.map(|stated| stated.value.to_string()).chain(claimed).chain(present);
    let mut numbers: Vec<Decimal> =
        texts.map(|text| text.parse().ok()).collect::<Option<_>>().unwrap_or_default();
    numbers.sort();
    numbers
}

/// A number without the separators with which the pages show it; another text as it is.
pub(super) fn without_separators(text: &str) -> String {
    let digits: String =
        text.chars().filter(|letter| !matches!(letter, ',' | ' ' | '\u{a0}' | '\u{202f}' | '_')).collect();
    let digits = digits.replace('−', "-");
    // separators stand where the pages have them
    let plain = |text: &str| text.replace([' ', '\u{a0}', '\u{202f}', '_'], ",").replace('−', "-");
    if plain(&group_digits(&digits)) == plain(text) { digits } else { text.to_owned() }
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
            (vec![("7", roof)], "7", vec![("7", roof, 1), ("7", Some(""), 1)]),
            // several definitions
            (vec![("7", None), ("8", roof)], "7", vec![("7", Some(""), 2), ("8", roof, 1)]),
            (
                vec![("7", None), ("8", roof)],
                "8",
                vec![("7", Some(""), 1), ("8", roof, 1), ("8", Some(""), 1)],
            ),
            // the order is that of the sources, not of the values
            (vec![("9", None), ("7", None)], "8", vec![("9", None, 1), ("7", None, 1), ("8", None, 1)]),
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

    #[test]
    fn own_number_is_read_with_the_separators_of_the_pages() {
        for (text, expected) in [
            ("106,000", "106000"),
            ("7 794 798 739", "7794798739"),
            ("−1,234.5", "-1234.5"),
            ("54300", "54300"),
            ("1,5", "1,5"),
            ("north, east", "north, east"),
        ] {
            assert_eq!(without_separators(text), expected, "{text}");
        }
    }

    #[test]
    fn key_of_another_value_leads_to_its_field_and_enter_presses_its_button() {
        let review = review(&[("7700", None), ("7800", None)], "7750");
        let evidence: ReviewEvidence = serde_json::from_value(
            json!({"title": "Height, a", "units": {"height": "{floor}"}, "raw_texts": {}}),
        )
        .expect("valid evidence");
        for entered in ["", "74"] {
            let fields = Fields::of([("own:height", entered.to_owned())]);
            let draft = Draft::to_confirm(&html! { "Correct it" }, "74", fields);
            let page = resolve_fields(&review, &evidence, "/reviews/v-1/resolve", &draft).into_string();
            let (summary, rest) = page
                .split_once("<summary data-key=\"v\"")
                .and_then(|(_, rest)| rest.split_once("</summary>"))
                .expect("the key is that of the part, not of the button");
            assert!(summary.contains("data-focus=\"own-height\""), "{page}");
            assert!(rest.contains("height, floors") && rest.contains("id=\"own-height\""), "{page}");
            assert!(rest.contains("data-enter=\"own-height\""), "{page}");
            assert_eq!(page.matches("data-key=\"v\"").count(), 1, "{page}");
            // an entered value stays visible
            assert_eq!(page.contains("<details class=\"own\" open>"), !entered.is_empty(), "{page}");
        }
    }

    #[test]
    fn present_value_of_a_source_that_has_changed_is_offered_and_in_the_range() {
        let review = review(&[("7700", None), ("7800", None)], "7750");
        let evidence: ReviewEvidence = serde_json::from_value(json!({
            "title": "Height, a", "units": {}, "raw_texts": {},
            "changed": {"office-0": {"version": "2", "values": {"height": "7900"}}},
        }))
        .expect("valid evidence");
        let choices = choices(&review, &evidence, "height");
        let present = AxisChoice::Present { value: "7900".to_owned() };
        assert_eq!(choices.last(), Some(&(present.clone(), vec!["office-0 now".to_owned()])));
        assert_eq!(choices.len(), 4);
        let office = "office-1".parse().expect("an id");
        assert_eq!(key_of(&review, "height", &office), Some(2), "the keys of the others stay");
        let fields = Fields::of([
            ("choice:height", choice_json(&present)),
            ("reason", "x".to_owned()),
            ("valid_for", "1d".to_owned()),
        ]);
        let resolution = read_resolution(&review, &fields).expect("a resolution");
        assert_eq!((resolution.own_value, &resolution.values["height"]), (true, &json!("7900")));
        assert!(outside_candidates(&review, &evidence, &resolution).is_none());
        let page = resolve_fields(&review, &evidence, "/a", &Draft::default()).into_string();
        assert!(page.contains("office-0 now"), "{page}");
    }

    #[test]
    fn present_values_are_merged_and_never_have_a_definition_that_nobody_stated() {
        let evidence = |values: &[(&str, &str)]| -> ReviewEvidence {
            let changed: serde_json::Map<_, _> = values
                .iter()
                .map(|(office, value)| {
                    ((*office).to_owned(), json!({"version": "2", "values": {"height": value}}))
                })
                .collect();
            let evidence = json!({"title": "Height, a", "units": {}, "raw_texts": {}, "changed": changed});
            serde_json::from_value(evidence).expect("valid evidence")
        };
        let shown = |stated: &[(&str, Option<&str>)], present: &[(&str, &str)]| {
            let choices = choices(&review(stated, "7750"), &evidence(present), "height");
            let shown = choices.into_iter().map(|(_, sources)| sources.join(", "));
            shown.collect::<Vec<_>>()
        };
        let plain = [("7700", None), ("7800", None)];
        let same = shown(&plain, &[("office-0", "7800")]);
        assert_eq!(same, ["office-0", "office-1, office-0 now", "claimed by ann"]);
        let both = shown(&plain, &[("office-0", "7900"), ("office-1", "7900")]);
        assert_eq!(both, ["office-0", "office-1", "claimed by ann", "office-0 now, office-1 now"]);
        let roof = Some("to the roof");
        for stated in [[("7700", roof), ("7800", None)], [("7700", roof), ("7800", roof)]] {
            let defined = shown(&stated, &[("office-0", "7900")]);
            assert_eq!(defined, ["office-0", "office-1", "claimed by ann"], "{stated:?}");
        }
    }

    #[test]
    fn own_value_outside_the_candidates_needs_a_second_press() {
        let review = review(&[("7700", None), ("7800", None)], "7750");
        let evidence: ReviewEvidence = serde_json::from_value(
            json!({"title": "Height, a", "units": {"height": "{person}"}, "raw_texts": {}}),
        )
        .expect("valid evidence");
        let question = |value: &str| {
            let resolution = ReviewResolution {
                values: [("height".to_owned(), json!(value))].into(),
                definitions: BTreeMap::new(),
                own_value: true,
                reason: "x".to_owned(),
                valid_for_seconds: 60,
                rule: None,
            };
            outside_candidates(&review, &evidence, &resolution).map(Markup::into_string)
        };
        assert_eq!((question("7700"), question("7760"), question("north")), (None, None, None));
        let asked = question("74").expect("it is outside");
        assert!(asked.contains("7,700 to 7,800 persons") && asked.contains("74 persons"), "{asked}");
    }
}
