use super::mapping::{UNEXPECTED_NAME_CHARS, UNEXPECTED_NAMED};
use super::*;
use crate::label::VerdictDimension;
use crate::tmm::PHI;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn verdict(tier: ProductTier) -> Value {
    let mut verdict = json!({"verdict": "GREEN", "summary": "A sound plan with clear and modest aims."});
    if tier >= ProductTier::Full {
        let dimension = json!({"verdict": "GREEN", "analysis": "Nothing here moves faster than it can."});
        verdict["breakdown"] = VerdictDimension::ALL
            .iter()
            .map(|d| (d.to_string(), dimension.clone()))
            .collect::<Map<_, _>>()
            .into();
    }
    if tier == ProductTier::Strategy {
        verdict["strategy"] = json!({
            "next_step": "Ask ten neighbours.", "alternative": "Rent first.",
            "tests": ["Sell one box.", {"what": "Sell ten."}, "Ask again."],
        });
    }
    verdict
}

fn inspected(tier: ProductTier, verdict: &Value) -> CrosscheckInspection {
    inspect(tier, &VerdictPayload::raw(&verdict.to_string()))
}

fn decided(tier: ProductTier, verdict: &Value) -> CrosscheckDecision {
    decide(&inspected(tier, verdict))
}

fn words(flags: &[Flag]) -> Vec<String> {
    flags.iter().map(ToString::to_string).collect()
}

#[test]
fn vc_1_perfect_verdict_passes() {
    let verdict = json!({"verdict": "GREEN", "summary": "More than twenty-five characters of summary."});
    let judgment = judge(ProductTier::Quick, VerdictPayload::raw(&verdict.to_string()));
    assert_eq!(judgment.decision.coherence_score, 1.0);
    assert!(judgment.decision.approved && judgment.outcome.is_ok());
}

#[test]
fn vc_2_malformed_verdict_is_blocked_as_field_missing() {
    let judgment = judge(ProductTier::Quick, VerdictPayload::raw(r#"{"summary": ""}"#));
    assert!(!judgment.decision.approved && judgment.outcome.is_err());
    assert_eq!(judgment.decision.crosscheck_reason, CrosscheckReason::FieldMissing);
    assert_eq!(words(&judgment.decision.flags), ["short_summary", "verdict_missing", "degenerate_manifold"]);
}

#[test]
fn vc_3_dimension_conflict_is_detected() {
    let mut verdict = verdict(ProductTier::Full);
    for dimension in VerdictDimension::ALL {
        verdict["breakdown"][dimension.into_str()]["verdict"] = json!("RED");
    }
    let inspection = inspected(ProductTier::Full, &verdict);
    assert_eq!((inspection.v_t, inspection.v_r, inspection.e_d), (7.0, 2.0, 0.0));
    assert!(decide(&inspection).approved, "a conflict alone is tolerated: 1 - 0.084/7 is above omega");
    // the worst case: only the contradiction is left of the evidence
    for dimension in VerdictDimension::ALL {
        verdict["breakdown"][dimension.into_str()]["analysis"] = json!(" ");
    }
    verdict["summary"] = json!("");
    let decision = decided(ProductTier::Full, &verdict);
    assert!(!decision.approved);
    assert_eq!(decision.crosscheck_reason, CrosscheckReason::DimensionConflict);
}

#[test]
fn worked_example_of_a_perfect_quick_verdict_scores_1() {
    let inspection = inspected(ProductTier::Quick, &verdict(ProductTier::Quick));
    assert_eq!((inspection.v_t, inspection.v_r, inspection.e_d), (2.0, 0.0, 0.0));
    assert_eq!(decide(&inspection).coherence_score, 1.0);
}

#[test]
fn worked_example_of_dimension_conflicts_passes_at_0_982() {
    let mut verdict = verdict(ProductTier::Full);
    for dimension in VerdictDimension::ALL {
        verdict["breakdown"][dimension.into_str()]["verdict"] = json!("RED");
    }
    verdict["summary"] = json!("Short.");
    let inspection = inspected(ProductTier::Full, &verdict);
    assert_eq!((inspection.v_t, inspection.v_r, inspection.e_d), (7.0, 3.0, 0.0));
    let decision = decide(&inspection);
    assert!((decision.coherence_score - 0.982).abs() < 1e-9 && decision.approved, "{decision:?}");
    assert_eq!(words(&decision.flags), ["verdict_conflict", "short_summary"]);
}

#[test]
fn worked_example_of_a_severely_malformed_verdict_is_rejected_at_0_635() {
    let inspection = CrosscheckInspection {
        v_t: 2.0,
        v_r: 5.5,
        e_d: 0.5,
        label: Some(VerdictLabel::Green),
        flags: vec![],
    };
    let decision = decide(&inspection);
    assert!((decision.coherence_score - 0.6345).abs() < 1e-9 && !decision.approved, "{decision:?}");
}

#[test]
fn largest_v_t_of_each_tier_is_sum_of_weights() {
    for (tier, v_t) in [(ProductTier::Quick, 2.0), (ProductTier::Full, 7.0), (ProductTier::Strategy, 10.5)] {
        assert_eq!(inspected(tier, &verdict(tier)).v_t, v_t);
    }
}

#[test]
fn malformed_json_scores_minus_one_and_is_degenerate() {
    let decision = decide(&inspect(ProductTier::Strategy, &VerdictPayload::raw("```json\n{}\n```")));
    assert_eq!(decision.coherence_score, -1.0);
    assert_eq!(decision.crosscheck_reason, CrosscheckReason::DegenerateManifold);
    assert_eq!(words(&decision.flags), ["malformed_json", "degenerate_manifold"]);
    assert_eq!(decision.verdict_label, None);
}

#[test]
fn null_verdict_with_consistent_breakdown_passes_unflagged() {
    let mut verdict = verdict(ProductTier::Full);
    verdict["verdict"] = json!("NULL");
    for dimension in VerdictDimension::ALL {
        verdict["breakdown"][dimension.into_str()]["verdict"] = json!("RED");
    }
    let decision = decided(ProductTier::Full, &verdict);
    assert_eq!((decision.approved, decision.coherence_score), (true, 1.0));
    assert_eq!(decision.flags, []);
}

#[test]
fn null_verdict_with_green_and_amber_is_contradictory() {
    let mut verdict = verdict(ProductTier::Full);
    verdict["verdict"] = json!("NULL");
    verdict["breakdown"]["Curvature"]["verdict"] = json!("AMBER");
    let with_majority = inspected(ProductTier::Full, &verdict);
    assert_eq!(with_majority.v_r, 3.5);
    assert_eq!(words(&with_majority.flags), ["verdict_conflict", "contradictory_null"]);

    verdict["breakdown"]["Completion"]["verdict"] = json!("AMBER");
    verdict["breakdown"]["Stability"]["verdict"] = json!("PURPLE");
    let without = inspected(ProductTier::Full, &verdict);
    assert_eq!(without.v_r, 1.5);
    assert_eq!(words(&without.flags), ["contradictory_null", "dimension_verdict_invalid:Stability"]);
}

#[test]
fn absent_and_empty_fields_have_different_flags() {
    let mut verdict = verdict(ProductTier::Strategy);
    verdict["summary"] = json!(7);
    verdict["breakdown"]["Stability"]["analysis"] = json!(["not", "text"]);
    verdict["breakdown"]["Turbulence"]["analysis"] = json!("\u{2003}\n");
    verdict["breakdown"]["Change Rate"] = json!("GREEN");
    verdict["breakdown"]["Completion"]["verdict"] = json!(null);
    verdict["strategy"]["next_step"] = json!("");
    verdict["strategy"]["alternative"] = json!(null);
    verdict["strategy"]["tests"] = json!(["", {}, [1], "one"]);
    let inspection = inspected(ProductTier::Strategy, &verdict);
    assert_eq!(
        words(&inspection.flags),
        [
            "empty_analysis:Stability",
            "empty_analysis:Turbulence",
            "short_summary",
            "few_tests",
            "field_missing:summary",
            "field_missing:breakdown.Stability.analysis",
            "field_missing:breakdown.Change Rate",
            "field_missing:breakdown.Completion.verdict",
            "field_missing:strategy.alternative",
        ]
    );
    // verdict, Curvature, and half a test
    assert_eq!((inspection.v_t, inspection.v_r, inspection.e_d), (2.5, 3.0, 0.5));
}

#[test]
fn test_is_visible_text_or_object_or_list_with_visible_text_at_any_depth() {
    let v_t = |test: Value| {
        let mut verdict = verdict(ProductTier::Strategy);
        verdict["strategy"]["tests"] = json!([test]);
        inspected(ProductTier::Strategy, &verdict).v_t
    };
    for test in [
        json!("Sell one."),
        json!({"what": "Sell one."}),
        json!(["Sell one."]),
        json!({"n": 1, "steps": [[], {"more": [null, "Sell one."]}]}),
        json!([[["Sell one."]], 7]),
    ] {
        assert_eq!(v_t(test.clone()), 9.5, "{test}");
    }
    for none in [
        json!({"n": 1}),
        json!({}),
        json!([]),
        json!(7),
        json!(true),
        json!(null),
        json!(" "),
        json!("\u{2800}\u{200b}"),
        json!({"Sell one.": null}),
        json!({"steps": [[" ", {"more": ["\u{2800}", 4]}]]}),
    ] {
        assert_eq!(v_t(none.clone()), 9.0, "{none}");
    }
}

#[test]
fn invisible_characters_count_neither_as_content_nor_as_length() {
    for invisible in
        ["\u{2800}", "\u{200b}", "\u{200d}", "\u{ad}", "\u{feff}", "\u{3164}", "\u{e0041}", "\u{fe0f}"]
    {
        let mut verdict = verdict(ProductTier::Strategy);
        verdict["summary"] = json!(format!("Too short{}", invisible.repeat(20)));
        verdict["breakdown"]["Stability"]["analysis"] = json!(invisible.repeat(3));
        verdict["strategy"]["next_step"] = json!(format!(" {invisible} "));
        verdict["strategy"]["alternative"] = json!(invisible);
        let inspection = inspected(ProductTier::Strategy, &verdict);
        let flags = words(&inspection.flags);
        assert_eq!(flags, ["empty_analysis:Stability", "short_summary"], "{invisible:?}");
        assert_eq!(inspection.v_t, 7.5, "{invisible:?}");
        verdict["summary"] = json!(format!("{invisible}Long enough{invisible}"));
        let flags = words(&inspected(ProductTier::Strategy, &verdict).flags);
        assert_eq!(flags, ["empty_analysis:Stability"], "{invisible:?}");
    }
}

#[test]
fn missing_strategy_weighs_two_without_few_tests_flag() {
    let mut verdict = verdict(ProductTier::Strategy);
    verdict.as_object_mut().expect("an object").remove("strategy");
    let inspection = inspected(ProductTier::Strategy, &verdict);
    assert_eq!(words(&inspection.flags), ["strategy_missing", "field_missing:strategy"]);
    assert_eq!((inspection.v_r, inspection.e_d), (2.0, 0.5));
}

#[test]
fn tier_examines_only_its_own_fields() {
    let mut verdict = verdict(ProductTier::Strategy);
    verdict["verdict"] = json!("RED");
    verdict["mood"] = json!("good");
    let decision = decided(ProductTier::Quick, &verdict);
    assert!(decision.approved, "a breakdown that contradicts is none of the quick tier's business");
    let ignored = ["unexpected_field:breakdown", "unexpected_field:mood", "unexpected_field:strategy"];
    assert_eq!(words(&decision.flags), ignored);
    verdict["breakdown"]["Mood"] = json!({"verdict": "RED", "analysis": "Gloomy."});
    let flags = words(&decided(ProductTier::Full, &verdict).flags);
    let ignored = ["unexpected_field:breakdown.Mood", "unexpected_field:mood", "unexpected_field:strategy"];
    assert_eq!(flags.get(1..), Some(&ignored.map(String::from)[..]), "{flags:?}");
}

#[test]
fn unexpected_fields_are_limited_in_number_and_length() {
    let mut verdict = verdict(ProductTier::Quick);
    for n in 0..1000 {
        verdict[format!("field {n:04} {}", "x".repeat(1000))] = json!(n);
    }
    let flags = words(&decided(ProductTier::Quick, &verdict).flags);
    assert_eq!(flags.len(), UNEXPECTED_NAMED + 1);
    assert_eq!(flags.last().map(String::as_str), Some("unexpected_field:~984 more"));
    assert!(
        flags.iter().all(|flag| flag.chars().count() <= "unexpected_field:".len() + UNEXPECTED_NAME_CHARS)
    );
}

#[test]
fn payload_that_is_not_an_object_has_no_verdict() {
    for payload in ["[]", "7", "\"GREEN\"", "null"] {
        let inspection = inspect(ProductTier::Quick, &VerdictPayload::raw(payload));
        assert_eq!((inspection.v_t, inspection.e_d), (1.0, 1.0), "{payload}");
        assert_eq!(decide(&inspection).crosscheck_reason, CrosscheckReason::FieldMissing);
    }
}

/// A second implementation of the tables of `docs/mapping.md`, as simple as possible, over `serde_json::Value`.
fn transcribed(tier: ProductTier, root: &Value) -> (f64, f64, f64) {
    let label =
        |v: &Value| v.as_str().filter(|s| ["GREEN", "AMBER", "RED", "NULL"].contains(s)).map(String::from);
    // the texts here contain only these invisible characters
    let visible = |v: &Value| {
        v.as_str().unwrap_or("").replace(['\u{200b}', '\u{2800}', '\u{ad}'], "").trim().chars().count()
    };
    let filled = |v: &Value| visible(v) > 0;
    // every string of a value, at any depth; the name of a member is none of them
    fn strings(v: &Value) -> Vec<&Value> {
        let below = v.as_array().into_iter().flatten().chain(v.as_object().into_iter().flat_map(Map::values));
        Some(v).filter(|v| v.is_string()).into_iter().chain(below.flat_map(strings)).collect()
    }
    let is_text = |v: &Value| v.is_string();
    let (mut v_t, mut v_r, mut missing) = (0.0, 0.0, false);
    let top = label(&root["verdict"]);
    v_t += f64::from(u8::from(top.is_some()));
    v_t += f64::from(u8::from(filled(&root["summary"])));
    missing |= !is_text(&root["summary"]);
    if visible(&root["summary"]) < 10 {
        v_r += 1.0;
    }
    if tier != ProductTier::Quick {
        missing |= !root["breakdown"].is_object();
        let mut labels = vec![];
        for name in ["Stability", "Turbulence", "Change Rate", "Completion", "Curvature"] {
            let dimension = &root["breakdown"][name];
            missing |= label(&dimension["verdict"]).is_none() || !is_text(&dimension["analysis"]);
            if let Some(valid) = label(&dimension["verdict"]) {
                let (evidence, weight) = if filled(&dimension["analysis"]) { (1.0, 0.0) } else { (0.0, 0.5) };
                v_t += evidence;
                v_r += weight;
                labels.push(valid);
            }
        }
        let majority = labels.iter().find(|l| labels.iter().filter(|m| m == l).count() * 2 > labels.len());
        let bright = !labels.is_empty() && labels.iter().all(|l| l == "GREEN" || l == "AMBER");
        match top.as_deref() {
            Some("NULL") if bright => v_r += if majority.is_some() { 3.5 } else { 1.5 },
            Some("NULL") | None => {}
            Some(top) => v_r += if majority.is_some_and(|m| m != top) { 2.0 } else { 0.0 },
        }
    }
    if tier == ProductTier::Strategy {
        let strategy = &root["strategy"];
        if strategy.is_object() {
            missing |= !is_text(&strategy["next_step"]) || !is_text(&strategy["alternative"]);
            missing |= !strategy["tests"].is_array();
            v_t += f64::from(u8::from(filled(&strategy["next_step"])));
            v_t += f64::from(u8::from(filled(&strategy["alternative"])));
            let none = vec![];
            let tests = strategy["tests"].as_array().unwrap_or(&none);
            let filled = tests.iter().filter(|test| strings(test).into_iter().any(filled)).count();
            v_t += 0.5 * f64::from(u32::try_from(filled.min(3)).expect("three at most"));
            v_r += if filled < 2 { 1.0 } else { 0.0 };
        } else {
            missing = true;
            v_r += 2.0;
        }
    }
    let e_d = if top.is_none() {
        1.0
    } else if missing {
        0.5
    } else {
        0.0
    };
    (f64::max(v_t, 1.0), v_r, e_d)
}

fn text() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => prop_oneof![Just("GREEN"), Just("AMBER"), Just("RED"), Just("NULL")].prop_map(Value::from),
        4 => "[a-zA-Zé \u{200b}\u{2800}\u{ad}]{0,14}".prop_map(Value::from),
        2 => "[ \u{200b}\u{2800}\u{ad}]{0,14}".prop_map(Value::from),
        1 => Just(json!("A longer text that says something.")),
        1 => prop_oneof![Just(json!(null)), Just(json!(4)), Just(json!([])), Just(json!({}))],
    ]
}

/// Objects with some of `fields`, each more often valid than invalid.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let members: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| prop_oneof![9 => value.prop_map(move |v| Some((name.to_owned(), v))), 1 => Just(None)])
        .collect();
    let object = members.prop_map(|m| Value::from(m.into_iter().flatten().collect::<Map<_, _>>()));
    prop_oneof![12 => object, 1 => text()].boxed()
}

/// Verdicts with faults of every kind and number.
pub(crate) fn any_verdict() -> BoxedStrategy<Value> {
    let dimension = || object(vec![("verdict", text().boxed()), ("analysis", text().boxed())]);
    let mut dimensions: Vec<_> = VerdictDimension::ALL.iter().map(|d| (d.into_str(), dimension())).collect();
    dimensions.push(("Mood", dimension()));
    // a test may have any members, at any depth
    let test = prop_oneof![text(), Just(json!({"what": "Sell one."})), Just(json!({"n": 1}))];
    let test = test.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..3)
                .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    });
    let tests = prop_oneof![9 => prop::collection::vec(test, 0..5).prop_map(Value::from), 1 => text()];
    object(vec![
        ("verdict", text().boxed()),
        ("summary", text().boxed()),
        ("breakdown", object(dimensions)),
        (
            "strategy",
            object(vec![
                ("next_step", text().boxed()),
                ("alternative", text().boxed()),
                ("tests", tests.boxed()),
            ]),
        ),
        ("mood", text().boxed()),
    ])
}

pub(crate) fn any_tier() -> impl Strategy<Value = ProductTier> {
    prop_oneof![Just(ProductTier::Quick), Just(ProductTier::Full), Just(ProductTier::Strategy)]
}

/// `value` as text, with the members of every object in reverse order.
fn reversed(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<_> =
                members.iter().rev().map(|(k, v)| format!("{}:{}", json!(k), reversed(v))).collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(reversed).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// 1,024 random cases, or the number in `PROPTEST_CASES`.
pub(crate) fn many_cases() -> ProptestConfig {
    let cases =
        if std::env::var_os("PROPTEST_CASES").is_some() { ProptestConfig::default().cases } else { 1024 };
    ProptestConfig { cases, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(many_cases())]

    #[test]
    fn mapping_matches_documented_tables(tier in any_tier(), verdict in any_verdict()) {
        let CrosscheckInspection { v_t, v_r, e_d, .. } = inspected(tier, &verdict);
        prop_assert_eq!((v_t, v_r, e_d), transcribed(tier, &verdict), "{}", verdict);
    }

    #[test]
    fn v_r_is_sum_of_flags_and_e_d_is_largest(tier in any_tier(), verdict in any_verdict()) {
        let CrosscheckInspection { v_r, e_d, flags, .. } = inspected(tier, &verdict);
        let (_, table_v_r, table_e_d) = transcribed(tier, &verdict);
        prop_assert_eq!(flags.iter().map(Flag::v_r).sum::<f64>(), table_v_r);
        prop_assert_eq!(flags.iter().map(Flag::e_d).fold(0.0, f64::max), table_e_d);
        prop_assert_eq!((v_r, e_d), (table_v_r, table_e_d));
    }

    #[test]
    fn decision_does_not_depend_on_field_order(tier in any_tier(), verdict in any_verdict()) {
        let turned = inspect(tier, &VerdictPayload::raw(&reversed(&verdict)));
        prop_assert_eq!(inspected(tier, &verdict), turned);
    }

    #[test]
    fn missing_field_never_passes(tier in any_tier(), verdict in any_verdict()) {
        let inspection = inspected(tier, &verdict);
        let decision = decide(&inspection);
        if inspection.e_d > 0.0 {
            prop_assert!(!decision.approved);
            prop_assert!(decision.coherence_score < OMEGA);
        }
        let approved = judge(tier, VerdictPayload::raw(&verdict.to_string())).outcome.is_ok();
        prop_assert_eq!(approved, decision.approved);
        prop_assert_eq!(decision.approved, decision.crosscheck_reason == CrosscheckReason::Pass);
        prop_assert_eq!(decision.approved, 1.0 - (inspection.e_d + inspection.v_r * PHI) / inspection.v_t >= OMEGA);
    }

    #[test]
    fn every_missing_required_field_is_flagged(tier in any_tier(), pick in any::<prop::sample::Index>()) {
        let mut paths = vec!["/verdict".to_owned(), "/summary".to_owned()];
        if tier >= ProductTier::Full {
            paths.push("/breakdown".into());
            for d in VerdictDimension::ALL {
                paths.extend([format!("/breakdown/{d}"), format!("/breakdown/{d}/verdict"), format!("/breakdown/{d}/analysis")]);
            }
        }
        if tier == ProductTier::Strategy {
            paths.extend(["/strategy", "/strategy/next_step", "/strategy/alternative", "/strategy/tests"].map(String::from));
        }
        let path = pick.get(&paths);
        let mut verdict = verdict(tier);
        let (parent, name) = path.rsplit_once('/').expect("a path");
        verdict.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object").remove(name);
        let decision = decided(tier, &verdict);
        prop_assert_eq!(decision.crosscheck_reason, CrosscheckReason::FieldMissing, "{}", path);
    }

    #[test]
    fn decide_is_total_over_arbitrary_text(tier in any_tier(), text in "\\PC{0,200}") {
        let judgment = judge(tier, VerdictPayload::raw(&text));
        prop_assert!(judgment.decision.coherence_score <= 1.0);
        prop_assert_eq!(judgment.outcome.is_ok(), judgment.decision.approved);
    }

    #[test]
    fn decide_is_total_over_a_verdict_cut_anywhere(tier in any_tier(), cut in any::<prop::sample::Index>()) {
        let whole = verdict(tier).to_string();
        let cut = cut.index(whole.len());
        let judgment = judge(tier, VerdictPayload::raw(whole.get(..cut).expect("the text is ASCII")));
        prop_assert_eq!(words(&judgment.decision.flags), ["malformed_json", "degenerate_manifold"]);
    }
}

#[test]
fn unexpected_members_are_stripped_rejected_or_delivered() {
    let text = r#"{"verdict":"GREEN", "x":1, "summary":"A sound and simple plan."}"#;
    let stripped = r#"{"verdict":"GREEN", "summary":"A sound and simple plan."}"#;
    for (unexpected, delivered) in [
        (UnexpectedFieldHandling::Strip, Some(stripped)),
        (UnexpectedFieldHandling::Refuse, None),
        (UnexpectedFieldHandling::Deliver, Some(text)),
    ] {
        let judgment = judge_with(unexpected, ProductTier::Quick, VerdictPayload::raw(text));
        assert_eq!(words(&judgment.decision.flags), ["unexpected_field:x"]);
        assert_eq!(judgment.decision.approved, delivered.is_some());
        let reason =
            if delivered.is_some() { CrosscheckReason::Pass } else { CrosscheckReason::UnexpectedField };
        assert_eq!(judgment.decision.crosscheck_reason, reason);
        let approved = judgment.outcome.ok();
        assert_eq!(approved.as_ref().map(|approved| approved.verdict().get()), delivered);
        assert_eq!(judgment.sha256, Sha256Hex::of(delivered.unwrap_or(text).as_bytes()));
        assert!(approved.is_none_or(|approved| *approved.sha256() == judgment.sha256));
    }
    // a verdict that is refused for another reason keeps that reason
    let judgment =
        judge_with(UnexpectedFieldHandling::Refuse, ProductTier::Quick, VerdictPayload::raw(r#"{"x":1}"#));
    assert_eq!(judgment.decision.crosscheck_reason, CrosscheckReason::FieldMissing);
}

proptest! {
    #[test]
    fn stripped_verdict_is_the_judged_part_of_the_original(tier in any_tier(), verdict in any_verdict()) {
        let judgment = judge(tier, VerdictPayload::raw(&verdict.to_string()));
        if let Ok(approved) = judgment.outcome {
            let delivered = VerdictPayload::json(approved.verdict());
            let again = judge_with(UnexpectedFieldHandling::Refuse, tier, delivered);
            prop_assert!(again.outcome.is_ok(), "{}", approved.verdict());
            prop_assert_eq!((again.inspection.v_t, again.inspection.v_r), (judgment.inspection.v_t, judgment.inspection.v_r));
        }
    }
}
