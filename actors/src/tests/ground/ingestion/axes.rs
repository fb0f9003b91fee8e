//! Releases that empty or mis-scale an axis, of a source whose releases hold only changes.

use super::columns::{rates, rates_definition};
use super::*;
use crate::testing::ground::register_pipeline;
use domain_ground::gates::AxisGates;
use domain_ground::run::GateBreach;
use serde_json::json;

/// A payload with a record of each of these days.
fn days(days: std::ops::Range<i64>, record: impl Fn(i64) -> String) -> String {
    let date =
        |day: i64| Timestamp::from_second(1_700_000_000 + day * 86_400).expect("a time").strftime("%Y-%m-%d");
    days.map(|day| format!("{{\"Date\":\"{}\",{}}}\n", date(day), record(day))).collect()
}

/// Rates that differ from day to day, times a factor.
fn rate_of(day: i64, factor: i64) -> String {
    format!("\"usd\":{},\"jpy\":{}", (11_700 + 13 * day) * factor, 180 + day)
}

async fn source_with_forty_days(system: &ActorSystem) -> PipelineId {
    let pipeline_id = rates(system, &json!("ndjson"), "usd", "jpy").await;
    let run = ingest_version(system, &pipeline_id, &days(0..40, |day| rate_of(day, 1)), "2026-01-03").await;
    assert_eq!((run.state, run.breaches.len()), (RunState::Completed, 0), "{run:?}");
    pipeline_id
}

/// The gates that a payload breaks, if it is the second of the source.
fn breaches_of(payload: String) -> Vec<GateBreach> {
    let (sender, receiver) = std::sync::mpsc::channel();
    with_system(move |TestSystem { system, .. }| async move {
        let pipeline_id = source_with_forty_days(&system).await;
        let run = ingest_version(&system, &pipeline_id, &payload, "2026-02-03").await;
        let state = if run.breaches.is_empty() { RunState::Completed } else { RunState::Held };
        assert_eq!(run.state, state, "{run:?}");
        sender.send(run.breaches).expect("the test waits");
    });
    receiver.recv().expect("the run ended")
}

fn unfilled(axis: &str, unfilled: u64, filled: u64) -> Vec<GateBreach> {
    let allowed = "0.5".parse().expect("a number");
    vec![GateBreach::MaxUnfilledRatio { axis: axis.to_owned(), unfilled, filled, allowed }]
}

#[test]
fn release_with_a_renamed_member_is_held() {
    let renamed = days(0..40, |day| rate_of(day, 1).replace("usd", "USD"));
    assert_eq!(breaches_of(renamed), unfilled("usd", 40, 40));
    // new records and those of others do not hide it
    let more =
        days(0..22, |day| rate_of(day, 1).replace("usd", "USD")) + &days(50..400, |day| rate_of(day, 1));
    assert_eq!(breaches_of(more), unfilled("usd", 22, 22));
}

#[test]
fn release_that_lacks_most_values_of_an_axis_is_held() {
    let sparse = |filled: i64| {
        days(0..40, |day| {
            if day < filled { rate_of(day, 1) } else { format!("\"usd\":{},\"jpy\":null", 11_700 + 13 * day) }
        })
    };
    assert_eq!(breaches_of(sparse(4)), unfilled("jpy", 36, 40));
    assert_eq!(breaches_of(sparse(20)), [], "half of the values is the limit");
}

#[test]
fn release_in_another_scale_is_held() {
    let scaled = days(0..40, |day| rate_of(day, 1000));
    let common = |factor: &str| GateBreach::CommonFactor {
        axis: "usd".into(),
        factor: factor.into(),
        numbers: 40,
        compared: 40,
    };
    assert_eq!(breaches_of(scaled), [common("1000")]);
    assert_eq!(breaches_of(days(0..40, |day| rate_of(day, -1))), [common("-1")]);
    let inverse = days(0..40, |day| {
        let usd = 1.0 / (11_700 + 13 * day) as f64;
        format!("\"usd\":{usd:.12},\"jpy\":{}", 180 + day)
    });
    let [GateBreach::CommonProduct { product, numbers: 40, .. }] = &breaches_of(inverse)[..] else {
        panic!("the run is not held for inverse numbers")
    };
    assert_eq!(product, "1");
}

#[test]
fn ordinary_release_passes_the_default_gates_of_axes() {
    // each number changes by its own factor
    let revised = days(0..40, |day| {
        format!("\"usd\":{},\"jpy\":{}", 11_700 + 13 * day + day * day % 97 + 3, 180 + day)
    });
    assert_eq!(breaches_of(revised), []);
    // too few records are replaced
    assert_eq!(breaches_of(days(30..49, |day| rate_of(day, 1000))), []);
    // an axis that was empty is filled
    let (sender, receiver) = std::sync::mpsc::channel();
    with_system(move |TestSystem { system, .. }| async move {
        let pipeline_id = rates(&system, &json!("ndjson"), "usd", "jpy").await;
        ingest_version(&system, &pipeline_id, &days(0..40, |day| format!("\"usd\":{day}")), "2026-01-03")
            .await;
        let filled = days(0..40, |day| format!("\"usd\":{day},\"jpy\":{day}"));
        sender
            .send(ingest_version(&system, &pipeline_id, &filled, "2026-02-03").await)
            .expect("the test waits");
    });
    let run = receiver.recv().expect("the run ended");
    assert_eq!(run.state, RunState::Completed, "{run:?}");
    let usd = &run.counts.axis_effects["usd"];
    assert_eq!((usd.filled, usd.changed, run.counts.axis_effects.get("jpy")), (40, 0, None));
}

#[test]
fn gates_of_an_axis_are_those_of_its_pipeline() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = source_with_forty_days(&system).await;
        let mut definition = rates_definition(&json!("ndjson"), "usd", "jpy");
        let ratio = |text: &str| text.parse().expect("a number");
        let strict =
            AxisGates { max_unfilled_ratio: ratio("0"), max_changed_values_ratio: Some(ratio("0.1")) };
        definition.pipeline.gates.axes.insert("usd".into(), strict);
        register_pipeline(&system, Box::new(definition.clone())).await;
        let payload = days(0..40, |day| match day {
            0 => "\"jpy\":180".to_owned(),
            1..5 => format!("\"usd\":{day},\"jpy\":180"),
            _ => rate_of(day, 1),
        });
        let run = ingest_version(&system, &pipeline_id, &payload, "2026-02-03").await;
        let expected = [
            GateBreach::MaxUnfilledRatio { axis: "usd".into(), unfilled: 1, filled: 40, allowed: ratio("0") },
            GateBreach::MaxChangedValuesRatio {
                axis: "usd".into(),
                changed: 5,
                compared: 40,
                allowed: ratio("0.1"),
            },
        ];
        assert_eq!((run.state, &run.breaches[..]), (RunState::Held, &expected[..]));
        for axis in ["none", "day"] {
            let mut wrong = definition.clone();
            wrong.pipeline.gates.axes.insert(axis.into(), AxisGates::default());
            assert!(system.registry.register(wrong, PEER).await.is_err(), "`{axis}` is not a value axis");
        }
    });
}

#[test]
fn short_lived_records_are_compared_with_the_expired_ones() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = rates(&system, &json!("ndjson"), "usd", "jpy").await;
        let mut definition = rates_definition(&json!("ndjson"), "usd", "jpy");
        definition.normalization.valid_time = Some(
            serde_json::from_value(json!({"from_field": "from", "until_field": "until"})).expect("valid"),
        );
        register_pipeline(&system, Box::new(definition)).await;
        let payload = |from: u32, usd: &str| {
            days(0..40, |day| {
                format!(
                    "\"{usd}\":{},\"from\":\"2026-01-{from:02}\",\"until\":\"2026-01-{:02}\"",
                    day + 7,
                    from + 1
                )
            })
        };
        let first = ingest_version(&system, &pipeline_id, &payload(3, "usd"), "2026-01-03").await;
        assert_eq!(first.state, RunState::Completed, "{first:?}");
        let renamed = ingest_version(&system, &pipeline_id, &payload(4, "USD"), "2026-01-04").await;
        assert_eq!(renamed.breaches, unfilled("usd", 40, 40), "{renamed:?}");
    });
}
