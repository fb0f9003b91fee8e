//! The model of the test mode. It calls nothing: its verdicts are canned, and markers in the query choose other answers.
//!
//! For one query it has the recorded answers of a real model, which `oracled dev` shows.

use super::{
    BoxFuture, ModelAnswerMetadata, ModelAttempt, ModelClient, ModelRefusal, ModelTextError, RequestFailure,
    RequestFailureKind,
};
use domain_base::digest::Sha256Hex;
use domain_base::upstream_text::UpstreamText;
use domain_verdict::generation::GenerationSettings;
use domain_verdict::label::{ProductTier, VerdictDimension, VerdictLabel};
use domain_verdict::policy::FlagSelector;
use domain_verdict::prompt::{ModelPrompt, PromptTemplate, build_verdict_prompt};
use domain_verdict::query::CustomerQuery;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::sleep;

/// The name of the model.
pub const CANNED_MODEL: &str = "canned";
/// The query that a real model judged, for a full verdict.
pub const RECORDED_QUERY: &str = "Put all of my retirement savings into one friend's restaurant.";
/// The two answers of the real model, both at temperature 0.
const RECORDED: [&str; 2] =
    [include_str!("canned/recorded-first.json"), include_str!("canned/recorded-again.json")];
/// The name of the real model.
const RECORDED_OF: &str = "recorded-qwen2.5-coder-1.5b-instruct";
/// The start of each marker.
const PREFIX: &str = "test:";
/// The number of prompts whose answers are counted. Beyond it, all are counted from 0 again.
const COUNTED_PROMPTS: usize = 4096;

/// A word in a query that chooses the answer, such as `test:reject`.
struct Marker {
    /// The word after `test:`.
    name: &'static str,
    effect: MarkerEffect,
}

/// The effect of a marker.
enum MarkerEffect {
    /// `test:NAME=3s` or `test:NAME=300ms` delays the answer.
    Delay,
    /// `test:NAME` chooses the answer.
    Answer(fn(&CannedRequest) -> Result<String, ModelTextError>),
    /// `test:NAME` fails every request with this prompt; `test:NAME=2` fails two requests, then answers one, and begins
    /// again.
    Failure(fn() -> RequestFailure),
}

/// All markers. `docs/testing.md` has their table.
const MARKERS: [Marker; 14] = [
    Marker {
        name: "green",
        effect: MarkerEffect::Answer(|request| Ok(request.verdict(VerdictLabel::Green))),
    },
    Marker {
        name: "amber",
        effect: MarkerEffect::Answer(|request| Ok(request.verdict(VerdictLabel::Amber))),
    },
    Marker { name: "red", effect: MarkerEffect::Answer(|request| Ok(request.verdict(VerdictLabel::Red))) },
    Marker { name: "null", effect: MarkerEffect::Answer(|request| Ok(request.verdict(VerdictLabel::Null))) },
    Marker { name: "diverge", effect: MarkerEffect::Answer(|request| Ok(request.diverging_verdict())) },
    Marker { name: "hold", effect: MarkerEffect::Answer(|request| Ok(request.held_verdict())) },
    Marker { name: "conflict", effect: MarkerEffect::Answer(|request| Ok(request.contradicting_verdict())) },
    Marker { name: "reject", effect: MarkerEffect::Answer(|_| Ok("This text is not a verdict.".to_owned())) },
    Marker {
        name: "decline",
        effect: MarkerEffect::Answer(|_| Err(ModelRefusal::Declined("test:decline".into()).into())),
    },
    Marker { name: "slow", effect: MarkerEffect::Delay },
    Marker { name: "400", effect: MarkerEffect::Failure(|| chosen_failure(400)) },
    Marker { name: "429", effect: MarkerEffect::Failure(|| chosen_failure(429)) },
    Marker { name: "down", effect: MarkerEffect::Failure(|| chosen_failure(503)) },
    Marker {
        name: "outage",
        effect: MarkerEffect::Failure(|| RequestFailure { spares_health: false, ..chosen_failure(503) }),
    },
];

/// A failure of this query only: other queries of the same daemon may be those of other tests.
fn chosen_failure(status: u16) -> RequestFailure {
    let detail = "chosen by the query, in test mode".to_owned();
    RequestFailure { spares_health: true, ..RequestFailure::new(RequestFailureKind::Status(status), detail) }
}

/// The refusal of a query with an unknown marker, so that a test with a mistyped marker fails. It is no failed request: no later
/// attempt could mend it.
fn unknown_marker(word: &str) -> ModelRefusal {
    let known = MARKERS.map(|Marker { name, effect }| match effect {
        MarkerEffect::Delay => format!("{PREFIX}{name}=3s"),
        MarkerEffect::Answer(_) | MarkerEffect::Failure(_) => format!("{PREFIX}{name}"),
    });
    let known = known.join(", ");
    ModelRefusal::Declined(UpstreamText::new(format!(
        "`{word}` in the query is not a marker of the test mode (allowed: {known})"
    )))
}

/// A model without a server.
#[derive(Debug, Default)]
pub struct CannedModel {
    /// The number of requests by prompt.
    requests: Mutex<HashMap<Sha256Hex, usize>>,
}

impl CannedModel {
    /// The number of earlier requests with the prompt.
    fn count_request(&self, prompt: &ModelPrompt) -> usize {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() >= COUNTED_PROMPTS && !requests.contains_key(prompt.sha256()) {
            requests.clear();
        }
        let count = requests.entry(prompt.sha256().clone()).or_default();
        *count += 1;
        *count - 1
    }

    fn answer(&self, prompt: &ModelPrompt) -> CannedAnswer {
        let earlier = self.count_request(prompt);
        if is_recorded(prompt) {
            let text = RECORDED.iter().cycle().nth(earlier % RECORDED.len()).copied().unwrap_or_default();
            return CannedAnswer {
                delay: Duration::ZERO,
                version: RECORDED_OF,
                outcome: Ok(text.to_owned()),
            };
        }
        let request = CannedRequest { tier: prompt.tier(), earlier };
        let (mut delay, mut answer, mut failure, mut unknown) = (Duration::ZERO, None, None, None);
        for (word, name, value) in markers_in(prompt.text()) {
            let is_exact = word.starts_with(PREFIX);
            match is_exact.then(|| find_choice(name, value, earlier)).flatten() {
                Some(MarkerChoice::Delay(wait)) => delay = wait,
                Some(MarkerChoice::Answer(text)) => answer = answer.or(Some(text)),
                Some(MarkerChoice::Failure(fault)) => failure = failure.or(fault),
                None => unknown = unknown.or_else(|| Some(unknown_marker(word))),
            }
        }
        if let Some(refusal) = unknown {
            return CannedAnswer {
                delay: Duration::ZERO,
                version: CANNED_MODEL,
                outcome: Err(refusal.into()),
            };
        }
        let answer = answer.unwrap_or(|request| Ok(request.verdict(VerdictLabel::Green)));
        let outcome =
            failure.map_or_else(|| answer(&request), |failure| Err(ModelTextError::Failed(failure)));
        CannedAnswer { delay, version: CANNED_MODEL, outcome }
    }
}

impl ModelClient for CannedModel {
    fn oracle_version(&self, _settings: &GenerationSettings) -> String {
        CANNED_MODEL.to_owned()
    }

    fn attempt<'a>(
        &'a self,
        prompt: &'a ModelPrompt,
        _settings: &'a GenerationSettings,
        timeout: Duration,
    ) -> BoxFuture<'a, ModelAttempt> {
        let CannedAnswer { delay, version, outcome } = self.answer(prompt);
        Box::pin(async move {
            if delay >= timeout {
                sleep(timeout).await;
                let failure = RequestFailure::new(RequestFailureKind::Timeout, "test:slow".to_owned());
                let failure = RequestFailure { spares_health: true, ..failure };
                return ModelAttempt::NoAnswerReceived(failure);
            }
            sleep(delay).await;
            match outcome {
                Err(ModelTextError::Failed(failure)) => ModelAttempt::NoAnswerReceived(failure),
                outcome => {
                    let text = outcome.as_deref().unwrap_or_default();
                    let metadata = ModelAnswerMetadata {
                        response_hash: Sha256Hex::of(text.as_bytes()),
                        finish_reason: None,
                        usage: None,
                        oracle_version: Some(version.into()),
                    };
                    ModelAttempt::AnswerReceived(metadata, outcome)
                }
            }
        })
    }

    fn probe<'a>(&'a self, _model: &'a str, _timeout: Duration) -> BoxFuture<'a, Result<(), RequestFailure>> {
        Box::pin(async { Ok(()) })
    }
}

/// An answer, and the time before it.
struct CannedAnswer {
    delay: Duration,
    version: &'static str,
    outcome: Result<String, ModelTextError>,
}

/// The choice of one marker in a query.
enum MarkerChoice {
    Delay(Duration),
    Answer(fn(&CannedRequest) -> Result<String, ModelTextError>),
    /// `None` if this request is one that the marker does not fail.
    Failure(Option<RequestFailure>),
}

/// The choice of the marker `name` after `earlier` requests with the same prompt; `None` if it is not a marker with this
/// value.
fn find_choice(name: &str, value: Option<&str>, earlier: usize) -> Option<MarkerChoice> {
    let marker = MARKERS.iter().find(|marker| marker.name == name)?;
    match &marker.effect {
        MarkerEffect::Delay => read_duration(value?).map(MarkerChoice::Delay),
        MarkerEffect::Answer(answer) => value.is_none().then_some(MarkerChoice::Answer(*answer)),
        MarkerEffect::Failure(failure) => {
            let fails = match value {
                None => true,
                Some(count) => {
                    let count: NonZeroUsize = count.parse().ok()?;
                    earlier % count.checked_add(1)? < count.get()
                }
            };
            Some(MarkerChoice::Failure(fails.then(failure)))
        }
    }
}

/// The words of a prompt that begin with `test:` in any case, each with its name and its value. The query is in the prompt as
/// a string literal.
fn markers_in(prompt: &str) -> impl Iterator<Item = (&str, &str, Option<&str>)> {
    let starts = prompt.as_bytes().windows(PREFIX.len()).enumerate();
    let starts = starts.filter(|(_, bytes)| bytes.eq_ignore_ascii_case(PREFIX.as_bytes()));
    starts.filter_map(|(at, _)| {
        let (before, after) = prompt.split_at_checked(at)?;
        // a line end of the query is `\n` in the literal
        if before.ends_with(|last: char| last.is_alphanumeric()) && !before.ends_with("\\n") {
            return None;
        }
        let is_part = |character: char| character.is_ascii_alphanumeric() || character == '=';
        let rest = after.get(PREFIX.len()..)?;
        let len = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
        let (word, marker) = (after.get(..PREFIX.len() + len)?, rest.get(..len)?);
        let (name, value) =
            marker.split_once('=').map_or((marker, None), |(name, value)| (name, Some(value)));
        (!name.is_empty()).then_some((word, name, value))
    })
}

/// A duration such as `3s` or `300ms`.
fn read_duration(text: &str) -> Option<Duration> {
    let (number, unit): (_, fn(u64) -> Duration) = match text.strip_suffix("ms") {
        Some(number) => (number, Duration::from_millis),
        None => (text.strip_suffix('s')?, Duration::from_secs),
    };
    number.parse().ok().map(unit)
}

/// Whether the recorded answers are to this prompt.
fn is_recorded(prompt: &ModelPrompt) -> bool {
    if prompt.tier() != ProductTier::Full || !prompt.text().contains(RECORDED_QUERY) {
        return false;
    }
    let query = CustomerQuery::new(RECORDED_QUERY.to_owned());
    let recorded = build_verdict_prompt(PromptTemplate::built_in(), ProductTier::Full, &query);
    recorded.is_ok_and(|recorded| recorded.sha256() == prompt.sha256())
}

/// A request whose answer is made up.
struct CannedRequest {
    tier: ProductTier,
    /// The number of earlier requests with the same prompt.
    earlier: usize,
}

impl CannedRequest {
    /// A coherent verdict with this label.
    fn verdict(&self, label: VerdictLabel) -> String {
        Value::Object(self.members(label)).to_string()
    }

    fn members(&self, label: VerdictLabel) -> Map<String, Value> {
        let mut members = Map::new();
        members.insert("verdict".to_owned(), json!(label));
        let summary = "Canned verdict of the test mode: no model has judged this query.";
        members.insert("summary".to_owned(), summary.into());
        if self.tier >= ProductTier::Full {
            members.insert("breakdown".to_owned(), breakdown(label, "Canned analysis of the test mode."));
        }
        if self.tier >= ProductTier::Strategy {
            let strategy = json!({
                "next_step": "Canned next step of the test mode.",
                "alternative": "Canned alternative of the test mode.",
                "tests": ["First canned test of the test mode.", "Second canned test of the test mode."],
            });
            members.insert("strategy".to_owned(), strategy);
        }
        members
    }

    /// Another label at each second request with the same prompt.
    fn diverging_verdict(&self) -> String {
        self.verdict(if self.earlier.is_multiple_of(2) { VerdictLabel::Green } else { VerdictLabel::Red })
    }

    /// A verdict that the policy of the test mode holds.
    fn held_verdict(&self) -> String {
        let mut members = self.members(VerdictLabel::Green);
        members.insert(FlagSelector::TEST_HOLD_MEMBER.to_owned(), true.into());
        Value::Object(members).to_string()
    }

    /// A verdict whose label contradicts its dimensions. A verdict without dimensions has no summary instead.
    fn contradicting_verdict(&self) -> String {
        let mut members = self.members(VerdictLabel::Green);
        members.insert("summary".to_owned(), "".into());
        if self.tier >= ProductTier::Full {
            members.insert("breakdown".to_owned(), breakdown(VerdictLabel::Red, ""));
        }
        Value::Object(members).to_string()
    }
}

/// All dimensions with this label and this analysis.
fn breakdown(label: VerdictLabel, analysis: &str) -> Value {
    let dimension =
        |name: VerdictDimension| (name.to_string(), json!({"verdict": label, "analysis": analysis}));
    Value::Object(VerdictDimension::ALL.into_iter().map(dimension).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_base::payload::VerdictPayload;
    use domain_verdict::crosscheck::{CrosscheckReason, judge};

    fn prompt(tier: ProductTier, query: &str) -> ModelPrompt {
        let query = CustomerQuery::new(query.to_owned());
        build_verdict_prompt(PromptTemplate::built_in(), tier, &query).expect("the tier has a text")
    }

    async fn ask(model: &CannedModel, tier: ProductTier, query: &str) -> Result<String, ModelTextError> {
        let settings = GenerationSettings::locked(CANNED_MODEL.to_owned());
        match model.attempt(&prompt(tier, query), &settings, Duration::from_secs(10)).await {
            ModelAttempt::AnswerReceived(_, text) => text,
            ModelAttempt::NoAnswerReceived(failure) => Err(ModelTextError::Failed(failure)),
        }
    }

    async fn failure_of(model: &CannedModel, query: &str) -> RequestFailure {
        match ask(model, ProductTier::Quick, query).await {
            Err(ModelTextError::Failed(failure)) => failure,
            other => panic!("{query}: {other:?}"),
        }
    }

    fn member(text: &str, name: &str) -> String {
        let verdict: Value = serde_json::from_str(text).expect("a verdict");
        verdict[name].as_str().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn canned_model_answers_every_query_of_each_tier_with_a_coherent_verdict() {
        let model = CannedModel::default();
        for tier in ProductTier::ALL {
            for (query, label) in [
                ("Sell honey?", "GREEN"),
                ("test:amber", "AMBER"),
                ("test:red", "RED"),
                ("test:null", "NULL"),
            ] {
                let text = ask(&model, tier, query).await.expect("an answer");
                let judgment = judge(tier, VerdictPayload::raw(text.as_str()));
                assert!(judgment.decision.approved && judgment.decision.flags.is_empty(), "{tier} {text}");
                assert_eq!(member(&text, "verdict"), label);
            }
        }
    }

    #[tokio::test]
    async fn rejected_answers_have_the_documented_reasons() {
        let model = CannedModel::default();
        let conflicts = [CrosscheckReason::LowCoherence, CrosscheckReason::DimensionConflict];
        for tier in ProductTier::ALL {
            let text = ask(&model, tier, "test:reject").await.expect("an answer");
            let reason = judge(tier, VerdictPayload::raw(text.as_str())).decision.crosscheck_reason;
            assert_eq!(reason, CrosscheckReason::DegenerateManifold);
            let text = ask(&model, tier, "test:conflict").await.expect("an answer");
            let judgment = judge(tier, VerdictPayload::raw(text.as_str()));
            assert!(!judgment.decision.approved);
            assert!(
                conflicts.contains(&judgment.decision.crosscheck_reason),
                "{tier} {:?}",
                judgment.decision
            );
        }
    }

    #[tokio::test]
    async fn failures_are_counted_for_each_prompt_and_begin_again() {
        let model = CannedModel::default();
        let mut outcomes = Vec::new();
        for _ in 0..6 {
            outcomes.push(ask(&model, ProductTier::Quick, "Sell? test:down=2").await.is_ok());
        }
        assert_eq!(outcomes, [false, false, true, false, false, true]);
        for (query, code) in
            [("test:400", "http_400"), ("a\ntest:429", "http_429"), ("test:down", "http_503")]
        {
            let failure = ask(&model, ProductTier::Quick, query).await.expect_err("a failure");
            assert_eq!(failure.error_code(), code);
        }
        let declined = ask(&model, ProductTier::Quick, "test:decline").await.expect_err("no text");
        assert_eq!(declined.error_code(), "declined");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_answer_waits_and_is_a_timeout_after_the_limit() {
        let model = CannedModel::default();
        let began = tokio::time::Instant::now();
        let text = ask(&model, ProductTier::Quick, "test:red test:slow=3s").await.expect("an answer");
        assert_eq!((began.elapsed().as_secs(), member(&text, "verdict").as_str()), (3, "RED"));
        let late = ask(&model, ProductTier::Quick, "test:slow=60s").await.expect_err("a timeout");
        assert_eq!((began.elapsed().as_secs(), &*late.error_code()), (13, "timeout"));
    }

    #[tokio::test(start_paused = true)]
    async fn query_with_an_unknown_marker_is_declined_at_once() {
        let (model, began) = (CannedModel::default(), tokio::time::Instant::now());
        for query in [
            "test:rejct",
            "test:slow",
            "test:down=0",
            "test:red=1",
            "TEST:REJECT",
            "test:red Test:amber",
            "test:slow=3s test:down test:rejct",
        ] {
            let refused = ask(&model, ProductTier::Quick, query).await;
            let Err(ModelTextError::Refused(ModelRefusal::Declined(detail))) = refused else {
                panic!("{query}: {refused:?}");
            };
            let word = query.split(' ').next_back().expect("a word");
            let detail = detail.reveal();
            assert!(detail.contains(&format!("`{word}`")) && detail.contains("test:slow=3s"), "{detail}");
        }
        assert!(began.elapsed() < Duration::from_secs(1));
        for query in ["latest:reject", "unit test: honey"] {
            assert!(ask(&model, ProductTier::Quick, query).await.is_ok(), "{query}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failure_of_one_query_leaves_the_health_of_the_model_unchanged() {
        let model = CannedModel::default();
        for (query, is_fault) in [
            ("test:400", false),
            ("test:429", false),
            ("test:down", false),
            ("test:slow=60s", false),
            ("test:outage", true),
        ] {
            let failure = failure_of(&model, query).await;
            assert_eq!(failure.is_fault_of_upstream(), is_fault, "{query}");
        }
    }

    #[tokio::test]
    async fn recorded_and_diverging_answers_alternate() {
        let model = CannedModel::default();
        for recorded in RECORDED {
            let text = ask(&model, ProductTier::Full, RECORDED_QUERY).await;
            assert_eq!(text.as_deref(), Ok(recorded));
        }
        for label in ["GREEN", "RED", "GREEN"] {
            let text = ask(&model, ProductTier::Quick, "test:diverge").await.expect("an answer");
            assert_eq!(member(&text, "verdict"), label);
        }
    }

    #[test]
    fn markers_are_documented() {
        let table = include_str!("../../../docs/testing.md");
        for Marker { name, .. } in MARKERS {
            let is_listed =
                [format!("`test:{name}`"), format!("`test:{name}=")].iter().any(|word| table.contains(word));
            assert!(is_listed, "docs/testing.md has no row for test:{name}");
        }
    }
}
