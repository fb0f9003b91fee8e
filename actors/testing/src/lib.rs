//! Values and a server for the tests of the actors' crates.

pub mod server;

use domain_base::payload::VerdictPayload;
use domain_base::session_id::SessionId;
use domain_verdict::delivery::{RegenNotes, VerdictDelivery};
use domain_verdict::divergence::{NoteLanguage, OriginalLabel};
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::mail::{MailKind, OutboxMail};
use domain_verdict::query::CustomerQuery;
use std::sync::Arc;

pub const GOOD: &str = r#"{"verdict":"GREEN","summary":"A sound and simple plan."}"#;

/// A mail of `kind` about the verdict `verdict`.
pub fn mail_of(kind: MailKind, tier: ProductTier, verdict: &str, regen: Option<RegenNotes>) -> OutboxMail {
    let delivery = VerdictDelivery {
        session_id: id("cs_1"),
        query: CustomerQuery::new("Sell honey?".into()),
        approved: domain_verdict::crosscheck::judge(tier, VerdictPayload::raw(verdict))
            .outcome
            .expect("the verdict passes the crosscheck"),
        cached_at: "2026-11-20T10:00:00Z".parse().expect("a valid time"),
        regen,
        evaluation_sha256: None,
    };
    OutboxMail::queued(kind, Arc::new(delivery), "a@example.org".to_owned().try_into().expect("an address"))
}

/// The regeneration data of a verdict with this original label.
pub fn regenerated(original: VerdictLabel) -> Option<RegenNotes> {
    let original = OriginalLabel(Some(original));
    Some(RegenNotes {
        original,
        prompt_changed: false,
        settings_changed: false,
        reasked: false,
        language: NoteLanguage::En,
    })
}

pub fn id(text: &str) -> SessionId {
    text.parse().expect("a valid id")
}
