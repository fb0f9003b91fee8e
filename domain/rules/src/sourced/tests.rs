use super::*;
use crate::event::{FactOriginEntry, RulesEntry};
use crate::{CandidateCheck, CandidateText, FactSet, RuleSettings, RulesEvaluation, evaluate};
use domain_ground::ontology::Ontology;
use domain_ground::query::QueryAnswer;
use domain_ground::record::ProvenanceRecord;
use domain_verification::{Envelope, EnvelopeKind, decide};
use serde_json::{Value as Json, json};
use strum::VariantArray;
use support::{answer_of, answers, inputs, ontology as clinic, workflow};

#[path = "../../../verification/src/tests/support.rs"]
#[allow(dead_code, reason = "these tests use some of the builders")]
mod support;

fn ontology() -> Ontology {
    let axis =
        |axis: &str, kind: &str| json!({"axis": axis, "type": kind, "class": "measured", "description": "x"});
    let mut area = axis("area", "string");
    area["identity"] = json!(true);
    let document = json!({"ontology_id": "population", "version": "1",
    "axes": [area, axis("name", "string"), axis("people", "number")],
    "fact_templates": [
        {"template_id": "plain", "template": "{area} has {people:grouped} people"},
        {"template_id": "named", "template": "{name} has {people} people"},
        {"template_id": "defined", "template": "{area} {people:definition} has {people} people"}
    ]});
    serde_json::from_value(document).unwrap()
}

/// An answer of three records; the second has another definition, and the third has no value.
fn answer() -> QueryAnswer {
    let record = |position: u32, axes: Json, definitions: Json| {
        json!({"record_id": format!("0123456789abcdef-{position}"), "source_record_id": "x", "axes": axes,
            "definitions": definitions, "valid_from": "2020-01-01T00:00:00Z", "valid_until": null})
    };
    let chain = |position: u32| {
        json!({"record_id": format!("0123456789abcdef-{position}"), "oracle_id": "world-bank", "source_version": "2020",
            "source_record_id": "x", "ingested_at": "2020-01-02T00:00:00Z", "ingestion_pipeline_id": "world-bank",
            "ingestion_run_id": Sha256Hex::of(b"run"), "raw_hash": Sha256Hex::of(&position.to_be_bytes()),
            "transformations_applied": [], "valid_from": "2020-01-01T00:00:00Z", "valid_until": null,
            "superseded_by": null, "verification_status": "auto_verified",
            "raw": {"raw_sha256": Sha256Hex::of(b"raw"), "position": position, "offset": 0, "len": 1}})
    };
    let freshness = json!({"axis": "people", "age_seconds": 1, "max_age_seconds": 10, "stale": false,
        "stale_behavior": "serve_stale_with_warning"});
    let document = json!({"query_id": "q", "oracle_id": "world-bank", "response": {
        "records": [
            record(1, json!({"area": "AUT", "people": "8642699"}), json!({})),
            record(2, json!({"area": "SRB", "people": "7095383"}), json!({"people": "without Kosovo"})),
            record(3, json!({"area": "XXX"}), json!({})),
        ],
        "provenance": [chain(1), chain(2), chain(3)],
        "query_metadata": {"query_id": "q", "executed_at": "2020-02-01T00:00:00Z", "latency_ms": 0.5,
            "records_scanned": 3, "records_returned": 3, "data_version": "2020", "known_at": null,
            "oracle_tier": "primary",
            "freshness": {"data_as_of": null, "staleness_seconds": null, "axes": [freshness], "answer": "serve",
                "warnings": [], "refresh": false}},
        "cursor": null}});
    serde_json::from_value(document).unwrap()
}

fn chain_of_first(answer: &QueryAnswer) -> ProvenanceRecord {
    answer.response.provenance.as_ref().unwrap()[0].clone()
}

fn people() -> Vec<String> {
    vec!["people".to_owned()]
}

fn source() -> FactSource {
    FactSource::from_answer(&answer(), &people(), None, &ontology()).unwrap()
}

fn evaluated(check: &CandidateCheck, text: &str) -> RulesEvaluation {
    evaluate(&CandidateText::text(text), check, &FactSet::compile(&check.facts), &RuleSettings::default())
}

#[test]
fn fact_from_answer_names_its_record() {
    let source = source();
    assert_eq!(
        (source.facts, source.asked.clone()),
        (2, FactQueryTarget::Query("world-bank".parse().unwrap()))
    );
    let shown = source.origins.iter().map(|OriginFacts { facts, origin }| {
        let SourcedFactOrigin::Record(record) = origin else { unreachable!("a query gives records") };
        assert_eq!((record.source_version.as_str(), record.stale), ("2020", false));
        let facts = facts.iter().map(|fact| (fact.template_id.as_str(), fact.text.as_str()));
        (record.record_id.as_str(), record.raw_hash.clone(), facts.collect::<Vec<_>>())
    });
    let raw = |position: u32| Sha256Hex::of(&position.to_be_bytes());
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            ("0123456789abcdef-1", raw(1), vec![("plain", "AUT has 8,642,699 people")]),
            ("0123456789abcdef-2", raw(2), vec![("defined", "SRB without Kosovo has 7095383 people")]),
        ]
    );
}

#[test]
fn evidence_of_supported_claim_leads_to_the_record() {
    let check = CandidateCheck { facts: vec!["Ice melts".into()], ..CandidateCheck::default() };
    let check = check.with_facts_from(vec![source(), source()]);
    assert_eq!(check.facts.len(), 5);
    let evaluation = evaluated(&check, "SRB without Kosovo has 7095383 people. Ice melts");
    let sourced = evaluation.rules.iter().find(|result| result.rule.into_str() == "RULE-PREC-004").unwrap();
    let facts: Vec<_> = sourced.evidence.iter().map(|step| step.output.fact).collect();
    assert_eq!(facts, [Some(2), Some(0)]);
    let named: Vec<_> = evaluation.facts_from.iter().flat_map(FactSource::facts).collect();
    assert_eq!(named.iter().map(|fact| fact.fact).collect::<Vec<_>>(), [1, 2, 3, 4]);
    for fact in &named {
        assert_eq!(fact.text, check.facts[fact.fact as usize]);
    }
}

#[test]
fn evaluation_with_origins_is_canonical_and_its_digests_cover_them() {
    let plain = CandidateCheck {
        facts: source().facts().map(|fact| fact.text.clone()).collect(),
        ..CandidateCheck::default()
    };
    let sourced = CandidateCheck::default().with_facts_from(vec![source()]);
    assert_eq!(plain.facts, sourced.facts);
    let (plain, sourced) = (evaluated(&plain, "AUT"), evaluated(&sourced, "AUT"));
    assert_eq!(plain.facts_sha256, sourced.facts_sha256);
    assert_ne!(plain.input_sha256, sourced.input_sha256);
    for evaluation in [&plain, &sourced] {
        let json = serde_json::to_string(evaluation).unwrap();
        let canonical = serde_json_canonicalizer::to_string(evaluation).unwrap();
        assert_eq!(json, canonical);
        let mut members: Json = serde_json::from_str(&json).unwrap();
        members.as_object_mut().unwrap().remove("sha256");
        assert_eq!(Sha256Hex::of(members.to_string().as_bytes()), evaluation.sha256);
        assert_eq!(json.contains("facts_from"), evaluation == &sourced);
        assert_eq!(&serde_json::from_str::<RulesEvaluation>(&json).unwrap(), evaluation);
    }
    let mut other = source();
    if let Some(SourcedFactOrigin::Record(record)) =
        other.origins.first_mut().map(|origin| &mut origin.origin)
    {
        record.stale = true;
    }
    let other = evaluated(&CandidateCheck::default().with_facts_from(vec![other]), "AUT");
    assert_ne!(other.sha256, sourced.sha256);
    assert_ne!(other.input_sha256, sourced.input_sha256);
}

#[test]
fn check_with_origins_round_trips() {
    let check = CandidateCheck::default().with_facts_from(vec![source()]);
    let json = serde_json::to_string(&check).unwrap();
    assert_eq!(serde_json::from_str::<CandidateCheck>(&json).unwrap(), check);
    assert!(!serde_json::to_string(&CandidateCheck::default()).unwrap().contains("facts_from"));
}

#[test]
fn logged_origins_have_no_text_and_are_limited() {
    let many = FactSource { origins: (0..101).flat_map(|_| source().origins).collect(), ..source() };
    let evaluation = evaluated(&CandidateCheck::default().with_facts_from(vec![many]), "AUT");
    let entry = RulesEntry::of(&evaluation, None);
    let facts_entry = entry.facts_from.clone().unwrap();
    assert_eq!((facts_entry.origins.len(), facts_entry.origins_omitted), (100, 102));
    let canonical = serde_json_canonicalizer::to_string(&evaluation.facts_from).unwrap();
    assert_eq!(facts_entry.sha256, Sha256Hex::of(canonical.as_bytes()));
    assert!(
        matches!(&facts_entry.origins[1], FactOriginEntry::Record(record) if record.record_id == "0123456789abcdef-2")
    );
    assert!(!serde_json::to_string(&entry).unwrap().contains("Kosovo"));
    let check = CandidateCheck::default().with_facts_from(vec![source()]);
    let unsupported = RulesEntry::of(&evaluated(&check, "Honey is sweet"), None).facts_from.unwrap();
    assert_eq!(unsupported.relied_on, Some(Vec::new()), "no fact supports a claim");
    let plain = RulesEntry::of(&evaluated(&CandidateCheck::default(), "AUT"), None);
    assert!(!serde_json::to_string(&plain).unwrap().contains("facts_from"));
}

#[test]
fn entry_refers_to_the_statements_that_support_claims() {
    let check = CandidateCheck { facts: vec!["Ice melts".into()], ..CandidateCheck::default() };
    let check = check.with_facts_from(vec![source()]);
    let text = "SRB without Kosovo has 7095383 people. Ice melts";
    let entry = |check: &CandidateCheck| RulesEntry::of(&evaluated(check, text), None).facts_from.unwrap();
    let relied_on = entry(&check).relied_on.unwrap();
    let [reference] = &relied_on[..] else { panic!("one fact of a source supports a claim: {relied_on:?}") };
    assert_eq!(
        (reference.oracle_id.as_str(), reference.record_id.as_str(), reference.source_version.as_deref()),
        ("world-bank", "0123456789abcdef-2", Some("2020"))
    );
    assert_eq!(reference.template_id.as_ref().unwrap().as_str(), "defined");
    assert_eq!(reference.fact_sha256, Some(Sha256Hex::of(b"SRB without Kosovo has 7095383 people")));
    let claims: Vec<_> = reference.claims.iter().map(|claim| (claim.start, claim.end)).collect();
    assert_eq!((claims, reference.claims_omitted), (vec![(0, 37)], 0));
    // a rule that only counts names no facts, so all statements are referred to
    let counted = CandidateCheck { rules: Some(vec!["RULE-PREC-001".parse().unwrap()]), ..check };
    let all = entry(&counted).relied_on.unwrap();
    assert_eq!(all.iter().map(|reference| reference.claims.len()).collect::<Vec<_>>(), [0, 0]);
    let many = FactSource { origins: (0..101).flat_map(|_| source().origins).collect(), ..source() };
    let many =
        CandidateCheck { facts: Vec::new(), facts_from: Vec::new(), ..counted }.with_facts_from(vec![many]);
    let many = RulesEntry::of(&evaluated(&many, "AUT has 8,642,699 people"), None).facts_from.unwrap();
    assert_eq!((many.relied_on.unwrap().len(), many.relied_on_omitted), (100, 102));
}

#[test]
fn entry_lists_the_origin_of_a_supporting_fact_beyond_the_first_100() {
    let [first, second] = <[OriginFacts; 2]>::try_from(source().origins).unwrap();
    let mut origins = vec![first; 149];
    origins.push(second);
    let check = CandidateCheck::default().with_facts_from(vec![FactSource { origins, ..source() }]);
    let entry = RulesEntry::of(&evaluated(&check, "SRB without Kosovo has 7095383 people"), None);
    let facts_from = entry.facts_from.unwrap();
    let relied_on = facts_from.relied_on.unwrap();
    assert_eq!(relied_on.iter().map(|of| of.record_id.as_str()).collect::<Vec<_>>(), ["0123456789abcdef-2"]);
    assert_eq!((facts_from.origins.len(), facts_from.origins_omitted), (100, 50));
    let [.., FactOriginEntry::Record(last)] = &facts_from.origins[..] else { panic!("it is a record") };
    assert_eq!(last.record_id, relied_on[0].record_id);
}

#[test]
fn incomplete_answer_gives_no_facts() {
    let none = |answer: &QueryAnswer, axes: &[String]| {
        FactSource::from_answer(answer, axes, None, &ontology()).unwrap_err()
    };
    let mut more = answer();
    more.response.cursor = Some("more".into());
    assert_eq!(none(&more, &people()), NoFactsError::More { records: 3 });
    let mut without = answer();
    without.response.provenance = None;
    assert_eq!(none(&without, &people()), NoFactsError::NoProvenance("0123456789abcdef-1".to_owned()));
    let name = vec!["name".to_owned()];
    let (requested, named) = ("name".to_owned(), "name, people".to_owned());
    let expected = NoFactsError::NoTemplate { ontology: ontology().reference(), requested, named };
    assert_eq!(none(&answer(), &name), expected);
    assert_eq!(FactSource::check_query(&ontology(), &people(), Some("x")), Err(NoFactsError::Cursor));
    assert!(FactSource::check_query(&ontology(), &name, None).is_err());
    assert_eq!(FactSource::check_query(&ontology(), &people(), None), Ok(()));
    let mut many = answer();
    let (first, chain) = (many.response.records[0].clone(), chain_of_first(&many));
    many.response.records = vec![first; SOURCED_FACTS_MAX + 1];
    many.response.provenance = Some(vec![chain; SOURCED_FACTS_MAX + 1]);
    assert_eq!(none(&many, &people()), NoFactsError::TooMany);
    let mut long = answer();
    let (mut first, chain) = (long.response.records[0].clone(), chain_of_first(&long));
    first.axes.insert("area".into(), Some(domain_ground::value::AxisValue::Text("x".repeat(2_000))));
    long.response.records = vec![first; SOURCED_BYTES_MAX / 2_000 + 1];
    long.response.provenance = Some(vec![chain; SOURCED_BYTES_MAX / 2_000 + 1]);
    assert_eq!(none(&long, &people()), NoFactsError::TooMany);
    // an empty answer gives no facts and no error
    let mut empty = answer();
    empty.response.records.clear();
    let empty = FactSource::from_answer(&empty, &people(), None, &ontology()).unwrap();
    assert_eq!((empty.facts, empty.origins.len()), (0, 0));
}

#[test]
fn fact_prevented_only_by_a_definition_is_an_error_that_names_it() {
    let refused = |answer: &QueryAnswer, axes: &[&str], templates: &[&str]| {
        let axes: Vec<_> = axes.iter().map(|&axis| axis.to_owned()).collect();
        FactSource::from_answer(answer, &axes, None, &only(ontology(), templates))
            .map_err(|error| error.to_string())
    };
    let message = "no fact contains `people` of record 0123456789abcdef-2: the templates of population@1 for it \
                (plain) do not include its definition `without Kosovo`; add a template with `{people:definition}`";
    assert_eq!(refused(&answer(), &["people"], &["plain"]), Err(message.to_owned()));
    // a template with an axis that the record lacks gives no fact of it, with or without the definition
    let only_plain_has_all = refused(&answer(), &["people", "name"], &["plain", "named"]);
    assert_eq!(only_plain_has_all, Err(message.to_owned()));
    let mut first = answer();
    first.response.records.truncate(1);
    assert_eq!(refused(&first, &["people"], &["plain"]).map(|source| source.facts), Ok(1));
    let mut others = answer();
    others.response.records.remove(0);
    others.response.provenance.as_mut().unwrap().remove(0);
    assert_eq!(refused(&others, &["people"], &["defined"]).map(|source| source.facts), Ok(1));
    let none = "the query result gives no fact: each template of population@1 for the requested axes (named) lacks a value or a definition";
    assert_eq!(refused(&answer(), &["people", "name"], &["named"]), Err(none.to_owned()));
}

#[test]
fn facts_of_several_entries_have_a_common_limit() {
    let mut answer = answer();
    let (first, chain) = (answer.response.records[0].clone(), chain_of_first(&answer));
    answer.response.records = vec![first; SOURCED_FACTS_MAX / 2];
    answer.response.provenance = Some(vec![chain; SOURCED_FACTS_MAX / 2]);
    let half = FactSource::from_answer(&answer, &people(), None, &ontology()).unwrap();
    assert_eq!(check_fact_limits(&[half.clone(), half.clone()]), Ok(()));
    assert_eq!(check_fact_limits(&[half.clone(), source(), half.clone()]), Err(NoFactsError::TooMany));
    let mut long = source();
    long.origins[0].facts[0].text = "x".repeat(SOURCED_BYTES_MAX);
    assert_eq!(check_fact_limits(&[long]), Err(NoFactsError::TooMany));
}

#[test]
fn origins_of_stale_answer_are_marked_stale() {
    let mut stale = answer();
    stale.response.query_metadata.freshness.policy.axes[0].stale = true;
    let source = FactSource::from_answer(&stale, &people(), None, &ontology()).unwrap();
    let is_stale =
        |origin: &OriginFacts| matches!(&origin.origin, SourcedFactOrigin::Record(record) if record.stale);
    assert!(source.origins.iter().all(is_stale));
}

#[test]
fn source_warnings_exclude_warnings_about_age() {
    let mut warned = answer();
    warned.response.query_metadata.freshness.policy.warnings = vec!["people is 11 s old".into()];
    warned.response.warnings = vec!["it is deprecated".into(), "people is 11 s old".into()];
    let source = FactSource::from_answer(&warned, &people(), None, &ontology()).unwrap();
    assert_eq!(source.warnings, ["it is deprecated"]);
    let evaluation = evaluated(&CandidateCheck::default().with_facts_from(vec![source]), "AUT");
    let json = serde_json::to_string(&evaluation).unwrap();
    assert_eq!(json, serde_json_canonicalizer::to_string(&evaluation).unwrap());
    assert_eq!(serde_json::from_str::<RulesEvaluation>(&json).unwrap(), evaluation);
}

/// An ontology with only these of its templates.
fn only(mut ontology: Ontology, templates: &[&str]) -> Ontology {
    ontology.fact_templates.retain(|template| templates.contains(&template.template_id.as_str()));
    ontology
}

/// The envelope for a dose from two laboratories, of which the second answers `second`.
fn envelope(second: &str) -> Envelope {
    let workflow = workflow(&["dose"], &["lab-a", "lab-b"], json!({}));
    let mut inputs = inputs(workflow, &["dose"], json!({}));
    answers(&mut inputs, "lab-a", OracleTier::Primary, &[("dose", "5")]);
    answers(&mut inputs, "lab-b", OracleTier::Primary, &[("dose", second)]);
    assert!(!answer_of(&mut inputs, "lab-a").values.is_empty());
    decide(&inputs)
}

fn doses() -> Ontology {
    let template = json!({"template_id": "dose", "template": "{patient} gets {dose} {dose:unit}"});
    Ontology { fact_templates: vec![serde_json::from_value(template).unwrap()], ..clinic().clone() }
}

#[test]
fn authoritative_envelope_gives_facts_with_their_sources() {
    let envelope = envelope("5");
    assert_eq!(envelope.kind, EnvelopeKind::Authoritative, "{envelope:?}");
    let source = FactSource::from_envelope(&envelope, &doses()).unwrap();
    assert_eq!((source.facts, source.asked.clone()), (1, FactQueryTarget::Verify(envelope.workflow.clone())));
    let [OriginFacts { facts, origin: SourcedFactOrigin::Verification(origin) }] = &source.origins[..] else {
        unreachable!("one decision")
    };
    assert!(facts[0].text.ends_with(" gets 5 mg"), "{facts:?}");
    assert_eq!((&origin.execution_id, &origin.envelope_sha256), (&envelope.execution_id, &envelope.sha256));
    let oracle_ids: Vec<_> = origin.records["dose"].iter().map(|record| record.oracle_id.as_str()).collect();
    assert_eq!((oracle_ids, origin.stale), (vec!["lab-a", "lab-b"], false));
    let evaluation = evaluated(&CandidateCheck::default().with_facts_from(vec![source]), "x");
    let json = serde_json::to_string(&evaluation).unwrap();
    assert_eq!(json, serde_json_canonicalizer::to_string(&evaluation).unwrap());
}

#[test]
fn other_envelopes_give_no_facts() {
    let contested = envelope("7");
    assert_eq!(contested.kind, EnvelopeKind::HumanReview);
    let believed = envelope("5");
    for kind in EnvelopeKind::VARIANTS.iter().filter(|kind| **kind != EnvelopeKind::Authoritative) {
        let refused =
            FactSource::from_envelope(&Envelope { kind: *kind, ..believed.clone() }, &doses()).unwrap_err();
        let message = format!(
            "the decision {} is {}; only an authoritative decision gives facts",
            believed.execution_id,
            kind.into_str()
        );
        assert!(refused.to_string().starts_with(&message), "{refused}");
    }
    FactSource::from_envelope(&contested, &doses()).unwrap_err();
    let mut without = believed;
    without.axes.get_mut("dose").unwrap().value = None;
    FactSource::from_envelope(&without, &doses()).unwrap_err();
}

#[test]
fn verified_value_is_in_a_fact_or_named_in_the_error() {
    let refused = |envelope: &Envelope, templates: &[&str]| {
        let read = |(index, template): (usize, &&str)| {
            let template = json!({"template_id": format!("t{index}"), "template": template});
            serde_json::from_value(template).unwrap()
        };
        let fact_templates = templates.iter().enumerate().map(read).collect();
        let ontology = Ontology { fact_templates, ..clinic().clone() };
        FactSource::from_envelope(envelope, &ontology).unwrap_err().to_string()
    };
    let (plain, mut defined) = (envelope("5"), envelope("5"));
    let (dose, with_definition) = ("{patient} gets {dose}", "{patient} gets {dose} ({dose:definition})");
    defined.axes.get_mut("dose").unwrap().definition = Some("by weight".into());
    let of = &plain.execution_id;
    assert_eq!(
        refused(&defined, &[dose, "{dose:thousand:2} grams"]),
        format!(
            "no fact contains `dose` of the decision {of}: the templates of clinic@1 for it (t0, t1) do not include \
             its definition `by weight`; add a template with `{{dose:definition}}`"
        )
    );
    let untold = |templates: &str| {
        format!(
            "no fact contains `dose` of the decision {of}: the templates of clinic@1 for it ({templates}) need a value or \
             a definition that is missing, or the value rounds to zero"
        )
    };
    assert_eq!(refused(&plain, &[with_definition]), untold("t0"));
    // another fact of the same entity does not replace it
    assert_eq!(refused(&plain, &["{dose:million:2} kilograms", "{patient} was seen"]), untold("t0"));
    let none =
        "gives no fact: each template of clinic@1 for the requested axes (t0) lacks a value or a definition";
    assert_eq!(refused(&plain, &["{dose:definition}"]), format!("the decision {of} {none}"));
}

#[test]
fn facts_from_entry_has_either_query_or_verify() {
    let read = |text: &str| serde_json::from_str::<FactsFrom>(text).map_err(|error| error.to_string());
    let query = r#""query":{"oracle_id":"world-bank","request":{"axes_requested":["people"]}}"#;
    let verify = r#""verify":{"workflow":"people","where":{},"axes":["people"]}"#;
    assert!(matches!(read(&format!("{{{query}}}")), Ok(FactsFrom::Query(_))));
    assert!(matches!(read(&format!("{{{verify}}}")), Ok(FactsFrom::Verify(_))));
    for (bad, words) in [
        ("{}".to_owned(), "either `query` or `verify`"),
        (format!("{{{query},{verify}}}"), "either `query` or `verify`"),
        (r#"{"ask":1}"#.to_owned(), "unknown field `ask`, expected `query` or `verify`"),
        (r#"{"query":{"oracle_id":"world-bank"}}"#.to_owned(), "missing field `request`"),
    ] {
        let fault = read(&bad).unwrap_err();
        assert!(fault.contains(words), "{bad}: {fault}");
    }
    let entry = read(&format!("{{{query}}}")).unwrap();
    assert_eq!(read(&serde_json::to_string(&entry).unwrap()), Ok(entry));
}
