//! Failures of regenerated verdicts (seed: `regen-consistency`, "Failure modes" and "Gaps"), and their results.

use domain_base::digest::Sha256Hex;
use domain_base::event::{AuditEvent, EventSeverity};
use domain_verdict::divergence::{CHANGED_NOTICE, UNKNOWN_NOTICE};
use domain_verdict::event::SessionRegistered;
use domain_verdict::generation::{GenerationSettings, LOCKED_MODEL};
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::prompt::VerdictPrompt;
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::{OriginalVerdict, SessionRecord};
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowWrite, Store, StoreOptions};
use oracled_tests::generation::{
    QUERY, coherent_answer, event_names, purge_verdict, read_cached, read_metric, read_verdict,
    register_session, request_verdict, retry_after_s, x_cache,
};
use oracled_tests::load::field;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonWorld, at, disk, error_line, eventually, get, lines, log, problem};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;

fn reply(label: VerdictLabel) -> ScriptedReply {
    ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, label))
}

/// Events of the entries that went to the service log.
fn fallback_events(world: &DaemonWorld) -> Vec<String> {
    let log = world.service_log();
    let marked = log.lines().filter(|line| line.contains("log_fallback"));
    let entries = marked.flat_map(|line| lines(line.as_bytes()));
    entries.map(|entry| field(&entry, "event").as_str().expect("a word").to_owned()).collect()
}

#[tokio::test]
async fn failure_mode_temperature_not_enforced_regen_ignores_configuration() {
    let model = ModelServer::start().await;
    let mut world = model.create_world("original_temperature = 1.5\noriginal_top_k = 64");
    world.variables.push(("ORACLED_MODEL__ORIGINAL_TOP_P".into(), "0.5".into()));
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for n in 0..10 {
        register_session(routes, &format!("cs_{n}"), Some(VerdictLabel::Green)).await;
        assert_eq!(read_verdict(routes, &format!("cs_{n}")).await.status, 200);
    }
    request_verdict(routes, "mine").await;
    purge_verdict(control, "mine").await;
    read_verdict(routes, "mine").await;
    let mut requests = model.requests();
    let original = requests.remove(10).body["generationConfig"].clone();
    assert_eq!(
        (&original["temperature"], &original["topP"], &original["topK"]),
        (&json!(1.5), &json!(0.5), &json!(64))
    );
    for regen in requests {
        let config = &regen.body["generationConfig"];
        assert_eq!((&config["temperature"], &config["topK"]), (&json!(0.0), &json!(1)), "{config}");
        assert_eq!((&config["topP"], &config["candidateCount"]), (&json!(1.0), &json!(1)), "{config}");
    }
    let checks = log(control, "event=regen_divergence_check&session=mine").await;
    assert_eq!((checks.len(), &checks[0]["settings_changed"]), (1, &json!(true)));

    for key in ["regen_temperature", "temperature", "regen_top_k"] {
        let refused = error_line(model.create_world(&format!("{key} = 1")).command());
        assert!(refused.contains(&format!("`model.{key}`")), "{refused}");
    }
}

#[tokio::test]
async fn failure_mode_cache_not_written_answer_is_an_error() {
    let model = ModelServer::start().await;
    let mut world = model.create_world("");
    if !disk::can_be_filled(&mut world) {
        println!("skipped: prlimit not found");
        return;
    }
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for session in ["before", "while"] {
        register_session(routes, session, Some(VerdictLabel::Green)).await;
    }
    // the attempt cannot be logged, so the model is not called
    disk::fill(&daemon, &world.state());
    for _ in 0..5 {
        let refused = read_verdict(routes, "before").await;
        problem(&refused, 503, "storage_unavailable");
        assert!(retry_after_s(&refused).is_some());
    }
    assert_eq!(model.request_count(), 0);
    disk::empty(&daemon);
    eventually("the daemon is ready again", async || get(routes, "/readyz").await.status == 200).await;

    // the disk fills up while the model works: the verdict is judged, but not delivered
    model.next([reply(VerdictLabel::Red).after(Duration::from_millis(500))]);
    let mut reader = daemon.routes().await;
    let reading = tokio::spawn(async move { read_verdict(&mut reader, "while").await });
    eventually("the model is called", async || model.request_count() == 1).await;
    disk::fill(&daemon, &world.state());
    problem(&reading.await.expect("an answer"), 503, "storage_unavailable");
    assert_eq!(
        fallback_events(&world),
        ["oracle_interaction", "tmm_crosscheck"],
        "only events that occurred are logged"
    );
    disk::empty(&daemon);
    eventually("the daemon is ready again", async || get(routes, "/readyz").await.status == 200).await;
    problem(&read_cached(routes, "while").await, 404, "verdict_not_cached");
    problem(&read_verdict(routes, "while").await, 429, "regen_rate_limited");
    let events = event_names(&mut daemon.control().await, "while").await;
    assert_eq!(events, ["session_registered", "regen_attempted"]);
    assert_eq!(model.request_count(), 1, "no further read calls the model");
    assert_eq!(
        x_cache(&read_verdict(routes, "before").await),
        Some("MISS"),
        "an attempt that was not logged does not count"
    );
}

#[tokio::test]
async fn failure_mode_original_not_recoverable_is_reported_and_logged() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    register_session(routes, "cs_1", None).await;
    model.set_default(reply(VerdictLabel::Null));
    let answer = read_verdict(routes, "cs_1").await;
    assert_eq!(answer.status, 200, "the verdict is delivered");
    assert_eq!(at(&answer, "/notice"), UNKNOWN_NOTICE);
    let checks = log(&mut daemon.control().await, "event=regen_divergence_check").await;
    let [check] = &checks[..] else { panic!("one check: {checks:?}") };
    let fields =
        ["original_verdict", "top_level_match", "divergence_level", "skipped"].map(|name| &check[name]);
    assert_eq!(fields, [&json!("UNKNOWN"), &Value::Null, &Value::Null, &json!(true)]);
    let status = get(&mut daemon.control().await, "/v1/status").await;
    assert_eq!(at(&status, "/variance/regens"), 0, "a regeneration without an original does not count");
    let compared =
        "oracled_regens_compared_total{original=\"UNKNOWN\",regenerated=\"NULL\",level=\"unknown\"}";
    assert_eq!(read_metric(routes, compared).await, 1.0);
}

/// Adds a session to a store that no daemon has open. Its first verdict was generated from another prompt.
fn store_session(state: &Path, prompt_sha256: Sha256Hex) {
    let options = StoreOptions {
        dir: state.to_owned(),
        cache_bytes: 16 << 20,
        facts_cache_bytes: 1 << 20,
        min_free_bytes: 0,
    };
    let (mut journal, _store) = Store::open(options).expect("the store opens");
    let settings = Some(GenerationSettings {
        thinking_budget: Some(0),
        response_schema: true,
        ..GenerationSettings::locked(LOCKED_MODEL.to_owned())
    });
    let prompt = Some(VerdictPrompt { sha256: prompt_sha256, template: None, text: None });
    let session = SessionRecord {
        original: Some(OriginalVerdict {
            prompt,
            settings,
            ..OriginalVerdict::reported(VerdictLabel::Green)
        }),
        ..SessionRecord::new(
            "cs_1".parse().expect("an id"),
            ProductTier::Quick,
            CustomerQuery::new(QUERY.to_owned()),
        )
    };
    let registered = AuditEvent::new(
        Timestamp::now(),
        session.session_id.clone(),
        SessionRegistered {
            tier: session.tier,
            query_preview: session.query.preview(),
            original_verdict: domain_verdict::divergence::OriginalLabel(Some(VerdictLabel::Green)),
            has_email: false,
        },
    );
    let record = JournalRecord {
        events: vec![registered],
        writes: vec![RowWrite::put::<SessionRecord>(&session)],
        ..JournalRecord::default()
    };
    let committed = journal.commit(&[record]).expect("the commit succeeds");
    assert!(committed.iter().all(Result::is_ok), "{committed:?}");
}

#[tokio::test]
async fn failure_mode_prompt_divergence_is_flagged() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    store_session(&world.state(), Sha256Hex::of(b"the prompt of an older version"));
    let daemon = world.serve().await;
    assert_eq!(read_verdict(&mut daemon.routes().await, "cs_1").await.status, 200);
    let checks = log(&mut daemon.control().await, "event=regen_divergence_check").await;
    let [check] = &checks[..] else { panic!("one check: {checks:?}") };
    assert_eq!((&check["prompt_changed"], &check["settings_changed"]), (&json!(true), &json!(false)));
    assert_eq!((&check["divergence_level"], &check["skipped"]), (&json!("none"), &json!(false)));
}

#[tokio::test]
async fn failure_mode_infrastructure_variance_changes_the_answer() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    model.next([reply(VerdictLabel::Green), reply(VerdictLabel::Red)]);
    request_verdict(routes, "cs_1").await;
    purge_verdict(control, "cs_1").await;
    read_verdict(routes, "cs_1").await;
    let [first, second] = &model.requests()[..] else { panic!("two requests") };
    assert_eq!(first, second, "the requests are equal, including headers");
    let checks = log(control, "event=regen_divergence_check").await;
    let fields = ["divergence_level", "prompt_changed", "settings_changed"].map(|name| &checks[0][name]);
    assert_eq!(
        fields,
        [&json!("significant"), &json!(false), &json!(false)],
        "neither prompt nor settings have changed"
    );
}

#[tokio::test]
async fn failure_mode_regen_loop_calls_the_model_once() {
    for what in [
        ScriptedReply::with_text("no JSON"),
        ScriptedReply::error(400, "no"),
        ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, VerdictLabel::Red)),
    ] {
        let model = ModelServer::start().await;
        model.set_default(what);
        let world = model.create_world("");
        let daemon = world.serve().await;
        let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
        register_session(routes, "cs_1", None).await;
        if read_verdict(routes, "cs_1").await.status == 200 {
            purge_verdict(control, "cs_1").await;
        }
        for _ in 0..20 {
            let refused = read_verdict(routes, "cs_1").await;
            problem(&refused, 429, "regen_rate_limited");
            assert!((200..=300).contains(&retry_after_s(&refused).unwrap()), "{refused:?}");
        }
        assert_eq!(model.request_count(), 1);
        let attempts = log(control, "event=regen_attempted").await;
        assert_eq!(attempts.len(), 1, "a refused read is not logged as an attempt");
        let refusals =
            "oracled_verdicts_made_total{application=\"default\",path=\"regen\",outcome=\"rate_limited\"}";
        assert_eq!(read_metric(routes, refusals).await, 20.0);
    }
}

#[tokio::test]
async fn regen_gap_01_original_uses_locked_settings_unless_configured() {
    for (config, temperature, changed) in [("", 0.0, false), ("original_temperature = 0.4", 0.4, true)] {
        let model = ModelServer::start().await;
        let mut world = model.create_world(config);
        let daemon = world.serve().await;
        request_verdict(&mut daemon.routes().await, "cs_1").await;
        assert_eq!(model.requests()[0].body["generationConfig"]["temperature"], temperature);
        purge_verdict(&mut daemon.control().await, "cs_1").await;
        assert!(daemon.stop().success());
        // the settings of the first verdict are known after a restart with others
        world.variables.push(("ORACLED_MODEL__ORIGINAL_TEMPERATURE".into(), "1.9".into()));
        let daemon = world.serve().await;
        read_verdict(&mut daemon.routes().await, "cs_1").await;
        let entries = log(&mut daemon.control().await, "session=cs_1").await;
        let of = |event: &str| entries.iter().find(|entry| entry["event"] == event).unwrap();
        assert_eq!(of("oracle_interaction")["generation"]["temperature"], temperature);
        assert_eq!(of("regen_divergence_check")["settings_changed"], changed);
    }
}

#[tokio::test]
async fn regen_gap_02_original_is_known_without_the_log_file_and_after_a_kill() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    model.next([reply(VerdictLabel::Amber), reply(VerdictLabel::Null)]);
    assert_eq!(request_verdict(&mut daemon.routes().await, "cs_1").await.status, 201);
    purge_verdict(&mut daemon.control().await, "cs_1").await;
    fs::remove_file(world.state().join("oracle_log.jsonl")).unwrap();
    daemon.kill();

    let daemon = world.serve().await;
    let answer = read_verdict(&mut daemon.routes().await, "cs_1").await;
    assert_eq!(at(&answer, "/original_verdict"), "AMBER");
    assert_eq!(at(&answer, "/divergence_level"), "significant");
    let check = log(&mut daemon.control().await, "event=regen_divergence_check").await;
    assert_eq!((check.len(), &check[0]["skipped"]), (1, &json!(false)));
}

#[tokio::test]
async fn regen_gap_05_hits_misses_and_regenerations_are_counted() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    request_verdict(routes, "cs_1").await;
    read_verdict(routes, "cs_1").await;
    purge_verdict(control, "cs_1").await;
    model.next([reply(VerdictLabel::Amber)]);
    read_verdict(routes, "cs_1").await;
    read_verdict(routes, "cs_1").await;
    read_cached(routes, "cs_1").await;
    read_verdict(routes, "unknown").await;
    let mut hits = 0.0;
    for place in ["hit_memory", "hit_store"] {
        hits += read_metric(routes, &format!("oracled_cache_reads_total{{result=\"{place}\"}}")).await;
    }
    assert_eq!(hits, 3.0);
    for (name, value) in [
        ("oracled_cache_reads_total{result=\"miss\"}", 2.0),
        ("oracled_verdicts_made_total{application=\"default\",path=\"generate\",outcome=\"delivered\"}", 1.0),
        ("oracled_verdicts_made_total{application=\"default\",path=\"regen\",outcome=\"regenerated\"}", 1.0),
        (
            "oracled_verdicts_made_total{application=\"default\",path=\"regen\",outcome=\"session_unknown\"}",
            1.0,
        ),
        ("oracled_model_attempts_total{path=\"generate\",status=\"success\"}", 1.0),
        ("oracled_model_attempts_total{path=\"regen\",status=\"success\"}", 1.0),
        ("oracled_regens_compared_total{original=\"GREEN\",regenerated=\"AMBER\",level=\"minor\"}", 1.0),
        ("oracled_model_tokens_total{direction=\"prompt\"}", 600.0),
        ("oracled_model_tokens_total{direction=\"output\"}", 80.0),
        ("oracled_model_retries_total", 0.0),
        ("oracled_model_attempt_seconds_count{model=\"gemini\"}", 2.0),
    ] {
        assert_eq!(read_metric(routes, name).await, value, "{name}");
    }
}

#[tokio::test]
async fn regen_gap_06_divergence_over_5_percent_is_escalated_in_log_and_status() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let regenerate = async |n: usize, label: VerdictLabel, routes: &mut _, control: &mut _| {
        model.next([reply(VerdictLabel::Green), reply(label)]);
        assert_eq!(request_verdict(routes, &format!("cs_{n}")).await.status, 201);
        purge_verdict(control, &format!("cs_{n}")).await;
        assert_eq!(read_verdict(routes, &format!("cs_{n}")).await.status, 200);
    };
    for n in 0..20 {
        regenerate(n, if n == 7 { VerdictLabel::Amber } else { VerdictLabel::Green }, routes, control).await;
    }
    let variance = at(&get(control, "/v1/status").await, "/variance");
    assert_eq!(variance, json!({"regens": 20, "diverged": 1, "rate": 0.05, "escalated": false}));
    assert_eq!(log(control, "event=infrastructure_variance").await.len(), 0, "5 % is not more than 5 %");
    regenerate(20, VerdictLabel::Red, routes, control).await;
    eventually("the variance is escalated", async || {
        log(control, "event=infrastructure_variance").await.len() == 1
    })
    .await;
    let variance = at(&get(control, "/v1/status").await, "/variance");
    let rate = 2.0 / 21.0;
    assert_eq!(variance, json!({"regens": 21, "diverged": 2, "rate": rate, "escalated": true}));
    let mut escalation = log(control, "event=infrastructure_variance").await.remove(0);
    escalation.as_object_mut().unwrap().retain(|name, _| name != "seq" && name != "timestamp");
    let level = json!(EventSeverity::Escalation);
    assert_eq!(
        escalation,
        json!({
            "event": "infrastructure_variance", "regens": 21, "diverged": 2, "rate": rate, "escalated": true,
            "threshold": 0.05, "level": level,
        })
    );
    let shown = world.ctl(&["status"]).stdout;
    let shown = String::from_utf8_lossy(&shown);
    let divergence = shown.lines().find(|line| line.starts_with("divergence")).expect("a row");
    insta::assert_snapshot!("status_row_of_an_infrastructure_variance", divergence);

    regenerate(21, VerdictLabel::Red, routes, control).await;
    daemon.kill();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    assert_eq!(
        at(&get(control, "/v1/status").await, "/variance/diverged"),
        3,
        "the count survives a restart"
    );
    assert_eq!(log(control, "event=infrastructure_variance").await.len(), 1, "the escalation is logged once");
}

/// A world with two configurations: `cs_1` got its verdict from the model `made-up-1`, which no longer exists.
async fn original_of_another_model(model: &ModelServer, again: &[ScriptedReply]) -> (DaemonWorld, Value) {
    let mut world = model.create_world("name = \"made-up-1\"");
    let daemon = world.serve().await;
    assert_eq!(request_verdict(&mut daemon.routes().await, "cs_1").await.status, 201);
    purge_verdict(&mut daemon.control().await, "cs_1").await;
    assert!(daemon.stop().success());
    world.config = world.config.replace("made-up-1", "made-up-2");
    let daemon = world.serve().await;
    model.next(again.iter().cloned());
    let answer = read_verdict(&mut daemon.routes().await, "cs_1").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let status = get(&mut daemon.control().await, "/v1/status").await;
    let control = &mut daemon.control().await;
    let checks = log(control, "event=regen_divergence_check").await;
    let attempts = log(control, "event=oracle_interaction&session=cs_1").await;
    let models = attempts.iter().skip(1).map(|entry| field(field(entry, "generation"), "model").clone());
    let mut response = oracled_tests::document(&answer);
    response.as_object_mut().expect("a document is an object").extend([
        ("regens_watched".to_owned(), at(&status, "/variance/regens")),
        ("check".to_owned(), checks.first().expect("one check").clone()),
        ("models".to_owned(), models.collect()),
    ]);
    drop(daemon);
    (world, response)
}

#[tokio::test]
async fn regeneration_calls_the_model_of_the_original() {
    let model = ModelServer::start().await;
    let (_world, answer) = original_of_another_model(&model, &[]).await;
    assert_eq!(answer["models"], json!(["made-up-1"]));
    assert_eq!((&answer["check"]["settings_changed"], &answer["regens_watched"]), (&json!(false), &json!(1)));
    assert!(answer.get("notice").is_none(), "{answer}");
}

#[tokio::test]
async fn regeneration_calls_the_configured_model_if_the_original_is_gone() {
    let model = ModelServer::start().await;
    let gone = [ScriptedReply::error(404, "no such model"), reply(VerdictLabel::Red)];
    let (_world, answer) = original_of_another_model(&model, &gone).await;
    assert_eq!(answer["models"], json!(["made-up-1", "made-up-2"]));
    let check = &answer["check"];
    assert_eq!((&check["settings_changed"], &check["prompt_changed"]), (&json!(true), &json!(false)));
    assert_eq!((&answer["settings_changed"], &answer["regens_watched"]), (&json!(true), &json!(0)));
    assert_eq!(answer["notice"], CHANGED_NOTICE);
    assert_eq!(answer["divergence_level"], "significant");
}

#[tokio::test]
async fn regeneration_with_unknown_prompt_is_marked_and_not_watched() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    register_session(routes, "registered", Some(VerdictLabel::Green)).await;
    let submitted = oracled_tests::post(
        routes,
        "/v1/verdicts/submitted",
        &oracled_tests::submission(oracled_tests::GOOD),
    )
    .await;
    assert_eq!(submitted.status, 201);
    purge_verdict(control, "submitted").await;
    for session in ["registered", "submitted"] {
        model.next([reply(VerdictLabel::Green)]);
        let answer = read_verdict(routes, session).await;
        assert_eq!(at(&answer, "/prompt_changed"), true, "{session}");
        assert_eq!(at(&answer, "/notice"), CHANGED_NOTICE, "{session}");
        let check = log(control, &format!("event=regen_divergence_check&session={session}")).await.remove(0);
        assert_eq!((&check["prompt_changed"], &check["skipped"]), (&json!(true), &json!(false)));
        assert_eq!(read_verdict(routes, session).await.body, answer.body);
    }
    assert_eq!(at(&get(control, "/v1/status").await, "/variance/regens"), 0);
}

#[tokio::test]
async fn first_read_of_a_registered_session_claims_no_email() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    register_session(routes, "cs_1", None).await;
    let notice = at(&read_verdict(routes, "cs_1").await, "/notice");
    assert!(notice.as_str().is_some_and(|notice| !notice.to_lowercase().contains("mail")), "{notice}");
}
