use super::support::*;
use crate::Workflow;
use crate::workflow::{
    CASCADE_LIMIT_DEFAULT, ConflictGranularity, ConflictStrategy, HARD_TIMEOUT_DEFAULT_MS,
    PartialConflictBehavior, SOFT_TIMEOUT_DEFAULT_MS, WorkflowError,
};
use domain_ground::source::OracleTier::{Primary, Secondary, Unverified};
use domain_ground::source::SourceRegistration;
use serde_json::{Value as Json, json};

fn sources() -> Vec<SourceRegistration> {
    let with = |axes: &[&'static str]| [&["patient", "day"][..], axes].concat();
    vec![
        source("lab-a", Primary, &with(&["dose", "inr", "status", "visits", "weight"])),
        source("lab-b", Secondary, &with(&["dose", "inr", "status", "visits"])),
        source("court", Primary, &with(&["status"])),
        source("scraper", Unverified, &with(&["dose", "status", "values.*.amount"])),
    ]
}

fn validated(workflow: &Workflow) -> Result<(), String> {
    let sources = sources();
    let sources: Vec<_> = sources.iter().collect();
    workflow.validate(ontology(), &sources).map_err(|error| error.to_string())
}

#[test]
fn workflow_defaults_are_those_of_the_rfc() {
    let workflow = workflow(&["dose"], &["lab-a"], json!({}));
    let config = &workflow.conflict_resolution;
    assert_eq!(config.default_strategy, ConflictStrategy::HigherTierWins);
    assert_eq!(config.same_tier_strategy, ConflictStrategy::RequireHuman);
    assert_eq!(config.scope.cascade_limit, CASCADE_LIMIT_DEFAULT);
    assert_eq!(config.scope.granularity, ConflictGranularity::Axis);
    assert_eq!(config.scope.partial_conflict_behavior, PartialConflictBehavior::Isolate);
    assert_eq!(workflow.oracle_latency.soft_timeout_ms, SOFT_TIMEOUT_DEFAULT_MS);
    assert_eq!(workflow.oracle_latency.hard_timeout_ms, HARD_TIMEOUT_DEFAULT_MS);
    assert_eq!((SOFT_TIMEOUT_DEFAULT_MS, HARD_TIMEOUT_DEFAULT_MS), (2000, 5000));
    assert_eq!(CASCADE_LIMIT_DEFAULT, 3);
}

#[test]
fn workflow_reads_back_with_its_exact_threshold() {
    for threshold in [json!(0.1), json!("0.1"), json!("0.10")] {
        let settings = json!({"conflict_resolution": {"escalation_delta_threshold": threshold}});
        let workflow = workflow(&["dose"], &["lab-a"], settings);
        let text = serde_json::to_string(&workflow).expect("the value serializes");
        assert!(text.contains(r#""escalation_delta_threshold":"0.1""#), "{text}");
        assert_eq!(serde_json::from_str::<Workflow>(&text).expect("valid JSON"), workflow);
    }
}

#[test]
fn valid_workflow_is_accepted() {
    let settings = [
        json!({}),
        json!({"conflict_resolution": {"default_strategy": "use_conservative", "same_tier_strategy": "weighted_average",
                                       "escalation_delta_threshold": 0.1}}),
        json!({"conflict_resolution": {"default_strategy": "most_recent", "recency_window_seconds": 60}}),
        json!({"oracle_latency": {"on_timeout": "SERVE_STALE", "stale_tolerance_seconds": 600}}),
        // a budget equal to the soft timeout is long enough
        json!({"authority_latency": {"authority_latency_budget_ms": 2000, "enforcement_mode": "INLINE",
                                     "on_timeout_behavior": "ESCALATE"}}),
        json!({"authority_latency": {"authority_latency_budget_ms": 150,
                                     "enforcement_mode": "NON_AUTHORITATIVE_ONLY",
                                     "on_timeout_behavior": "DEGRADE_TO_NARRATIVE"}}),
        json!({"authority_latency": {"authority_latency_budget_ms": 800, "enforcement_mode": "ASYNC",
                                     "on_timeout_behavior": "ESCALATE"}}),
    ];
    for settings in settings {
        assert_eq!(
            validated(&workflow(&["dose"], &["lab-a", "lab-b"], settings.clone())),
            Ok(()),
            "{settings}"
        );
    }
    // a strategy for numbers is allowed on an axis to which it cannot be applied: one trusted oracle provides it, or a
    // reviewer always decides
    let numbers = json!({"conflict_resolution": {"default_strategy": "weighted_average"}});
    assert_eq!(validated(&workflow(&["dose", "status"], &["lab-a", "scraper"], numbers)), Ok(()));
    let numbers = json!({"conflict_resolution": {"default_strategy": "weighted_average",
                                                 "always_human_axes": ["status"]}});
    assert_eq!(validated(&workflow(&["dose", "status"], &["lab-a", "lab-b"], numbers)), Ok(()));
}

/// Axes, oracles, settings, and the expected part of the error.
type InvalidWorkflowCase = (Vec<&'static str>, Vec<&'static str>, Json, &'static str);

const BOTH: [&str; 2] = ["lab-a", "lab-b"];

fn workflow_case(axes: &[&'static str], settings: Json, message: &'static str) -> InvalidWorkflowCase {
    (axes.to_vec(), BOTH.to_vec(), settings, message)
}

fn subject_cases() -> Vec<InvalidWorkflowCase> {
    let on_dose = |settings, message| workflow_case(&["dose"], settings, message);
    vec![
        on_dose(json!({"domain": " "}), "`domain`: it is blank or too long; allowed: 1 to 256 bytes"),
        on_dose(
            json!({"ontology": {"ontology_id": "clinic", "version": "2"}}),
            "`ontology` is clinic@2, but must be clinic@1",
        ),
        (vec![], BOTH.to_vec(), json!({}), "`axes`: there are 0; allowed: 1 to 64"),
        (vec!["dose", "dose"], BOTH.to_vec(), json!({}), "`axes`: `dose` occurs twice"),
        (
            vec!["does"],
            BOTH.to_vec(),
            json!({}),
            "`axes`: `does` is not an axis of the ontology; allowed: dose, visits, inr,",
        ),
        (vec!["patient"], BOTH.to_vec(), json!({}), "`axes`: `patient` is an identity axis; allowed: dose"),
        (vec!["dose"], vec![], json!({}), "`oracles`: there are 0; allowed: 1 to 16"),
        (vec!["dose"], vec!["lab-a", "lab-a"], json!({}), "`oracles`: `lab-a` occurs twice"),
        (
            vec!["dose"],
            vec!["lab-z"],
            json!({}),
            "no source `lab-z` is registered; registered: lab-a, lab-b, court, scraper",
        ),
        (
            vec!["dose"],
            vec!["lab-a", "court"],
            json!({}),
            "`court` provides none of the axes dose; it provides patient, day, status",
        ),
        (vec!["dose"], vec!["human-lock"], json!({}), "`human-lock` is reserved for decisions of people"),
        (
            vec!["values.*.amount"],
            vec!["scraper"],
            json!({}),
            "no oracle of the workflow above `unverified` provides `values.*.amount`; set `oracle_tier` of scraper to \
             `primary`, `secondary` or `cross_domain`",
        ),
    ]
}

fn time_cases() -> Vec<InvalidWorkflowCase> {
    let oracle = |policy: Json, message| workflow_case(&["dose"], json!({"oracle_latency": policy}), message);
    let authority = |budget: u64, mode: &str, message| {
        let policy = json!({"authority_latency_budget_ms": budget, "enforcement_mode": mode,
                            "on_timeout_behavior": "ESCALATE"});
        workflow_case(&["dose"], json!({"authority_latency": policy}), message)
    };
    vec![
        oracle(
            json!({"on_timeout": "FAIL_CLOSED_BLOCK", "soft_timeout_ms": 5000}),
            "`oracle_latency.soft_timeout_ms`: it is 5000; allowed: less than `hard_timeout_ms`, which is 5000",
        ),
        oracle(
            json!({"on_timeout": "FAIL_CLOSED_BLOCK", "soft_timeout_ms": 0}),
            "soft_timeout_ms`: it is 0; allowed: 1 to 600000 ms",
        ),
        oracle(
            json!({"on_timeout": "FAIL_CLOSED_BLOCK", "hard_timeout_ms": 600_001}),
            "hard_timeout_ms`: it is 600001; allowed: 1 to 600000 ms",
        ),
        oracle(json!({"on_timeout": "SERVE_STALE"}), "stale_tolerance_seconds`: `SERVE_STALE` requires it"),
        oracle(
            json!({"on_timeout": "FAIL_CLOSED_BLOCK", "stale_tolerance_seconds": 60}),
            "stale_tolerance_seconds`: it is only allowed with `on_timeout` `SERVE_STALE`",
        ),
        oracle(
            json!({"on_timeout": "SERVE_STALE", "stale_tolerance_seconds": 0}),
            "stale_tolerance_seconds`: it is 0; allowed: 1 to",
        ),
        (
            vec!["inr"],
            BOTH.to_vec(),
            json!({"oracle_latency": {"on_timeout": "SERVE_STALE", "stale_tolerance_seconds": 3601}}),
            "it is 3601; the ontology allows `inr` to be at most 3600 s old",
        ),
        authority(
            1999,
            "INLINE",
            "it is 1999; with `INLINE` allowed: at least `soft_timeout_ms`, which is 2000",
        ),
        authority(0, "ASYNC", "authority_latency_budget_ms`: it is 0; allowed: 1 to 3600000 ms"),
    ]
}

fn strategy_cases() -> Vec<InvalidWorkflowCase> {
    let over = |axes: &[&'static str], config: Json, message| {
        workflow_case(axes, json!({"conflict_resolution": config}), message)
    };
    let conflict = |config: Json, message| over(&["dose"], config, message);
    vec![
        conflict(
            json!({"same_tier_strategy": "higher_tier_wins"}),
            "`higher_tier_wins` cannot settle a conflict within a tier; allowed: most_recent, require_human,",
        ),
        conflict(json!({"scope": {"cascade_limit": 0}}), "cascade_limit`: it is 0; allowed: 1 to 15"),
        conflict(json!({"scope": {"cascade_limit": 16}}), "cascade_limit`: it is 16; allowed: 1 to 15"),
        conflict(
            json!({"always_human_axes": ["inr"]}),
            "always_human_axes`: `inr` is not among the `axes` of the workflow; allowed: dose",
        ),
        conflict(json!({"always_human_axes": ["dose", "dose"]}), "always_human_axes`: `dose` occurs twice"),
        conflict(
            json!({"recency_window_seconds": 60}),
            "recency_window_seconds`: it is only allowed with the strategy `most_recent`",
        ),
        conflict(
            json!({"default_strategy": "most_recent", "recency_window_seconds": 0}),
            "recency_window_seconds`: it is 0; allowed: 1 to",
        ),
        conflict(json!({"escalation_delta_threshold": -1}), "it is -1; allowed: 0 or more"),
        conflict(
            json!({"escalation_delta_threshold": 0.01}),
            "0.01 cannot work on `dose`: values that are equal within its precision may differ by 0.1; allowed: 0.1",
        ),
        over(
            &["dose", "status"],
            json!({"default_strategy": "weighted_average"}),
            "`conflict_resolution.default_strategy`: `weighted_average` cannot work on `status`: it is of type enum",
        ),
        over(
            &["status"],
            json!({"same_tier_strategy": "use_conservative"}),
            "`conflict_resolution.same_tier_strategy`: `use_conservative` cannot work on `status`: it is of type enum",
        ),
        over(
            &["visits"],
            json!({"default_strategy": "use_conservative"}),
            "`use_conservative` cannot work on `visits`: the ontology does not define its `conservative` side",
        ),
    ]
}

#[test]
fn invalid_workflow_is_rejected_with_field_and_allowed_values() {
    let refusals = [subject_cases(), time_cases(), strategy_cases()].concat();
    for (axes, oracles, settings, message) in refusals {
        let refused =
            validated(&workflow(&axes, &oracles, settings.clone())).expect_err(&settings.to_string());
        assert!(refused.contains(message), "{settings}: {refused}");
    }
}

#[test]
fn source_of_another_ontology_is_rejected() {
    let mut other = source("lab-a", Primary, &["dose"]);
    other.ontology.version = "2".into();
    let error =
        workflow(&["dose"], &["lab-a"], json!({})).validate(ontology(), &[&other]).expect_err("other");
    let named = ["`lab-a`", "clinic@2", "clinic@1"];
    assert!(
        matches!(&error, WorkflowError::Field { field: "oracles", fault } if named.iter().all(|name| fault.contains(name))),
        "{error}"
    );
}

#[test]
fn workflow_with_an_unknown_field_is_rejected() {
    let plain =
        serde_json::to_value(workflow(&["dose"], &["lab-a"], json!({}))).expect("the value serializes");
    for pointer in
        ["", "/conflict_resolution", "/conflict_resolution/scope", "/oracle_latency", "/authority_latency"]
    {
        let mut document = plain.clone();
        document.pointer_mut(pointer).expect("the member exists")["strategie"] = json!(1);
        let error = serde_json::from_value::<Workflow>(document).expect_err(pointer);
        assert!(error.to_string().contains("strategie"), "{error}");
    }
}

#[test]
fn deviation_limits_require_a_numeric_axis_and_a_limit() {
    let refused = |limits: Json| {
        validated(&workflow(&["dose", "status"], &["lab-a"], json!({"deviation_limits": limits})))
    };
    assert_eq!(refused(json!({"dose": {"max_change": 0, "max_change_ratio": 0.5}})), Ok(()));
    let cases = [
        (
            json!({"status": {"max_change": 1}}),
            "`deviation_limits`: `status` is not a numeric axis of the workflow; allowed: dose",
        ),
        (
            json!({"visits": {"max_change": 1}}),
            "`deviation_limits`: `visits` is not a numeric axis of the workflow; allowed: dose",
        ),
        (
            json!({"dose": {}}),
            "`deviation_limits`: `dose` has no limit; allowed: `max_change`, `max_change_ratio`",
        ),
        (json!({"dose": {"max_change": -1}}), "`deviation_limits`: `dose`: it is -1; allowed: 0 or more"),
    ];
    for (limits, message) in cases {
        assert_eq!(refused(limits), Err(message.to_owned()));
    }
}
