use crate::testing::{TestSystem, logged_events, with_system};
use actors_audit::logger::CommitError;
use actors_ground::queries::ProcessorPool;
use actors_rules::*;
use domain_rules::{CandidateCheck, RuleSettings, RulesEvaluation};
use prometheus_client::registry::Registry;
use std::sync::Arc;

fn case(text: &str, facts: &[String]) -> EvaluationCase {
    let check = Arc::new(CandidateCheck { facts: facts.to_vec(), ..CandidateCheck::default() });
    EvaluationCase { id: None, candidate_output: text.to_owned(), check }
}

fn verdicts(evaluations: &[RulesEvaluation]) -> Vec<&'static str> {
    evaluations.iter().map(|evaluation| evaluation.verdict.into_str()).collect()
}

#[test]
fn evaluations_of_any_size_are_in_order_and_in_one_commit() {
    with_system(|TestSystem { system, .. }| async move {
        let small = ["Ice melts.".to_owned()];
        let large: Vec<String> = (0..10_000).map(|n| format!("Fact number {n} holds.")).collect();
        let cases = vec![
            case("Ice melts", &small),
            case("Fact number 9999 holds", &large),
            case("Ice burns", &small),
            case("Fact number 10000 holds", &large),
        ];
        let evaluations = system.rules.evaluate(cases).await.expect("the evaluation succeeds");
        assert_eq!(verdicts(&evaluations), ["PASS", "PASS", "FAIL", "FAIL"]);
        assert_eq!(logged_events(&system.store), ["rules_evaluated"; 4]);
    });
}

#[test]
fn evaluation_fails_if_it_cannot_be_logged() {
    with_system(|world| async move {
        world.break_store();
        let facts = ["Ice melts.".to_owned()];
        let reported = world.system.rules.evaluate(vec![case("Ice melts", &facts)]).await;
        assert!(
            matches!(reported, Err(EvaluationError::Commit(CommitError::Unavailable(_)))),
            "{reported:?}"
        );
        let lines = world.fallback_lines.lock().expect("the lock is not poisoned").clone();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines.iter().all(|line| line.contains("rules_evaluated")), "{lines:?}");
    });
}

#[test]
fn fact_set_that_has_grown_is_weighed_again() {
    with_system(|TestSystem { system, .. }| async move {
        let config = RulesConfig { settings: RuleSettings::default(), compiled_bytes: 1 << 20 };
        let metrics = RuleMetrics::register(&mut Registry::default());
        let (store, log, clock) = (system.store.clone(), system.log.clone(), system.clock.clone());
        let rules = RuleService::new(config, ProcessorPool::default(), store, log, clock, metrics);
        let facts: Vec<String> = (0..50).map(|n| format!("Fact number {n} holds, and is known.")).collect();
        let weight = async |rule: &str| {
            let rule_ids = Some(vec![rule.parse().expect("a rule")]);
            let check = CandidateCheck { rules: rule_ids, facts: facts.clone(), ..CandidateCheck::default() };
            let candidate_output = "Fact number 7 holds".to_owned();
            let case = EvaluationCase { id: None, candidate_output, check: Arc::new(check) };
            let evaluated = rules.evaluate(vec![case]).await.expect("the evaluation succeeds");
            assert_eq!(verdicts(&evaluated), ["PASS"]);
            rules.compiled_bytes()
        };
        let published = weight("RULE-PREC-001").await;
        let whole_words = weight("RULE-PREC-013").await;
        assert!(whole_words > published + published / 2, "{whole_words} after {published} bytes");
        assert_eq!(weight("RULE-PREC-001").await, whole_words);
    });
}
