//! Reviews and decisions on the control socket.

use crate::wording::{stable, without_numbers};
use bytes::Bytes;
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_verification::event::VerificationDecided;
use domain_verification::{DecisionInputs, Envelope, decide};
use hyper::Method;
use oracled_api::client::DaemonClient;
use oracled_store::JournalRecord;
use oracled_tests::ground::{example, open_pipeline, open_store, register_all};
use oracled_tests::verification::{register, register_offices, several_years, workflow};
use oracled_tests::{DaemonWorld, at, document, get, log, post, problem, read_whole_log};
use serde_json::{Value, json};

/// Two sources of the same tier that disagree on Aruba in 1960, and two workflows over them.
async fn two_that_disagree(daemon: &oracled_tests::DaemonProcess<'_>) {
    register_offices(daemon, &[("office-a", "primary", "54208"), ("office-b", "primary", "54608")]).await;
    for workflow_id in ["census", "other"] {
        let workflow = workflow(workflow_id, &["office-a", "office-b"], json!({}));
        register(&mut daemon.control().await, &workflow).await;
    }
}

async fn verify_population(routes: &mut DaemonClient, workflow: &str) -> Value {
    verify_year(routes, workflow, 1960).await
}

async fn verify_year(routes: &mut DaemonClient, workflow: &str, year: u16) -> Value {
    let request =
        json!({"workflow": workflow, "where": {"area": "ABW", "year": year}, "axes": ["population"]});
    let answer = post(routes, "/v1/verify", &request).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    document(&answer)
}

fn resolution(value: &str) -> Value {
    json!({"values": {"population": value}, "own_value": true, "reason": "the census of that year", "valid_for_seconds": 3600})
}

/// The name of the user who runs the test; null if the system has none.
fn own_name() -> Value {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).expect("users can be read");
    json!(user.map(|user| user.name))
}

fn execution_id(envelope: &Value) -> &str {
    envelope["execution_id"].as_str().expect("an envelope has an id")
}

/// A review as the answer to its decision has it, which has no title.
async fn read_untitled(control: &mut DaemonClient, path: &str) -> Value {
    let mut review = document(&get(control, path).await);
    let title = review.as_object_mut().and_then(|review| review.remove("title"));
    assert!(title.is_some_and(|title| title.is_string()));
    review
}

#[tokio::test]
async fn review_is_listed_with_all_answers_and_its_resolution_applies() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    two_that_disagree(&daemon).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(document(&get(control, "/v1/reviews").await), json!({"items": [], "next": null}));
    let disputed = verify_population(routes, "census").await;
    let id = disputed["review_id"].as_str().expect("a review is open");
    assert_eq!(at(&get(control, "/v1/status").await, "/open_reviews"), 1);
    let listed = document(&get(control, "/v1/reviews").await);
    assert_eq!(listed["next"], json!(null));
    let [listed] = &listed["items"].as_array().expect("an array")[..] else { panic!("{listed}") };
    assert_eq!(
        (&listed["review_id"], &listed["where"], &listed["axes"]),
        (&json!(id), &json!({"area": "ABW", "year": "1960"}), &json!({"population": ["require_human"]}))
    );
    assert!(listed.get("resolved_at").is_none(), "{listed}");

    let path = format!("/v1/reviews/{id}");
    let shown = document(&get(control, &path).await);
    let stated_value = |office: &str| &shown["review"]["candidates"][office]["values"]["population"]["value"];
    assert_eq!((stated_value("office-a"), stated_value("office-b")), (&json!("54208"), &json!("54608")));
    assert!(shown["review"]["candidates"]["office-a"]["provenance"]["raw_hash"].is_string(), "{shown}");
    assert!(shown.get("resolved").is_none(), "{shown}");

    let resolve = format!("{path}/resolve");
    let resolved = post(control, &resolve, &resolution("54300")).await;
    assert_eq!(resolved.status, 200, "{}", document(&resolved));
    let by = nix::unistd::geteuid().as_raw().to_string();
    assert_eq!(at(&resolved, "/resolved/verifier_id"), by);
    assert_eq!(at(&resolved, "/resolved/verifier_name"), own_name());
    assert_eq!(read_untitled(control, &path).await, document(&resolved));
    assert_eq!(document(&get(control, "/v1/reviews").await)["items"], json!([]));
    assert_eq!(at(&get(control, "/v1/status").await, "/open_reviews"), 0);
    let all = document(&get(control, "/v1/reviews?open=false").await);
    assert_eq!((&all["items"][0]["resolved_by"], &all["items"][0]["review_id"]), (&json!(by), &json!(id)));
    assert_eq!(all["items"][0]["resolved_by_name"], own_name());
    let rejection = problem(&post(control, &resolve, &resolution("54301")).await, 409, "review_resolved");
    assert!(rejection["detail"].as_str().is_some_and(|detail| detail.contains(&by)), "{rejection}");

    let settled = verify_population(routes, "census").await;
    let axis = &settled["axes"]["population"];
    assert_eq!((&axis["value"], &axis["basis"]), (&json!("54300"), &json!("human_lock")), "{settled}");
    assert_eq!(
        verify_population(routes, "other").await["kind"],
        "human_review",
        "the resolution applies only to its workflow"
    );
    let entry = &log(control, "event=review_resolved").await[0];
    assert_eq!((&entry["review_id"], &entry["peer"]["pid"]), (&json!(id), &json!(std::process::id())));
    assert_eq!((&entry["verifier_name"], &entry["locks"][0]["verifier_name"]), (&own_name(), &own_name()));
    assert!(entry["salts"]["verifier_name"].is_string(), "the name can be erased: {entry}");
    let explained = document(&get(control, &format!("/v1/executions/{}", execution_id(&settled))).await);
    assert_eq!(explained["decisions"][0]["inputs"]["locks"][0]["verifier_name"], own_name());
    assert_eq!(explained["decisions"][0]["reproduced"], true);
    let (verified, shown) =
        (world.ctl(&["explain", execution_id(&settled)]), world.ctl(&["review", "show", id]));
    for output in [verified, shown] {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let by = own_name().as_str().map_or_else(|| format!("uid {by}"), |name| format!("{name} (uid {by})"));
        assert!(text.contains(&by), "{text}");
    }
}

#[tokio::test]
async fn review_shows_changed_answers_and_is_not_resolved_for_another_ontology() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    two_that_disagree(&daemon).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let disputed = verify_population(routes, "census").await;
    let id = disputed["review_id"].as_str().expect("a review is open");
    let evidence = format!("/v1/reviews/{id}/evidence");
    assert_eq!(document(&get(control, &evidence).await).get("changed"), None);
    // the same content again is no change
    several_years(&daemon, &[("office-a", "54208"), ("office-b", "54300")], 1960..1961).await;
    let changed = json!({"office-b": {"version": "2026-03-07", "values": {"population": "54300"}}});
    assert_eq!(document(&get(control, &evidence).await)["changed"], changed);
    let shown = String::from_utf8(world.ctl(&["review", "show", id]).stdout).expect("text");
    let told = shown.lines().filter(|line| line.contains("office-b") && line.contains("54300"));
    insta::assert_snapshot!(
        "review_whose_evidence_has_changed",
        stable(&world, &told.collect::<Vec<_>>().join("\n"))
    );

    let mut ontology = example("ontologies/population.json");
    ontology["version"] = json!("2");
    for office in ["office-a", "office-b"] {
        let mut source = example("sources/world-bank-population.json");
        (source["oracle_id"], source["ontology"]["version"]) = (json!(office), json!("2"));
        let mut pipeline = open_pipeline("world-bank-population");
        pipeline["pipeline"]["pipeline_id"] = json!(office);
        pipeline["pipeline"]["oracle_id"] = json!(office);
        pipeline["pipeline"]["transformation"]["output_schema_id"] = json!("population@2");
        register_all(control, &ontology, &source, &pipeline).await;
    }
    let mut census = workflow("census", &["office-a", "office-b"], json!({}));
    census["ontology"]["version"] = json!("2");
    register(control, &census).await;
    let resolve = format!("/v1/reviews/{id}/resolve");
    let refused = problem(&post(control, &resolve, &resolution("54300")).await, 409, "review_refused");
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("population@2")), "{refused}");
    assert_eq!(at(&get(control, "/v1/status").await, "/open_reviews"), 1);
    let reason = json!({"reason": "another ontology"});
    assert_eq!(post(control, &format!("/v1/reviews/{id}/dismiss"), &reason).await.status, 200);
}

#[tokio::test]
async fn revoked_resolution_no_longer_applies() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    two_that_disagree(&daemon).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let disputed = verify_population(routes, "census").await;
    let id = disputed["review_id"].as_str().expect("a review is open");
    let path = format!("/v1/reviews/{id}");
    let revoke = format!("{path}/revoke");
    let reason = json!({"reason": "misread"});
    problem(&post(control, &revoke, &reason).await, 409, "review_not_in_force");
    problem(&post(control, "/v1/reviews/no-such/revoke", &reason).await, 404, "review_unknown");
    assert_eq!(post(control, &format!("{path}/resolve"), &resolution("54300")).await.status, 200);
    problem(&post(control, &revoke, &json!({"reason": " "})).await, 400, "invalid_resolution");
    assert_eq!(verify_population(routes, "census").await["kind"], "authoritative");

    let revoked = post(control, &revoke, &reason).await;
    assert_eq!(revoked.status, 200, "{}", document(&revoked));
    assert_eq!(at(&revoked, "/revoked/reason"), "misread");
    assert_eq!(at(&revoked, "/resolved/resolution/values/population"), "54300");
    assert_eq!(read_untitled(control, &path).await, document(&revoked));
    let rejection = problem(&post(control, &revoke, &reason).await, 409, "review_not_in_force");
    let detail = rejection["detail"].as_str().expect("a text").replace(id, "ID");
    insta::assert_snapshot!("revocation_of_a_revoked_review", without_numbers(&stable(&world, &detail)));
    let listed = document(&get(control, "/v1/reviews?open=false").await);
    assert_eq!(listed["items"][0]["revoked_at"], document(&revoked)["revoked"]["revoked_at"]);
    let entry = &log(control, "event=review_revoked").await[0];
    assert_eq!((&entry["reason"], &entry["locks"][0]["value"]), (&json!("misread"), &json!("54300")));
    assert_eq!(
        (&entry["verifier_name"], &at(&revoked, "/revoked/verifier_name")),
        (&own_name(), &own_name())
    );
    assert!(entry["salts"]["verifier_name"].is_string(), "the name can be erased: {entry}");

    let again = verify_population(routes, "census").await;
    assert_eq!(again["kind"], "human_review");
    assert_ne!(again["review_id"], id, "a new review is open");
}

#[tokio::test]
async fn dismissed_review_is_closed_and_the_next_dispute_opens_another() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    two_that_disagree(&daemon).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let id = verify_population(routes, "census").await["review_id"].clone();
    let path = format!("/v1/reviews/{}", id.as_str().expect("a review is open"));
    let (dismiss, reason) = (format!("{path}/dismiss"), json!({"reason": "not needed"}));
    problem(&post(control, "/v1/reviews/no-such/dismiss", &reason).await, 404, "review_unknown");
    problem(&post(control, &dismiss, &json!({"reason": " "})).await, 400, "invalid_resolution");
    problem(&post(control, &dismiss, &json!({"why": "healed"})).await, 400, "invalid_request");
    assert_eq!(at(&get(control, "/v1/status").await, "/open_reviews"), 1);

    let dismissed = post(control, &dismiss, &reason).await;
    assert_eq!(dismissed.status, 200, "{}", document(&dismissed));
    let by = nix::unistd::geteuid().as_raw().to_string();
    assert_eq!(
        (at(&dismissed, "/dismissed/reason"), at(&dismissed, "/dismissed/verifier_id")),
        (json!("not needed"), json!(by))
    );
    assert!(document(&dismissed).get("resolved").is_none(), "{}", document(&dismissed));
    assert_eq!(read_untitled(control, &path).await, document(&dismissed));
    assert_eq!(document(&get(control, "/v1/reviews").await)["items"], json!([]));
    assert_eq!(at(&get(control, "/v1/status").await, "/open_reviews"), 0);
    let all = document(&get(control, "/v1/reviews?open=false").await);
    let [listed] = &all["items"].as_array().expect("an array")[..] else { panic!("{all}") };
    assert_eq!(
        (&listed["dismissed_by"], &listed["dismissed_at"]),
        (&json!(by), &document(&dismissed)["dismissed"]["dismissed_at"])
    );
    let entry = &log(control, "event=review_dismissed").await[0];
    assert_eq!(
        (&entry["review_id"], &entry["reason"], &entry["peer"]["pid"]),
        (&id, &json!("not needed"), &json!(std::process::id()))
    );
    assert_eq!((&entry["verifier_name"], &listed["dismissed_by_name"]), (&own_name(), &own_name()));
    assert!(entry["salts"]["verifier_name"].is_string(), "the name can be erased: {entry}");
    for (verb, word) in [("dismiss", &reason), ("resolve", &resolution("54300")), ("revoke", &reason)] {
        let rejection =
            problem(&post(control, &format!("{path}/{verb}"), word).await, 409, "review_dismissed");
        assert!(
            rejection["detail"].as_str().is_some_and(|detail| detail.contains(&by)),
            "{verb}: {rejection}"
        );
    }
    let metrics = get(routes, "/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body);
    assert!(metrics.contains("oracled_reviews_dismissed_total 1\n"), "{metrics}");

    let again = verify_population(routes, "census").await;
    assert_eq!(again["kind"], "human_review");
    let further = again["review_id"].as_str().expect("a review is open");
    assert_ne!(json!(further), id, "a new review is open");
    assert_eq!(at(&get(control, "/v1/status").await, "/open_reviews"), 1);
    let path = format!("/v1/reviews/{further}");
    assert_eq!(post(control, &format!("{path}/resolve"), &resolution("54300")).await.status, 200);
    problem(&post(control, &format!("{path}/dismiss"), &reason).await, 409, "review_resolved");
    assert_eq!(verify_population(routes, "census").await["kind"], "authoritative");
}

#[tokio::test]
async fn invalid_resolution_changes_nothing() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    two_that_disagree(&daemon).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let id = verify_population(routes, "census").await["review_id"].clone();
    let path = format!("/v1/reviews/{}/resolve", id.as_str().expect("a review is open"));
    let before = read_whole_log(control).await.len();
    let with = |place: &str, value: Value| {
        let mut resolution = resolution("54300");
        *resolution.pointer_mut(place).expect("the value exists") = value;
        resolution
    };
    for (resolution, message) in [
        (with("/values", json!({})), "`values` names "),
        (with("/values", json!({"population": "1", "area_name": "x"})), "area_name"),
        (with("/values/population", json!("many")), "`values.population`: "),
        (with("/own_value", json!(false)), "54208, 54608"),
        (with("/reason", json!("  ")), "`reason`"),
        (with("/valid_for_seconds", json!(0)), "`valid_for_seconds` "),
    ] {
        let problem = problem(&post(control, &path, &resolution).await, 400, "invalid_resolution");
        assert!(
            problem["detail"].as_str().is_some_and(|detail| detail.contains(message)),
            "{message}: {problem}"
        );
    }
    let twice =
        r#"{"values": {"population": "1", "population": "2"}, "reason": "x", "valid_for_seconds": 1}"#;
    let answer =
        control.call(Method::POST, &path, Some(Bytes::from(twice))).await.expect("the server answers");
    let message = problem(&answer, 400, "invalid_request");
    assert!(message["detail"].as_str().is_some_and(|detail| detail.starts_with("values: ")), "{message}");
    problem(&post(control, "/v1/reviews/no-such/resolve", &resolution("1")).await, 404, "review_unknown");
    problem(&get(control, "/v1/reviews/no-such").await, 404, "review_unknown");
    problem(&get(control, "/v1/reviews?limit=0").await, 400, "invalid_request");
    problem(&get(control, "/v1/reviews?opne=true").await, 400, "invalid_request");
    problem(&get(control, "/v1/executions/no-such").await, 404, "execution_unknown");
    assert_eq!(read_whole_log(control).await.len(), before);
}

#[tokio::test]
async fn reviews_are_listed_newest_first_in_pages_and_by_workflow() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    two_that_disagree(&daemon).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let years = 1960..1967;
    several_years(&daemon, &[("office-a", "54208"), ("office-b", "54608")], years.clone()).await;
    let mut opened = Vec::new();
    for year in years {
        for workflow in ["census", "other"] {
            let envelope = verify_year(routes, workflow, year).await;
            opened.push((workflow, envelope["review_id"].as_str().expect("a review is open").to_owned()));
        }
    }
    opened.reverse();
    for (question, workflow) in
        [("limit=3", None), ("limit=3&workflow=other", Some("other")), ("open=false", None)]
    {
        let expected: Vec<_> = opened
            .iter()
            .filter(|(of, _)| workflow.is_none_or(|id| id == *of))
            .map(|(_, id)| json!(id))
            .collect();
        let (mut listed, mut before) = (Vec::new(), String::new());
        loop {
            let page = document(&get(control, &format!("/v1/reviews?{question}{before}")).await);
            listed.extend(
                page["items"].as_array().expect("an array").iter().map(|review| review["review_id"].clone()),
            );
            let Some(next) = page["next"].as_str() else { break };
            before = format!("&after={next}");
        }
        assert_eq!(listed, expected, "{question}");
    }
    assert_eq!(
        document(&get(control, "/v1/reviews?workflow=no-such").await),
        json!({"items": [], "next": null})
    );
}

/// An envelope with other warnings for the same `inputs`, as another version of oracled could have returned, with its
/// digest.
fn altered_envelope(inputs: &DecisionInputs) -> (Box<Envelope>, Sha256Hex) {
    let mut envelope = serde_json::to_value(decide(inputs)).expect("plain data");
    let mut set = |name: &str, value| {
        let members = envelope.as_object_mut().expect("an object");
        members.remove("sha256");
        members.insert(name.to_owned(), value);
        Sha256Hex::of(envelope.to_string().as_bytes())
    };
    let digest = set("warnings", json!(["well!"]));
    set("sha256", json!(digest));
    (serde_json::from_value(envelope).expect("valid JSON"), digest)
}

#[tokio::test]
async fn decision_is_shown_with_all_inputs_and_an_altered_one_is_an_error() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    two_that_disagree(&daemon).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let envelope = verify_population(routes, "census").await;
    let id = envelope["execution_id"].as_str().expect("a string").to_owned();
    let path = format!("/v1/executions/{id}");
    let explained = document(&get(control, &path).await);
    let [decision] = &explained["decisions"].as_array().expect("an array")[..] else { panic!("{explained}") };
    assert_eq!((&decision["envelope"], &decision["reproduced"]), (&envelope, &json!(true)));
    let value =
        &decision["inputs"]["calls"]["office-a"]["reply"]["candidate"]["values"]["population"]["value"];
    assert_eq!(value, "54208");
    let digest = Sha256Hex::of(decision["inputs"].to_string().as_bytes());
    assert_eq!(envelope["inputs_sha256"], digest.to_string());

    assert!(daemon.stop().success());
    let (mut journal, store) = open_store(&world.state());
    let entry = store.decisions(&id).expect("the log is read").decisions.remove(0);
    let entry = entry.into_whole().expect("nothing is erased");
    let (mut forged, mut other) = (entry.clone(), entry);
    (forged.execution_id, forged.envelope_sha256) = ("v-forged".into(), Sha256Hex::of(b"another"));
    other.execution_id = "v-other".into();
    other.inputs.execution_id.clone_from(&other.execution_id);
    (other.envelope, other.envelope_sha256) = altered_envelope(&other.inputs);
    for entry in [forged, other] {
        let committed = journal
            .commit(&[JournalRecord::from(AuditEvent::new(
                entry.envelope.decided_at,
                None,
                VerificationDecided(entry),
            ))])
            .expect("the request is accepted");
        assert!(committed.iter().all(Result::is_ok), "{committed:?}");
    }
    drop((journal, store));
    let daemon = world.serve().await;
    let answer = get(&mut daemon.control().await, "/v1/executions/v-forged").await;
    assert!(
        problem(&answer, 500, "decision_altered")["detail"].to_string().contains("v-forged"),
        "{answer:?}"
    );
    problem(&get(&mut daemon.routes().await, "/v1/verify/v-forged").await, 500, "decision_altered");
    let answer = document(&get(&mut daemon.control().await, "/v1/executions/v-other").await);
    let decision = &answer["decisions"][0];
    assert_eq!(
        (&decision["envelope"]["warnings"], &decision["reproduced"]),
        (&json!(["well!"]), &json!(false))
    );
    let answer = document(&get(&mut daemon.routes().await, "/v1/verify/v-other").await);
    assert_eq!(answer, decision["envelope"]);
    let explained = world.ctl(&["explain", "v-other"]);
    let answer = String::from_utf8(explained.stdout).expect("valid UTF-8");
    assert_eq!(explained.status.code(), Some(1), "{answer}");
    let (last, _) = answer.trim_end().rsplit_once(": envelope ").expect("it ends with the digests");
    insta::assert_snapshot!(
        "explanation_of_an_envelope_that_is_not_reproduced",
        last.lines().last().expect("a line")
    );
}

#[tokio::test]
async fn comments_are_shown_with_their_authors_and_survive_the_decision() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    two_that_disagree(&daemon).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let disputed = verify_population(routes, "census").await;
    let id = disputed["review_id"].as_str().expect("a review is open");
    let path = format!("/v1/reviews/{id}");
    let comments = format!("{path}/comments");
    let text = json!({"text": " which edition is it? "});
    problem(&post(control, "/v1/reviews/no-such/comments", &text).await, 404, "review_unknown");
    for invalid in [json!({"text": " "}), json!({"text": "x".repeat(4097)}), json!({"reason": "x"})] {
        problem(&post(control, &comments, &invalid).await, 400, "invalid_request");
    }
    let commented = post(control, &comments, &text).await;
    assert_eq!(commented.status, 200, "{}", document(&commented));
    let comment = at(&commented, "/comments/0");
    let by = nix::unistd::geteuid().as_raw().to_string();
    assert_eq!((&comment["text"], &comment["author_id"]), (&json!("which edition is it?"), &json!(by)));
    assert_eq!(comment["author_name"], own_name());
    assert_eq!(at(&get(control, "/v1/status").await, "/open_reviews"), 1, "the review stays open");
    let resolved = post(control, &format!("{path}/resolve"), &resolution("54300")).await;
    assert_eq!(at(&resolved, "/comments/0"), comment);
    let settled = verify_population(routes, "census").await;
    assert_eq!(settled["kind"], "authoritative");
    let later = world.ctl(&["review", "comment", id, "decided too early"]);
    assert!(later.status.success(), "{}", String::from_utf8_lossy(&later.stderr));
    assert_eq!(
        verify_population(routes, "census").await["kind"],
        "authoritative",
        "a comment changes nothing"
    );
    let shown = world.ctl(&["review", "show", id]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("which edition is it?") && shown.contains("decided too early"), "{shown}");
    for _ in 2..50 {
        assert_eq!(post(control, &comments, &text).await.status, 200);
    }
    problem(&post(control, &comments, &text).await, 409, "too_many_comments");
    let state = document(&get(control, &path).await);
    assert_eq!(state["comments"].as_array().map(Vec::len), Some(50));
    let entries = log(control, "event=review_commented&limit=1000").await;
    assert_eq!((entries.len(), &entries[0]["review_id"]), (50, &json!(id)));
    for member in ["text", "author_name"] {
        assert!(entries[0]["salts"][member].is_string(), "{member} can be erased: {}", entries[0]);
    }
}
