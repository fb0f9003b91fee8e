//! `POST /v1/verdicts/{session_id}` without a verdict, and reads of lost verdicts: the daemon calls the model.

use domain_base::digest::Sha256Hex;
use domain_verdict::label::{ProductTier, VerdictLabel};
use oracled_tests::generation::{
    KEY, QUERY, built_in_prompt, coherent_answer, event_names, generation_request, purge_verdict,
    read_cached, read_metric, read_verdict, register_session, request_verdict, world_with_model, x_cache,
};
use oracled_tests::model::{ModelServer, ScriptedReply, openai_answer};
use oracled_tests::{DaemonWorld, GOOD, at, document, get, log, post, problem, submission};
use serde_json::{Value, json};

#[tokio::test]
async fn generated_verdict_is_judged_stored_and_returned() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for tier in ProductTier::ALL {
        let text = coherent_answer(tier, VerdictLabel::Amber);
        model.next([ScriptedReply::with_text(&text)]);
        let created = post(routes, &format!("/v1/verdicts/{tier}"), &generation_request(tier)).await;
        assert_eq!(created.status, 201, "{}", document(&created));
        let delivered = document(&created);
        let verdict: Value = serde_json::from_str(&text).unwrap();
        let members = ["session_id", "tier", "query", "verdict", "regen"].map(|name| delivered[name].clone());
        assert_eq!(members, [json!(tier), json!(tier), json!(QUERY), verdict, json!(false)]);
        assert_eq!(delivered["decision"]["approved"], true);

        let again = read_verdict(routes, tier.into_str()).await;
        assert_eq!((x_cache(&again), &again.body), (Some("HIT"), &created.body));
        assert_eq!(read_cached(routes, tier.into_str()).await.body, created.body);
        let entries = log(control, &format!("session={tier}")).await;
        let events: Vec<_> = entries.iter().map(|entry| entry["event"].as_str().unwrap()).collect();
        let expected = [
            "order_placed",
            "order_attempted",
            "oracle_interaction",
            "tmm_crosscheck",
            "verdict_cached",
            "order_delivered",
        ];
        assert_eq!(events, expected);
        let [attempted, interaction, judged, cached] = &entries[1..5] else { unreachable!("checked") };
        for entry in [interaction, judged, cached] {
            assert_eq!(entry["path"], "generate", "{entry}");
        }
        assert_eq!(judged["verdict_sha256"], json!(Sha256Hex::of(text.as_bytes())));
        let prompt = built_in_prompt(tier, QUERY);
        assert_eq!(interaction["prompt_sha256"], json!(prompt.sha256()));
        assert_eq!(attempted["generation"]["prompt_sha256"], interaction["prompt_sha256"], "{attempted}");
        let fields = ["status", "cache_hit", "stale_data_used", "attempt", "finish_reason", "oracle_version"];
        assert_eq!(
            fields.map(|name| interaction[name].clone()),
            [
                json!("success"),
                json!(false),
                json!(false),
                json!(1),
                json!("STOP"),
                json!("v1beta/gemini-2.5-flash")
            ]
        );
    }
    assert_eq!(model.request_count(), 3);
    let created =
        "oracled_verdicts_made_total{application=\"default\",path=\"generate\",outcome=\"delivered\"}";
    assert_eq!(read_metric(routes, created).await, 3.0);
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    assert_eq!(x_cache(&read_verdict(&mut daemon.routes().await, "full").await), Some("HIT"));
}

#[tokio::test]
async fn repeated_request_is_replayed_and_a_changed_one_is_a_mismatch() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let created = request_verdict(routes, "cs_1").await;
    for _ in 0..3 {
        let mut replayed = document(&request_verdict(routes, "cs_1").await);
        assert_eq!(replayed.as_object_mut().unwrap().remove("replayed"), Some(json!(true)));
        assert_eq!(replayed, document(&created));
    }
    // a session is the same whether its verdict was submitted or generated
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission("{}")).await.status, 200);
    assert_eq!(post(routes, "/v1/verdicts/cs_2", &submission(GOOD)).await.status, 201);
    assert_eq!(at(&request_verdict(routes, "cs_2").await, "/replayed"), true);
    for (order, what) in [
        (json!({"tier": "full", "query": QUERY}), "tier"),
        (json!({"tier": "quick", "query": "Sell wax?"}), "query"),
    ] {
        let refused = problem(&post(routes, "/v1/verdicts/cs_1", &order).await, 409, "session_mismatch");
        assert_eq!(refused["mismatch"], what);
    }
    assert_eq!(model.request_count(), 1);
}

#[tokio::test]
async fn registered_session_refuses_another_tier_and_a_second_delivery() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    register_session(routes, "cs_1", None).await;
    let other = json!({"tier": "strategy", "query": QUERY});
    let refused = problem(&post(routes, "/v1/verdicts/cs_1", &other).await, 409, "session_mismatch");
    assert_eq!((&refused["mismatch"], model.request_count()), (&json!("tier"), 0));
    assert_eq!(request_verdict(routes, "cs_1").await.status, 201);
    register_session(routes, "cs_2", Some(VerdictLabel::Green)).await;
    let refused = problem(&request_verdict(routes, "cs_2").await, 409, "delivered_already");
    assert!(refused["detail"].as_str().unwrap().contains("/v1/verdicts/cs_2"), "{refused}");
    assert_eq!(model.request_count(), 1);
}

#[tokio::test]
async fn lost_verdict_is_regenerated_by_reads_only() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    request_verdict(routes, "cs_1").await;
    purge_verdict(control, "cs_1").await;
    problem(&request_verdict(routes, "cs_1").await, 409, "delivered_already");
    assert_eq!(model.request_count(), 1);
    assert_eq!(x_cache(&read_verdict(routes, "cs_1").await), Some("MISS"));
    assert_eq!(at(&request_verdict(routes, "cs_1").await, "/replayed"), true);
}

#[tokio::test]
async fn rejected_model_answer_is_not_stored() {
    const MARK: &str = "q7x-secret-of-the-refused";
    let model = ModelServer::start().await;
    let world = model.create_world("[orders]\ngenerations_max = 1");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let refusals = [
        (
            format!("{MARK}: I would rather not."),
            "degenerate_manifold",
            "malformed_json, degenerate_manifold",
        ),
        (
            json!({"verdict": "GREEN", "summary": " ", "note": MARK}).to_string(),
            "low_coherence",
            "short_summary",
        ),
        (json!({"verdict": "green", "summary": MARK}).to_string(), "field_missing", "verdict_invalid"),
    ];
    for (n, (text, reason, flags)) in refusals.into_iter().enumerate() {
        model.next([ScriptedReply::with_text(&text), ScriptedReply::with_text(&text)]);
        let (ordered, lost) = (format!("ordered_{n}"), format!("lost_{n}"));
        let refused = problem(&request_verdict(routes, &ordered).await, 422, "order_failed");
        let detail = refused["detail"].as_str().expect("the problem has a detail");
        assert!(detail.contains(&format!(": {reason}, ")), "{detail}");
        assert!(detail.contains(&format!(": {flags}")), "{detail}");
        problem(&read_verdict(routes, &ordered).await, 422, "order_failed");

        register_session(routes, &lost, None).await;
        let refused = problem(&read_verdict(routes, &lost).await, 422, "crosscheck_rejected");
        assert_eq!(refused["decision"]["approved"], false);
        assert_eq!(refused["decision"]["crosscheck_reason"], reason);
        let call = ["oracle_interaction", "tmm_crosscheck"];
        for (session, before, after) in [
            (&ordered, ["order_placed", "order_attempted"], &["order_attempt_failed", "order_stopped"][..]),
            (&lost, ["session_registered", "regen_attempted"], &[]),
        ] {
            problem(&read_cached(routes, session).await, 404, "verdict_not_cached");
            assert_eq!(event_names(control, session).await, [&before[..], &call, after].concat());
            let judged = log(control, &format!("session={session}&event=tmm_crosscheck")).await;
            assert_eq!(judged[0]["verdict_sha256"], json!(Sha256Hex::of(text.as_bytes())), "only its hash");
        }
    }
    let metrics = String::from_utf8(get(routes, "/metrics").await.body.to_vec()).unwrap();
    assert!(daemon.stop().success());
    let kept = world.written() + &metrics;
    assert!(kept.contains("session_registered"), "the files contain the log");
    assert!(!kept.contains(MARK), "the text of a refused verdict is not stored");
}

#[tokio::test]
async fn code_fence_around_a_model_answer_is_removed() {
    let model = ModelServer::start().await;
    let world = model.create_world("[orders]\ngenerations_max = 1");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for (n, fenced) in [format!("```json\n{GOOD}\n```"), format!("```\n{GOOD}\n```\n"), format!("  {GOOD}\n")]
        .iter()
        .enumerate()
    {
        model.next([ScriptedReply::with_text(fenced), ScriptedReply::with_text(fenced)]);
        let session = format!("cs_{n}");
        let created = request_verdict(routes, &session).await;
        assert_eq!(
            (created.status.as_u16(), at(&created, "/verdict/verdict")),
            (201, json!("GREEN")),
            "{fenced}"
        );
        purge_verdict(control, &session).await;
        assert_eq!(read_verdict(routes, &session).await.status, 200, "{fenced}");
    }
    for (session, other) in [
        ("twice", format!("```json\n```json\n{GOOD}\n```\n```")),
        ("preceded", format!("Here you are:\n{GOOD}")),
    ] {
        model.next([ScriptedReply::with_text(&other)]);
        let failed = problem(&request_verdict(routes, session).await, 422, "order_failed");
        assert!(
            failed["detail"].as_str().is_some_and(|detail| detail.contains("malformed_json")),
            "{failed}"
        );
    }
}

#[tokio::test]
async fn openai_protocol_works_end_to_end() {
    let model = ModelServer::start().await;
    let lines = "provider = \"openai\"\nname = \"local\"\noriginal_temperature = 0.6";
    for (key, top_k) in [(Some("sk-not-a-real-key"), true), (None, false)] {
        let lines = if top_k { format!("{lines}\noriginal_top_k = 20") } else { lines.to_owned() };
        let mut world = world_with_model(&model.openai_url(), &format!("{lines}\ntakes_top_k = {top_k}"));
        world.variables = key.map(|key| ("OPENAI_API_KEY".to_owned(), key.to_owned())).into_iter().collect();
        let daemon = world.serve().await;
        let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
        let call_count = model.request_count();
        assert_eq!(request_verdict(routes, "cs_1").await.status, 201);
        purge_verdict(control, "cs_1").await;
        assert_eq!(x_cache(&read_verdict(routes, "cs_1").await), Some("MISS"));

        let prompt = built_in_prompt(ProductTier::Quick, QUERY);
        let body = |temperature: f64, k: u32| {
            let mut body = json!({
                "model": "local", "messages": [{"role": "user", "content": prompt.text()}],
                "temperature": temperature, "top_p": 1.0, "n": 1, "seed": 0,
                "response_format": {"type": "json_object"},
            });
            if top_k {
                body["top_k"] = json!(k);
            }
            body
        };
        let seen = model.requests().split_off(call_count);
        let bodies: Vec<_> = seen.iter().map(|seen| seen.body.clone()).collect();
        assert_eq!(bodies, [body(0.6, 20), body(0.0, 1)]);
        for seen in seen {
            assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/chat/completions"));
            assert_eq!(seen.header("authorization"), key.map(|key| format!("Bearer {key}")).as_deref());
        }
        let interactions = log(control, "event=oracle_interaction").await;
        let answer = Sha256Hex::of(openai_answer(GOOD).to_string().as_bytes());
        for interaction in interactions {
            let fields =
                ["oracle_id", "oracle_version", "finish_reason"].map(|name| interaction[name].clone());
            assert_eq!(fields, [json!("openai"), json!("gpt-made-up-001"), json!("stop")]);
            assert_eq!(interaction["response_hash"], json!(answer));
        }
        assert_eq!(at(&get(control, "/v1/status").await, "/model"), "openai, local");
    }
}

#[tokio::test]
async fn read_under_the_cache_path_never_calls_the_model() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    register_session(routes, "cs_1", None).await;
    request_verdict(routes, "cs_2").await;
    purge_verdict(control, "cs_2").await;
    for session in ["cs_1", "cs_2", "unknown"] {
        for _ in 0..5 {
            let missing = read_cached(routes, session).await;
            problem(&missing, 404, "verdict_not_cached");
            assert_eq!(x_cache(&missing), None);
        }
    }
    assert_eq!(model.request_count(), 1);
    assert!(!event_names(control, "cs_1").await.contains(&"regen_attempted".to_owned()));
}

#[tokio::test]
async fn unknown_session_error_names_the_registration_route() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let unknown = problem(&read_verdict(routes, "cs_1").await, 404, "session_unknown");
    let detail = unknown["detail"].as_str().unwrap();
    insta::assert_snapshot!(detail);
    // the remedy in the error works
    register_session(routes, "cs_1", None).await;
    assert_eq!(x_cache(&read_verdict(routes, "cs_1").await), Some("MISS"));
    assert_eq!(model.request_count(), 1);
}

#[tokio::test]
async fn daemon_without_a_model_accepts_verdicts_and_regenerates_none() {
    let without_a_key = DaemonWorld::default();
    let none = DaemonWorld::with_config("[model]\nprovider = \"none\"");
    for (world, why, message) in
        [(without_a_key, "model.api_key_file", "it has no key"), (none, "model.provider", "none")]
    {
        let daemon = world.serve().await;
        let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
        let refused = request_verdict(routes, "cs_1").await;
        let detail = problem(&refused, 503, "model_unavailable");
        assert!(detail["detail"].as_str().is_some_and(|detail| detail.contains(why)), "{detail}");
        assert!(!refused.headers.contains_key("retry-after"), "a retry would not help");
        assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
        assert_eq!(x_cache(&read_verdict(routes, "cs_1").await), Some("HIT"));
        purge_verdict(control, "cs_1").await;
        problem(&read_verdict(routes, "cs_1").await, 404, "verdict_not_cached");
        problem(&read_verdict(routes, "unknown").await, 404, "session_unknown");
        assert_eq!(document(&get(routes, "/v1/health/oracles").await), json!([]));
        let status = document(&get(control, "/v1/status").await);
        assert!(status["model"].as_str().is_some_and(|model| model.contains(message)), "{status}");
        assert_eq!(
            get(routes, "/readyz").await.status,
            200,
            "a missing model does not make the daemon unready"
        );
    }
}

#[tokio::test]
async fn draining_daemon_generates_nothing_and_serves_cached_verdicts() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    request_verdict(routes, "there").await;
    register_session(routes, "lost", None).await;
    assert!(world.ctl(&["drain"]).status.success());
    for refused in [
        request_verdict(routes, "cs_1").await,
        read_verdict(routes, "lost").await,
        oracled_tests::generation::put_session(routes, "cs_2", &generation_request(ProductTier::Quick)).await,
    ] {
        problem(&refused, 503, "draining");
        assert!(refused.headers.contains_key("retry-after"));
    }
    assert_eq!(x_cache(&read_verdict(routes, "there").await), Some("HIT"));
    assert_eq!(model.request_count(), 1);
    assert!(world.ctl(&["drain", "--off"]).status.success());
    assert_eq!(x_cache(&read_verdict(routes, "lost").await), Some("MISS"));
    assert_eq!(request_verdict(routes, "cs_1").await.status, 201);
    assert_eq!(model.requests()[0].header("x-goog-api-key"), Some(KEY));
}
