use crate::testing::{TestSystem, logged_events, with_system};
use actors_audit::logger::CommitError;
use actors_ground::queries::ProcessorPool;
use actors_rules::*;
use domain_rules::{CandidateCheck, CandidateText, FactSet, RuleSettings, RulesEvaluation, evaluate};
use prometheus_client::registry::Registry;
use std::sync::Arc;

fn case(text: &str, facts: &[String]) -> EvaluationCase {
    let check = Arc::new(CandidateCheck { facts: facts.to_vec(), ..CandidateCheck::default() });
    EvaluationCase { id: None, candidate_output: text.to_owned(), check }
}

fn rule_runner(system: &crate::system::ActorSystem) -> Arc<RuleRunner> {
    let config = RulesConfig { settings: RuleSettings::default(), compiled_bytes: 1 << 20 };
    RuleService::new(
        config,
        ProcessorPool::default(),
        system.log.clone(),
        system.clock.clone(),
        RuleMetrics::register(&mut Registry::default()),
    )
    .runner
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
fn fact_set_is_compiled_once() {
    let compiled = FactSetCache::new(1 << 20, RuleMetrics::register(&mut Registry::default()));
    let facts = ["Ice melts.".to_owned()];
    let first = compiled.get_or_compile(&facts);
    assert!(Arc::ptr_eq(&first, &compiled.get_or_compile(&facts)));
    assert!(
        !Arc::ptr_eq(&first, &compiled.get_or_compile(&["Ice melts".to_owned()])),
        "a stop makes another fact"
    );
}

#[test]
fn fact_set_that_has_grown_is_weighed_again() {
    with_system(|TestSystem { system, .. }| async move {
        let runner = rule_runner(&system);
        let facts: Vec<String> = (0..50).map(|n| format!("Fact number {n} holds, and is known.")).collect();
        let check = |rules: &str| {
            let rules = Some(vec![rules.parse().expect("a rule")]);
            Arc::new(CandidateCheck { facts: facts.clone(), rules, ..CandidateCheck::default() })
        };
        let weight = async |rules: &str| {
            let work = |check: &CandidateCheck, facts: &FactSet, settings: &RuleSettings| {
                evaluate(&CandidateText::text("Fact number 7 holds"), check, facts, settings)
            };
            let evaluated =
                Arc::clone(&runner).run(19, check(rules), work).await.expect("the evaluation succeeds");
            assert_eq!(verdicts(&[evaluated]), ["PASS"]);
            runner.compiled.weight_bytes()
        };
        let published = weight("RULE-PREC-001").await;
        let whole_words = weight("RULE-PREC-005").await;
        assert!(whole_words > published + published / 2, "{whole_words} after {published} bytes");
        assert_eq!(weight("RULE-PREC-001").await, whole_words);
    });
}
