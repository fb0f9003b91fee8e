//! Each axis of an envelope is decided by itself: kind, value, record and thresholds.

use super::support::*;
use crate::{CallTimeLimit, DecisionInputs, OracleReply, ReviewCase, Workflow, decide};
use domain_ground::freshness::StaleBehavior;
use domain_ground::source::OracleTier::{CrossDomain, Primary, Secondary, Unverified};
use serde_json::{Value as Json, json};

fn decide_as_json(inputs: &DecisionInputs) -> Json {
    serde_json::to_value(decide(inputs)).expect("the value serializes")
}

/// Two sources that agree on `inr` and contradict each other on `dose`.
fn contradiction(settings: Json, more: Json) -> DecisionInputs {
    let workflow = workflow(&["dose", "inr"], &["lab-a", "lab-b"], settings);
    let mut inputs = inputs(workflow, &["dose", "inr"], more);
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10"), ("inr", "2.5")]);
    answers(&mut inputs, "lab-b", Primary, &[("dose", "12"), ("inr", "2.5")]);
    inputs
}

fn on_dose(config: Json, stated: &[(domain_ground::source::OracleTier, &str)]) -> DecisionInputs {
    const LABS: [&str; 3] = ["lab-a", "lab-b", "lab-c"];
    let labs = &LABS[..stated.len()];
    let workflow = workflow(&["dose"], labs, json!({"conflict_resolution": config}));
    let mut inputs = inputs(workflow, &["dose"], json!({}));
    for (lab, (tier, dose)) in labs.iter().zip(stated) {
        answers(&mut inputs, lab, *tier, &[("dose", dose)]);
    }
    inputs
}

fn is_valid(workflow: &Workflow) -> Result<(), String> {
    let axes = ["patient", "day", "dose", "inr", "status", "visits"];
    let sources = [source("lab-a", Primary, &axes), source("lab-b", Secondary, &axes)];
    let sources: Vec<_> = sources.iter().collect();
    workflow.validate(ontology(), &sources).map_err(|error| error.to_string())
}

#[test]
fn settled_axis_has_its_value_with_another_axis_escalated() {
    let envelope = decide_as_json(&contradiction(json!({}), json!({})));
    assert_eq!((&envelope["kind"], &envelope["status"]), (&json!("human_review"), &json!("unverified")));
    let (dose, inr) = (&envelope["axes"]["dose"], &envelope["axes"]["inr"]);
    assert_eq!((&inr["kind"], &inr["value"]), (&json!("authoritative"), &json!("2.5")), "{envelope:#}");
    assert_eq!(inr["evidence"].as_array().map(Vec::len), Some(2));
    assert_eq!((&dose["kind"], &dose["value"]), (&json!("human_review"), &Json::Null));
    assert_eq!(dose["reasons"], json!(["require_human"]));
}

#[test]
fn settled_axis_has_its_value_with_another_axis_disputed() {
    let config = json!({"conflict_resolution": {"same_tier_strategy": "dispute_summary"}});
    let envelope = decide_as_json(&contradiction(config, json!({})));
    assert_eq!(envelope["kind"], "dispute_summary");
    assert_eq!(envelope["axes"]["inr"]["value"], "2.5", "{envelope:#}");
    assert_eq!(envelope["axes"]["dose"]["kind"], "dispute_summary");
}

#[test]
fn missing_source_blocks_only_the_axes_requested_from_it() {
    let workflow = workflow(&["dose", "inr"], &["lab-a", "lab-b"], json!({}));
    let mut inputs = inputs(workflow, &["dose", "inr"], json!({}));
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10"), ("inr", "2.5")]);
    let silent = call(Primary, &["inr"], OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout });
    inputs.calls.insert("lab-b".parse().expect("a valid id"), silent);
    let envelope = decide_as_json(&inputs);
    assert_eq!((&envelope["kind"], &envelope["axes"]["dose"]["value"]), (&json!("blocked"), &json!("10")));
    let inr = &envelope["axes"]["inr"];
    assert_eq!((&inr["kind"], &inr["value"]), (&json!("blocked"), &Json::Null));
    assert_eq!(inr["reasons"], json!(["oracle_unreachable"]));
    assert_eq!(envelope["retry"]["oracles"], json!(["lab-b"]));
    // the candidates do not show the withheld value either
    assert_eq!(envelope["candidates"][0]["values"], json!({"dose": {"value": "10"}}));
}

#[test]
fn ambiguous_source_does_not_affect_other_axes() {
    let workflow = workflow(&["dose", "inr"], &["lab-a", "lab-b"], json!({}));
    let mut inputs = inputs(workflow, &["dose", "inr"], json!({}));
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10"), ("inr", "2.5")]);
    let several = call(Primary, &["inr"], OracleReply::Several { records: 2 });
    inputs.calls.insert("lab-b".parse().expect("a valid id"), several);
    let envelope = decide_as_json(&inputs);
    assert_eq!(envelope["kind"], "requires_specification");
    assert_eq!(envelope["axes"]["dose"]["value"], "10");
    assert_eq!(envelope["axes"]["inr"]["kind"], "requires_specification");
    assert_eq!(envelope["axes"]["inr"]["reasons"], json!(["several_subjects"]));
}

#[test]
fn every_axis_of_an_unverified_workflow_is_narrative() {
    let settings = json!({"authority_latency": {"authority_latency_budget_ms": 150,
        "enforcement_mode": "NON_AUTHORITATIVE_ONLY", "on_timeout_behavior": "DEGRADE_TO_NARRATIVE"}});
    let envelope = decide_as_json(&contradiction(settings, json!({})));
    for axis in ["dose", "inr"] {
        let axis = &envelope["axes"][axis];
        assert_eq!((&axis["kind"], &axis["value"]), (&json!("narrative_only"), &Json::Null));
    }
}

#[test]
fn narrative_axis_with_a_graver_axis_has_a_disclaimer() {
    let settings = json!({"oracle_latency": {"on_timeout": "FAIL_OPEN_NARRATIVE"}});
    let workflow = workflow(&["dose", "inr"], &["lab-a", "lab-b"], settings);
    let mut inputs = inputs(workflow, &["dose", "inr"], json!({}));
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10")]);
    answer_of(&mut inputs, "lab-a").deviations.insert("dose".into(), "10 after 1".into());
    let silent = call(Primary, &["inr"], OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout });
    inputs.calls.insert("lab-b".parse().expect("a valid id"), silent);
    let envelope = decide_as_json(&inputs);
    assert_eq!(envelope["kind"], "human_review");
    assert_eq!(envelope["axes"]["inr"]["kind"], "narrative_only");
    assert!(envelope["disclaimer"].is_string(), "{envelope:#}");
}

#[test]
fn full_queue_blocks_only_the_axes_for_a_reviewer() {
    let mut inputs = contradiction(json!({}), json!({}));
    inputs.queue_is_full = true;
    let envelope = decide_as_json(&inputs);
    assert_eq!((&envelope["kind"], &envelope["axes"]["inr"]["value"]), (&json!("blocked"), &json!("2.5")));
    let dose = &envelope["axes"]["dose"];
    assert_eq!(
        (&dose["kind"], &dose["reasons"]),
        (&json!("blocked"), &json!(["require_human", "queue_full"]))
    );
}

#[test]
fn evidence_on_a_state_sensitive_axis_always_has_a_ttl() {
    let mut inputs = contradiction(json!({}), json!({}));
    let ttl = |inputs: &DecisionInputs| {
        decide_as_json(inputs)["axes"]["inr"]["evidence"][0]["record"]["ttl_seconds"].clone()
    };
    assert_eq!(ttl(&inputs), 3600, "as long as the axis allows");
    answer_of(&mut inputs, "lab-a").record.ttl_seconds = Some(60);
    assert_eq!(ttl(&inputs), 60);
    axis_of(&mut inputs, "inr").max_ttl_seconds = None;
    answer_of(&mut inputs, "lab-a").record.ttl_seconds = None;
    assert!(ttl(&inputs).is_u64());
}

#[test]
fn most_recent_compares_the_publishers_date() {
    let mut inputs =
        on_dose(json!({"same_tier_strategy": "most_recent"}), &[(Primary, "10"), (Primary, "12")]);
    // published later, and ingested earlier
    (answer_of(&mut inputs, "lab-a").observed_at, answer_of(&mut inputs, "lab-a").record.verified_at) =
        (ago(100), ago(90));
    (answer_of(&mut inputs, "lab-b").observed_at, answer_of(&mut inputs, "lab-b").record.verified_at) =
        (ago(200), ago(10));
    assert_eq!(decide_as_json(&inputs)["axes"]["dose"]["value"], "10");
}

#[test]
fn degraded_tier_is_shown_in_candidate_outcome() {
    let mut inputs = on_dose(json!({}), &[(Primary, "10"), (CrossDomain, "12")]);
    let freshness = &mut answer_of(&mut inputs, "lab-a").freshness[0];
    (freshness.stale, freshness.stale_behavior) = (true, StaleBehavior::DegradeTier);
    let envelope = decide_as_json(&inputs);
    let candidate = &envelope["candidates"][0];
    assert_eq!((&candidate["registered_tier"], &candidate["tier"]), (&json!("primary"), &json!("secondary")));
    assert_eq!(candidate["record"]["oracle_tier"], "secondary");
}

#[test]
fn review_shows_the_tier_at_which_an_answer_counted() {
    let mut inputs = on_dose(json!({}), &[(Primary, "10"), (Secondary, "12")]);
    let freshness = &mut answer_of(&mut inputs, "lab-a").freshness[0];
    (freshness.stale, freshness.stale_behavior) = (true, StaleBehavior::DegradeTier);
    let review = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    let review = serde_json::to_value(review).expect("the value serializes");
    assert_eq!(review["candidates"]["lab-a"]["record"]["oracle_tier"], "secondary", "{review:#}");
}

#[test]
fn review_after_exceeded_budget_has_every_source_and_last_answer() {
    let settings = json!({"authority_latency": {"authority_latency_budget_ms": 2000,
        "enforcement_mode": "INLINE", "on_timeout_behavior": "ESCALATE"}});
    let mut inputs = inputs(workflow(&["dose"], &["lab-a"], settings), &["dose"], json!({}));
    let mut cut = call(Primary, &["dose"], OracleReply::TimedOut { cut: CallTimeLimit::Budget });
    cut.kept = Some(Box::new(candidate("lab-a", &[("dose", "10")])));
    inputs.calls.insert("lab-a".parse().expect("a valid id"), cut);
    let review = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    let review = serde_json::to_value(review).expect("the value serializes");
    assert_eq!(review["sources"], json!({"lab-a": "timed_out"}), "{review:#}");
    assert_eq!(review["candidates"]["lab-a"]["values"]["dose"]["value"], "10", "{review:#}");
}

#[test]
fn answer_of_an_unverified_source_does_not_reopen_a_review() {
    let workflow = workflow(&["dose"], &["lab-a", "lab-b", "scraper"], json!({}));
    let mut inputs = inputs(workflow, &["dose"], json!({}));
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10")]);
    answers(&mut inputs, "lab-b", Primary, &[("dose", "12")]);
    let mut review = |dose: &str| {
        answers(&mut inputs, "scraper", Unverified, &[("dose", dose)]);
        ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides")
    };
    let (one, other) = (review("99"), review("98"));
    assert_eq!(one.candidates.len(), 3, "the reviewer sees it: {one:?}");
    assert_eq!(one.evidence_hash, other.evidence_hash);
}

#[test]
fn ratio_threshold_escalates_and_leaves_text_axes_alone() {
    let config = json!({"escalation_ratio_threshold": "0.15", "escalation_delta_threshold": 3});
    let both = workflow(&["dose", "status"], &["lab-a", "lab-b"], json!({"conflict_resolution": config}));
    assert_eq!(is_valid(&both), Ok(()));
    let mut inputs = inputs(both, &["dose", "status"], json!({}));
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10"), ("status", "open")]);
    answers(&mut inputs, "lab-b", Secondary, &[("dose", "11"), ("status", "closed")]);
    let envelope = decide_as_json(&inputs);
    assert_eq!(envelope["axes"]["dose"]["value"], "10");
    assert_eq!(envelope["axes"]["status"]["value"], "open");
    // 2 of 12 are more than 0.15 of the larger one
    answers(&mut inputs, "lab-b", Secondary, &[("dose", "12"), ("status", "closed")]);
    let envelope = decide_as_json(&inputs);
    assert_eq!(envelope["axes"]["dose"]["reasons"], json!(["ratio_threshold"]));
    assert_eq!(envelope["axes"]["status"]["value"], "open");
    answers(&mut inputs, "lab-b", Secondary, &[("dose", "-10"), ("status", "open")]);
    let reasons = json!(["delta_threshold", "ratio_threshold"]);
    assert_eq!(decide_as_json(&inputs)["axes"]["dose"]["reasons"], reasons);
}

#[test]
fn thresholds_of_an_axis_replace_those_of_the_workflow() {
    let config = json!({"escalation_delta_threshold": 1, "escalation_ratio_threshold": "0.5",
                        "axis_thresholds": {"dose": {"escalation_delta_threshold": 100}}});
    let both = workflow(&["dose", "visits"], &["lab-a", "lab-b"], json!({"conflict_resolution": config}));
    assert_eq!(is_valid(&both), Ok(()));
    let mut inputs = inputs(both, &["dose", "visits"], json!({}));
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10"), ("visits", "10")]);
    answers(&mut inputs, "lab-b", Secondary, &[("dose", "12"), ("visits", "12")]);
    let envelope = decide_as_json(&inputs);
    assert_eq!(envelope["axes"]["dose"]["value"], "10");
    assert_eq!(envelope["axes"]["visits"]["reasons"], json!(["delta_threshold"]));
    answers(&mut inputs, "lab-b", Secondary, &[("dose", "30")]);
    assert_eq!(decide_as_json(&inputs)["axes"]["dose"]["reasons"], json!(["ratio_threshold"]));
}

#[test]
fn thresholds_that_cannot_apply_are_rejected() {
    let refused = |config: Json, message: &str| {
        let settings = json!({"conflict_resolution": config});
        let refused = is_valid(&workflow(&["dose", "status"], &["lab-a", "lab-b"], settings));
        let refused = refused.expect_err(message);
        assert!(refused.contains(message), "{refused}");
    };
    refused(json!({"escalation_ratio_threshold": -1}), "escalation_ratio_threshold");
    refused(json!({"axis_thresholds": {"status": {"escalation_delta_threshold": 1}}}), "status");
    refused(json!({"axis_thresholds": {"visits": {"escalation_delta_threshold": 1}}}), "visits");
    refused(json!({"axis_thresholds": {"dose": {}}}), "dose");
    refused(json!({"axis_thresholds": {"dose": {"escalation_delta_threshold": "0.01"}}}), "precision");
    refused(json!({"suspicious_ratio": "0.9"}), "suspicious_ratio");
}

#[test]
fn numbers_agree_within_the_relative_tolerance_of_their_axis() {
    let mut document = ontology_json();
    document["axes"][2]["relative_tolerance"] = json!("0.01");
    let ontology: domain_ground::ontology::Ontology = serde_json::from_value(document).expect("an ontology");
    ontology.validate().expect("the settings are valid");
    let mut inputs = on_dose(json!({}), &[(Primary, "1000"), (Primary, "1010")]);
    *axis_of(&mut inputs, "dose") = ontology.axis("dose").expect("the axis exists").clone();
    let envelope = decide_as_json(&inputs);
    assert_eq!((&envelope["axes"]["dose"]["basis"], &envelope["steps"]), (&json!("agreement"), &json!([])));
    answers(&mut inputs, "lab-b", Primary, &[("dose", "1011")]);
    assert_eq!(decide_as_json(&inputs)["axes"]["dose"]["kind"], "human_review");
}

#[test]
fn value_must_agree_with_all_members_within_the_tolerance() {
    let config = json!({"same_tier_strategy": "require_human"});
    let mut inputs = on_dose(config, &[(Primary, "1000"), (Primary, "1009"), (Primary, "991")]);
    let mut axis = serde_json::to_value(&*axis_of(&mut inputs, "dose")).expect("the value serializes");
    axis["relative_tolerance"] = json!("0.01");
    *axis_of(&mut inputs, "dose") = serde_json::from_value(axis).expect("an axis");
    // each is close to the first, and the other two are too far apart
    assert_eq!(decide_as_json(&inputs)["axes"]["dose"]["reasons"], json!(["require_human"]));
}

#[test]
fn threshold_counts_even_where_values_agree_within_a_tolerance() {
    let mut inputs =
        on_dose(json!({"escalation_delta_threshold": 5}), &[(Primary, "1000"), (Primary, "1009")]);
    let mut axis = serde_json::to_value(&*axis_of(&mut inputs, "dose")).expect("the value serializes");
    axis["relative_tolerance"] = json!("0.01");
    *axis_of(&mut inputs, "dose") = serde_json::from_value(axis).expect("an axis");
    assert_eq!(decide_as_json(&inputs)["axes"]["dose"]["reasons"], json!(["delta_threshold"]));
}

#[test]
fn settlement_of_inverted_inputs_has_a_warning() {
    let average = json!({"default_strategy": "weighted_average"});
    let warns = |inputs: &DecisionInputs| {
        let envelope = decide_as_json(inputs);
        assert_eq!(envelope["axes"]["dose"]["kind"], "authoritative");
        let warnings = envelope["warnings"].as_array().expect("an array").clone();
        warnings.iter().filter(|warning| warning.as_str().is_some_and(|text| text.contains("factor"))).count()
    };
    // 0.9 and its inverse
    assert_eq!(warns(&on_dose(average.clone(), &[(Primary, "0.9"), (Secondary, "1.11")])), 1);
    assert_eq!(warns(&on_dose(average.clone(), &[(Primary, "10"), (Secondary, "11")])), 0);
    assert_eq!(warns(&on_dose(average.clone(), &[(Primary, "10"), (Secondary, "-10")])), 1);
    assert_eq!(warns(&on_dose(average, &[(Primary, "10"), (Secondary, "0")])), 1);
    assert_eq!(warns(&on_dose(json!({}), &[(Primary, "10"), (Secondary, "1000")])), 0);
    let given = json!({"suspicious_ratio": 5});
    assert_eq!(warns(&on_dose(given.clone(), &[(Primary, "10"), (Secondary, "51")])), 1);
    assert_eq!(warns(&on_dose(given, &[(Primary, "10"), (Secondary, "50")])), 0);
}

#[test]
fn too_few_sources_block_an_axis() {
    let two = |settings: Json| {
        let mut inputs = inputs(workflow(&["dose"], &["lab-a", "lab-b"], settings), &["dose"], json!({}));
        answers(&mut inputs, "lab-a", Primary, &[("dose", "10")]);
        let none = call(Primary, &["dose"], OracleReply::NoRecord);
        inputs.calls.insert("lab-b".parse().expect("a valid id"), none);
        inputs
    };
    let kind = |inputs: &DecisionInputs| decide_as_json(inputs)["axes"]["dose"]["kind"].clone();
    assert_eq!(kind(&two(json!({}))), "authoritative");
    let mut few = two(json!({"min_sources": 2}));
    assert_eq!(decide_as_json(&few)["axes"]["dose"]["reasons"], json!(["too_few_sources"]));
    // a source that did not answer may have been the second one
    let silent = call(Primary, &["dose"], OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout });
    few.calls.insert("lab-b".parse().expect("a valid id"), silent);
    assert_eq!(decide_as_json(&few)["axes"]["dose"]["reasons"], json!(["oracle_unreachable"]));
    answers(&mut few, "lab-b", Unverified, &[("dose", "10")]);
    assert_eq!(kind(&few), "blocked", "an unverified source does not count");
    answers(&mut few, "lab-b", Secondary, &[("dose", "11")]);
    assert_eq!(kind(&few), "authoritative", "both have a value, and the higher tier wins");
}

#[test]
fn min_sources_beyond_the_sources_of_an_axis_is_rejected() {
    let of = |min: u32| is_valid(&workflow(&["dose"], &["lab-a", "lab-b"], json!({"min_sources": min})));
    assert_eq!(of(2), Ok(()));
    for min in [0, 3] {
        assert!(of(min).expect_err("the configuration is invalid").contains("`min_sources`"));
    }
}

#[test]
fn call_that_was_not_awaited_is_no_timeout() {
    let mut document =
        serde_json::to_value(call(Unverified, &["dose"], OracleReply::NoRecord)).expect("valid JSON");
    document["reply"] = json!({"outcome": "not_awaited"});
    let mut inputs = on_dose(json!({}), &[(Primary, "10")]);
    inputs.workflow.oracles.push("scraper".parse().expect("a valid id"));
    inputs
        .calls
        .insert("scraper".parse().expect("a valid id"), serde_json::from_value(document).expect("a call"));
    let envelope = decide_as_json(&inputs);
    assert_eq!(
        (&envelope["kind"], &envelope["candidates"][1]["outcome"]),
        (&json!("authoritative"), &json!("not_awaited"))
    );
    let logged = crate::event::SourceCallEntry::all(&inputs, &decide(&inputs));
    let logged = serde_json::to_value(&logged[1]).expect("the value serializes");
    assert_ne!(logged["status"], "timeout");
    assert_eq!(logged["error_code"], "not_awaited");
}
