use super::*;
use crate::queries::QueryError;
use crate::registry::{RegisterPipeline, RegistryError, Review, ReviewSource, SetFreshness, policy_of};
use crate::testing::ground::{PEER, document};
use domain::ground::freshness::StaleBehavior;
use domain::ground::pipeline::{Definition, Method};
use domain::ground::query::{OracleQuery, QueryRequest};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A publisher on this machine: what it answers, and how often it was asked.
struct Publisher {
    url: String,
    body: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl Publisher {
    async fn of(body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}/population.csv", listener.local_addr().expect("it is bound"));
        let (body, asked) = (Arc::new(Mutex::new(body.to_owned())), Arc::new(AtomicUsize::new(0)));
        let (answer, count) = (Arc::clone(&body), Arc::clone(&asked));
        actix_rt::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let mut head = [0; 4096];
                assert!(stream.read(&mut head).await.expect("it asks") > 0);
                let body = answer.lock().expect("nobody panicked").clone();
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nlast-modified: Fri, 20 Nov 2026 09:00:00 GMT\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).await.expect("it reads");
            }
        });
        Self { url, body, asked }
    }
}

fn pulled_by(method: Method, endpoint: Option<String>, schedule: Option<&str>) -> Box<Definition> {
    let text = include_str!("../../../../examples/ground-truth/pipelines/world-bank-population.json");
    let mut definition: Definition = document(text);
    definition.pipeline.retrieval.method = method;
    definition.pipeline.retrieval.endpoint = endpoint;
    definition.pipeline.retrieval.schedule = schedule.map(str::to_owned);
    Box::new(definition)
}

async fn registered(system: &System, definition: Box<Definition>) -> Result<PipelineId, RegistryError> {
    let told = system.registry.ask(RegisterPipeline { definition, peer: PEER }).await.expect("it answers");
    told.map(|registered| registered.document.pipeline_id)
}

async fn pulled(system: &System, pipeline_id: &PipelineId) -> Result<PullOutcome, IngestionError> {
    let pull = Pull { pipeline_id: pipeline_id.clone(), requested_by: "7".into(), peer: Some(PEER) };
    system.ingestion.ask(pull).await.expect("it answers")
}

#[test]
fn a_payload_is_pulled_once_and_what_is_the_same_is_nothing_new() {
    with_world(|World { system, .. }| async move {
        population(&system).await;
        let publisher = Publisher::of(OLD).await;
        let definition = pulled_by(Method::FileDownload, Some(publisher.url.clone()), None);
        let pipeline_id = registered(&system, definition).await.expect("it is registered");
        let Ok(PullOutcome::Begun(begun)) = pulled(&system, &pipeline_id).await else { panic!("it is new") };
        let run = ended(&system, begun).await;
        assert_eq!((run.state, run.counts.records), (RunState::Completed, 3), "{run:?}");
        assert_eq!(run.source_url.as_deref(), Some(publisher.url.as_str()));
        assert_eq!(run.input.version, "2026-11-20T09:00:00Z");
        let again = pulled(&system, &pipeline_id).await;
        assert!(matches!(again, Ok(PullOutcome::NothingNew { .. })), "{again:?}");
        assert_eq!(publisher.asked.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn a_pull_that_fails_is_in_the_log_and_changes_nothing() {
    with_world(|World { system, .. }| async move {
        population(&system).await;
        // nobody listens there, and this machine's other addresses are not allowed
        for endpoint in ["http://127.0.0.1:1/", "http://127.0.0.2/x.csv"] {
            let definition = pulled_by(Method::ApiPull, Some(endpoint.into()), None);
            let pipeline_id = registered(&system, definition).await.expect("it is registered");
            let failed = pulled(&system, &pipeline_id).await;
            assert!(matches!(failed, Err(IngestionError::Pull(_))), "{failed:?}");
        }
        let events = logged(&system.store);
        assert_eq!(events.iter().filter(|event| *event == "pull_failed").count(), 2);
        assert!(!events.contains(&"ingestion_started".to_owned()));
        let handed_in = registered(&system, pulled_by(Method::ManualUpload, None, None)).await;
        let refused = pulled(&system, &handed_in.expect("it is registered")).await;
        assert!(matches!(refused, Err(IngestionError::NotPulled(_))), "{refused:?}");
    });
}

#[test]
fn what_cannot_be_pulled_or_scheduled_so_is_not_registered() {
    with_world(|World { system, .. }| async move {
        population(&system).await;
        let somewhere = || Some("https://example.org/x.csv".to_owned());
        for (definition, word) in [
            (pulled_by(Method::FileDownload, None, None), "`endpoint` is missing"),
            (pulled_by(Method::ManualUpload, somewhere(), None), "`endpoint` is for"),
            (pulled_by(Method::ManualUpload, None, Some("0 4 * * *")), "`schedule` is for"),
            (pulled_by(Method::ApiPull, somewhere(), Some("every morning")), "`schedule`: "),
        ] {
            let told = registered(&system, definition).await.expect_err("it cannot be").to_string();
            assert!(told.contains(word), "{told}");
        }
    });
}

#[test]
fn a_schedule_pulls_when_it_is_due_and_not_before() {
    with_world(|World { system, time, .. }| async move {
        population(&system).await;
        let publisher = Publisher::of(OLD).await;
        // it is ten o'clock
        let definition = pulled_by(Method::FileDownload, Some(publisher.url.clone()), Some("5 10 * * *"));
        registered(&system, definition).await.expect("it is registered");
        let shop = shop(&system, &time);
        pulling::begin_due(&shop);
        time.turn(4 * 60);
        pulling::begin_due(&shop);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(publisher.asked.load(Ordering::SeqCst), 0);
        time.turn(2 * 60);
        pulling::begin_due(&shop);
        pulling::begin_due(&shop);
        while system.store.runs().expect("they are read").iter().all(|run| run.state != RunState::Completed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(publisher.asked.load(Ordering::SeqCst), 1);
    });
}

/// What runs need, beside the actor that has its own.
fn shop(system: &System, time: &Hand) -> Arc<Shop> {
    let config = crate::testing::ingestion(time);
    let (store, log) = (system.store.clone(), system.log.clone());
    Ingestion::new(config, store, log, system.clock.clone(), system.metrics.clone()).shop
}

#[test]
fn a_stale_answer_waits_for_a_refresh_and_many_ask_the_source_once() {
    with_world(|World { system, time, .. }| async move {
        population(&system).await;
        let publisher = Publisher::of(OLD).await;
        let definition = pulled_by(Method::FileDownload, Some(publisher.url.clone()), None);
        let pipeline_id = registered(&system, definition).await.expect("it is registered");
        ingested(&system, &pipeline_id, OLD, "2020-04-14").await;
        let oracle_id: SourceId = "world-bank-population".parse().expect("an id");
        let review = ReviewSource { oracle_id: oracle_id.clone(), review: Review::Approve, peer: PEER };
        system.registry.ask(review).await.expect("it answers").expect("it is approved");
        let view = system.store.view(&oracle_id).expect("it opens").expect("it is there");
        let mut policy = policy_of(&view.state, &view.ontology);
        policy.default_stale_behavior = StaleBehavior::BlockUntilFresh;
        policy.default_max_age_seconds = 86_400;
        system
            .registry
            .ask(SetFreshness { policy, peer: PEER })
            .await
            .expect("it answers")
            .expect("it is set");
        let ask = || {
            let request =
                QueryRequest { axes_requested: vec!["population".into()], ..QueryRequest::default() };
            system.queries.ask(OracleQuery { query_id: None, oracle_id: oracle_id.clone(), request })
        };
        *publisher.body.lock().expect("nobody panicked") = NEW.to_owned();
        let (one, two, three) = tokio::join!(ask(), ask(), ask());
        for answer in [one, two, three] {
            let answer = answer.expect("it is fresh by now");
            assert_eq!(answer.response.query_metadata.data_version, "2026-11-20T09:00:00Z");
        }
        assert_eq!(publisher.asked.load(Ordering::SeqCst), 1);
        // two days on the source has still the same: nothing makes that fresh
        time.turn(2 * 86_400);
        let stale = ask().await;
        assert!(matches!(stale, Err(QueryError::Stale { .. })), "{stale:?}");
        assert_eq!(publisher.asked.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn a_newer_version_that_cannot_be_read_makes_what_is_known_stale() {
    with_world(|World { system, .. }| async move {
        population(&system).await;
        let publisher = Publisher::of("Country Name,Country Code,Year,Value\nAruba,ABW,1960,many\n").await;
        let definition = pulled_by(Method::FileDownload, Some(publisher.url.clone()), None);
        let pipeline_id = registered(&system, definition).await.expect("it is registered");
        ingested(&system, &pipeline_id, OLD, "2020-04-14").await;
        let Ok(PullOutcome::Begun(begun)) = pulled(&system, &pipeline_id).await else { panic!("it is new") };
        let run = ended(&system, begun).await;
        assert_eq!(run.state, RunState::Failed);
        let (source, _) = system.store.source(&run.oracle_id).expect("it is read").expect("it is there");
        assert_eq!(source.invalidated_at, run.ended_at);
    });
}
