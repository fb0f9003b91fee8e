//! Verdict cards: what they show, and that each changed byte is detected, by `oraclectl` and in a real browser.

use domain_verdict::card::{FRAMES, WITHDRAWN_FRAME};
use domain_verdict::label::{ProductTier, VerdictLabel};
use oracled_api::client::DaemonClient;
use oracled_tests::generation::{coherent_answer, purge_verdict, read_verdict, request_verdict};
use oracled_tests::ground::{approve, ingest, office_documents, register_all, started_run, wait_for_run};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::witness::{ScriptedWitness, witness_key};
use oracled_tests::{DaemonWorld, GOOD, document, eventually, get, log, post, problem, submission};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::scope;

const SOURCE: &str = "office";
const RAW: &str = "Aruba,ABW,2015,101001";

fn printed(world: &DaemonWorld, arguments: &[&str]) -> String {
    let output = world.ctl(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("valid UTF-8")
}

/// Writes a file of the test, and returns its path.
fn file(world: &DaemonWorld, name: &str, text: impl AsRef<[u8]>) -> String {
    fs::write(world.path(name), text).expect("the write succeeds");
    world.path(name).to_str().expect("valid UTF-8").to_owned()
}

/// Registers a source with one record, and delivers a verdict that relies on it.
async fn deliver_with_facts(routes: &mut DaemonClient, control: &mut DaemonClient) {
    let (ontology, source, pipeline) = office_documents(SOURCE);
    register_all(control, &ontology, &source, &pipeline).await;
    let csv = format!("Country Name,Country Code,Year,Value\n{RAW}\n");
    let run = started_run(&ingest(control, SOURCE, "2020-01-01", "2020-01-01", csv).await);
    assert_eq!(wait_for_run(control, &run).await["state"], "completed");
    approve(control, SOURCE).await;
    let verdict = json!({"verdict": "GREEN", "summary": "The population of Aruba in 2015 was 101,001."});
    let mut body = submission(&verdict.to_string());
    body["query"] = json!("Is <script>alert(1)</script> \u{202e}big?");
    body["customer_email"] = json!("ada@example.org");
    body["rules"] = json!(["RULE-PREC-013"]);
    body["facts_from"] = json!([{"query": {"oracle_id": SOURCE, "request": {
        "axes_requested": ["area_name", "population"],
        "filters": [{"axis": "year", "operator": "eq", "value": 2015}]}}}]);
    let delivered = post(routes, "/v1/verdicts/facts", &body).await;
    assert_eq!(delivered.status, 201, "{}", document(&delivered));
}

/// Delivers a verdict of a model, which is lost and regenerated with another label.
async fn deliver_again(model: &ModelServer, routes: &mut DaemonClient, control: &mut DaemonClient) {
    let reply = |label| ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, label));
    model.next([reply(VerdictLabel::Green), reply(VerdictLabel::Red)]);
    assert_eq!(request_verdict(routes, "again").await.status, 201);
    purge_verdict(control, "again").await;
    assert_eq!(read_verdict(routes, "again").await.status, 200);
}

async fn read_card(routes: &mut DaemonClient, session: &str) -> String {
    let answer = get(routes, &format!("/v1/verdicts/{session}?card=1")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
    String::from_utf8(answer.body.to_vec()).expect("valid UTF-8")
}

/// Whether a page shows this row.
fn shows(page: &str, label: &str, text: &str) -> bool {
    page.contains(&format!("<dt>{label}</dt><dd>{text}</dd>"))
}

#[tokio::test]
async fn card_shows_the_facts_down_to_the_raw_record_and_nothing_of_operators() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    deliver_with_facts(routes, control).await;
    let page = read_card(routes, "facts").await;
    for (label, text) in [
        ("Session", "facts"),
        ("Verdict", "GREEN"),
        ("Text › summary", "The population of Aruba in 2015 was 101,001."),
        ("Question (first 80 characters)", "Is &lt;script&gt;alert(1)&lt;/script&gt; \\u{202e}big?"),
        ("Source", SOURCE),
        ("Release", "2020-01-01"),
        ("Fact", "The population of Aruba in 2015 was 101,001"),
        ("Raw record", RAW),
        ("Divergence", "not compared: this verdict has replaced no other one"),
    ] {
        assert!(shows(&page, label, text), "{label}: {text}\n{page}");
    }
    let reads = async || log(&mut daemon.control().await, "event=operator_read&after=0").await.len();
    let before = reads().await;
    let internal = world.ctl_in_thread(&["card", "facts", "--internal"]).await;
    assert_eq!(reads().await, before + 3, "the verdict, its entries of the log, and the read before");
    let internal = String::from_utf8(internal.stdout).expect("valid UTF-8");
    for (card, is_internal) in [(&page, false), (&internal, true)] {
        assert!(!card.contains("ada@example.org"));
        assert_eq!(
            card.contains("<dt>INTERNAL, not for customers: user id of the caller</dt>"),
            is_internal,
            "{card}"
        );
        assert_eq!(card.contains("\\\"caller\\\":{\\\"uid\\\""), is_internal);
    }
    let key = printed(&world, &["log", "key"]);
    for (name, card) in [("public", &page), ("internal", &internal)] {
        let path = file(&world, name, card);
        let report: Value =
            serde_json::from_str(&printed(&world, &["--json", "card", "verify", &path, "--key", key.trim()]))
                .expect("JSON");
        assert_eq!((&report["session_id"], &report["is_expected_key"]), (&json!("facts"), &json!(true)));
        let other = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
        assert_eq!(world.ctl(&["card", "verify", &path, "--key", other]).status.code(), Some(1));
        let report: Value =
            serde_json::from_str(&printed(&world, &["--json", "card", "verify", &path])).expect("JSON");
        assert_eq!(report["is_expected_key"], json!(false), "no key was given to compare it with");
        assert!(printed(&world, &["card", "verify", &path]).contains(key.trim()));
    }
}

#[tokio::test]
async fn card_of_a_regenerated_verdict_shows_model_prompt_and_divergence() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    deliver_again(&model, routes, control).await;
    let page = read_card(routes, "again").await;
    for (label, text) in [
        ("Verdict", "RED"),
        ("Arrived", "generated again, because the stored verdict was lost"),
        ("Model", "gemini-2.5-flash"),
        ("Verdict that was delivered first, and stays the valid one", "GREEN"),
        ("This verdict", "RED"),
        ("Facts", "this card has no entry of a check against facts"),
    ] {
        assert!(shows(&page, label, text), "{label}: {text}\n{page}");
    }
    assert!(page.contains("<dt>Prompt version</dt>"), "{page}");
    file(&world, "card", &page);
    assert!(world.ctl(&["card", "verify", world.path("card").to_str().expect("UTF-8")]).status.success());
    // no card without a verdict
    problem(&get(routes, "/v1/verdicts/nobody?card=1").await, 404, "session_unknown");
    assert_eq!(world.ctl_in_thread(&["card", "nobody"]).await.status.code(), Some(1));
    problem(&get(routes, "/v1/verdicts/again?card=2").await, 400, "invalid_request");
}

#[tokio::test]
async fn card_of_an_erased_session_names_the_erased_values_and_verifies() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    deliver_with_facts(routes, control).await;
    let before = file(&world, "before", read_card(routes, "facts").await);
    assert!(
        world.ctl_in_thread(&["erase", "--session", "facts", "--reason", "asked"]).await.status.success()
    );
    let page = read_card(routes, "facts").await;
    assert!(shows(&page, "Text", "not in this card, because it was erased or withheld"), "{page}");
    for label in ["Question (first 80 characters)", "Origin of the facts", "SHA-256 of all facts"] {
        assert!(
            page.contains(&format!("<dt>{label}</dt><dd>erased or withheld; the log keeps its SHA-256: ")),
            "{label}"
        );
    }
    assert!(!page.contains("Aruba") && !page.contains("alert(1)"), "{page}");
    let key = printed(&world, &["log", "key"]);
    let after = file(&world, "after", &page);
    for path in [&before, &after] {
        printed(&world, &["card", "verify", path, "--key", key.trim()]);
    }
    // a new session under the id has its own verdict
    assert_eq!(post(routes, "/v1/verdicts/facts", &submission(GOOD)).await.status, 201);
    assert!(read_card(routes, "facts").await.contains("<dt>Text › summary</dt>"));
}

#[tokio::test]
async fn card_of_a_verdict_without_facts_has_no_evaluation_by_the_rules_of_the_gate() {
    let world = DaemonWorld::with_config("[gate]\nrules = [\"RULE-CONT-002\"]\n");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    assert_eq!(log(control, "event=rules_evaluated").await.len(), 1);
    let before = file(&world, "before", read_card(routes, "cs_1").await);
    assert!(world.ctl_in_thread(&["erase", "--session", "cs_1", "--reason", "asked"]).await.status.success());
    let after = file(&world, "after", read_card(routes, "cs_1").await);
    for path in [&before, &after] {
        printed(&world, &["card", "verify", path]);
        assert!(!fs::read_to_string(path).expect("it is there").contains("rules_evaluated\\"), "{path}");
    }
}

#[tokio::test]
async fn card_has_the_cosignatures_of_witnesses() {
    let witness = ScriptedWitness::start();
    let world = DaemonWorld::with_config(&witness.config());
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    witness.trust(printed(&world, &["log", "key"]).trim());
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    eventually("the card is cosigned", async || {
        read_card(&mut daemon.routes().await, "cs_1").await.contains("<dt>Key of a witness</dt>")
    })
    .await;
    let page = read_card(routes, "cs_1").await;
    let path = file(&world, "card", &page);
    let report = printed(&world, &["card", "verify", &path, "--witness", &witness_key()]);
    assert!(report.contains("witness.example/w1"), "{report}");
    let without = page.replacen(&format!("\"{}\"", witness_key()), "", 1);
    assert_ne!(without, page);
    assert_eq!(world.ctl(&["card", "verify", &file(&world, "without", without)]).status.code(), Some(1));
}

/// The cards of the two kinds of verdicts.
async fn cards(model: &ModelServer, world: &DaemonWorld) -> [String; 2] {
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    deliver_with_facts(routes, control).await;
    deliver_again(model, routes, control).await;
    [read_card(routes, "facts").await, read_card(routes, "again").await]
}

#[tokio::test]
async fn random_changes_of_cards_are_detected() {
    check_changes(60).await;
}

#[tokio::test]
#[ignore = "ten thousand changes; `just torture`"]
async fn ten_thousand_random_changes_of_cards_are_detected() {
    check_changes(5000).await;
}

/// Changes each of two cards so often.
async fn check_changes(count: usize) {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let pages = cards(&model, &world).await;
    let check = |thread: usize| {
        let page = pages[thread].as_bytes();
        let path = file(&world, &format!("card-{thread}"), page);
        printed(&world, &["card", "verify", &path]);
        let mut random = fastrand::Rng::new();
        for _ in 0..count {
            let (at, bit) = (random.usize(..page.len()), 1 << random.u8(..8));
            let mut changed = page.to_vec();
            changed[at] ^= bit;
            fs::write(&path, &changed).expect("the write succeeds");
            let output = world.ctl(&["card", "verify", &path]);
            assert_eq!(output.status.code(), Some(1), "{at} {bit}: {output:?}");
        }
    };
    scope(|threads| {
        [0, 1]
            .map(|thread| threads.spawn(move || check(thread)))
            .map(|thread| thread.join().expect("no panic"))
    });
}

#[test]
fn each_published_frame_is_in_the_documentation_and_in_the_clients() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let frames: BTreeMap<String, String> = serde_json::from_str(FRAMES).expect("digests by version");
    for name in ["docs/card.md", "clients/python/src/oracled/card.py", "clients/node/src/card_page.js"] {
        let text = fs::read_to_string(root.join(name)).expect("the file is there");
        for sha256 in frames.values().map(String::as_str).chain([WITHDRAWN_FRAME]) {
            assert!(text.contains(sha256), "{name} has no version with {sha256}");
        }
    }
}

#[test]
fn stored_cards_are_verified_and_one_of_the_first_version_is_refused() {
    let world = DaemonWorld::default();
    let key = witness_key();
    for (name, witness) in
        [("card-2", None), ("card-2-erased", None), ("card-2-cosigned", Some(key.as_str()))]
    {
        let stored = format!("{}/stored/{name}.html", env!("CARGO_MANIFEST_DIR"));
        let mut arguments = vec!["card", "verify", stored.as_str()];
        arguments.extend(witness.into_iter().flat_map(|key| ["--witness", key]));
        let shown = printed(&world, &arguments);
        assert!(shown.contains("facts"), "{name}: {shown}");
    }
    let first = concat!(env!("CARGO_MANIFEST_DIR"), "/stored/card-1.html");
    let refused = world.ctl(&["card", "verify", first]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

/// Writes the cards of the present version to `tests/stored`. Run it once for each version.
#[tokio::test]
#[ignore = "writes files of the repository"]
async fn stored_cards_are_written() {
    let write = |name: &str, page: String| {
        fs::write(format!("{}/stored/{name}.html", env!("CARGO_MANIFEST_DIR")), page)
            .expect("the write succeeds");
    };
    let witness = ScriptedWitness::start();
    for (name, is_cosigned) in [("card-2", false), ("card-2-cosigned", true)] {
        let world = DaemonWorld::with_config(&if is_cosigned { witness.config() } else { String::new() });
        let daemon = world.serve().await;
        let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
        witness.trust(printed(&world, &["log", "key"]).trim());
        deliver_with_facts(routes, control).await;
        if is_cosigned {
            eventually("the card is cosigned", async || {
                read_card(&mut daemon.routes().await, "facts").await.contains("<dt>Key of a witness</dt>")
            })
            .await;
        }
        write(name, read_card(routes, "facts").await);
        if !is_cosigned {
            let erased =
                world.ctl_in_thread(&["erase", "--email", "ada@example.org", "--reason", "asked"]).await;
            assert!(erased.status.success(), "{erased:?}");
            write("card-2-erased", read_card(routes, "facts").await);
        }
    }
}

/// Verifies cards in a real browser; `tests/console.sh` calls it.
#[tokio::test]
#[ignore = "needs chromium and npm: `just console`"]
async fn browser_walks_through_cards_and_their_changes() {
    let folder = std::env::var("ORACLED_CONSOLE_WALK").expect("`tests/console.sh` sets ORACLED_CONSOLE_WALK");
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let pages = cards(&model, &world).await;
    let paths = [0, 1].map(|at| file(&world, &format!("card-{at}.html"), &pages[at]));
    let mut walk = Command::new("node");
    walk.arg("card.mjs").current_dir(Path::new(&folder)).env("CARDS", json!(paths).to_string());
    walk.env("STORED", concat!(env!("CARGO_MANIFEST_DIR"), "/stored"));
    let status = tokio::task::spawn_blocking(move || walk.status()).await.expect("it does not panic");
    assert!(status.expect("node starts").success());
}
