//! What the walk shows of verification: two sources agree and what they say is told, they disagree and a person decides, and
//! all of it is made anew from the log.

use super::ground::{Documents, FIRST};
use super::step::{Step, is, session};
use oracled_domain::ground::ontology::Ontology;
use serde_json::{Value, json};

/// What a question leaves in the log.
const ASKED: [&str; 3] = ["source_asked", "source_asked", "verification_decided"];

/// Steps that ask nobody outside; those of ground truth come before them.
///
/// # Errors
/// Where the documents are not what they were when this was compiled.
pub(super) fn steps(before: u64) -> anyhow::Result<Vec<Step>> {
    let known = Documents::of(&session(before, "population"))?;
    let office = known.beside(&session(before, "office"))?;
    let mut steps = office.registered("another source, which has stayed at the first release");
    steps.extend([
        office.ingest("that is ingested", &FIRST)?,
        Step::order("it is approved, too", office.source_path("/review"), &json!({"approve": {}}))
            .logging(&["source_changed"])
            .expecting(vec![("/review_status", is("approved"))]),
    ]);
    let census = session(before, "census");
    let document = workflow(&census, &known.ontology, &[&known, &office]);
    steps.extend([
        Step::put("a workflow says whom to ask, and who settles it", format!("/v1/workflows/{census}"), &document)
            .logging(&["workflow_registered"])
            .expecting(vec![("/unchanged", is(false))]),
        ask("on Serbia in 2015 both say the same, and it is told", &census, "SRB").logging(&ASKED).expecting(vec![
            ("/kind", is("authoritative")),
            ("/axes/population/value", is("7095383")),
            ("/axes/population/basis", is("agreement")),
        ]),
        ask("on Moldova they disagree: no value is told, and a person decides", &census, "MDA")
            .logging(&[&ASKED[..], &["review_opened"]].concat())
            .expecting(vec![
                ("/kind", is("human_review")),
                ("/axes/population/delta", is("718130")),
                ("/reasons/0", is("require_human")),
            ]),
        Step::order(
            "somebody does, with a reason and for a time",
            "/v1/reviews/{review_id}/resolve".into(),
            &json!({"values": {"population": 2_835_978}, "reason": "the later release", "valid_for_seconds": 86_400}),
        )
        .logging(&["review_resolved"])
        .expecting(vec![("/resolved/resolution/reason", is("the later release"))]),
        ask("and that stands from now on", &census, "MDA").logging(&ASKED).expecting(vec![
            ("/kind", is("authoritative")),
            ("/axes/population/value", is("2835978")),
            ("/axes/population/basis", is("human_lock")),
        ]),
        Step::look(
            "all of which the log has, so that it can be decided again, to the byte",
            "/v1/executions/{execution_id}".into(),
        )
        .expecting(vec![
            ("/decisions/0/envelope/kind", is("authoritative")),
            ("/decisions/0/reproduced", is(true)),
        ]),
    ]);
    Ok(steps)
}

/// A workflow over these sources, in which a person settles what they disagree on.
fn workflow(workflow_id: &str, ontology: &Ontology, sources: &[&Documents]) -> Value {
    let oracles: Vec<_> = sources.iter().map(|documents| &documents.source.oracle_id).collect();
    json!({
        "workflow_id": workflow_id,
        "domain": "How many people live in a country",
        "ontology": ontology.reference(),
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

/// Puts a question to a workflow.
fn ask(title: &str, workflow: &str, area: &str) -> Step {
    let question =
        json!({"workflow": workflow, "where": {"area": area, "year": 2015}, "axes": ["population"]});
    Step::verify(title, &question)
}
