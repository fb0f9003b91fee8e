use domain_base::digest::Sha256Hex;
use domain_ground::axis::Axis;
use domain_ground::freshness::{AxisFreshness, StaleBehavior};
use domain_ground::ontology::Ontology;
use domain_ground::source::{OracleTier, SourceRegistration};
use domain_ground::value::AxisValue;
use domain_verification::request::VerifyRequest;
use domain_verification::verification_record::StatedValue;
use domain_verification::{
    CandidateAnswer, DecisionInputs, OracleCall, OracleReply, OracleVerificationRecord, VerificationTier,
    Workflow,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The time of every decision.
pub(crate) fn now() -> Timestamp {
    "2026-11-20T10:00:00Z".parse().expect("a valid time")
}

pub(crate) fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// An ontology of patients, with axes for laboratories and registers.
pub(crate) fn ontology_json() -> Json {
    json!({
        "ontology_id": "clinic", "version": "1",
        "axes": [
            {"axis": "patient", "type": "string", "class": "measured", "identity": true, "description": "whom"},
            {"axis": "day", "type": "date", "class": "measured", "identity": true, "description": "when"},
            {"axis": "dose", "type": "number", "class": "measured", "unit": "mg", "precision": 1,
             "conservative": "lower", "description": "a dose"},
            {"axis": "visits", "type": "integer", "class": "measured", "description": "how often they came"},
            {"axis": "inr", "type": "number", "class": "measured", "precision": 1, "state_sensitive": true,
             "max_ttl_seconds": 3600, "description": "a laboratory's value"},
            {"axis": "status", "type": "enum", "values": ["open", "closed"], "class": "measured",
             "description": "a legal status"},
            {"axis": "address", "type": "string", "class": "self_reported", "description": "where they live"},
            {"axis": "weight", "type": "number", "class": "self_reported", "precision": 1,
             "conservative": "lower", "description": "what they say they weigh"},
            {"axis": "values.*.amount", "type": "number", "class": "measured", "description": "by name"}
        ]
    })
}

pub(crate) fn ontology() -> &'static Ontology {
    static ONTOLOGY: LazyLock<Ontology> = LazyLock::new(|| {
        let ontology: Ontology = serde_json::from_value(ontology_json()).expect("an ontology");
        ontology.validate().expect("the settings are valid");
        ontology
    });
    &ONTOLOGY
}

pub(crate) fn source(oracle_id: &str, tier: OracleTier, axes: &[&str]) -> SourceRegistration {
    let document = json!({
        "oracle_id": oracle_id, "oracle_name": "A source", "oracle_tier": tier, "upstream_authority": "An office",
        "upstream_url": "https://example.org", "data_license": "CC0", "domain": "clinic",
        "ontology": {"ontology_id": "clinic", "version": "1"}, "axes_provided": axes, "update_frequency": "daily",
        "adapter_id": "store", "query_contract": "clinic-v1"
    });
    serde_json::from_value(document).expect("a registration")
}

/// A workflow over these axes and oracles, with these settings in addition to minimal ones.
pub(crate) fn workflow(axes: &[&str], oracles: &[&str], settings: Json) -> Workflow {
    let mut document = json!({
        "workflow_id": "intake", "domain": "clinic", "ontology": {"ontology_id": "clinic", "version": "1"},
        "axes": axes, "oracles": oracles,
        "oracle_latency": {"on_timeout": "FAIL_CLOSED_BLOCK"},
        "authority_latency": {"authority_latency_budget_ms": 6000, "enforcement_mode": "INLINE",
                              "on_timeout_behavior": "FAIL_CLOSED"}
    });
    for (field, value) in settings.as_object().expect("settings are fields") {
        document[field] = value.clone();
    }
    serde_json::from_value(document).expect("a workflow")
}

/// The inputs of a question about these axes of one patient, before any call.
pub(crate) fn inputs(workflow: Workflow, axes: &[&str], more: Json) -> DecisionInputs {
    let mut request = json!({
        "workflow": "intake", "where": {"patient": "p-1", "day": "2026-11-20"}, "axes": axes
    });
    for (field, value) in more.as_object().expect("fields") {
        request[field] = value.clone();
    }
    let request: VerifyRequest = serde_json::from_value(request).expect("a request");
    let ontology = ontology();
    let question = request.read(&workflow, ontology, now()).expect("the value is valid");
    let mut inputs = DecisionInputs::new("verify:1".into(), workflow, ontology, question, ago(1));
    inputs.decided_at = now();
    inputs.elapsed_ms = 1000;
    inputs
}

pub(crate) fn sample_subject() -> BTreeMap<String, AxisValue> {
    [("day", "2026-11-20"), ("patient", "p-1")]
        .map(|(axis, value)| (axis.to_owned(), AxisValue::Text(value.into())))
        .into()
}

/// A flawless answer of an oracle: pinned, fresh, and verified ten seconds ago.
pub(crate) fn candidate(oracle_id: &str, values: &[(&str, &str)]) -> CandidateAnswer {
    let stated = |(path, value): &(&str, &str)| {
        let stated = StatedValue { value: AxisValue::Text((*value).into()), definition: None };
        ((*path).to_owned(), stated)
    };
    let fresh = |(path, _): &(&str, &str)| AxisFreshness {
        axis: (*path).to_owned(),
        age_seconds: Some(10),
        max_age_seconds: 3600,
        stale: false,
        stale_behavior: StaleBehavior::FailClosed,
    };
    CandidateAnswer {
        subject: sample_subject(),
        values: values.iter().map(stated).collect(),
        record: OracleVerificationRecord {
            oracle_id: oracle_id.parse().expect("a valid id"),
            // the tier in an answer itself does not count
            oracle_tier: VerificationTier::Primary,
            source_locator: format!("oracle:{oracle_id}/p-1"),
            source_version: Some("7".into()),
            retrieved_at: ago(10),
            verified_at: ago(10),
            verification_method: "controlled ingestion".into(),
            verifier_id: "oracled".into(),
            evidence_hash: Some(Sha256Hex::of(oracle_id.as_bytes())),
            signature_info: None,
            ttl_seconds: None,
            chain_of_custody: None,
        },
        observed_at: ago(10),
        freshness: values.iter().map(fresh).collect(),
        deviations: BTreeMap::new(),
        provenance: None,
    }
}

pub(crate) fn call(tier: OracleTier, axes: &[&str], reply: OracleReply) -> OracleCall {
    OracleCall {
        oracle_tier: tier,
        axes: axes.iter().map(|axis| (*axis).to_owned()).collect(),
        asked_at: Some(ago(1)),
        ended_at: Some(now()),
        latency_ms: 100,
        cache_hit: false,
        reply,
        kept: None,
        warnings: Vec::new(),
    }
}

pub(crate) fn answered_call(tier: OracleTier, candidate: CandidateAnswer) -> OracleCall {
    let axes: Vec<_> = candidate.values.keys().cloned().collect();
    let mut call = call(tier, &[], OracleReply::Answered { candidate: Box::new(candidate) });
    call.axes = axes;
    call
}

/// Adds the answer of an oracle with these values.
pub(crate) fn answers(
    inputs: &mut DecisionInputs,
    oracle_id: &str,
    tier: OracleTier,
    values: &[(&str, &str)],
) {
    let call = answered_call(tier, candidate(oracle_id, values));
    inputs.calls.insert(oracle_id.parse().expect("a valid id"), call);
}

/// The answer of an oracle, for changes.
pub(crate) fn answer_of<'i>(inputs: &'i mut DecisionInputs, oracle_id: &str) -> &'i mut CandidateAnswer {
    let call = inputs.calls.get_mut(&oracle_id.parse().expect("a valid id")).expect("the oracle was queried");
    match &mut call.reply {
        OracleReply::Answered { candidate } => candidate,
        _ => panic!("it did not answer"),
    }
}

/// The definition of an axis, for changes.
pub(crate) fn axis_of<'i>(inputs: &'i mut DecisionInputs, path: &str) -> &'i mut Axis {
    inputs.axes.get_mut(path).expect("the request includes it")
}
