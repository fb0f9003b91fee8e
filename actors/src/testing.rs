//! A complete system in its own directory, for the tests of the actors.

pub(crate) mod ground;

use crate::audit::fallback::Fallback;
use crate::ground::ingestion::IngestionConfig;
use crate::ground::ingestion::slices::Limits;
use crate::ground::pull::{PullSettings, Puller};
use crate::rules::RulesConfig;
use crate::system::{Parts, System};
use crate::upstream::BoxFuture;
use crate::upstream::mail::MailService;
use crate::upstream::oracle::{LiveAnswer, LiveAsk, LiveOracle};
use crate::upstream::oracle_health::{Oracle, Probe};
use crate::upstream::web::WebError;
use crate::verdict::notifier::Mailing;
use crate::verdict::rate_limiter::CallLimits;
use crate::verdict::regen::AskedModel;
use crate::verdict::submission::Submission;
use crate::verification::VerificationConfig;
use crate::{Clock, Supervision};
use jiff::{SignedDuration, Timestamp};
use oracled_domain::rules::Settings;
use oracled_domain::verdict::delivery::Regen;
use oracled_domain::verdict::divergence::OriginalLabel;
use oracled_domain::verdict::health::{HealthConfig, Outcome};
use oracled_domain::verdict::mail::{MailKind, SendFailure};
use oracled_domain::verification::adapter::Ready;
use oracled_domain::{Delivery, GatePath, Label, Mail, Payload, Query, SessionId, Tier, UnexpectedFields};
use oracled_store::{Journal, LogQuery, Options, Store};
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const GOOD: &str = r#"{"verdict":"GREEN","summary":"A sound and simple plan."}"#;

/// A clock that a test sets.
#[derive(Debug, Clone)]
pub(crate) struct Hand(Arc<Mutex<Timestamp>>);

impl Hand {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new("2026-11-20T10:00:00Z".parse().expect("a time"))))
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock::movable(Arc::clone(&self.0))
    }

    pub(crate) fn show(&self, at: Timestamp) {
        *self.0.lock().expect("the lock is not poisoned") = at;
    }

    pub(crate) fn turn(&self, seconds: i64) {
        *self.0.lock().expect("the lock is not poisoned") += SignedDuration::from_secs(seconds);
    }
}

pub(crate) struct World {
    pub(crate) dir: PathBuf,
    /// Boxed: with an inline system the futures of tests would exceed 16 KB.
    pub(crate) system: Box<System>,
    pub(crate) time: Hand,
    pub(crate) fallback_lines: Arc<Mutex<Vec<String>>>,
}

/// The external services of a system.
#[derive(Default)]
pub(crate) struct Outside {
    pub(crate) oracles: Vec<Oracle>,
    pub(crate) model: Option<AskedModel>,
    /// If `None`, a mail service is configured that panics when a mail is sent.
    pub(crate) mailing: Option<Mailing>,
    /// If `None`, there are no live sources.
    pub(crate) live: Option<Arc<dyn LiveOracle>>,
    /// The most questions that are put to sources at once, if a test depends on it.
    pub(crate) at_once: Option<usize>,
}

/// Runs `test` with a new system.
pub(crate) fn with_world<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    with_outside(Hand::new(), Outside::default(), test);
}

/// Runs `test` with a new system that has these oracles and this clock.
pub(crate) fn with_oracles<F: Future<Output = ()>>(
    time: Hand,
    oracles: Vec<Oracle>,
    test: impl FnOnce(World) -> F,
) {
    with_outside(time, Outside { oracles, ..Outside::default() }, test);
}

/// Runs `test` with a new system that has these external services and this clock.
pub(crate) fn with_outside<F: Future<Output = ()>>(
    time: Hand,
    outside: Outside,
    test: impl FnOnce(World) -> F,
) {
    actix_rt::System::new().block_on(async {
        let dir = tempfile::tempdir().expect("a directory");
        let fallback_lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let system = start(dir.path(), &time, outside, Arc::clone(&fallback_lines));
        test(World { dir: dir.path().to_owned(), system, time, fallback_lines }).await;
        drop(dir);
    });
}

/// Starts a system on the store in `dir`.
pub(crate) fn start(
    dir: &Path,
    time: &Hand,
    outside: Outside,
    lines: Arc<Mutex<Vec<String>>>,
) -> Box<System> {
    let options =
        Options { dir: dir.to_owned(), cache_bytes: 1 << 20, facts_cache_bytes: 1 << 20, min_free_bytes: 0 };
    let (journal, store) = Journal::open(options).expect("the store opens");
    Box::new(System::start(Parts {
        journal,
        store,
        clock: time.clock(),
        fallback: Fallback::new(move |line| {
            lines.lock().expect("nobody panics here").push(line.to_owned());
        }),
        supervision: Supervision {
            max_panics: 10,
            window: Duration::from_secs(60),
            max_pause: Duration::from_millis(1),
        },
        oracles: outside.oracles,
        model: outside.model,
        calls: CallLimits { per_minute: NonZeroU32::new(1000).expect("not zero"), at_once: 4 },
        queue: 2000,
        hot_bytes: 1 << 20,
        pages_bytes: 1 << 26,
        mailing: outside.mailing.unwrap_or_else(nobody),
        unexpected_fields: UnexpectedFields::default(),
        rules: RulesConfig { settings: Settings::default(), compiled_bytes: 1 << 20 },
        ingestion: ingestion(time),
        verification: VerificationConfig {
            at_once: outside.at_once.unwrap_or(64),
            longest: Duration::from_secs(3600),
            health: HealthConfig::default(),
            live: outside.live.unwrap_or_else(|| Arc::new(NobodyLive)),
        },
    }))
}

/// The configuration of ingestion.
pub(crate) fn ingestion(time: &Hand) -> IngestionConfig {
    IngestionConfig {
        runs_at_once: 2,
        limits: Limits::default(),
        puller: local_puller(time),
        refresh_wait: Duration::from_secs(5),
    }
}

/// A puller that may connect to this machine.
fn local_puller(time: &Hand) -> Arc<Puller> {
    let settings = PullSettings {
        allow_local: vec!["127.0.0.1/32".parse().expect("a range")],
        allow_cleartext: false,
        max_payload_bytes: 1 << 20,
        connect: Duration::from_secs(1),
        idle: Duration::from_secs(1),
        whole: Duration::from_secs(5),
    };
    Arc::new(Puller::new(settings, BTreeMap::new(), time.clock()))
}

/// A live oracle without sources.
#[derive(Debug)]
pub(crate) struct NobodyLive;

impl LiveOracle for NobodyLive {
    fn check(&self, _: &Ready) -> Result<(), WebError> {
        Ok(())
    }

    fn ask(&self, _: LiveAsk) -> BoxFuture<'_, LiveAnswer> {
        Box::pin(async { panic!("no live source may be asked") })
    }
}

/// A mail service that panics when a mail is sent. It is not one of the oracles.
fn nobody() -> Mailing {
    #[derive(Debug)]
    struct Nobody;
    impl Probe for Nobody {
        fn probe(&self) -> BoxFuture<'_, Outcome> {
            Box::pin(async { Outcome::Failure("nobody is there".into()) })
        }
    }
    impl MailService for Nobody {
        fn send<'a>(&'a self, _: &'a Mail) -> BoxFuture<'a, Result<(), SendFailure>> {
            Box::pin(async { panic!("no mail may be sent") })
        }
    }
    Mailing { service: Some(Arc::new(Nobody)), max_age: SignedDuration::from_hours(72) }
}

/// A mail of `kind` about the verdict `verdict`.
pub(crate) fn mail_of(kind: MailKind, tier: Tier, verdict: &str, regen: Option<Regen>) -> Mail {
    let delivery = Delivery {
        session_id: id("cs_1"),
        query: Query::new("Sell honey?".into()),
        approved: oracled_domain::judge(tier, Payload::raw(verdict)).outcome.expect("it is coherent"),
        cached_at: "2026-11-20T10:00:00Z".parse().expect("a time"),
        regen,
        evaluation_sha256: None,
    };
    Mail::queued(kind, Arc::new(delivery), "a@example.org".to_owned().try_into().expect("an address"))
}

/// The regeneration data of a verdict with this original label.
pub(crate) fn regenerated(original: Label) -> Option<Regen> {
    let original = OriginalLabel(Some(original));
    Some(Regen { original, prompt_changed: false, settings_changed: false })
}

pub(crate) fn id(text: &str) -> SessionId {
    text.parse().expect("an id")
}

pub(crate) fn judge(session_id: &str, raw: &str, path: GatePath) -> Submission {
    Submission {
        session_id: id(session_id),
        tier: Tier::Quick,
        query: Query::new("Sell honey?".into()),
        payload: Some(Payload::raw(raw)),
        customer_email: None,
        path,
        made: None,
        check: None,
    }
}

/// The `event` of every entry in the log.
pub(crate) fn logged(store: &Store) -> Vec<String> {
    let lines = store.log(&LogQuery { limit: usize::MAX, ..LogQuery::default() }).expect("the log is read");
    let event = |json: &str| -> Option<String> {
        serde_json::from_str::<serde_json::Value>(json).ok()?.get("event")?.as_str().map(String::from)
    };
    lines.iter().map(|line| event(&line.json).expect("an event has its name")).collect()
}

impl World {
    /// Closes the log, and starts another system on a copy of the files: the readers of the first system still have the
    /// store open.
    pub(crate) async fn restarted(self, outside: Outside) -> Self {
        self.system.log.close().await;
        let again = self.dir.join("again");
        for dir in ["", "store", "store/blobs", "ground/facts", "ground/raw"] {
            let (from, to) = (self.dir.join(dir), again.join(dir));
            fs::create_dir_all(&to).expect("it is made");
            let entries = fs::read_dir(from).into_iter().flatten().map(|entry| entry.expect("an entry"));
            for entry in entries.filter(|entry| entry.path().is_file()) {
                fs::copy(entry.path(), to.join(entry.file_name())).expect("it is copied");
            }
        }
        let system = start(&again, &self.time, outside, Arc::clone(&self.fallback_lines));
        Self { dir: again, system, ..self }
    }

    /// Stops the system, and starts it again `seconds` later. The log is closed first: otherwise a schedule that comes
    /// due in between would start in the stopped system.
    pub(crate) async fn restarted_after(self, seconds: i64) -> Self {
        self.system.log.close().await;
        self.time.turn(seconds);
        self.restarted(Outside::default()).await
    }

    /// Makes every write to the store fail until [`World::mend_store`] is called.
    pub(crate) fn break_store(&self) {
        fs::rename(self.dir.join("store/db"), self.dir.join("store/gone")).expect("it is moved");
    }

    pub(crate) fn mend_store(&self) {
        fs::rename(self.dir.join("store/gone"), self.dir.join("store/db")).expect("it is moved");
    }
}
