use crate::rules_eval::*;

#[test]
fn counts_separate_cases_from_lines_that_are_not_cases() {
    let mut counts = CaseCounts::default();
    counts.add(CaseStatus::AsExpected);
    assert_eq!(counts.format_counts(), "1 case: 1 agree (100.0 %), 0 false passes, 0 false failures");
    counts.add(CaseStatus::NoCase);
    assert_eq!(
        counts.format_counts(),
        "1 case: 1 agree (100.0 %), 0 false passes, 0 false failures; 1 line is not a case"
    );
    for end in [
        CaseStatus::NoCase,
        CaseStatus::FalsePass,
        CaseStatus::Undecided,
        CaseStatus::Undecided,
        CaseStatus::NotEvaluated,
    ] {
        counts.add(end);
    }
    assert_eq!(
        counts.format_counts(),
        "5 cases: 1 agree (20.0 %), 1 false pass, 0 false failures, 2 ended in ERROR, 1 could not be evaluated; 2 lines are not cases"
    );
    assert_eq!(counts.lines(), 7);
}
