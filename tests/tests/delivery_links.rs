//! The links between the log entries of a delivery. A delivery names the entries from which its verdict follows, and no others.

use crate::erasure::files_with;
use domain_audit::leaf::leaf_of;
use domain_audit::log_tree::leaf_hash;
use domain_base::digest::Sha256Hex;
use domain_verdict::card::VerdictCard;
use domain_verdict::label::{ProductTier, VerdictLabel};
use oracled_api::client::DaemonClient;
use oracled_tests::generation::{
    coherent_answer, place_order, purge_verdict, read_verdict, request_verdict, wait_for_order,
};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, document, get, post, submission};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Approved verdicts that the policy holds.
const FLAGGED: [&str; 2] =
    [r#"{"verdict":"GREEN","summary":"Fine."}"#, r#"{"verdict":"GREEN","summary":"Good."}"#];
const HOLD: &str = "[gate]\nhold = [\"short_summary\"]\n";
/// An answer that the crosscheck rejects.
const UNUSABLE: &str = r#"{"verdict":"GREEN","summary":" "}"#;

/// The entries of a session in the mirror, by their numbers. Each has the hash of its leaf in `leaf`.
fn entries(world: &DaemonWorld, session: &str) -> BTreeMap<u64, Value> {
    let entry = |line: &str| {
        let mut entry: Value = serde_json::from_str(line).expect("JSON");
        let leaf = leaf_of(line).expect("an entry");
        entry["leaf"] = json!(Sha256Hex::from_bytes(&leaf_hash(leaf.as_bytes())));
        (entry["seq"].as_u64().expect("a number"), entry)
    };
    let all = world.mirror().lines().map(entry).collect::<Vec<_>>();
    all.into_iter().filter(|(_, entry)| entry["session_id"] == session).collect()
}

/// The entries that an entry names: they are earlier ones of the session, in their order, with their leaves.
fn named(entries: &BTreeMap<u64, Value>, entry: &Value) -> Vec<Value> {
    let links = entry["links"].as_array().cloned().unwrap_or_default();
    let numbers: Vec<_> = links.iter().map(|link| link["seq"].as_u64().expect("a number")).collect();
    assert!(
        numbers.is_sorted_by(|a, b| a < b) && numbers.iter().all(|seq| Some(*seq) < entry["seq"].as_u64())
    );
    let found: Vec<_> = numbers.iter().map(|seq| entries[seq].clone()).collect();
    for (link, entry) in links.iter().zip(&found) {
        assert_eq!(*link, json!({"seq": entry["seq"], "leaf_sha256": entry["leaf"]}));
    }
    found
}

fn last<'e>(entries: &'e BTreeMap<u64, Value>, event: &str) -> &'e Value {
    entries.values().rfind(|entry| entry["event"] == event).expect("it is logged")
}

fn events(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["event"].as_str().expect("a name")).collect()
}

/// The entries that the last delivery of a session names. Checks that its later entries name the delivery, and that no other entry has links.
fn evidence(world: &DaemonWorld, session: &str) -> Vec<Value> {
    let entries = entries(world, session);
    for (seq, entry) in &entries {
        let (event, named) = (entry["event"].as_str().expect("a name"), named(&entries, entry));
        match event {
            "verdict_cached" => assert!(!named.is_empty(), "{entry}"),
            "order_delivered" | "regen_divergence_check" => {
                let delivered = entries.range(..*seq).rfind(|(_, entry)| entry["event"] == "verdict_cached");
                assert_eq!(named, [delivered.expect("a delivery").1.clone()], "{entry}");
            }
            _ => assert_eq!(named, Vec::<Value>::new(), "{entry}"),
        }
    }
    let delivered = last(&entries, "verdict_cached");
    let evidence = named(&entries, delivered);
    let crosscheck = evidence.iter().find(|entry| entry["event"] == "tmm_crosscheck").expect("it was judged");
    assert_eq!(crosscheck["verdict_sha256"], delivered["verdict_sha256"]);
    evidence
}

/// The events of the card of a session.
async fn card(
    world: &DaemonWorld,
    routes: &mut DaemonClient,
    session: &str,
    is_internal: bool,
) -> Vec<String> {
    let page = if is_internal {
        world.ctl_in_thread(&["card", session, "--internal"]).await.stdout
    } else {
        get(routes, &format!("/v1/verdicts/{session}?card=1")).await.body.to_vec()
    };
    let card = VerdictCard::read(str::from_utf8(&page).expect("valid UTF-8")).expect("a card");
    let mut entries: Vec<Value> =
        card.bundle().entries.iter().map(|entry| serde_json::from_str(&entry.line).expect("JSON")).collect();
    entries.sort_by_key(|entry| entry["seq"].as_u64());
    entries.iter().map(|entry| entry["event"].as_str().expect("a name").to_owned()).collect()
}

async fn release(daemon: &DaemonProcess<'_>, session: &str) {
    let body = json!({"action": "release", "reason": "checked"});
    let answer = post(&mut daemon.control().await, &format!("/v1/orders/{session}"), &body).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
}

/// Verifies a backup of the log, and computes each decision again.
async fn verify(world: &DaemonWorld) {
    let key = String::from_utf8(world.ctl_in_thread(&["log", "key"]).await.stdout).expect("valid UTF-8");
    let backup = world.path("backup");
    let backup = backup.to_str().expect("valid UTF-8");
    for arguments in [&["backup", backup][..], &["verify-log", backup, "--key", key.trim(), "--replay"]] {
        let output = world.ctl_in_thread(arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

#[tokio::test]
async fn delivery_names_the_attempt_that_succeeded() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    model.next([UNUSABLE, GOOD].map(ScriptedReply::with_text));
    assert_eq!(request_verdict(routes, "cs_1").await.status, 201);
    let found = evidence(&world, "cs_1");
    assert_eq!(events(&found), ["order_attempted", "tmm_crosscheck"]);
    assert_eq!(found[0]["attempt"], 2);
    assert_eq!(
        card(&world, routes, "cs_1", false).await,
        ["order_attempted", "tmm_crosscheck", "verdict_cached", "order_delivered"]
    );
    verify(&world).await;
}

#[tokio::test]
async fn submitted_delivery_names_its_crosscheck_and_its_evaluation() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let fact = json!({"verdict": "GREEN", "summary": "Honey is sweet."}).to_string();
    // a rejected verdict of the session is no evidence of the next one
    for (raw, status) in [(UNUSABLE, 422), (&*fact, 201)] {
        let mut body = submission(raw);
        body["facts"] = json!(["Honey is sweet."]);
        let answer = post(routes, "/v1/verdicts/cs_1", &body).await;
        assert_eq!(answer.status, status, "{}", document(&answer));
    }
    let found = evidence(&world, "cs_1");
    assert_eq!(events(&found), ["tmm_crosscheck", "rules_evaluated"]);
    let delivered = ["tmm_crosscheck", "rules_evaluated", "verdict_cached"];
    assert_eq!(card(&world, routes, "cs_1", false).await, delivered);
    // the card of the erased session has the same entries
    let erased = world.ctl_in_thread(&["erase", "--session", "cs_1", "--reason", "asked"]).await;
    assert!(erased.status.success(), "{erased:?}");
    assert_eq!(card(&world, routes, "cs_1", false).await, delivered);
}

#[tokio::test]
async fn released_delivery_names_what_held_and_released_it() {
    let model = ModelServer::start().await;
    let world = model.create_world(HOLD);
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    model.next([UNUSABLE, FLAGGED[0]].map(ScriptedReply::with_text));
    place_order(&world, "ordered").await;
    wait_for_order(routes, "ordered", "held").await;
    assert_eq!(post(routes, "/v1/verdicts/submitted", &submission(FLAGGED[1])).await.status, 202);
    let of_policy = ["tmm_crosscheck", "policy_applied", "order_stopped", "order_released"];
    for session in ["ordered", "submitted"] {
        release(&daemon, session).await;
        let found = evidence(&world, session);
        let attempted = (session == "ordered").then_some("order_attempted");
        assert_eq!(events(&found), attempted.into_iter().chain(of_policy).collect::<Vec<_>>());
        assert!(attempted.is_none() || found[0]["attempt"] == 2);
        let shown = attempted.into_iter().chain([
            "tmm_crosscheck",
            "policy_applied",
            "verdict_cached",
            "order_delivered",
        ]);
        assert_eq!(card(&world, routes, session, false).await, shown.collect::<Vec<_>>());
        let all = attempted.into_iter().chain(of_policy).chain(["verdict_cached", "order_delivered"]);
        assert_eq!(card(&world, routes, session, true).await, all.collect::<Vec<_>>());
    }
    verify(&world).await;
}

#[tokio::test]
async fn regenerated_delivery_names_its_attempt_and_the_comparison_names_it() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let reply = |label| ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, label));
    model.next([reply(VerdictLabel::Green), reply(VerdictLabel::Red)]);
    assert_eq!(request_verdict(routes, "cs_1").await.status, 201);
    purge_verdict(control, "cs_1").await;
    assert_eq!(read_verdict(routes, "cs_1").await.status, 200);
    let found = evidence(&world, "cs_1");
    assert_eq!(events(&found), ["regen_attempted", "tmm_crosscheck"]);
    assert_eq!(found[1]["verdict_label"], "RED");
    assert_eq!(
        card(&world, routes, "cs_1", false).await,
        ["regen_attempted", "tmm_crosscheck", "verdict_cached", "regen_divergence_check"]
    );
    verify(&world).await;
}

#[tokio::test]
async fn delivery_by_opinions_names_the_attempt_and_the_judgment_of_its_text() {
    let model = ModelServer::start().await;
    let opinions = "opinions = { count = 3, models = [\"gemini\"], agree = 2 }\n";
    let world = model.create_world(&format!("{HOLD}[orders]\n{opinions}"));
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let (red, green) = (
        coherent_answer(ProductTier::Quick, VerdictLabel::Red),
        [GOOD, r#"{"verdict":"GREEN","summary":"Another plan that is as sound and simple."}"#],
    );
    for (session, green, is_held) in [("delivered", green, false), ("held", FLAGGED, true)] {
        model.next([&red, green[0], green[1]].map(ScriptedReply::with_text));
        place_order(&world, session).await;
        wait_for_order(routes, session, if is_held { "held" } else { "delivered" }).await;
        if is_held {
            release(&daemon, session).await;
        }
        let found = evidence(&world, session);
        let of_policy: &[_] =
            if is_held { &["policy_applied", "order_stopped", "order_released"] } else { &[] };
        assert_eq!(events(&found), [&["order_attempted", "tmm_crosscheck"], of_policy].concat());
        assert_eq!(found[0]["attempt"], 2, "the second attempt made the text");
        let entries = entries(&world, session);
        let third = last(&entries, "order_attempted");
        assert_eq!(third["attempt"], 3);
        assert!(found[1]["seq"].as_u64() < third["seq"].as_u64(), "{found:?}");
        assert_eq!(found[1]["verdict_sha256"], json!(Sha256Hex::of(green[0].as_bytes())));
    }
    verify(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_of_an_erased_session_are_in_no_file() {
    let model = ModelServer::start().await;
    let world = model.create_world("[storage]\nerase_session_ids = true\n");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    model.next([ScriptedReply::with_text(GOOD)]);
    assert_eq!(request_verdict(routes, "ada").await.status, 201);
    let found = evidence(&world, "ada");
    let entries = entries(&world, "ada");
    let hashes = found.iter().chain([last(&entries, "verdict_cached")]);
    let hashes: Vec<_> = hashes.map(|entry| entry["leaf"].as_str().expect("a hash")).collect();
    for hash in &hashes {
        assert!(!files_with(&world.state(), hash).is_empty(), "{hash}");
    }
    let erased = world.ctl_in_thread(&["erase", "--session", "ada", "--reason", "asked"]).await;
    assert!(erased.status.success(), "{erased:?}");
    for hash in &hashes {
        assert_eq!(files_with(&world.state(), hash), Vec::<PathBuf>::new(), "{hash}");
    }
    let hidden: Vec<Value> =
        world.mirror().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let delivered = hidden.iter().find(|entry| entry["event"] == "verdict_cached").expect("the entry stays");
    assert!(delivered["links"]["sha256"].is_string() && delivered["session_id"]["sha256"].is_string());
    verify(&world).await;
}
