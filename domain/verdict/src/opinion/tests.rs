use super::*;
use crate::generation::{GenerationOutcome, GenerationSettings};
use crate::order::{Order, OrderAttemptStart, OrderState, OrderStopCause};
use jiff::{SignedDuration, Timestamp};

const GREEN: VerdictLabel = VerdictLabel::Green;
const RED: VerdictLabel = VerdictLabel::Red;

fn oracle(id: &str) -> UpstreamId {
    id.parse().expect("an id")
}

fn plan(count: u32, agree: u32, models: &[&str]) -> OpinionPlan {
    OpinionPlan { count, agree, models: models.iter().map(|id| oracle(id)).collect(), holds_disagreed: true }
}

fn opinion(id: &str, verdict_label: VerdictLabel) -> OpenOpinion {
    OpenOpinion { oracle_id: oracle(id), verdict_label, answer: None }
}

/// The plans with at most [`OPINIONS_MAX`] opinions of one model.
fn all_plans() -> impl Iterator<Item = OpinionPlan> {
    (2..=OPINIONS_MAX).flat_map(|count| (count / 2 + 1..=count).map(move |agree| plan(count, agree, &["a"])))
}

/// The regularized incomplete beta function I_x(a, b) for integers, by Simpson's rule on the density.
fn beta_distribution(x: f64, a: u32, b: u32) -> f64 {
    const STEPS: u32 = 2000;
    let density = |t: f64| t.powi((a - 1).cast_signed()) * (1.0 - t).powi((b - 1).cast_signed());
    let integral = |end: f64| {
        let width = end / f64::from(STEPS);
        let inner = (1..STEPS).map(|step| {
            let weight = if step % 2 == 0 { 2.0 } else { 4.0 };
            weight * density(width * f64::from(step))
        });
        (density(0.0) + inner.sum::<f64>() + density(end)) * width / 3.0
    };
    integral(x) / integral(1.0)
}

#[test]
fn interval_limits_are_quantiles_of_beta_distributions() {
    for trials in 1..=OPINIONS_MAX {
        for successes in 0..=trials {
            let (low, high) = clopper_pearson(successes, trials);
            let case = format!("{successes} of {trials}: {low} to {high}");
            if successes == 0 {
                assert_eq!(low.to_bits(), 0.0_f64.to_bits(), "{case}");
            } else {
                let below = beta_distribution(low, successes, trials - successes + 1);
                assert!((below - 0.025).abs() < 1e-8, "{case}: {below}");
            }
            if successes == trials {
                assert_eq!(high.to_bits(), 1.0_f64.to_bits(), "{case}");
            } else {
                let below = beta_distribution(high, successes + 1, trials - successes);
                assert!((below - 0.975).abs() < 1e-8, "{case}: {below}");
            }
        }
    }
}

#[test]
fn intervals_equal_published_ones() {
    // by `binom.test` of R
    for (successes, trials, low, high) in [
        (0, 3, 0.0, 0.707_598_2),
        (1, 3, 0.008_403_759, 0.905_700_7),
        (2, 3, 0.094_299_32, 0.991_596_24),
        (3, 3, 0.292_401_8, 1.0),
        (5, 9, 0.212_008_5, 0.863_004_3),
    ] {
        let (found_low, found_high) = clopper_pearson(successes, trials);
        assert!((found_low - low).abs() < 1e-6, "{successes} of {trials}: {found_low}");
        assert!((found_high - high).abs() < 1e-6, "{successes} of {trials}: {found_high}");
    }
    let tally = plan(3, 3, &["a"]).tally(&[opinion("a", GREEN), opinion("a", GREEN), opinion("a", RED)]);
    let shares =
        tally.shares.iter().map(|share| (share.opinions, share.of, share.share_min, share.share_max));
    assert_eq!(shares.collect::<Vec<_>>(), [(2, 3, 0.0942, 0.9916), (1, 3, 0.0084, 0.9058)]);
    let alone = plan(2, 2, &["a"]).tally(&[opinion("a", GREEN)]);
    assert_eq!(alone.shares.first().map(|share| (share.share_min, share.share_max)), Some((0.025, 1.0)));
}

#[test]
fn models_are_asked_in_turn() {
    let turns = |models: &[&str]| {
        let plan = plan(4, 3, models);
        (0..4).map(|given| plan.next_model(given).map(ToString::to_string)).collect::<Vec<_>>()
    };
    assert_eq!(turns(&["a", "b", "c"]), ["a", "b", "c", "a"].map(|id| Some(id.to_owned())));
    assert_eq!(turns(&[]), [None, None, None, None]);
}

/// All sequences of `count` labels.
fn sequences(count: u32) -> Vec<Vec<VerdictLabel>> {
    (0..count).fold(vec![Vec::new()], |shorter, _| {
        let longer = |labels: Vec<_>| VerdictLabel::ALL.map(|label| [labels.clone(), vec![label]].concat());
        shorter.into_iter().flat_map(longer).collect()
    })
}

#[test]
fn decision_is_that_of_all_opinions_and_never_later_than_it_is_certain() {
    for plan in all_plans().filter(|plan| plan.count <= 5) {
        let of_labels = |labels: &[VerdictLabel]| {
            let opinions: Vec<_> = labels.iter().map(|label| opinion("a", *label)).collect();
            plan.tally(&opinions).decision()
        };
        let mut ends = BTreeMap::<Vec<VerdictLabel>, Vec<OpinionDecision>>::new();
        for labels in sequences(plan.count) {
            let most = VerdictLabel::ALL
                .into_iter()
                .find(|label| labels.iter().filter(|given| *given == label).count() >= plan.agree as usize);
            let end = most.map_or(OpinionDecision::Disagreed, OpinionDecision::Agreed);
            assert_eq!(of_labels(&labels), end, "{labels:?}");
            for given in 1..labels.len() {
                ends.entry(labels[..given].to_vec()).or_default().push(end);
            }
        }
        for (labels, ends) in ends {
            let certain = ends.iter().all(|end| *end == ends[0]).then_some(ends[0]);
            assert_eq!(of_labels(&labels), certain.unwrap_or(OpinionDecision::Open), "{plan:?} {labels:?}");
        }
    }
}

/// The interval of GREEN in the answers of model `a`, which gives no other label but RED.
fn green_interval(tally: &OpinionTally) -> (f64, f64) {
    let find = |label| {
        let is_of = |share: &&OpinionShare| share.oracle_id == oracle("a") && share.verdict_label == label;
        tally.shares.iter().find(is_of).map(|share| (share.share_min, share.share_max))
    };
    let (red_min, red_max) = find(RED).unwrap_or((0.0, 1.0));
    find(GREEN).unwrap_or((1.0 - red_max, 1.0 - red_min))
}

/// The numbers of GREEN and RED of all ends of a plan, with its interval of GREEN.
fn ends(plan: &OpinionPlan, given: &[OpenOpinion], found: &mut Vec<(i32, i32, (f64, f64))>) {
    let tally = plan.tally(given);
    if tally.decision() != OpinionDecision::Open {
        let count = |label| tally.labels().get(&label).map_or(0, |count| count.cast_signed());
        return found.push((count(GREEN), count(RED), green_interval(&tally)));
    }
    for label in [GREEN, RED] {
        ends(plan, &[given, &[opinion("a", label)]].concat(), found);
    }
}

#[test]
fn interval_covers_each_share_in_95_percent_of_orders_although_calls_end_early() {
    for plan in all_plans() {
        let mut found = Vec::new();
        ends(&plan, &[], &mut found);
        for share in (1..100).map(|percent| f64::from(percent) / 100.0) {
            let probability = |(green, red): (i32, i32)| share.powi(green) * (1.0 - share).powi(red);
            let covers = |(low, high): (f64, f64)| low <= share && share <= high;
            let covered = found.iter().filter(|(.., interval)| covers(*interval));
            let covered: f64 = covered.map(|(green, red, _)| probability((*green, *red))).sum();
            assert!(covered >= 0.95, "{plan:?}, share {share}: {covered}");
        }
    }
}

/// A generator of pseudorandom numbers (`SplitMix64`), so that the test needs no package and is the same each time.
struct Random(u64);

impl Random {
    /// A number from 0 to below 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn start(oracle_id: &UpstreamId) -> OrderAttemptStart {
    let generation = serde_json::json!({"prompt_sha256": "0".repeat(64), "settings": GenerationSettings::locked("m".into())});
    OrderAttemptStart {
        oracle_id: oracle_id.clone(),
        generation: serde_json::from_value(generation).expect("a generation"),
        is_last: false,
        time_limit: SignedDuration::from_secs(28),
    }
}

/// Runs an order with the scripted models `a`, which gives GREEN with the probability `share` and else RED, and `b`.
fn run_order(plan: &OpinionPlan, share: f64, random: &mut Random) -> Order {
    let now = Timestamp::UNIX_EPOCH;
    let mut order = Order::placed(now);
    loop {
        let model = plan.next_model(order.open_opinions.len()).expect("a model").clone();
        order = order.attempted(start(&model), now);
        let green = if model == oracle("a") { share } else { 0.6 };
        let label = if random.next() < green { GREEN } else { RED };
        let given = OpenOpinion { oracle_id: model, verdict_label: label, answer: None };
        let tally = plan.tally(order.open_opinions.iter().chain([&given]));
        let decision = tally.decision();
        order = order.with_opinion(given, tally);
        order = match decision {
            OpinionDecision::Open => order.opinion_given((None, None), now),
            OpinionDecision::Agreed(_) => {
                return order.delivered((GenerationOutcome::Delivered, None, None), now);
            }
            OpinionDecision::Disagreed => return order.opinions_differ((None, None), plan, now),
        };
    }
}

#[test]
fn simulated_intervals_cover_the_probabilities_of_a_scripted_model() {
    const ORDERS: u32 = 10_000;
    // three standard deviations of the coverage
    let sampling_error = 3.0 * (0.95 * 0.05 / f64::from(ORDERS)).sqrt();
    let mut random = Random(53);
    for plan in [plan(3, 2, &["a"]), plan(5, 4, &["a", "b"])] {
        for share in (1..20).step_by(2).map(|step| f64::from(step) * 0.05) {
            let mut covered = 0;
            for _ in 0..ORDERS {
                let order = run_order(&plan, share, &mut random);
                let (low, high) = green_interval(order.opinions.as_ref().expect("opinions"));
                covered += u32::from(low <= share && share <= high);
            }
            let coverage = f64::from(covered) / f64::from(ORDERS);
            println!("{} of {}, share {share:.2}: {coverage}", plan.agree, plan.count);
            assert!(coverage >= 0.95 - sampling_error, "share {share}: {coverage}");
        }
    }
}

#[test]
fn order_keeps_its_labels_and_no_answers_when_it_ends() {
    let now = Timestamp::UNIX_EPOCH;
    let give = |order: Order, id: &str, label| {
        let order = order.attempted(start(&oracle(id)), now);
        let given = opinion(id, label);
        let tally = plan(2, 2, &["a", "b"]).tally(order.open_opinions.iter().chain([&given]));
        order.with_opinion(given, tally)
    };
    let order = Order { generations: 2, last_asked: vec![oracle("a")], ..Order::placed(now) };
    let order = give(order, "a", GREEN).opinion_given((None, None), now);
    assert_eq!((order.state, order.generations, order.next_attempt_at), (OrderState::Queued, 0, Some(now)));
    assert_eq!((order.last_asked.len(), order.open_opinions.len()), (0, 1));
    let differing = give(order.clone(), "b", RED).opinions_differ((None, None), &plan(2, 2, &[]), now);
    assert_eq!(
        (differing.state, differing.stop_cause),
        (OrderState::Held, Some(OrderStopCause::NoAgreement))
    );
    assert_eq!(differing.reason().as_deref(), Some("no_agreement: GREEN 1, RED 1"));
    let delivered =
        give(order.clone(), "b", GREEN).delivered((GenerationOutcome::Delivered, None, None), now);
    // `orders.opinions` requires only one since
    let one_answer = || order.clone().attempted(start(&oracle("b")), now);
    let used = || (GenerationOutcome::Delivered, None, None);
    assert_eq!(one_answer().delivered(used(), now).opinions, None);
    assert_eq!(one_answer().held_by_policy(Vec::new(), used(), now).opinions, None);
    for ended in [differing, delivered, order.cancelled(now)] {
        assert!(ended.open_opinions.is_empty() && ended.opinions.is_some(), "{ended:?}");
    }
}
