//! The plain text of a mail. Plain text keeps a model's output from being interpreted as markup.

use domain_base::visible::visible_text;
use domain_verdict::divergence::NoteLanguage;
use domain_verdict::label::{ProductTier, VerdictDimension};
use domain_verdict::mail::OutboxMail;
use serde_json::Value;

/// Formats a mail as plain text.
pub(super) fn format_mail(mail: &OutboxMail) -> String {
    let OutboxMail { standing, delivery, .. } = mail;
    let verdict: Value = serde_json::from_str(delivery.approved.verdict().get()).unwrap_or_default();
    let mut text = MailText(String::new());
    // the rest of the text is English
    match delivery.disclaimer_in(NoteLanguage::En) {
        Some(disclaimer) => {
            text.paragraph(disclaimer);
            let original = delivery.regen.map_or("UNKNOWN", |regen| regen.original.as_str());
            text.line("Received by email", original);
            text.line("On your results page", delivery.approved.label().into_str());
        }
        None => text.line("Verdict", delivery.approved.label().into_str()),
    }
    text.gap();
    text.paragraph(text_member(&verdict, "summary"));
    // only the fields of the tier: the others were not paid for, and not checked either
    let tier = delivery.approved.tier();
    format_breakdown(&mut text, verdict.get("breakdown").filter(|_| tier >= ProductTier::Full));
    format_strategy(&mut text, verdict.get("strategy").filter(|_| tier == ProductTier::Strategy));
    text.paragraph("Your question:");
    text.paragraph(delivery.query.as_str());
    text.line("Session", standing.session_id.local());
    text.0
}

fn format_breakdown(text: &mut MailText, breakdown: Option<&Value>) {
    let Some(breakdown) = breakdown.filter(|value| value.is_object()) else { return };
    text.heading("Breakdown");
    for dimension in VerdictDimension::ALL {
        let Some(judged) = breakdown.get(dimension.into_str()) else { continue };
        text.line(
            dimension.into_str(),
            &format!("{}. {}", text_member(judged, "verdict"), text_member(judged, "analysis")),
        );
    }
    text.gap();
}

fn format_strategy(text: &mut MailText, strategy: Option<&Value>) {
    let Some(strategy) = strategy.filter(|value| value.is_object()) else { return };
    text.heading("Strategy");
    text.line("Next step", text_member(strategy, "next_step"));
    text.line("Alternative", text_member(strategy, "alternative"));
    for test in strategy.get("tests").and_then(Value::as_array).into_iter().flatten() {
        text.line("Test", &format_test(test));
    }
    text.gap();
}

fn text_member<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A test is a text, or an object or a list with content of the model's choice.
fn format_test(test: &Value) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let parts: Vec<_> = match test {
        Value::Object(members) => {
            members.iter().map(|(name, value)| format!("{name}: {}", plain(value))).collect()
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => vec![plain(other)],
    };
    parts.join("; ")
}

/// The text as it is built.
struct MailText(String);

impl MailText {
    fn line(&mut self, name: &str, value: &str) {
        self.push(&format!("{name}: {}", value.trim()));
    }

    fn heading(&mut self, heading: &str) {
        self.push(heading);
    }

    fn paragraph(&mut self, paragraph: &str) {
        self.push(paragraph.trim());
        self.gap();
    }

    fn gap(&mut self) {
        self.0.push('\n');
    }

    /// Appends one or more lines, with escapes for characters that hide text.
    fn push(&mut self, line: &str) {
        self.0.push_str(&visible_text(line));
        self.0.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let text = format_mail(&mail_of(
            MailKind::DivergenceNotice,
            ProductTier::Quick,
            actors_testing::GOOD,
            regen,
        ));
        let both = "\n\nReceived by email: RED\nOn your results page: GREEN\n\nA sound and simple plan.\n";
        assert!(text.starts_with(&format!("{}{both}", domain_verdict::divergence::DISCLAIMER)), "{text}");
    }
}
