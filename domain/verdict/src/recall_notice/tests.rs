use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a valid time")
}

/// A recall by a run of a source with this result.
fn recall(source: &str, run: &[u8], result: RecallResult) -> SourceRecall {
    let verdict = RecalledVerdict {
        session_id: "cs_1".parse().expect("a valid id"),
        entry: 7,
        evaluated_at: at(0),
        result,
        cause: None,
        rules_verdict: None,
        statements: Vec::new(),
    };
    SourceRecall { oracle_id: source.parse().expect("a valid id"), run_id: Sha256Hex::of(run), verdict }
}

#[test]
fn draft_has_the_last_recall_of_each_source_about_one_verdict() {
    let (first, other) = (Sha256Hex::of(b"first"), Sha256Hex::of(b"other"));
    let contradicted = recall("aa", b"1", RecallResult::NowContradicted);
    let notice = RecallNotice::drafted(None, contradicted, &first, at(1));
    let notice = RecallNotice::drafted(
        Some(notice),
        recall("bb", b"1", RecallResult::NoLongerSupported),
        &first,
        at(2),
    );
    assert_eq!((notice.recalls.len(), notice.result()), (2, RecallResult::NowContradicted));
    let again = recall("aa", b"2", RecallResult::StillSupported);
    let notice = RecallNotice::drafted(Some(notice), again.clone(), &first, at(3));
    assert_eq!((notice.recalls.len(), notice.result()), (2, RecallResult::NoLongerSupported));
    assert_eq!(notice.recalls.last(), Some(&again));

    let rest = notice.clone().without(&"bb".parse().expect("a valid id"), at(4)).expect("one is left");
    assert_eq!((rest.drafted_at, &rest.recalls), (at(4), &vec![again.clone()]));
    assert_eq!(rest.without(&again.oracle_id, at(5)), None);

    let of_other = RecallNotice::drafted(Some(notice), again.clone(), &other, at(6));
    assert_eq!(of_other.recalls, [again], "a draft about another verdict ends");
}
