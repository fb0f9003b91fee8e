use crate::rules_eval::*;

#[test]
fn counts_separate_cases_from_lines_that_are_not_cases() {
    let mut counts = CaseCounts::default();
    counts.add(CaseStatus::AsExpected);
    let mut texts = vec![counts.format_counts()];
    counts.add(CaseStatus::NoCase);
    texts.push(counts.format_counts());
    for end in [
        CaseStatus::NoCase,
        CaseStatus::FalsePass,
        CaseStatus::Undecided,
        CaseStatus::Undecided,
        CaseStatus::NotEvaluated,
    ] {
        counts.add(end);
    }
    texts.push(counts.format_counts());
    insta::assert_snapshot!("counts_of_cases", texts.join("\n"));
    assert_eq!(counts.lines(), 7);
}
