//! `/v1/verdicts/{session_id}`, from outside.

use harness::{GOOD, World, document, get, post, submission};
use serde_json::json;

#[tokio::test]
async fn a_verdict_is_delivered_once_replayed_then_and_read_back() {
    let world = World::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let first = post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await;
    assert_eq!(first.status, 201);
    let delivered = document(&first);
    assert_eq!(delivered["session_id"], "cs_1");
    assert_eq!(delivered["tier"], "quick");
    assert_eq!(delivered["query"], "Sell honey?");
    assert_eq!(delivered["verdict"]["verdict"], "GREEN");
    assert_eq!(delivered["regen"], false);
    assert_eq!(delivered["decision"]["approved"], true);
    assert!(delivered["cached_at"].is_string() && delivered.get("replayed").is_none());

    let other = r#"{"verdict":"RED","summary":"Quite another verdict."}"#;
    let again = post(routes, "/v1/verdicts/cs_1", &submission(other)).await;
    assert_eq!(again.status, 200);
    let mut expected = delivered.clone();
    expected["replayed"] = json!(true);
    assert_eq!(document(&again), expected, "the stored answer, whatever is handed in");

    for path in ["/v1/verdicts/cs_1", "/cache/cs_1"] {
        let read = get(routes, path).await;
        assert_eq!((read.status.as_u16(), document(&read)), (200, delivered.clone()), "{path}");
    }
    assert_eq!(
        world.mirror().lines().count(),
        3,
        "the start, the judgement, the caching: {}",
        world.mirror()
    );
    assert!(daemon.stop().success());
}
