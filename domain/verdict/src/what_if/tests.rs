use super::*;
use serde_json::{Value, json};

fn line(seq: u64, event: &str, members: Value) -> String {
    let mut entry = json!({"session_id": "cs_1", "timestamp": "2026-11-20T10:00:00Z"});
    entry.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
    let rest = entry.to_string();
    format!("{{\"seq\":{seq},\"event\":\"{event}\",{}", rest.trim_start_matches('{'))
}

fn crosscheck(seq: u64, approved: bool, members: Value) -> String {
    let mut all = json!({
        "tier": "quick", "path": "submit", "approved": approved, "verdict_label": "GREEN", "flags": [], "v_t": 2.0,
        "verdict_sha256": Sha256Hex::of(b"text"),
    });
    all.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
    line(seq, "tmm_crosscheck", all)
}

fn rules(seq: u64, verdict: &str, facts: &[String]) -> String {
    let rules = json!([{"rule": "RULE-PREC-001", "verdict": verdict, "violations": 0}]);
    let facts_sha256 = FactSet::sha256_of(facts);
    line(seq, "rules_evaluated", json!({"verdict": verdict, "rules": rules, "facts_sha256": facts_sha256}))
}

fn policy(seq: u64, action: &str) -> String {
    let members =
        json!({"action": action, "causes": ["few_tests"], "verdict_sha256": Sha256Hex::of(b"text")});
    line(seq, "policy_applied", members)
}

fn read(lines: &[String]) -> Vec<LoggedGateDecision> {
    let mut reader = GateDecisionReader::default();
    let read = lines.iter().filter_map(|line| reader.read(line).expect("an entry")).collect::<Vec<_>>();
    read.into_iter().chain(reader.finish()).collect()
}

#[test]
fn decision_has_the_entries_of_its_record_only() {
    let other = json!({"session_id": "cs_2"});
    let decisions = read(&[
        policy(1, "hold"),
        crosscheck(2, true, json!({})),
        rules(3, "FAIL", &[]),
        rules(4, "PASS", &[]),
        policy(5, "hold"),
        line(6, "order_stopped", json!({})),
        policy(7, "refuse"),
        crosscheck(8, true, json!({"path": "check"})),
        crosscheck(9, true, other),
        rules(10, "FAIL", &[]),
        crosscheck(11, true, json!({})),
        line(12, "crosscheck_error", json!({})),
        crosscheck(13, false, json!({})),
        crosscheck(14, true, json!({})),
    ]);
    let outcomes: Vec<_> = decisions.iter().map(|decision| (decision.seq, decision.outcome())).collect();
    let expected = [
        (2, GateOutcome::Held),
        (9, GateOutcome::Approved),
        (13, GateOutcome::Rejected),
        (14, GateOutcome::Approved),
    ];
    assert_eq!(outcomes, expected);
}

/// The result without a text.
#[test]
fn opinion_is_a_decision_if_the_gate_decides_on_its_text() {
    let about = |text: &str| json!({"verdict_sha256": Sha256Hex::of(text.as_bytes()), "path": "generate"});
    let opinion = |seq: u64, text: &str| {
        [crosscheck(seq, true, about(text)), line(seq + 1, "order_opinion", about(text))]
    };
    let cached = |seq: u64, text: &str| line(seq, "verdict_cached", about(text));
    let outcomes = |lines: Vec<String>| {
        let decisions = read(&lines);
        decisions.iter().map(|decision| (decision.seq, decision.outcome())).collect::<Vec<_>>()
    };
    // the policy holds the first of three answers
    let held = [opinion(1, "text"), opinion(3, "b"), opinion(5, "c")].concat();
    let held =
        [held, vec![policy(7, "hold"), line(8, "order_stopped", json!({})), cached(9, "text")]].concat();
    assert_eq!(outcomes(held), [(1, GateOutcome::Held)]);
    let delivered = [opinion(1, "a"), opinion(3, "b"), opinion(5, "a")].concat();
    let delivered = [delivered, vec![cached(7, "a")], vec![crosscheck(8, false, json!({}))]].concat();
    assert_eq!(outcomes(delivered), [(1, GateOutcome::Approved), (8, GateOutcome::Rejected)]);
    // no label is agreed
    assert_eq!(outcomes([opinion(1, "a"), opinion(3, "b")].concat()), []);
}

#[test]
fn decision_before_an_unreadable_entry_is_damaged_unless_that_begins_another() {
    let (settings, policies) = (RuleSettings::default(), DeliveryPolicies::default());
    let gate = WhatIfGate {
        unexpected_fields: UnexpectedFieldHandling::Strip,
        policies: &policies,
        rules: None,
        wordlist: None,
        changes_checks: false,
        settings: &settings,
    };
    let mut reader = GateDecisionReader::default();
    for (skipped, expected) in [
        (None, Err(NotCalculatedCause::Damaged)),
        (Some(line(2, "policy_applied", json!({}))), Err(NotCalculatedCause::Damaged)),
        (Some(line(2, "tmm_crosscheck", json!({}))), Ok(GateOutcome::Approved)),
    ] {
        reader.read(&crosscheck(1, true, json!({}))).expect("an entry");
        if let Some(line) = &skipped {
            reader.read(line).expect_err("it lacks members");
        }
        let decision = reader.skip(skipped.as_deref()).expect("a decision");
        let now = gate.calculate(&decision, &StoredInputs::default()).map(|now| now.outcome);
        assert_eq!(now, expected, "{skipped:?}");
    }
    assert_eq!(reader.finish(), None);
}

fn calculated(
    lines: &[String],
    stored: &StoredInputs,
    change: impl FnOnce(&mut WhatIfGate<'_>, &mut DeliveryPolicies),
) -> Result<GateOutcome, NotCalculatedCause> {
    let settings = RuleSettings::default();
    let (mut policies, unused) = (DeliveryPolicies::default(), DeliveryPolicies::default());
    let mut gate = WhatIfGate {
        unexpected_fields: UnexpectedFieldHandling::Strip,
        policies: &unused,
        rules: None,
        wordlist: None,
        changes_checks: false,
        settings: &settings,
    };
    change(&mut gate, &mut policies);
    let gate = WhatIfGate { policies: &policies, ..gate };
    let decision = read(lines).pop().expect("a decision");
    gate.calculate(&decision, stored).map(|now| now.outcome)
}

fn require(rule: RuleId) -> impl FnOnce(&mut WhatIfGate<'_>, &mut DeliveryPolicies) {
    move |_, policies| policies.common.entry(ProductTier::Quick).or_default().rules = vec![rule]
}

#[test]
fn logged_results_of_rules_count_if_they_determine_the_result() {
    use GateOutcome::{Approved, Failed};
    use NotCalculatedCause::{Erased, FactsNotStored, TextNotStored};
    let none = StoredInputs::default();
    let facts = ["a".to_owned()];
    let judged = || crosscheck(1, true, json!({}));
    let without = [judged()];
    assert_eq!(calculated(&without, &none, |_, _| {}), Ok(Approved));
    assert_eq!(calculated(&without, &none, require(RuleId::Prec001)), Err(TextNotStored));
    // rules that a policy required, without facts
    let failed = [judged(), rules(2, "FAIL", &[])];
    assert_eq!(calculated(&failed, &none, |_, _| {}), Ok(Approved));
    assert_eq!(calculated(&failed, &none, require(RuleId::Prec001)), Ok(Failed));
    // a request with facts that are not stored
    let passed = [judged(), rules(2, "PASS", &facts)];
    assert_eq!(calculated(&passed, &none, require(RuleId::Prec001)), Ok(Approved));
    assert_eq!(calculated(&passed, &none, require(RuleId::Prec003)), Err(TextNotStored));
    assert_eq!(calculated(&passed, &none, |gate, _| gate.changes_checks = true), Err(FactsNotStored));
    let failed = [judged(), rules(2, "FAIL", &facts)];
    assert_eq!(calculated(&failed, &none, |_, _| {}), Err(FactsNotStored));
    // its check is stored
    let rule_ids = Some(vec![RuleId::Prec001]);
    let check = CandidateCheck { facts: facts.to_vec(), rules: rule_ids, ..CandidateCheck::default() };
    let stored = |check: &CandidateCheck, on_day: Option<&CandidateCheck>| StoredInputs {
        check: Some(Arc::new(check.clone())),
        check_on_day: on_day.map(|check| Ok(check.clone())),
        ..StoredInputs::default()
    };
    assert_eq!(calculated(&failed, &stored(&check, None), |_, _| {}), Ok(Failed));
    assert_eq!(calculated(&failed, &stored(&check, Some(&check)), |_, _| {}), Ok(Failed));
    let other = CandidateCheck { facts: vec!["b".to_owned()], ..check.clone() };
    assert_eq!(calculated(&failed, &stored(&other, None), |_, _| {}), Err(FactsNotStored));
    assert_eq!(calculated(&failed, &stored(&check, Some(&other)), |_, _| {}), Err(TextNotStored));
    let rules = |rules| move |gate: &mut WhatIfGate<'_>, _: &mut DeliveryPolicies| gate.rules = Some(rules);
    assert_eq!(calculated(&failed, &stored(&check, None), rules(&[RuleId::Prec004])), Err(TextNotStored));
    let hash = json!({"sha256": Sha256Hex::of(b"x")});
    let erased = [crosscheck(1, true, json!({"flags": hash}))];
    assert_eq!(calculated(&erased, &none, |_, _| {}), Err(Erased));
    assert_eq!(
        calculated(&[crosscheck(1, true, json!({"session_id": hash}))], &none, |_, _| {}),
        Err(Erased)
    );
}

#[test]
fn unexpected_members_decide_only_by_their_handling() {
    use GateOutcome::{Approved, Rejected};
    let none = StoredInputs::default();
    let flags = json!({"flags": ["unexpected_field:mood"]});
    let refused = [crosscheck(1, false, flags.clone())];
    assert_eq!(calculated(&refused, &none, |_, _| {}), Ok(Approved));
    let refuse = |gate: &mut WhatIfGate<'_>, _: &mut DeliveryPolicies| {
        gate.unexpected_fields = UnexpectedFieldHandling::Refuse;
    };
    assert_eq!(calculated(&[crosscheck(1, true, flags.clone())], &none, refuse), Ok(Rejected));
    let passed = [crosscheck(1, true, flags), rules(2, "PASS", &[])];
    let deliver = |gate: &mut WhatIfGate<'_>, policies: &mut DeliveryPolicies| {
        require(RuleId::Prec001)(gate, policies);
        gate.unexpected_fields = UnexpectedFieldHandling::Deliver;
    };
    assert_eq!(calculated(&passed, &none, deliver), Err(NotCalculatedCause::CutMembers));
}
