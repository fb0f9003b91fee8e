//! Sources on the routes' socket: records, their provenance, the feed of changes, and signals.

use bytes::Bytes;
use hyper::Method;
use oracled_api::client::DaemonClient;
use oracled_tests::wire::{WireConnection, head};
use oracled_tests::{DaemonWorld, at, document, eventually, get, log, post, problem};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

const HEADER: &str = "Country Name,Country Code,Year,Value\n";
const SOURCE: &str = "world-bank-population";

fn example(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/ground-truth").join(name);
    serde_json::from_slice(&fs::read(path).expect("the file exists")).expect("valid JSON")
}

/// Registers and approves a source with two releases.
async fn two_releases(control: &mut DaemonClient) {
    pending_releases(control).await;
    let approved = post(control, &format!("/v1/sources/{SOURCE}/review"), &json!({"approve": {}})).await;
    assert_eq!(approved.status, 200, "{}", document(&approved));
}

/// Registers a source with two releases and does not approve it. Returns the ids of the runs.
async fn pending_releases(control: &mut DaemonClient) -> Vec<String> {
    for (path, body) in [
        ("/v1/documents/ontology/population@1".to_owned(), example("ontologies/population.json")),
        (format!("/v1/documents/source/{SOURCE}"), example(&format!("sources/{SOURCE}.json"))),
        (format!("/v1/documents/pipeline/{SOURCE}"), oracled_tests::ground::open_pipeline(SOURCE)),
    ] {
        let body = Bytes::from(body.to_string());
        let answer = control.call(Method::PUT, &path, Some(body)).await.expect("the server answers");
        assert_eq!(answer.status, 200, "{}", document(&answer));
    }
    let mut run_ids = Vec::new();
    for (version, rows) in [
        ("2020-04-14", "Aruba,ABW,1960,54208\nSerbia,SRB,1990,7586000\n"),
        ("2023-05-04", "Aruba,ABW,1960,54608\nAruba,ABW,1961,55434\n"),
    ] {
        let path = format!("/v1/pipelines/{SOURCE}/runs?version={version}&released_at={version}");
        let payload = Bytes::from([HEADER, rows].concat());
        let answer = control.call(Method::POST, &path, Some(payload)).await.expect("the server answers");
        let run_id = at(&answer, "/run/run_id").as_str().expect("the run starts").to_owned();
        eventually("the run ends", async || {
            at(&get(control, &format!("/v1/runs/{run_id}")).await, "/run/state") == "completed"
        })
        .await;
        run_ids.push(run_id);
    }
    run_ids
}

#[tokio::test]
async fn pending_source_is_refused_on_every_read_path() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let run_ids = pending_releases(control).await;
    let record = format!("/v1/records/{}-0", &run_ids[0][..16]);
    let routes = &mut daemon.routes().await;
    for path in [record.clone(), format!("{record}/provenance"), format!("/v1/changes?oracle_id={SOURCE}")] {
        problem(&get(routes, &path).await, 409, "source_silent");
    }
    let query = json!({"oracle_id": SOURCE, "request": {"axes_requested": ["area_name", "population"]}});
    problem(&post(routes, "/v1/query", &query).await, 409, "source_silent");
    let check = json!({"candidate_output": "Aruba has 54,208 people.", "facts_from": [{"query": query}]});
    problem(&post(routes, "/v1/rules/evaluate", &check).await, 409, "source_silent");
    let page = document(&get(routes, "/v1/changes").await);
    assert_eq!((&page["changes"], &page["withheld"]), (&json!([]), &json!([SOURCE])));
    assert_eq!(get(control, &format!("{record}/provenance")).await.status, 200);
}

async fn query(routes: &mut DaemonClient, request: Value) -> Value {
    let answer = post(routes, "/v1/query", &json!({"oracle_id": SOURCE, "request": request})).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    document(&answer)
}

#[tokio::test]
async fn answer_traces_to_the_bytes_of_its_source() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    two_releases(&mut daemon.control().await).await;
    let routes = &mut daemon.routes().await;
    let answer = query(
        routes,
        json!({
            "axes_requested": ["population"],
            "filters": [{"axis": "area", "operator": "eq", "value": "SRB"}],
            "point_in_time": "2021-01-01T00:00:00Z",
            "include_provenance": true,
            "explain": true,
        }),
    )
    .await;
    let record = answer.pointer("/response/records/0").expect("at least one").clone();
    assert_eq!(record["axes"], json!({"area": "SRB", "population": "7586000", "year": "1990"}));
    assert_eq!(
        (&record["units"]["population"], &record["definitions"]["population"]),
        (&json!("{person}"), &json!("without Kosovo"))
    );
    assert_eq!(record["valid_until"], Value::Null, "the later release has no effect");
    assert_eq!(answer.pointer("/response/explain/access"), Some(&json!("identity_prefix")));
    let chain = answer.pointer("/response/provenance/0").expect("the answer has provenance");
    let id = record["record_id"].as_str().expect("an id");
    let mut traced = document(&get(routes, &format!("/v1/records/{id}/provenance")).await);
    let ended = ["valid_until", "superseded_by"].map(|name| traced[name].take());
    assert_eq!(&traced, chain, "the provenance differs only in the later end of validity");
    assert_eq!(ended[0], "2023-05-04T00:00:00Z");
    let now = document(&get(routes, &format!("/v1/records/{id}")).await);
    assert_eq!((&now["standing"], &now["source_version"]), (&json!("withdrawn"), &json!("2020-04-14")));
    let verified =
        post(&mut daemon.control().await, &format!("/v1/sources/{SOURCE}/verify"), &json!({})).await;
    let runs = at(&verified, "/runs");
    assert!(at(&verified, "/file_fault").is_null(), "{runs}");
    let faults: Vec<_> =
        runs.as_array().expect("an array").iter().map(|run| (&run["records"], &run["fault_count"])).collect();
    assert_eq!(faults, [(&json!(2), &json!(0)), (&json!(2), &json!(0))]);
    problem(&get(routes, "/v1/records/0123456789abcdef-0").await, 404, "record_unknown");
}

#[tokio::test]
async fn invalid_query_is_an_error_and_not_an_empty_answer() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    two_releases(&mut daemon.control().await).await;
    let routes = &mut daemon.routes().await;
    let filter = |axis: &str, operator: &str, value: Value| json!({"axes_requested": ["population"], "filters": [{"axis": axis, "operator": operator, "value": value}]});
    for request in [
        json!({"axes_requested": []}),
        json!({"axes_requested": ["height"]}),
        json!({"axes_requested": ["population"], "max_results": 0}),
        json!({"axes_requested": ["population"], "max_results": 10_001}),
        json!({"axes_requested": ["population"], "cursor": "00"}),
        filter("height", "eq", json!(1)),
        filter("population", "gt", json!("many")),
        filter("area", "gt", json!("A")),
        filter("population", "contains", json!("1")),
        filter("area", "regex", json!("(")),
        filter("area", "regex", json!("(a{1000}){1000}")),
        filter("area", "in", json!("ABW")),
    ] {
        let answer = post(routes, "/v1/query", &json!({"oracle_id": SOURCE, "request": request})).await;
        problem(&answer, 400, "invalid_query");
    }
    let ahead = json!({"axes_requested": ["population"], "known_at": "2999-01-01"});
    let ahead = post(routes, "/v1/query", &json!({"oracle_id": SOURCE, "request": ahead})).await;
    problem(&ahead, 400, "time_in_future");
    let unknown = json!({"oracle_id": "no-such", "request": {"axes_requested": ["population"]}});
    problem(&post(routes, "/v1/query", &unknown).await, 404, "source_unknown");
    let misspelled = json!({"oracle_id": SOURCE, "request": {"axes": ["population"]}});
    problem(&post(routes, "/v1/query", &misspelled).await, 400, "invalid_request");
}

#[tokio::test]
async fn query_times_accept_days_and_moments_and_reject_other_values() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    two_releases(&mut daemon.control().await).await;
    let routes = &mut daemon.routes().await;
    let request = |field: &str, when: Value| json!({"axes_requested": ["population"], field: when});
    let by_moment = query(routes, request("point_in_time", json!("2021-01-01T00:00:00Z"))).await;
    let by_day = query(routes, request("point_in_time", json!("2021-01-01"))).await;
    assert_eq!(by_day["response"]["records"], by_moment["response"]["records"]);
    assert_eq!(by_day["response"]["records"][0]["axes"]["population"], "54208");
    let unknown_yet = query(routes, request("known_at", json!("2021-01-01"))).await;
    assert_eq!(unknown_yet["response"]["records"], json!([]));
    for (field, when) in [
        ("point_in_time", json!("2021-02-30")),
        ("point_in_time", json!(2021)),
        ("known_at", json!("yesterday")),
        ("known_at", json!("2021-01-01T00:00:00")),
    ] {
        let question = json!({"oracle_id": SOURCE, "request": request(field, when)});
        let problem = problem(&post(routes, "/v1/query", &question).await, 400, "invalid_request");
        let detail = problem["detail"].as_str().expect("the problem has a detail");
        assert!(detail.starts_with(&format!("request.{field}: ")), "{detail}");
        let forms = "a day such as 2026-11-20, or a time such as 2026-11-20T10:00:00Z";
        assert!(detail.contains(forms), "{detail}");
    }
}

#[tokio::test]
async fn change_feed_lists_versions_and_signals_invalidate_a_source() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    two_releases(control).await;
    let routes = &mut daemon.routes().await;
    let page = document(&get(routes, "/v1/changes?limit=3").await);
    assert_eq!((page["changes"].as_array().map(Vec::len), &page["more"]), (Some(3), &json!(true)), "{page}");
    let next = page["next"].as_str().expect("the page has a next page");
    let rest = document(&get(routes, &format!("/v1/changes?since={next}")).await);
    let kinds: Vec<_> =
        rest["changes"].as_array().expect("an array").iter().map(|change| &change["kind"]).collect();
    assert_eq!(
        (kinds, &rest["more"]),
        (["became_valid", "became_valid", "withdrawn"].map(Value::from).iter().collect(), &json!(false)),
        "{rest}"
    );
    for since in ["yesterday", "1000000", "1000000-1"] {
        let path = format!("/v1/changes?since={since}");
        let refused = problem(&get(routes, &path).await, 400, "invalid_request");
        assert!(refused["detail"].as_str().expect("text").contains(&format!("`{since}`")), "{refused}");
    }
    problem(&get(routes, "/v1/changes?limit=0").await, 400, "invalid_request");
    problem(&get(routes, "/v1/changes?oracle_id=no-such").await, 404, "source_unknown");
    let of_source = document(&get(routes, &format!("/v1/changes?oracle_id={SOURCE}")).await);
    assert_eq!(of_source["changes"].as_array().map(Vec::len), Some(6), "{of_source}");

    problem(&post(routes, "/v1/signals/bank/population", &json!({})).await, 404, "signal_unknown");
    problem(&post(routes, "/api/bank/invalidate", &json!({})).await, 404, "not_found");
    let policy = json!({
        "oracle_id": SOURCE,
        "axis_freshness": {},
        "default_max_age_seconds": 1_000_000_000,
        "default_stale_behavior": "fail_closed",
        "invalidation_triggers": [
            {"trigger_type": "upstream_signal", "config": {"webhook": "/v1/signals/bank/population"}},
            {"trigger_type": "upstream_signal", "config": {"webhook": "/api/bank/invalidate"}},
        ],
    });
    let path = format!("/v1/documents/freshness_policy/{SOURCE}");
    let set = control
        .call(Method::PUT, &path, Some(Bytes::from(policy.to_string())))
        .await
        .expect("the server answers");
    assert_eq!(set.status, 200, "{}", document(&set));
    let request = json!({"oracle_id": SOURCE, "request": {"axes_requested": ["population"]}});
    assert_eq!(post(routes, "/v1/query", &request).await.status, 200);
    let response = post(routes, "/v1/signals/bank/population", &json!({})).await;
    assert_eq!(document(&response), json!({"invalidated": [SOURCE]}));
    problem(&post(routes, "/v1/query", &request).await, 503, "source_stale");
    let entries = log(control, "event=source_invalidated").await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    let response = post(routes, "/v1/signals/bank%2Fpopulation", &json!({})).await;
    assert_eq!(
        document(&response),
        json!({"invalidated": [SOURCE]}),
        "an escaped path names the same signal"
    );
    problem(&get(routes, "/api/bank/invalidate").await, 405, "method_not_allowed");
    let response = post(routes, "/api/bank/invalidate", &json!({})).await;
    assert_eq!(document(&response), json!({"invalidated": [SOURCE]}));
    assert_eq!(log(control, "event=source_invalidated").await.len(), 3);
}

#[tokio::test]
async fn unsigned_signal_is_refused_and_signals_are_rate_limited() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    two_releases(control).await;
    let file = world.path("secret");
    fs::write(&file, "s3cret\n").expect("the write succeeds");
    let webhook = "/v1/signals/bank";
    let policy = |secret_file: &str| {
        json!({
            "oracle_id": SOURCE, "axis_freshness": {}, "default_max_age_seconds": 1_000_000_000,
            "default_stale_behavior": "fail_closed",
            "invalidation_triggers": [
                {"trigger_type": "upstream_signal", "config": {"webhook": webhook, "secret_file": secret_file}},
            ],
        })
    };
    let path = format!("/v1/documents/freshness_policy/{SOURCE}");
    let mut set = async |secret_file: &str| {
        let body = Bytes::from(policy(secret_file).to_string());
        control.call(Method::PUT, &path, Some(body)).await.expect("the server answers")
    };
    problem(&set("secret").await, 400, "invalid_document");
    assert_eq!(set(file.to_str().expect("valid UTF-8")).await.status, 200);
    problem(&post(routes, webhook, &json!({})).await, 403, "signal_forbidden");

    let send = async |signature: &str| {
        let mut wire = WireConnection::connect(&world.socket()).await;
        let headers = [("content-length", "2"), ("x-hub-signature-256", signature)];
        wire.send(head("POST", webhook, &headers)).await.expect("the server listens");
        wire.send("{}").await.expect("the server listens");
        wire.answer().await.expect("the server answers").status.as_u16()
    };
    let signed = |key: &[u8]| format!("sha256={}", domain_base::digest::Sha256Hex::compute_hmac(key, b"{}"));
    assert_eq!(send(&signed(b"other")).await, 403);
    assert_eq!(log(&mut daemon.control().await, "event=source_invalidated").await, Vec::<Value>::new());
    for _ in 0..10 {
        assert_eq!(send(&signed(b"s3cret")).await, 200);
    }
    assert_eq!(send(&signed(b"s3cret")).await, 429);
    fs::remove_file(&file).expect("the file exists");
    assert_eq!(send(&signed(b"s3cret")).await, 500, "without the secret no signal is accepted");
}

#[tokio::test]
async fn export_has_every_version_and_pruning_keeps_provenance() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    two_releases(control).await;
    let path = format!("/v1/sources/{SOURCE}/export");
    let exported = get(control, &path).await;
    let lines: Vec<Value> = exported
        .body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("a line is JSON"))
        .collect();
    let ids: Vec<_> =
        lines.iter().map(|line| line["provenance"]["source_record_id"].as_str().expect("a string")).collect();
    // a version that the second release ended is known without an end until then, and with it from then on
    assert_eq!(ids, ["ABW/1960", "ABW/1960", "ABW/1960", "ABW/1961", "SRB/1990", "SRB/1990"]);
    // the pipeline keeps ended versions for ten years
    let prune = format!("/v1/sources/{SOURCE}/prune");
    problem(&post(control, &prune, &json!({"before": "2025-01-01"})).await, 400, "invalid_request");
    let mut shorter = oracled_tests::ground::open_pipeline(SOURCE);
    shorter["pipeline"]["storage"]["retention_days"] = json!(30);
    let body = Bytes::from(shorter.to_string());
    let put = control
        .call(Method::PUT, &format!("/v1/documents/pipeline/{SOURCE}"), Some(body))
        .await
        .expect("the server answers");
    assert_eq!(put.status, 200, "{}", document(&put));
    let pruned = document(&post(control, &prune, &json!({"before": "2025-01-01"})).await);
    assert_eq!(pruned["versions"], 2, "{pruned}");
    let after = get(control, &path).await;
    let lines: Vec<Value> = after
        .body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("a line is JSON"))
        .collect();
    let pruned_lines: Vec<_> = lines.iter().map(|line| line["record"].is_null()).collect();
    assert_eq!(pruned_lines, [true, true, false, false, true, true]);
    let pruned: Vec<_> = lines.iter().map(|line| line["provenance"]["pruned"] == true).collect();
    assert_eq!(pruned, pruned_lines, "provenance reports it");
    let routes = &mut daemon.routes().await;
    let then =
        query(routes, json!({"axes_requested": ["population"], "point_in_time": "2021-01-01T00:00:00Z"}))
            .await;
    let warnings = then.pointer("/response/warnings").expect("the response has warnings").to_string();
    assert!(warnings.contains("2 versions"), "{then}");
    for (line, was_pruned) in lines.iter().zip(pruned_lines) {
        let record_id = line["provenance"]["record_id"].as_str().expect("a string");
        let record = document(&get(routes, &format!("/v1/records/{record_id}")).await);
        assert_eq!(
            (record["pruned"] == true, record["axes"] == json!({})),
            (was_pruned, was_pruned),
            "{record}"
        );
        let shown = world.ctl(&["provenance", record_id]);
        let shown = String::from_utf8_lossy(&shown.stdout);
        assert_eq!(shown.contains("pruned"), was_pruned, "{shown}");
    }
}

#[tokio::test]
async fn signal_reaches_all_sources_if_one_is_damaged() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    two_releases(control).await;
    oracled_tests::ground::register(control, "iso-4217").await;
    let policy = |source: &str| {
        json!({
            "oracle_id": source,
            "axis_freshness": {},
            "default_max_age_seconds": 1_000_000_000,
            "default_stale_behavior": "fail_closed",
            "invalidation_triggers": [{"trigger_type": "upstream_signal", "config": {"webhook": "/v1/signals/all"}}],
        })
    };
    for source in [SOURCE, "iso-4217"] {
        let path = format!("/v1/documents/freshness_policy/{source}");
        let set = oracled_tests::ground::put_document(control, &path, &policy(source)).await;
        assert_eq!(set.status, 200, "{}", document(&set));
    }
    assert!(daemon.stop().success());
    for fact in fs::read_dir(world.state().join("ground/facts")).expect("at least one") {
        fs::write(fact.expect("the read succeeds").path(), "damaged").expect("the write succeeds");
    }
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let request = json!({"oracle_id": SOURCE, "request": {"axes_requested": ["population"]}});
    assert_eq!(post(routes, "/v1/query", &request).await.status, 500);
    let response = post(routes, "/v1/signals/all", &json!({})).await;
    assert_eq!(document(&response), json!({"invalidated": ["iso-4217", SOURCE]}));
}

#[tokio::test]
async fn unused_request_body_does_not_prevent_the_answer() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let body = vec![b' '; 8 << 20];
    let length = body.len().to_string();
    for (socket, path, status) in [
        (world.socket(), "/v1/signals/bank", 404),
        (world.socket(), "/no/such", 404),
        (world.socket(), "/v1/sources", 405),
        (world.control_socket(), "/v1/runs/0123456789abcdef/cancel", 404),
        (world.control_socket(), "/v1/pipelines/no-such/pull", 404),
        (world.control_socket(), "/v1/reload", 200),
        (world.control_socket(), "/no-such", 404),
        (world.control_socket(), "/v1/status", 405),
    ] {
        let mut wire = WireConnection::connect(&socket).await;
        for _ in 0..2 {
            wire.send(head("POST", path, &[("content-length", &length)])).await.expect("the server listens");
            wire.send(&body).await.unwrap_or_else(|error| panic!("{path}: {error}"));
            let answer = wire.answer().await.expect("the server answers");
            assert_eq!(answer.status, status, "{path}: {}", document(&answer));
        }
    }
    assert!(daemon.stop().success());
}
