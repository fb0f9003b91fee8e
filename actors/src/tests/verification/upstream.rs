//! Scripted live sources, and a system on a clock that stands still while work is left to do.
//!
//! The runtime's clock is paused: it advances to the next timer when all tasks are idle. Blocking tasks
//! prevent this by themselves. The logger does not, because it has its own thread and runtime: while only a
//! commit is awaited, the paused clock would advance. So the runtime checks before it parks whether a commit
//! is in progress. If so, a task is woken, and a runtime with a task to run does not advance its clock. The
//! system's clock follows the runtime's.

use super::support::{ingest_source_rows, source, source_id, with, workflow};
use crate::system::ActorSystem;
use crate::testing::ground::PEER;
use crate::testing::{TestClock, TestServices, TestSystem, start};
use actors_audit::logger::LoggerHandle;
use actors_platform::actor_handle::StartedActor;
use actors_upstream::BoxFuture;
use actors_upstream::oracle::{LiveAnswer, LiveOracle, LiveQuery};
use actors_upstream::web::WebError;
use domain_audit::event::ControlAction;
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_ground::value::AxisValue;
use domain_upstream::failure::RequestFailureKind;
use domain_upstream::health::CircuitCallOutcome;
use domain_verification::adapter::{Adapter, ValidatedAdapter};
use domain_verification::verification_record::{SignatureVerification, StatedValue};
use domain_verification::{
    AnswerFault, CachedAnswer, CachedAnswerKey, CallFailure, CallTimeLimit, CandidateAnswer, OracleReply,
    OracleVerificationRecord, VerificationTier,
};
use jiff::{SignedDuration, Timestamp};
use oracled_store::{JournalRecord, RowWrite};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The behavior of an upstream in one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScriptedCall {
    /// Delay of the answer in milliseconds; `None` for no answer.
    pub(crate) after_ms: Option<u64>,
    pub(crate) reply: ScriptedSourceReply,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ScriptedSourceReply {
    /// A population of this number.
    People(&'static str),
    /// A population of this number, in a changed answer.
    Changed(&'static str, fn(&mut CandidateAnswer)),
    /// Status 502.
    Unavailable,
    /// An answer that the reader of answers refuses.
    Refused(AnswerFault),
    /// A timeout that the client itself reports.
    GaveUp,
}

impl ScriptedCall {
    pub(crate) const fn at_once(reply: ScriptedSourceReply) -> Self {
        Self::after(0, reply)
    }

    pub(crate) const fn after(after_ms: u64, reply: ScriptedSourceReply) -> Self {
        Self { after_ms: Some(after_ms), reply }
    }

    pub(crate) const HANGS: Self = Self { after_ms: None, reply: ScriptedSourceReply::Unavailable };
    pub(crate) const DEAD: Self = Self::at_once(ScriptedSourceReply::Unavailable);
}

/// All live sources of a test. Each has a script with one entry for each call; the last entry is repeated.
#[derive(Debug)]
pub(crate) struct ScriptedSources {
    parts: Mutex<BTreeMap<String, SourceScript>>,
    time: TestClock,
}

#[derive(Debug, Default)]
struct SourceScript {
    acts: Vec<ScriptedCall>,
    calls: usize,
    /// Issue time of the cached answer at the last call.
    guarded_by: Option<Timestamp>,
}

impl ScriptedSources {
    pub(crate) fn new(time: &TestClock) -> Arc<Self> {
        Arc::new(Self { parts: Mutex::default(), time: time.clone() })
    }

    /// Sets the script of a source, and resets its number of calls.
    pub(crate) fn set_script(&self, oracle_id: &str, acts: &[ScriptedCall]) {
        let part = SourceScript { acts: acts.to_vec(), ..SourceScript::default() };
        self.parts.lock().expect("the lock is not poisoned").insert(oracle_id.to_owned(), part);
    }

    /// Number of calls since the script was set.
    pub(crate) fn calls(&self, oracle_id: &str) -> usize {
        self.parts.lock().expect("the lock is not poisoned")[oracle_id].calls
    }

    /// At the last call, an answer issued before this time would have been a replay.
    pub(crate) fn guarded_by(&self, oracle_id: &str) -> Option<Timestamp> {
        self.parts.lock().expect("the lock is not poisoned")[oracle_id].guarded_by
    }

    fn next_scripted_call(&self, ask: &LiveQuery) -> ScriptedCall {
        let mut parts = self.parts.lock().expect("the lock is not poisoned");
        let part = parts.get_mut(ask.adapter.adapter().oracle_id.as_str()).expect("the source has a script");
        part.guarded_by = ask.cached_answer.as_ref().and_then(|cached| cached.issued_at);
        let act = part.acts.get(part.calls).or(part.acts.last()).copied();
        part.calls += 1;
        act.expect("the script is not empty")
    }
}

impl LiveOracle for ScriptedSources {
    fn check(&self, _: &ValidatedAdapter) -> Result<(), WebError> {
        Ok(())
    }

    fn ask(&self, ask: LiveQuery) -> BoxFuture<'_, LiveAnswer> {
        Box::pin(async move {
            let ScriptedCall { after_ms, reply } = self.next_scripted_call(&ask);
            match after_ms {
                // an immediate answer, too, arrives only after the query
                Some(0) => tokio::task::yield_now().await,
                Some(after_ms) => tokio::time::sleep(Duration::from_millis(after_ms)).await,
                None => std::future::pending().await,
            }
            answer(&ask, reply, self.time.clock().now())
        })
    }
}

/// An answer whose reader accepts all of its values and caches it.
fn answer(ask: &LiveQuery, reply: ScriptedSourceReply, now: Timestamp) -> LiveAnswer {
    let answered = |candidate: CandidateAnswer| LiveAnswer {
        answer_to_cache: Some(CachedAnswer {
            candidate: Some(candidate.clone()),
            point_in_time: ask.point_in_time,
            adapter_sha256: ask.adapter.sha256().clone(),
            issued_at: ask.adapter.adapter().issued_at.as_ref().map(|_| now),
            invalidation_count: 0,
            etag: None,
        }),
        reply: OracleReply::Answered { candidate: Box::new(candidate) },
        outcome: CircuitCallOutcome::Success { latency_ms: None },
        warnings: Vec::new(),
    };
    let failed = |reply| LiveAnswer {
        reply,
        answer_to_cache: None,
        outcome: CircuitCallOutcome::Failure(RequestFailureKind::Broken),
        warnings: Vec::new(),
    };
    match reply {
        ScriptedSourceReply::People(count) => {
            answered(candidate(ask.adapter.adapter().oracle_id.as_str(), ask.identity.clone(), count, now))
        }
        ScriptedSourceReply::Changed(count, change) => {
            let mut candidate =
                candidate(ask.adapter.adapter().oracle_id.as_str(), ask.identity.clone(), count, now);
            change(&mut candidate);
            answered(candidate)
        }
        ScriptedSourceReply::Unavailable => {
            let cause = "status 502";
            failed(OracleReply::Failed { failure: CallFailure::Unavailable, cause: cause.into() })
        }
        ScriptedSourceReply::Refused(refusal) => {
            let cause = "not as agreed on";
            failed(OracleReply::Refused { refusal, cause: cause.into() })
        }
        ScriptedSourceReply::GaveUp => failed(OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout }),
    }
}

/// The candidate of an honest source at this time.
pub(crate) fn candidate(
    oracle_id: &str,
    subject: BTreeMap<String, AxisValue>,
    count: &str,
    now: Timestamp,
) -> CandidateAnswer {
    CandidateAnswer {
        subject,
        values: [(
            "population".to_owned(),
            StatedValue { value: AxisValue::Text(count.into()), definition: None },
        )]
        .into(),
        record: OracleVerificationRecord {
            oracle_id: source_id(oracle_id),
            oracle_tier: VerificationTier::Primary,
            source_locator: format!("https://{oracle_id}.example/population"),
            source_version: Some("v7".into()),
            retrieved_at: now,
            verified_at: now,
            verification_method: "signature".into(),
            verifier_id: "oracled".into(),
            evidence_hash: Some(Sha256Hex::of(count.as_bytes())),
            signature_info: Some(SignatureVerification {
                signed_by: "key-1".into(),
                signature_alg: "Ed25519".into(),
                signature_valid: true,
            }),
            ttl_seconds: None,
            chain_of_custody: None,
        },
        observed_at: now,
        freshness: Vec::new(),
        deviations: BTreeMap::new(),
        provenance: None,
    }
}

/// Registers and approves a live source.
pub(crate) async fn live(system: &ActorSystem, oracle_id: &str, mut settings: Json) {
    settings["adapter_id"] = json!("http");
    source(system, oracle_id, settings).await;
    adapter(system, oracle_id, json!({})).await;
}

/// Registers the adapter of a live source with simple defaults, except for these settings.
pub(crate) async fn adapter(system: &ActorSystem, oracle_id: &str, settings: Json) {
    let adapter = Box::new(adapter_of(oracle_id, settings));
    let registered = system.registry.register(*adapter, PEER).await;
    registered.expect("the registration succeeds");
}

/// The adapter of [`adapter`], as a document.
pub(crate) fn adapter_of(oracle_id: &str, settings: Json) -> Adapter {
    let mapping = |field: &str, axis: &str| json!({"source_field": field, "target_axis": axis, "cardinality": "one_to_one", "required": true});
    let document = json!({
        "oracle_id": oracle_id, "endpoint": "https://office.example/{area}/{year}", "records": "",
        "normalization": {
            "normalizer_id": "people", "source_schema_id": "people", "target_ontology_id": "population",
            "axis_mappings": [mapping("area", "area"), mapping("year", "year"), mapping("people", "population")]
        }
    });
    with(document, settings)
}

/// The subject of the questions: an area in 1960.
pub(crate) fn subject_identity(area: &str) -> BTreeMap<String, AxisValue> {
    [("area".to_owned(), AxisValue::Text(area.into())), ("year".to_owned(), AxisValue::Text("1960".into()))]
        .into()
}

/// The cache key of the live source's answer.
pub(crate) fn key(area: &str) -> CachedAnswerKey {
    CachedAnswerKey::of(&source_id("live"), &subject_identity(area), None)
}

/// The `observed_at` of the live source's cached answer.
pub(crate) fn cached_answer_time(system: &ActorSystem, area: &str) -> Option<Timestamp> {
    let cached = system.store.cached_answer(&key(area)).expect("the cached answer is readable");
    Some(cached?.0.candidate?.observed_at)
}

/// Caches an answer as if the source had given it.
pub(crate) async fn cache_candidate(system: &ActorSystem, area: &str, candidate: CandidateAnswer) {
    let adapter = system
        .store
        .registered::<Adapter>("live")
        .expect("the document is readable")
        .expect("the document exists")
        .0;
    let adapter_sha256 = adapter.sha256;
    let candidate = Some(candidate);
    let cached = CachedAnswer {
        candidate,
        point_in_time: None,
        adapter_sha256,
        issued_at: None,
        invalidation_count: 0,
        etag: None,
    };
    commit_write(system, RowWrite::put_at(&key(area), &cached)).await;
}

/// Writes a row directly to the store.
pub(crate) async fn commit_write(system: &ActorSystem, write: RowWrite) {
    let (action, detail, timestamp) = ("test".into(), "a row".into(), system.clock.now());
    let mut record =
        JournalRecord::from(AuditEvent::new(timestamp, None, ControlAction { action, detail, peer: None }));
    record.writes.push(write);
    system.log.commit(record).await.expect("the commit succeeds");
}

/// A live source, an archive with a population of 54208 for Aruba in 1960, and a workflow over both.
pub(crate) async fn two_sources(scene: &TestScenario, settings: Json) {
    let system = &scene.world.system;
    live(system, "live", serde_json::json!({})).await;
    source(system, "archive", serde_json::json!({})).await;
    ingest_source_rows(system, "archive", "2026-11-01", &["Aruba,ABW,1960,54208"]).await;
    scene.time.start_clock();
    workflow(system, &["live", "archive"], settings).await;
}

/// Lets this number of seconds pass.
pub(crate) async fn after_s(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Awaits a future, and returns its result with its duration in milliseconds.
pub(crate) async fn timed<T>(asking: impl Future<Output = T>) -> (T, u64) {
    let began = Instant::now();
    let answer = asking.await;
    (answer, u64::try_from(began.elapsed().as_millis()).expect("a test is short"))
}

/// The clock of a test.
#[derive(Clone)]
pub(crate) struct ScenarioClock {
    hand: TestClock,
    /// The system's time when the clock starts, and the instant of that.
    begins: Arc<OnceLock<(Timestamp, Instant)>>,
    /// The log whose commits are awaited.
    log: Arc<Mutex<Option<LoggerHandle>>>,
}

impl ScenarioClock {
    fn set_awaited_log(&self, log: &LoggerHandle) {
        *self.log.lock().expect("the lock is not poisoned") = Some(log.clone());
    }

    /// Whether a commit is in progress.
    fn is_commit_in_progress(&self) -> bool {
        let log = self.log.lock().expect("the lock is not poisoned");
        log.as_ref().is_some_and(|log| log.actor_handle().report().queue_depth > 0)
    }

    /// Starts the system's clock. Anything before this takes no time.
    pub(crate) fn start_clock(&self) {
        let begins = (self.hand.clock().now(), Instant::now());
        self.begins.set(begins).expect("it begins once");
    }

    fn sync_clock(&self) {
        let Some((at, since)) = self.begins.get() else { return };
        let passed = SignedDuration::try_from(since.elapsed()).expect("a test is short");
        self.hand.set_time(*at + passed);
    }
}

/// The parts of a running test.
pub(crate) struct TestScenario {
    pub(crate) world: TestSystem,
    pub(crate) upstream: Arc<ScriptedSources>,
    pub(crate) time: ScenarioClock,
}

impl TestScenario {
    /// Stops the system, and starts another one on the same directory, with these sources.
    pub(crate) async fn restarted(self, upstream: Arc<ScriptedSources>) -> Self {
        let outside = TestServices { live: Some(Arc::clone(&upstream) as _), ..TestServices::default() };
        let world = self.world.restarted(outside).await;
        self.time.set_awaited_log(&world.system.log);
        Self { world, upstream, ..self }
    }
}

/// Runs `test` with a freshly started system on a paused clock.
pub(crate) fn with_scene<F: Future<Output = ()>>(
    change: impl FnOnce(&mut TestServices),
    test: impl FnOnce(TestScenario) -> F,
) {
    let time = ScenarioClock { hand: TestClock::new(), begins: Arc::default(), log: Arc::default() };
    let pulse = Arc::new(Notify::new());
    let runtime = {
        let (pulse, time, still) = (Arc::clone(&pulse), time.clone(), time.clone());
        let stay = move || {
            if still.is_commit_in_progress() {
                std::thread::sleep(Duration::from_micros(50));
                pulse.notify_one();
            }
        };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime
            .enable_all()
            .start_paused(true)
            .on_thread_park(stay)
            .on_thread_unpark(move || time.sync_clock());
        runtime.build().expect("a runtime")
    };
    actix_rt::System::with_tokio_rt(|| runtime).block_on(async {
        tokio::spawn(async move {
            loop {
                pulse.notified().await;
            }
        });
        let dir = tempfile::tempdir().expect("a directory");
        let upstream = ScriptedSources::new(&time.hand);
        let mut outside = TestServices { live: Some(Arc::clone(&upstream) as _), ..TestServices::default() };
        change(&mut outside);
        let world = start(dir.path(), time.hand.clone(), outside, Arc::default());
        time.set_awaited_log(&world.system.log);
        test(TestScenario { world, upstream, time }).await;
        drop(dir);
    });
}
