mod files;

use super::CheckLevel::{Fault, Pass, Warning};
use super::*;
use serde_json::{Value, json};

#[test]
fn clock_before_the_newest_entry_or_file_is_a_fault() {
    let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).ok();
    for (entry, latest, file, level) in [
        (None, None, None, Pass),
        (at(-9), at(-9), at(-1), Pass),
        (at(2), at(2), at(2), Pass),
        (at(3), at(3), None, Fault),
        (at(0), at(0), at(3), Fault),
        (at(0), at(3), at(0), Warning),
    ] {
        let now = at(0).expect("a valid time");
        assert_eq!(judge_clock(now, entry, latest, file).level, level, "{entry:?} {latest:?} {file:?}");
    }
    let reset = Timestamp::from_second(0).expect("a valid time");
    assert_eq!(judge_clock(reset, None, None, None).level, Fault);
}

#[test]
fn upstream_that_requested_a_long_wait_is_a_warning() {
    let level = |wait_s: i64| {
        let retry_at = Timestamp::now() + SignedDuration::from_secs(wait_s);
        let oracle = json!({
            "oracle_id": "openai", "status": "healthy", "last_success_at": null, "last_failure_at": null,
            "consecutive_failures": 0, "latency_p50_ms": 0, "latency_p99_ms": 0, "circuit_opened_at": null,
            "retry_at": retry_at, "held_open": false, "last_error": null,
        });
        check_oracle(&serde_json::from_value(oracle).expect("a valid status")).level
    };
    assert_eq!((level(20), level(3600)), (Pass, Warning));
}

#[test]
fn socket_that_its_group_may_not_use_needs_another_mode() {
    let denied = io::Error::from(ErrorKind::PermissionDenied);
    let remedy = |mode| {
        connect_fault("a socket", &denied, ("control_socket", mode, "root")).remedy.expect("it has a remedy")
    };
    let own = remedy(0o600);
    assert!(own.contains("control_socket_mode") && own.contains("control_socket_group"), "{own}");
    assert!(!own.contains("usermod") && remedy(0o660).contains("usermod"), "{own}");
}

#[test]
fn damaged_key_is_not_sought_in_a_backup() {
    let dir = tempfile::tempdir().expect("a directory");
    for name in KEYS {
        fs::write(dir.path().join(name), "damaged").expect("the write succeeds");
        let check = check_key(dir.path(), name).expect("it is checked");
        let remedy = check.remedy.expect("it has a remedy");
        assert!(check.level == Fault && remedy.contains("your copy"), "{remedy}");
    }
}

#[test]
fn mails_that_wait_without_a_transport_are_a_warning() {
    let examples: Value =
        serde_json::from_str(include_str!("../../../../docs/openapi-examples.json")).expect("valid JSON");
    let has_warning = |mail: &str, mails: u64| {
        let mut status = examples["read_status"]["200"].clone();
        (status["mail"], status["mails"], status["outbox"]) = (json!(mail), json!(mails), Value::Null);
        let status: StatusReport = serde_json::from_value(status).expect("a valid status");
        check_status(&status).iter().any(|result| result.check == "outbox" && result.level == Warning)
    };
    assert!(has_warning("none: no mail is sent", 2));
    assert!(!has_warning("none: no mail is sent", 0) && !has_warning("smtp, localhost", 2));
}

#[test]
fn backup_is_a_warning_2_days_after_the_last_one_or_the_first_verdict() {
    let examples: Value =
        serde_json::from_str(include_str!("../../../../docs/openapi-examples.json")).expect("valid JSON");
    let has_warning = |backup_h: Option<i64>, verdict_h: Option<i64>| {
        let mut status = examples["read_status"]["200"].clone();
        let ago = |hours| Timestamp::now() - SignedDuration::from_hours(hours);
        status["last_backup_at"] = json!(backup_h.map(ago));
        status["first_verdict_at"] = json!(verdict_h.map(ago));
        let status: StatusReport = serde_json::from_value(status).expect("a valid status");
        check_status(&status).iter().any(|result| result.check == "backup")
    };
    for (backup_h, verdict_h, expected) in [
        (None, None, false),
        (None, Some(47), false),
        (None, Some(49), true),
        (Some(47), Some(90), false),
        (Some(49), None, true),
    ] {
        assert_eq!(has_warning(backup_h, verdict_h), expected, "{backup_h:?} {verdict_h:?}");
    }
}

#[test]
fn secret_files_are_found_at_each_level_and_hidden_paths_are_not() {
    let config = CheckedConfig(json!({
        "model": {"api_key_file": "/k", "name": "x"},
        "ingestion": {"credentials": {"wb": {"key_file": "/c.key", "certificate_file": "/c.crt"}}},
        "mail": {"password_file": "not shown: no file has this path"},
        // the tests run in the folder of the package
        "webhooks": {"secret_file": "Cargo.toml"},
    }));
    let files = config.secret_files(Path::new(""));
    let files: Vec<_> = files.iter().map(|(key, path)| (key.as_str(), path.to_str())).collect();
    assert_eq!(
        files,
        [
            ("ingestion.credentials.wb.key_file", Some("/c.key")),
            ("model.api_key_file", Some("/k")),
            ("webhooks.secret_file", Some("Cargo.toml")),
        ]
    );
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("secret"), "x").expect("the write succeeds");
    let config = CheckedConfig(json!({"webhooks": {"secret_file": "secret"}}));
    assert_eq!(
        config.secret_files(dir.path()),
        [("webhooks.secret_file".to_owned(), dir.path().join("secret"))]
    );
}

#[test]
fn named_file_can_be_that_of_the_running_daemon() {
    let file = env::current_dir().expect("a directory").join("oracled.toml");
    let select = |named: &str| ConfigSource::select(Some(Path::new(named)), Some(Some(file.clone())));
    assert!(select("oracled.toml").is_of_daemon());
    assert!(matches!(select("other.toml"), ConfigSource::Named(_)));
    assert!(matches!(ConfigSource::select(None, Some(None)), ConfigSource::OfDaemon(None)));
    assert!(matches!(ConfigSource::select(None, None), ConfigSource::Default));
}

#[test]
fn cluster_is_warned_of_clocks_configurations_standbys_and_hosts() {
    let host = |host: &str, offset: i64, seen: u64| {
        json!({"host": host, "state": "live", "version": "1", "schema": 1, "applied": 1, "removed": 0, "clock_offset_ms": offset,
            "seen_ms": seen, "leases": [], "config": {}})
    };
    let document = |offset: i64, connected: u64, seen: u64, differences: Value| {
        json!({"host": "a", "has_work": true, "contact_ms": 1, "failure": null, "config_differences": differences,
            "missing_files": 0, "missing_bytes": 0, "fetch_failure": null, "keys": ["1"],
            "standbys": {"synchronous_standby_names": "s", "connected": connected},
            "rights": {"missing": [], "excess": []},
            "hosts": [host("a", offset, 0), host("b", 0, seen)], "hosts_read_ms": 0})
    };
    let check = |document: Value| check_report(&serde_json::from_value(document).expect("a report"));
    let levels = |document: Value| check(document).iter().map(|check| check.level).collect::<Vec<_>>();
    let report =
        |offset, connected, seen, differences| levels(document(offset, connected, seen, differences));
    let difference = json!([{"host": "b", "sections": ["gate"]}]);
    assert_eq!(report(400, 1, 0, json!([])), [Pass]);
    assert_eq!(report(-600, 1, 0, json!([])), [Warning]);
    assert_eq!(report(0, 0, 0, json!([])), [Warning]);
    assert_eq!(report(0, 1, 0, difference), [Warning]);
    assert_eq!(report(0, 1, 11_000, json!([])), [Warning]);
    for (offset, words) in [(-600, "is 600 ms behind that"), (600, "is 600 ms ahead of that")] {
        let checks = check(document(offset, 1, 0, json!([])));
        assert!(checks.iter().any(|check| check.value.contains(words)), "{checks:?}");
    }
    let mut rights = document(0, 1, 0, json!([]));
    rights["rights"]["excess"] = json!(["OWNER on oracled_group"]);
    assert_eq!(levels(rights.clone()), [Warning]);
    rights["rights"]["missing"] = json!(["GRANT DELETE ON oracled_group TO \"app\""]);
    assert_eq!(levels(rights), [Fault, Warning]);
    let mut stale = document(-600, 0, 0, json!([]));
    stale["failure"] = json!("connection refused");
    stale["hosts_read_ms"] = json!(60_000);
    assert_eq!(levels(stale), [Fault], "the hosts are as they were before the failure");
}
