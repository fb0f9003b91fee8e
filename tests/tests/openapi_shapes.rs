//! Compares the schemas in `/openapi.json` with the types that are read and returned: members and enum values must be
//! equal.

use domain_ground::ontology::OntologyRef;
use domain_ground::query::{FilterOperator, OracleQuery, QueryFilter, QueryRequest};
use domain_ground::source::OracleTier;
use domain_rules::sourced::FactsFrom;
use domain_verification::conflict::{ConflictSide, ConflictStep, ConflictStepOutcome, TierRelation};
use domain_verification::envelope::{
    AxisEvidence, AxisOutcome, AxisStatus, CandidateOutcome, Envelope, EnvelopeKind,
    EnvelopeVerificationStatus, RetryAdvice, Reverification, ValueBasis,
};
use domain_verification::oracle_call::CallOutcome;
use domain_verification::reason::AxisReason;
use domain_verification::request::{ClaimedValue, VerifyRequest};
use domain_verification::verification_record::{
    OracleVerificationRecord, SignatureVerification, StatedValue, VerificationTier,
};
use domain_verification::workflow::ConflictStrategy;
use oracled_tests::described::{reached, validator};
use oracled_tests::{DaemonWorld, document, get, post};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The OpenAPI document of a daemon.
async fn description() -> Value {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    document(&get(&mut daemon.routes().await, "/openapi.json").await)
}

/// A reference to the schema `name`.
fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Names of the members or enum values of a type, from serde's error for an unknown one.
fn member_names<T: DeserializeOwned>() -> BTreeSet<String> {
    let read = |other: Value| serde_json::from_value::<T>(other).err().map(|error| error.to_string());
    let complaints = [json!({"?": null}), json!("?")].into_iter().filter_map(read);
    let known =
        complaints.filter_map(|message| Some(message.split_once("`?`, expected ")?.1.to_owned())).next();
    let known = known.expect("a type that takes nothing else");
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Members or enum values of each of these types, by the type's name.
macro_rules! known {
    ($($name:ident)*) => { BTreeMap::from([$((stringify!($name), member_names::<$name>())),*]) };
}

#[tokio::test]
async fn schemas_have_exactly_the_members_and_values_of_their_types() {
    let description = description().await;
    let mut shapes = BTreeMap::new();
    for name in ["VerifyRequest", "Envelope"] {
        reached(&reference(name), &description, &mut shapes);
    }
    for request in ["EvaluateTextRequest", "SubmitVerdictRequest"] {
        let facts_from = &description["components"]["schemas"][request]["properties"]["facts_from"];
        let mut of_facts = BTreeMap::new();
        reached(facts_from, &description, &mut of_facts);
        assert!(of_facts.contains_key("FactsFrom"), "{request}: {facts_from}");
        shapes.extend(of_facts);
    }
    let format_shape = |shape: &Value| {
        let members = shape["properties"].as_object().map(|members| members.keys().cloned().collect());
        let words = shape["enum"].as_array();
        let words = words.map(|words| words.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        members.or(words)
    };
    let format_shape: BTreeMap<&str, BTreeSet<String>> =
        shapes.iter().filter_map(|(name, shape)| Some((name.as_str(), format_shape(shape)?))).collect();
    let known = known![
        AxisOutcome ValueBasis CallOutcome CandidateOutcome ClaimedValue Envelope EnvelopeKind AxisEvidence FactsFrom OntologyRef
        FilterOperator OracleQuery OracleTier OracleVerificationRecord ConflictSide QueryFilter QueryRequest AxisReason TierRelation RetryAdvice
        Reverification SignatureVerification AxisStatus StatedValue ConflictStep ConflictStepOutcome ConflictStrategy VerificationTier EnvelopeVerificationStatus VerifyRequest
    ];
    assert_eq!(format_shape, known);
}

#[tokio::test]
async fn routes_refer_to_the_schemas() {
    let description = description().await;
    let schema = |place: &str| {
        let place = format!("/paths/{place}/content/application~1json/schema");
        description.pointer(&place).cloned().unwrap_or_default()
    };
    assert_eq!(schema("~1v1~1query/post/requestBody"), reference("OracleQuery"));
    assert_eq!(schema("~1v1~1verify/post/requestBody"), reference("VerifyRequest"));
    for route in ["~1v1~1verify/post", "~1v1~1verify~1{execution_id}/get"] {
        for status in [200, 202] {
            assert_eq!(
                schema(&format!("{route}/responses/{status}")),
                reference("Envelope"),
                "{route} {status}"
            );
        }
    }
}

/// Schemas reached from `name` of which no object in `value` has all members.
fn incomplete_schemas(description: &Value, name: &str, value: &Value) -> Vec<String> {
    let mut shapes = BTreeMap::new();
    reached(&reference(name), description, &mut shapes);
    let names =
        |value: &Value| value.as_object().map(|members| members.keys().cloned().collect::<BTreeSet<_>>());
    let held: BTreeSet<_> =
        objects(value, "").iter().filter_map(|place| names(value.pointer(place)?)).collect();
    let is_missing = |shape: &Value| {
        shape.get("properties").and_then(names).is_some_and(|members| !held.contains(&members))
    };
    shapes.into_iter().filter(|(_, shape)| is_missing(shape)).map(|(name, _)| name).collect()
}

/// JSON pointers of all objects in `value`, with the prefix `place`.
fn objects(value: &Value, place: &str) -> Vec<String> {
    let below: Vec<_> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        _ => Vec::new(),
    };
    let here = value.is_object().then(|| place.to_owned());
    let below = below.into_iter().flat_map(|(name, value)| objects(value, &format!("{place}/{name}")));
    here.into_iter().chain(below).collect()
}

/// A change of one member of a value.
struct MemberChange {
    /// JSON pointer of the object with the changed member.
    object: String,
    /// Name of the member; no type has a member `?`.
    name: String,
    /// The new value; `None` removes the member.
    to: Option<Value>,
}

impl MemberChange {
    /// All changes of one member of `value`, including one added member in each object.
    fn all(value: &Value) -> Vec<Self> {
        let mut all = Vec::new();
        for object in objects(value, "") {
            let members = value.pointer(&object).and_then(Value::as_object).expect("an object");
            for name in members.keys().map(String::as_str).chain(["?"]) {
                let others = [json!(null), json!(true), json!(7), json!("?")].into_iter().map(Some);
                let changes = others.chain([None]);
                all.extend(changes.map(|to| Self { object: object.clone(), name: name.to_owned(), to }));
            }
        }
        all
    }

    fn apply(&self, value: &Value) -> Value {
        let mut value = value.clone();
        let members = value.pointer_mut(&self.object).and_then(Value::as_object_mut).expect("an object");
        match &self.to {
            Some(to) => members.insert(self.name.clone(), to.clone()),
            None => members.remove(&self.name),
        };
        value
    }
}

/// An envelope with every possible member in every object.
fn envelope_with_all_members() -> Value {
    let digest = "0".repeat(64);
    let at = "2026-11-20T10:00:00Z";
    let record = json!({
        "oracle_id": "live", "oracle_tier": "primary", "source_locator": "https://live.example", "source_version": "7",
        "retrieved_at": at, "verified_at": at, "verification_method": "signature", "verifier_id": "oracled",
        "evidence_hash": digest, "ttl_seconds": 60, "chain_of_custody": ["here"],
        "signature_info": {"signed_by": "key-1", "signature_alg": "Ed25519", "signature_valid": true},
    });
    let stated = json!({"value": "54208", "definition": "without the islands"});
    let party = json!({"oracles": ["live"], "value": "54208", "tier": "primary"});
    json!({
        "execution_id": "v-1", "kind": "human_review", "status": "unverified", "workflow": "census",
        "workflow_sha256": digest, "ontology": {"ontology_id": "population", "version": "1"},
        "where": {"area": "ABW", "coastal": true}, "point_in_time": at, "known_at": at, "decided_at": at, "reasons": ["deviation"],
        "axes": {"population": {
            "kind": "human_review", "standing": "escalated", "value": "54208", "unit": "{person}", "definition": "without the islands",
            "basis": "resolution", "evidence": [{"record": record, "observed_at": at, "stale": false}],
            "delta": "400", "reasons": ["deviation"],
        }},
        "candidates": [{
            "oracle_id": "live", "outcome": "answered", "registered_tier": "primary", "tier": "primary",
            "values": {"population": stated, "area_km2": stated}, "deviations": {"population": "it was 1", "area_km2": "it was 2"},
            "record": record, "observed_at": at,
            "stale": false, "contested": true, "late": false, "latency_ms": 40,
        }],
        "steps": [{
            "axis": "population", "number": 1, "standing": party, "against": party, "delta": "400.5",
            "relation": "same_tier", "strategy": "require_human", "outcome": "escalated", "value": "54208",
            "reason": "require_human",
        }],
        "warnings": ["it is old"], "disclaimer": "nothing is verified",
        "retry": {"after_ms": 200, "oracles": ["live"], "advice": "ask again"}, "review_id": "v-1",
        "unspecified": ["year"],
        "reverify": [{"oracle_id": "live", "axes": ["population"], "reasons": ["expired"]}],
        "inputs_sha256": digest, "sha256": digest,
    })
}

/// Whether `value` is an envelope that the daemon can return.
fn is_valid_envelope(value: &Value) -> bool {
    let read = serde_json::from_value::<Envelope>(value.clone());
    read.is_ok_and(|envelope| serde_json::to_value(envelope).is_ok_and(|serialized| serialized == *value))
}

#[tokio::test]
async fn envelope_schema_accepts_exactly_the_valid_envelopes() {
    let description = description().await;
    let (shape, whole) = (validator(&description, &reference("Envelope")), envelope_with_all_members());
    assert_eq!(incomplete_schemas(&description, "Envelope", &whole), [""; 0]);
    assert!(is_valid_envelope(&whole), "{whole}");
    assert_eq!(shape.validate(&whole).map_err(|error| error.to_string()), Ok(()));
    let is_digest = |name: &str| name.contains("sha256") || name == "evidence_hash";
    for change in MemberChange::all(&whole) {
        let changed = change.apply(&whole);
        let MemberChange { object, name, to } = change;
        // any text is read in the place of a digest, but only a digest is ever returned
        let is_valid = is_valid_envelope(&changed) && !(is_digest(&name) && to == Some(json!("?")));
        assert_eq!(shape.is_valid(&changed), is_valid, "{object}/{name}: {to:?}");
    }
}

#[tokio::test]
async fn envelopes_of_real_decisions_match_the_schema() {
    let shape = validator(&description().await, &reference("Envelope"));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../actors/src/tests/verification/envelopes");
    let mut kinds = BTreeSet::new();
    for file in fs::read_dir(folder).expect("the file exists") {
        let path = file.expect("the read succeeds").path();
        let text = fs::read_to_string(&path).expect("valid UTF-8");
        // the stored file replaces two digests by an ellipsis
        let envelope: Value =
            serde_json::from_str(&text.replace("\"...\"", &format!("\"{:064}\"", 0))).unwrap();
        assert!(is_valid_envelope(&envelope), "{}", path.display());
        assert_eq!(
            shape.validate(&envelope).map_err(|error| error.to_string()),
            Ok(()),
            "{}",
            path.display()
        );
        kinds.insert(envelope["kind"].as_str().map(str::to_owned));
    }
    assert!(kinds.len() >= 4, "{kinds:?}");
}

/// Compares the requests that `path` accepts, derived from `whole`, with the schema `name`. The request refers to
/// unregistered documents, so that the status is 400 only if the request cannot be read. `whole` has every member of
/// every object, except for those in `not_whole_in_it`.
async fn check_read_as_described(name: &str, path: &str, whole: Value, not_whole_in_it: &[&str]) {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let description = document(&get(routes, "/openapi.json").await);
    assert_eq!(incomplete_schemas(&description, name, &whole), not_whole_in_it);
    let shape = validator(&description, &reference(name));
    assert_eq!(shape.validate(&whole).map_err(|error| error.to_string()), Ok(()));
    for change in MemberChange::all(&whole) {
        let changed = change.apply(&whole);
        let MemberChange { object, name, to } = change;
        // null is compared with the type of its axis only after the workflow was found
        if to == Some(json!(null)) && (name == "value" || object.ends_with("/where")) {
            continue;
        }
        let answer = post(routes, path, &changed).await;
        let is_read = answer.status.as_u16() != 400;
        assert_eq!(shape.is_valid(&changed), is_read, "{object}/{name}: {to:?}: {}", document(&answer));
    }
}

fn question() -> Value {
    json!({
        "workflow": "census", "where": {"area": "ABW", "year": 1960, "coastal": true}, "axes": ["population"],
        "claimed": {"population": {"value": 54208, "claimed_by": "a visitor", "confirmed": true}},
        "point_in_time": "2026-11-20", "known_at": "2026-11-20",
    })
}

#[tokio::test]
async fn verify_request_schema_accepts_exactly_the_readable_requests() {
    check_read_as_described("VerifyRequest", "/v1/verify", question(), &[]).await;
}

#[tokio::test]
async fn facts_from_entry_has_either_a_query_or_a_verification() {
    let shape = validator(&description().await, &reference("FactsFrom"));
    let query = json!({"oracle_id": "office", "request": {"axes_requested": ["population"]}});
    for (entry, is_one) in [
        (json!({"query": query}), true),
        (json!({"verify": question()}), true),
        (json!({"query": query, "verify": question()}), false),
        (json!({}), false),
    ] {
        let is_read = serde_json::from_value::<FactsFrom>(entry.clone()).is_ok();
        assert_eq!((shape.is_valid(&entry), is_read), (is_one, is_one), "{entry}");
    }
}

#[tokio::test]
async fn evaluate_request_schema_accepts_exactly_the_readable_requests() {
    let query = json!({"oracle_id": "office", "query_id": "q", "request": {
        "axes_requested": ["population"], "filters": [{"axis": "area", "operator": "eq", "value": "ABW"}],
        "point_in_time": "2026-11-20T10:00:00Z", "known_at": "2026-11-20", "include_provenance": true,
        "max_results": 1, "cursor": "c", "explain": false, "latest": true,
    }});
    let check = json!({
        "id": "case-1", "candidate_output": "54208 people", "facts": ["nobody counted"], "context": "a guide",
        "facts_from": [{"query": query}, {"verify": question()}], "constraints": ["1 < 2"],
    });
    // `expected` and `rules` are left out, and an entry has either `query` or `verify`
    let not_whole = ["CandidateExpectations", "EvaluateTextRequest", "FactsFrom"];
    check_read_as_described("EvaluateTextRequest", "/v1/rules/evaluate", check, &not_whole).await;
}

/// `body` with neither, one or both of two members.
fn combinations(body: &Value, members: &[(&str, Value); 2]) -> [Value; 4] {
    [&[][..], &members[..1], &members[1..], members].map(|members| {
        let mut body = body.clone();
        members.iter().for_each(|(name, value)| body[*name] = value.clone());
        body
    })
}

#[tokio::test]
async fn schemas_state_which_of_two_members_a_request_has() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let description = document(&get(routes, "/openapi.json").await);
    let submission = json!({"tier": "quick", "query": "?"});
    let check = json!({"tier": "quick", "query": "?", "session_id": "cs_1"});
    let text = json!({"candidate_output": "It is so."});
    let query = json!({"oracle_id": "office", "request": {"axes_requested": ["population"]}});
    let payload = |value: Value| [("verdict", value.clone()), ("raw", value)];
    let facts = [("facts", json!([])), ("facts_from", json!([{"query": query}]))];
    for (name, path, body, members) in [
        ("SubmitVerdictRequest", "/v1/verdicts/cs_1", &submission, payload(json!("{}"))),
        ("SubmitVerdictRequest", "/v1/verdicts/cs_1", &submission, payload(json!(null))),
        ("CrosscheckRequest", "/v1/crosscheck", &check, payload(json!("{}"))),
        ("CrosscheckRequest", "/v1/crosscheck", &check, payload(json!(null))),
        ("EvaluateTextRequest", "/v1/rules/evaluate", &text, facts),
    ] {
        let shape = validator(&description, &reference(name));
        for body in combinations(body, &members) {
            let answer = post(routes, path, &body).await;
            let is_read = answer.status.as_u16() != 400;
            assert_eq!(shape.is_valid(&body), is_read, "{path} {body}: {}", document(&answer));
        }
    }
}
