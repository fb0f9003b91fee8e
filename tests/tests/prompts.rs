//! Prompt templates: registration, configuration, and the prompts of submitted verdicts.

use domain_base::digest::Sha256Hex;
use domain_verdict::divergence::CHANGED_NOTICE;
use domain_verdict::label::ProductTier;
use oracled_tests::caller::{UserRelay, is_root};
use oracled_tests::generation::{
    QUERY, built_in_prompt, place_order, purge_verdict, put_session, read_verdict, request_verdict,
    wait_for_order,
};
use oracled_tests::ground::put_document;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonWorld, GOOD, at, document, get, log, post, problem};
use serde_json::{Value, json};
use std::fs;

const SHOP: u32 = 65_534;
const HELP: u32 = 65_530;

/// Version `version` of the template `house`, which has a text for the tier quick.
fn template(version: u32, text: &str) -> Value {
    json!({"template_id": "house", "version": version, "language": "en", "tiers": {"quick": text}})
}

/// The prompt of the last request to the model.
fn last_prompt(model: &ModelServer) -> String {
    let requests = model.requests();
    let body = &requests.last().expect("a request").body;
    body.pointer("/contents/0/parts/0/text").and_then(Value::as_str).expect("a prompt").to_owned()
}

fn with_template(model: &ModelServer, name: &str) -> DaemonWorld {
    let mut world = model.create_world("");
    world.variables.push(("ORACLED_PROMPT_TEMPLATE".into(), name.into()));
    world
}

#[tokio::test]
async fn prompt_template_is_listed_and_immutable_under_its_version() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let path = "/v1/documents/prompt_template/house@1";
    let first = put_document(control, path, &template(1, "Judge {{query}}.")).await;
    assert_eq!(at(&first, "/change"), "created");
    let again = put_document(control, path, &template(1, "Judge {{query}}.")).await;
    assert_eq!(at(&again, "/change"), "unchanged");
    let other = put_document(control, path, &template(1, "Assess {{query}}.")).await;
    problem(&other, 409, "document_fixed");
    let twice = put_document(control, path, &template(1, "{{query}}{{query}}")).await;
    let fault = problem(&twice, 400, "invalid_document")["detail"].to_string();
    assert!(fault.contains("`tiers.quick`"), "{fault}");
    let built_in = json!({"template_id": "oracled-default", "version": 2, "language": "en", "tiers": {"quick": "{{query}}"}});
    let reserved = put_document(control, "/v1/documents/prompt_template/oracled-default@2", &built_in).await;
    problem(&reserved, 400, "invalid_document");

    let listed = document(&get(control, "/v1/documents/prompt_template").await);
    let listed: Vec<_> = listed["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| (&item["document_id"], &item["status"]))
        .collect();
    assert_eq!(
        listed,
        [
            (&json!("house@1"), &Value::Null),
            (&json!("oracled-default@1"), &json!("built in")),
            (&json!("oracled-default@2"), &json!("built in, current")),
        ]
    );
    let built_in = get(control, "/v1/documents/prompt_template/oracled-default@1").await;
    assert!(at(&built_in, "/document/tiers/full").as_str().is_some_and(|text| text.contains("{{query}}")));
}

#[tokio::test]
async fn order_waits_for_a_configured_template_that_is_not_registered() {
    let model = ModelServer::start().await;
    let world = with_template(&model, "house");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(place_order(&world, "cs_1").await["state"], "queued");
    let status = at(&get(control, "/v1/status").await, "/prompt");
    insta::assert_snapshot!("status_of_a_template_that_is_not_registered", status.as_str().expect("a text"));
    assert_eq!(model.request_count(), 0);

    let file = world.state().join("house.json");
    fs::write(&file, template(3, "Judge {{query}}.").to_string()).expect("the write succeeds");
    let applied = world.ctl_in_thread(&["apply", "-f", file.to_str().expect("UTF-8")]).await;
    assert!(applied.status.success(), "{applied:?}");
    assert_eq!(
        at(&get(control, "/v1/status").await, "/prompt"),
        "house@3, without a text for full and strategy"
    );
    let retry = json!({"action": "retry", "reason": "the template is registered"});
    assert_eq!(post(control, "/v1/orders/cs_1", &retry).await.status, 200);
    wait_for_order(routes, "cs_1", "delivered").await;
    assert_eq!(last_prompt(&model), format!("Judge {:?}.", QUERY));
    let session = get(control, "/v1/sessions/cs_1").await;
    assert_eq!(at(&session, "/prompt_template"), "house@3");
    let attempted = log(control, "event=order_attempted").await;
    assert_eq!(attempted[0]["generation"]["prompt_template"], "house@3");

    let order = json!({"tier": "full", "query": QUERY});
    let missing = post(routes, "/v1/verdicts/cs_2", &order).await;
    let detail = problem(&missing, 503, "prompt_unavailable")["detail"].to_string();
    assert!(detail.contains("house@3") && detail.contains("full"), "{detail}");
    problem(&get(routes, "/v1/orders/cs_2").await, 404, "order_unknown");
}

#[tokio::test]
async fn application_has_the_prompt_template_of_its_own() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(GOOD));
    let mut world = model.create_world("");
    if !is_root(&world) {
        return;
    }
    world.config = format!(
        "socket_mode = \"0666\"\n[applications.shop]\nuids = [{SHOP}]\nprompt_template = \"house@1\"\n\
         [applications.help]\nuids = [{HELP}]\n{}",
        world.config
    );
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let status = at(&get(control, "/v1/status").await, "/prompt");
    insta::assert_snapshot!(
        "status_of_an_application_without_its_template",
        status.as_str().expect("a text")
    );
    let house = template(1, "Judge {{query}}.");
    assert_eq!(put_document(control, "/v1/documents/prompt_template/house@1", &house).await.status, 200);
    for (user, session, expected) in
        [(SHOP, "shop/cs_1", "house@1"), (HELP, "help/cs_1", "oracled-default@2")]
    {
        let relay = UserRelay::start(&world, user).await;
        assert_eq!(request_verdict(&mut relay.connect().await, "cs_1").await.status, 201);
        let attempted = log(control, "event=order_attempted").await;
        let attempt = attempted.iter().find(|entry| entry["session_id"] == session).expect("an attempt");
        assert_eq!(attempt["generation"]["prompt_template"], expected);
    }
}

#[tokio::test]
async fn lost_verdict_is_regenerated_from_the_prompt_that_the_caller_named() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let path = "/v1/documents/prompt_template/house@1";
    assert_eq!(put_document(control, path, &template(1, "Judge {{query}}.")).await.status, 200);
    let current = built_in_prompt(ProductTier::Quick, QUERY);
    let house = format!("Judge {QUERY:?}.");
    for (number, (prompt, sent, is_changed)) in [
        (json!({"template": "house@1"}), house.as_str(), false),
        (json!({"text": "Is this coherent?"}), "Is this coherent?", false),
        (json!({"sha256": current.sha256()}), current.text(), false),
        (json!({"sha256": Sha256Hex::of(b"another prompt")}), current.text(), true),
    ]
    .into_iter()
    .enumerate()
    {
        for is_registered in [false, true] {
            let session = format!("cs_{number}_{is_registered}");
            if is_registered {
                let body =
                    json!({"tier": "quick", "query": QUERY, "original_verdict": "GREEN", "prompt": prompt});
                assert_eq!(put_session(routes, &session, &body).await.status, 201);
                assert_eq!(put_session(routes, &session, &body).await.status, 200);
            } else {
                let body = json!({"tier": "quick", "query": QUERY, "raw": GOOD, "prompt": prompt});
                assert_eq!(post(routes, &format!("/v1/verdicts/{session}"), &body).await.status, 201);
                purge_verdict(control, &session).await;
            }
            let answer = read_verdict(routes, &session).await;
            assert_eq!(answer.status, 200, "{}", document(&answer));
            assert_eq!(last_prompt(&model), sent, "{prompt}");
            let notice = if is_changed { json!(CHANGED_NOTICE) } else { Value::Null };
            assert_eq!(at(&answer, "/notice"), notice, "{prompt}");
            assert_eq!(at(&answer, "/prompt_changed") == true, is_changed, "{prompt}");
        }
    }
    // the settings of a submitted verdict are not known
    assert_eq!(at(&get(control, "/v1/status").await, "/variance/regens"), 0);
}

#[tokio::test]
async fn trial_compares_two_templates_and_delivers_nothing() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(GOOD));
    let world = model.create_world("");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let queries = world.state().join("queries.ndjson");
    let file = world.state().join("house.json");
    let (queries_path, file_path) = (queries.to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
    let lines: String =
        (0..3).map(|n| json!({"tier": "quick", "query": format!("Plan {n}?")}).to_string() + "\n").collect();
    fs::write(&queries, &lines).expect("the write succeeds");
    let mut house = template(1, "Judge {{query}}.");
    house["kind"] = json!("prompt_template");
    fs::write(&file, house.to_string()).expect("the write succeeds");

    let tried = world.ctl_in_thread(&["--json", "prompt", "try", file_path, queries_path]).await;
    assert!(tried.status.success(), "{tried:?}");
    let report: Value = serde_json::from_slice(&tried.stdout).expect("a report");
    for (name, reference) in [("candidate", "house@1"), ("current", "oracled-default@2")] {
        let report = &report[name];
        assert_eq!(report["template"], reference);
        assert_eq!(report["approval"], json!({"quick": {"runs": 6, "approved": 6}}));
        assert_eq!(report["label_agreement"], json!({"compared": 3, "agreed": 3}));
        assert_eq!((&report["mean_coherence"], &report["flags"]), (&json!(1.0), &json!({})));
        assert!(report["usage"]["prompt_tokens"].is_u64(), "{report}");
    }
    assert_eq!(model.request_count(), 12);
    let prompts =
        model.requests().into_iter().filter(|seen| seen.body.to_string().contains("Judge ")).count();
    assert_eq!(prompts, 6);
    let entries = log(control, "limit=1000").await;
    let of = |event: &str| entries.iter().filter(|entry| entry["event"] == event).collect::<Vec<_>>();
    for event in ["oracle_interaction", "tmm_crosscheck"] {
        let entries = of(event);
        assert_eq!(entries.len(), 12);
        let is_trial =
            |entry: &&Value| entry["path"] == "try" && entry.get("session_id").is_none_or(Value::is_null);
        assert!(entries.iter().all(is_trial), "{entries:?}");
    }
    assert!(of("verdict_cached").is_empty() && of("message_queued").is_empty());
    let status = document(&get(control, "/v1/status").await);
    assert_eq!(
        (&status["verdicts"], &status["sessions"], &status["in_flight"]),
        (&json!(0), &json!(0), &json!(0))
    );

    let shown = world.ctl_in_thread(&["prompt", "try", "oracled-default", queries_path]).await;
    let table = String::from_utf8(shown.stdout).expect("UTF-8");
    let approved = table.lines().find(|line| line.contains("quick")).expect("a row of the tier");
    insta::assert_snapshot!(
        "trial_of_the_built_in_template",
        approved.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    let listed = world.ctl_in_thread(&["prompt", "list"]).await;
    assert!(String::from_utf8_lossy(&listed.stdout).contains("current"), "{listed:?}");
    let shown = world.ctl_in_thread(&["prompt", "show", "oracled-default"]).await;
    assert!(String::from_utf8_lossy(&shown.stdout).contains("{{query}}"), "{shown:?}");

    let before = model.request_count();
    fs::write(&queries, lines + r#"{"tier":"full","query":"Plan?"}"#).expect("the write succeeds");
    let faulty = world.ctl_in_thread(&["prompt", "try", file_path, queries_path]).await;
    assert_eq!(faulty.status.code(), Some(5));
    let fault = String::from_utf8_lossy(&faulty.stderr);
    assert!(fault.contains("queries.ndjson:4:") && fault.contains("house@1"), "{fault}");
    assert_eq!(model.request_count(), before);
}

/// Two queries of the tier quick in a file.
fn write_queries(world: &DaemonWorld) -> String {
    let lines: Vec<_> =
        (0..2).map(|n| json!({"tier": "quick", "query": format!("Plan {n}?")}).to_string()).collect();
    let file = world.state().join("queries.ndjson");
    fs::write(&file, lines.join("\n")).expect("the write succeeds");
    file.to_str().expect("UTF-8").to_owned()
}

#[tokio::test]
async fn trial_waits_for_the_first_model_and_never_asks_a_fallback() {
    let (first, backup) = (ModelServer::start().await, ModelServer::start().await);
    first.next([ScriptedReply::error(429, "slow down").header("retry-after", "1")]);
    let mut world = first.create_world("fallbacks = [\"backup\"]\nmax_retries = 0\n");
    world.config.push_str(&format!(
        "[models.backup]\nprovider = \"openai\"\nname = \"made-up\"\nbase_url = \"{}\"\n",
        backup.openai_url()
    ));
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let request = json!({"tier": "quick", "query": "Sell honey?"});
    let busy = post(control, "/v1/prompts/try", &request).await;
    problem(&busy, 503, "model_busy");
    assert!(busy.headers.contains_key("retry-after"));

    let tried =
        world.ctl_in_thread(&["--json", "prompt", "try", "oracled-default", &write_queries(&world)]).await;
    assert!(tried.status.success(), "{tried:?}");
    let report: Value = serde_json::from_slice(&tried.stdout).expect("a report");
    for name in ["candidate", "current"] {
        assert_eq!(
            (&report[name]["oracle_id"], &report[name]["model"]),
            (&json!("gemini"), &json!("gemini-2.5-flash"))
        );
    }
    assert_eq!((first.request_count(), backup.request_count()), (9, 0));
    let asked = post(control, "/v1/health/oracles/gemini", &json!({"action": "open"})).await;
    assert_eq!(asked.status, 200, "{}", document(&asked));
    problem(&post(control, "/v1/prompts/try", &request).await, 503, "model_unavailable");
    assert_eq!(backup.request_count(), 0);
}

#[tokio::test]
async fn trial_is_refused_before_the_first_call_if_a_query_cannot_be_tried() {
    let model = ModelServer::start().await;
    let mut world = with_template(&model, "house");
    world.config.push_str("[limits]\nquery_bytes = 20\n");
    let daemon = world.serve().await;
    let house = template(1, "Judge {{query}}.");
    let control = &mut daemon.control().await;
    assert_eq!(put_document(control, "/v1/documents/prompt_template/house@1", &house).await.status, 200);
    let file = world.state().join("queries.ndjson");
    let path = file.to_str().expect("UTF-8");
    let quick = json!({"tier": "quick", "query": "Sell honey?"});
    for (second, code) in [
        (json!({"tier": "quick", "query": "Sell honey? ".repeat(4)}), "query_too_long"),
        // the candidate has a text for the tier, the current template has none
        (json!({"tier": "full", "query": "Sell honey?"}), "prompt_unavailable"),
    ] {
        fs::write(&file, format!("{quick}\n{second}\n")).expect("the write succeeds");
        let refused = world.ctl_in_thread(&["--json", "prompt", "try", "oracled-default", path]).await;
        assert!(!refused.status.success(), "{refused:?}");
        let problem: Value = serde_json::from_slice(&refused.stdout).expect("a problem");
        assert_eq!(problem["code"], code);
        assert!(problem["detail"].to_string().contains("queries.ndjson:2:"), "{problem}");
    }
    assert_eq!(model.request_count(), 0);
}

#[tokio::test]
async fn trial_reports_the_results_before_a_failure() {
    let model = ModelServer::start().await;
    model.next((0..3).map(|_| ScriptedReply::with_text(GOOD)));
    model.set_default(ScriptedReply::error(400, "what is that"));
    let world = model.create_world("");
    let _daemon = world.serve().await;
    let tried =
        world.ctl_in_thread(&["--json", "prompt", "try", "oracled-default", &write_queries(&world)]).await;
    assert_eq!(tried.status.code(), Some(4), "{tried:?}");
    let report: Value = serde_json::from_slice(&tried.stdout).expect("a report");
    let sum = |path: &str| -> u64 {
        let reports = [&report["candidate"], &report["current"]].into_iter();
        reports.filter_map(|report| report.pointer(path)?.as_u64()).sum()
    };
    assert_eq!((sum("/approval/quick/approved"), sum("/missing")), (3, 5), "{report}");
}

#[tokio::test]
async fn prompt_of_a_request_is_rejected_if_it_cannot_be_used() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for prompt in [
        json!({}),
        json!({"template": "oracled-default@1", "text": "Judge."}),
        json!({"template": "house@1"}),
        json!({"template": "oracled-default"}),
        json!({"text": " "}),
        json!({"text": "x".repeat(256 * 1024 + 1)}),
        json!({"sha256": "abc"}),
        json!("oracled-default@1"),
        json!(["oracled-default@1"]),
    ] {
        let body = json!({"tier": "quick", "query": QUERY, "raw": GOOD, "prompt": prompt});
        problem(&post(routes, "/v1/verdicts/cs_1", &body).await, 400, "invalid_request");
    }
    let prompt = json!({"template": "oracled-default@1"});
    let generated = json!({"tier": "quick", "query": QUERY, "prompt": prompt});
    problem(&post(routes, "/v1/verdicts/cs_1", &generated).await, 400, "invalid_request");
    problem(&put_session(routes, "cs_1", &generated).await, 400, "invalid_request");

    assert_eq!(request_verdict(routes, "cs_1").await.status, 201);
    let mut body = json!({"tier": "quick", "query": QUERY, "original_verdict": "GREEN", "prompt": prompt});
    assert_eq!(put_session(routes, "cs_1", &body).await.status, 200);
    body["prompt"] = json!({"text": "Judge."});
    let other = problem(&put_session(routes, "cs_1", &body).await, 409, "session_mismatch");
    assert_eq!(other["mismatch"], "prompt");
}
