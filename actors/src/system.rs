//! All wiring, bottom-up, in one function: the actors and services, and which of them each one may call.

use crate::audit::fallback::Fallback;
use crate::audit::logger::{JournalReport, Log, Logger};
use crate::ground::ingestion::{Ingestion, IngestionConfig};
use crate::ground::queries::{Processors, Queries};
use crate::ground::registry::{Desk, Registry};
use crate::platform::clock::Clock;
use crate::platform::door::Door;
use crate::platform::guardian::{self, Supervision};
use crate::platform::metrics::Metrics;
use crate::platform::vitals::Vitals;
use crate::rules::fact_sources::FactSources;
use crate::rules::{Rules, RulesConfig};
use crate::upstream::oracle_health::{Oracle, OracleHealth};
use crate::verdict::cache::Cache;
use crate::verdict::crosscheck::Crosscheck;
use crate::verdict::notifier::{Mailing, Notifier};
use crate::verdict::rate_limiter::{CallLimits, RateLimiter};
use crate::verdict::regen::{AskedModel, Doors, Regen};
use crate::verification::{self, Verification, VerificationConfig, VerificationUpkeep};
use actix_rt::{Arbiter, ArbiterHandle};
use oracled_domain::base::actor_report::ActorReport;
use oracled_domain::{OracleId, UnexpectedFields};
use oracled_store::{Journal, Store};
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

/// The configuration and resources of the system.
#[derive(Debug)]
pub struct Parts {
    /// The only writer to disk; the logger owns it.
    pub journal: Journal,
    /// The tables, for reading.
    pub store: Store,
    /// The clock of all decisions.
    pub clock: Clock,
    /// The writer for entries that the journal rejects.
    pub fallback: Fallback,
    /// When a guardian gives up, and how long it pauses.
    pub supervision: Supervision,
    /// The monitored external services.
    pub oracles: Vec<Oracle>,
    /// The model that makes verdicts, if one is configured; it is one of the oracles.
    pub model: Option<AskedModel>,
    /// The limits for calls of the model.
    pub calls: CallLimits,
    /// The most messages that may wait for each actor except the logger.
    pub queue: usize,
    /// The memory for recently used verdicts, in bytes.
    pub hot_bytes: u64,
    /// The memory for pages of answers to queries, in bytes.
    pub pages_bytes: usize,
    /// The mail service and its limits.
    pub mailing: Mailing,
    /// How unexpected members of a verdict, which the crosscheck does not judge, are handled.
    pub unexpected_fields: UnexpectedFields,
    /// The configuration of the rules.
    pub rules: RulesConfig,
    /// The configuration of ingestion.
    pub ingestion: IngestionConfig,
    /// The configuration of verification.
    pub verification: VerificationConfig,
}

/// The running actors.
#[derive(Debug, Clone)]
pub struct System {
    /// The actor that judges verdicts.
    pub crosscheck: Door<Crosscheck>,
    /// The oracle that makes verdicts, if one is configured.
    pub model: Option<OracleId>,
    /// The actor that has the model make verdicts.
    pub regen: Door<Regen>,
    /// The actor that stores verdicts.
    pub cache: Door<Cache>,
    /// The service that checks text against facts.
    pub rules: Rules,
    /// The actor that limits calls of the model.
    pub rate_limiter: Door<RateLimiter>,
    /// The actor that sends the mails of the outbox.
    pub notifier: Door<Notifier>,
    /// The actor that tracks the health of the oracles, with their circuits.
    pub oracle_health: Door<OracleHealth>,
    /// The service that registers ontologies, sources and pipelines.
    pub registry: Registry,
    /// The actor that runs the ingestion of payloads.
    pub ingestion: Door<Ingestion>,
    /// The service that answers queries of sources.
    pub queries: Queries,
    /// The service that decides questions by the answers of sources.
    pub verification: Verification,
    /// The actor that runs the scheduled work of the verification.
    pub verification_upkeep: Door<VerificationUpkeep>,
    /// The service that collects facts from sources.
    pub fact_sources: FactSources,
    /// The handle of the logger.
    pub log: Log,
    /// The tables, for reading.
    pub store: Store,
    /// The Prometheus metrics of the actors.
    pub metrics: Metrics,
    /// The clock of all decisions.
    pub clock: Clock,
    abandoned: watch::Receiver<Option<String>>,
}

impl System {
    /// Starts every actor: the logger on a thread of its own, the others on the calling thread's arbiter.
    ///
    /// # Panics
    /// If no actix system runs on the calling thread.
    #[must_use]
    #[expect(
        clippy::too_many_lines,
        reason = "it is one list of the actors and services, and of what each may call"
    )]
    pub fn start(parts: Parts) -> Self {
        let Parts { journal, store, clock, fallback, supervision, .. } = parts;
        let Parts {
            oracles,
            model,
            calls,
            mailing,
            unexpected_fields,
            rules,
            ingestion,
            verification,
            queue,
            hot_bytes,
            pages_bytes,
            ..
        } = parts;
        let metrics = Metrics::default();
        let (abandon, abandoned) = watch::channel(None);
        let here = Arbiter::current();
        let own_thread = Arbiter::new().handle();
        let hire = Hire { supervision, clock: clock.clone(), abandon };

        let (report, reports) = watch::channel(JournalReport::default());
        let logger = Logger::new(journal, report, hire.abandon.clone(), clock.clone(), metrics.clone());
        let fallback_entries = logger.fallback_entries();
        // no limit: each message that reaches the logger already has a place at a limited door, and no entry may be
        // rejected
        let door = hire.start("logger", &own_thread, Semaphore::MAX_PERMITS, move || logger);
        let (log, waiting) = Log::new(door, reports, fallback, fallback_entries, metrics.clone());
        actix_rt::spawn(log.clone().write(waiting));

        let oracle_health = {
            let (log, clock) = (log.clone(), clock.clone());
            hire.start("oracle_health", &here, queue, move || OracleHealth::new(oracles, log, clock))
        };

        let rate_limiter = {
            let (store, log, clock) = (store.clone(), log.clone(), clock.clone());
            hire.start("rate_limiter", &here, queue, move || RateLimiter::new(calls, store, log, clock))
        };

        let registry = {
            let (store, log, clock) = (store.clone(), log.clone(), clock.clone());
            let (puller, live) = (Arc::clone(&ingestion.puller), Arc::clone(&verification.live));
            let metrics = metrics.clone();
            Registry::new(Desk { store, log, clock }, puller, live, metrics)
        };
        let refresh_wait = ingestion.refresh_wait;
        let ingestion = {
            let made = Ingestion::new(ingestion, store.clone(), log.clone(), clock.clone(), metrics.clone());
            hire.start("ingestion", &here, queue, move || made)
        };

        let processors = Processors::default();
        let queries = {
            let bounds = (pages_bytes, processors.clone());
            let (store, log) = (store.clone(), log.clone());
            let (clock, metrics) = (clock.clone(), metrics.clone());
            Queries::new(store, log, clock, metrics, ingestion.clone(), refresh_wait, bounds)
        };
        let verification = {
            let (store, clock, metrics) = (store.clone(), clock.clone(), metrics.clone());
            let doors = verification::Doors {
                queries: queries.clone(),
                oracle_health: oracle_health.clone(),
                log: log.clone(),
            };
            Verification::new(verification, doors, store, clock, metrics)
        };
        let verification_upkeep = {
            let verification = verification.clone();
            let make = move || VerificationUpkeep::new(verification);
            hire.start("verification_upkeep", &here, queue, make)
        };
        let fact_sources = FactSources::new(queries.clone(), verification.clone(), store.clone());

        let mails = mailing.service.is_some();
        let notifier = {
            let (oracle_health, store, log) = (oracle_health.clone(), store.clone(), log.clone());
            let (clock, metrics) = (clock.clone(), metrics.clone());
            let make = move || Notifier::new(mailing, oracle_health, store, log, clock, metrics);
            hire.start("notifier", &here, queue, make)
        };

        let cache = {
            let (store, log, clock, metrics) = (store.clone(), log.clone(), clock.clone(), metrics.clone());
            let notifier = mails.then(|| notifier.clone());
            let make = move || Cache::new(store, log, clock, metrics, notifier, hot_bytes);
            hire.start("cache", &here, queue, make)
        };

        let rules = Rules::new(rules, processors, log.clone(), clock.clone(), metrics.clone());

        let crosscheck = {
            let doors = (cache.clone(), rules.clone());
            let (log, clock, metrics) = (log.clone(), clock.clone(), metrics.clone());
            let make = move || Crosscheck::new(unexpected_fields, doors, log, clock, metrics);
            hire.start("crosscheck", &here, queue, make)
        };

        let made_by = model.as_ref().map(|model| model.oracle_id.clone());
        let regen = {
            let (store, clock, metrics) = (store.clone(), clock.clone(), metrics.clone());
            let doors = Doors {
                rate_limiter: rate_limiter.clone(),
                oracle_health: oracle_health.clone(),
                crosscheck: crosscheck.clone(),
                cache: cache.clone(),
                log: log.clone(),
            };
            hire.start("regen", &here, queue, move || Regen::new(model, doors, store, clock, metrics))
        };

        let model = made_by;
        Self {
            crosscheck,
            model,
            regen,
            cache,
            rules,
            rate_limiter,
            notifier,
            oracle_health,
            registry,
            ingestion,
            queries,
            verification,
            verification_upkeep,
            fact_sources,
            log,
            store,
            metrics,
            clock,
            abandoned,
        }
    }

    /// The report of every actor, in a fixed order.
    #[must_use]
    pub fn reports(&self) -> Vec<ActorReport> {
        vec![
            self.regen.report(),
            self.crosscheck.report(),
            self.cache.report(),
            self.rate_limiter.report(),
            self.notifier.report(),
            self.oracle_health.report(),
            self.verification_upkeep.report(),
            self.ingestion.report(),
            self.log.door().report(),
        ]
    }

    /// Waits until a guardian gives up, and returns the reason. The process must end then.
    pub async fn abandoned(&self) -> String {
        let mut abandoned = self.abandoned.clone();
        match abandoned.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // every guardian has ended normally: there is nothing to wait for
            Err(_) => std::future::pending().await,
        }
    }
}

/// Starts actors under supervision.
struct Hire {
    supervision: Supervision,
    clock: Clock,
    abandon: watch::Sender<Option<String>>,
}

impl Hire {
    fn start<A>(
        &self,
        name: &'static str,
        arbiter: &ArbiterHandle,
        places: usize,
        make: impl FnOnce() -> A + Send + 'static,
    ) -> Door<A>
    where
        A: actix::Actor<Context = actix::Context<A>> + actix::Supervised + Unpin,
    {
        let vitals = Arc::new(Vitals::new(name, self.clock.clone()));
        let abandon = self.abandon.clone();
        let give_up = move |reason: String| {
            abandon.send_replace(Some(reason));
        };
        Door::new(
            guardian::start(arbiter, self.supervision, Arc::clone(&vitals), give_up, make),
            places,
            vitals,
        )
    }
}
