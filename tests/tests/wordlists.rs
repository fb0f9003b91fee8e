//! Word lists: registration, versions, and the texts that are read with them.

use oracled_api::client::DaemonClient;
use oracled_tests::generation::{purge_verdict, read_verdict};
use oracled_tests::ground::put_document;
use oracled_tests::stream::StreamedRequest;
use oracled_tests::{DaemonWorld, at, document, get, log, post, problem};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const PATH: &str = "/v1/documents/wordlist";
const EVALUATE: &str = "/v1/rules/evaluate";

/// A version of the list `clinic` with these synonyms.
fn wordlist(version: u32, synonyms: &Value) -> Value {
    json!({
        "wordlist_id": "clinic", "version": version, "language": "en", "synonyms": synonyms,
        "abbreviations": {"BP": "blood pressure"},
        "units": {"drams": {"unit": "g", "factor": "1.7718451953125"}},
    })
}

async fn register(control: &mut DaemonClient, version: u32, synonyms: &Value) {
    let path = format!("{PATH}/clinic@{version}");
    assert_eq!(at(&put_document(control, &path, &wordlist(version, synonyms)).await, "/change"), "created");
}

/// A check of `text` with the list `name`.
fn request(text: &str, fact: &str, name: &str) -> Value {
    json!({"candidate_output": text, "facts": [fact], "rules": ["RULE-PREC-013"], "wordlist": name})
}

#[tokio::test]
async fn wordlist_is_checked_listed_and_immutable_under_its_version() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for (synonyms, fault) in [
        (json!([["car", "not"]]), "`synonyms[0][1]` is `not`"),
        (json!([["car", "auto"], ["van", "cars"]]), "`synonyms[1][1]` is `cars`"),
        (json!([["car"]]), "`synonyms[0]` has 1 "),
    ] {
        let refused = put_document(control, &format!("{PATH}/clinic@1"), &wordlist(1, &synonyms)).await;
        let detail = problem(&refused, 400, "invalid_document")["detail"].as_str().map(str::to_owned);
        assert!(detail.as_ref().is_some_and(|detail| detail.contains(fault)), "{detail:?}");
    }
    register(control, 1, &json!([["car", "auto"]])).await;
    let same =
        put_document(control, &format!("{PATH}/clinic@1"), &wordlist(1, &json!([["car", "auto"]]))).await;
    assert_eq!(at(&same, "/change"), "unchanged");
    let other =
        put_document(control, &format!("{PATH}/clinic@1"), &wordlist(1, &json!([["car", "van"]]))).await;
    problem(&other, 409, "document_fixed");
    assert_eq!(at(&get(control, PATH).await, "/items/0/document_id"), "clinic@1");

    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/wordlists/clinic.yaml");
    let text = fs::read_to_string(&example).expect("the read succeeds");
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/supported-claims.md"));
    let document = text.get(text.find("kind:").expect("a document")..).expect("a document");
    assert!(page.expect("the read succeeds").contains(document), "the page has another example");
    fs::write(world.path("list.yaml"), text.replace("version: 1", "version: 3")).expect("the write succeeds");
    let file = world.path("list.yaml").display().to_string();
    let applied = world.ctl_in_thread(&["apply", "-f", &file]).await;
    assert!(applied.status.success(), "{applied:?}");
    let newest = world.ctl_in_thread(&["get", "wordlist", "clinic"]).await;
    let newest = String::from_utf8(newest.stdout).expect("UTF-8");
    assert!(newest.lines().any(|line| line == "version: 3"), "{newest}");
}

#[tokio::test]
async fn synonyms_abbreviations_and_units_support_a_claim() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    register(control, 1, &json!([["physician", "doctor"], ["heart attack", "coronary"]])).await;
    for (text, fact) in [
        ("The physician is here.", "The doctor is here"),
        ("The coronary was fatal.", "The heart attack was fatal"),
        ("The BP is high.", "The blood pressure is high"),
        ("The pill weighs 16 drams.", "The pill weighs 1 oz"),
    ] {
        let evaluation = post(routes, EVALUATE, &request(text, fact, "clinic")).await;
        assert_eq!(at(&evaluation, "/verdict"), "PASS", "{text}: {}", document(&evaluation));
        assert_eq!(at(&evaluation, "/wordlist"), "clinic@1");
        let without = json!({"candidate_output": text, "facts": [fact], "rules": ["RULE-PREC-013"]});
        let without = post(routes, EVALUATE, &without).await;
        assert_eq!((at(&without, "/verdict"), at(&without, "/wordlist")), (json!("FAIL"), Value::Null));
    }
    let logged = log(control, "event=rules_evaluated").await;
    assert_eq!(logged.iter().filter(|entry| entry["wordlist"] == "clinic@1").count(), 4);

    fs::write(world.path("text.txt"), "The BP of the physicians is high.").expect("the write succeeds");
    fs::write(world.path("facts.txt"), "The blood pressure of the nurses is high")
        .expect("the write succeeds");
    let [text, facts] = ["text.txt", "facts.txt"].map(|name| world.path(name).display().to_string());
    let args =
        ["rules", "check", &text, "--facts", &facts, "--rules", "RULE-PREC-013", "--wordlist", "clinic"];
    let checked = world.ctl_in_thread(&args).await;
    let shown = String::from_utf8_lossy(&checked.stdout);
    assert!(shown.contains("clinic@1") && shown.contains("synonym"), "{checked:?}");
}

#[tokio::test]
async fn evaluation_with_a_version_stays_the_same_after_a_newer_version_and_a_restart() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    register(control, 1, &json!([["physician", "doctor"]])).await;
    let [with_first, with_newest] =
        ["clinic@1", "clinic"].map(|name| request("The physician is here.", "The doctor is here", name));
    let first = post(routes, EVALUATE, &with_first).await.body;
    assert_eq!(post(routes, EVALUATE, &with_newest).await.body, first);
    register(control, 2, &json!([["physician", "surgeon"]])).await;
    register(control, 10, &json!([["nurse", "surgeon"]])).await;
    let newest = post(routes, EVALUATE, &with_newest).await;
    assert_eq!((at(&newest, "/verdict"), at(&newest, "/wordlist")), (json!("FAIL"), json!("clinic@10")));
    assert_eq!(post(routes, EVALUATE, &with_first).await.body, first);
    assert!(daemon.stop().success());

    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    assert_eq!(post(routes, EVALUATE, &with_first).await.body, first);
    assert_eq!(post(routes, EVALUATE, &with_newest).await.body, newest.body);
    let lines = [with_first, with_newest, request("x", "x", "other")].map(|line| line.to_string()).join("\n");
    let mut batch = StreamedRequest::begin(&world.socket(), "/v1/rules/evaluate:batch").await;
    batch.send(lines).await.expect("the server listens");
    batch.finish().await.expect("the server listens");
    let answers = json!(batch.rest().await);
    for (place, expected) in [
        ("/0/evaluation/wordlist", "clinic@1"),
        ("/1/evaluation/wordlist", "clinic@10"),
        ("/2/problem/code", "wordlist_unknown"),
    ] {
        assert_eq!(answers.pointer(place), Some(&json!(expected)), "{answers}");
    }
}

#[tokio::test]
async fn request_is_refused_if_its_wordlist_does_not_fit() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    register(control, 1, &json!([["physician", "doctor"]])).await;
    let with = |members: Value| {
        let mut request = request("The physician is here.", "The doctor is here", "clinic");
        if let (Some(request), Some(members)) = (request.as_object_mut(), members.as_object()) {
            request.extend(members.clone());
        }
        request
    };
    for (members, status, code, fault) in [
        (json!({"wordlist": "other"}), 404, "wordlist_unknown", " other "),
        (json!({"wordlist": "clinic@2"}), 404, "wordlist_unknown", "clinic@2"),
        (json!({"wordlist": "Clinic"}), 400, "invalid_request", "`Clinic`"),
        (json!({"language": "de"}), 400, "invalid_request", "clinic@1 is for `en`"),
        (json!({"rules": ["RULE-PREC-001"]}), 400, "invalid_request", "`wordlist`"),
    ] {
        let refused = post(routes, EVALUATE, &with(members)).await;
        let detail = problem(&refused, status, code)["detail"].to_string();
        assert!(detail.contains(fault), "{detail}");
    }
    let evaluation = post(routes, EVALUATE, &with(json!({"language": "en"}))).await;
    assert_eq!(at(&evaluation, "/verdict"), "PASS");
}

#[tokio::test]
async fn verdict_is_checked_with_the_version_of_its_first_check() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    register(control, 1, &json!([["plan", "scheme"]])).await;
    let submission = |raw: &str| {
        json!({
            "tier": "quick", "query": "Sell honey?", "raw": raw, "facts": ["The plan is sound and simple"],
            "rules": ["RULE-PREC-013"], "wordlist": "clinic",
        })
    };
    let verdict = r#"{"verdict": "GREEN", "summary": "The scheme is sound and simple."}"#;
    let stored = post(routes, "/v1/verdicts/cs_1", &submission(verdict)).await;
    assert_eq!(stored.status, 201, "{}", document(&stored));
    register(control, 2, &json!([["honey", "nectar"]])).await;
    // the same request is a repetition, although the newest version is another one
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(verdict)).await.status, 200);
    problem(&post(routes, "/v1/verdicts/cs_2", &submission(verdict)).await, 422, "rules_rejected");
    let without_facts = json!({"tier": "quick", "query": "?", "raw": verdict, "wordlist": "clinic"});
    let refused = problem(&post(routes, "/v1/verdicts/cs_3", &without_facts).await, 400, "invalid_request");
    let detail = refused["detail"].to_string();
    assert!(detail.contains("`wordlist`") && detail.contains("`facts`"), "{refused}");

    // a submission for the lost verdict, without facts, is checked by the check of the session
    purge_verdict(control, "cs_1").await;
    let again = json!({"tier": "quick", "query": "Sell honey?", "raw": verdict});
    let again = post(routes, "/v1/verdicts/cs_1", &again).await;
    assert!([200, 201].contains(&again.status.as_u16()), "{}", document(&again));
    assert_eq!(read_verdict(routes, "cs_1").await.status, 200);
    let logged = log(control, "event=rules_evaluated").await;
    let lists: Vec<_> = logged.iter().map(|entry| (&entry["session_id"], &entry["wordlist"])).collect();
    assert!(
        lists.iter().filter(|list| **list == (&json!("cs_1"), &json!("clinic@1"))).count() >= 2,
        "{lists:?}"
    );

    let key = String::from_utf8(world.ctl_in_thread(&["log", "key"]).await.stdout).expect("valid UTF-8");
    assert!(daemon.stop().success());
    let state = world.state().display().to_string();
    let replayed = world.ctl(&["--json", "verify-log", &state, "--key", key.trim(), "--replay"]);
    let report: Value = serde_json::from_slice(&replayed.stdout).expect("JSON");
    let counts = &report["replay"]["events"]["rules_evaluated"];
    // the verdict of cs_2 was rejected, and is not stored
    assert_eq!((&counts["reproduced"], &counts["different"]), (&json!(2), &json!(0)), "{report}");
}
