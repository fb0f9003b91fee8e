//! A verification belongs to the application that asked for it, and without applications to its user id.
//!
//! Only root can act as several users; for others, these tests do nothing.

use domain_base::caller::{PeerCredentials, RequestCaller};
use domain_base::event::AuditEvent;
use domain_verification::DecisionInputs;
use domain_verification::envelope::Envelope;
use domain_verification::event::{VerificationDecided, VerificationEntry};
use hyper::header::HeaderName;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_api::streamed_body::StreamedBody;
use oracled_store::{JournalRecord, RecordCallers};
use oracled_tests::caller::{UserRelay, is_root};
use oracled_tests::ground::open_store;
use oracled_tests::verification::{register, register_offices, workflow};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, at, document, error_line, eventually, get, log, post, problem,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const SHOP: u32 = 65_531;
const HELP: u32 = 65_532;
const OPEN: &str = "socket_mode = \"0666\"\n";
const AXES: [&str; 2] = ["area_name", "population"];

/// The configuration of applications, each with its user id and a further line.
fn config(applications: &[(&str, u32, &str)]) -> String {
    let section =
        |(name, uid, more): &(&str, u32, &str)| format!("[applications.{name}]\nuids = [{uid}]\n{more}\n");
    OPEN.to_owned() + &applications.iter().map(section).collect::<String>()
}

/// Registers two workflows over one office: `census` decides at once, `later` afterwards.
async fn register_workflows(daemon: &DaemonProcess<'_>) {
    register_offices(daemon, &[("office-a", "primary", "54208")]).await;
    let control = &mut daemon.control().await;
    register(control, &workflow("census", &["office-a"], json!({"axes": AXES}))).await;
    let delayed = json!({"axes": AXES, "authority_latency": {"authority_latency_budget_ms": 100,
        "enforcement_mode": "ASYNC", "on_timeout_behavior": "ESCALATE"}});
    register(control, &workflow("later", &["office-a"], delayed)).await;
}

fn question(workflow: &str) -> Value {
    json!({"workflow": workflow, "where": {"area": "ABW", "year": 1960}, "axes": AXES})
}

/// Verifies in `workflow`, and returns the execution id.
async fn verify(routes: &mut DaemonClient, workflow: &str) -> String {
    let answer = post(routes, "/v1/verify", &question(workflow)).await;
    assert!(answer.status.is_success(), "{}", document(&answer));
    at(&answer, "/execution_id").as_str().expect("an id").to_owned()
}

async fn read(routes: &mut DaemonClient, id: &str) -> DaemonResponse {
    get(routes, &format!("/v1/verify/{id}")).await
}

async fn status(routes: &mut DaemonClient, id: &str) -> u16 {
    read(routes, id).await.status.as_u16()
}

/// An answer about `id`, without the id and the date of the request.
fn comparable(answer: &DaemonResponse, id: &str) -> (u16, Vec<String>, String) {
    let request_id = answer.headers["x-request-id"].to_str().expect("visible ASCII");
    let is_compared = |name: &HeaderName| !["x-request-id", "date"].contains(&name.as_str());
    let headers = answer.headers.iter().filter(|(name, _)| is_compared(name));
    let body = String::from_utf8(answer.body.to_vec()).expect("UTF-8");
    let body = body.replace(request_id, "REQUEST").replace(id, "ID");
    (answer.status.as_u16(), headers.map(|(name, value)| format!("{name}: {value:?}")).collect(), body)
}

/// The execution ids of all verifications, from the log.
async fn all_executions(daemon: &DaemonProcess<'_>) -> BTreeSet<String> {
    let entries = log(&mut daemon.control().await, "event=verification_decided").await;
    entries.iter().filter_map(|entry| entry["execution_id"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn verification_of_another_application_is_unknown() {
    let world = DaemonWorld::with_config(&config(&[("shop", SHOP, ""), ("help", HELP, "")]));
    if !is_root(&world) {
        return;
    }
    let daemon = world.serve().await;
    register_workflows(&daemon).await;
    let (shop, help) = (UserRelay::start(&world, SHOP).await, UserRelay::start(&world, HELP).await);
    let (shop, help) = (&mut shop.connect().await, &mut help.connect().await);
    verify(shop, "census").await;
    let delayed = verify(shop, "later").await;
    let (mut sender, body) = StreamedBody::new(1);
    sender.send(question("census").to_string().into()).await.expect("the body is read");
    sender.finish();
    let batch = shop.post_lines("/v1/verify:batch", body).await.expect("the daemon answers");
    assert_eq!(DaemonResponse::read_whole(batch).await.expect("an answer").status, 200);
    let facts_from = json!([{"verify": question("census")}]);
    let evaluation = json!({"candidate_output": "There is no claim.", "facts_from": facts_from});
    let evaluated = post(shop, "/v1/rules/evaluate", &evaluation).await;
    assert_eq!(evaluated.status, 200, "{}", document(&evaluated));
    let submission = json!({"tier": "quick", "query": "Sell honey?", "raw": GOOD, "facts_from": facts_from});
    problem(&post(shop, "/v1/verdicts/cs_1", &submission).await, 422, "rules_rejected");
    eventually("the delayed decision is made", async || status(shop, &delayed).await == 200).await;

    let executions = all_executions(&daemon).await;
    assert_eq!(executions.len(), 5);
    for id in &executions {
        assert_eq!(status(shop, id).await, 200, "{id}");
        let refused = read(help, id).await;
        problem(&refused, 404, "execution_unknown");
        let absent = id.replacen("v-", "w-", 1);
        assert_eq!(comparable(&refused, id), comparable(&read(help, &absent).await, &absent));
        assert_eq!(get(&mut daemon.control().await, &format!("/v1/executions/{id}")).await.status, 200);
    }
    // an entry of `facts_from` asks a question, and cannot name a verification
    for named in [json!({"execution_id": delayed}), json!({"verify": {"execution_id": delayed}})] {
        let named = json!({"candidate_output": "?", "facts_from": [named]});
        for routes in [&mut *shop, &mut *help] {
            problem(&post(routes, "/v1/rules/evaluate", &named).await, 400, "invalid_request");
        }
    }
}

#[tokio::test]
async fn shared_verifications_are_read_by_the_other_applications() {
    let shares = "shares = [\"verifications\"]";
    let world = DaemonWorld::with_config(&config(&[("shop", SHOP, shares), ("help", HELP, "")]));
    if !is_root(&world) {
        return;
    }
    let daemon = world.serve().await;
    register_workflows(&daemon).await;
    let (shop, help) = (UserRelay::start(&world, SHOP).await, UserRelay::start(&world, HELP).await);
    let (shop, help) = (&mut shop.connect().await, &mut help.connect().await);
    let (shared, private) = (verify(shop, "census").await, verify(help, "census").await);
    assert_eq!(read(help, &shared).await.body, read(shop, &shared).await.body);
    assert_eq!((status(help, &shared).await, status(help, &private).await), (200, 200));
    problem(&read(shop, &private).await, 404, "execution_unknown");
}

#[tokio::test]
async fn verification_follows_its_user_id_and_its_application_when_applications_change() {
    let mut world = DaemonWorld::with_config(OPEN);
    if !is_root(&world) {
        return;
    }
    let daemon = world.serve().await;
    register_workflows(&daemon).await;
    let relays = (UserRelay::start(&world, SHOP).await, UserRelay::start(&world, HELP).await);
    let connect = async || (relays.0.connect().await, relays.1.connect().await);
    let (mut shop, mut help) = connect().await;
    let of_uid = verify(&mut shop, "census").await;
    assert_eq!(status(&mut shop, &of_uid).await, 200);
    problem(&read(&mut help, &of_uid).await, 404, "execution_unknown");
    assert!(daemon.stop().success());

    // as sessions, it belongs to `default`, whose user ids do not count
    world.config = config(&[("shop", SHOP, ""), ("default", HELP, "")]);
    let daemon = world.serve().await;
    let (mut shop, mut help) = connect().await;
    problem(&read(&mut shop, &of_uid).await, 404, "execution_unknown");
    assert_eq!(status(&mut help, &of_uid).await, 200);
    let (of_shop, of_default) = (verify(&mut shop, "census").await, verify(&mut help, "census").await);
    assert!(daemon.stop().success());

    world.config = OPEN.to_owned();
    let daemon = world.serve().await;
    let (mut shop, mut help) = connect().await;
    problem(&read(&mut shop, &of_shop).await, 404, "execution_unknown");
    problem(&read(&mut shop, &of_default).await, 404, "execution_unknown");
    assert_eq!((status(&mut shop, &of_uid).await, status(&mut help, &of_default).await), (200, 200));
    let explained = get(&mut daemon.control().await, &format!("/v1/executions/{of_shop}")).await;
    assert_eq!(at(&explained, "/decisions/0/inputs/owner"), json!({"application": "shop"}));
}

#[test]
fn unknown_kind_of_shared_data_is_refused_with_its_key_and_the_allowed_kind() {
    let world = DaemonWorld::with_config(&config(&[("shop", SHOP, "shares = [\"sessions\"]")]));
    let error = error_line(world.command());
    for named in ["`applications.shop.shares[0]`", "`sessions`", "`verifications`"] {
        assert!(error.contains(named), "{error}");
    }
}

/// The entry of a decision as a version without owners wrote it.
fn without_owner(id: &str, entry: &VerificationEntry) -> AuditEvent {
    let inputs = DecisionInputs { execution_id: id.to_owned(), owner: None, ..(*entry.inputs).clone() };
    let envelope: Envelope = domain_verification::decide(&inputs);
    let entry = VerificationEntry::of(inputs, &envelope);
    AuditEvent::new(envelope.decided_at, None, VerificationDecided(entry))
}

#[tokio::test]
async fn verification_of_an_earlier_version_belongs_to_the_caller_in_its_entry() {
    let mut world = DaemonWorld::with_config(OPEN);
    if !is_root(&world) {
        return;
    }
    let daemon = world.serve().await;
    register_workflows(&daemon).await;
    let id = verify(&mut daemon.routes().await, "census").await;
    assert!(daemon.stop().success());
    let (mut journal, store) = open_store(&world.state());
    let entry = store.decisions(&id).expect("the log is read").decisions.remove(0);
    let entry = entry.into_whole().expect("nothing is erased");
    let caller = |application: Option<&str>| RequestCaller {
        peer: PeerCredentials { uid: SHOP, gid: SHOP, pid: None },
        socket: None,
        host: None,
        application: application.map(|name| name.parse().expect("a valid name")),
        request_id: "r-1".into(),
        trace_id: None,
        is_trace_sampled: false,
        owner_uid: None,
    };
    for (id, callers) in [
        ("v-default", RecordCallers::One(Arc::new(caller(Some("default"))))),
        ("v-shop", RecordCallers::One(Arc::new(caller(Some("shop"))))),
        ("v-operator", RecordCallers::One(Arc::new(caller(None)))),
        ("v-nobody", RecordCallers::Nobody),
    ] {
        let record = JournalRecord { callers, ..JournalRecord::from(without_owner(id, &entry)) };
        let committed = journal.commit(&[record]).expect("the journal accepts writes");
        assert!(committed.iter().all(Result::is_ok), "{committed:?}");
    }
    drop((journal, store));

    let relays = (UserRelay::start(&world, SHOP).await, UserRelay::start(&world, HELP).await);
    for (config, of_shop, of_help) in [
        (OPEN.to_owned(), "v-default", ""),
        (config(&[("shop", SHOP, ""), ("default", HELP, "")]), "v-shop", "v-default"),
    ] {
        world.config = config;
        let daemon = world.serve().await;
        let (shop, help) = (&mut relays.0.connect().await, &mut relays.1.connect().await);
        for id in ["v-default", "v-shop", "v-operator", "v-nobody"] {
            for (routes, readable) in [(&mut *shop, of_shop), (&mut *help, of_help)] {
                let expected = if id == readable { 200 } else { 404 };
                assert_eq!(status(routes, id).await, expected, "{id} {readable}");
            }
            assert_eq!(get(&mut daemon.control().await, &format!("/v1/executions/{id}")).await.status, 200);
        }
        assert!(daemon.stop().success());
    }
}
