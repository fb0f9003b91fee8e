use super::*;
use proptest::prelude::*;
use serde_json::json;
use strum::VariantArray;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("a valid time")
}

/// The seed's example.
fn labs() -> serde_json::Value {
    json!({
        "oracle_id": "ehr-lab-results",
        "axis_freshness": {
            "inr_value": {
                "axis": "inr_value", "max_age_seconds": 86400, "stale_behavior": "fail_closed", "refresh_on_query": false
            },
            "medication_list": {
                "axis": "medication_list", "max_age_seconds": 3600, "stale_behavior": "serve_stale_with_warning",
                "refresh_on_query": true
            },
        },
        "default_max_age_seconds": 86400,
        "default_stale_behavior": "serve_stale_with_warning",
        "invalidation_triggers": [{"trigger_type": "upstream_signal", "config": {"webhook": "/api/ehr/invalidate"}}],
    })
}

fn read(document: serde_json::Value) -> Result<FreshnessPolicy, serde_json::Error> {
    serde_json::from_value(document)
}

fn policy() -> FreshnessPolicy {
    read(labs()).expect("the seed's example is one")
}

fn bound(axis: &str) -> AxisFreshnessLimits<'_> {
    AxisFreshnessLimits { axis, state_sensitive: false, max_ttl_seconds: None }
}

/// A requirement for an axis that changes rarely and has a maximum age in the ontology.
fn limited(axis: &str, max_ttl_seconds: u64) -> AxisFreshnessLimits<'_> {
    AxisFreshnessLimits { axis, state_sensitive: false, max_ttl_seconds: Some(max_ttl_seconds) }
}

fn sensitive(axis: &str, max_ttl_seconds: Option<u64>) -> AxisFreshnessLimits<'_> {
    AxisFreshnessLimits { axis, state_sensitive: true, max_ttl_seconds }
}

fn axis_requirement(
    axis: &str,
    max_age_seconds: u64,
    stale_behavior: StaleBehavior,
) -> AxisFreshnessRequirement {
    AxisFreshnessRequirement { axis: axis.into(), max_age_seconds, stale_behavior, refresh_on_query: false }
}

/// All behaviors, the least strict first.
const BEHAVIORS: [StaleBehavior; 5] = [
    StaleBehavior::ServeStaleSilent,
    StaleBehavior::ServeStaleWithWarning,
    StaleBehavior::DegradeTier,
    StaleBehavior::BlockUntilFresh,
    StaleBehavior::FailClosed,
];

#[test]
fn policy_of_the_seed_is_valid_and_round_trips() {
    let policy = policy();
    assert_eq!(serde_json::to_value(&policy).expect("the value serializes"), labs());
    let axes = [sensitive("inr_value", Some(86_400)), bound("medication_list")];
    assert_eq!(policy.validate(&axes), Ok(()));
    let now = at(86_401);
    let freshness = policy.evaluate(&["medication_list"], Some(at(0)), None, now);
    assert_eq!((freshness.answer, freshness.refresh), (AnswerHandling::ServeWithWarnings, true));
    assert_eq!(freshness.warnings, ["`medication_list`: 24 hours old, and 60 minutes are allowed"]);
    let freshness = policy.evaluate(&["medication_list", "inr_value"], Some(at(0)), None, now);
    assert_eq!((freshness.answer, freshness.refresh), (AnswerHandling::FailClosed, true));
    let shared = policy.evaluate(&["height", "weight"], Some(at(0)), None, at(3 * 86_400)).warnings;
    assert_eq!(shared, ["`height`, `weight`: 3 days old, and 24 hours are allowed"]);
    let fresh = policy.evaluate(&["medication_list", "inr_value"], Some(at(0)), None, at(3_600));
    assert_eq!(
        (fresh.answer, fresh.refresh, fresh.warnings),
        (AnswerHandling::Serve, false, vec![]),
        "as old as it may be"
    );
}

#[test]
fn triggers_accept_only_names_and_configs_of_the_seed() {
    let trigger = |kind: &str, config: serde_json::Value| {
        serde_json::from_value::<InvalidationTrigger>(json!({"trigger_type": kind, "config": config}))
    };
    for (kind, config) in [
        ("time_based", json!({"ttl_seconds": 60})),
        ("version_change", json!({})),
        ("upstream_signal", json!({"webhook": "/x"})),
        ("manual", json!({})),
    ] {
        let read = trigger(kind, config.clone()).expect("a valid value");
        let written = serde_json::to_value(&read).expect("the value serializes");
        assert_eq!(written, json!({"trigger_type": kind, "config": config}));
        let mut more = config;
        more["ttl"] = json!(1);
        trigger(kind, more).expect_err("the key is unknown");
    }
    trigger("time_based", json!({})).expect_err("it has no time");
    trigger("upstream_signal", json!({})).expect_err("it has no path");
    trigger("hourly", json!({})).expect_err("the trigger is unknown");
    let more = json!({"trigger_type": "manual", "config": {}, "more": 1});
    serde_json::from_value::<InvalidationTrigger>(more).expect_err("the key is unknown");
}

#[test]
fn policy_accepts_only_fields_of_the_seed() {
    let mut more = labs();
    more["max_age"] = json!(1);
    read(more).expect_err("the key is unknown");
    let mut more = labs();
    more["axis_freshness"]["inr_value"]["ttl"] = json!(1);
    read(more).expect_err("the key is unknown");
    let mut less = labs();
    less["axis_freshness"]["inr_value"].as_object_mut().expect("an object").remove("refresh_on_query");
    read(less).expect_err("a key is missing");
    let mut negative = labs();
    negative["default_max_age_seconds"] = json!(-1);
    read(negative).expect_err("no age is negative");
}

#[test]
fn invalid_policy_error_names_the_field() {
    let axes = [bound("inr_value"), bound("medication_list")];
    let refused = |change: &dyn Fn(&mut FreshnessPolicy), axes: &[AxisFreshnessLimits<'_>]| {
        let mut policy = policy();
        change(&mut policy);
        policy.validate(axes).expect_err("the call is rejected")
    };
    let unknown = refused(&|_| {}, &axes[..1]);
    assert_eq!(unknown, FreshnessPolicyError::UnknownAxis { axis: "medication_list".into() });
    for seconds in [0, MAX_AGE_S + 1, u64::MAX] {
        let age = refused(&|policy| policy.default_max_age_seconds = seconds, &axes);
        assert_eq!(age, FreshnessPolicyError::BadAge { field: "default_max_age_seconds".into(), seconds });
        let own = refused(
            &|policy| {
                let ruled = axis_requirement("inr_value", seconds, StaleBehavior::FailClosed);
                policy.axis_freshness.insert("inr_value".into(), ruled);
            },
            &axes,
        );
        assert_eq!(
            own,
            FreshnessPolicyError::BadAge {
                field: "axis_freshness.inr_value.max_age_seconds".into(),
                seconds
            }
        );
        let trigger = InvalidationTrigger::TimeBased { ttl_seconds: seconds };
        let ttl = refused(&|policy| policy.invalidation_triggers = vec![trigger.clone()], &axes);
        assert_eq!(
            ttl,
            FreshnessPolicyError::BadAge {
                field: "invalidation_triggers.0.config.ttl_seconds".into(),
                seconds
            }
        );
    }
    let other = axis_requirement("inr", 60, StaleBehavior::FailClosed);
    let other =
        refused(&|policy| drop(policy.axis_freshness.insert("inr_value".into(), other.clone())), &axes);
    assert_eq!(other, FreshnessPolicyError::OtherAxis { key: "inr_value".into(), axis: "inr".into() });
    let long = format!("/v1/signals/{}", "x".repeat(WEBHOOK_MAX_BYTES));
    let served = ["/healthz", "/v1/query", "/v1/signals", "/cache/abc"];
    for webhook in [
        "",
        "x",
        "/",
        "/a b/c",
        "/é/a",
        "//a",
        "/a/",
        "/v1/signals/",
        "/a/b?c",
        "/a/../b",
        "/v1/signals/.",
        &long,
    ]
    .iter()
    .chain(&served)
    {
        let trigger = InvalidationTrigger::UpstreamSignal { webhook: (*webhook).into(), secret_file: None };
        let refused = refused(&|policy| policy.invalidation_triggers.push(trigger.clone()), &axes);
        assert_eq!(refused, FreshnessPolicyError::BadWebhook { index: 1 }, "{webhook}");
    }
    let count = MAX_TRIGGERS + 1;
    let many =
        refused(&|policy| policy.invalidation_triggers = vec![InvalidationTrigger::Manual {}; count], &axes);
    assert_eq!(many, FreshnessPolicyError::TooManyTriggers { count });
    let text =
        FreshnessPolicyError::BadAge { field: "default_max_age_seconds".into(), seconds: 0 }.to_string();
    assert_eq!(text, "`default_max_age_seconds` is 0 (1 to 3155760000 seconds allowed)");
}

#[test]
fn policy_must_not_exceed_age_limit_of_ontology() {
    let policy = policy();
    let axes = |third| [bound("inr_value"), bound("medication_list"), third];
    let unbounded =
        |max_age_s, limit_s| Err(FreshnessPolicyError::Unbounded { axis: "dose".into(), max_age_s, limit_s });
    assert_eq!(policy.validate(&axes(bound("dose"))), Ok(()));
    assert_eq!(policy.validate(&axes(sensitive("dose", Some(86_400)))), Ok(()), "the default is within it");
    assert_eq!(policy.validate(&axes(sensitive("dose", Some(86_399)))), unbounded(86_400, 86_399));
    assert_eq!(policy.validate(&axes(limited("dose", 86_400))), Ok(()), "it need not change at any moment");
    assert_eq!(policy.validate(&axes(limited("dose", 86_399))), unbounded(86_400, 86_399));
    assert_eq!(policy.validate(&axes(sensitive("dose", None))), Ok(()), "a day, where it does not say");
    let lax = FreshnessPolicy { default_max_age_seconds: 86_401, ..policy.clone() };
    assert_eq!(lax.validate(&axes(sensitive("dose", None))), unbounded(86_401, 86_400));
    let own = sensitive("medication_list", Some(3_600));
    assert_eq!(lax.validate(&[bound("inr_value"), own]), Ok(()), "its own requirement is within it");
    let ttl = InvalidationTrigger::TimeBased { ttl_seconds: 60 };
    let ended = FreshnessPolicy { invalidation_triggers: vec![ttl], ..lax };
    assert_eq!(ended.validate(&axes(sensitive("dose", Some(60)))), Ok(()), "a trigger bounds it, too");
}

#[test]
fn default_policy_is_valid_for_every_source() {
    let axes =
        [bound("population"), sensitive("dose", Some(60)), sensitive("rate", None), limited("price", 60)];
    let mut ages = Vec::new();
    for &frequency in UpdateFrequency::VARIANTS {
        let policy = FreshnessPolicy::default_for("xx".parse().expect("a valid id"), frequency, &axes);
        assert_eq!(policy.validate(&axes), Ok(()), "{frequency:?}");
        ages.push(policy.default_max_age_seconds);
        let stale = policy.evaluate(&["population"], Some(at(0)), Some(at(1)), at(1));
        assert_eq!(stale.answer, AnswerHandling::ServeWithWarnings, "{frequency:?}");
        for axis in ["dose", "price"] {
            let stale = policy.evaluate(&[axis], Some(at(0)), None, at(61));
            assert_eq!(
                (stale.answer, stale.refresh),
                (AnswerHandling::FailClosed, true),
                "{axis} {frequency:?}"
            );
        }
    }
    let days: Vec<_> = ages.iter().map(|age_s| age_s / DAY_S).collect();
    assert_eq!(days, [0, 2, 14, 62, 184, 732, 36_525, 366]);
    let realtime =
        FreshnessPolicy::default_for("xx".parse().expect("a valid id"), UpdateFrequency::Realtime, &axes);
    let age_s = |axis: &str| realtime.axis_freshness[axis].max_age_seconds;
    assert_eq!((age_s("dose"), age_s("rate")), (60, 300), "none is older than the others may be");
}

#[test]
fn group_requirement_applies_to_each_of_its_axes() {
    let mut policy = policy();
    let own = ("nutrients.zinc.amount", 100);
    for (group, max_age_s) in [("nutrients.*.amount", 60), ("nutrients.*.*", 90), ("*.iron.amount", 30), own]
    {
        policy
            .axis_freshness
            .insert(group.into(), axis_requirement(group, max_age_s, StaleBehavior::FailClosed));
    }
    let max_age_s = |axis: &str| policy.evaluate(&[axis], Some(at(0)), None, at(0)).axes[0].max_age_seconds;
    assert_eq!(max_age_s("nutrients.*.amount"), 60);
    assert_eq!(max_age_s("nutrients.protein.amount"), 60);
    assert_eq!(max_age_s("nutrients.iron.amount"), 30, "the strictest of them");
    assert_eq!(max_age_s("nutrients.protein.unit"), 90);
    assert_eq!(max_age_s("nutrients.zinc.amount"), 100, "its own name goes before its groups'");
    for other in ["nutrients.protein", "nutrients.protein.amount.more", "vitamins.protein.amount", ""] {
        assert_eq!(max_age_s(other), 86_400, "{other}");
    }
}

#[test]
fn each_stale_behavior_has_its_answer() {
    for (behavior, answer, warns, refresh) in [
        (StaleBehavior::ServeStaleSilent, AnswerHandling::Serve, false, false),
        (StaleBehavior::ServeStaleWithWarning, AnswerHandling::ServeWithWarnings, true, false),
        (StaleBehavior::DegradeTier, AnswerHandling::DegradeTier, true, false),
        (StaleBehavior::BlockUntilFresh, AnswerHandling::BlockUntilFresh, true, true),
        (StaleBehavior::FailClosed, AnswerHandling::FailClosed, true, false),
    ] {
        let policy = FreshnessPolicy { default_stale_behavior: behavior, ..policy() };
        let stale = policy.evaluate(&["dose"], Some(at(0)), None, at(86_401));
        assert_eq!((stale.answer, !stale.warnings.is_empty(), stale.refresh), (answer, warns, refresh));
        assert!(stale.axes[0].stale);
        let fresh = policy.evaluate(&["dose"], Some(at(0)), None, at(86_400));
        assert_eq!((fresh.answer, fresh.warnings.len(), fresh.refresh), (AnswerHandling::Serve, 0, false));
    }
    let answers = BEHAVIORS.map(AnswerHandling::from);
    assert!(
        answers.is_sorted() && answers.contains(&AnswerHandling::FailClosed),
        "the strictest last: {answers:?}"
    );
    let invalidated = policy().evaluate(&["dose"], Some(at(0)), Some(at(1)), at(2));
    let words = "`dose`: as of 2023-11-14T22:13:20Z, and invalidated at 2023-11-14T22:13:21Z";
    assert_eq!(invalidated.warnings, [words]);
}

#[test]
fn age_is_whole_seconds_and_never_negative() {
    let policy = policy();
    let age_s = |as_of, now| {
        policy.evaluate(&["dose"], Some(as_of), None, now).axes[0].age_seconds.expect("a value is present")
    };
    assert_eq!(age_s(at(10), at(0)), 0, "a future time has age 0");
    let later = |ms: i64| Timestamp::from_millisecond(1_700_000_000_000 + ms).expect("a valid time");
    assert_eq!((age_s(at(0), later(999)), age_s(at(0), later(1_000))), (0, 1));
    assert_eq!(age_s(later(1), at(0)), 0);
    let all = Timestamp::MAX.duration_since(Timestamp::MIN).as_secs();
    assert_eq!(i64::try_from(age_s(Timestamp::MIN, Timestamp::MAX)), Ok(all));
    assert_eq!(
        policy.evaluate(&[], Some(at(0)), Some(at(1)), at(9)).answer,
        AnswerHandling::Serve,
        "there is no warning"
    );
}

const AXES: [&str; 4] = ["a", "b", "c", "d"];

/// Policies for some of the four axes, with times of up to 100 s.
fn any_policy() -> impl Strategy<Value = FreshnessPolicy> {
    let requirement = || (1..100_u64, prop::sample::select(&BEHAVIORS[..]), any::<bool>());
    let axes = prop::collection::btree_map(prop::sample::select(&AXES[..]), requirement(), 0..4);
    let ttls = prop::collection::vec(1..100_u64, 0..3);
    (axes, requirement(), ttls).prop_map(|(axes, (default_s, default, _), ttls)| {
        let requirement = |(axis, (max_age_seconds, stale_behavior, refresh_on_query)): (&str, _)| {
            let axis = axis.to_owned();
            (
                axis.clone(),
                AxisFreshnessRequirement { axis, max_age_seconds, stale_behavior, refresh_on_query },
            )
        };
        let ttls = ttls.into_iter().map(|ttl_seconds| InvalidationTrigger::TimeBased { ttl_seconds });
        FreshnessPolicy {
            oracle_id: "xx".parse().expect("a valid id"),
            axis_freshness: axes.into_iter().map(requirement).collect(),
            default_max_age_seconds: default_s,
            default_stale_behavior: default,
            business_days: false,
            invalidation_triggers: ttls.collect(),
        }
    })
}

#[test]
fn weekends_do_not_count_toward_ages_in_business_days() {
    let policy = FreshnessPolicy { business_days: true, ..policy() };
    let age_of = |as_of: &str, now: &str| {
        let [as_of, now] = [as_of, now].map(|at| at.parse().expect("a time"));
        policy.evaluate(&["dose"], Some(as_of), None, now).axes[0].age_seconds
    };
    let day_s = 86_400;
    for (as_of, now, expected) in [
        // 2026-11-20 is a Friday
        ("2026-11-20T16:00:00Z", "2026-11-20T17:00:00Z", 3600),
        ("2026-11-20T16:00:00Z", "2026-11-22T12:00:00Z", 8 * 3600),
        ("2026-11-20T16:00:00Z", "2026-11-23T16:00:00Z", day_s),
        ("2026-11-21T10:00:00Z", "2026-11-22T10:00:00Z", 0),
        ("2026-11-21T10:00:00Z", "2026-11-23T01:00:00Z", 3600),
        ("2026-11-02T00:00:00Z", "2026-11-30T00:00:00Z", 20 * day_s),
        ("1969-12-26T00:00:00Z", "1970-01-02T00:00:00Z", 5 * day_s),
        ("2026-11-23T00:00:00Z", "2026-11-20T00:00:00Z", 0),
    ] {
        assert_eq!(age_of(as_of, now), Some(expected), "{as_of} to {now}");
    }
}

#[test]
fn warning_about_an_age_in_business_days_names_weekends() {
    let policy = FreshnessPolicy {
        business_days: true,
        default_max_age_seconds: 86_400,
        default_stale_behavior: StaleBehavior::ServeStaleWithWarning,
        axis_freshness: BTreeMap::new(),
        invalidation_triggers: Vec::new(),
        ..policy()
    };
    // from a Thursday to a Monday
    let [as_of, now] = ["2026-11-19T00:00:00Z", "2026-11-23T00:00:00Z"].map(|at| at.parse().expect("a time"));
    let freshness = policy.evaluate(&["size"], Some(as_of), None, now);
    assert_eq!(freshness.warnings, ["`size`: 2 days old without weekends, and 24 hours are allowed"]);
}

#[test]
fn business_days_are_refused_with_an_axis_whose_age_the_ontology_limits() {
    let plain =
        FreshnessPolicy { axis_freshness: BTreeMap::new(), invalidation_triggers: Vec::new(), ..policy() };
    let policy = FreshnessPolicy { business_days: true, default_max_age_seconds: 10, ..plain };
    assert_eq!(policy.validate(&[bound("dose")]), Ok(()));
    for axis in [limited("dose", 100), sensitive("dose", None)] {
        let refused = policy.validate(&[axis]);
        assert_eq!(refused, Err(FreshnessPolicyError::BusinessDays { axis: "dose".into() }));
    }
}

proptest! {
    #[test]
    fn older_answer_is_never_handled_less_strictly(
        policy in any_policy(), as_of in -50..50_i64, age_s in 0..120_i64, more_s in 0..120_i64,
        invalidated in prop::option::of(-60..60_i64),
    ) {
        let look = |as_of| policy.evaluate(&AXES, Some(at(as_of)), invalidated.map(at), at(50 + age_s));
        let (newer, older) = (look(as_of), look(as_of - more_s));
        prop_assert!(newer.answer <= older.answer);
        prop_assert!(newer.refresh <= older.refresh);
        prop_assert!(newer.warnings.len() <= older.warnings.len());
        for (newer, older) in newer.axes.iter().zip(&older.axes) {
            prop_assert!(newer.stale <= older.stale && newer.age_seconds <= older.age_seconds);
        }
    }

    #[test]
    fn missing_release_is_handled_like_stale_data(
        policy in any_policy(), invalidated in prop::option::of(-60..60_i64),
    ) {
        let look = |as_of| policy.evaluate(&AXES, as_of, invalidated.map(at), at(0));
        let (never, old) = (look(None), look(Some(at(-1000))));
        prop_assert_eq!((never.answer, never.refresh), (old.answer, old.refresh));
        prop_assert_eq!(never.warnings.len(), old.warnings.len().min(1), "there is one warning");
        prop_assert!(never.axes.iter().all(|axis| axis.stale && axis.age_seconds.is_none()));
    }

    #[test]
    fn strictest_axis_decides_the_answer(policy in any_policy(), age_s in 0..120_i64) {
        let all = policy.evaluate(&AXES, Some(at(0)), None, at(age_s));
        let each = AXES.map(|axis| policy.evaluate(&[axis], Some(at(0)), None, at(age_s)));
        prop_assert_eq!(Some(all.answer), each.iter().map(|one| one.answer).max());
        prop_assert_eq!(all.refresh, each.iter().any(|one| one.refresh));
        for (one, axis) in each.iter().zip(AXES) {
            let named = all.warnings.iter().find(|warning| warning.contains(&format!("`{axis}`")));
            let fault = |warning: &String| warning.rsplit("`: ").next().map(str::to_owned);
            prop_assert_eq!(named.map(fault), one.warnings.first().map(fault));
        }
        for (axis, name) in all.axes.iter().zip(AXES) {
            let own = policy.axis_freshness.get(name);
            let allowed_s = own.map_or(policy.default_max_age_seconds, |own| own.max_age_seconds);
            prop_assert_eq!(axis.stale, axis.age_seconds > Some(axis.max_age_seconds));
            prop_assert!(axis.max_age_seconds <= allowed_s, "a trigger makes it less, never more");
        }
    }

    #[test]
    fn invalidation_makes_every_axis_stale(
        policy in any_policy(), as_of in 0..100_i64, invalidated in 0..100_i64, age_s in 0..120_i64,
    ) {
        let now = at(as_of + age_s);
        let invalidated = policy.evaluate(&AXES, Some(at(as_of)), Some(at(invalidated)), now);
        prop_assert!(invalidated.axes.iter().all(|axis| axis.stale));
        let ages = |freshness: &AnswerFreshness| freshness.axes.iter().map(|axis| axis.age_seconds).collect::<Vec<_>>();
        prop_assert_eq!(ages(&invalidated), ages(&policy.evaluate(&AXES, Some(at(as_of)), None, now)));
    }
}
