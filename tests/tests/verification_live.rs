//! Live sources end to end: which answers over real connections are accepted, and that no other value reaches an
//! authoritative envelope (RFC-0002, Part II, "Failure Modes", "Oracle Integrity Requirements").

use jiff::Timestamp;
use oracled_tests::live::{
    HONEST, LOCAL, POISON, ScriptedSource, authoritative_value, check_refusal, check_source_call,
    complete_answer, empty, population_answer, population_body, read_service_log, register_census, source,
    verify_census,
};
use oracled_tests::signing::{by_header, issued_at, key, seconds_ago, signed, signed_by, token};
use oracled_tests::{DaemonWorld, eventually, get, log};
use ring::signature::Ed25519KeyPair;
use serde_json::json;

#[tokio::test]
async fn good_answer_counts_with_its_version_and_is_cached() {
    let office = ScriptedSource::start().await;
    let world = DaemonWorld::with_config(LOCAL);
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({"version": {"path": "version"}})).await;
    register_census(&daemon, &["office"], json!({})).await;
    office.set_answers(|head| {
        if head.to_lowercase().contains("if-none-match: \"7\"") {
            return empty("304 Not Modified", "etag: \"7\"\r\n");
        }
        complete_answer("etag: \"7\"\r\n", &population_body("ABW", HONEST, json!({"version": "v7"})))
    });
    for _ in 0..2 {
        let envelope = verify_census(&daemon).await;
        assert_eq!(authoritative_value(&envelope), HONEST);
        let entry = check_source_call(&daemon, &world, &envelope, "office").await;
        assert_eq!((&entry["status"], &entry["oracle_version"]), (&json!("success"), &json!("v7")));
        assert!(entry["response_hash"].is_string(), "{entry}");
    }
    let heads = office.heads();
    assert!(heads[0].starts_with("GET /ABW/1960 "), "{heads:?}");
    assert!(!heads[0].contains("if-none-match") && heads[1].contains("if-none-match: \"7\""), "{heads:?}");
}

#[tokio::test]
async fn signed_answers_count_by_their_sources_keys_after_a_key_change() {
    let office = ScriptedSource::start().await;
    let world = DaemonWorld::with_config(LOCAL);
    let daemon = world.serve().await;
    let ((old, old_key), (new, new_key)) = (key(7, "2025"), key(8, "2026"));
    source(&daemon, "office", "primary", &office.endpoint(), by_header(&[&old_key, &new_key])).await;
    register_census(&daemon, &["office"], json!({})).await;
    for (pair, kid, seconds) in [(&old, "2025", 9), (&new, "2026", 6)] {
        office.set_answer(signed(pair, kid, HONEST, seconds_ago(seconds)));
        let envelope = verify_census(&daemon).await;
        assert_eq!(authoritative_value(&envelope), HONEST);
        let signature = &envelope["axes"]["population"]["evidence"][0]["record"]["signature_info"];
        assert_eq!((&signature["signed_by"], &signature["signature_valid"]), (&json!(kid), &json!(true)));
    }
    let jws = signed_by(json!({"method": "jws", "keys": [new_key]}));
    source(&daemon, "other", "primary", &office.endpoint(), jws).await;
    register_census(&daemon, &["other"], json!({})).await;
    let token = |pair: &Ed25519KeyPair, number: &str, issued: Timestamp| {
        let header = json!({"alg": "EdDSA", "kid": "2026"});
        let sign = |input: &[u8]| pair.sign(input).as_ref().to_vec();
        complete_answer("", &token(&header, &issued_at(number, issued), sign))
    };
    office.set_answer(token(&new, HONEST, seconds_ago(5)));
    assert_eq!(authoritative_value(&verify_census(&daemon).await), HONEST);
    office.set_answer(token(&old, POISON, seconds_ago(1)));
    let envelope = verify_census(&daemon).await;
    assert_eq!(envelope["kind"], "blocked", "a removed key is not accepted: {envelope}");
}

#[tokio::test]
async fn wrong_redirected_or_unreadable_answer_is_refused_and_logged() {
    let (office, elsewhere) = (ScriptedSource::start().await, ScriptedSource::start().await);
    elsewhere.set_answer(population_answer(POISON));
    let world = DaemonWorld::with_config(LOCAL);
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({})).await;
    register_census(&daemon, &["office"], json!({})).await;
    let away = empty("302 Found", &format!("location: http://127.0.0.1:{}/ABW/1960\r\n", elsewhere.port));
    let oversized =
        complete_answer("", &population_body("ABW", POISON, json!({"more": "x".repeat(300 << 10)})));
    for (answer, why) in [
        (complete_answer("", &population_body("AFG", POISON, json!({}))), "identity"),
        (away, "identity"),
        (oversized, "schema"),
        (complete_answer("", "nothing that can be read"), "schema"),
    ] {
        office.set_answer(population_answer(HONEST));
        assert_eq!(authoritative_value(&verify_census(&daemon).await), HONEST);
        office.set_answer(answer);
        check_refusal(&daemon, &world, why).await;
    }
    assert!(elsewhere.heads().is_empty(), "no other server is called");
}

#[tokio::test]
async fn forged_or_replayed_answer_is_refused() {
    let office = ScriptedSource::start().await;
    let world = DaemonWorld::with_config(LOCAL);
    let daemon = world.serve().await;
    let ((pair, public), (forger, _)) = (key(7, "k"), key(8, "k"));
    source(&daemon, "office", "primary", &office.endpoint(), by_header(&[&public])).await;
    let settings = json!({"deviation_limits": {"population": {"max_change_ratio": "0.5"}}});
    register_census(&daemon, &["office"], settings).await;
    let first = signed(&pair, "k", HONEST, seconds_ago(60));
    office.set_answer(first.clone());
    assert_eq!(authoritative_value(&verify_census(&daemon).await), HONEST);
    office.set_answer(signed(&forger, "k", POISON, seconds_ago(50)));
    check_refusal(&daemon, &world, "signature").await;
    // a value that deviates too far becomes no baseline, but counts as the source's last answer
    office.set_answer(signed(&pair, "k", POISON, seconds_ago(40)));
    assert_eq!(verify_census(&daemon).await["kind"], "human_review");
    office.set_answer(first);
    check_refusal(&daemon, &world, "replay").await;
    office.set_answer(signed(&pair, "k", HONEST, seconds_ago(50)));
    check_refusal(&daemon, &world, "replay").await;
    office.set_answer(signed(&pair, "k", HONEST, seconds_ago(30)));
    assert_eq!(
        authoritative_value(&verify_census(&daemon).await),
        HONEST,
        "a newer answer is compared with the last honest one"
    );
}

#[tokio::test]
async fn answer_with_the_nonce_of_another_request_is_refused() {
    let office = ScriptedSource::start().await;
    let world = DaemonWorld::with_config(LOCAL);
    let daemon = world.serve().await;
    let endpoint = office.endpoint() + "?nonce={nonce}";
    source(&daemon, "office", "primary", &endpoint, json!({"nonce": {"path": "nonce"}})).await;
    register_census(&daemon, &["office"], json!({})).await;
    let answer = |head: &str, number: &str| {
        let nonce = head.split("nonce=").nth(1).and_then(|rest| rest.split(' ').next());
        complete_answer("", &population_body("ABW", number, json!({"nonce": nonce})))
    };
    office.set_answers(move |head| answer(head, HONEST));
    assert_eq!(authoritative_value(&verify_census(&daemon).await), HONEST);
    let old = office.heads()[0].clone();
    office.set_answers(move |_| answer(&old, POISON));
    check_refusal(&daemon, &world, "replay").await;
}

#[tokio::test]
async fn untrusted_source_has_no_effect_and_registered_deviation_is_reviewed() {
    let (office, scraper) = (ScriptedSource::start().await, ScriptedSource::start().await);
    let world = DaemonWorld::with_config(LOCAL);
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({})).await;
    source(&daemon, "scraper", "unverified", &scraper.endpoint(), json!({})).await;
    let settings = json!({"deviation_limits": {"population": {"max_change_ratio": "0.5"}}});
    register_census(&daemon, &["scraper", "office"], settings).await;
    office.set_answer(population_answer(HONEST));
    scraper.set_answer(population_answer(POISON));
    assert_eq!(authoritative_value(&verify_census(&daemon).await), HONEST);
    office.set_answer(population_answer(POISON));
    let envelope = verify_census(&daemon).await;
    assert_eq!((&envelope["kind"], &envelope["reasons"]), (&json!("human_review"), &json!(["deviation"])));
    let jump = format!("it was {HONEST} and is {POISON}; the difference exceeds 0.5 of it");
    assert_eq!(envelope["candidates"][1]["deviations"], json!({"population": jump}));
    assert!(envelope["axes"]["population"].get("value").is_none(), "{envelope}");
}

#[tokio::test]
async fn cached_answer_of_a_dead_source_is_used_in_tolerance_after_restart() {
    let office = ScriptedSource::start().await;
    let world = DaemonWorld::with_config(LOCAL);
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({})).await;
    let tolerating = |seconds: u64| {
        json!({"oracle_latency": {"on_timeout": "SERVE_STALE",
        "stale_tolerance_seconds": seconds}})
    };
    register_census(&daemon, &["office"], tolerating(3600)).await;
    office.set_answer(population_answer(HONEST));
    assert_eq!(authoritative_value(&verify_census(&daemon).await), HONEST);
    office.set_answer(empty("503 Service Unavailable", ""));
    let served = verify_census(&daemon).await;
    assert_eq!(authoritative_value(&served), HONEST);
    assert_eq!(check_source_call(&daemon, &world, &served, "office").await["stale_data_used"], true);
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    // the circuit is listed after a restart, before the first call
    eventually("the source's circuit is listed", async || {
        read_service_log(&world).await.contains("source:office")
    })
    .await;
    let metrics = get(&mut daemon.routes().await, "/metrics").await;
    assert!(String::from_utf8_lossy(&metrics.body).contains("source:office"), "{metrics:?}");
    for _ in 0..3 {
        assert_eq!(authoritative_value(&verify_census(&daemon).await), HONEST);
    }
    let health = read_service_log(&world).await;
    assert!(health.contains("circuit"), "{health}");
    register_census(&daemon, &["office"], tolerating(1)).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    assert_eq!(verify_census(&daemon).await["kind"], "blocked");
}

#[tokio::test]
async fn circuit_of_a_dead_source_opens_and_closes_under_its_name() {
    let office = ScriptedSource::start().await;
    let health = "failure_threshold = 2\nrecovery_threshold = 1\ncircuit_breaker_reset_seconds = 1\n";
    let world = DaemonWorld::with_config(&format!("{LOCAL}[health]\n{health}"));
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({})).await;
    register_census(&daemon, &["office"], json!({})).await;
    // longer than the caller waits, so the source is not called again
    office.set_answer(empty("503 Service Unavailable", "retry-after: 60\r\n"));
    for failures in 1..=2 {
        let envelope = verify_census(&daemon).await;
        assert_eq!(envelope["candidates"][0]["outcome"], "failed", "{envelope}");
        assert_eq!(office.heads().len(), failures);
    }
    // one call is permitted after each reset time, and its failure opens the circuit again
    eventually("the circuit is open", async || {
        let before = office.heads().len();
        let envelope = verify_census(&daemon).await;
        assert_eq!(
            (&envelope["kind"], &envelope["reasons"], &envelope["retry"]["oracles"]),
            (&json!("blocked"), &json!(["oracle_unreachable"]), &json!(["office"])),
            "{envelope}"
        );
        let is_open = envelope["candidates"][0]["outcome"] == "circuit_open";
        assert_eq!(office.heads().len() - before, usize::from(!is_open), "{envelope}");
        is_open && office_lines(&read_service_log(&world).await).contains("circuit_open")
    })
    .await;

    office.set_answer(population_answer(HONEST));
    eventually("the source is called again", async || {
        verify_census(&daemon).await["kind"] == "authoritative"
    })
    .await;
    eventually("the circuit is closed", async || {
        office_lines(&read_service_log(&world).await).contains(" healthy ")
    })
    .await;
    assert_eq!(authoritative_value(&verify_census(&daemon).await), HONEST);
    let changes = log(&mut daemon.control().await, "event=oracle_health_changed&limit=1000").await;
    assert!(changes.iter().all(|change| change["oracle_id"] == "source:office"), "{changes:?}");
    let to: Vec<_> = changes.iter().map(|change| change["to"].as_str().expect("a word")).collect();
    assert!(to.starts_with(&["degraded", "circuit_open"]) && to.last() == Some(&"healthy"), "{to:?}");
    // the source is accepted under its own id, and shown under one
    for (id, action) in [("office", "open"), ("source:office", "close")] {
        let output = world.ctl_in_thread(&["--json", "health", action, id]).await;
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let response: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(response["oracle"]["oracle_id"], "source:office", "{action} {id}");
    }
}

/// The lines about the office.
fn office_lines(health: &str) -> String {
    health.lines().filter(|line| line.contains("source:office")).collect()
}
