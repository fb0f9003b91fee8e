//! Credentials of live sources end to end: each is sent only to its own source, and is written nowhere (RFC-0002,
//! Part II, "Oracle Integrity Requirements").

use oracled_tests::ground::put_document;
use oracled_tests::live::{
    HONEST, LOCAL, ScriptedSource, adapter_of, authoritative_value, complete_answer, empty,
    population_answer, register_census, source, verify_census,
};
use oracled_tests::{DaemonProcess, DaemonWorld, document, get, problem, read_whole_log};
use serde_json::{Value, json};

const OFFICE: &str = "s3cret-of-the-office";
const REGISTRY: &str = "s3cret-of-the-registry";

/// A world in which `office` has a key and `registry` a token, each for its own origin.
fn world(office: &ScriptedSource, registry: &ScriptedSource) -> DaemonWorld {
    let mut world = DaemonWorld::with_config(&format!(
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

async fn registered(
    daemon: &DaemonProcess<'_>,
    oracle_id: &str,
    office: &ScriptedSource,
    authentication: Value,
) {
    source(daemon, oracle_id, "primary", &office.endpoint(), json!({"authentication": authentication})).await;
}

/// Checks that each request to the office has `mine` and none of `others`.
fn check_headers(office: &ScriptedSource, own: Option<&str>, others: &[&str]) {
    let heads = office.heads();
    assert!(!heads.is_empty(), "the source was called");
    for head in heads {
        assert!(own.is_none_or(|own| head.contains(own)), "{head}");
        assert!(!others.iter().any(|other| head.contains(other)), "{head}");
    }
}

#[tokio::test]
async fn credential_is_sent_only_to_its_own_source() {
    let (office, registry) = (ScriptedSource::start().await, ScriptedSource::start().await);
    let (open, elsewhere) = (ScriptedSource::start().await, ScriptedSource::start().await);
    let world = world(&office, &registry);
    let daemon = world.serve().await;
    registered(&daemon, "office", &office, json!("api_key")).await;
    registered(&daemon, "registry", &registry, json!("oauth")).await;
    registered(&daemon, "open", &open, json!("none")).await;
    register_census(&daemon, &["office", "registry", "open"], json!({})).await;
    for source in [&registry, &open, &elsewhere] {
        source.set_answer(population_answer(HONEST));
    }
    // a redirect within the origin gets the key
    office.set_answers(|head| {
        if head.starts_with("GET /moved ") {
            population_answer(HONEST)
        } else {
            empty("302 Found", "location: /moved\r\n")
        }
    });
    assert_eq!(authoritative_value(&verify_census(&daemon).await), HONEST);
    assert_eq!(office.heads().len(), 2);
    check_headers(&office, Some(&format!("x-key: {OFFICE}\r\n")), &[REGISTRY]);
    check_headers(&registry, Some(&format!("authorization: Bearer {REGISTRY}\r\n")), &[OFFICE]);
    check_headers(&open, None, &[OFFICE, REGISTRY]);

    let away = format!("location: {}/ABW/1960\r\n", elsewhere.origin());
    office.set_answer(empty("307 Temporary Redirect", &away));
    let refused = verify_census(&daemon).await;
    assert_eq!(refused["kind"], "blocked", "{refused}");
    assert!(elsewhere.heads().is_empty(), "no other server is called: {:?}", elsewhere.heads());
    // a document cannot send a credential to another origin, or use one that is not configured
    let control = &mut daemon.control().await;
    for (oracle_id, authentication, words) in [
        ("office", "api_key", "`verification.credentials.office`"),
        ("open", "api_key", "`verification.credentials.open`"),
    ] {
        let changes = json!({"authentication": authentication});
        let document = adapter_of(oracle_id, &elsewhere.endpoint(), changes);
        let answer = put_document(control, &format!("/v1/documents/adapter/{oracle_id}"), &document).await;
        let detail = problem(&answer, 400, "invalid_document").to_string();
        assert!(detail.contains(words) && !detail.contains("s3cret"), "{detail}");
    }
    assert!(elsewhere.heads().is_empty(), "{:?}", elsewhere.heads());
}

#[tokio::test]
async fn credential_is_in_no_output_log_or_file() {
    let (office, registry) = (ScriptedSource::start().await, ScriptedSource::start().await);
    let world = world(&office, &registry);
    let daemon = world.serve().await;
    registered(&daemon, "office", &office, json!("api_key")).await;
    registered(&daemon, "registry", &registry, json!("oauth")).await;
    register_census(&daemon, &["office"], json!({})).await;
    office.set_answer(population_answer(HONEST));
    let mut envelopes = vec![verify_census(&daemon).await];
    assert_eq!(authoritative_value(&envelopes[0]), HONEST);
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    // the source has the key, and may repeat it anywhere in its answer
    let quoting = format!("location: http://127.0.0.1:1/away?key={OFFICE}\r\nwww-authenticate: {OFFICE}\r\n");
    for answer in [
        empty("302 Found", &quoting),
        empty("401 Unauthorized", &quoting),
        empty(&format!("503 {OFFICE}"), &format!("retry-after: 60\r\nx-key: {OFFICE}\r\n")),
        String::new(),
        complete_answer(&format!("x-key: {OFFICE}\r\n"), &format!("{{\"{OFFICE}\": \"{OFFICE}\"}}")),
    ] {
        office.set_answer(answer);
        let envelope = verify_census(&daemon).await;
        assert_eq!(envelope["kind"], "blocked", "{envelope}");
        envelopes.push(envelope);
    }
    check_headers(&office, Some(OFFICE), &[REGISTRY]);
    assert_eq!(envelopes.last().expect("at least one")["candidates"][0]["outcome"], "refused");
    let mut messages = String::new();
    for envelope in &envelopes {
        let execution = envelope["execution_id"].as_str().expect("a string");
        let explained = world.ctl_in_thread(&["explain", execution]).await;
        assert!(explained.status.success(), "{explained:?}");
        messages += &String::from_utf8_lossy(&explained.stdout);
        messages += &document(&get(control, &format!("/v1/executions/{execution}")).await).to_string();
        messages += &envelope.to_string();
    }
    for arguments in [&["health"][..], &["health", "--json"], &["describe", "source", "office"]] {
        let shown = world.ctl_in_thread(arguments).await;
        assert!(shown.status.success(), "{shown:?}");
        messages += &String::from_utf8_lossy(&shown.stdout);
    }
    let adapter = get(control, "/v1/documents/adapter/office").await;
    for answer in [get(routes, "/metrics").await, get(routes, "/v1/health/oracles").await, adapter] {
        assert_eq!(answer.status, 200, "{answer:?}");
        messages += &String::from_utf8_lossy(&answer.body);
    }
    assert!(messages.contains("source:office"), "the output is about the source");
    messages += &json!(read_whole_log(control).await).to_string();
    assert!(daemon.stop().success());
    messages += &world.written();
    let found = messages
        .find("s3cret")
        .map(|place| messages[place.saturating_sub(200)..].chars().take(400).collect::<String>());
    assert_eq!(found, None);
}
