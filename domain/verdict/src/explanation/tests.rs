use super::*;
use crate::crosscheck::judge;
use crate::label::ProductTier;
use crate::query::CustomerQuery;
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_base::session_id::SessionId;
use serde_json::json;

const LANGUAGES: [ExplanationLanguage; 2] = [ExplanationLanguage::English, ExplanationLanguage::German];

/// A line of the log: an entry has its number before its event.
fn line(event: &AuditEvent) -> String {
    event.to_json().replacen('{', "{\"seq\":1,", 1)
}

fn judged(verdict: &Value) -> String {
    let judgment = judge(ProductTier::Quick, VerdictPayload::raw(&verdict.to_string()));
    let entry = CrosscheckEntry::of(&judgment, &CustomerQuery::new("Sell honey?".into()), GatePath::Submit);
    let session: SessionId = "cs_1".parse().expect("valid");
    line(&AuditEvent::new("2026-11-29T14:03:00Z".parse().expect("a time"), session, TmmCrosscheck(entry)))
}

#[test]
fn explanation_has_the_findings_the_score_and_what_would_have_changed_it() {
    let lines = [judged(&json!({"verdict": "RED", "summary": "No."}))];
    assert_eq!(
        explain(&lines, ExplanationLanguage::English),
        [
            "29 November 2026, 14:03 UTC: An answer with the label RED was examined for contradictions and gaps, not for whether it is true.",
            "- Its summary has fewer than 10 characters.",
            "Its score is 0.9790; at least 0.9740 of 1 is needed. It passed.",
            "With a summary of at least 10 characters, the score would have been 1.0000.",
        ]
    );
    let german = explain(&lines, ExplanationLanguage::German);
    assert_eq!(german.len(), 4);
    assert!(german[2].contains("0,9790"), "{german:?}");
}

#[test]
fn explanation_names_the_model_and_not_its_protocol() {
    let answered = |version: &str| {
        let entry = json!({
            "seq": 1, "event": "oracle_interaction", "timestamp": "2026-11-29T14:05:00Z", "session_id": "cs_1",
            "oracle_id": "openai", "oracle_version": version, "status": "success", "generation": {"model": "toy"},
        });
        explain(&[entry.to_string()], ExplanationLanguage::English).concat()
    };
    let (same, other) = (answered("toy"), answered("toy-2026"));
    assert!(same.contains(" toy ") && !same.contains("openai") && !same.contains("version"), "{same}");
    assert!(other.contains(" toy (version toy-2026) "), "{other}");
}

#[test]
fn explanation_says_what_was_erased_and_leaves_out_what_operators_wrote() {
    let erased = judged(&json!({"verdict": "RED", "summary": "No."})).replacen(
        "[\"short_summary\"]",
        &json!({"sha256": "0".repeat(64)}).to_string(),
        1,
    );
    let released = json!({
        "seq": 2, "event": "order_released", "timestamp": "2026-11-29T14:05:00Z", "session_id": "cs_1",
        "reason": "seen\nby me\u{202e}",
    });
    for language in LANGUAGES {
        let sentences = explain(&[erased.clone(), released.to_string()], language);
        // the result of the judgment stays; its findings and what follows from them do not
        assert_eq!(sentences.len(), 4, "{sentences:?}");
        assert!(!sentences.concat().contains("seen"), "{sentences:?}");
    }
}

#[test]
fn explanation_shows_foreign_text_on_one_line_and_names_rules_that_fail() {
    let members = json!({"timestamp": "2026-11-29T14:05:00Z", "session_id": "cs_1"});
    let line = |event: &str, of_event: Value| {
        let mut entry = members.clone();
        let all = entry.as_object_mut().expect("an object");
        all.extend(of_event.as_object().expect("an object").clone());
        format!("{{\"seq\":1,\"event\":\"{event}\",{}", entry.to_string().trim_start_matches('{'))
    };
    let recalled =
        line("verdict_recalled", json!({"oracle_id": "a\nb\u{202e}", "result": "still_supported"}));
    let rules = json!([
        {"rule": "RULE-PREC-013", "verdict": "FAIL", "violations": 2},
        {"rule": "RULE-CONT-001", "verdict": "PASS", "violations": 0},
    ]);
    let failed = line("rules_evaluated", json!({"verdict": "FAIL", "rules": rules}));
    for language in LANGUAGES {
        let sentences = explain(&[recalled.clone(), failed.clone()], language);
        assert!(!sentences.concat().contains(['\n', '\u{202e}']), "{sentences:?}");
        assert!(sentences[1].contains("RULE-PREC-013") && sentences[1].contains(": 2"), "{sentences:?}");
        assert!(!sentences[1].contains("RULE-CONT-001"), "{sentences:?}");
    }
}

#[test]
fn finding_that_only_repeats_a_missing_part_is_left_out() {
    let judgment =
        judge(ProductTier::Strategy, VerdictPayload::raw("{\"verdict\":\"RED\",\"breakdown\":{}}"));
    let flags = judgment.decision.flags;
    let kept: Vec<_> = findings(&flags).collect();
    assert!(flags.contains(&Flag::StrategyMissing) && flags.contains(&Flag::ShortSummary));
    assert!(!kept.contains(&&Flag::StrategyMissing) && !kept.contains(&&Flag::ShortSummary), "{kept:?}");
    assert!(kept.contains(&&Flag::FieldMissing(FieldPath::Strategy)), "{kept:?}");
}

#[test]
fn each_flag_and_reason_has_words_of_its_own_in_each_language() {
    for language in LANGUAGES {
        let words = Words { language };
        let texts: Vec<_> = Flag::all().map(|flag| words.finding(&flag)).collect();
        let distinct: std::collections::BTreeSet<_> = texts.iter().collect();
        assert_eq!(distinct.len(), texts.len());
        assert!(texts.iter().all(|text| text.ends_with('.')), "{texts:?}");
    }
}
