use super::gates::approval;
use super::*;
use crate::testing::ground::{PEER, approve_source, gallery_pipeline, open_pipeline};
use actors_ground::queries::QueryError;
use actors_ground::registry::{RegistryError, SourceInvalidation, policy_of};
use domain_ground::event::InvalidationCause;
use domain_ground::freshness::StaleBehavior;
use domain_ground::pipeline::{PipelineDefinition, RetrievalMethod, SourceAuthentication};
use domain_ground::query::{OracleQuery, QueryRequest};
use prometheus_client::registry::Registry;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A publisher on this machine, with its answer and the number of requests.
struct TestPublisher {
    url: String,
    answer: Arc<Mutex<PublisherAnswer>>,
    requests: Arc<AtomicUsize>,
    /// Whether the publisher answers; while false, requests wait.
    is_answering: watch::Sender<bool>,
}

struct PublisherAnswer {
    body: String,
    last_modified: Option<&'static str>,
    etag: Option<&'static str>,
    date: Option<&'static str>,
    /// Whether it answers 304 if its `Last-Modified` is sent back.
    compares_dates: bool,
}

impl TestPublisher {
    async fn of(body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}/population.csv", listener.local_addr().expect("it is bound"));
        let last_modified = Some("Fri, 20 Nov 2026 09:00:00 GMT");
        let state = Arc::new(Mutex::new(PublisherAnswer {
            body: body.to_owned(),
            last_modified,
            etag: None,
            date: None,
            compares_dates: false,
        }));
        let requests = Arc::new(AtomicUsize::new(0));
        let (answers, open) = watch::channel(true);
        let (answer, count) = (Arc::clone(&state), Arc::clone(&requests));
        actix_rt::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (answer, mut open) = (Arc::clone(&answer), open.clone());
                actix_rt::spawn(async move {
                    let mut head = vec![0; 4096];
                    let length = stream.read(&mut head).await.expect("the client sends a request");
                    open.wait_for(|open| *open).await.expect("the publisher runs");
                    let text = answer
                        .lock()
                        .expect("the lock is not poisoned")
                        .to_text(&String::from_utf8_lossy(&head[..length]));
                    // the client may have closed the connection already
                    drop(stream.write_all(text.as_bytes()).await);
                });
            }
        });
        Self { url, answer: state, requests, is_answering: answers }
    }

    fn set_answer(&self, body: &str, last_modified: Option<&'static str>) {
        let mut answer = self.answer.lock().expect("the lock is not poisoned");
        (answer.body, answer.last_modified) = (body.to_owned(), last_modified);
    }

    fn request_count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl PublisherAnswer {
    fn to_text(&self, request: &str) -> String {
        let Self { body, last_modified, etag, date, compares_dates } = self;
        let has = |name: &str, value: Option<&str>| {
            value.is_some_and(|value| request.contains(&format!("{name}: {value}\r\n")))
        };
        if has("if-none-match", *etag) || *compares_dates && has("if-modified-since", *last_modified) {
            return "HTTP/1.1 304 Not Modified\r\n\r\n".into();
        }
        let header = |name: &str, value: Option<&str>| {
            value.map(|value| format!("{name}: {value}\r\n")).unwrap_or_default()
        };
        let headers =
            header("last-modified", *last_modified) + &header("etag", *etag) + &header("date", *date);
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
    }
}

fn pulled_by(
    method: RetrievalMethod,
    endpoint: Option<String>,
    schedule: Option<&str>,
) -> Box<PipelineDefinition> {
    let mut definition = open_pipeline();
    definition.pipeline.retrieval.method = method;
    definition.pipeline.retrieval.endpoint = endpoint;
    definition.pipeline.retrieval.schedule = schedule.map(str::to_owned);
    definition
}

async fn registered(
    system: &ActorSystem,
    definition: Box<PipelineDefinition>,
) -> Result<PipelineId, RegistryError> {
    system.registry.register(*definition.clone(), PEER).await?;
    Ok(definition.pipeline.pipeline_id)
}

async fn pulled(system: &ActorSystem, pipeline_id: &PipelineId) -> Result<PullOutcome, IngestionError> {
    let pull = PullPipeline {
        pipeline_id: pipeline_id.clone(),
        requested_by: "7".into(),
        peer: Some(PEER),
        force: false,
    };
    system.ingestion.ask(pull).await.expect("the actor answers")
}

async fn wait_for_completed_run(system: &ActorSystem) {
    let is_completed = |run: &IngestionRun| run.state == RunState::Completed;
    while !system.store.runs().expect("the runs are readable").iter().any(is_completed) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn pull_of_the_same_payload_reports_nothing_new() {
    with_system(|TestSystem { system, .. }| async move {
        population(&system).await;
        let publisher = TestPublisher::of(OLD).await;
        let definition = pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), None);
        let pipeline_id = registered(&system, definition).await.expect("the registration succeeds");
        let Ok(PullOutcome::Begun(begun)) = pulled(&system, &pipeline_id).await else { panic!("it is new") };
        let run = wait_for_run(&system, begun).await;
        assert_eq!((run.state, run.counts.records), (RunState::Completed, 3), "{run:?}");
        assert_eq!(run.source_url.as_deref(), Some(publisher.url.as_str()));
        assert_eq!(run.input.version, "2026-11-20T09:00:00Z");
        let again = pulled(&system, &pipeline_id).await;
        assert!(matches!(again, Ok(PullOutcome::NothingNew { .. })), "{again:?}");
        assert_eq!(publisher.request_count(), 2);
    });
}

#[test]
fn pulled_payload_does_not_get_the_version_of_a_held_run() {
    with_system(|TestSystem { system, .. }| async move {
        population(&system).await;
        let modified = Some("Fri, 20 Nov 2026 09:00:00 GMT");
        let publisher = TestPublisher::of(&format!("{OLD}Kosovo,XKX,1961,many\n")).await;
        let mut definition = pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), None);
        definition.pipeline.gates = gallery_pipeline().pipeline.gates;
        let pipeline_id = registered(&system, definition).await.expect("the registration succeeds");
        let Ok(PullOutcome::Begun(begun)) = pulled(&system, &pipeline_id).await else { panic!("it is new") };
        let held = wait_for_run(&system, begun).await;
        assert_eq!((held.state, held.input.version.as_str()), (RunState::Held, "2026-11-20T09:00:00Z"));

        publisher.set_answer(OLD, modified);
        let Ok(PullOutcome::Begun(begun)) = pulled(&system, &pipeline_id).await else { panic!("it is new") };
        let good = wait_for_run(&system, begun).await;
        assert_eq!(good.state, RunState::Completed, "{good:?}");
        assert_ne!(good.input.version, held.input.version);
        assert!(good.input.released_at > held.input.released_at);
        let seen = ApproveRun { outdated_by: Some(good.run_id), ..approval(&held) };
        let approved = system.ingestion.ask(seen).await.expect("the actor answers");
        let approved = StartRunOutcome::Started(Box::new(approved.expect("its version is its own")));
        assert_eq!(wait_for_run(&system, approved).await.state, RunState::Completed);
    });
}

#[test]
fn failed_pull_is_logged_and_changes_nothing() {
    with_system(|TestSystem { system, .. }| async move {
        population(&system).await;
        // no server listens there
        let definition = pulled_by(RetrievalMethod::ApiPull, Some("http://127.0.0.1:1/".into()), None);
        let pipeline_id = registered(&system, definition).await.expect("the registration succeeds");
        let failed = pulled(&system, &pipeline_id).await;
        assert!(matches!(failed, Err(IngestionError::Pull(_))), "{failed:?}");
        let events = logged_events(&system.store);
        assert_eq!(events.iter().filter(|event| *event == "pull_failed").count(), 1);
        assert!(!events.contains(&"ingestion_started".to_owned()));
        let manual_id = registered(&system, pulled_by(RetrievalMethod::ManualUpload, None, None)).await;
        let refused = pulled(&system, &manual_id.expect("the registration succeeds")).await;
        assert!(matches!(refused, Err(IngestionError::NotPulled(_))), "{refused:?}");
    });
}

#[test]
fn pipeline_with_invalid_retrieval_is_not_registered() {
    with_system(|TestSystem { system, .. }| async move {
        population(&system).await;
        let endpoint = || Some("https://example.org/x.csv".to_owned());
        for (definition, word) in [
            (pulled_by(RetrievalMethod::FileDownload, None, None), "`endpoint` is missing"),
            (pulled_by(RetrievalMethod::ManualUpload, endpoint(), None), "`endpoint` is only allowed for"),
            (
                pulled_by(RetrievalMethod::ManualUpload, None, Some("0 4 * * *")),
                "`schedule` is only allowed for",
            ),
            (pulled_by(RetrievalMethod::ApiPull, endpoint(), Some("every morning")), "`schedule`: "),
            (
                pulled_by(RetrievalMethod::ApiPull, Some("http://127.0.0.2/x.csv".into()), None),
                "127.0.0.2 (loopback); allowed: ",
            ),
            (
                pulled_by(RetrievalMethod::ApiPull, Some("https://u:p@example.org/".into()), None),
                " has a user or a password; allowed: ",
            ),
            (
                pulled_by(RetrievalMethod::FileDownload, Some("file:///etc/passwd".into()), None),
                "the scheme `file`; allowed: ",
            ),
        ] {
            let message =
                registered(&system, definition).await.expect_err("the document is invalid").to_string();
            assert!(message.contains(word), "{message}");
        }
    });
}

#[test]
fn pipeline_without_its_credential_is_registered_but_not_pulled() {
    with_system(|TestSystem { system, .. }| async move {
        population(&system).await;
        let mut definition =
            pulled_by(RetrievalMethod::ApiPull, Some("https://example.org/x.csv".into()), None);
        definition.pipeline.retrieval.authentication = SourceAuthentication::ApiKey;
        let pipeline_id = registered(&system, definition).await.expect("the registration succeeds");
        let message = pulled(&system, &pipeline_id).await.expect_err("the call fails").to_string();
        assert!(message.contains("api_key") && message.contains("`ingestion.credentials."), "{message}");
    });
}

#[test]
fn scheduled_pull_begins_when_it_is_due() {
    with_system(|TestSystem { system, time, .. }| async move {
        population(&system).await;
        let publisher = TestPublisher::of(OLD).await;
        // it is ten o'clock
        let definition =
            pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), Some("5 10 * * *"));
        registered(&system, definition).await.expect("the registration succeeds");
        let context = ingest_context(&system, &time);
        pulling::begin_due(&context);
        time.advance(4 * 60);
        pulling::begin_due(&context);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(publisher.request_count(), 0);
        time.advance(2 * 60);
        pulling::begin_due(&context);
        pulling::begin_due(&context);
        wait_for_completed_run(&system).await;
        assert_eq!(publisher.request_count(), 1);
    });
}

#[test]
fn scheduled_pull_begins_only_after_draining_has_ended() {
    with_system(|TestSystem { system, time, .. }| async move {
        population(&system).await;
        let publisher = TestPublisher::of(OLD).await;
        // it is ten o'clock
        let definition =
            pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), Some("5 10 * * *"));
        let pipeline_id = registered(&system, definition).await.expect("the registration succeeds");
        let context = ingest_context(&system, &time);
        pulling::begin_due(&context);
        time.advance(6 * 60);
        context.draining.store(true, Ordering::Relaxed);
        pulling::begin_due(&context);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(begun(&system), 0);
        context.draining.store(false, Ordering::Relaxed);
        pulling::begin_due(&context);
        pulls_ended(&system, &pipeline_id, 1).await;
        assert_eq!(begun(&system), 1);
    });
}

/// The number of pulls that were begun.
fn begun(system: &ActorSystem) -> usize {
    let events = logged_events(&system.store);
    events.iter().filter(|event| *event == "pull_started").count()
}

/// Waits until `count` pulls were begun and have ended.
async fn pulls_ended(system: &ActorSystem, pipeline_id: &PipelineId, count: usize) {
    while begun(system) < count {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let last = || {
        system
            .store
            .pipeline(pipeline_id)
            .expect("the pipeline is readable")
            .and_then(|(known, _)| known.last_pull)
    };
    while last().is_none_or(|last| last.ended_at.is_none()) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    no_runs(system).await;
}

#[test]
fn missed_scheduled_pulls_are_made_up_for_once() {
    with_system(|world| async move {
        population(&world.system).await;
        let publisher = TestPublisher::of(OLD).await;
        // it is ten o'clock, on a Friday
        let definition =
            pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), Some("0 11 * * fri"));
        let pipeline_id = registered(&world.system, definition).await.expect("the registration succeeds");
        // not due yet
        let world = world.restarted(TestServices::default()).await;
        let world = world.restarted_after(2 * 3600).await;
        pulls_ended(&world.system, &pipeline_id, 1).await;
        assert_eq!(begun(&world.system), 1);
        // repeated restarts cause no further pull until the next one is due
        let mut world = world;
        for _ in 0..3 {
            world = world.restarted_after(60).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(begun(&world.system), 1);
        }
        // three pulls are due by then
        let world = world.restarted_after(21 * 86_400).await;
        pulls_ended(&world.system, &pipeline_id, 2).await;
        pulling::begin_due(&ingest_context(&world.system, &world.time));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!((begun(&world.system), publisher.request_count()), (2, 2));
    });
}

#[test]
fn interrupted_scheduled_pull_is_made_up_for_once() {
    with_system(|world| async move {
        population(&world.system).await;
        let publisher = TestPublisher::of(OLD).await;
        publisher.is_answering.send_replace(false);
        let definition =
            pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), Some("0 11 * * fri"));
        let pipeline_id = registered(&world.system, definition).await.expect("the registration succeeds");
        world.time.advance(3600);
        pulling::begin_due(&ingest_context(&world.system, &world.time));
        while publisher.request_count() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let mut world = world;
        for minutes in [1, 13] {
            world = world.restarted_after(minutes * 60).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(publisher.request_count(), 1);
        }
        publisher.is_answering.send_replace(true);
        let world = world.restarted_after(60).await;
        pulls_ended(&world.system, &pipeline_id, 2).await;
        assert_eq!(publisher.request_count(), 2);
        let runs = world.system.store.runs().expect("the runs are readable");
        assert!(runs.iter().all(|run| run.state == RunState::Completed) && runs.len() == 1, "{runs:?}");
    });
}

#[test]
fn pipeline_registered_again_keeps_its_last_pull_but_not_its_schedule() {
    with_system(|world| async move {
        population(&world.system).await;
        let publisher = TestPublisher::of(OLD).await;
        let of =
            |schedule| pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), Some(schedule));
        let pipeline_id =
            registered(&world.system, of("0 11 * * fri")).await.expect("the registration succeeds");
        pull_and_wait(&world.system, &pipeline_id).await;
        let last = |system: &ActorSystem| {
            system
                .store
                .pipeline(&pipeline_id)
                .expect("the pipeline is readable")
                .expect("the pipeline exists")
                .0
                .last_pull
        };
        let before = last(&world.system);
        assert!(before.is_some_and(|last| last.ended_at.is_some()), "{before:?}");
        world.time.advance(7200);
        registered(&world.system, of("0 9 * * *")).await.expect("the registration succeeds");
        assert_eq!(last(&world.system), before);
        let _world = world.restarted(TestServices::default()).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(publisher.request_count(), 1);
    });
}

/// A context for runs, separate from the actor's own.
fn ingest_context(system: &ActorSystem, time: &TestClock) -> Arc<IngestContext> {
    let config = crate::testing::ingestion(time);
    let (store, log) = (system.store.clone(), system.log.clone());
    IngestionActor::new(
        config,
        store,
        log,
        system.clock.clone(),
        IngestionMetrics::register(&mut Registry::default()),
    )
    .context
}

/// A source that is pulled from `endpoint` and has a release of 2020. Its policy allows no answer older
/// than a day.
async fn strict(system: &ActorSystem, endpoint: &str) -> (SourceId, PipelineId) {
    population(system).await;
    let definition = pulled_by(RetrievalMethod::FileDownload, Some(endpoint.to_owned()), None);
    let pipeline_id = registered(system, definition).await.expect("the registration succeeds");
    ingest_version(system, &pipeline_id, OLD, "2020-04-14").await;
    let oracle_id: SourceId = "world-bank-population".parse().expect("a valid id");
    approve_source(system, &oracle_id).await;
    let view = system.store.view(&oracle_id).expect("the source opens").expect("the source exists");
    let mut policy = policy_of(&view.state, &view.ontology);
    policy.default_stale_behavior = StaleBehavior::BlockUntilFresh;
    policy.default_max_age_seconds = 86_400;
    let set = system.registry.register(policy, PEER).await;
    set.expect("the policy is set");
    (oracle_id, pipeline_id)
}

/// Queries the source, and returns the version in the answer.
async fn queried(system: &ActorSystem, oracle_id: &SourceId) -> Result<String, QueryError> {
    let request = QueryRequest { axes_requested: vec!["population".into()], ..QueryRequest::default() };
    let query = OracleQuery { query_id: None, oracle_id: oracle_id.clone(), request };
    crate::tests::ground::queries::ask(system, query)
        .await
        .map(|answer| answer.response.query_metadata.data_version)
}

/// Marks the data of a source stale.
async fn invalidated(system: &ActorSystem, oracle_id: &SourceId) {
    let (trigger, detail) = (InvalidationCause::Manual, "reported by the publisher".to_owned());
    system
        .registry
        .invalidate(SourceInvalidation { oracle_id: oracle_id.clone(), trigger, detail, peer: PEER })
        .await
        .expect("the invalidation succeeds");
}

#[test]
fn concurrent_stale_answers_wait_for_one_refresh() {
    with_system(|TestSystem { system, time, .. }| async move {
        let publisher = TestPublisher::of(NEW).await;
        let (oracle_id, _) = strict(&system, &publisher.url).await;
        let ask = || queried(&system, &oracle_id);
        let (one, two, three) = tokio::join!(ask(), ask(), ask());
        for answer in [one, two, three] {
            assert_eq!(answer.expect("the answer is fresh"), "2026-11-20T09:00:00Z");
        }
        assert_eq!(publisher.request_count(), 1);
        // two days later the source has the same payload, which stays stale
        time.advance(2 * 86_400);
        let stale = ask().await;
        assert!(matches!(stale, Err(QueryError::Stale { .. })), "{stale:?}");
        assert_eq!(publisher.request_count(), 2);
    });
}

#[test]
fn source_with_nothing_new_is_not_pulled_again_within_the_pause() {
    with_system(|TestSystem { system, time, .. }| async move {
        let publisher = TestPublisher::of(OLD).await;
        let (oracle_id, _) = strict(&system, &publisher.url).await;
        for (seconds, pulls) in [(0, 1), (59, 1), (1, 2), (30, 2), (30, 3)] {
            time.advance(seconds);
            for _ in 0..5 {
                let stale = queried(&system, &oracle_id).await;
                assert!(matches!(stale, Err(QueryError::Stale { .. })), "{stale:?}");
            }
            assert_eq!(publisher.request_count(), pulls, "{seconds}");
        }
        // the pause applies after a failed run, too
        time.advance(60);
        publisher.set_answer("Country Name,Country Code,Year,Value\nAruba,ABW,1960,many\n", None);
        for _ in 0..5 {
            assert!(queried(&system, &oracle_id).await.is_err());
        }
        assert_eq!(publisher.request_count(), 4);
        // an invalidation ends the pause
        time.advance(1);
        publisher.set_answer(NEW, None);
        invalidated(&system, &oracle_id).await;
        assert_eq!(queried(&system, &oracle_id).await.expect("the answer is fresh"), "2026-11-20T10:03:01Z");
        assert_eq!(publisher.request_count(), 5);
    });
}

#[test]
fn stale_answer_waits_for_the_pull_in_progress() {
    with_system(|TestSystem { system, .. }| async move {
        let publisher = TestPublisher::of(NEW).await;
        let (oracle_id, pipeline_id) = strict(&system, &publisher.url).await;
        publisher.is_answering.send_replace(false);
        let data_as_of = async {
            while publisher.request_count() == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let open = async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                publisher.is_answering.send_replace(true);
            };
            tokio::join!(queried(&system, &oracle_id), open).0
        };
        let (pulled, data_as_of) = tokio::join!(pulled(&system, &pipeline_id), data_as_of);
        assert!(matches!(pulled, Ok(PullOutcome::Begun(_))), "{pulled:?}");
        assert_eq!(data_as_of.expect("the answer is fresh"), "2026-11-20T09:00:00Z");
        assert_eq!(publisher.request_count(), 1);
    });
}

#[test]
fn unreadable_newer_version_marks_the_source_stale() {
    with_system(|TestSystem { system, .. }| async move {
        population(&system).await;
        let publisher =
            TestPublisher::of("Country Name,Country Code,Year,Value\nAruba,ABW,1960,many\n").await;
        let definition = pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), None);
        let pipeline_id = registered(&system, definition).await.expect("the registration succeeds");
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let Ok(PullOutcome::Begun(begun)) = pulled(&system, &pipeline_id).await else { panic!("it is new") };
        let run = wait_for_run(&system, begun).await;
        assert_eq!(run.state, RunState::Failed);
        let (source, _) =
            system.store.source(&run.oracle_id).expect("the source is readable").expect("the source exists");
        assert_eq!(source.stale_since(), run.ended_at);
    });
}

/// Pulls the current payload, and waits for the end of its run.
async fn pull_and_wait(system: &ActorSystem, pipeline_id: &PipelineId) -> IngestionRun {
    let pulled = pulled(system, pipeline_id).await;
    let Ok(PullOutcome::Begun(begun)) = pulled else { panic!("it is new: {pulled:?}") };
    let run = wait_for_run(system, begun).await;
    no_runs(system).await;
    run
}

async fn no_runs(system: &ActorSystem) {
    while !system.ingestion.ask(ListRunProgress).await.expect("the actor answers").is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn alternating_undated_payloads_are_three_releases() {
    with_system(|TestSystem { system, time, .. }| async move {
        population(&system).await;
        let publisher = TestPublisher::of(OLD).await;
        let mut definition = pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), None);
        definition.pipeline.gates.accept_same_payload = true;
        let pipeline_id = registered(&system, definition).await.expect("the registration succeeds");
        let mut versions = Vec::new();
        for body in [OLD, NEW, OLD] {
            publisher.set_answer(body, None);
            let run = pull_and_wait(&system, &pipeline_id).await;
            assert_eq!(
                (run.state, run.input.released_at.to_string()),
                (RunState::Completed, run.input.version.clone())
            );
            versions.push(run.input.version);
            let again = pulled(&system, &pipeline_id).await;
            assert!(matches!(again, Ok(PullOutcome::NothingNew { .. })), "{again:?}");
            time.advance(86_400);
        }
        assert_eq!(versions, ["2026-11-20T10:00:00Z", "2026-11-21T10:00:00Z", "2026-11-22T10:00:00Z"]);
        let old = ["ABW/1960=54208", "ABW/1961=55434", "XKX/1960=947000"];
        assert_eq!(valid(&system, "2026-11-21"), old);
        assert_eq!(valid(&system, "2026-11-22"), ["ABW/1960=54608", "ABW/1961=55434", "ZMB/1960=3119430"]);
        assert_eq!(valid(&system, "2026-11-23"), old);
    });
}

#[test]
fn releases_pulled_at_the_same_time_get_different_versions() {
    with_system(|TestSystem { system, .. }| async move {
        population(&system).await;
        let publisher = TestPublisher::of(OLD).await;
        let definition = pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), None);
        let pipeline_id = registered(&system, definition).await.expect("the registration succeeds");
        let mut versions = Vec::new();
        for body in [OLD, NEW] {
            publisher.set_answer(body, None);
            versions.push(pull_and_wait(&system, &pipeline_id).await.input.version);
        }
        assert_eq!(versions, ["2026-11-20T10:00:00Z", "2026-11-20T10:00:00.000001Z"]);
    });
}

#[test]
fn last_modified_is_the_release_date_only_if_it_is_newer() {
    with_system(|TestSystem { system, time, .. }| async move {
        population(&system).await;
        let publisher = TestPublisher::of(OLD).await;
        let definition = pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), None);
        let pipeline_id = registered(&system, definition).await.expect("the registration succeeds");
        for (body, last_modified, version) in [
            (OLD, "Fri, 20 Nov 2026 09:00:00 GMT", "2026-11-20T09:00:00Z"),
            // the same date with another payload, an earlier date, a date in the future, a newer date
            (NEW, "Fri, 20 Nov 2026 09:00:00 GMT", "2026-11-20T11:00:00Z"),
            (OLD, "Thu, 19 Nov 2026 09:00:00 GMT", "2026-11-20T12:00:00Z"),
            (NEW, "Sat, 21 Nov 2026 09:00:00 GMT", "2026-11-20T13:00:00Z"),
            (OLD, "Fri, 20 Nov 2026 13:30:00 GMT", "2026-11-20T13:30:00Z"),
        ] {
            publisher.set_answer(body, Some(last_modified));
            assert_eq!(pull_and_wait(&system, &pipeline_id).await.input.version, version);
            time.advance(3600);
        }
    });
}

#[test]
fn payload_read_by_another_definition_stays_the_same_release() {
    with_system(|TestSystem { system, time, .. }| async move {
        population(&system).await;
        let publisher = TestPublisher::of(OLD).await;
        publisher.set_answer(OLD, None);
        publisher.answer.lock().expect("the lock is not poisoned").etag = Some("\"1\"");
        let mut definition = pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), None);
        let pipeline_id = registered(&system, definition.clone()).await.expect("the registration succeeds");
        let first = pull_and_wait(&system, &pipeline_id).await;
        definition.pipeline.storage.retention_days += 1;
        registered(&system, definition).await.expect("the registration succeeds");
        time.advance(86_400);
        let second = pull_and_wait(&system, &pipeline_id).await;
        assert_ne!(second.run_id, first.run_id);
        assert_eq!((second.number, second.input.version), (2, first.input.version));
        assert_eq!(second.input.released_at, first.input.released_at);
        let again = pulled(&system, &pipeline_id).await;
        assert!(matches!(again, Ok(PullOutcome::NothingNew { .. })), "{again:?}");
        let (source, _) = system
            .store
            .source(&second.oracle_id)
            .expect("the source is readable")
            .expect("the source exists");
        assert_eq!(source.entry.version_history.len(), 1);
    });
}

#[test]
fn pull_is_compared_with_the_last_read_payload_not_the_last_pulled_one() {
    with_system(|TestSystem { system, time, .. }| async move {
        population(&system).await;
        let publisher = TestPublisher::of(OLD).await;
        publisher.answer.lock().expect("the lock is not poisoned").etag = Some("\"1\"");
        let definition = pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), None);
        let pipeline_id = registered(&system, definition).await.expect("the registration succeeds");
        pull_and_wait(&system, &pipeline_id).await;
        time.advance(2 * 86_400);
        // an older release is submitted: the pulled payload is still in force
        ingest_version(&system, &pipeline_id, NEW, "2020-04-14").await;
        let again = pulled(&system, &pipeline_id).await;
        assert!(matches!(again, Ok(PullOutcome::NothingNew { .. })), "{again:?}");
        // a newer release is submitted: the source still has the pulled payload, which becomes a new release
        ingest_version(&system, &pipeline_id, NEW, "2026-11-21").await;
        time.advance(1);
        assert_eq!(pull_and_wait(&system, &pipeline_id).await.input.version, "2026-11-22T10:00:01Z");
    });
}

#[test]
fn failed_payload_that_is_pulled_again_is_the_same_run() {
    with_system(|TestSystem { system, time, .. }| async move {
        population(&system).await;
        let publisher =
            TestPublisher::of("Country Name,Country Code,Year,Value\nAruba,ABW,1960,many\n").await;
        publisher.answer.lock().expect("the lock is not poisoned").last_modified = None;
        let definition = pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), None);
        let pipeline_id = registered(&system, definition).await.expect("the registration succeeds");
        for _ in 0..3 {
            let run = pull_and_wait(&system, &pipeline_id).await;
            assert_eq!((run.state, run.input.version.as_str()), (RunState::Failed, "2026-11-20T10:00:00Z"));
            time.advance(60);
        }
        assert_eq!(system.store.runs().expect("the runs are readable").len(), 1);
    });
}

#[test]
fn pipeline_has_at_most_one_pull_in_progress() {
    with_system(|TestSystem { system, time, .. }| async move {
        population(&system).await;
        let publisher = TestPublisher::of(OLD).await;
        let definition =
            pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), Some("* * * * *"));
        let pipeline_id = registered(&system, definition).await.expect("the registration succeeds");
        let context = ingest_context(&system, &time);
        publisher.is_answering.send_replace(false);
        for minute in 0..3 {
            pulling::begin_due(&context);
            time.advance(60);
            while publisher.request_count() < minute.min(1) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        let requested =
            RequestedPull { pipeline_id, requested_by: "7".into(), peer: Some(PEER), force: false };
        let refused = pulling::pull(Arc::clone(&context), requested.clone()).await;
        assert!(matches!(refused, Err(IngestionError::Pulling(_))), "{refused:?}");
        assert_eq!(publisher.request_count(), 1);
        publisher.is_answering.send_replace(true);
        wait_for_completed_run(&system).await;
        // a skipped pull is not repeated later, and the next due pull is not skipped
        pulling::begin_due(&context);
        let again = loop {
            match pulling::pull(Arc::clone(&context), requested.clone()).await {
                // the due one
                Err(IngestionError::Pulling(_)) => tokio::time::sleep(Duration::from_millis(2)).await,
                again => break again,
            }
        };
        assert!(matches!(again, Ok(PullOutcome::NothingNew { .. })), "{again:?}");
        assert!(!logged_events(&system.store).contains(&"pull_failed".to_owned()));
    });
}

#[test]
fn unchanged_pull_ends_an_invalidation_but_not_the_age() {
    with_system(|TestSystem { system, time, .. }| async move {
        let publisher = TestPublisher::of(NEW).await;
        publisher.answer.lock().expect("the lock is not poisoned").etag = Some("\"1\"");
        let (oracle_id, pipeline_id) = strict(&system, &publisher.url).await;
        pull_and_wait(&system, &pipeline_id).await;
        let source =
            || system.store.source(&oracle_id).expect("the source is readable").expect("the source exists").0;
        let released = source().releases();
        // once by a 304, and once by the same bytes
        for (confirmed, etag) in [(1, Some("\"1\"")), (2, None)] {
            publisher.answer.lock().expect("the lock is not poisoned").etag = etag;
            time.advance(1);
            invalidated(&system, &oracle_id).await;
            assert!(source().stale_since().is_some());
            assert_eq!(
                queried(&system, &oracle_id).await.expect("the answer is fresh"),
                "2026-11-20T09:00:00Z"
            );
            let events = logged_events(&system.store);
            assert_eq!(events.iter().filter(|event| *event == "source_confirmed").count(), confirmed);
        }
        assert_eq!((source().stale_since(), source().releases()), (None, released));
        time.advance(86_400);
        assert!(matches!(queried(&system, &oracle_id).await, Err(QueryError::Stale { .. })));
    });
}

#[test]
fn pull_begun_before_an_invalidation_does_not_end_it() {
    with_system(|TestSystem { system, time, .. }| async move {
        let publisher = TestPublisher::of(NEW).await;
        let (oracle_id, pipeline_id) = strict(&system, &publisher.url).await;
        // first with a new payload, then with the same payload again
        for count in 1..=2 {
            publisher.is_answering.send_replace(false);
            let declared = async {
                while publisher.request_count() < count {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                time.advance(1);
                invalidated(&system, &oracle_id).await;
                time.advance(1);
                publisher.is_answering.send_replace(true);
            };
            let (pulled, ()) = tokio::join!(pulled(&system, &pipeline_id), declared);
            no_runs(&system).await;
            assert_eq!(pulled.expect("the call succeeds").run().is_some(), count == 1);
            let (source, _) =
                system.store.source(&oracle_id).expect("the source is readable").expect("the source exists");
            assert!(source.stale_since().is_some() && source.completed.len() == 2);
        }
    });
}

#[test]
fn run_begun_before_an_invalidation_does_not_end_it() {
    with_system(|TestSystem { system, time, .. }| async move {
        let pipeline_id = population(&system).await;
        let oracle_id: SourceId = "world-bank-population".parse().expect("a valid id");
        let begun = start_long_run(&system, &pipeline_id).await;
        time.advance(1);
        invalidated(&system, &oracle_id).await;
        let invalidated_at = Some(system.clock.now());
        assert_eq!(wait_for_run(&system, begun).await.state, RunState::Completed);
        let source =
            || system.store.source(&oracle_id).expect("the source is readable").expect("the source exists").0;
        assert_eq!(source().stale_since(), invalidated_at);
        no_runs(&system).await;
        ingest_version(&system, &pipeline_id, OLD, "2020-04-15").await;
        assert_eq!(source().stale_since(), None);
    });
}

#[test]
fn pull_brings_the_newest_release_although_the_clock_was_set_back() {
    with_system(|TestSystem { system, time, .. }| async move {
        let publisher = TestPublisher::of(OLD).await;
        publisher.set_answer(OLD, None);
        let (oracle_id, pipeline_id) = strict(&system, &publisher.url).await;
        publisher.set_answer(NEW, None);
        pull_and_wait(&system, &pipeline_id).await;
        let first = queried(&system, &oracle_id).await.expect("the answer is fresh");
        time.advance(-3 * 86_400);
        // the release from before the step is still in force
        assert_eq!(queried(&system, &oracle_id).await.expect("the answer is fresh"), first);
        let again = pulled(&system, &pipeline_id).await;
        assert!(matches!(again, Ok(PullOutcome::NothingNew { .. })), "{again:?}");
        invalidated(&system, &oracle_id).await;
        publisher.set_answer(OLD, None);
        pull_and_wait(&system, &pipeline_id).await;
        let second = queried(&system, &oracle_id).await.expect("the pull has ended the invalidation");
        assert_ne!(second, first);
        time.advance(3 * 86_400);
        assert_eq!(queried(&system, &oracle_id).await.expect("the answer is fresh"), second);
    });
}

/// Case `pull-same-second`: a server that compares dates, as most do, cannot detect a change in the same second.
#[test]
fn change_in_the_second_of_the_last_pull_is_pulled() {
    with_system(|TestSystem { system, time, .. }| async move {
        population(&system).await;
        let publisher = TestPublisher::of(OLD).await;
        let set = |body: &str, date: &'static str| {
            publisher.set_answer(body, Some("Fri, 20 Nov 2026 09:00:00 GMT"));
            let mut answer = publisher.answer.lock().expect("the lock is not poisoned");
            (answer.date, answer.compares_dates) = (Some(date), true);
        };
        set(OLD, "Fri, 20 Nov 2026 09:00:00 GMT");
        let definition = pulled_by(RetrievalMethod::FileDownload, Some(publisher.url.clone()), None);
        let pipeline_id = registered(&system, definition).await.expect("the registration succeeds");
        let first = pull_and_wait(&system, &pipeline_id).await;
        time.advance(10);
        set(NEW, "Fri, 20 Nov 2026 09:00:10 GMT");
        let second = pull_and_wait(&system, &pipeline_id).await;
        assert_ne!(second.input.raw_sha256, first.input.raw_sha256, "the change is ingested");
        assert_eq!(valid(&system, "2026-11-21").len(), 3);
        // the date is now old enough to be sent back
        time.advance(10);
        set(OLD, "Fri, 20 Nov 2026 09:00:20 GMT");
        let third = pulled(&system, &pipeline_id).await;
        assert!(matches!(third, Ok(PullOutcome::NothingNew { .. })), "{third:?}");
        let forced = PullPipeline { pipeline_id, requested_by: "7".into(), peer: Some(PEER), force: true };
        let forced =
            system.ingestion.ask(forced).await.expect("the actor answers").expect("the pull succeeds");
        assert_eq!(forced.run().map(|run| &run.input.raw_sha256), Some(&first.input.raw_sha256));
    });
}
