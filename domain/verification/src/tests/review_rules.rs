//! Review rules: their validation, the reasons why one does not apply, and the difference in percent.

use super::support::*;
use crate::review_rule::{ReviewRule, ReviewRuleMismatch, check_reasons, differences_percent};
use crate::{AxisReason, CallOutcome, ReviewCase, decide};
use domain_base::decimal::Decimal;
use domain_ground::id::SourceId;
use domain_ground::source::OracleTier::{Primary, Unverified};
use domain_ground::value::AxisValue;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// A rule of the workflow `intake`, with other values in these members.
fn rule(changes: &Json) -> ReviewRule {
    let mut document = json!({
        "review_rule_id": "small-difference", "version": 1, "workflows": ["intake"], "take": "newer_release",
        "difference_below_percent": 0.1, "valid_for_days": 90,
    });
    for (member, value) in changes.as_object().expect("members") {
        document[member] = value.clone();
    }
    serde_json::from_value(document).expect("a rule")
}

fn oracle(oracle_id: &str) -> SourceId {
    oracle_id.parse().expect("a valid id")
}

/// Makes the answer of a source that of a release.
fn release(review: &mut ReviewCase, oracle_id: &str, released_at: Timestamp) {
    let candidate = review.candidates.get_mut(&oracle(oracle_id)).expect("it has answered");
    let sha256 = "0".repeat(64);
    let provenance = json!({
        "record_id": "0123456789abcdef-0", "oracle_id": oracle_id, "source_version": "7", "source_record_id": "p-1",
        "ingested_at": now(), "ingestion_pipeline_id": oracle_id, "ingestion_run_id": sha256, "raw_hash": sha256,
        "transformations_applied": [], "valid_from": now(), "valid_until": null, "superseded_by": null,
        "verification_status": "auto_verified", "raw": {"raw_sha256": sha256, "position": 0, "offset": 0, "len": 1},
    });
    candidate.provenance = Some(serde_json::from_value(provenance).expect("a provenance"));
    candidate.observed_at = released_at;
}

/// A review about a dose, of two ingested sources. The release of `lab-b` is the later one.
fn review(first: &str, second: &str) -> ReviewCase {
    let settings = json!({"conflict_resolution": {"always_human_axes": ["dose"]}});
    let workflow = workflow(&["dose"], &["lab-a", "lab-b", "lab-c"], settings);
    let mut inputs = inputs(workflow, &["dose"], json!({}));
    answers(&mut inputs, "lab-a", Primary, &[("dose", first)]);
    answers(&mut inputs, "lab-b", Primary, &[("dose", second)]);
    answers(&mut inputs, "lab-c", Unverified, &[("dose", "999")]);
    let mut review = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    // equal values are no dispute without this setting
    review.axes.insert("dose".to_owned(), [AxisReason::RequireHuman].into());
    release(&mut review, "lab-a", ago(200));
    release(&mut review, "lab-b", ago(100));
    review
}

fn taken(rule: &ReviewRule, review: &ReviewCase) -> Result<Json, ReviewRuleMismatch> {
    rule.resolve(review, ontology()).map(|resolution| resolution.values["dose"].clone())
}

#[test]
fn rule_takes_the_value_of_the_later_release_or_of_a_source() {
    let mut review = review("10000", "10001");
    let given = rule(&json!({})).resolve(&review, ontology()).expect("the rule applies");
    assert_eq!(given.values, [("dose".to_owned(), json!("10001"))].into());
    assert_eq!((given.valid_for_seconds, given.own_value), (90 * 86_400, false));
    assert_eq!(given.rule.map(|rule| rule.to_string()).as_deref(), Some("small-difference@1"));
    let of_source = rule(&json!({"take": {"source": "lab-a"}}));
    assert_eq!(taken(&of_source, &review), Ok(json!("10000")));
    release(&mut review, "lab-a", ago(50));
    assert_eq!(taken(&rule(&json!({})), &review), Ok(json!("10000")));
    // the daemon accepts it as a resolution of this review
    let verifier = crate::review::Verifier { id: "1000", name: None };
    let given = rule(&json!({})).resolve(&review, ontology()).expect("the rule applies");
    review.resolve(ontology(), &given, verifier, now()).expect("a valid resolution");
}

#[test]
fn rule_gives_the_reason_why_it_does_not_apply() {
    type Change = fn(&mut ReviewCase);
    let cases: [(&str, Change); 13] = [
        ("other_workflow", |review| review.workflow_id = "other".parse().expect("a valid id")),
        ("other_reason", |review| {
            review.axes.insert("dose".to_owned(), [AxisReason::RequireHuman, AxisReason::Deviation].into());
        }),
        ("other_reason", |review| {
            review.axes.insert("dose".to_owned(), [AxisReason::AlwaysHuman].into());
        }),
        ("claimed", |review| {
            let claim = json!({"value": "10000", "claimed_by": "ann", "confirmed": false});
            review.claimed.insert("dose".to_owned(), serde_json::from_value(claim).expect("a claim"));
        }),
        ("not_numeric", |review| {
            review.axes = [("status".to_owned(), [AxisReason::RequireHuman].into())].into();
        }),
        ("other_definitions", |review| {
            let candidate = review.candidates.get_mut(&oracle("lab-a")).expect("it has answered");
            candidate.values.get_mut("dose").expect("a dose").definition = Some("a day".to_owned());
        }),
        ("too_few_values", |review| drop(review.candidates.remove(&oracle("lab-a")))),
        ("not_answered", |review| {
            review.sources.insert(oracle("lab-a"), CallOutcome::TimedOut);
        }),
        ("not_computable", |review| {
            for (oracle_id, value) in [("lab-a", "1e64"), ("lab-b", "1e-64")] {
                let candidate = review.candidates.get_mut(&oracle(oracle_id)).expect("it has answered");
                candidate.values.get_mut("dose").expect("a dose").value = AxisValue::Text(value.to_owned());
            }
        }),
        ("no_release_date", |review| {
            review.candidates.get_mut(&oracle("lab-a")).expect("it has answered").provenance = None;
        }),
        ("same_release_date", |review| release(review, "lab-a", ago(100))),
        ("long_validity", |review| {
            review.axes = [("inr".to_owned(), [AxisReason::RequireHuman].into())].into();
        }),
        // an axis without a fault does not hide the fault of another one
        ("not_numeric", |review| {
            review.axes.insert("status".to_owned(), [AxisReason::RequireHuman].into());
        }),
    ];
    for (number, (expected, change)) in cases.into_iter().enumerate() {
        let mut changed = review("10000", "10001");
        assert!(rule(&json!({})).resolve(&changed, ontology()).is_ok());
        change(&mut changed);
        let mismatch = rule(&json!({})).resolve(&changed, ontology()).expect_err(expected);
        assert_eq!(mismatch.into_str(), expected, "{number}: {mismatch}");
    }
    let mut review = review("10000", "10001");
    review.candidates.insert(oracle("lab-d"), candidate("lab-d", &[("inr", "1")]));
    let mismatch = taken(&rule(&json!({"take": {"source": "lab-d"}})), &review).expect_err("no dose");
    assert_eq!(mismatch.into_str(), "no_value_of_source", "{mismatch}");
    // the value of an unverified source counts for nothing
    let mismatch = taken(&rule(&json!({"take": {"source": "lab-c"}})), &review).expect_err("unverified");
    assert_eq!(mismatch.into_str(), "no_value_of_source", "{mismatch}");
}

#[test]
fn reasons_are_checked_on_each_axis_despite_a_large_difference_on_another() {
    let mut review = review("1", "10001");
    review.axes.insert("status".to_owned(), [AxisReason::RequireHuman].into());
    assert_eq!(check_reasons(&review), Ok(()));
    let claim = json!({"value": "active", "claimed_by": "ann", "confirmed": false});
    review.claimed.insert("status".to_owned(), serde_json::from_value(claim).expect("a claim"));
    let mismatch = check_reasons(&review).expect_err("a claim");
    assert_eq!(mismatch.into_str(), "claimed", "{mismatch}");
    review.axes.insert("status".to_owned(), [AxisReason::AlwaysHuman].into());
    let mismatch = check_reasons(&review).expect_err("another reason");
    assert_eq!(mismatch.into_str(), "other_reason", "{mismatch}");
}

#[test]
fn equal_latest_releases_of_the_same_date_are_no_tie() {
    let mut review = review("10001", "10001");
    release(&mut review, "lab-a", ago(100));
    assert_eq!(taken(&rule(&json!({})), &review), Ok(json!("10001")));
}

#[test]
fn difference_must_be_below_the_limit_exactly() {
    let at = |first: &str, second: &str, limit: &str| {
        let rule = rule(&json!({"difference_below_percent": limit}));
        taken(&rule, &review(first, second))
    };
    for (first, second, limit, expected) in [
        ("0", "0", "0.1", Ok(())),
        ("0", "1", "100", Err("100")),
        ("0", "-1", "100", Err("100")),
        ("-1", "1", "100", Err("200")),
        ("999", "1000", "0.1", Err("0.1")),
        ("999.0001", "1000", "0.1", Ok(())),
        ("-999.0001", "-1000", "0.1", Ok(())),
        ("54208", "54611", "0.1", Err("0.737946")),
        ("999999", "1000000", "0.000101", Ok(())),
        ("999999", "1000000", "0.0001", Err("0.0001")),
        ("1e64", "9.99999e63", "0.1", Ok(())),
    ] {
        match (at(first, second, limit), expected) {
            (Ok(_), Ok(())) => {}
            (Err(ReviewRuleMismatch::TooLarge { percent, .. }), Err(expected)) => {
                assert_eq!(percent.to_string(), expected, "{first} {second}");
            }
            (found, _) => panic!("{first} {second} {limit}: {found:?}"),
        }
    }
}

#[test]
fn invalid_rule_is_rejected_with_its_value() {
    let faults = [
        (json!({"version": 0}), "`version` is 0 "),
        (json!({"description": " "}), "`description` has 1 bytes"),
        (json!({"description": "x".repeat(1025)}), "`description` has 1025 bytes"),
        (json!({"workflows": []}), "`workflows` has 0 items"),
        (json!({"workflows": ["intake", "intake"]}), "`workflows` has intake twice"),
        (json!({"difference_below_percent": 0}), "`difference_below_percent` is 0 "),
        (json!({"difference_below_percent": "-1"}), "`difference_below_percent` is -1 "),
        (json!({"difference_below_percent": "100.1"}), "`difference_below_percent` is 100.1 "),
        (json!({"difference_below_percent": "0.0000001"}), "`difference_below_percent` is 0.0000001 "),
        (json!({"valid_for_days": 0}), "`valid_for_days` is 0 "),
        (json!({"valid_for_days": 36_526}), "`valid_for_days` is 36526 "),
    ];
    assert_eq!(rule(&json!({"description": "x", "valid_for_days": 36_525})).validate(), Ok(()));
    for (changes, expected) in faults {
        let error = rule(&changes).validate().expect_err(expected).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    for changes in [
        json!({"take": "older_release"}),
        json!({"take": {"source": "lab-a", "or": "lab-b"}}),
        json!({"difference_below_percent": null}),
        json!({"difference_below_percent": "much"}),
        json!({"unknown": 1}),
    ] {
        let mut document = serde_json::to_value(rule(&json!({}))).expect("plain data");
        for (member, value) in changes.as_object().expect("members") {
            document[member] = value.clone();
        }
        assert!(serde_json::from_value::<ReviewRule>(document).is_err(), "{changes}");
    }
}

proptest! {
    /// The comparison of two products of integers gives the same as the cut difference.
    #[test]
    fn difference_is_that_of_whole_numbers(
        values in prop::collection::vec(-2_000_i64..2_000, 2),
        limit_millionths in 1_i64..100_000_000,
    ) {
        let [first, second] = values[..] else { unreachable!() };
        let difference = i128::from((first - second).abs());
        let larger = i128::from(first.abs().max(second.abs()));
        let is_below = difference == 0 || difference * 100_000_000 < i128::from(limit_millionths) * larger;
        let limit = Decimal::from(limit_millionths).div_exact(&Decimal::from(1_000_000)).expect("six digits");
        let review = review(&first.to_string(), &second.to_string());
        let rule = rule(&json!({"difference_below_percent": limit}));
        prop_assert_eq!(taken(&rule, &review).is_ok(), is_below);
        let percent = differences_percent(&review, ontology())["dose"].clone();
        prop_assert_eq!(percent < limit, is_below);
    }

    /// The two of several values that differ most decide, in any order.
    #[test]
    fn difference_of_several_values_is_the_largest_of_two(
        values in prop::collection::vec(-50_i64..50, 3),
    ) {
        let of = |first: i64, second: i64| {
            differences_percent(&review(&first.to_string(), &second.to_string()), ontology())["dose"].clone()
        };
        let [first, second, third] = values[..] else { unreachable!() };
        let mut all = review(&first.to_string(), &second.to_string());
        all.candidates.insert(oracle("lab-d"), candidate("lab-d", &[("dose", &third.to_string())]));
        let largest = of(first, second).max(of(first, third)).max(of(second, third));
        prop_assert_eq!(&differences_percent(&all, ontology())["dose"], &largest);
    }
}
