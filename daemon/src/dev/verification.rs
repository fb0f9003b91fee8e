//! The walk's chapters about verification: two sources agree, and disagree.

use super::ground::{Documents, FIRST};
use super::step::{Chapter, Socket, Step, is, session};
use serde_json::{Value, json};

/// These chapters require the chapters of ground truth.
pub(super) fn chapters(before: u64) -> anyhow::Result<Vec<Chapter>> {
    let known = Documents::of(&session(before, "population"))?;
    let office = known.beside(&session(before, "office"))?;
    let census = session(before, "census");
    let ask = |area: &str| {
        let question =
            json!({"workflow": census, "where": {"area": area, "year": 2015}, "axes": ["population"]});
        Step::post(Socket::Routes, "/v1/verify", &question)
    };
    let decided = |area: &str, value: &str, basis: &str| {
        ask(area).expecting(vec![
            ("/kind", is("authoritative")),
            ("/axes/population/value", is(value)),
            ("/axes/population/basis", is(basis)),
        ])
    };
    let mut agree = office.registered();
    agree.extend(office.ingest(&FIRST));
    agree.extend([
        office.approve(),
        Step::put(format!("/v1/documents/workflow/{census}"), &workflow(&census, &[&known, &office])),
        decided("SRB", "7095383", "agreement"),
    ]);
    let resolution = json!({
        "values": {"population": 2_835_978},
        "reason": "the later release",
        "valid_for_seconds": 86_400,
    });
    let disagree = vec![
        ask("MDA").expecting(vec![
            ("/kind", is("human_review")),
            ("/axes/population/delta", is("718130")),
            ("/reasons/0", is("require_human")),
        ]),
        Step::post(Socket::Control, "/v1/reviews/{/review_id}/resolve", &resolution)
            .expecting(vec![("/resolved/resolution/reason", is("the later release"))]),
        decided("MDA", "2835978", "human_lock"),
        Step::get(Socket::Control, "/v1/executions/{/execution_id}".into()).expecting(vec![
            ("/decisions/0/envelope/kind", is("authoritative")),
            ("/decisions/0/reproduced", is(true)),
        ]),
    ];
    Ok(vec![
        Chapter::new("two sources agree on a question, and their value is authoritative", agree),
        Chapter::new("they disagree on another, a reviewer decides, and the log reproduces it", disagree),
    ])
}

/// A workflow over these sources, whose disputes a reviewer decides.
fn workflow(workflow_id: &str, sources: &[&Documents]) -> Value {
    let ontology = sources.first().map(|documents| documents.ontology.reference());
    let oracles: Vec<_> = sources.iter().map(|documents| &documents.source.oracle_id).collect();
    json!({
        "workflow_id": workflow_id,
        "domain": "How many people live in a country",
        "ontology": ontology,
        "axes": ["population"],
        "oracles": oracles,
        "conflict_resolution": {"same_tier_strategy": "require_human"},
        "oracle_latency": {"on_timeout": "FAIL_CLOSED_BLOCK"},
        "authority_latency": {
            "authority_latency_budget_ms": 3000,
            "enforcement_mode": "INLINE",
            "on_timeout_behavior": "ESCALATE",
        },
    })
}
