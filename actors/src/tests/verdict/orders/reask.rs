//! Rejected answers that are asked again with their faults.

use super::*;
use actors_verdict::generation::find_prompt;
use domain_rules::RuleId;
use domain_verdict::label::ProductTier;
use domain_verdict::prompt::REJECTION_PLACEHOLDER;
use domain_verdict::query::CustomerQuery;
use oracled_store::Store;

/// A verdict whose first claim [`GOOD_FACT`] does not support.
const UNFOUNDED: &str = r#"{"verdict":"GREEN","summary":"Cows moo loudly. A sound and simple plan."}"#;
const CLAIM: &str = "Cows moo loudly";

fn prompts(model: &ScriptedModel) -> Vec<String> {
    let requests = model.requests.lock().expect("the lock is not poisoned");
    requests.iter().map(|(prompt, _)| prompt.clone()).collect()
}

fn first_prompt(store: &Store) -> String {
    let query = CustomerQuery::new("Sell honey?".into());
    let prompt = find_prompt(store, &PromptTemplate::built_in_name(), ProductTier::Quick, &query);
    prompt.expect("the built-in template has the tier").text().to_owned()
}

#[test]
fn answer_rejected_by_the_crosscheck_is_asked_again_with_its_flags() {
    let model = ScriptedModel::with_answers([
        Ok(UNUSABLE.to_owned()),
        verdict(VerdictLabel::Green),
        verdict(VerdictLabel::Green),
    ]);
    with_model(model, |world, model| async move {
        let order = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!((order.state, order.attempts), (OrderState::Delivered, 2));
        let (prompts_, first) = (prompts(&model), first_prompt(&world.system.store));
        assert_eq!(prompts_[0], first);
        assert!(!first.contains(REJECTION_PLACEHOLDER));
        let faults = r#"["short_summary"]"#;
        assert!(prompts_[1].contains(faults) && prompts_[1].starts_with(&first[..40]), "{}", prompts_[1]);
        let rejection = order.last_attempts[0].rejection.clone().expect("the answer was rejected");
        assert_eq!((rejection.to_string().as_str(), order.open_rejection), ("short_summary", None));

        let (session, _) = world.system.store.session(&id("cs_1")).expect("readable").expect("it exists");
        let original = session.original.expect("a first verdict");
        assert!(original.reasked);
        let digest = domain_base::digest::Sha256Hex::of(first.as_bytes());
        assert_eq!(original.prompt.map(|prompt| prompt.sha256), Some(digest));

        // the regeneration is made without the rejection
        lose_verdict(&world, "cs_1").await;
        let read = world.system.regen.ask(RegenerateVerdict(id("cs_1"))).await.expect("the actor answers");
        let Ok(SubmissionOutcome::Regenerated(cached, check)) = read else { panic!("{read:?}") };
        assert_eq!(prompts(&model)[2], first);
        assert!(check.reasked && check.prompt_changed == Some(false), "{check:?}");
        let document: serde_json::Value = serde_json::from_slice(&cached.body).expect("valid JSON");
        assert!(document["reasked"] == true && document["notice"].is_string(), "{document}");
    });
}

#[test]
fn answer_rejected_by_the_rules_is_asked_again_with_its_claims_after_a_failure() {
    let model = ScriptedModel::with_answers([
        Ok(UNFOUNDED.to_owned()),
        failure(RequestFailureKind::Status(503)),
        verdict(VerdictLabel::Green),
    ]);
    with_model(model, |world, model| async move {
        let submission = Submission { check: check(GOOD_FACT), ..submission_of_query("Sell honey?") };
        let (mut progress, _) = place_order(&world, submission).await;
        let has_failed = |order: &Order| order.state == OrderState::Queued && order.attempts == 2;
        progress.wait_for(has_failed).await.expect("the second attempt fails");
        let waiting = stored(&world, "cs_1");
        let rejection = waiting.last_attempts[0].rejection.clone().expect("the answer was rejected");
        let rules: Vec<_> = rejection.rules.iter().map(|rule| (rule.rule, rule.claims.clone())).collect();
        assert!(rules.contains(&(RuleId::Prec001, vec![1])), "{rules:?}");
        let cause = waiting.last_attempts[0].cause.clone().unwrap_or_default().reveal().to_owned();
        assert!(cause.contains("RULE-PREC-001"), "{cause}");
        let open = waiting.open_rejection.expect("the order is open");
        assert!(open.sealed_claims.is_some_and(|sealed| !sealed.contains("Cows")));
        let stored_text = serde_json::to_string(&stored(&world, "cs_1")).expect("plain data");
        assert!(!stored_text.contains("Cows"), "{stored_text}");

        world.time.advance(60);
        let order = wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!((order.attempts, order.open_rejection), (3, None));
        let prompts = prompts(&model);
        assert!(!prompts[0].contains(CLAIM));
        for again in &prompts[1..] {
            assert!(again.contains(r#"{"rule": "RULE-PREC-001", "claims": ["Cows moo loudly"]}"#), "{again}");
        }
    });
}

#[test]
fn template_without_a_place_for_the_rejection_sends_the_same_prompt_again() {
    let model = ScriptedModel::with_answers([Ok(UNFOUNDED.to_owned()), verdict(VerdictLabel::Green)]);
    with_house_template(model, |world, model| async move {
        register_template(&world, 1, json!({"quick": "Judge: {{query}}"})).await;
        let submission = Submission { check: check(GOOD_FACT), ..submission_of_query("Sell honey?") };
        let (mut progress, _) = place_order(&world, submission).await;
        wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!(prompts(&model), ["Judge: \"Sell honey?\"", "Judge: \"Sell honey?\""]);
        let (session, _) = world.system.store.session(&id("cs_1")).expect("readable").expect("it exists");
        assert!(session.original.is_some_and(|original| !original.reasked));
    });
}
