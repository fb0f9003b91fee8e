use crate::mail::smtp::*;
use actors_testing::{mail_of, regenerated};
use domain_verdict::label::VerdictLabel;
use domain_verdict::mail::MailKind;

const STRATEGY: &str = r#"{"verdict":"AMBER","summary":"Sound, but <b>thin</b>.\r\nBcc: x@y\u001b[2J","breakdown":{
    "Stability":{"verdict":"GREEN","analysis":"It holds."},"Turbulence":{"verdict":"AMBER","analysis":"Some."},
    "Change Rate":{"verdict":"AMBER","analysis":"Slow."},"Completion":{"verdict":"GREEN","analysis":"Nearly."},
    "Curvature":{"verdict":"AMBER","analysis":"Bends."}},"strategy":{"next_step":"Ask ten people.",
    "alternative":"Sell jam.","tests":["A stall.",{"what":"A price","days":3},["A sign",7]]}}"#;

#[test]
fn letter_contains_the_verdict_as_plain_text() {
    let text = format_mail(&mail_of(MailKind::Verdict, ProductTier::Strategy, STRATEGY, None));
    assert_eq!(
        text,
        "Verdict: AMBER\n\nSound, but <b>thin</b>.\nBcc: x@y\\u{1b}[2J\n\nBreakdown\nStability: GREEN. It holds.\n\
         Turbulence: AMBER. Some.\nChange Rate: AMBER. Slow.\nCompletion: GREEN. Nearly.\n\
         Curvature: AMBER. Bends.\n\nStrategy\nNext step: Ask ten people.\nAlternative: Sell jam.\n\
         Test: A stall.\nTest: days: 3; what: A price\nTest: A sign; 7\n\nYour question:\n\nSell honey?\n\nSession: cs_1\n"
    );
}

#[test]
fn letter_contains_only_the_fields_of_the_tier() {
    let text = format_mail(&mail_of(MailKind::Verdict, ProductTier::Quick, STRATEGY, None));
    assert!(!text.contains("Breakdown") && !text.contains("Strategy"), "{text}");
    let text = format_mail(&mail_of(MailKind::Verdict, ProductTier::Full, STRATEGY, None));
    assert!(text.contains("Breakdown") && !text.contains("Strategy"), "{text}");
}

#[test]
fn notice_begins_with_the_disclaimer_and_both_verdicts() {
    let regen = regenerated(VerdictLabel::Red);
    let text =
        format_mail(&mail_of(MailKind::DivergenceNotice, ProductTier::Quick, actors_testing::GOOD, regen));
    let both = "\n\nReceived by email: RED\nOn your results page: GREEN\n\nA sound and simple plan.\n";
    assert!(text.starts_with(&format!("{}{both}", domain_verdict::divergence::DISCLAIMER)), "{text}");
}
