//! `/metrics`: OpenMetrics text and its counters.

use domain_base::digest::Sha256Hex;
use oracled_api::client::DaemonClient;
use oracled_tests::verification::{register, register_offices, workflow};
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, document, eventually, get, post, submission};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// All samples, by name with labels.
type MetricSamples = BTreeMap<String, f64>;

/// Parses OpenMetrics text and checks the rules of the format.
fn parsed(text: &str) -> MetricSamples {
    let body = text.strip_suffix("# EOF\n").expect("the text ends with # EOF");
    assert!(!body.contains("# EOF"));
    let (mut samples, mut families) = (MetricSamples::new(), BTreeSet::new());
    let (mut family, mut kind) = (String::new(), String::new());
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let mut word = || words.next().expect("a comment has three words").to_owned();
            let (keyword, name, rest) = (word(), word(), word());
            if name != family {
                assert!(families.insert(name.clone()), "the lines of family {name} are contiguous: {line}");
                let scaled = ["milliseconds", "microseconds", "kilobytes", "percent"];
                assert!(!scaled.iter().any(|unit| name.contains(unit)), "units are base units: {line}");
                (family, kind) = (name, "unknown".into());
            }
            match keyword.as_str() {
                "TYPE" => kind = rest,
                "UNIT" => assert!(family.ends_with(&format!("_{rest}")), "a unit ends its name: {line}"),
                other => assert_eq!(other, "HELP", "{line}"),
            }
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').expect("a sample has a value");
        let value: f64 = value.parse().expect("a value is a number");
        let name = sample.split('{').next().expect("a sample has a name");
        let suffix = name.strip_prefix(&family).expect("a sample follows its family's type");
        let allowed: &[&str] = match kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_count", "_sum"],
            _ => &[],
        };
        assert!(allowed.contains(&suffix), "{line} in a {kind}");
        assert!(value.is_finite() && value >= 0.0, "{line}");
        if let Some(labels) = sample.strip_prefix(name).filter(|labels| !labels.is_empty()) {
            check_labels(labels);
        }
        assert!(samples.insert(sample.to_owned(), value).is_none(), "the sample occurs twice: {line}");
    }
    samples
}

fn check_labels(labels: &str) {
    let labels =
        labels.strip_prefix("{").and_then(|labels| labels.strip_suffix("}")).expect("labels are in braces");
    for label in labels.split(',') {
        let (name, value) = label.split_once('=').expect("a label has a value");
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{label}");
        let value =
            value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).expect("a value is in quotes");
        assert!(!value.contains(['"', '\\', '\n']), "{label}");
    }
}

#[tokio::test]
async fn metrics_are_valid_openmetrics_and_count_requests() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let fresh = get(routes, "/metrics").await;
    assert_eq!(fresh.status, 200);
    let content_type = fresh.headers["content-type"].to_str().unwrap();
    assert_eq!(content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    parsed(str::from_utf8(&fresh.body).unwrap());

    for (session, raw) in [("cs_1", GOOD), ("cs_1", GOOD), ("cs_2", "no JSON")] {
        post(routes, &format!("/v1/verdicts/{session}"), &submission(raw)).await;
    }
    let check = json!({"session_id": "cs_3", "tier": "full", "query": "?", "raw": "{}"});
    post(routes, "/v1/crosscheck", &check).await;
    for session in ["cs_1", "cs_1", "cs_9"] {
        get(routes, &format!("/v1/verdicts/{session}")).await;
    }
    post(control, "/v1/drain", &json!({"draining": true})).await;

    let answer = get(routes, "/metrics").await;
    let samples = parsed(str::from_utf8(&answer.body).unwrap());
    let judged = |tier: &str, path: &str, reason: &str| {
        format!(
            "oracled_crosscheck_judgments_total{{application=\"default\",tier=\"{tier}\",path=\"{path}\",reason=\"{reason}\"}}"
        )
    };
    for (sample, value) in [
        (judged("quick", "submit", "pass"), 1.0),
        (judged("quick", "submit", "degenerate_manifold"), 1.0),
        (judged("full", "check", "field_missing"), 1.0),
        ("oracled_cache_reads_total{result=\"miss\"}".into(), 1.0),
        // the start, a delivery with both its entries, two refusals, and the drain
        ("oracled_journal_records_total".into(), 5.0),
        ("oracled_journal_commit_seconds_count".into(), 5.0),
        ("oracled_log_fallback_entries_total".into(), 0.0),
        ("oracled_log_entries".into(), 6.0),
        ("oracled_cached_verdicts".into(), 1.0),
        ("oracled_sessions".into(), 1.0),
        ("oracled_ready".into(), 0.0),
        ("oracled_draining".into(), 1.0),
        ("oracled_journal_failed".into(), 0.0),
        ("oracled_mirror_lagging".into(), 0.0),
        ("oracled_segments_damaged".into(), 0.0),
        ("oracled_lost_rows".into(), 0.0),
        ("oracled_mirror_repairs_total".into(), 0.0),
        ("oracled_infrastructure_variance".into(), 0.0),
        ("oracled_verdicts_in_flight".into(), 0.0),
        ("oracled_connections".into(), 1.0),
        ("oracled_actor_restarts_total{actor=\"crosscheck\"}".into(), 0.0),
        ("oracled_actor_messages_total{actor=\"crosscheck\"}".into(), 4.0),
    ] {
        assert_eq!(samples.get(&sample), Some(&value), "{sample} in {samples:#?}");
    }
    let hits = ["hit_store", "hit_memory"].map(|hit| {
        samples.get(&format!("oracled_cache_reads_total{{result=\"{hit}\"}}")).copied().unwrap_or(0.0)
    });
    assert_eq!(hits.iter().sum::<f64>(), 2.0, "{hits:?}");
    for actor in ["regen", "crosscheck", "cache", "rate_limiter", "notifier", "oracle_health", "logger"] {
        for family in ["queue_depth", "latency_p50_seconds", "latency_p99_seconds"] {
            assert!(
                samples.contains_key(&format!("oracled_actor_{family}{{actor=\"{actor}\"}}")),
                "{family}"
            );
        }
    }
}

#[tokio::test]
async fn series_have_the_values_from_before_a_restart() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let read = async |daemon: &DaemonProcess<'_>| {
        let answer = document(&get(&mut daemon.control().await, "/v1/series?range=week").await);
        let series = answer["series"].as_array().expect("a list").clone();
        let found = series.into_iter().find(|series| series["name"] == "orders_waiting");
        found.map(|series| series["values"].as_array().expect("a list").clone())
    };
    // the first sample follows the start at once
    eventually("there is a sample", async || read(&daemon).await.is_some()).await;
    let values = read(&daemon).await.expect("there is a sample");
    assert_eq!((values.len(), values.last()), (168, Some(&json!(0.0))));
    assert!(daemon.stop().success());
    let file = world.state().join("series.json");
    let kept = fs::read_to_string(&file).expect("the stop has written the file");
    // values that no sample of the next process has
    let added = r#""orders_waiting":{"kept":[null,null,null,7.0],"#;
    let json = kept[64..].replace(r#""orders_waiting":{"#, added);
    fs::write(&file, format!("{}{json}", Sha256Hex::of(json.as_bytes()))).expect("the file is written");
    let daemon = world.serve().await;
    let answer = document(&get(&mut daemon.control().await, "/v1/series?range=week").await);
    assert!(answer.to_string().contains(r#""labels":{"state":"kept"}"#), "{answer}");
    let bad = get(&mut daemon.control().await, "/v1/series?range=year").await;
    assert_eq!(bad.status, 400);
}

#[tokio::test]
async fn alert_metrics_are_0_before_the_event_and_after_a_restart() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "54208")]).await;
    register(&mut daemon.control().await, &workflow("census", &["office-a"], json!({}))).await;
    let check = async |routes: &mut DaemonClient| {
        let answer = get(routes, "/metrics").await;
        let samples = parsed(str::from_utf8(&answer.body).unwrap());
        for sample in [
            "oracled_verification_calls_total{oracle=\"office-a\",outcome=\"refused\"}",
            "oracled_verification_calls_total{oracle=\"office-a\",outcome=\"stale\"}",
            "oracled_verifications_total{workflow=\"census\",kind=\"blocked\"}",
            "oracled_verifications_total{workflow=\"census\",kind=\"authoritative\"}",
            "oracled_verification_reasons_total{workflow=\"census\",reason=\"deviation\"}",
            "oracled_verification_conflicts_total{workflow=\"census\",strategy=\"most_recent\",outcome=\"kept\"}",
            "oracled_verification_late_calls_total{oracle=\"office-a\"}",
            "oracled_ingestion_runs_total{oracle=\"office-a\",state=\"failed\"}",
            "oracled_rules_applied_total{rule=\"RULE-PREC-001\",verdict=\"ERROR\"}",
        ] {
            assert_eq!(samples.get(sample), Some(&0.0), "{sample} in {samples:#?}");
        }
    };
    check(&mut daemon.routes().await).await;
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    check(&mut daemon.routes().await).await;
}

#[tokio::test]
async fn oracle_metric_families_exist_without_an_oracle() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let answer = get(&mut daemon.routes().await, "/metrics").await;
    let text = str::from_utf8(&answer.body).unwrap();
    parsed(text);
    for family in ["circuit_state", "consecutive_failures", "latency_p50_seconds", "latency_p99_seconds"] {
        assert!(text.contains(&format!("# TYPE oracled_oracle_{family} gauge\n")), "{family} in {text}");
    }
}

#[tokio::test]
async fn histogram_buckets_are_cumulative() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for number in 0..20 {
        post(routes, &format!("/v1/verdicts/cs_{number}"), &submission(GOOD)).await;
    }
    let answer = get(routes, "/metrics").await;
    let samples = parsed(str::from_utf8(&answer.body).unwrap());
    for family in ["oracled_journal_commit_seconds", "oracled_journal_group_records"] {
        let prefix = format!("{family}_bucket{{le=\"");
        let buckets = samples.iter().filter_map(|(name, count)| {
            let bound = name.strip_prefix(&prefix)?.strip_suffix("\"}")?;
            Some((bound.replace("+Inf", "inf").parse::<f64>().expect("a bound is a number"), *count))
        });
        let mut buckets: Vec<_> = buckets.collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(
            buckets.len() > 2 && buckets.iter().is_sorted_by(|one, other| one.1 <= other.1),
            "{buckets:?}"
        );
        let count = samples[&format!("{family}_count")];
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)));
        assert!(count >= 20.0 && samples[&format!("{family}_sum")] > 0.0, "{family}");
    }
}

/// The response to a request on the listener for metrics.
fn answer_over_tcp(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the listener accepts");
    stream.write_all(request.as_bytes()).expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer is read to its end");
    answer
}

#[tokio::test]
async fn metrics_are_served_on_a_loopback_address_and_nothing_else() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = free.local_addr().expect("it has an address").to_string();
    drop(free);
    let world = DaemonWorld::with_config(&format!("[metrics]\nlisten = \"{address}\"\n"));
    let daemon = world.serve().await;
    let get = |path: &str, host: &str| {
        answer_over_tcp(&address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    };
    let answer = get("/metrics", &address);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").expect("the answer has a body");
    assert_eq!(parsed(body).get("oracled_ready"), Some(&1.0));
    for (path, host, status) in [
        ("/healthz", "localhost", 404),
        ("/v1/rules", "localhost", 404),
        ("/metrics", "rebound.example", 421),
    ] {
        let answer = get(path, host);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path} {host}: {answer}");
    }
    let mut check = world.oracled(&["check-config", "--config"]);
    let output = check.arg(world.config_file()).output().expect("the program runs");
    let note = String::from_utf8_lossy(&output.stderr);
    let port = address.rsplit(':').next().unwrap_or_default();
    assert!(note.contains(&format!("SocketBindAllow=tcp:{port}")), "{note}");
    assert!(daemon.stop().success());
}
