//! The erasure of a person: afterwards no file has the data, and all proofs stay valid.

use hyper::Method;
use oracled_api::client::DaemonClient;
use oracled_tests::old_state::register_days_ago;
use oracled_tests::{DaemonProcess, DaemonWorld, document, eventually, get, log, post, problem, submission};
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The files under `dir` that have `text`, compressed segments included.
pub(crate) fn files_with(dir: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
            continue;
        }
        // a file can be removed meanwhile
        let Ok(mut bytes) = fs::read(&path) else { continue };
        if path.extension().is_some_and(|extension| extension == "zst") {
            let compressed = std::mem::take(&mut bytes);
            zstd::Decoder::new(&compressed[..]).expect("zstd").read_to_end(&mut bytes).expect("it is whole");
        }
        if memchr::memmem::find(&bytes, text.as_bytes()).is_some() {
            found.push(path);
        }
    }
    found
}

/// Registers a session with an address and delivers its verdict. All texts contain `token`.
pub(crate) async fn deliver(routes: &mut DaemonClient, session: &str, token: &str) {
    let session_path = format!("/v1/sessions/{session}");
    let query = format!("{token}: what does \"this\" mean?");
    let body = json!({"tier": "quick", "query": query, "customer_email": format!("{token}@example.org")});
    let answer = routes.call(Method::PUT, &session_path, Some(body.to_string().into())).await;
    assert_eq!(answer.expect("the server answers").status, 201);
    let raw = format!(r#"{{"verdict":"GREEN","summary":"{token} can be sold as planned."}}"#);
    let body = Value::Object({
        let mut body = submission(&raw).as_object().expect("an object").clone();
        body.insert("query".into(), json!(query));
        body
    });
    let answer = post(routes, &format!("/v1/verdicts/{session}"), &body).await;
    assert_eq!(answer.status, 201, "{}", document(&answer));
}

fn printed(world: &DaemonWorld, arguments: &[&str]) -> String {
    let output = world.ctl(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("valid UTF-8")
}

fn file(world: &DaemonWorld, name: &str, text: &str) -> String {
    fs::write(world.path(name), text).expect("the write succeeds");
    world.path(name).to_str().expect("valid UTF-8").to_owned()
}

#[tokio::test]
async fn erased_person_is_in_no_file_and_proofs_of_before_stay_valid() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for session in ["ada", "bob"] {
        deliver(routes, session, &format!("{session}-7421")).await;
    }
    let key = printed(&world, &["log", "key"]).trim().to_owned();
    let earlier = file(&world, "earlier", &printed(&world, &["log", "checkpoint"]));
    let before = file(&world, "before", &printed(&world, &["log", "prove", "--session", "ada"]));
    assert!(!files_with(&world.state(), "ada-7421").is_empty());
    assert_eq!(world.ctl(&["erase", "--session", "eve", "--reason", "asked"]).status.code(), Some(1));
    assert_eq!(
        world.ctl(&["erase", "--email", "eve@example.org", "--reason", "asked"]).status.code(),
        Some(1)
    );

    let erased =
        printed(&world, &["--json", "erase", "--email", "ADA-7421@example.org", "--reason", "asked"]);
    let erased: Value = serde_json::from_str(&erased).expect("JSON");
    let expected = json!([{"session_id": "ada", "data": ["log_values", "session", "verdict"]}]);
    assert_eq!(erased["sessions"], expected);
    assert_eq!((&erased["former_sessions"], &erased["unread_files"]), (&json!([]), &json!([])));

    assert_eq!(files_with(&world.state(), "ada-7421"), Vec::<PathBuf>::new());
    assert!(!files_with(&world.state(), "bob-7421").is_empty());
    problem(&get(routes, "/v1/verdicts/ada").await, 404, "session_unknown");
    assert_eq!(get(routes, "/v1/verdicts/bob").await.status, 200);
    let entries = log(control, "session=ada&after=0").await;
    let judged = entries.iter().find(|entry| entry["event"] == "tmm_crosscheck").expect("the entry stays");
    assert!(judged["query_preview"]["sha256"].is_string() && judged.get("salts").is_none(), "{judged}");
    assert_eq!(judged["coherence_score"], 1.0);
    let ended = entries.iter().find(|entry| entry["event"] == "session_erased").expect("it is logged");
    assert_eq!((&ended["reason"], &ended["data"]), (&json!("asked"), &expected[0]["data"]));

    // the earlier bundle stays valid, and the erased entries match the earlier checkpoint
    printed(&world, &["verify-log", &before, "--key", &key]);
    let prove = ["log", "prove", "--session", "ada", "--since", &earlier];
    let after = file(&world, "after", &printed(&world, &prove));
    let shown = printed(&world, &["--json", "verify-log", &after, "--key", &key, "--since", &earlier]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let withheld = shown["withheld"].as_array().expect("a list");
    let of_judged = withheld.iter().find(|entry| entry["seq"] == judged["seq"]).expect("it is reported");
    assert_eq!(of_judged["members"], json!(["query_preview", "flags", "caller"]));

    // the customer can register again, and a restart finds no damage
    deliver(routes, "ada", "ada-again").await;
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    assert_eq!(get(&mut daemon.routes().await, "/v1/verdicts/ada").await.status, 200);
    assert_eq!(files_with(&world.state(), "ada-7421"), Vec::<PathBuf>::new());
    let export = printed(&world, &["export", "--session", "ada"]);
    assert!(export.contains("ada-again") && !export.contains("ada-7421"), "{export}");
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn erasure_by_address_includes_removed_sessions_and_names_corrected_ones() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for session in ["ada-1", "ada-2", "ada-3"] {
        deliver(routes, session, "ada-7421").await;
    }
    deliver(routes, "bob", "bob-7421").await;
    printed(&world, &["session", "remove", "ada-1"]);
    printed(&world, &["session", "correct", "ada-2", "--customer-email", "ada@example.net"]);
    let erase = ["--json", "erase", "--email", "ada-7421@example.org", "--reason", "asked"];
    let erased: Value = serde_json::from_str(&printed(&world, &erase)).expect("JSON");
    let sessions: Vec<_> =
        erased["sessions"].as_array().expect("a list").iter().map(|s| &s["session_id"]).collect();
    assert_eq!(sessions, ["ada-1", "ada-3"]);
    assert_eq!(erased["former_sessions"], json!(["ada-2"]));
    // the earlier address of the corrected session is left
    assert!(!files_with(&world.state(), "ada-7421").is_empty());
    printed(&world, &["erase", "--session", "ada-2", "--reason", "asked"]);
    assert_eq!(files_with(&world.state(), "ada-7421"), Vec::<PathBuf>::new());
    assert!(!files_with(&world.state(), "bob-7421").is_empty());
    assert_eq!(world.ctl(&erase).status.code(), Some(1), "nothing is left");
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn id_of_an_erased_session_is_in_no_file_if_configured() {
    // the mail waits, since nothing answers
    let mail = "[mail]\ntransport = \"http\"\nbase_url = \"http://127.0.0.1:9\"";
    let world = DaemonWorld::with_config(&format!("[storage]\nerase_session_ids = true\n{mail}"));
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for session in ["ada-7421", "bob-7421"] {
        deliver(routes, session, session).await;
    }
    let key = printed(&world, &["log", "key"]).trim().to_owned();
    let proved = printed(&world, &["log", "prove", "--session", "ada-7421"]);
    assert!(proved.contains("verdict:ada-7421"), "{proved}");
    let before = file(&world, "before", &proved);
    printed(&world, &["erase", "--session", "ada-7421", "--reason", "asked"]);

    assert_eq!(files_with(&world.state(), "ada-7421"), Vec::<PathBuf>::new());
    assert!(!files_with(&world.state(), "bob-7421").is_empty());
    printed(&world, &["verify-log", &before, "--key", &key]);
    let state = world.state().to_str().expect("valid UTF-8").to_owned();
    printed(&world, &["verify-log", &state, "--key", &key, "--replay"]);
    assert_eq!(log(control, "session=ada-7421&after=0").await, Vec::<Value>::new());
    let ended = log(control, "event=session_erased").await;
    assert_eq!((ended[0].get("session_id"), &ended[0]["reason"]), (None, &json!("asked")));
    let started = log(control, "event=erasure_started").await;
    assert!(started[0]["session_id"]["sha256"].is_string(), "{started:?}");
    let of_bob = log(control, "session=bob-7421&after=0").await;
    assert!(of_bob.iter().any(|entry| entry["event"] == "verdict_cached"), "{of_bob:?}");
    for arguments in [&["log", "--limit", "100"][..], &["log", "--session", "bob-7421"], &["status"]] {
        printed(&world, arguments);
    }

    // the id can be used again, and a rebuilt database has it only from then on
    deliver(routes, "ada-7421", "again").await;
    assert!(daemon.stop().success());
    fs::remove_dir_all(world.state().join("store")).expect("the database is removed");
    let daemon = world.serve().await;
    let of_ada = log(&mut daemon.control().await, "session=ada-7421&after=0").await;
    assert!(of_ada.iter().any(|entry| entry["event"] == "verdict_cached"), "{of_ada:?}");
    assert!(of_ada.iter().all(|entry| entry["seq"].as_u64() > ended[0]["seq"].as_u64()), "{of_ada:?}");
    assert!(daemon.stop().success());
}

/// The reasons of an incomplete erasure why the daemon is degraded.
async fn erasure_reasons(daemon: &DaemonProcess<'_>) -> Vec<String> {
    let ready = document(&get(&mut daemon.routes().await, "/readyz").await);
    let reasons = ready["degraded"].as_array().expect("a list").iter().filter_map(Value::as_str);
    reasons.filter(|reason| reason.starts_with("erasure_incomplete")).map(str::to_owned).collect()
}

#[tokio::test]
async fn file_that_an_erasure_could_not_read_is_reported_until_it_is_deleted() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    deliver(&mut daemon.routes().await, "ada", "ada-7421").await;
    let (name, compressed) = ("oracle_log-2026-11.jsonl.gz", [0x1f_u8, 0x8b, 0xff]);
    fs::write(world.state().join(name), compressed).expect("the write succeeds");
    assert_eq!(erasure_reasons(&daemon).await, Vec::<String>::new());
    printed(&world, &["erase", "--session", "ada", "--reason", "asked"]);
    let entries = log(&mut daemon.control().await, "session=ada&after=0").await;
    let ended = entries.iter().find(|entry| entry["event"] == "session_erased").expect("it is logged");
    assert_eq!(ended["unread_files"], json!([name]));
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    let reasons = erasure_reasons(&daemon).await;
    assert!(reasons.len() == 1 && reasons[0].contains(name), "{reasons:?}");
    fs::remove_file(world.state().join(name)).expect("the removal succeeds");
    assert_eq!(erasure_reasons(&daemon).await, Vec::<String>::new());
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn erasure_that_fails_is_reported_and_can_be_repeated() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    deliver(&mut daemon.routes().await, "ada", "ada-7421").await;
    // the copy of the log cannot be created
    let blocked = world.state().join("oracle_log.jsonl.erasing");
    fs::create_dir(&blocked).expect("the directory is created");
    let erase = json!({"session_id": "ada", "reason": "asked"});
    let answer = post(&mut daemon.control().await, "/v1/erasures", &erase).await;
    problem(&answer, 503, "storage_unavailable");
    let refused = post(&mut daemon.control().await, "/v1/backup", &json!({})).await;
    problem(&refused, 409, "backup_in_progress");
    assert_eq!(erasure_reasons(&daemon).await.len(), 1);
    fs::remove_dir(&blocked).expect("the removal succeeds");
    printed(&world, &["erase", "--session", "ada", "--reason", "asked"]);
    assert_eq!(erasure_reasons(&daemon).await, Vec::<String>::new());
    assert_eq!(files_with(&world.state(), "ada-7421"), Vec::<PathBuf>::new());
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn erasure_is_complete_after_kills() {
    erase_with_kills(4, false).await;
}

#[tokio::test]
async fn erasure_of_session_ids_is_complete_after_kills_and_rebuilds() {
    erase_with_kills(4, true).await;
}

#[tokio::test]
#[ignore = "takes minutes"]
async fn erasure_is_complete_after_50_kills() {
    erase_with_kills(50, false).await;
}

#[tokio::test]
#[ignore = "takes minutes"]
async fn erasure_of_session_ids_is_complete_after_50_kills_and_rebuilds() {
    erase_with_kills(50, true).await;
}

/// Erases a person in each round, and kills the daemon meanwhile, under load. With `erases_ids`, the ids of sessions are erased
/// too, every second restart rebuilds the database, and most restarts find an empty list of pending erasures, or none.
async fn erase_with_kills(rounds: u64, erases_ids: bool) {
    let world = DaemonWorld::with_config(&format!("[storage]\nerase_session_ids = {erases_ids}"));
    let mut random = fastrand::Rng::with_seed(7421);
    let mut killed_inside = 0;
    for round in 0.. {
        if round >= rounds && killed_inside > 0 {
            break;
        }
        assert!(round < rounds + 20, "no kill was during an erasure");
        let daemon = world.serve().await;
        let (session, token) = (format!("person-{round}-7421"), format!("token-{round}-7421"));
        deliver(&mut daemon.routes().await, &session, &token).await;
        let bundle = file(&world, "bundle", &printed(&world, &["log", "prove", "--session", &session]));
        let key = printed(&world, &["log", "key"]).trim().to_owned();
        let [before, _] = erasures(&daemon).await;
        let load = tokio::spawn(submit_until_killed(daemon.routes().await, round));
        let erase = ["erase", "--session", session.as_str(), "--reason", "asked"];
        let mut erasing = world.ctl_command(&erase).spawn().expect("oraclectl runs");
        // longer in later rounds, since an erasure begins later on a busy machine
        tokio::time::sleep(Duration::from_millis(random.u64(2..60 + 40 * round))).await;
        daemon.kill();
        let was_answered = erasing.wait().expect("oraclectl ends").success();
        load.await.expect("the task does not panic");

        if erases_ids && round % 2 == 1 {
            fs::remove_dir_all(world.state().join("store")).expect("the database is removed");
        }
        if erases_ids {
            let pending = world.state().join("erasures.json");
            match round % 3 {
                0 => fs::write(pending, "").expect("the write succeeds"),
                1 => drop(fs::remove_file(pending)),
                _ => {}
            }
        }
        let daemon = world.serve().await;
        let has_started = erasures(&daemon).await[0] > before;
        killed_inside += u64::from(has_started && !was_answered);
        if !has_started {
            assert!(!was_answered);
            printed(&world, &erase);
        }
        eventually("the erasure ends", async || {
            let [started, ended] = erasures(&daemon).await;
            started == ended
        })
        .await;
        for erased in [Some(&token), erases_ids.then_some(&session)].into_iter().flatten() {
            assert_eq!(files_with(&world.state(), erased), Vec::<PathBuf>::new(), "{erased}");
        }
        printed(&world, &["verify-log", &bundle, "--key", &key]);
        assert!(daemon.stop().success());
    }
    println!("{killed_inside} kills were during an erasure");
}

/// The numbers of erasures that have started, and that have ended.
async fn erasures(daemon: &DaemonProcess<'_>) -> [usize; 2] {
    let control = &mut daemon.control().await;
    let started = log(control, "event=erasure_started&after=0&limit=1000").await.len();
    [started, log(control, "event=session_erased&after=0&limit=1000").await.len()]
}

async fn submit_until_killed(mut routes: DaemonClient, round: u64) {
    for n in 0..2000 {
        let body = submission(oracled_tests::GOOD).to_string();
        let path = format!("/v1/verdicts/load-{round}-{n}");
        if routes.call(Method::POST, &path, Some(body.into())).await.is_err() {
            break;
        }
    }
}

#[tokio::test]
async fn certificate_of_an_erasure_is_verified_without_the_daemon_and_says_what_was_removed() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for session in ["ada", "bob", "eve"] {
        deliver(&mut daemon.routes().await, session, &format!("{session}-7421")).await;
    }
    let key = printed(&world, &["log", "key"]).trim().to_owned();
    let before = file(&world, "before", &printed(&world, &["log", "prove", "--session", "ada"]));
    printed(&world, &["erase", "--session", "eve", "--reason", "asked before"]);
    let certificate = world.path("certificate").to_str().expect("valid UTF-8").to_owned();
    // a refused erasure leaves no file, so the same command works later
    let unknown = ["erase", "--session", "nobody", "--reason", "asked", "--certificate", &certificate];
    assert!(!world.ctl(&unknown).status.success());
    assert!(!world.path("certificate").exists());
    let earlier = file(&world, "earlier", &printed(&world, &["log", "checkpoint"]));
    let erase = ["erase", "--session", "ada", "--reason", "asked", "--certificate", &certificate];
    printed(&world, &erase);
    assert_eq!(world.ctl(&erase).status.code(), Some(1), "the file is not replaced");
    assert!(daemon.stop().success());
    let verified = printed(&world, &["--json", "verify-log", &certificate, "--key", &key]);
    let verified: Value = serde_json::from_str(&verified).expect("JSON");
    let entries: Vec<_> = verified["entries"].as_array().expect("entries").iter().collect();
    let named = |name: &str| -> Vec<_> { entries.iter().map(|entry| entry[name].clone()).collect() };
    assert_eq!(named("event"), [json!("erasure_started"), json!("session_erased")]);
    assert_eq!(named("session_id"), [json!("ada"), json!("ada")]);
    assert_eq!(entries[1]["data"], json!(["log_values", "session", "verdict"]));
    printed(&world, &["verify-log", &before, "--key", &key]);
    // the log continues that of before the erasure, by the certificate alone and by a checkpoint of before
    let text = fs::read_to_string(&certificate).expect("the read succeeds");
    let bundle: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&verified["continues"], verified["continues"].is_u64()),
        (&bundle["continuation"]["old_size"], true)
    );
    printed(&world, &["verify-log", &certificate, "--key", &key, "--since", &earlier]);
    let root_of = |note: &Value| note.as_str().and_then(|note| note.lines().nth(2)).map(str::to_owned);
    let root = root_of(&bundle["checkpoint"]).expect("a root");
    let earlier_root = root_of(&bundle["continuation"]["checkpoint"]).expect("a root");
    for (from, to) in [("log_values", "log_valueS"), (earlier_root.as_str(), root.as_str())] {
        fs::write(&certificate, text.replacen(from, to, 1)).expect("the write succeeds");
        assert_eq!(world.ctl(&["verify-log", &certificate, "--key", &key]).status.code(), Some(1), "{from}");
    }
}

#[tokio::test]
async fn retention_removes_old_sessions_from_all_files_despite_kills() {
    let mut world = DaemonWorld::default();
    world.config.push_str("\n[retention]\nverdicts_days = 30\nlog_values_days = 30\n");
    register_days_ago(&world.state(), [("ada", 40), ("bob", 0)]);
    let daemon = world.serve().await;
    let due = printed(&world, &["--json", "retention", "--dry-run"]);
    let due: Value = serde_json::from_str(&due).expect("JSON");
    assert_eq!(
        (&due["due"]["verdicts"]["count"], &due["due"]["log_values"]["count"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(due["due"]["verifications"], Value::Null);
    let key = printed(&world, &["log", "key"]).trim().to_owned();
    let bundle = file(&world, "bundle", &printed(&world, &["log", "prove", "--session", "ada"]));
    assert!(!files_with(&world.state(), "ada-7421").is_empty());
    let mut removing = world.ctl_command(&["retention"]).spawn().expect("oraclectl runs");
    tokio::time::sleep(Duration::from_millis(30)).await;
    daemon.kill();
    removing.wait().expect("oraclectl ends");

    let daemon = world.serve().await;
    printed(&world, &["retention"]);
    let ended = "event=retention_applied&after=0";
    let mut control = daemon.control().await;
    eventually("the retention ends", async || !log(&mut control, ended).await.is_empty()).await;
    assert_eq!(files_with(&world.state(), "ada-7421"), Vec::<PathBuf>::new());
    assert!(!files_with(&world.state(), "bob-7421").is_empty());
    printed(&world, &["verify-log", &bundle, "--key", &key]);
    let state = world.state().to_str().expect("valid UTF-8").to_owned();
    printed(&world, &["verify-log", &state, "--key", &key, "--replay"]);
    let entries = log(&mut control, "after=0").await.len();
    printed(&world, &["retention"]);
    assert_eq!(log(&mut control, "after=0").await.len(), entries, "a second run changes nothing");
    assert!(daemon.stop().success());
    assert!(world.serve().await.stop().success());
}
