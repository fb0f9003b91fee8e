//! Credentials of live sources end to end: each is sent only to its own source, and is written nowhere (RFC-0002,
//! Part II, "Oracle Integrity Requirements").

use oracled_tests::ground::put;
use oracled_tests::live::{
    HONEST, LOCAL, Office, adapter_of, census, empty, people, source, told, verified, whole,
};
use oracled_tests::{Daemon, World, document, get, problem, whole_log};
use serde_json::{Value, json};

const OFFICE: &str = "s3cret-of-the-office";
const REGISTRY: &str = "s3cret-of-the-registry";

/// A world in which `office` has a key and `registry` a token, each for its own origin.
fn world(office: &Office, registry: &Office) -> World {
    let mut world = World::with_config(&format!(
        "{LOCAL}[health]\ncircuit_breaker_enabled = false\n\
         [verification.credentials.office]\norigin = \"{}\"\nheader = \"X-Key\"\nkey_env = \"OFFICE\"\n\
         [verification.credentials.registry]\norigin = \"{}\"\ntoken_env = \"REGISTRY\"\n",
        office.origin(),
        registry.origin()
    ));
    for (name, secret) in [("OFFICE", OFFICE), ("REGISTRY", REGISTRY)] {
        world.variables.push((name.into(), secret.into()));
    }
    world
}

async fn registered(daemon: &Daemon<'_>, oracle_id: &str, office: &Office, authentication: Value) {
    source(daemon, oracle_id, "primary", &office.endpoint(), json!({"authentication": authentication})).await;
}

/// Checks that each request to the office has `mine` and none of `others`.
fn heard(office: &Office, mine: Option<&str>, others: &[&str]) {
    let heads = office.heads();
    assert!(!heads.is_empty(), "the source was called");
    for head in heads {
        assert!(mine.is_none_or(|mine| head.contains(mine)), "{head}");
        assert!(!others.iter().any(|other| head.contains(other)), "{head}");
    }
}

#[tokio::test]
async fn credential_is_sent_only_to_its_own_source() {
    let (office, registry) = (Office::start().await, Office::start().await);
    let (open, elsewhere) = (Office::start().await, Office::start().await);
    let world = world(&office, &registry);
    let daemon = world.serve().await;
    registered(&daemon, "office", &office, json!("api_key")).await;
    registered(&daemon, "registry", &registry, json!("oauth")).await;
    registered(&daemon, "open", &open, json!(null)).await;
    census(&daemon, &["office", "registry", "open"], json!({})).await;
    for source in [&registry, &open, &elsewhere] {
        source.says(people(HONEST));
    }
    // a redirect within the origin gets the key
    office.answers(|head| {
        if head.starts_with("GET /moved ") {
            people(HONEST)
        } else {
            empty("302 Found", "location: /moved\r\n")
        }
    });
    assert_eq!(told(&verified(&daemon).await), HONEST);
    assert_eq!(office.heads().len(), 2);
    heard(&office, Some(&format!("x-key: {OFFICE}\r\n")), &[REGISTRY]);
    heard(&registry, Some(&format!("authorization: Bearer {REGISTRY}\r\n")), &[OFFICE]);
    heard(&open, None, &[OFFICE, REGISTRY]);

    let away = format!("location: {}/ABW/1960\r\n", elsewhere.origin());
    office.says(empty("307 Temporary Redirect", &away));
    let refused = verified(&daemon).await;
    assert_eq!(refused["kind"], "blocked", "{refused}");
    assert!(elsewhere.heads().is_empty(), "no other server is called: {:?}", elsewhere.heads());
    // a document cannot send a credential to another origin, or use one that is not configured
    let control = &mut daemon.control().await;
    for (oracle_id, authentication, words) in [
        ("office", "api_key", "the credential of source `office` is for "),
        ("open", "api_key", "has no credential for that; set "),
    ] {
        let changes = json!({"authentication": authentication});
        let document = adapter_of(oracle_id, &elsewhere.endpoint(), changes);
        let answer = put(control, &format!("/v1/documents/adapter/{oracle_id}"), &document).await;
        let told = problem(&answer, 400, "invalid_document").to_string();
        assert!(told.contains(words) && !told.contains("s3cret"), "{told}");
    }
    assert!(elsewhere.heads().is_empty(), "{:?}", elsewhere.heads());
}

#[tokio::test]
async fn credential_is_in_no_output_log_or_file() {
    let (office, registry) = (Office::start().await, Office::start().await);
    let world = world(&office, &registry);
    let daemon = world.serve().await;
    registered(&daemon, "office", &office, json!("api_key")).await;
    registered(&daemon, "registry", &registry, json!("oauth")).await;
    census(&daemon, &["office"], json!({})).await;
    office.says(people(HONEST));
    let mut envelopes = vec![verified(&daemon).await];
    assert_eq!(told(&envelopes[0]), HONEST);
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    // the source has the key, and may repeat it anywhere in its answer
    let quoting = format!("location: http://127.0.0.1:1/away?key={OFFICE}\r\nwww-authenticate: {OFFICE}\r\n");
    for answer in [
        empty("302 Found", &quoting),
        empty("401 Unauthorized", &quoting),
        empty(&format!("503 {OFFICE}"), &format!("retry-after: 60\r\nx-key: {OFFICE}\r\n")),
        String::new(),
        whole(&format!("x-key: {OFFICE}\r\n"), &format!("{{\"{OFFICE}\": \"{OFFICE}\"}}")),
    ] {
        office.says(answer);
        let envelope = verified(&daemon).await;
        assert_eq!(envelope["kind"], "blocked", "{envelope}");
        envelopes.push(envelope);
    }
    heard(&office, Some(OFFICE), &[REGISTRY]);
    assert_eq!(envelopes.last().expect("there are some")["candidates"][0]["outcome"], "refused");
    let mut said = String::new();
    for envelope in &envelopes {
        let execution = envelope["execution_id"].as_str().expect("it has one");
        let explained = world.ctl_meanwhile(&["explain", execution]).await;
        assert!(explained.status.success(), "{explained:?}");
        said += &String::from_utf8_lossy(&explained.stdout);
        said += &document(&get(control, &format!("/v1/executions/{execution}")).await).to_string();
        said += &envelope.to_string();
    }
    for arguments in [&["health"][..], &["health", "--json"], &["describe", "source", "office"]] {
        let shown = world.ctl_meanwhile(arguments).await;
        assert!(shown.status.success(), "{shown:?}");
        said += &String::from_utf8_lossy(&shown.stdout);
    }
    let adapter = get(control, "/v1/documents/adapter/office").await;
    for answer in [get(routes, "/metrics").await, get(routes, "/v1/health/oracles").await, adapter] {
        assert_eq!(answer.status, 200, "{answer:?}");
        said += &String::from_utf8_lossy(&answer.body);
    }
    assert!(said.contains("source:office"), "the output is about the source");
    said += &json!(whole_log(control).await).to_string();
    assert!(daemon.stop().success());
    said += &world.written();
    let found = said
        .find("s3cret")
        .map(|place| said[place.saturating_sub(200)..].chars().take(400).collect::<String>());
    assert_eq!(found, None);
}
