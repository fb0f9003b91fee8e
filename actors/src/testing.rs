//! A complete system in its own directory, for the tests of the actors.

pub(crate) mod ground;
pub(crate) mod model;

use crate::system::{ActorSystem, SystemParts};
use actors_audit::logger::handle::FallbackLog;
use actors_ground::ingestion::IngestionConfig;
use actors_ground::pull::{PayloadPuller, PullSettings};
use actors_platform::clock::Clock;
use actors_platform::guardian::SupervisionLimits;
use actors_platform::per_application::PerApplication;
use actors_platform::shared_calls::SharedCalls;
use actors_platform::work_turn::WorkTurn;
use actors_rules::RulesConfig;
pub(crate) use actors_testing::{GOOD, id, mail_of, regenerated};
use actors_upstream::lookup::LookupClient;
use actors_upstream::mail::MailService;
use actors_upstream::oracle::{LiveAnswer, LiveOracle, LiveQuery};
use actors_upstream::oracle_health::{MonitoredOracle, OracleProbe};
use actors_upstream::web::WebError;
use actors_upstream::web::webhook::WebhookClient;
use actors_upstream::{BoxFuture, Reloadable, RequestFailureKind};
use actors_verdict::cache::PolicyConfig;
use actors_verdict::generation::ConfiguredModels;
use actors_verdict::held_key::HeldVerdictKey;
use actors_verdict::notifier::{NotifierConfig, WebhookConfig};
use actors_verdict::orders::OrdersConfig;
use actors_verdict::rate_limiter::{CallLimits, ModelCallLimits};
use actors_verdict::submission::Submission;
use actors_verification::VerificationConfig;
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_base::session_id::ApplicationName;
use domain_rules::RuleSettings;
use domain_upstream::health::{CircuitCallOutcome, OracleHealthConfig};
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::cost::CostBudgets;
use domain_verdict::crosscheck::UnexpectedFieldHandling;
use domain_verdict::label::ProductTier;
use domain_verdict::mail::{MailSendFailure, OutboxMail};
use domain_verdict::mail_template::MailContent;
use domain_verdict::opinion::OpinionPlan;
use domain_verdict::order::OrderPolicy;
use domain_verdict::policy::{DeliveryPolicies, PerTier};
use domain_verdict::prompt::{PromptTemplate, TemplateName};
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::SessionCaller;
use domain_verification::adapter::ValidatedAdapter;
use jiff::{SignedDuration, Timestamp};
use oracled_store::{LogQuery, Store, StoreOptions};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store_facts::slices::SliceLimits;

/// A clock that a test sets.
#[derive(Debug, Clone)]
pub(crate) struct TestClock(Arc<Mutex<Timestamp>>, Arc<AtomicI64>);

impl TestClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new("2026-11-20T10:00:00Z".parse().expect("a valid time"))), Arc::default())
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock::settable(Arc::clone(&self.0), Arc::clone(&self.1))
    }

    pub(crate) fn set_time(&self, at: Timestamp) {
        *self.0.lock().expect("the lock is not poisoned") = at;
    }

    /// Sets the clock forward, or back, while no time passes.
    pub(crate) fn step(&self, seconds: i64) {
        self.1.fetch_add(seconds, Ordering::Relaxed);
        self.advance(seconds);
    }

    pub(crate) fn advance(&self, seconds: i64) {
        *self.0.lock().expect("the lock is not poisoned") += SignedDuration::from_secs(seconds);
    }
}

pub(crate) struct TestSystem {
    pub(crate) dir: PathBuf,
    /// Boxed: with an inline system the futures of tests would exceed 16 KB.
    pub(crate) system: Box<ActorSystem>,
    pub(crate) time: TestClock,
    pub(crate) fallback_lines: Arc<Mutex<Vec<String>>>,
    registry: Registry,
}

/// The external services of a system.
#[derive(Default)]
pub(crate) struct TestServices {
    pub(crate) oracles: Vec<MonitoredOracle>,
    pub(crate) models: ConfiguredModels,
    /// If `None`, the built-in template.
    pub(crate) prompt_template: Option<TemplateName>,
    pub(crate) budgets: CostBudgets,
    pub(crate) policies: DeliveryPolicies,
    pub(crate) opinions: PerTier<Option<OpinionPlan>>,
    /// If `None`, unknown sessions are not looked up.
    pub(crate) lookup: Option<LookupClient>,
    /// If `None`, a mail service is configured that panics when a mail is sent.
    pub(crate) mailing: Option<NotifierConfig>,
    /// If `None`, there are no live sources.
    pub(crate) live: Option<Arc<dyn LiveOracle>>,
    /// The most questions that are put to sources at once, if a test depends on it.
    pub(crate) at_once: Option<usize>,
    /// If `None`, the host is alone.
    pub(crate) shared_calls: Option<SharedCalls>,
}

/// Runs `test` with a new system.
pub(crate) fn with_system<F: Future<Output = ()>>(test: impl FnOnce(TestSystem) -> F) {
    with_services(TestClock::new(), TestServices::default(), test);
}

/// Runs `test` with a new system that has these oracles and this clock.
pub(crate) fn with_oracles<F: Future<Output = ()>>(
    time: TestClock,
    oracles: Vec<MonitoredOracle>,
    test: impl FnOnce(TestSystem) -> F,
) {
    with_services(time, TestServices { oracles, ..TestServices::default() }, test);
}

/// Runs `test` with a new system that has these external services and this clock.
pub(crate) fn with_services<F: Future<Output = ()>>(
    time: TestClock,
    outside: TestServices,
    test: impl FnOnce(TestSystem) -> F,
) {
    actix_rt::System::new().block_on(async {
        let dir = tempfile::tempdir().expect("a directory");
        test(start(dir.path(), time, outside, Arc::default())).await;
        drop(dir);
    });
}

/// Webhooks without an endpoint.
fn no_webhooks(time: &TestClock) -> WebhookConfig {
    let client = WebhookClient::new(BTreeMap::new(), &[], Duration::from_secs(1), time.clock());
    let [max_age, pause_after] = [72, 120].map(SignedDuration::from_hours);
    WebhookConfig { client: Reloadable::new(Arc::new(client)), max_age, pause_after }
}

/// Starts a system on the store in `dir`.
pub(crate) fn start(
    dir: &Path,
    time: TestClock,
    outside: TestServices,
    fallback_lines: Arc<Mutex<Vec<String>>>,
) -> TestSystem {
    let options = StoreOptions {
        dir: dir.to_owned(),
        cache_bytes: 1 << 20,
        facts_cache_bytes: 1 << 20,
        min_free_bytes: 0,
    };
    let (journal, store) = Store::open(options).expect("the store opens");
    let lines = Arc::clone(&fallback_lines);
    let parts = SystemParts {
        turn: WorkTurn::Alone,
        removals: None,
        shared_calls: outside.shared_calls,
        journal,
        store,
        clock: time.clock(),
        fallback: FallbackLog::new(move |line| {
            lines.lock().expect("the lock is not poisoned").push(line.to_owned());
        }),
        supervision: SupervisionLimits {
            max_panics: 10,
            window: Duration::from_secs(60),
            max_pause: Duration::from_millis(1),
        },
        applications: vec![ApplicationName::default()],
        oracles: outside.oracles,
        lookup: outside.lookup.map(|client| Reloadable::new(Arc::new(client))),
        models: outside.models,
        prompt_templates: PerApplication::new(
            outside.prompt_template.unwrap_or_else(PromptTemplate::built_in_name),
        ),
        recall_modes: PerApplication::default(),
        budgets: outside.budgets,
        calls: call_limits(),
        orders: OrdersConfig {
            policy: OrderPolicy {
                max_age: SignedDuration::from_hours(1),
                generations_max: 2,
                holds_stopped: false,
            },
            queue_max: 100,
            applications: BTreeMap::new(),
            further_temperatures: vec![0.4],
        },
        queue: 2000,
        hot_bytes: 1 << 20,
        pages_bytes: 1 << 26,
        mailing: outside.mailing.unwrap_or_else(panicking_mail_service),
        webhooks: no_webhooks(&time),
        policy: PolicyConfig {
            policies: outside.policies,
            opinions: outside.opinions,
            key: HeldVerdictKey::in_state_dir(dir),
        },
        unexpected_fields: UnexpectedFieldHandling::default(),
        rules: RulesConfig { settings: RuleSettings::default(), compiled_bytes: 1 << 20 },
        ingestion: ingestion(&time),
        verification: VerificationConfig {
            at_once: outside.at_once.unwrap_or(64),
            longest: Duration::from_secs(3600),
            health: OracleHealthConfig::default(),
            live: outside.live.unwrap_or_else(|| Arc::new(EmptyLiveOracle)),
        },
    };
    let mut registry = Registry::default();
    let system = Box::new(ActorSystem::start(parts, &mut registry));
    TestSystem { dir: dir.to_owned(), system, time, fallback_lines, registry }
}

fn call_limits() -> CallLimits {
    let limits = ModelCallLimits { per_minute: NonZeroU32::new(1000).expect("not zero"), at_once: 4 };
    let models = [test_model_id(), "backup".parse().expect("an id")];
    CallLimits { models: models.map(|id| (id, limits)).into(), applications: BTreeMap::new() }
}

/// The configuration of ingestion.
pub(crate) fn ingestion(time: &TestClock) -> IngestionConfig {
    IngestionConfig {
        turn: WorkTurn::Alone,
        objects: None,
        runs_at_once: 2,
        limits: SliceLimits::default(),
        puller: Reloadable::new(local_puller(time)),
        refresh_wait: Duration::from_secs(5),
    }
}

/// A puller that may connect to this machine.
fn local_puller(time: &TestClock) -> Arc<PayloadPuller> {
    let settings = PullSettings {
        allow_local: vec!["127.0.0.1/32".parse().expect("a range")],
        allow_cleartext: false,
        max_payload_bytes: 1 << 20,
        connect: Duration::from_secs(1),
        idle: Duration::from_secs(1),
        whole: Duration::from_secs(5),
    };
    Arc::new(PayloadPuller::new(settings, BTreeMap::new(), time.clock()))
}

/// A live oracle without sources.
#[derive(Debug)]
pub(crate) struct EmptyLiveOracle;

impl LiveOracle for EmptyLiveOracle {
    fn check(&self, _: &ValidatedAdapter) -> Result<(), WebError> {
        Ok(())
    }

    fn ask(&self, _: LiveQuery) -> BoxFuture<'_, LiveAnswer> {
        Box::pin(async { panic!("no live source may be asked") })
    }
}

/// A mail service that panics when a mail is sent. It is not one of the oracles.
fn panicking_mail_service() -> NotifierConfig {
    #[derive(Debug)]
    struct PanickingMailService;
    impl OracleProbe for PanickingMailService {
        fn probe(&self) -> BoxFuture<'_, CircuitCallOutcome> {
            Box::pin(async { CircuitCallOutcome::Failure(RequestFailureKind::Connect) })
        }
    }
    impl MailService for PanickingMailService {
        fn send<'a>(
            &'a self,
            _: &'a OutboxMail,
            _: Option<&'a MailContent>,
        ) -> BoxFuture<'a, Result<(), MailSendFailure>> {
            Box::pin(async { panic!("no mail may be sent") })
        }
    }
    NotifierConfig {
        service: Some(Arc::new(PanickingMailService)),
        max_age: SignedDuration::from_hours(72),
        templates: PerApplication::default(),
        contacts: PerApplication::default(),
    }
}

/// The oracle id of the scripted model.
pub(crate) fn test_model_id() -> UpstreamId {
    "gemini".parse().expect("a valid id")
}

pub(crate) fn test_submission(session_id: &str, raw: &str, path: GatePath) -> Submission {
    Submission {
        session_id: id(session_id),
        caller: SessionCaller::Application,
        tier: ProductTier::Quick,
        query: CustomerQuery::new("Sell honey?".into()),
        payload: Some(VerdictPayload::raw(raw)),
        customer_email: None,
        path,
        prompt: None,
        generation_trace: None,
        evidence: Vec::new(),
        check: None,
    }
}

/// The `event` of every entry in the log.
pub(crate) fn logged_events(store: &Store) -> Vec<String> {
    let lines = store.log(&LogQuery { limit: usize::MAX, ..LogQuery::default() }).expect("the log is read");
    let event = |json: &str| -> Option<String> {
        serde_json::from_str::<serde_json::Value>(json).ok()?.get("event")?.as_str().map(String::from)
    };
    lines.iter().map(|line| event(&line.json).expect("an event has its name")).collect()
}

impl TestSystem {
    /// The metrics as OpenMetrics text.
    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("valid UTF-8");
        text
    }

    /// Closes the log, and starts another system on a copy of the files: the readers of the first system still have the
    /// store open.
    pub(crate) async fn restarted(self, outside: TestServices) -> Self {
        self.system.log.close().await;
        let again = self.dir.join("again");
        for dir in ["", "segments", "segments.copy", "store", "store/blobs", "ground/facts", "ground/raw"] {
            let (from, to) = (self.dir.join(dir), again.join(dir));
            fs::create_dir_all(&to).expect("the directory is created");
            let entries = fs::read_dir(from).into_iter().flatten().map(|entry| entry.expect("an entry"));
            for entry in entries.filter(|entry| entry.path().is_file()) {
                fs::copy(entry.path(), to.join(entry.file_name())).expect("the copy succeeds");
            }
        }
        start(&again, self.time, outside, self.fallback_lines)
    }

    /// Stops the system, and starts it again `seconds` later. The log is closed first: otherwise a schedule that comes
    /// due in between would start in the stopped system.
    pub(crate) async fn restarted_after(self, seconds: i64) -> Self {
        self.system.log.close().await;
        self.time.advance(seconds);
        self.restarted(TestServices::default()).await
    }

    /// Makes every write to the store fail until [`TestSystem::mend_store`] is called.
    pub(crate) fn break_store(&self) {
        fs::rename(self.dir.join("store/db"), self.dir.join("store/gone")).expect("the rename succeeds");
    }

    pub(crate) fn mend_store(&self) {
        fs::rename(self.dir.join("store/gone"), self.dir.join("store/db")).expect("the rename succeeds");
    }
}
