//! What the walk shows of delivery: a verdict is made, mailed, lost, and made anew as another; the model fails and
//! recovers.

use super::model::QUERY;
use super::outside::{Model, Outside};
use super::step::{Expected, Step, Turn, is, session};
use hyper::StatusCode;
use jiff::Timestamp;
use oracled_domain::verdict::divergence::DISCLAIMER;
use std::time::Duration;

/// To whom the mail goes; nobody can have this address.
const CUSTOMER: &str = "customer@example.invalid";
/// How what is asked outside is doing.
const ORACLES: &str = "/v1/health/oracles";
/// Where the table of divergences says how often NULL has become RED.
const NULL_TO_RED: &str = "/table/cells/14/count";
/// How long something that time alone brings is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What can be walked of it with what there is `outside`; the table has what was made anew since `since`.
pub(super) fn steps(outside: &Outside, before: u64, since: Timestamp) -> Vec<Step> {
    let foreseen = |step: Step| if outside.mailbox.is_some() { step } else { step.without_mail() };
    let steps = anew(before).into_iter().map(foreseen);
    match &outside.model {
        Model::Recorded { failures, .. } => {
            let outage = failures.map(|failures| outage(before, failures.get()));
            steps.chain(outage.into_iter().flatten()).chain([table(since)]).collect()
        }
        Model::Configured => steps.chain([table(since)]).map(Step::unforeseen).collect(),
        Model::Missing => Vec::new(),
    }
}

/// From the first verdict to the one that was made anew, and no further.
fn anew(before: u64) -> Vec<Step> {
    let session = session(before, "asked");
    let regenerated = |came_from: &str| {
        vec![
            ("x-cache", is(came_from)),
            ("/verdict/verdict", is("RED")),
            ("/original_verdict", is("NULL")),
            ("/divergence_level", is("significant")),
            ("/disclaimer", is(DISCLAIMER)),
        ]
    };
    vec![
        Step::look("how what is asked outside is doing", ORACLES.into())
            .expecting(vec![("/0/status", is("healthy")), ("/0/last_success_at", Expected::There)])
            .within(PATIENCE),
        Step::ask(
            "without a verdict the model is asked, and the customer gets mail",
            &session,
            QUERY,
            Some(CUSTOMER),
        )
        .coming(StatusCode::CREATED)
        .expecting(vec![("/regen", is(false)), ("/verdict/verdict", is("NULL"))])
        .logging(&["oracle_interaction", "tmm_crosscheck", "verdict_cached", "mail_queued", "mail_sent"])
        .mailing(format!("verdict:{session}")),
        Step::purge("the cache loses it", &session),
        Step::read("read again it is made anew, says something else, and the customer is told", &session)
            .expecting(regenerated("MISS"))
            .logging(&[
                "regen_attempted",
                "oracle_interaction",
                "tmm_crosscheck",
                "verdict_cached",
                "regen_divergence_check",
                "mail_queued",
                "mail_sent",
            ])
            .mailing(format!("divergence:{session}:")),
        Step::read("from then on the cache has it", &session).expecting(regenerated("HIT")),
        Step::purge("the cache loses that one, too", &session),
        Step::read("a session's verdict is made anew once in five minutes", &session)
            .coming(StatusCode::TOO_MANY_REQUESTS)
            .expecting(vec![("/code", is("regen_rate_limited")), ("retry-after", Expected::There)]),
    ]
}

/// The model fails until it is left alone, and answers again; so many failures in a row open its circuit.
fn outage(before: u64, failures: u32) -> Vec<Step> {
    let session = session(before, "later");
    let ask = |title: String| Step::ask(title, &session, QUERY, None);
    let unavailable = |step: Step| step.coming(StatusCode::SERVICE_UNAVAILABLE);
    let failing = |number: u32| {
        let step = unavailable(ask(format!("a call of a model that is down fails, {number} of {failures}")));
        let step = if number == 1 { step.after(Turn::GoesDown) } else { step };
        let changes = number == 1 || number == failures;
        step.expecting(vec![("/code", is("model_unavailable")), ("retry-after", Expected::There)]).logging(
            if changes {
                &["oracle_interaction", "oracle_interaction", "oracle_health_changed"]
            } else {
                &["oracle_interaction", "oracle_interaction"]
            },
        )
    };
    let mut steps: Vec<_> = (1..=failures).map(failing).collect();
    steps.extend([
        unavailable(ask("its circuit is open: it is not called any more".into())).expecting(vec![
            ("/code", is("model_unavailable")),
            ("/detail", is("the circuit of the oracle `gemini` is open")),
            ("retry-after", Expected::There),
        ]),
        Step::look("its health says so", ORACLES.into())
            .expecting(vec![("/0/oracle_id", is("gemini")), ("/0/status", is("circuit_open"))]),
        Step::look("it comes back, and a moment later one call is let through", ORACLES.into())
            .after(Turn::ComesBack)
            .within(PATIENCE)
            .expecting(vec![("/0/status", is("unhealthy"))])
            .logging(&["oracle_health_changed"]),
        ask("that call is answered, and the model is healthy again".into())
            .coming(StatusCode::CREATED)
            .expecting(vec![("/verdict/verdict", is("NULL"))])
            .logging(&["oracle_interaction", "tmm_crosscheck", "verdict_cached", "oracle_health_changed"]),
    ]);
    steps
}

/// What was made anew since `since`, by what it was before.
fn table(since: Timestamp) -> Step {
    Step::look("which verdict was made anew as which", format!("/v1/divergence?since={since}"))
        .expecting(vec![(NULL_TO_RED, is(1))])
}
