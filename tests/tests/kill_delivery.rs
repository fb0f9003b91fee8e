//! `kill -9` between noting a regeneration, asking the model, the gate, the commit and the mail: within the limit the
//! model is asked once, no mail is lost, and no verdict is there without its entries.

use hyper::Method;
use oracled_api::base::client::Client;
use oracled_tests::model::{ModelServer, Reply, Seen};
use oracled_tests::{GOOD, World, document, eventually, get, whole_log};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// So many sessions are read for the first time in each round.
const SESSIONS: usize = 40;
/// Those of a round are done after so long, if nobody is killed.
const ROUND_MS: u64 = 60;

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Tells of a session whose verdict was GREEN, and whose customer has an address.
async fn register(routes: &mut Client, session: &str) {
    let body = json!({
        "tier": "quick",
        "query": format!("the question of {session}."),
        "customer_email": "a@example.org",
        "original_verdict": "GREEN",
    });
    let path = format!("/v1/sessions/{session}");
    let answer = routes.call(Method::PUT, &path, Some(body.to_string().into())).await.expect("it answers");
    assert_eq!(answer.status, 201, "{}", document(&answer));
}

/// Reads a session's verdict, and hands back what came, if anything did.
async fn read(socket: PathBuf, session: String) -> Option<(u16, String)> {
    let mut client = Client::connect(&socket).await.ok()?;
    let answer = client.call(Method::GET, &format!("/v1/verdicts/{session}"), None).await.ok()?;
    Some((answer.status.as_u16(), session))
}

/// Has a session's first verdict made, and hands back what came, if anything did.
async fn order(socket: PathBuf, session: String) -> Option<(u16, String)> {
    let body = json!({
        "tier": "quick",
        "query": format!("the question of {session}."),
        "customer_email": "a@example.org",
    });
    let mut client = Client::connect(&socket).await.ok()?;
    let path = format!("/v1/verdicts/{session}");
    let answer = client.call(Method::POST, &path, Some(body.to_string().into())).await.ok()?;
    Some((answer.status.as_u16(), session))
}

/// Reads, or orders, the verdicts of these sessions at once, and hands back what was answered.
async fn ask_all(socket: PathBuf, sessions: Vec<String>) -> Vec<(u16, String)> {
    let asked: Vec<_> = sessions
        .into_iter()
        .map(|session| {
            let socket = socket.clone();
            tokio::spawn(async move {
                if is_ordered(&session) { order(socket, session).await } else { read(socket, session).await }
            })
        })
        .collect();
    let mut answered = Vec::new();
    for asked in asked {
        answered.extend(asked.await.expect("nobody panics"));
    }
    answered
}

/// Every other session's verdict is a first one.
fn is_ordered(session: &str) -> bool {
    session.ends_with(['0', '2', '4', '6', '8'])
}

/// The sessions of a round.
fn sessions_of(round: usize) -> Vec<String> {
    (0..SESSIONS).map(|number| format!("cs_{round}_{number}")).collect()
}

/// The sessions that each request names in what `of` finds in it, and how often.
fn counted<'r>(requests: &'r [Seen], of: impl Fn(&'r Seen) -> String) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for request in requests {
        *counted.entry(of(request)).or_default() += 1;
    }
    counted
}

/// The session whose question a prompt holds.
fn asked_about(request: &Seen) -> String {
    let prompt = request.body.to_string();
    let session = prompt.split("the question of ").nth(1).and_then(|rest| rest.split('.').next());
    session.expect("the prompt holds the query").to_owned()
}

/// The session of which a mail speaks, by the key that is the same at each attempt.
fn told_about(request: &Seen) -> String {
    let key = request.header("idempotency-key").expect("each mail has its key");
    let session = key.split(':').nth(1).expect("it names its session").to_owned();
    assert_eq!(key.starts_with("verdict:"), is_ordered(&session), "{key}");
    session
}

/// The sessions that have an event of this name: one each.
fn with_event(log: &[Value], event: &str) -> BTreeSet<String> {
    let entries = log.iter().filter(|entry| text(entry, "event") == event);
    let sessions: Vec<_> = entries.map(|entry| text(entry, "session_id").to_owned()).collect();
    let set: BTreeSet<_> = sessions.iter().cloned().collect();
    assert_eq!(set.len(), sessions.len(), "one {event} a session: {sessions:?}");
    set
}

async fn kill_amid_deliveries(rounds: usize) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let (model, mailbox) = (ModelServer::start().await, ModelServer::start().await);
    model.otherwise(Reply::saying(&GOOD.replace("GREEN", "RED")).after(Duration::from_millis(3)));
    mailbox.otherwise(Reply::bytes(200, "{}").after(Duration::from_millis(1)));
    let world = World::with_config(&format!(
        "[model]\nprovider = \"openai\"\nname = \"made-up\"\nbase_url = \"{}\"\ncalls_per_minute = 1000000\ncalls_at_once = 1000\n\
         [mail]\ntransport = \"http\"\nbase_url = \"{}\"",
        model.openai_url(),
        mailbox.url(),
    ));
    let mut acknowledged = BTreeSet::new();
    for round in 0..rounds {
        let daemon = world.serve().await;
        let sessions = sessions_of(round);
        for session in sessions.iter().filter(|session| !is_ordered(session)) {
            register(&mut daemon.routes().await, session).await;
        }
        let asked = tokio::spawn(ask_all(world.socket(), sessions));
        tokio::time::sleep(Duration::from_micros(rng.u64(0..ROUND_MS * 1000))).await;
        daemon.kill();
        let answered = asked.await.expect("nobody panics");
        acknowledged.extend(answered.into_iter().filter(|(status, _)| *status < 300).map(|(_, id)| id));
    }

    let daemon = world.serve().await;
    let mut there = BTreeSet::new();
    for round in 0..rounds {
        for (status, session) in ask_all(world.socket(), sessions_of(round)).await {
            // 429: the attempt was noted, and cut short by the kill; an order is simply repeated
            assert!(status < 300 || (status == 429 && !is_ordered(&session)), "{session}: {status}");
            if status < 300 {
                there.insert(session);
            }
        }
    }
    assert!(acknowledged.is_subset(&there), "what was answered is there");
    println!("{} acknowledged amid kills, {} there in the end", acknowledged.len(), there.len());

    let asked = counted(&model.requests(), asked_about);
    let lost = asked.iter().filter(|(session, _)| !is_ordered(session));
    assert!(
        lost.clone().all(|(_, times)| *times == 1),
        "the model is asked once for what was lost: {asked:?}"
    );
    eventually("the outbox is empty", async || {
        let outbox = document(&get(&mut daemon.control().await, "/v1/outbox").await);
        outbox.get("items") == Some(&json!([]))
    })
    .await;
    check(&whole_log(&mut daemon.control().await).await, &there, &asked, &mailbox.requests(), rounds);
}

/// Holds the log against what is there, who was asked, and who was told.
fn check(
    log: &[Value],
    there: &BTreeSet<String>,
    asked: &BTreeMap<String, usize>,
    mails: &[Seen],
    kills: usize,
) {
    for event in ["tmm_crosscheck", "verdict_cached", "mail_queued", "mail_sent"] {
        assert_eq!(with_event(log, event), *there, "{event}");
    }
    let lost: BTreeSet<_> = there.iter().filter(|session| !is_ordered(session)).cloned().collect();
    assert_eq!(with_event(log, "regen_divergence_check"), lost);
    let (attempted, heard) = (with_event(log, "regen_attempted"), with_event(log, "oracle_interaction"));
    assert!(there.is_subset(&heard), "no verdict without the call that made it");
    let noted = |session: &&String| is_ordered(session) || attempted.contains(*session);
    assert!(heard.iter().all(|session| noted(&session)), "each call was noted before it was made");
    assert!(asked.keys().all(|session| noted(&session)), "nobody was asked for without a note");
    let told = counted(mails, told_about);
    assert_eq!(told.keys().cloned().collect::<BTreeSet<_>>(), *there, "no mail was lost");
    let doubled = told.values().map(|times| times - 1).sum::<usize>();
    println!("{} mails, {doubled} of them sent again after a kill", told.len());
    // what was under way when the daemon was killed: four at once
    assert!(doubled <= 4 * kills, "{told:?}");
}

#[tokio::test]
async fn kills_amid_deliveries_cost_no_second_call_no_mail_and_no_entry() {
    kill_amid_deliveries(4).await;
}

#[tokio::test]
#[ignore = "60 kills; `just torture`"]
async fn sixty_kills_amid_deliveries_cost_no_second_call_no_mail_and_no_entry() {
    kill_amid_deliveries(60).await;
}
