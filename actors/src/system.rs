//! All wiring, bottom-up, in one function: the actors and services, and which of them each one may call.

use actix::{Actor, Context, Handler, Supervised};
use actix_rt::{Arbiter, ArbiterHandle};
use actors_audit::logger::handle::FallbackLog;
use actors_audit::logger::{JournalReport, Logger, LoggerHandle, LoggerMetrics};
use actors_ground::ingestion::{
    IngestionActor, IngestionConfig, MissingFilesReport, ReadMissingFiles, SetDraining,
};
use actors_ground::metrics::{IngestionMetrics, QueryMetrics};
use actors_ground::queries::{ProcessorPool, QueryService};
use actors_ground::registry::{
    self, CommitContext, DocumentCounters, DocumentRegistration, DocumentRegistry,
};
use actors_platform::actor_handle::{ActorCall, ActorCallError, ActorHandle, StartedActor};
use actors_platform::clock::Clock;
use actors_platform::guardian::{self, ActorStats, EndReason, SupervisionLimits};
use actors_platform::host_removals::HostRemovals;
use actors_platform::per_application::PerApplication;
use actors_platform::shared_calls::SharedCalls;
use actors_platform::work::InFlight;
use actors_platform::work_turn::WorkTurn;
use actors_rules::fact_sources::FactCollector;
use actors_rules::{RuleMetrics, RuleService, RulesConfig};
use actors_upstream::Reloadable;
use actors_upstream::lookup::LookupClient;
use actors_upstream::oracle_health::{MonitoredOracle, OracleHealth};
use actors_verdict::cache::{
    CacheReadMetrics, ComparisonMetrics, DeliveryListeners, HotVerdicts, PolicyConfig, VerdictCache,
};
use actors_verdict::crosscheck::{CrosscheckActor, CrosscheckMetrics};
use actors_verdict::erasure::{ErasureHandles, ErasureService};
use actors_verdict::followed::report_followed;
use actors_verdict::generation::{ConfiguredModels, GenerationHandles, GenerationMetrics, GenerationRunner};
use actors_verdict::held_key::{HeldKeyError, HeldVerdictKey};
use actors_verdict::lookup::{LookupMetrics, LookupService};
use actors_verdict::notifier::{
    Notifier, NotifierConfig, OutboxMetrics, OutboxWork, WebhookConfig, wake_for_committed,
};
use actors_verdict::order_metrics::{OrderMetrics, OrderProgress};
use actors_verdict::orders::{OrderWaits, OrderWork, OrdersActor, OrdersConfig};
use actors_verdict::outbox_queue::OutboxQueue;
use actors_verdict::rate_limiter::{CallLimits, RateLimiter};
use actors_verdict::recall::RecallService;
use actors_verdict::regen::RegenActor;
use actors_verdict::what_if::WhatIfService;
use actors_verification::{VerificationConfig, VerificationMetrics, VerificationService, VerificationUpkeep};
use domain_base::document::Document;
use domain_base::service::ActorReport;
use domain_base::session_id::ApplicationName;
use domain_ground::source::RecallMode;
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::cost::{CostBudgets, DailyBudget, day_of};
use domain_verdict::crosscheck::UnexpectedFieldHandling;
use domain_verdict::prompt::{PromptTemplate, TemplateName};
use oracled_store::{Journal, Store, StoreError};
use prometheus_client::registry::Registry;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::sync::{Mutex, Semaphore, mpsc, watch};
use tokio::task::spawn_blocking;

/// The kinds of documents of each feature, in the order of their dependencies.
const DOCUMENTS: &[&[&DocumentRegistration]] = &[
    registry::DOCUMENTS,
    actors_verification::documents::DOCUMENTS,
    actors_rules::documents::DOCUMENTS,
    actors_verdict::documents::DOCUMENTS,
];

/// The configuration and resources of the system.
#[derive(Debug)]
pub struct SystemParts {
    /// The only writer to disk; the logger owns it.
    pub journal: Journal,
    /// The tables, for reading.
    pub store: Store,
    /// The clock of all decisions.
    pub clock: Clock,
    /// The writer for entries that the journal rejects.
    pub fallback: FallbackLog,
    /// When a guardian gives up, and how long it pauses.
    pub supervision: SupervisionLimits,
    /// The applications whose sessions the system has.
    pub applications: Vec<ApplicationName>,
    /// The monitored external services.
    pub oracles: Vec<MonitoredOracle>,
    /// The models that make verdicts; they are among the oracles.
    pub models: ConfiguredModels,
    /// The templates of prompts.
    pub prompt_templates: PerApplication<TemplateName>,
    pub calls: CallLimits,
    pub budgets: CostBudgets,
    /// The payment service at which unknown sessions are looked up, if one is configured; it is one of the oracles.
    pub lookup: Option<Reloadable<LookupClient>>,
    pub orders: OrdersConfig,
    /// The most messages that may wait for each actor except the logger.
    pub queue: usize,
    /// The memory for recently used verdicts, in bytes.
    pub hot_bytes: u64,
    /// The memory for pages of answers to queries, in bytes.
    pub pages_bytes: usize,
    /// The mail service and its limits.
    pub mailing: NotifierConfig,
    /// The endpoints of webhooks and their limits.
    pub webhooks: WebhookConfig,
    /// Which approved verdicts are held or refused.
    pub policy: PolicyConfig,
    /// How unexpected members of a verdict, which the crosscheck does not judge, are handled.
    pub unexpected_fields: UnexpectedFieldHandling,
    /// The configuration of the rules.
    pub rules: RulesConfig,
    /// The configuration of ingestion.
    pub ingestion: IngestionConfig,
    /// The configuration of verification.
    pub verification: VerificationConfig,
    /// How delivered verdicts whose statements have changed are handled.
    pub recall_modes: PerApplication<RecallMode>,
    /// Whether this host does the work that one host of a cluster does at a time.
    pub turn: WorkTurn,
    /// The removals of data from the files of all hosts of a cluster; `None` if this is the only host.
    pub removals: Option<HostRemovals>,
    /// The limits of calls that the hosts of a cluster share; `None` if this is the only host.
    pub shared_calls: Option<SharedCalls>,
}

/// The running actors.
#[derive(Debug, Clone)]
pub struct ActorSystem {
    /// The actor that judges verdicts.
    pub crosscheck: ActorHandle<CrosscheckActor>,
    /// The models that make first verdicts, in the order in which they are tried.
    pub models: Vec<UpstreamId>,
    /// The same of all applications, and of those with an order of their own.
    pub model_orders: Vec<(Option<ApplicationName>, Vec<UpstreamId>)>,
    pub budgets: CostBudgets,
    /// The counts of the outbox.
    pub outbox: OutboxMetrics,
    held_key: HeldVerdictKey,
    /// The actor that regenerates lost verdicts.
    pub regen: ActorHandle<RegenActor>,
    /// The service that looks unknown sessions up, if a payment service is configured.
    pub lookup: Option<LookupService>,
    /// The actor that generates first verdicts.
    pub orders: ActorHandle<OrdersActor>,
    /// The causes for which queued orders wait.
    pub order_waits: OrderWaits,
    /// The actor that stores verdicts.
    pub cache: ActorHandle<VerdictCache>,
    /// The memory of the cache.
    pub hot_verdicts: HotVerdicts,
    /// The service that checks text against facts.
    pub rules: RuleService,
    /// The actor that limits calls of the model.
    pub rate_limiter: ActorHandle<RateLimiter>,
    /// The actor that sends the mails and webhooks of the outbox.
    pub notifier: ActorHandle<Notifier>,
    /// The actor that tracks the health of the oracles, with their circuits.
    pub oracle_health: ActorHandle<OracleHealth>,
    /// The service that registers ontologies, sources and pipelines.
    pub registry: DocumentRegistry,
    /// The actor that runs the ingestion of payloads.
    pub ingestion: ActorHandle<IngestionActor>,
    /// The service that answers queries of sources.
    pub queries: QueryService,
    /// The service that decides questions by the answers of sources.
    pub verification: VerificationService,
    /// The actor that runs the scheduled work of the verification.
    pub verification_upkeep: ActorHandle<VerificationUpkeep>,
    /// The service that collects facts from sources.
    pub fact_sources: FactCollector,
    /// The service that erases sessions.
    pub erasure: ErasureService,
    /// The service that finds verdicts whose statements have changed.
    pub recalls: RecallService,
    /// The service that calculates logged decisions again.
    pub what_if: WhatIfService,
    pub log: LoggerHandle,
    /// The tables, for reading.
    pub store: Store,
    /// The clock of all decisions.
    pub clock: Clock,
    actors: Arc<[Arc<dyn StartedActor>]>,
    abandoned: watch::Receiver<Option<EndReason>>,
}

impl ActorSystem {
    /// Starts every actor: the logger on a thread of its own, the others on the calling thread's arbiter. Adds their
    /// metrics to `registry`.
    ///
    /// # Panics
    /// If no actix system runs on the calling thread.
    #[must_use]
    #[expect(
        clippy::too_many_lines,
        reason = "one list of the actors and services, and of the handles that each has"
    )]
    pub fn start(parts: SystemParts, registry: &mut Registry) -> Self {
        let SystemParts { journal, store, clock, fallback, supervision, .. } = parts;
        let SystemParts {
            oracles,
            models,
            prompt_templates,
            calls,
            budgets,
            lookup,
            orders,
            mailing,
            webhooks,
            policy,
            unexpected_fields,
            rules,
            ingestion,
            verification,
            recall_modes,
            turn,
            removals,
            shared_calls,
            queue,
            hot_bytes,
            pages_bytes,
            applications,
            ..
        } = parts;
        let crosscheck_metrics = CrosscheckMetrics::register(registry, &applications);
        let rule_metrics = RuleMetrics::register(registry);
        let ingestion_metrics = IngestionMetrics::register(registry);
        let query_metrics = QueryMetrics::register(registry);
        let generation_metrics = GenerationMetrics::register(registry, &applications, models.priced());
        let comparisons = ComparisonMetrics::register(registry);
        let outbox = OutboxMetrics::register(registry);
        let outbox_metrics = outbox.clone();
        let order_metrics = OrderMetrics::register(registry, &applications);
        let verification_metrics = VerificationMetrics::register(registry);
        let hot_verdicts = HotVerdicts::new(hot_bytes, CacheReadMetrics::register(registry));
        let lookup_metrics = LookupMetrics::register(registry);
        let logger_metrics = LoggerMetrics::register(registry);
        let held_key = policy.key.clone();
        let (gate, policies) = (policy.clone(), Arc::new(policy.policies.clone()));
        let (abandon, abandoned) = watch::channel(None);
        let here = Arbiter::current();
        let own_thread = Arbiter::new().handle();
        let mut starter = ActorStarter { supervision, clock: clock.clone(), abandon, started: Vec::new() };

        let (report, reports) = watch::channel(JournalReport::default());
        let (followed, changes) = mpsc::unbounded_channel();
        let abandon = starter.abandon.clone();
        let logger = Logger::new(journal, followed, report, abandon, clock.clone(), logger_metrics.clone());
        let (fallback_entries, contact) = (logger.fallback_entries(), logger.contact());
        // no limit: each message that reaches the logger already has a slot at a limited handle, and no entry may be
        // rejected
        let handle = starter.start("logger", &own_thread, Semaphore::MAX_PERMITS, move || logger);
        let (outbox_queue, committed_messages) = OutboxQueue::new(webhooks.client.get().receivers());
        let (log, waiting) = LoggerHandle::new(
            handle,
            reports,
            fallback,
            fallback_entries,
            logger_metrics,
            Arc::new(outbox_queue.clone()),
            contact,
        );
        actix_rt::spawn(log.clone().commit_queued_entries(waiting));

        let oracle_health = {
            let (log, clock) = (log.clone(), clock.clone());
            starter.start("oracle_health", &here, queue, move || OracleHealth::new(oracles, log, clock))
        };

        let rate_limiter = {
            let (store, log, clock) = (store.clone(), log.clone(), clock.clone());
            let spendable = budgets.clone();
            starter.start("rate_limiter", &here, queue, move || {
                RateLimiter::new(calls, spendable, store, log, clock, shared_calls)
            })
        };

        let registry = {
            let (store, log, clock) = (store.clone(), log.clone(), clock.clone());
            let (puller, live) = (ingestion.puller.clone(), Arc::clone(&verification.live));
            let counters: [Arc<dyn DocumentCounters>; 2] =
                [Arc::new(ingestion_metrics.clone()), Arc::new(verification_metrics.clone())];
            let prompts = prompt_templates.iter().map(|(_, name)| (PromptTemplate::TYPE, name.to_string()));
            let (context, prompts) = (CommitContext { store, log, clock }, prompts.collect::<Vec<_>>());
            DocumentRegistry::new(context, puller, live, counters, DOCUMENTS, prompts)
        };
        let refresh_wait = ingestion.refresh_wait;
        let ingestion = {
            let ingestion_actor =
                IngestionActor::new(ingestion, store.clone(), log.clone(), clock.clone(), ingestion_metrics);
            starter.start("ingestion", &here, queue, move || ingestion_actor)
        };

        let processors = ProcessorPool::default();
        let queries = {
            let bounds = (pages_bytes, processors.clone());
            let (store, log, clock) = (store.clone(), log.clone(), clock.clone());
            QueryService::new(store, log, clock, query_metrics, ingestion.clone(), refresh_wait, bounds)
        };
        let verification = {
            let (store, clock) = (store.clone(), clock.clone());
            let handles = actors_verification::VerificationHandles {
                queries: queries.clone(),
                oracle_health: oracle_health.clone(),
                log: log.clone(),
            };
            VerificationService::new(verification, handles, store, clock, verification_metrics)
        };
        let verification_upkeep = {
            let verification = verification.clone();
            let turn = turn.clone();
            let make = move || VerificationUpkeep::new(verification, turn);
            starter.start("verification_upkeep", &here, queue, make)
        };
        let fact_sources = FactCollector::new(queries.clone(), verification.clone(), store.clone());

        let mails = mailing.service.is_some();
        let mail_renderer = mailing.renderer(&store);
        let notifier = {
            let mailing = (mailing, oracle_health.clone());
            let (store, log, clock) = (store.clone(), log.clone(), clock.clone());
            let work = OutboxWork::new(mailing, webhooks, store, log, clock, outbox_metrics, turn.clone());
            starter.start("notifier", &here, queue, move || Notifier::new(work))
        };
        actix_rt::spawn(wake_for_committed(committed_messages, notifier.clone()));

        let order_progress = OrderProgress::default();
        let cache = {
            let (store, log, clock) = (store.clone(), log.clone(), clock.clone());
            let hot = hot_verdicts.clone();
            let (orders, order_metrics) = (order_progress.clone(), order_metrics.clone());
            let listeners = DeliveryListeners { mails, orders, order_metrics, comparisons };
            let make = move || VerdictCache::new(store, log, clock, listeners, hot, policy);
            starter.start("cache", &here, queue, make)
        };

        let lookup = lookup.map(|client| {
            let (oracle_health, cache) = (oracle_health.clone(), cache.clone());
            LookupService::new(client, oracle_health, cache, log.clone(), clock.clone(), lookup_metrics)
        });

        let rules =
            RuleService::new(rules, processors, store.clone(), log.clone(), clock.clone(), rule_metrics);

        let crosscheck = {
            let handles = (cache.clone(), rules.clone());
            let (log, clock) = (log.clone(), clock.clone());
            let gate = (unexpected_fields, policies);
            let make = move || CrosscheckActor::new(gate, handles, log, clock, crosscheck_metrics);
            starter.start("crosscheck", &here, queue, make)
        };

        let model_orders = models.orders();
        let model_ids = models.for_first_verdicts();
        let generation = Arc::new(GenerationRunner {
            models,
            prompt_templates,
            handles: GenerationHandles {
                rate_limiter: rate_limiter.clone(),
                oracle_health: oracle_health.clone(),
                crosscheck: crosscheck.clone(),
                cache: cache.clone(),
                log: log.clone(),
            },
            store: store.clone(),
            clock: clock.clone(),
            metrics: generation_metrics,
        });
        let regen = {
            let generation = Arc::clone(&generation);
            starter.start("regen", &here, queue, move || RegenActor::new(generation))
        };
        let (order_waits, orders_in_flight) = (OrderWaits::default(), InFlight::default());
        let orders = {
            let (waits, in_flight) = (order_waits.clone(), orders_in_flight.clone());
            let config = (orders, turn);
            let order_work =
                OrderWork::new(generation, config, gate, in_flight, order_progress, waits, order_metrics);
            actix_rt::spawn(order_work.clone().survey_waiting());
            starter.start("orders", &here, queue, move || OrdersActor::new(order_work))
        };

        actix_rt::spawn(report_followed(
            changes,
            cache.addr(),
            orders.addr(),
            ingestion.addr(),
            outbox_queue,
        ));

        let erasure = ErasureService::new(ErasureHandles {
            store: store.clone(),
            log: log.clone(),
            clock: clock.clone(),
            cache: cache.clone(),
            notifier: notifier.clone(),
            regen: regen.clone(),
            orders_in_flight,
            turn: Arc::default(),
            resuming: Mutex::default(),
            is_stopped: AtomicBool::default(),
            hosts: removals,
            found: Mutex::default(),
            ended_up_to: AtomicU64::default(),
            unread: Mutex::default(),
        });
        actix_rt::spawn(erasure.clone().resume());

        let recalls =
            RecallService::new(store.clone(), log.clone(), clock.clone(), recall_modes, mail_renderer);

        let what_if = WhatIfService::new(store.clone(), rules.settings().clone());

        Self {
            erasure,
            recalls,
            what_if,
            crosscheck,
            models: model_ids,
            model_orders,
            budgets,
            outbox,
            held_key,
            regen,
            lookup,
            orders,
            order_waits,
            cache,
            hot_verdicts,
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
            clock,
            actors: starter.started.into(),
            abandoned,
        }
    }

    /// Sets whether the daemon is draining. If so, no scheduled pull begins.
    ///
    /// # Errors
    /// An actor does not answer.
    pub async fn set_draining(&self, draining: bool) -> Result<(), ActorCallError> {
        self.ingestion.ask(SetDraining(draining)).await
    }

    /// The files of sources that this host of a cluster lacks. `failure` reports an actor that does not answer.
    pub async fn missing_files(&self) -> MissingFilesReport {
        let missing = self.ingestion.ask(ReadMissingFiles).await;
        missing.unwrap_or_else(|error| MissingFilesReport {
            failure: Some(error.to_string()),
            ..Default::default()
        })
    }

    /// The report of every actor, in the order in which they were started.
    #[must_use]
    pub fn reports(&self) -> Vec<ActorReport> {
        self.actors.iter().map(|actor| actor.report()).collect()
    }

    /// Makes the named actor panic. Returns false if no actor has this name.
    #[cfg(debug_assertions)]
    pub async fn inject_panic(&self, name: &str) -> bool {
        let Some(actor) = self.actors.iter().find(|actor| actor.report().name == name) else { return false };
        actor.inject_panic().await;
        true
    }

    /// That the key of held verdicts opens them: one of them is opened.
    ///
    /// # Errors
    /// It has another key, or cannot be used.
    pub async fn check_held_key(&self) -> Result<(), HeldKeyError> {
        let store = self.store.clone();
        // a row that cannot be read is reported by its reads
        let held = spawn_blocking(move || store.any_held_verdict()).await.ok().and_then(Result::ok).flatten();
        match held {
            Some(held) => self.held_key.open(&held.session_id, &held.sealed).await.map(drop),
            None => Ok(()),
        }
    }

    /// The daily budgets, with the costs of the current UTC day.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn daily_budgets(&self) -> Result<Vec<DailyBudget>, StoreError> {
        if self.budgets.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.clock.now();
        Ok(self.budgets.of_day(&self.store.costs_of_day(day_of(now))?, now))
    }

    /// The budgets that are used up, one text for each. Blocks on the disk.
    ///
    /// # Errors
    /// The costs cannot be read.
    pub fn used_up_budgets(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.daily_budgets()?.iter().filter_map(DailyBudget::describe_used_up).collect())
    }

    /// Waits until a guardian or the logger gives up, and returns the reason. The process must end then.
    pub async fn abandoned(&self) -> EndReason {
        let mut abandoned = self.abandoned.clone();
        let reason = abandoned.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        match reason {
            Some(reason) => reason,
            // every guardian has ended normally: there is nothing to wait for
            None => std::future::pending().await,
        }
    }
}

/// Starts actors under supervision.
struct ActorStarter {
    supervision: SupervisionLimits,
    clock: Clock,
    abandon: watch::Sender<Option<EndReason>>,
    /// The actors that were started, in this order.
    started: Vec<Arc<dyn StartedActor>>,
}

impl ActorStarter {
    fn start<A>(
        &mut self,
        name: &'static str,
        arbiter: &ArbiterHandle,
        queue_slots: usize,
        make: impl FnOnce() -> A + Send + 'static,
    ) -> ActorHandle<A>
    where
        A: Actor<Context = Context<A>> + Supervised + Unpin + Handler<ActorCall<A>> + Debug,
    {
        let stats = Arc::new(ActorStats::new(name, self.clock.clone()));
        let abandon = self.abandon.clone();
        let give_up = move |reason: String| {
            abandon.send_replace(Some(EndReason::Fault(reason)));
        };
        let addr = guardian::start(arbiter, self.supervision, Arc::clone(&stats), give_up, make);
        let handle = ActorHandle::new(addr, queue_slots, stats);
        self.started.push(Arc::new(handle.clone()));
        handle
    }
}
