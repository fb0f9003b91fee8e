//! Erasures in a cluster: afterwards no file of any host has the data.

use crate::cluster::{coherent_model, start_cluster, stop_and_check};
use crate::erasure::{deliver, files_with};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use oracled_tests::cluster::TestCluster;
use oracled_tests::generation::{request_order, world_with_model};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::old_state::register_days_ago;
use oracled_tests::{DaemonProcess, DaemonWorld, document, eventually, get, log};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

async fn erase(world: &DaemonWorld, session: &str) -> Value {
    let erased = world.ctl_in_thread(&["--json", "erase", "--session", session, "--reason", "asked"]).await;
    let report: Value = serde_json::from_slice(&erased.stdout).expect("JSON");
    let is_complete = report["waiting_hosts"] == json!([]);
    assert_eq!(erased.status.code(), Some(if is_complete { 0 } else { 4 }), "{erased:?}");
    report
}

fn found(worlds: &[DaemonWorld], text: &str) -> Vec<PathBuf> {
    worlds.iter().flat_map(|world| files_with(&world.state(), text)).collect()
}

/// The entries of an event in the log of a host.
async fn events(host: &DaemonProcess<'_>, event: &str) -> Vec<Value> {
    log(&mut host.control().await, &format!("event={event}&after=0")).await
}

/// Checks that the rows of each group on the server are compressed, and cannot be read without the key. Returns whether one has this text.
fn check_groups(cluster: &TestCluster, text: &str) -> bool {
    // the encrypted bytes, and the place of the group that they are bound to
    let groups = "
        SELECT bytes, int8send(store_id) || int8send(before) || int8send(after) || root
        FROM oracled_group, oracled_cluster WHERE key_id <> ''";
    let server = cluster.server.as_ref().expect("it runs");
    let groups = server.call(|client| client.query(groups, &[])).expect("the server has the table");
    let key =
        BASE64_STANDARD.decode(cluster.keys().trim().split_once(' ').expect("a key").1).expect("Base64");
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).expect("a key"));
    let has_text = groups.iter().filter(|group| {
        let (bytes, place): (Vec<u8>, Vec<u8>) = (group.get(0), group.get(1));
        let (nonce, rows) = bytes.split_first_chunk().expect("a nonce");
        assert!(zstd::decode_all(&bytes[..]).is_err() && zstd::decode_all(rows).is_err());
        let (mut rows, nonce) = (rows.to_vec(), Nonce::assume_unique_for_key(*nonce));
        let rows = key.open_in_place(nonce, Aad::from(place), &mut rows).expect("the key opens it");
        let rows = zstd::decode_all(&*rows).expect("zstd");
        memchr::memmem::find(&rows, text.as_bytes()).is_some()
    });
    has_text.count() > 0
}

#[tokio::test]
async fn erased_person_is_in_no_file_of_any_host() {
    if start_cluster().is_none() {
        return;
    }
    let cluster = TestCluster::start_with_standby().expect("PostgreSQL is there");
    let worlds = ["a", "b", "c"].map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let a = cluster.init(&worlds[0]).await;
    deliver(&mut a.routes().await, "ada", "ada-7421").await;
    let b = cluster.join(&worlds[1], &worlds[0]).await;
    let c = cluster.join(&worlds[2], &worlds[0]).await;
    deliver(&mut b.routes().await, "bob", "bob-7421").await;
    for (world, host) in worlds.iter().zip([&a, &b, &c]) {
        assert_eq!(get(&mut host.routes().await, "/cache/bob").await.status, 200);
        assert!(!files_with(&world.state(), "ada-7421").is_empty());
    }
    // by hosts with and without the turn
    for (world, session) in [(&worlds[2], "ada"), (&worlds[0], "bob")] {
        let erased = erase(world, session).await;
        let expected = json!([{"session_id": session, "data": ["log_values", "session", "verdict"]}]);
        assert_eq!(erased["sessions"], expected);
        assert_eq!((&erased["waiting_hosts"], &erased["unread_files"]), (&json!([]), &json!([])));
        assert_eq!(found(&worlds, &format!("{session}-7421")), Vec::<PathBuf>::new());
        for host in [&a, &b, &c] {
            let read = get(&mut host.routes().await, &format!("/v1/verdicts/{session}")).await;
            assert_eq!(read.status, 404, "{}", document(&read));
        }
    }
    let ended = events(&a, "session_erased").await;
    let of = |session: &str| ended.iter().filter(|entry| entry["session_id"] == session).count();
    assert_eq!((ended.len(), of("ada"), of("bob")), (2, 1, 1), "{ended:?}");
    // nor on the server and its standby, in their tables and their write-ahead logs, which have it encrypted
    let on_servers = cluster.server_dirs().flat_map(|dir| files_with(dir, "-7421"));
    assert_eq!(on_servers.collect::<Vec<_>>(), Vec::<PathBuf>::new());
    assert!(check_groups(&cluster, "bob-7421"));
    // the sessions can be used again
    deliver(&mut b.routes().await, "ada", "ada-again").await;
    stop_and_check(vec![a, b, c], &worlds).await;
}

#[tokio::test]
async fn host_that_was_away_erases_when_it_is_back_and_the_end_is_logged_then() {
    let Some(cluster) = start_cluster() else { return };
    let worlds = ["a", "b"].map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let a = cluster.init(&worlds[0]).await;
    deliver(&mut a.routes().await, "ada", "ada-7421").await;
    let b = cluster.join(&worlds[1], &worlds[0]).await;
    b.kill();
    let erased = erase(&worlds[0], "ada").await;
    assert_eq!(erased["waiting_hosts"], json!(["b"]));
    assert!(files_with(&worlds[0].state(), "ada-7421").is_empty());
    assert!(!files_with(&worlds[1].state(), "ada-7421").is_empty());
    assert_eq!(events(&a, "session_erased").await, Vec::<Value>::new());
    // a backup has nothing of it, so that it is possible meanwhile
    let backup = worlds[0].path("backup");
    let made = worlds[0].ctl_in_thread(&["backup", backup.to_str().expect("valid UTF-8")]).await;
    assert!(made.status.success(), "{made:?}");
    assert!(files_with(&backup, "ada-7421").is_empty());
    let b = worlds[1].serve().await;
    assert!(files_with(&worlds[1].state(), "ada-7421").is_empty(), "it erases before it serves");
    eventually("the end is logged", async || !events(&a, "session_erased").await.is_empty()).await;
    assert_eq!(found(&worlds, "ada-7421"), Vec::<PathBuf>::new());
    stop_and_check(vec![a, b], &worlds).await;
}

#[tokio::test]
async fn erasure_waits_for_a_mail_that_another_host_is_sending() {
    let Some(cluster) = start_cluster() else { return };
    let model = coherent_model(Duration::ZERO).await;
    let mailbox = ModelServer::start().await;
    mailbox.set_default(ScriptedReply::bytes(200, "{}").after(Duration::from_secs(4)));
    let mail = format!("[mail]\ntransport = \"http\"\nbase_url = \"{}\"\n", mailbox.url());
    let worlds =
        ["a", "b"].map(|host| world_with_model(&model.url(), &format!("{}{mail}", cluster.config(host))));
    let a = cluster.init(&worlds[0]).await;
    let b = cluster.join(&worlds[1], &worlds[0]).await;
    let order =
        json!({"tier": "quick", "query": "Is it ada-7421?", "customer_email": "ada-7421@example.org"});
    let ordered = request_order(&worlds[0].socket(), "ada", &order).await;
    assert_eq!(ordered.status, 202, "{}", document(&ordered));
    eventually("the mail is being sent", async || !mailbox.requests().is_empty()).await;
    let erased = erase(&worlds[1], "ada").await;
    assert_eq!(erased["waiting_hosts"], json!([]));
    let seq =
        |entries: Vec<Value>| entries.first().and_then(|entry| entry["seq"].as_u64()).expect("an entry");
    let (sent, ended) = (seq(events(&a, "message_sent").await), seq(events(&a, "session_erased").await));
    assert!(sent < ended, "{sent} and {ended}");
    assert_eq!(found(&worlds, "ada-7421"), Vec::<PathBuf>::new());
    stop_and_check(vec![a, b], &worlds).await;
}

#[tokio::test]
async fn old_data_are_removed_by_the_host_with_the_turn_from_the_files_of_all() {
    let Some(cluster) = start_cluster() else { return };
    let config = |host| format!("[retention]\nlog_days = 30\nverdicts_days = 30\n{}", cluster.config(host));
    let worlds = ["a", "b"].map(|host| DaemonWorld::with_config(&config(host)));
    let names: Vec<_> = (0..700).map(|n| format!("old-{n}")).collect();
    register_days_ago(&worlds[0].state(), names.iter().map(|name| (name.as_str(), 40)));
    let a = cluster.init(&worlds[0]).await;
    let b = cluster.join(&worlds[1], &worlds[0]).await;
    eventually("a has the turn", async || {
        let done = worlds[0].ctl_in_thread(&["retention"]).await;
        assert!(done.status.success() || done.status.code() == Some(1), "{done:?}");
        done.status.success()
    })
    .await;
    assert_eq!(worlds[1].ctl_in_thread(&["retention"]).await.status.code(), Some(1));
    eventually("the end is logged", async || events(&b, "retention_applied").await.len() == 1).await;
    let first = |world: &DaemonWorld| world.mirror().lines().next().expect("an entry").to_owned();
    assert_eq!(first(&worlds[0]), first(&worlds[1]));
    let seq: Value = serde_json::from_str(&first(&worlds[0])).expect("JSON");
    assert!(seq["seq"].as_u64().is_some_and(|seq| seq > 300), "{seq}");
    for host in [&a, &b] {
        assert_eq!(get(&mut host.routes().await, "/v1/verdicts/old-1").await.status, 404);
    }
    stop_and_check(vec![a, b], &worlds).await;
}

#[tokio::test]
async fn erasure_is_completed_on_all_hosts_after_kills() {
    let Some(cluster) = start_cluster() else { return };
    let worlds = ["a", "b"].map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let mut hosts = vec![cluster.init(&worlds[0]).await];
    for number in 0..3 {
        deliver(&mut hosts[0].routes().await, &format!("p{number}"), &format!("p{number}-7421")).await;
    }
    hosts.push(cluster.join(&worlds[1], &worlds[0]).await);
    let mut random = fastrand::Rng::new();
    for number in 0..3_usize {
        let (by, session) = (&worlds[number % 2], format!("p{number}"));
        let (session, by_ctl) = (session.as_str(), by);
        let erasing =
            async { by_ctl.ctl_in_thread(&["erase", "--session", session, "--reason", "asked"]).await };
        let killed = number / 2 % 2;
        let victim = hosts.remove(killed);
        let killing = async {
            tokio::time::sleep(Duration::from_millis(random.u64(5..400))).await;
            victim.kill();
        };
        let (_, ()) = tokio::join!(erasing, killing);
        hosts.insert(killed, worlds[killed].serve().await);
    }
    let began = Instant::now();
    for number in 0..3 {
        // the request itself may have been cut off before it began
        erase_again(&worlds[0], &format!("p{number}")).await;
    }
    eventually("each erasure has ended", async || {
        let (started, ended) = (
            events(&hosts[0], "erasure_started").await.len(),
            events(&hosts[0], "session_erased").await.len(),
        );
        started >= 3 && started == ended
    })
    .await;
    assert_eq!(found(&worlds, "-7421"), Vec::<PathBuf>::new(), "after {:?}", began.elapsed());
    stop_and_check(hosts, &worlds).await;
}

/// Erases a session that may be erased already.
async fn erase_again(world: &DaemonWorld, session: &str) {
    let erased = world.ctl_in_thread(&["erase", "--session", session, "--reason", "asked"]).await;
    assert!(matches!(erased.status.code(), Some(0 | 1 | 4)), "{erased:?}");
}
