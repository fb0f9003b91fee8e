//! Callers that hand a verdict in and are gone before the answer: a write that was begun is done.

use oracled_tests::load::{Ledger, check_served, field};
use oracled_tests::{World, eventually, get, submission};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

const CALLERS: u64 = 600;
/// So many call at once.
const AT_ONCE: usize = 24;

/// A submission as it stands on the wire.
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

/// Hands a verdict in and goes away after a moment, in the middle of whatever the daemon is doing about it then.
async fn call_and_go(socket: PathBuf, request: Vec<u8>, stays: Duration) {
    let mut stream = UnixStream::connect(socket).await.expect("the socket is served");
    stream.write_all(&request).await.expect("it is sent");
    tokio::time::sleep(stays).await;
}

#[tokio::test]
async fn a_disconnect_loses_no_write_that_was_begun() {
    let mut rng = fastrand::Rng::new();
    let world = World::default();
    let daemon = world.serve().await;
    let mut callers = JoinSet::new();
    for n in 0..CALLERS {
        // most in one piece, some longer than a socket takes at once, and some never whole
        let mut request = request(&format!("cs_{n}"), if n % 20 == 0 { 400_000 } else { 40 });
        request.truncate(request.len() - usize::from(n % 10 == 9));
        if callers.len() >= AT_ONCE {
            callers.join_next().await;
        }
        callers.spawn(call_and_go(world.socket(), request, Duration::from_micros(rng.u64(0..8000))));
    }
    while let Some(called) = callers.join_next().await {
        called.expect("the daemon listens");
    }
    let mut control = daemon.control().await;
    let mut status = Value::Null;
    eventually("the daemon is done", async || {
        status = get(&mut control, "/v1/status").await.json().expect("status is JSON");
        field(&status, "in_flight") == 0 && field(&status, "connections") == 0
    })
    .await;

    let chronicle = check_served(&mut control, &world.state()).await;
    let begun: Vec<_> = chronicle.judged.iter().map(|(session, _)| session).collect();
    println!("{CALLERS} callers gone without an answer, {} verdicts begun", begun.len());
    assert!(begun.len() as u64 > CALLERS / 10, "some were begun");
    assert_eq!(begun, chronicle.cached.keys().collect::<Vec<_>>(), "what was judged was delivered");
    assert!(!begun.iter().any(|session| session.ends_with('9')), "what was not whole was not looked at");
    // each was looked for and judged and admitted, though nobody waited for it any more
    let reports: Vec<Value> = get(&mut control, "/v1/actors").await.json().expect("the reports are JSON");
    let handled = |actor: &str| {
        let report = reports.iter().find(|report| field(report, "name") == actor).expect("it reports");
        field(report, "handled").clone()
    };
    assert_eq!((handled("crosscheck"), handled("cache")), (json!(begun.len()), json!(2 * begun.len())));
    let ledger = Ledger::default();
    ledger.check_answers(&mut daemon.routes().await, &chronicle, &begun).await;
    assert!(daemon.stop().success());
    ledger.check_store(&world.state());
}
