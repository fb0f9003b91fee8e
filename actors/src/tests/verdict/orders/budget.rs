//! The daily budget for model calls.

use super::*;
use crate::testing::model::{configured, lose_verdict};
use crate::testing::{TestClock, test_model_id, with_services};
use actors_verdict::generation::ConfiguredModel;
use actors_verdict::rate_limiter::{CallLimitError, RequestTrialCall};
use domain_base::decimal::Decimal;
use domain_verdict::cost::{CostBudgets, DailyBudget, ModelCost, ModelPrices};
use domain_verdict::generation::{LOCKED_MODEL, ModelTokenUsage};
use domain_verdict::label::ProductTier;

fn number(text: &str) -> Decimal {
    text.parse().expect("a number")
}

fn shop() -> ApplicationName {
    "shop".parse().expect("a name")
}

/// Runs `test` with a model whose calls cost 1 USD, and a budget of 2 USD a day.
fn with_budget<F: Future<Output = ()>>(
    answers: impl IntoIterator<Item = Result<String, ModelTextError>>,
    test: impl FnOnce(TestSystem, Arc<ScriptedModel>) -> F,
) {
    let budgets =
        CostBudgets { currency: "USD".into(), all: Some(number("2")), applications: BTreeMap::new() };
    with_budgets(budgets, answers, test);
}

/// Runs `test` with a model whose calls cost 1 USD.
fn with_budgets<F: Future<Output = ()>>(
    budgets: CostBudgets,
    answers: impl IntoIterator<Item = Result<String, ModelTextError>>,
    test: impl FnOnce(TestSystem, Arc<ScriptedModel>) -> F,
) {
    let usage = ModelTokenUsage {
        prompt_tokens: Some(500_000),
        output_tokens: Some(250_000),
        thinking_tokens: Some(200_000),
        total_tokens: Some(750_000),
    };
    let answers = Mutex::new(answers.into_iter().collect());
    let model = Arc::new(ScriptedModel { answers, usage: Some(usage), ..ScriptedModel::default() });
    let time = TestClock::new();
    let mut outside = outside(&model, &time);
    let prices = ModelPrices { input: number("1"), output: number("2"), currency: "USD".into() };
    let (_, free) = configured(&model, "gemini", LOCKED_MODEL, &time);
    let priced = ConfiguredModel::new(free.caller.clone().with_prices(Some(prices)), free.original.clone());
    outside.models.order = vec![Arc::new(priced)];
    outside.budgets = budgets;
    with_services(time, outside, |world| test(world, model));
}

fn one_dollar() -> ModelCost {
    ModelCost { amount: "1".parse().expect("a number"), currency: "USD".into() }
}

#[test]
fn cost_is_in_the_attempt_and_in_the_sum_of_its_day() {
    with_budget([Ok(UNUSABLE.to_owned())], |world, _| async move {
        let delivered = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!(delivered.state, OrderState::Delivered);
        let costs: Vec<_> = delivered.last_attempts.iter().map(|attempt| attempt.cost.clone()).collect();
        assert_eq!(costs, [Some(one_dollar()), Some(one_dollar())], "an unusable answer costs, too");
        let days = world.system.store.costs(None, None).expect("the store is read");
        let [sum] = &days[0].sums[..] else { panic!("one sum: {days:?}") };
        assert_eq!(sum.application, Some(ApplicationName::default()));
        assert_eq!((sum.day.to_string().as_str(), sum.model.as_str()), ("2026-11-20", "gemini"));
        assert_eq!((sum.tier, sum.calls, sum.output_tokens), (ProductTier::Quick, 2, 500_000));
        assert_eq!(sum.cost, ModelCost { amount: "2".parse().expect("a number"), ..one_dollar() });
    });
}

#[test]
fn order_waits_for_the_next_day_without_failing_by_its_age() {
    with_budget([Ok(UNUSABLE.to_owned())], |world, model| async move {
        order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        let submission = Submission { session_id: id("cs_2"), ..submission_of_query("Sell honey?") };
        let placed = place(&world, submission).await.expect("it is accepted");
        let PlacedOrder::Order { mut progress, .. } = placed else { panic!("the session has an order") };
        let is_used_up = |budgets: &[DailyBudget]| budgets.iter().any(|budget| budget.stops(Some(&shop())));
        assert!(is_used_up(&world.system.daily_budgets().expect("the store is read")));
        // the age limit of the test system is one hour
        for _ in 0..3 {
            world.time.advance(2 * 60 * 60);
            tokio::time::sleep(TICK + Duration::from_millis(200)).await;
            assert_eq!((progress.borrow().state, model.calls()), (OrderState::Queued, 2));
        }
        world.time.set_time("2026-11-21T00:00:01Z".parse().expect("a time"));
        progress.wait_for(|order| !order.state.is_open()).await.expect("the order ends");
        assert_eq!((progress.borrow().state, model.calls()), (OrderState::Delivered, 3));
        let events = logged_events(&world.system.store);
        assert_eq!(events.iter().filter(|event| *event == "daily_budget_reached").count(), 1);
        assert!(!is_used_up(&world.system.daily_budgets().expect("the store is read")));
    });
}

#[test]
fn regeneration_is_refused_while_the_budget_is_used_up() {
    with_budget([Ok(UNUSABLE.to_owned())], |world, model| async move {
        order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        lose_verdict(&world, "cs_1").await;
        let read = world.system.regen.ask(RegenerateVerdict(id("cs_1"))).await.expect("the actor answers");
        let refused = read.expect_err("the budget is used up");
        let GenerationError::Limited(CallLimitError::DailyBudget { wait, .. }) = &*refused else {
            panic!("{refused:?}")
        };
        assert_eq!((*wait, model.calls()), (Duration::from_secs(14 * 60 * 60), 2));
        // the refused attempt does not count as one
        world.time.set_time("2026-11-21T00:00:00Z".parse().expect("a time"));
        let read = world.system.regen.ask(RegenerateVerdict(id("cs_1"))).await.expect("the actor answers");
        assert!(matches!(read, Ok(SubmissionOutcome::Regenerated(..))), "{read:?}");
    });
}

#[test]
fn budget_of_an_application_stops_only_its_orders_and_the_wait_does_not_count_as_age() {
    let applications = BTreeMap::from([(shop(), number("1"))]);
    let budgets = CostBudgets { currency: "USD".into(), all: Some(number("100")), applications };
    with_budgets(budgets, [], |world, model| async move {
        assert_eq!(
            order(&world, "shop/cs_1", "Sell honey?").await.expect("accepted").state,
            OrderState::Delivered
        );
        let submission = Submission { session_id: id("shop/cs_2"), ..submission_of_query("Sell honey?") };
        let placed = place(&world, submission).await.expect("it is accepted");
        let PlacedOrder::Order { mut progress, .. } = placed else { panic!("the session has an order") };
        let wait = world.system.order_waits.of(&id("shop/cs_2")).expect("the order waits");
        let midnight = "2026-11-21T00:00:00Z".parse().expect("a time");
        assert_eq!((wait.cause, wait.until), (GenerationOutcome::BudgetUsedUp, Some(midnight)));
        // the other application and trials continue
        assert_eq!(
            order(&world, "cs_3", "Sell honey?").await.expect("accepted").state,
            OrderState::Delivered
        );
        let trial = world.system.rate_limiter.ask(RequestTrialCall(test_model_id())).await;
        assert!(trial.expect("the actor answers").is_ok());
        // the age limit of the test system is one hour
        world.time.advance(2 * 60 * 60);
        tokio::time::sleep(TICK + Duration::from_millis(200)).await;
        assert_eq!((progress.borrow().state, model.calls()), (OrderState::Queued, 2));
        world.time.set_time("2026-11-21T00:00:01Z".parse().expect("a time"));
        progress.wait_for(|order| !order.state.is_open()).await.expect("the order ends");
        assert_eq!((progress.borrow().state, model.calls()), (OrderState::Delivered, 3));
        assert_eq!(world.system.order_waits.of(&id("shop/cs_2")), None);
        let days = world.system.store.costs(None, None).expect("the store is read");
        let used_up: Vec<_> = days[0].used_up.iter().map(|budget| budget.application.clone()).collect();
        assert_eq!(used_up, [Some(shop())]);
    });
}
