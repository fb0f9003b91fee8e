//! `oraclectl verify`.

use crate::base::error::CtlError;
use crate::base::options::{AxisValueArg, GlobalOptions, collect_by_axis, encode_segment, parse_axis_value};
use crate::base::output::{OutputStyle, format_pairs, format_requester, format_table, print_json};
use crate::base::program::examples;
use domain_base::moment::{Moment, format_span};
use domain_base::text_form::visible_line;
use domain_ground::id::WorkflowId;
use domain_ground::value::AxisValue;
use domain_verification::conflict::{ConflictSide, ConflictStep, ConflictStepOutcome};
use domain_verification::envelope::{AxisEvidence, AxisOutcome, CandidateOutcome, ValueBasis};
use domain_verification::request::ClaimedValue;
use domain_verification::verification_record::StatedValue;
use domain_verification::{
    AxisReason, CallOutcome, CallTimeLimit, Envelope, EnvelopeKind, OracleReply, VerifyRequest,
};
use hyper::{Method, StatusCode};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

/// Interval between two requests for a pending decision.
const PAUSE: Duration = Duration::from_millis(250);

/// Verify values with the sources of a workflow; exit status 0 only if they are verified
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl verify population area=MDA year=2015 --axes population --wait", "oraclectl verify population area=MDA year=2015 --axes population \\\n    \
             --claim population=2835978 --by census-office"]))]
pub(crate) struct VerifyArgs {
    /// The workflow
    workflow: WorkflowId,
    /// The subject: the values of its identity axes, such as `area=ABW year=1960`
    #[arg(value_name = "AXIS=VALUE", value_parser = parse_axis_value)]
    subject: Vec<AxisValueArg>,
    /// Axes to verify
    #[arg(long, required = true, value_delimiter = ',', value_name = "AXIS,AXIS")]
    axes: Vec<String>,
    /// A claimed value of an axis
    #[arg(long = "claim", value_name = "AXIS=VALUE", value_parser = parse_axis_value, requires = "by")]
    claims: Vec<AxisValueArg>,
    /// The name of the claimant
    #[arg(long, value_name = "NAME", requires = "claims")]
    by: Option<String>,
    /// Mark the claim as confirmed by the claimant
    #[arg(long, requires = "claims")]
    confirmed: bool,
    /// Point in time of the values: a day or a time
    #[arg(long, value_name = "WHEN")]
    at: Option<Moment>,
    /// Only data that the daemon had at this day or time
    #[arg(long, value_name = "WHEN")]
    known_at: Option<Moment>,
    /// Wait for a pending decision
    #[arg(long)]
    wait: bool,
}

impl VerifyArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let request = self.request()?;
        let body = serde_json::to_vec(&request).map_err(std::io::Error::from)?;
        let mut answer = options.call_routes(Method::POST, "/v1/verify", Some(body.into())).await?;
        let mut envelope: Envelope = answer.json()?;
        while self.wait && answer.status == StatusCode::ACCEPTED {
            tokio::time::sleep(PAUSE).await;
            let path = format!("/v1/verify/{}", encode_segment(&envelope.execution_id));
            answer = options.call_routes(Method::GET, &path, None).await?;
            envelope = answer.json()?;
        }
        if options.json {
            print_json(out, &envelope)?;
        } else {
            let claims = self.claims.iter();
            let claims =
                claims.map(|AxisValueArg { axis, value }| (axis, value, self.claimant(), self.confirmed));
            let claims = format_claims(claims);
            show_envelope(out, &envelope, &claims, OutputStyle::for_stdout())?;
        }
        if envelope.kind == EnvelopeKind::Authoritative { Ok(()) } else { Err(CtlError::NotVerified) }
    }

    /// The claimant. The command line requires `--by` with a claim.
    fn claimant(&self) -> &str {
        self.by.as_deref().unwrap_or_default()
    }

    fn request(&self) -> Result<VerifyRequest, CtlError> {
        let claimed = collect_by_axis(&self.claims)?.into_iter().map(|(axis, value)| {
            (axis, ClaimedValue { value, claimed_by: self.claimant().to_owned(), confirmed: self.confirmed })
        });
        Ok(VerifyRequest {
            workflow: self.workflow.clone(),
            subject: collect_by_axis(&self.subject)?,
            axes: self.axes.clone(),
            claimed: claimed.collect(),
            point_in_time: self.at.map(|Moment(at)| at),
            known_at: self.known_at.map(|Moment(at)| at),
        })
    }
}

/// Prints an envelope, with each claim of the question under its axis.
pub(crate) fn show_envelope(
    out: &mut dyn Write,
    envelope: &Envelope,
    claims: &BTreeMap<String, String>,
    look: OutputStyle,
) -> Result<(), CtlError> {
    let is_verified = envelope.kind == EnvelopeKind::Authoritative;
    let meaning = if is_without_value(envelope) {
        describe_no_value(&envelope.candidates)
    } else {
        describe_kind(envelope.kind)
    };
    let kind = format!("{}: {meaning}", envelope.kind.into_str());
    writeln!(out, "{}", look.paint(&kind, is_verified))?;
    let head = [
        ("workflow", envelope.workflow.to_string()),
        ("subject", format_identity(&envelope.subject)),
        ("as of", format_times(envelope.point_in_time, envelope.known_at)),
        ("decided at", envelope.decided_at.to_string()),
        ("execution", envelope.execution_id.clone()),
    ];
    writeln!(out, "{}", format_pairs(&head))?;
    for (path, outcome) in &envelope.axes {
        show_axis(out, path, outcome, &envelope.candidates)?;
        if let Some(claim) = claims.get(path) {
            writeln!(out, "  claimed: {}", visible_line(claim))?;
        }
        for CandidateOutcome { oracle_id, deviations, .. } in &envelope.candidates {
            if let Some(jump) = deviations.get(path) {
                writeln!(out, "  {oracle_id}: {}", visible_line(jump))?;
            }
        }
    }
    let rows: Vec<_> = envelope.candidates.iter().map(candidate_row).collect();
    if !rows.is_empty() {
        writeln!(
            out,
            "\n{}",
            format_table(["source", "values", "counts as", "version", "as of", "outcome"], rows)
        )?;
    }
    if !envelope.steps.is_empty() {
        writeln!(out, "\nconflicts")?;
    }
    for step in &envelope.steps {
        writeln!(out, "  {}", describe_step(step))?;
    }
    show_notes(out, envelope)?;
    show_next_step(out, envelope)
}

/// Whether all sources answered, and only their data has no value.
fn is_without_value(envelope: &Envelope) -> bool {
    envelope.kind == EnvelopeKind::Blocked && envelope.reasons.iter().eq([&AxisReason::NoValue])
}

/// Prints one axis: its value with the evidence, or the reasons why it has none.
fn show_axis(
    out: &mut dyn Write,
    path: &str,
    outcome: &AxisOutcome,
    candidates: &[CandidateOutcome],
) -> Result<(), CtlError> {
    let Some(value) = &outcome.value else {
        let difference = outcome.delta.as_ref().map(|delta| format!(", at most {delta} apart"));
        let kind = outcome.kind.into_str();
        writeln!(out, "{}: no value ({kind}){}", visible_line(path), difference.unwrap_or_default())?;
        if outcome.reasons.iter().eq([&AxisReason::NoValue]) {
            let why = describe_no_value(candidates);
            writeln!(out, "  {why} ({})", AxisReason::NoValue.into_str())?;
            return Ok(());
        }
        for why in describe_reasons(&outcome.reasons) {
            writeln!(out, "  {why}")?;
        }
        return Ok(());
    };
    let unit = outcome.unit.as_ref().map(|unit| format!(" {unit}")).unwrap_or_default();
    writeln!(out, "{}", visible_line(&format!("{path}: {value}{unit}")))?;
    if let Some(definition) = &outcome.definition {
        writeln!(out, "  measured as: {}", visible_line(definition))?;
    }
    if let Some(basis) = outcome.basis {
        writeln!(out, "  {}", describe_basis(basis))?;
    }
    for AxisEvidence { record, observed_at, stale } in &outcome.evidence {
        let version = record.source_version.as_ref().map(|version| format!(", version {version}"));
        let (oracle_id, tier, version) =
            (&record.oracle_id, record.oracle_tier.into_str(), version.unwrap_or_default());
        let cached = if *stale { ", from the cache" } else { "" };
        let (method, by) = (&record.verification_method, format_requester(&record.verifier_id));
        let line = format!("{oracle_id} ({tier}){version}, as of {observed_at}{cached}: {method} by {by}");
        writeln!(out, "  {}", visible_line(&line))?;
        writeln!(out, "    {}", visible_line(&record.source_locator))?;
    }
    Ok(())
}

/// The row of a source.
fn candidate_row(candidate: &CandidateOutcome) -> [String; 6] {
    let registered = candidate.registered_tier.map(|tier| tier.into_str());
    let counts_as = match (candidate.tier.map(|tier| tier.into_str()), registered) {
        (Some(tier), Some(registered)) if tier != registered => format!("{tier}, registered as {registered}"),
        (Some(tier), _) => tier.to_owned(),
        (None, _) => "-".into(),
    };
    let none = || "-".to_owned();
    let values = format_values(&candidate.values);
    [
        candidate.oracle_id.to_string(),
        if values.is_empty() { none() } else { values },
        counts_as,
        candidate.record.as_ref().and_then(|record| record.source_version.clone()).unwrap_or_else(none),
        candidate.observed_at.map_or_else(none, |at| at.to_string()),
        describe_outcome(candidate),
    ]
}

/// Prints further reasons, repeated queries, warnings, and the disclaimer.
fn show_notes(out: &mut dyn Write, envelope: &Envelope) -> Result<(), CtlError> {
    writeln!(out)?;
    let of_axes = |reason: &AxisReason| envelope.axes.values().any(|axis| axis.reasons.contains(reason));
    let others = envelope.reasons.iter().copied().filter(|reason| !of_axes(reason)).collect();
    for why in describe_reasons(&others) {
        writeln!(out, "why: {why}")?;
    }
    for again in &envelope.reverify {
        let axes = again.axes.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        writeln!(out, "to be queried again: {} for {}", again.oracle_id, visible_line(&axes))?;
    }
    for warning in &envelope.warnings {
        writeln!(out, "warning: {}", visible_line(warning))?;
    }
    if let Some(disclaimer) = &envelope.disclaimer {
        writeln!(out, "disclaimer: {}", visible_line(disclaimer))?;
    }
    Ok(writeln!(out, "envelope SHA-256: {}", envelope.sha256)?)
}

/// Prints the next step, unless it is to use the values.
fn show_next_step(out: &mut dyn Write, envelope: &Envelope) -> Result<(), CtlError> {
    if let Some(review_id) = &envelope.review_id {
        writeln!(out, "next: oraclectl review show {}", visible_line(review_id))?;
    }
    if !envelope.unspecified.is_empty() {
        let open = envelope.unspecified.join(", ");
        writeln!(out, "next: specify {} as AXIS=VALUE", visible_line(&open))?;
    }
    if let Some(retry) = &envelope.retry {
        writeln!(out, "next: {}", visible_line(&retry.advice))?;
    }
    if envelope.kind == EnvelopeKind::Provisional {
        writeln!(
            out,
            "next: oraclectl explain {}, once it is decided",
            visible_line(&envelope.execution_id)
        )?;
    }
    Ok(())
}

/// The meaning of an envelope's kind.
const fn describe_kind(kind: EnvelopeKind) -> &'static str {
    match kind {
        EnvelopeKind::Authoritative => "all values are verified",
        EnvelopeKind::NarrativeOnly => "nothing is verified, and no values are returned",
        EnvelopeKind::Blocked => "no values are available for now",
        EnvelopeKind::RequiresSpecification => "the question does not identify one subject",
        EnvelopeKind::Provisional => "the decision is pending",
        EnvelopeKind::DisputeSummary => "the sources disagree, and the workflow leaves that undecided",
        EnvelopeKind::HumanReview => "a reviewer has to decide",
    }
}

/// The basis of a value.
const fn describe_basis(basis: ValueBasis) -> &'static str {
    match basis {
        ValueBasis::OnlySource => "one source has this value, and no other trusted source has a value",
        ValueBasis::Agreement => "all trusted sources with a value agree",
        ValueBasis::Resolution => "the sources disagreed, and the conflicts were settled as shown below",
        ValueBasis::HumanLock => "a reviewer decided this value",
        ValueBasis::HumanConfirmation => "the claimant has confirmed this value",
    }
}

/// Why no source has a value, by the outcomes of their calls: they have no record of the subject, or a record without the value.
fn describe_no_value(candidates: &[CandidateOutcome]) -> &'static str {
    let is_of = |outcome| move |candidate: &CandidateOutcome| candidate.outcome == outcome;
    if !candidates.is_empty() && candidates.iter().all(is_of(CallOutcome::NoRecord)) {
        "no source has a record of the subject"
    } else if candidates.iter().any(is_of(CallOutcome::Answered)) {
        "a source has a record of the subject, but no trusted source has a value"
    } else {
        AxisReason::NoValue.describe()
    }
}

/// Reasons, each with its wire name.
pub(crate) fn describe_reasons(reasons: &BTreeSet<AxisReason>) -> Vec<String> {
    reasons.iter().map(|why| format!("{} ({})", why.describe(), why.into_str())).collect()
}

/// The outcome of a source's call, and its latency.
fn describe_outcome(candidate: &CandidateOutcome) -> String {
    let took = format!("{} ms", candidate.latency_ms);
    let mut text = match candidate.outcome {
        CallOutcome::Answered => format!("answered in {took}"),
        CallOutcome::NoRecord => "has no record".into(),
        CallOutcome::Several => "has several records of the subject".into(),
        CallOutcome::TimedOut => format!("no answer in time, after {took}"),
        CallOutcome::Failed => format!("failed after {took}"),
        CallOutcome::CircuitOpen => "not called while its circuit is open".into(),
        CallOutcome::Refused => "answered, but the answer is not trusted".into(),
        CallOutcome::NotAwaited => format!("not awaited after {took}"),
        CallOutcome::NotAsked => "not asked".into(),
    };
    for (is_so, word) in [
        (candidate.late, ", late"),
        (candidate.stale, "; its cached answer is used"),
        (candidate.contested, "; in conflict"),
    ] {
        text.push_str(if is_so { word } else { "" });
    }
    text
}

/// The reply of a source, with the cause if there is one.
pub(crate) fn describe_reply(reply: &OracleReply) -> String {
    let word = reply.outcome().into_str();
    match reply {
        // the envelope shows the values, or withholds them
        OracleReply::Answered { .. } | OracleReply::NoRecord | OracleReply::NotAwaited => word.into(),
        OracleReply::Several { records } => format!("{word}: {records} records"),
        OracleReply::TimedOut { cut } => format!("{word}: {}", describe_cut(*cut)),
        OracleReply::Failed { failure, cause } => format!("{word}: {}, {cause}", failure.into_str()),
        OracleReply::CircuitOpen { retry_after_ms: Some(after_ms) } => {
            format!("{word}: for {}", format_span(after_ms.div_ceil(1000)))
        }
        OracleReply::CircuitOpen { retry_after_ms: None } => {
            format!("{word}: until an administrator closes it")
        }
        OracleReply::Refused { refusal, cause } => format!("{word}: {}, {cause}", refusal.into_str()),
        OracleReply::NotAsked { cause } => format!("{word}: {cause}"),
    }
}

/// The reason why a call ended without an answer.
const fn describe_cut(cut: CallTimeLimit) -> &'static str {
    match cut {
        CallTimeLimit::HardTimeout => "its hard timeout expired",
        CallTimeLimit::Budget => "the time for the decision expired",
    }
}

/// One conflict between two values, and its outcome.
fn describe_step(step: &ConflictStep) -> String {
    let difference = step.delta.as_ref().map(|delta| format!(", {delta} apart")).unwrap_or_default();
    let strategy = step.strategy.into_str();
    let outcome = match (step.outcome, &step.value) {
        (ConflictStepOutcome::Kept, _) => format!("{strategy} kept the first"),
        (ConflictStepOutcome::Replaced, _) => format!("{strategy} took the second"),
        (ConflictStepOutcome::Averaged, Some(value)) => format!("{strategy} combined both to {value}"),
        (ConflictStepOutcome::Averaged, None) => format!("{strategy} combined both"),
        (ConflictStepOutcome::Escalated, _) => "left to a reviewer".into(),
        (ConflictStepOutcome::Disputed, _) => "left undecided".into(),
    };
    // these two reasons only repeat the outcome
    let why = step.reason.filter(|why| !matches!(why, AxisReason::RequireHuman | AxisReason::Disputed));
    let why = why.map(|why| format!(", because {}", why.describe())).unwrap_or_default();
    let (axis, number) = (&step.axis, step.number);
    let text = format!(
        "{axis} {number}: {} against {}{difference}: {outcome}{why}",
        describe_party(&step.standing),
        describe_party(&step.against)
    );
    visible_line(&text).into_owned()
}

/// One side of a conflict.
fn describe_party(party: &ConflictSide) -> String {
    let oracles: Vec<_> = party.oracles.iter().map(|oracle_id| oracle_id.as_str()).collect();
    format!("{} ({}) {}", oracles.join(" and "), party.tier.into_str(), party.value)
}

/// The values of a source's answer, by axis.
pub(crate) fn format_values(values: &BTreeMap<String, StatedValue>) -> String {
    let texts = values.iter().map(|(path, StatedValue { value, definition })| {
        let definition = definition.as_ref().map(|definition| format!(" ({definition})"));
        format!("{path} {value}{}", definition.unwrap_or_default())
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Claims as texts by the path of their axis. A claim is its path, its value, its claimant, and whether the claimant
/// has confirmed it.
pub(crate) fn format_claims<'c, V: Display>(
    claims: impl Iterator<Item = (&'c String, V, &'c str, bool)>,
) -> BTreeMap<String, String> {
    let text = |(path, value, claimed_by, confirmed): (&String, V, &str, bool)| {
        let confirmed = if confirmed { ", confirmed" } else { "" };
        (path.clone(), format!("{value} by {claimed_by}{confirmed}"))
    };
    claims.map(text).collect()
}

/// The identity of a subject.
pub(crate) fn format_identity(identity: &BTreeMap<String, AxisValue>) -> String {
    if identity.is_empty() {
        return "none".to_owned();
    }
    identity.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
}

/// The time that a question is about.
pub(crate) fn format_times(point_in_time: Option<Timestamp>, known_at: Option<Timestamp>) -> String {
    let at = point_in_time.map_or_else(|| "now".into(), |at| at.to_string());
    known_at.map_or_else(|| at.clone(), |known_at| format!("{at}, as known at {known_at}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn shown(changes: Json) -> String {
        let mut document = json!({
            "execution_id": "v-1", "kind": "human_review", "status": "unverified", "workflow": "census",
            "workflow_sha256": "0".repeat(64), "ontology": {"ontology_id": "population", "version": "1"},
            "where": {"area": "ABW"}, "decided_at": "2026-11-20T10:00:00Z", "reasons": ["deviation"],
            "axes": {"population": {"kind": "human_review", "standing": "escalated", "reasons": ["deviation"]}},
            "candidates": [], "steps": [], "warnings": [],
            "inputs_sha256": "0".repeat(64), "sha256": "0".repeat(64),
        });
        document.as_object_mut().expect("an object").extend(changes.as_object().expect("changes").clone());
        let mut out = Vec::new();
        let document = serde_json::from_value(document).expect("a valid envelope");
        let claims = [("population".to_owned(), "5 by ann".to_owned())].into();
        show_envelope(&mut out, &document, &claims, OutputStyle::new(100, false))
            .expect("a write to memory succeeds");
        String::from_utf8(out).expect("the output is UTF-8")
    }

    #[test]
    fn deviating_value_is_shown_on_its_axis_with_the_claim_and_the_earlier_value() {
        let candidate = json!({"oracle_id": "office", "outcome": "answered", "stale": false, "contested": false,
            "late": false, "latency_ms": 5, "values": {"population": {"value": "9000"}},
            "deviations": {"population": "it was 54208 in v1 and is 9000; the difference exceeds 100"}});
        let text = shown(json!({"candidates": [candidate]}));
        let expected = "population: no value (human_review)\n  a value deviates too far from its source's baseline (deviation)\n  \
                      claimed: 5 by ann\n  office: it was 54208 in v1 and is 9000; the difference exceeds 100\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn missing_record_and_missing_value_have_different_texts() {
        let candidate = |outcome: &str| {
            json!({"oracle_id": "office", "outcome": outcome, "stale": false, "contested": false, "late": false,
                   "latency_ms": 0})
        };
        let axis = json!({"kind": "blocked", "standing": "unsettled", "reasons": ["no_value"]});
        let cases = [
            (vec![candidate("no_record"), candidate("no_record")], "no source has a record of the subject"),
            (
                vec![candidate("no_record"), candidate("answered")],
                "a source has a record of the subject, but no trusted source has a value",
            ),
            (
                vec![candidate("not_awaited")],
                "no trusted source has a usable value, and all expected sources answered",
            ),
        ];
        for (candidates, why) in cases {
            let changes = json!({"kind": "blocked", "reasons": ["no_value"], "candidates": candidates,
                                 "axes": {"population": axis}});
            let text = shown(changes);
            let on_axis = format!("population: no value (blocked)\n  {why} (no_value)\n");
            assert!(text.starts_with(&format!("blocked: {why}\n")) && text.contains(&on_axis), "{text}");
        }
    }

    #[test]
    fn next_step_is_the_retry_advice() {
        let advice = "no answer came from office: ask again in 5 seconds";
        let retry = json!({"after_ms": 5000, "oracles": ["office"], "advice": advice});
        let text = shown(json!({"kind": "blocked", "reasons": ["oracle_unreachable"], "retry": retry}));
        assert!(text.ends_with(&format!("next: {advice}\n")), "{text}");
    }

    fn describe_changed_step(changes: Json) -> String {
        let mut document = json!({
            "axis": "population", "number": 1, "delta": "400", "relation": "different_tier",
            "standing": {"oracles": ["office-a"], "value": "54208", "tier": "primary"},
            "against": {"oracles": ["office-b", "office-c"], "value": "54608", "tier": "secondary"},
            "strategy": "higher_tier_wins", "outcome": "kept", "value": "54208",
        });
        document.as_object_mut().expect("an object").extend(changes.as_object().expect("changes").clone());
        describe_step(&serde_json::from_value(document).expect("a valid step"))
    }

    #[test]
    fn conflict_is_shown_with_both_sides_their_difference_and_outcome() {
        let both = "population 1: office-a (primary) 54208 against office-b and office-c (secondary) 54608, 400 apart: ";
        for (changes, outcome) in [
            (json!({}), "higher_tier_wins kept the first"),
            (json!({"strategy": "most_recent", "outcome": "replaced"}), "most_recent took the second"),
            (
                json!({"strategy": "weighted_average", "outcome": "averaged", "value": "54341.33"}),
                "weighted_average combined both to 54341.33",
            ),
            (json!({"outcome": "escalated", "value": null, "reason": "require_human"}), "left to a reviewer"),
            (
                json!({"outcome": "escalated", "value": null, "reason": "delta_threshold"}),
                "left to a reviewer, because the values differ by more than may be settled without a reviewer",
            ),
            (json!({"outcome": "disputed", "value": null, "reason": "disputed"}), "left undecided"),
        ] {
            assert_eq!(describe_changed_step(changes), format!("{both}{outcome}"));
        }
    }

    #[test]
    fn source_outcome_is_shown_with_latency_and_caveats() {
        let candidate = |outcome: &str, late: bool, stale: bool| {
            let candidate = json!({"oracle_id": "office-a", "outcome": outcome, "stale": stale, "contested": false,
                "late": late, "latency_ms": 2500});
            describe_outcome(&serde_json::from_value(candidate).expect("a valid outcome"))
        };
        assert_eq!(candidate("answered", false, false), "answered in 2500 ms");
        assert_eq!(candidate("answered", true, false), "answered in 2500 ms, late");
        let cached = "no answer in time, after 2500 ms, late; its cached answer is used";
        assert_eq!(candidate("timed_out", true, true), cached);
        assert_eq!(candidate("refused", false, false), "answered, but the answer is not trusted");
    }
}
