//! The shipped and the documented adapters, each with an answer of its source.

use super::*;
use crate::oracle_call::AnswerFault;

/// France in 2015, as answered by the World Bank's API.
const ANSWER: &str = r#"[{"page":1,"pages":1,"per_page":50,"total":1,"sourceid":"2","lastupdated":"2026-03-06"},
[{"indicator":{"id":"SP.POP.TOTL","value":"Population, total"},"country":{"id":"FR","value":"France"},
"countryiso3code":"FRA","date":"2015","value":66548272,"unit":"","obs_status":"","decimal":0}]]"#;

fn ready() -> ValidatedAdapter {
    let ontology: Ontology =
        serde_json::from_str(include_str!("../../../../../examples/ground-truth/ontologies/population.json"))
            .unwrap();
    let source: SourceRegistration = serde_json::from_str(include_str!(
        "../../../../../examples/ground-truth/live/world-bank.source.json"
    ))
    .unwrap();
    let adapter: Adapter = serde_json::from_str(include_str!(
        "../../../../../examples/ground-truth/live/world-bank.adapter.json"
    ))
    .unwrap();
    adapter.validate(&source, Arc::new(ontology)).unwrap()
}

fn read(answer: &str) -> AnswerReadOutcome {
    let subject = BTreeMap::from([
        ("area".to_owned(), AxisValue::Text("FRA".into())),
        ("year".to_owned(), AxisValue::Text("2015".into())),
    ]);
    let question =
        SourceQuestion { subject: &subject, point_in_time: None, nonce: "", asked_at: now(), kept: None };
    let ready = ready();
    let url = "https://api.worldbank.org/v2/country/FRA/indicator/SP.POP.TOTL?date=2015&format=json";
    assert_eq!(ready.url(&question).as_deref(), Ok(url));
    ready.read(&ReceivedAnswer { body: answer.as_bytes(), headers: &BTreeMap::new(), at: now() }, &question)
}

#[test]
fn example_adapter_reads_the_world_banks_api() {
    let AnswerReadOutcome::Said(content) = read(ANSWER) else { panic!("{:?}", read(ANSWER)) };
    let population = &content.values["population"];
    assert_eq!(population.value, AxisValue::Text("66548272".into()));
    assert_eq!(population.definition.as_deref(), Some("with the overseas departments"));
    assert_eq!(content.version.as_deref(), Some("2026-03-06"));
    assert_eq!(content.observed_at, at("2026-03-06T00:00:00Z"));
    let unknown = r#"[{"page":0,"pages":0,"per_page":0,"total":0,"lastupdated":"2026-03-06"},null]"#;
    assert_eq!(read(unknown), AnswerReadOutcome::NoRecord);
    for (from, to, refusal) in [
        ("FRA", "DEU", AnswerFault::Identity),
        ("SP.POP.TOTL", "SP.POP.GROW", AnswerFault::Schema),
        ("66548272", "-1", AnswerFault::Schema),
    ] {
        let other = read(&ANSWER.replace(from, to));
        assert!(
            matches!(&other, AnswerReadOutcome::Refused { refusal: found, .. } if *found == refusal),
            "{other:?}"
        );
    }
}

/// The complete adapters in the documentation, for the ontology of populations.
fn documented() -> Vec<ValidatedAdapter> {
    let documentation = include_str!("../../../../../docs/live-sources.md");
    let blocks = documentation.split("```json\n").skip(1).map(|rest| rest.split_once("\n```").unwrap().0);
    let ready = |block: &str| {
        let adapter: Adapter = serde_json::from_str(block).unwrap();
        let shipped = ready();
        let mut source: SourceRegistration = serde_json::from_str(include_str!(
            "../../../../../examples/ground-truth/live/world-bank.source.json"
        ))
        .unwrap();
        source.oracle_id = adapter.oracle_id.clone();
        adapter.validate(&source, Arc::clone(shipped.ontology())).unwrap()
    };
    blocks.map(ready).collect()
}

#[test]
fn documented_adapters_are_complete_and_read_their_answers() {
    let subject = BTreeMap::from([
        ("area".to_owned(), AxisValue::Text("ABW".into())),
        ("year".to_owned(), AxisValue::Text("2015".into())),
    ]);
    let nonce = "0123456789abcdef0123456789abcdef";
    let question =
        SourceQuestion { subject: &subject, point_in_time: None, nonce, asked_at: now(), kept: None };
    let issued = now();
    let data = r#""country": "ABW", "year": 2015, "people": 104339"#;
    let meta =
        format!(r#"{{"dataset": "2026-1", "as_of": "{issued}", "issued": "{issued}", "nonce": "{nonce}"}}"#);
    let answers = [
        format!(r#"{{"meta": {meta}, "data": {{{data}}}}}"#),
        format!(r#"{{"issued": "{issued}", {data}}}"#),
    ];
    let documented = documented();
    let methods: Vec<_> = documented.iter().map(|ready| ready.signature().unwrap().0.clone()).collect();
    assert!(
        matches!(methods[..], [SignaturePolicy::Jws { .. }, SignaturePolicy::Ed25519 { .. }]),
        "{methods:?}"
    );
    for (ready, answer) in documented.iter().zip(&answers) {
        let url = ready.url(&question).unwrap();
        assert!(url.contains("ABW") && url.contains("2015"), "{url}");
        let received = ReceivedAnswer { body: answer.as_bytes(), headers: &BTreeMap::new(), at: now() };
        let read = ready.read(&received, &question);
        let AnswerReadOutcome::Said(content) = &read else { panic!("{read:?}") };
        assert_eq!(content.values["population"].value, AxisValue::Text("104339".into()));
    }
}
