//! Several opinions on the verdict of one order.

use super::fallbacks::open_circuit;
use super::policy::{is_on_hold, place_hold};
use super::*;
use crate::testing::model::configured;
use crate::testing::{TestServices, test_model_id, with_services};
use domain_verdict::label::ProductTier;
use domain_verdict::opinion::{OpinionPlan, OpinionTally};
use domain_verdict::order::OrderAttempt;
use domain_verdict::policy::{DeliveryPolicy, PerTier};

const GREEN: VerdictLabel = VerdictLabel::Green;
const RED: VerdictLabel = VerdictLabel::Red;

/// An answer with a text of its own.
fn answer(label: VerdictLabel, text: &str) -> Result<String, ModelTextError> {
    Ok(format!(r#"{{"verdict":"{label}","summary":"A sound and simple plan {text}."}}"#))
}

/// Two models, of which `agree` of `count` opinions must agree.
fn services(
    [first, backup]: [&Arc<ScriptedModel>; 2],
    (count, agree): (u32, u32),
    time: &TestClock,
) -> TestServices {
    let mut outside = outside(first, time);
    let (oracle, model) = configured(backup, "backup", "claude-made-up", time);
    outside.oracles.push(oracle);
    // it makes first verdicts only for opinions
    outside.models.others.push(model);
    let models = vec![test_model_id(), "backup".parse().expect("an id")];
    let plan = OpinionPlan { count, agree, models, holds_disagreed: true };
    outside.opinions = PerTier { common: [(ProductTier::Quick, Some(plan))].into(), ..PerTier::default() };
    outside
}

fn with_opinions<F: Future<Output = ()>>(
    [first, backup]: [Vec<Result<String, ModelTextError>>; 2],
    numbers: (u32, u32),
    test: impl FnOnce(TestSystem, [Arc<ScriptedModel>; 2]) -> F,
) {
    let (first, backup) = (ScriptedModel::with_answers(first), ScriptedModel::with_answers(backup));
    let time = TestClock::new();
    let outside = services([&first, &backup], numbers, &time);
    with_services(time, outside, |world| test(world, [first, backup]));
}

/// Runs `test` with an order whose second opinion is being requested: [`answer_one`] gives it.
fn with_second_call<F: Future<Output = ()>>(
    numbers: (u32, u32),
    test: impl FnOnce(TestSystem, Arc<ScriptedModel>, watch::Receiver<Order>) -> F,
) {
    let (first, backup) =
        (ScriptedModel::with_answers([answer(GREEN, "1")]), held_model([answer(GREEN, "2")]));
    let time = TestClock::new();
    let outside = services([&first, &backup], numbers, &time);
    with_services(time, outside, |world| async move {
        let (progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        until_called(&backup, 1).await;
        test(world, backup, progress).await;
    });
}

fn calls(models: &[Arc<ScriptedModel>; 2]) -> [usize; 2] {
    [models[0].calls(), models[1].calls()]
}

fn numbers(tally: &OpinionTally) -> Vec<(String, VerdictLabel, u32, u32)> {
    let shares = tally.shares.iter();
    shares.map(|s| (s.oracle_id.to_string(), s.verdict_label, s.opinions, s.of)).collect()
}

fn delivered_text(world: &TestSystem) -> String {
    let verdict = world.system.store.verdict(&id("cs_1")).expect("the verdict is readable");
    verdict.expect("a verdict is cached").0.approved.verdict().get().to_owned()
}

fn outcomes(order: &Order) -> Vec<GenerationOutcome> {
    order.last_attempts.iter().filter_map(|OrderAttempt { outcome, .. }| *outcome).collect()
}

#[test]
fn first_answer_with_the_agreed_label_is_delivered() {
    let answers = [vec![answer(RED, "1"), answer(GREEN, "3")], vec![answer(GREEN, "2")]];
    let second = answers[1][0].clone().expect("an answer");
    with_opinions(answers, (3, 2), |world, models| async move {
        let order = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!((order.state, order.attempts, calls(&models)), (OrderState::Delivered, 3, [2, 1]));
        use GenerationOutcome::{Delivered, Opinion};
        assert_eq!(outcomes(&order), [Opinion, Delivered, Opinion]);
        assert_eq!(delivered_text(&world), second, "byte for byte the text of one model");
        let tally = order.opinions.clone().expect("opinions");
        assert_eq!(tally.agreed_label, Some(GREEN));
        let first = test_model_id().to_string();
        let expected = [("backup".into(), GREEN, 1, 1), (first.clone(), GREEN, 1, 2), (first, RED, 1, 2)];
        assert_eq!(numbers(&tally), expected);

        // the session has the settings of the delivered answer, which is not the last one
        let (session, _) = world.system.store.session(&id("cs_1")).expect("readable").expect("it exists");
        let original = session.original.expect("a first verdict");
        assert_eq!(original.settings.expect("known settings").model, "claude-made-up");
        let events = logged_events(&world.system.store);
        let attempt = ["order_attempted", "oracle_interaction", "tmm_crosscheck", "order_opinion"];
        let expected =
            [&["order_placed"][..], &attempt, &attempt, &attempt, &["verdict_cached", "order_delivered"]];
        assert_eq!(events, expected.concat());
    });
}

#[test]
fn no_further_model_is_asked_once_the_opinions_agree() {
    with_opinions([vec![answer(GREEN, "1")], vec![answer(GREEN, "2")]], (3, 2), |world, models| async move {
        let order = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!((order.state, calls(&models)), (OrderState::Delivered, [1, 1]));
        assert!(delivered_text(&world).contains("plan 1"));
    });
}

#[test]
fn order_with_different_opinions_is_held_and_begins_again_when_it_is_retried() {
    let answers = [vec![answer(GREEN, "1"), answer(GREEN, "3")], vec![answer(RED, "2"), answer(GREEN, "4")]];
    with_opinions(answers, (2, 2), |world, models| async move {
        let held = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!((held.state, held.stop_cause), (OrderState::Held, Some(OrderStopCause::NoAgreement)));
        assert_eq!(calls(&models), [1, 1]);
        assert!(world.system.store.verdict(&id("cs_1")).expect("readable").is_none());
        assert_eq!(logged_events(&world.system.store).last().map(String::as_str), Some("order_stopped"));

        let retried = change(&world, "cs_1", OrderAction::Retry).await.expect("it is retried");
        assert_eq!(retried.order.and_then(|order| order.opinions), None);
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        let order = wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!((order.attempts, calls(&models)), (4, [2, 2]));
        assert!(delivered_text(&world).contains("plan 3"));
    });
}

#[test]
fn rejected_answer_is_no_opinion_and_the_same_model_is_asked_again() {
    let answers = [
        vec![Ok(UNUSABLE.to_owned()), answer(GREEN, "1")],
        vec![Ok(UNUSABLE.to_owned()), answer(GREEN, "2")],
    ];
    // two rejected answers would end an order with one opinion
    with_opinions(answers, (2, 2), |world, models| async move {
        let order = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!((order.state, calls(&models)), (OrderState::Delivered, [2, 2]));
        use GenerationOutcome::{Delivered, Opinion, Rejected};
        assert_eq!(outcomes(&order), [Rejected, Delivered, Rejected, Opinion]);
        // each opinion begins with the first prompt and the first settings
        for model in &models {
            assert_eq!(
                model.settings().iter().map(|s| s.temperature).collect::<Vec<_>>(),
                [Some(0.7), Some(0.4)]
            );
        }
    });
}

#[test]
fn open_order_has_its_answers_only_encrypted_and_survives_a_restart() {
    let backup = held_model([answer(GREEN, "q7xSecond7z")]);
    let first = ScriptedModel::with_answers([answer(GREEN, "q7xFirst7z")]);
    let time = TestClock::new();
    let outside = services([&first, &backup], (2, 2), &time);
    let (again, other) =
        (ScriptedModel::with_answers([]), ScriptedModel::with_answers([answer(GREEN, "later")]));
    let after = services([&again, &other], (2, 2), &time);
    with_services(time, outside, |world| async move {
        place_order(&world, submission_of_query("Sell honey?")).await;
        until_called(&backup, 1).await;
        let order = stored(&world, "cs_1");
        assert_eq!((order.state, order.open_opinions.len()), (OrderState::Generating, 1));
        assert!(order.open_opinions[0].answer.is_some());
        let text = serde_json::to_string(&order).expect("plain data");
        assert!(!text.contains("q7xFirst7z"), "{text}");

        // the attempt of the second model is cut off, and neither lost nor counted as an opinion
        let world = world.restarted(after).await;
        // the pause after the interruption begins when the order is found
        while stored(&world, "cs_1").state.is_open() {
            world.time.advance(10);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let ended = stored(&world, "cs_1");
        assert_eq!((ended.state, ended.open_opinions.len()), (OrderState::Delivered, 0));
        use GenerationOutcome::{Delivered, Interrupted, Opinion};
        assert_eq!(outcomes(&ended), [Delivered, Interrupted, Opinion]);
        assert_eq!((again.calls(), other.calls()), (0, 1));
        assert!(delivered_text(&world).contains("q7xFirst7z"));
    });
}

#[test]
fn last_answer_is_delivered_if_the_first_one_cannot_be_decrypted() {
    with_second_call((2, 2), |world, backup, mut progress| async move {
        std::fs::remove_file(world.dir.join("held.key")).expect("the key is there");
        answer_one(&backup);
        wait_for(&mut progress, OrderState::Delivered).await;
        assert!(delivered_text(&world).contains("plan 2"));
    });
}

#[test]
fn agreed_answer_is_held_by_the_policy_with_its_own_text() {
    let flagged = r#"{"verdict":"GREEN","summary":"Short."}"#;
    let (first, backup) = (
        ScriptedModel::with_answers([Ok(flagged.to_owned())]),
        ScriptedModel::with_answers([answer(GREEN, "2")]),
    );
    let time = TestClock::new();
    let hold = vec!["short_summary".parse().expect("a flag")];
    let policy = DeliveryPolicy { hold, ..DeliveryPolicy::default() };
    let policies = PerTier { common: [(ProductTier::Quick, policy)].into(), ..PerTier::default() };
    let outside = TestServices { policies, ..services([&first, &backup], (2, 2), &time) };
    with_services(time, outside, |world| async move {
        let held = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!((held.state, held.stop_cause), (OrderState::Held, Some(OrderStopCause::Policy)));
        assert_eq!(held.opinions.and_then(|tally| tally.agreed_label), Some(GREEN));
        change(&world, "cs_1", OrderAction::Release).await.expect("it is released");
        assert_eq!(delivered_text(&world), flagged);
    });
}

#[test]
fn cancelled_order_discards_an_opinion_and_those_before() {
    with_second_call((3, 2), |world, backup, _| async move {
        change(&world, "cs_1", OrderAction::Cancel).await.expect("it is cancelled");
        answer_one(&backup);
        while !logged_events(&world.system.store).contains(&"order_attempt_failed".to_owned()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let order = stored(&world, "cs_1");
        assert_eq!((order.state, order.open_opinions.len()), (OrderState::Cancelled, 0));
        let opinions = logged_events(&world.system.store);
        assert_eq!(opinions.iter().filter(|event| *event == "order_opinion").count(), 1);
    });
}

#[test]
fn open_order_of_a_session_on_hold_keeps_its_opinions() {
    with_second_call((2, 2), |world, backup, mut progress| async move {
        place_hold(&world).await;
        let refused = change(&world, "cs_1", OrderAction::Cancel).await;
        assert!(is_on_hold(&refused), "{refused:?}");
        assert_eq!(stored(&world, "cs_1").open_opinions.len(), 1);
        answer_one(&backup);
        wait_for(&mut progress, OrderState::Delivered).await;
    });
}

#[test]
fn order_waits_for_the_model_whose_turn_it_is_and_blocks_no_other_order() {
    with_opinions([Vec::new(), Vec::new()], (2, 2), |world, models| async move {
        open_circuit(&world, "backup".parse().expect("an id")).await;
        let mut orders = Vec::new();
        for session_id in ["cs_1", "cs_2"] {
            let submission = Submission { session_id: id(session_id), ..submission_of_query("Sell honey?") };
            orders.push(place_order(&world, submission).await.0);
        }
        for progress in &mut orders {
            let has_opinion = |order: &Order| order.open_opinions.len() == 1;
            progress.wait_for(has_opinion).await.expect("the first model gives its opinion");
        }
        assert_eq!(calls(&models), [2, 0]);
        while world.system.order_waits.of(&id("cs_1")).is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let wait = world.system.order_waits.of(&id("cs_1")).expect("the order waits");
        assert_eq!(wait.cause, GenerationOutcome::CircuitOpen);
        for progress in &mut orders {
            while progress.borrow_and_update().state != OrderState::Delivered {
                world.time.advance(60);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        assert_eq!(calls(&models), [2, 2]);
    });
}
