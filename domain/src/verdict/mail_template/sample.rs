//! Sample mails, for which a template is rendered when it is registered.

use crate::base::payload::VerdictPayload;
use crate::verdict::crosscheck::judge;
use crate::verdict::delivery::{RegenNotes, VerdictDelivery};
use crate::verdict::divergence::{NoteLanguage, OriginalLabel};
use crate::verdict::label::{ProductTier, VerdictLabel};
use crate::verdict::mail::{MailKind, OutboxMail};
use crate::verdict::query::CustomerQuery;
use serde_json::json;
use std::sync::Arc;

/// A mail of this kind about a verdict of this tier.
pub(super) fn mail(kind: MailKind, tier: ProductTier) -> OutboxMail {
    let original = OriginalLabel(Some(VerdictLabel::Red));
    let delivery = VerdictDelivery {
        session_id: "sample".parse().expect("a valid id"),
        query: CustomerQuery::new("Sell honey & jam?".to_owned()),
        approved: judge(tier, VerdictPayload::raw(&verdict(tier)))
            .outcome
            .expect("the sample passes the crosscheck"),
        cached_at: "2026-01-01T00:00:00Z".parse().expect("a valid time"),
        regen: (kind == MailKind::DivergenceNotice).then_some(RegenNotes {
            original,
            prompt_changed: false,
            settings_changed: false,
            reasked: false,
            language: NoteLanguage::default(),
        }),
        evaluation_sha256: None,
    };
    let to = "customer@example.org".to_owned().try_into().expect("a valid address");
    OutboxMail::queued(kind, Arc::new(delivery), to)
}

/// A verdict with exactly the members of the tier. A test is a text or an object.
fn verdict(tier: ProductTier) -> String {
    let judged = json!({"verdict": "GREEN", "analysis": "It holds."});
    let (label, summary) = ("GREEN", "A sound and simple plan.");
    let breakdown = json!({
        "Stability": judged, "Turbulence": judged, "Change Rate": judged, "Completion": judged, "Curvature": judged,
    });
    let verdict = match tier {
        ProductTier::Quick => json!({"verdict": label, "summary": summary}),
        ProductTier::Full => json!({"verdict": label, "summary": summary, "breakdown": breakdown}),
        ProductTier::Strategy => json!({
            "verdict": label, "summary": summary, "breakdown": breakdown,
            "strategy": {
                "next_step": "Ask ten people.", "alternative": "Sell jam.",
                "tests": ["A stall at the market", {"name": "A price", "days": 3}],
            },
        }),
    };
    verdict.to_string()
}
