//! Live sources end to end: which answers over real connections are accepted, and that no other value reaches an
//! authoritative envelope (RFC-0002, Part II, "Failure Modes", "Oracle Integrity Requirements").

use jiff::Timestamp;
use oracled_tests::live::{
    HONEST, LOCAL, Office, POISON, asked, census, empty, people, refused, said_of, source, told, verified,
    watched, whole,
};
use oracled_tests::signing::{by_header, issued_at, key, seconds_ago, signed, signed_by, token};
use oracled_tests::{World, eventually, get, log};
use ring::signature::Ed25519KeyPair;
use serde_json::json;

#[tokio::test]
async fn good_answer_counts_with_its_version_and_is_cached() {
    let office = Office::start().await;
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({"version": {"path": "version"}})).await;
    census(&daemon, &["office"], json!({})).await;
    office.answers(|head| {
        if head.to_lowercase().contains("if-none-match: \"7\"") {
            return empty("304 Not Modified", "etag: \"7\"\r\n");
        }
        whole("etag: \"7\"\r\n", &said_of("ABW", HONEST, json!({"version": "v7"})))
    });
    for _ in 0..2 {
        let envelope = verified(&daemon).await;
        assert_eq!(told(&envelope), HONEST);
        let entry = asked(&daemon, &world, &envelope, "office").await;
        assert_eq!((&entry["status"], &entry["oracle_version"]), (&json!("success"), &json!("v7")));
        assert!(entry["response_hash"].is_string(), "{entry}");
    }
    let heads = office.heads();
    assert!(heads[0].starts_with("GET /ABW/1960 "), "{heads:?}");
    assert!(!heads[0].contains("if-none-match") && heads[1].contains("if-none-match: \"7\""), "{heads:?}");
}

#[tokio::test]
async fn signed_answers_count_by_their_sources_keys_after_a_key_change() {
    let office = Office::start().await;
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    let ((old, old_key), (new, new_key)) = (key(7, "2025"), key(8, "2026"));
    source(&daemon, "office", "primary", &office.endpoint(), by_header(&[&old_key, &new_key])).await;
    census(&daemon, &["office"], json!({})).await;
    for (pair, kid, seconds) in [(&old, "2025", 9), (&new, "2026", 6)] {
        office.says(signed(pair, kid, HONEST, seconds_ago(seconds)));
        let envelope = verified(&daemon).await;
        assert_eq!(told(&envelope), HONEST);
        let signature = &envelope["axes"]["population"]["evidence"][0]["record"]["signature_info"];
        assert_eq!((&signature["signed_by"], &signature["signature_valid"]), (&json!(kid), &json!(true)));
    }
    let jws = signed_by(json!({"method": "jws", "keys": [new_key]}));
    source(&daemon, "other", "primary", &office.endpoint(), jws).await;
    census(&daemon, &["other"], json!({})).await;
    let token = |pair: &Ed25519KeyPair, number: &str, issued: Timestamp| {
        let header = json!({"alg": "EdDSA", "kid": "2026"});
        let sign = |input: &[u8]| pair.sign(input).as_ref().to_vec();
        whole("", &token(&header, &issued_at(number, issued), sign))
    };
    office.says(token(&new, HONEST, seconds_ago(5)));
    assert_eq!(told(&verified(&daemon).await), HONEST);
    office.says(token(&old, POISON, seconds_ago(1)));
    let envelope = verified(&daemon).await;
    assert_eq!(envelope["kind"], "blocked", "a removed key is not accepted: {envelope}");
}

#[tokio::test]
async fn wrong_redirected_or_unreadable_answer_is_refused_and_logged() {
    let (office, elsewhere) = (Office::start().await, Office::start().await);
    elsewhere.says(people(POISON));
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({})).await;
    census(&daemon, &["office"], json!({})).await;
    let away = empty("302 Found", &format!("location: http://127.0.0.1:{}/ABW/1960\r\n", elsewhere.port));
    let oversized = whole("", &said_of("ABW", POISON, json!({"more": "x".repeat(300 << 10)})));
    for (answer, why) in [
        (whole("", &said_of("AFG", POISON, json!({}))), "identity"),
        (away, "identity"),
        (oversized, "schema"),
        (whole("", "nothing that can be read"), "schema"),
    ] {
        office.says(people(HONEST));
        assert_eq!(told(&verified(&daemon).await), HONEST);
        office.says(answer);
        refused(&daemon, &world, why).await;
    }
    assert!(elsewhere.heads().is_empty(), "no other server is called");
}

#[tokio::test]
async fn forged_or_replayed_answer_is_refused() {
    let office = Office::start().await;
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    let ((pair, public), (forger, _)) = (key(7, "k"), key(8, "k"));
    source(&daemon, "office", "primary", &office.endpoint(), by_header(&[&public])).await;
    let settings = json!({"deviation_limits": {"population": {"max_change_ratio": "0.5"}}});
    census(&daemon, &["office"], settings).await;
    let first = signed(&pair, "k", HONEST, seconds_ago(60));
    office.says(first.clone());
    assert_eq!(told(&verified(&daemon).await), HONEST);
    office.says(signed(&forger, "k", POISON, seconds_ago(50)));
    refused(&daemon, &world, "signature").await;
    // a value that deviates too far becomes no baseline, but counts as the source's last answer
    office.says(signed(&pair, "k", POISON, seconds_ago(40)));
    assert_eq!(verified(&daemon).await["kind"], "human_review");
    office.says(first);
    refused(&daemon, &world, "replay").await;
    office.says(signed(&pair, "k", HONEST, seconds_ago(50)));
    refused(&daemon, &world, "replay").await;
    office.says(signed(&pair, "k", HONEST, seconds_ago(30)));
    assert_eq!(told(&verified(&daemon).await), HONEST, "a newer answer is compared with the last honest one");
}

#[tokio::test]
async fn answer_with_the_nonce_of_another_request_is_refused() {
    let office = Office::start().await;
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    let endpoint = office.endpoint() + "?nonce={nonce}";
    source(&daemon, "office", "primary", &endpoint, json!({"nonce": {"path": "nonce"}})).await;
    census(&daemon, &["office"], json!({})).await;
    let answer = |head: &str, number: &str| {
        let nonce = head.split("nonce=").nth(1).and_then(|rest| rest.split(' ').next());
        whole("", &said_of("ABW", number, json!({"nonce": nonce})))
    };
    office.answers(move |head| answer(head, HONEST));
    assert_eq!(told(&verified(&daemon).await), HONEST);
    let old = office.heads()[0].clone();
    office.answers(move |_| answer(&old, POISON));
    refused(&daemon, &world, "replay").await;
}

#[tokio::test]
async fn untrusted_source_has_no_effect_and_registered_deviation_is_reviewed() {
    let (office, scraper) = (Office::start().await, Office::start().await);
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({})).await;
    source(&daemon, "scraper", "unverified", &scraper.endpoint(), json!({})).await;
    let settings = json!({"deviation_limits": {"population": {"max_change_ratio": "0.5"}}});
    census(&daemon, &["scraper", "office"], settings).await;
    office.says(people(HONEST));
    scraper.says(people(POISON));
    assert_eq!(told(&verified(&daemon).await), HONEST);
    office.says(people(POISON));
    let envelope = verified(&daemon).await;
    assert_eq!((&envelope["kind"], &envelope["reasons"]), (&json!("human_review"), &json!(["deviation"])));
    let jump = format!("it was {HONEST} and is {POISON}; the difference exceeds 0.5 of it");
    assert_eq!(envelope["candidates"][1]["deviations"], json!({"population": jump}));
    assert!(envelope["axes"]["population"].get("value").is_none(), "{envelope}");
}

#[tokio::test]
async fn cached_answer_of_a_dead_source_is_used_in_tolerance_after_restart() {
    let office = Office::start().await;
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({})).await;
    let tolerating = |seconds: u64| {
        json!({"oracle_latency": {"on_timeout": "SERVE_STALE",
        "stale_tolerance_seconds": seconds}})
    };
    census(&daemon, &["office"], tolerating(3600)).await;
    office.says(people(HONEST));
    assert_eq!(told(&verified(&daemon).await), HONEST);
    office.says(empty("503 Service Unavailable", ""));
    let served = verified(&daemon).await;
    assert_eq!(told(&served), HONEST);
    assert_eq!(asked(&daemon, &world, &served, "office").await["stale_data_used"], true);
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    // the circuit is listed after a restart, before the first call
    eventually("the source's circuit is listed", async || watched(&world).await.contains("source:office"))
        .await;
    let metrics = get(&mut daemon.routes().await, "/metrics").await;
    assert!(String::from_utf8_lossy(&metrics.body).contains("source:office"), "{metrics:?}");
    for _ in 0..3 {
        assert_eq!(told(&verified(&daemon).await), HONEST);
    }
    let health = watched(&world).await;
    assert!(health.contains("circuit"), "{health}");
    census(&daemon, &["office"], tolerating(1)).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    assert_eq!(verified(&daemon).await["kind"], "blocked");
}

#[tokio::test]
async fn circuit_of_a_dead_source_opens_and_closes_under_its_name() {
    let office = Office::start().await;
    let health = "failure_threshold = 2\nrecovery_threshold = 1\ncircuit_breaker_reset_seconds = 1\n";
    let world = World::with_config(&format!("{LOCAL}[health]\n{health}"));
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({})).await;
    census(&daemon, &["office"], json!({})).await;
    // longer than the caller waits, so the source is not called again
    office.says(empty("503 Service Unavailable", "retry-after: 60\r\n"));
    for failures in 1..=2 {
        let envelope = verified(&daemon).await;
        assert_eq!(envelope["candidates"][0]["outcome"], "failed", "{envelope}");
        assert_eq!(office.heads().len(), failures);
    }
    // one call is permitted after each reset time, and its failure opens the circuit again
    eventually("the circuit is open", async || {
        let before = office.heads().len();
        let envelope = verified(&daemon).await;
        assert_eq!(
            (&envelope["kind"], &envelope["reasons"], &envelope["retry"]["oracles"]),
            (&json!("blocked"), &json!(["oracle_unreachable"]), &json!(["office"])),
            "{envelope}"
        );
        let is_open = envelope["candidates"][0]["outcome"] == "circuit_open";
        assert_eq!(office.heads().len() - before, usize::from(!is_open), "{envelope}");
        is_open && of_office(&watched(&world).await).contains("circuit_open until")
    })
    .await;

    office.says(people(HONEST));
    eventually("the source is called again", async || verified(&daemon).await["kind"] == "authoritative")
        .await;
    eventually("the circuit is closed", async || of_office(&watched(&world).await).contains(" healthy "))
        .await;
    assert_eq!(told(&verified(&daemon).await), HONEST);
    let changes = log(&mut daemon.control().await, "event=oracle_health_changed&limit=1000").await;
    assert!(changes.iter().all(|change| change["oracle_id"] == "source:office"), "{changes:?}");
    let to: Vec<_> = changes.iter().map(|change| change["to"].as_str().expect("a word")).collect();
    assert!(to.starts_with(&["degraded", "circuit_open"]) && to.last() == Some(&"healthy"), "{to:?}");
}

/// The lines about the office.
fn of_office(health: &str) -> String {
    health.lines().filter(|line| line.contains("source:office")).collect()
}
