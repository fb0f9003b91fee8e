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
