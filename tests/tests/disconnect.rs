//! Clients that submit a verdict and disconnect before the answer: a write that has begun is completed.

use oracled_tests::load::{AnswerLedger, check_served, field};
use oracled_tests::{DaemonWorld, eventually, get, submission};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

const CALLERS: u64 = 600;
/// Clients that are connected at the same time.
const AT_ONCE: usize = 24;

/// The bytes of a submission on the wire.
fn request(session: &str, summary_bytes: usize) -> Vec<u8> {
    let verdict = json!({"verdict": "GREEN", "summary": "s".repeat(summary_bytes)}).to_string();
    let body = submission(&verdict).to_string();
    let head = format!(
        "POST /v1/verdicts/{session} HTTP/1.1\r\nhost: oracled\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// Submits a verdict and disconnects after `stays`, while the daemon may be at any step.
async fn submit_and_disconnect(socket: PathBuf, request: Vec<u8>, stays: Duration) {
    let mut stream = UnixStream::connect(socket).await.expect("the socket is served");
    stream.write_all(&request).await.expect("the request is sent");
    tokio::time::sleep(stays).await;
}

#[tokio::test]
async fn disconnect_loses_no_write_that_has_begun() {
    let mut rng = fastrand::Rng::new();
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let mut callers = JoinSet::new();
    for n in 0..CALLERS {
        // most fit in one piece, some are longer than a socket buffer, and some are incomplete
        let mut request = request(&format!("cs_{n}"), if n % 20 == 0 { 400_000 } else { 40 });
        request.truncate(request.len() - usize::from(n % 10 == 9));
        if callers.len() >= AT_ONCE {
            callers.join_next().await;
        }
        callers.spawn(submit_and_disconnect(
            world.socket(),
            request,
            Duration::from_micros(rng.u64(0..8000)),
        ));
    }
    while let Some(called) = callers.join_next().await {
        called.expect("the daemon listens");
    }
    let mut control = daemon.control().await;
    let mut status = Value::Null;
    eventually("no request is in flight", async || {
        status = get(&mut control, "/v1/status").await.json().expect("status is JSON");
        field(&status, "in_flight") == 0 && field(&status, "connections") == 0
    })
    .await;

    let chronicle = check_served(&mut control, &world.state()).await;
    let judged_sessions: Vec<_> = chronicle.judged.iter().map(|(session, _)| session).collect();
    println!("{CALLERS} callers disconnected without an answer, {} verdicts started", judged_sessions.len());
    assert!(judged_sessions.len() as u64 > CALLERS / 10, "some submissions were started");
    assert_eq!(
        judged_sessions,
        chronicle.cached.keys().collect::<Vec<_>>(),
        "each judged verdict was delivered"
    );
    assert!(
        !judged_sessions.iter().any(|session| session.ends_with('9')),
        "incomplete requests were not judged"
    );
    // each verdict was looked up, judged and admitted, although no client waited for the answer
    let reports: Vec<Value> = get(&mut control, "/v1/actors").await.json().expect("the reports are JSON");
    let handled = |actor: &str| {
        let report =
            reports.iter().find(|report| field(report, "name") == actor).expect("the actor has a report");
        field(report, "handled").clone()
    };
    assert_eq!(
        (handled("crosscheck"), handled("cache")),
        (json!(judged_sessions.len()), json!(2 * judged_sessions.len()))
    );
    let ledger = AnswerLedger::default();
    ledger.check_answers(&mut daemon.routes().await, &chronicle, &judged_sessions).await;
    assert!(daemon.stop().success());
    ledger.check_store(&world.state());
}
