//! Without applications, a session belongs to the user id that registered or ordered it.
//!
//! Only root can act as several users; for others, these tests do nothing.

use domain_verdict::label::ProductTier;
use hyper::Method;
use oracled_api::client::DaemonClient;
use oracled_tests::caller::{UserRelay, is_root};
use oracled_tests::generation::{generation_request, put_session, read_verdict, request_order};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonWorld, GOOD, at, call, get, post, problem, submission};
use serde_json::{Value, json};
use std::time::Duration;

const OWNER: u32 = 65_531;
const OTHER: u32 = 65_532;

fn with_address(mut body: Value) -> Value {
    body["customer_email"] = json!("ann@example.org");
    body
}

async fn submit(routes: &mut DaemonClient, body: &Value) -> oracled_api::client::DaemonResponse {
    post(routes, "/v1/verdicts/cs_1", body).await
}

#[tokio::test]
async fn session_of_another_user_is_read_and_repeated_but_not_changed() {
    let world = DaemonWorld::with_config("socket_mode = \"0666\"");
    if !is_root(&world) {
        return;
    }
    let daemon = world.serve().await;
    let (owner, other) = (UserRelay::start(&world, OWNER).await, UserRelay::start(&world, OTHER).await);
    let (owner, other) = (&mut owner.connect().await, &mut other.connect().await);
    let session = generation_request(ProductTier::Quick);
    assert_eq!(put_session(owner, "cs_1", &session).await.status, 201);
    assert_eq!(put_session(other, "cs_1", &session).await.status, 200);
    problem(&put_session(other, "cs_1", &with_address(session.clone())).await, 403, "session_not_owned");
    problem(&submit(other, &submission(GOOD)).await, 403, "session_not_owned");
    let verdict: Value = serde_json::from_str(GOOD).expect("valid JSON");
    let mut written = session.clone();
    written["verdict"] = verdict;
    problem(&post(other, "/cache/cs_1", &written).await, 403, "session_not_owned");

    assert_eq!(submit(owner, &submission(GOOD)).await.status, 201);
    assert_eq!(read_verdict(other, "cs_1").await.status, 200);
    assert_eq!(at(&submit(other, &submission(GOOD)).await, "/replayed"), true);
    problem(&submit(other, &with_address(submission(GOOD))).await, 403, "session_not_owned");
    let control = &mut daemon.control().await;
    let shown = get(control, "/v1/sessions/cs_1").await;
    assert_eq!((at(&shown, "/owner_uid"), at(&shown, "/customer_email")), (json!(OWNER), Value::Null));

    let owner_uid = OTHER.to_string();
    let corrected = world.ctl(&["session", "correct", "cs_1", "--owner-uid", &owner_uid]);
    assert!(corrected.status.success(), "{}", String::from_utf8_lossy(&corrected.stderr));
    problem(&submit(owner, &with_address(submission(GOOD))).await, 403, "session_not_owned");
    assert_eq!(submit(other, &with_address(submission(GOOD))).await.status, 200);
    assert_eq!(at(&get(control, "/v1/sessions/cs_1").await, "/customer_email"), "ann@example.org");
}

#[tokio::test]
async fn order_of_another_user_is_read_and_repeated_but_not_cancelled() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(GOOD).after(Duration::from_secs(2)));
    let mut world = model.create_world("");
    if !is_root(&world) {
        return;
    }
    world.config = format!("socket_mode = \"0666\"\n{}", world.config);
    let _daemon = world.serve().await;
    let (owner, other) = (UserRelay::start(&world, OWNER).await, UserRelay::start(&world, OTHER).await);
    let order = generation_request(ProductTier::Quick);
    assert_eq!(request_order(owner.socket(), "cs_1", &order).await.status, 202);
    assert_eq!(request_order(other.socket(), "cs_1", &order).await.status, 202);
    let redirected = with_address(order.clone());
    problem(&request_order(other.socket(), "cs_1", &redirected).await, 403, "session_not_owned");
    let (owner, other) = (&mut owner.connect().await, &mut other.connect().await);
    assert_eq!(get(other, "/v1/orders/cs_1").await.status, 200);
    problem(&call(other, Method::DELETE, "/v1/orders/cs_1", None).await, 403, "session_not_owned");
    assert_eq!(call(owner, Method::DELETE, "/v1/orders/cs_1", None).await.status, 200);
    assert_eq!(model.request_count(), 1);
}
