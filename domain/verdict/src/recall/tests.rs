use super::*;

#[test]
fn name_of_a_statement_is_read_as_it_was_written() {
    let oracle_id: SourceId = "world-bank".parse().expect("an id");
    let fact = StatementPart::Fact { template_id: "plain".to_owned(), sha256: "ab".repeat(32) };
    for part in [fact, StatementPart::Axis("nutrients.a\tb.amount".to_owned())] {
        for point_in_time in [None, Some("2026-01-02T03:04:05.000000006Z".parse().expect("a time"))] {
            let statement = ReliedStatement {
                record_id: "0123456789abcdef-7".to_owned(),
                point_in_time,
                part: part.clone(),
            };
            let name = statement.name(&oracle_id);
            assert!(name.starts_with(&ReliedStatement::prefix(&oracle_id, Some("0123456789abcdef-7"))));
            assert!(!name.starts_with(&ReliedStatement::prefix(&oracle_id, Some("0123456789abcdef"))));
            assert_eq!(ReliedStatement::read(&name), Some(statement));
        }
    }
    assert_eq!(ReliedStatement::read(&UnknownCause::Erased.name(Some(&oracle_id))), None);
}

#[test]
fn entry_without_its_references_is_counted_by_cause() {
    let source = "world-bank";
    let oracle_id: SourceId = source.parse().expect("an id");
    let record = serde_json::json!({"record": {"oracle_id": source, "oracle_tier": "primary", "raw_hash": "ab".repeat(32),
        "record_id": "0123456789abcdef-7", "source_version": "2020", "stale": false}});
    let decision =
        serde_json::json!({"verification": {"envelope_sha256": "ab".repeat(32), "execution_id": "x"}});
    let facts_from = |origins: &[&serde_json::Value]| serde_json::json!({"facts": 1, "origins": origins, "origins_omitted": 0, "sha256": "ab".repeat(32)});
    let names = |facts_from: serde_json::Value| {
        let line = serde_json::json!({"seq": 7, "event": "rules_evaluated", "session_id": "cs_1", "verdict": "PASS",
            "facts_from": facts_from});
        let read = LoggedReferences::read(&line.to_string()).expect("an entry").expect("it has a session");
        assert_eq!((read.seq, read.session_id.as_str(), read.is_passed), (7, "cs_1", true));
        read.names
    };
    let of_source = |cause: UnknownCause| BTreeSet::from([cause.name(Some(&oracle_id))]);
    assert_eq!(names(facts_from(&[&record])), of_source(UnknownCause::NotListed));
    assert_eq!(names(facts_from(&[&decision])), BTreeSet::from([UnknownCause::NotListed.name(None)]));
    let mut listed = facts_from(&[&record]);
    listed["relied_on"] = serde_json::json!([]);
    assert_eq!(names(listed.clone()), BTreeSet::new(), "no fact of the source supports a claim");
    listed["relied_on_omitted"] = serde_json::json!(3);
    assert_eq!(names(listed), of_source(UnknownCause::NotListed));
    let erased = serde_json::json!({"sha256": "ab".repeat(32)});
    assert_eq!(names(erased), BTreeSet::from([UnknownCause::Erased.name(None)]));
    let line = r#"{"seq":7,"event":"rules_evaluated","session_id":{"sha256":"HASH"},"verdict":"PASS"}"#;
    let line = line.replace("HASH", &"ab".repeat(32));
    assert_eq!(LoggedReferences::read(&line).expect("an entry"), None, "its session is erased");
}
