//! The socket for reviewers: reviews, held orders and notices about recalled verdicts, and nothing else.

use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::described::{METHODS, documents};
use oracled_tests::generation::{place_order, read_verdict, wait_for_order};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::verification::{register, register_offices, workflow};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, at, call, document, get, log, post, problem, submission,
};
use serde_json::{Value, json};

/// An approved verdict with the flag `short_summary`.
const FLAGGED: &str = r#"{"verdict":"GREEN","summary":"q7xHeld7z"}"#;
const HOLD: &str = "[gate]\nhold = [\"short_summary\"]\n";
const ADDRESS: &str = "ann@example.org";

/// Submits a verdict with the address of a customer.
async fn submit(daemon: &DaemonProcess<'_>, session: &str, raw: &str) -> DaemonResponse {
    let mut body = submission(raw);
    body["customer_email"] = json!(ADDRESS);
    post(&mut daemon.routes().await, &format!("/v1/verdicts/{session}"), &body).await
}

async fn decide(client: &mut DaemonClient, session: &str, action: &str) -> DaemonResponse {
    post(client, &format!("/v1/orders/{session}"), &json!({"action": action, "reason": "reviewed"})).await
}

/// Opens a review, and returns its id.
async fn open_review(daemon: &DaemonProcess<'_>) -> String {
    register_offices(daemon, &[("office-a", "primary", "54208"), ("office-b", "primary", "54608")]).await;
    let workflow = workflow("census", &["office-a", "office-b"], json!({}));
    register(&mut daemon.control().await, &workflow).await;
    verify(daemon).await
}

fn question() -> Value {
    json!({"workflow": "census", "where": {"area": "ABW", "year": 1960}, "axes": ["population"]})
}

/// Asks for the disputed value, and returns the id of the review.
async fn verify(daemon: &DaemonProcess<'_>) -> String {
    let answer = post(&mut daemon.routes().await, "/v1/verify", &question()).await;
    at(&answer, "/review_id").as_str().expect("a review is open").to_owned()
}

#[tokio::test]
async fn review_socket_lacks_all_other_routes_of_both_sockets() {
    let world = DaemonWorld::for_reviewers("");
    let daemon = world.serve().await;
    let review = &mut daemon.review().await;
    let [routes, control, own] = documents();
    let paths = |document: &Value| document["paths"].as_object().expect("paths").clone();
    let mut others = 0;
    for (path, item) in paths(routes).into_iter().chain(paths(control)) {
        for method in METHODS.iter().filter(|method| item.get(*method).is_some()) {
            if own["paths"][&path].get(*method).is_some() {
                continue;
            }
            let sent: Method = method.to_uppercase().parse().expect("a method");
            let answer = call(review, sent, &path, None).await;
            let code = at(&answer, "/code");
            assert!(code == "not_found" || code == "method_not_allowed", "{method} {path}: {answer:?}");
            others += 1;
        }
    }
    assert!(others > 60, "only {others} routes were called");
}

#[tokio::test]
async fn reviewer_decides_reviews_and_the_entries_name_the_socket() {
    let world = DaemonWorld::for_reviewers("");
    let daemon = world.serve().await;
    let id = open_review(&daemon).await;
    let (review, control) = (&mut daemon.review().await, &mut daemon.control().await);
    let path = format!("/v1/reviews/{id}");
    let listed = document(&get(review, "/v1/reviews").await);
    assert_eq!(listed["items"][0]["review_id"], id.as_str());
    let inbox = document(&get(review, "/v1/inbox?source=office-b").await);
    assert_eq!(inbox["counts"], json!({"review": 1, "held_order": 0, "recall_notice": 0}));
    let item = &inbox["items"][0];
    assert_eq!((&item["id"], &item["title"]), (&json!(id), &json!("Population, Aruba, 1960")));
    assert_eq!(
        (&item["link"], &item["sources"]),
        (&json!(path.trim_start_matches("/v1")), &json!(["office-a", "office-b"]))
    );
    assert!(
        item["cause"].as_str().is_some_and(|cause| cause.starts_with("office-a 54208, office-b 54608: ")),
        "{item}"
    );
    problem(&get(review, "/v1/inbox?kind=held_run").await, 400, "invalid_request");
    let read = document(&get(review, &path).await);
    assert_eq!((&read, &read["title"]), (&document(&get(control, &path).await), &item["title"]));
    let evidence = document(&get(review, &format!("{path}/evidence")).await);
    assert_eq!((&evidence["units"]["population"], &evidence["title"]), (&json!("{person}"), &item["title"]));
    let raw_text = evidence["raw_texts"]["office-a"].as_str().expect("a raw record");
    assert!(raw_text.contains("ABW") && raw_text.contains("54208"), "{evidence}");
    problem(&get(review, "/v1/reviews/none/evidence").await, 404, "review_unknown");
    let resolution = json!({"values": {"population": "54208"}, "reason": "seen", "valid_for_seconds": 600});
    let reason = json!({"reason": "misread"});
    assert_eq!(post(review, &format!("{path}/resolve"), &resolution).await.status, 200);
    let settled = post(&mut daemon.routes().await, "/v1/verify", &question()).await;
    assert_eq!(at(&settled, "/kind"), "authoritative");
    assert_eq!(post(review, &format!("{path}/revoke"), &reason).await.status, 200);
    let comment = json!({"text": "the office confirms it"});
    assert_eq!(post(review, &format!("{path}/comments"), &comment).await.status, 200);
    let second = verify(&daemon).await;
    assert_eq!(post(review, &format!("/v1/reviews/{second}/dismiss"), &reason).await.status, 200);
    for event in ["review_resolved", "review_revoked", "review_dismissed", "review_commented"] {
        let entry = log(control, &format!("event={event}")).await.remove(0);
        let caller = &entry["caller"];
        assert_eq!((&caller["socket"], caller.get("application")), (&json!("review"), None), "{entry}");
        assert_eq!(caller["pid"], std::process::id());
    }
    let entry = log(control, "event=document_registered").await.remove(0);
    assert_eq!(entry["caller"].get("socket"), None, "{entry}");
    let key = world.ctl(&["log", "key"]);
    let key = String::from_utf8(key.stdout).expect("valid UTF-8");
    assert!(daemon.stop().success());
    let state = world.state().display().to_string();
    let replayed = world.ctl(&["--json", "verify-log", &state, "--key", key.trim(), "--replay"]);
    let report: Value = serde_json::from_slice(&replayed.stdout).expect("JSON");
    let decisions = &report["replay"]["events"]["verification_decided"];
    assert!(replayed.status.success(), "{report}");
    assert_eq!((&decisions["reproduced"], &decisions["different"]), (&json!(3), &json!(0)), "{report}");
}

#[tokio::test]
async fn reviewer_reads_and_decides_held_orders_without_their_addresses() {
    let world = DaemonWorld::for_reviewers(HOLD);
    let daemon = world.serve().await;
    let review = &mut daemon.review().await;
    for session in ["cs_1", "cs_2"] {
        assert_eq!(submit(&daemon, session, FLAGGED).await.status, 202);
    }
    let mut shown = String::new();
    let inbox = document(&get(review, "/v1/inbox?kind=held_order&limit=1").await);
    assert_eq!(
        (&inbox["items"][0]["id"], &inbox["counts"]["held_order"]),
        (&json!("cs_1"), &json!(2)),
        "{inbox}"
    );
    for path in ["/v1/orders", "/v1/orders?state=held", "/v1/orders/cs_1", "/v1/orders/cs_1/verdict"] {
        let answer = get(review, path).await;
        assert_eq!(answer.status, 200, "{path}: {}", document(&answer));
        shown += &document(&answer).to_string();
    }
    assert!(shown.contains("q7xHeld7z") && !shown.contains(ADDRESS), "{shown}");
    problem(&get(review, "/v1/orders?state=failed").await, 400, "invalid_request");
    problem(&decide(review, "cs_1", "retry").await, 503, "model_unavailable");
    let released = decide(review, "cs_1", "release").await;
    assert_eq!((released.status.as_u16(), at(&released, "/state")), (200, json!("delivered")));
    let failed = decide(review, "cs_2", "fail").await;
    assert_eq!((failed.status.as_u16(), at(&failed, "/state")), (200, json!("failed")));
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).expect("users can be read");
    let name = json!(user.map(|user| user.name));
    assert_eq!(at(&failed, "/operator_action/user_name"), name);
    let control = &mut daemon.control().await;
    for event in ["session=cs_1&event=order_released", "session=cs_2&event=order_stopped"] {
        let entry = log(control, event).await.pop().expect("an entry");
        assert_eq!((&entry["caller"]["socket"], &entry["user_name"]), (&json!("review"), &name), "{entry}");
        assert!(entry["salts"]["user_name"].is_string(), "the name can be erased: {entry}");
    }
}

#[tokio::test]
async fn order_that_is_not_held_does_not_exist_for_reviewers() {
    let model = ModelServer::start().await;
    // the first order is delivered, the second waits for the model
    model.next([ScriptedReply::with_text(GOOD)]);
    model.set_default(ScriptedReply::json(503, &json!({})));
    let config = format!("{HOLD}[orders]\nmax_age_s = 86400\n");
    let mut world = model.create_world(&config);
    world.add_review_socket();
    let daemon = world.serve().await;
    let (routes, review) = (&mut daemon.routes().await, &mut daemon.review().await);
    place_order(&world, "cs_1").await;
    wait_for_order(routes, "cs_1", "delivered").await;
    place_order(&world, "cs_2").await;
    for session in ["cs_3", "cs_4"] {
        assert_eq!(submit(&daemon, session, FLAGGED).await.status, 202);
    }
    assert_eq!(decide(&mut daemon.control().await, "cs_3", "fail").await.status, 200);
    let listed = document(&get(review, "/v1/orders").await);
    let [held] = &listed["items"].as_array().expect("a list")[..] else { panic!("{listed}") };
    assert_eq!(held["session_id"], "cs_4");
    for session in ["cs_1", "cs_2", "cs_3", "no-such"] {
        let path = format!("/v1/orders/{session}");
        let unknown = problem(&get(review, &path).await, 404, "order_unknown");
        problem(&get(review, &format!("{path}/verdict")).await, 404, "order_unknown");
        for action in ["release", "fail", "retry"] {
            let same = problem(&decide(review, session, action).await, 404, "order_unknown");
            assert_eq!(same["detail"], unknown["detail"], "{session} {action}");
        }
    }
    let control = &mut daemon.control().await;
    let states = ["cs_1", "cs_2", "cs_3"].map(|session| format!("/v1/orders/{session}"));
    let mut read = Vec::new();
    for path in &states {
        read.push(at(&get(control, path).await, "/state"));
    }
    assert!(read[0] == "delivered" && read[1] != "failed" && read[2] == "failed", "{read:?}");
    assert_eq!(read_verdict(routes, "cs_1").await.status, 200);
}

#[tokio::test]
async fn review_socket_is_optional_and_closed_to_other_users() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    assert!(!world.review_socket().exists());
    assert!(daemon.stop().success());
    let world = DaemonWorld::for_reviewers("review_socket_mode = \"0660\"");
    let daemon = world.serve().await;
    let shown = world.ctl(&["orders", "--control-socket", &world.review_socket().display().to_string()]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    assert!(daemon.stop().success());
    assert!(!world.review_socket().exists(), "a socket that the daemon bound is removed");
}
