//! Delivered verdicts: the document that is cached, stored and returned (seed: `regen-consistency`, "Primary Output").

use crate::crosscheck::{ApprovedVerdict, CrosscheckDecision, judge_delivered};
use crate::divergence::{CustomerNote, DivergenceCheck, DivergenceLevel, NoteLanguage, OriginalLabel};
use crate::label::ProductTier;
use crate::query::CustomerQuery;
use domain_base::digest::Sha256Hex;
use domain_base::payload::VerdictPayload;
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use domain_base::session_id::SessionId;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

/// An approved verdict with its session.
///
/// It is serialized as one JSON document, the same in the store and on the wire. Deserialization judges the verdict
/// again: a damaged document, or one that was tampered with, is an error and never a verdict.
#[derive(Debug, Clone)]
pub struct VerdictDelivery {
    pub session_id: SessionId,
    /// The customer's query.
    pub query: CustomerQuery,
    pub approved: ApprovedVerdict,
    /// The time at which it was cached.
    pub cached_at: Timestamp,
    /// The notes on the regeneration, if the verdict was regenerated.
    pub regen: Option<RegenNotes>,
    /// The SHA-256 of the rules' evaluation, if rules have approved the verdict.
    pub evaluation_sha256: Option<Sha256Hex>,
}

/// The notes on a regenerated verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegenNotes {
    /// The label of the verdict that was delivered first.
    pub original: OriginalLabel,
    /// Whether the prompt of the original was different or is unknown.
    pub prompt_changed: bool,
    /// Whether the model or the settings of the original were different.
    pub settings_changed: bool,
    /// Whether the prompt of the original had the rejection of an earlier answer.
    pub reasked: bool,
    /// The language of the texts for the customer.
    pub language: NoteLanguage,
}

impl RegenNotes {
    /// The notes for the comparison `check`, in `language`.
    #[must_use]
    pub fn of(check: &DivergenceCheck, language: NoteLanguage) -> Self {
        Self {
            original: check.original_verdict,
            prompt_changed: check.prompt_changed == Some(true),
            settings_changed: check.settings_changed == Some(true),
            reasked: check.reasked,
            language,
        }
    }

    /// The notice to the customer.
    const fn notice(&self) -> Option<&'static str> {
        let note = if self.original.0.is_none() {
            CustomerNote::UnknownOriginal
        } else if self.prompt_changed || self.settings_changed || self.reasked {
            CustomerNote::Changed
        } else {
            return None;
        };
        Some(note.text(self.language))
    }
}

/// The reason for a regeneration; there is only one.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum RegenReason {
    CacheMiss,
}

/// The fields of the document, in their order.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct DeliveryDocument<'d, Q, V, D> {
    /// The session.
    session_id: SessionId,
    /// The tier of the verdict.
    tier: ProductTier,
    /// The customer's query.
    #[schema(value_type = CustomerQuery)]
    query: Q,
    /// The verdict, as the model wrote it, without the members that were cut.
    #[schema(value_type = Value)]
    verdict: V,
    /// When it was cached.
    cached_at: Timestamp,
    /// Whether the verdict was regenerated.
    regen: bool,
    /// Why the verdict was regenerated; absent if it was not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    regen_reason: Option<RegenReason>,
    /// The verdict that was delivered first; absent if this one was not regenerated.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    original_verdict: Option<OriginalLabel>,
    /// The difference from the original. Null in a regenerated document if the original is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<DivergenceLevel>)]
    divergence_level: Option<Option<DivergenceLevel>>,
    /// A text that must accompany the verdict, because it differs from the original.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false, value_type = Option<String>)]
    disclaimer: Option<Cow<'d, str>>,
    /// A text that must accompany the verdict, because it may differ from an original that is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false, value_type = Option<String>)]
    notice: Option<Cow<'d, str>>,
    /// The language of `disclaimer` and `notice`, which is that of the prompt if its texts are built in; absent for English.
    #[serde(skip_serializing_if = "NoteLanguage::is_default", default)]
    note_language: NoteLanguage,
    /// Whether the prompt of the original was different or is unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    prompt_changed: bool,
    /// Whether the settings of the original were different.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    settings_changed: bool,
    /// Whether the prompt of the original had the rejection of an earlier answer.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    reasked: bool,
    /// The SHA-256 of the rules' evaluation, if the rules approved the verdict.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    evaluation_sha256: Option<Sha256Hex>,
    /// The decision that approved it.
    #[schema(value_type = CrosscheckDecision)]
    decision: D,
}

/// The types of the document in its schema.
type DeliveryDocumentSchema = DeliveryDocument<'static, (), (), ()>;

impl utoipa::PartialSchema for VerdictDelivery {
    fn schema() -> RefOr<Schema> {
        <DeliveryDocumentSchema as utoipa::PartialSchema>::schema()
    }
}

impl ToSchema for VerdictDelivery {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        DeliveryDocumentSchema::schemas(schemas);
    }
}

impl VerdictDelivery {
    /// The divergence of a regenerated verdict from the verdict that was delivered first; `None` if that one is not
    /// known.
    #[must_use]
    pub fn divergence_level(&self) -> Option<DivergenceLevel> {
        let original = self.regen?.original.0?;
        Some(DivergenceLevel::between(original, self.approved.label()))
    }

    /// The disclaimer, if a regenerated verdict differs from the verdict that was delivered first, in the language of the
    /// delivery.
    #[must_use]
    pub fn disclaimer(&self) -> Option<&'static str> {
        self.disclaimer_in(self.regen?.language)
    }

    /// The same in `language`.
    #[must_use]
    pub fn disclaimer_in(&self, language: NoteLanguage) -> Option<&'static str> {
        let level = self.divergence_level().filter(|level| *level != DivergenceLevel::None);
        level.map(|_| CustomerNote::Disclaimer.text(language))
    }
}

impl Serialize for VerdictDelivery {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        DeliveryDocument {
            session_id: self.session_id.clone(),
            tier: self.approved.tier(),
            query: &self.query,
            verdict: self.approved.verdict(),
            cached_at: self.cached_at,
            regen: self.regen.is_some(),
            regen_reason: self.regen.map(|_| RegenReason::CacheMiss),
            original_verdict: self.regen.map(|regen| regen.original),
            divergence_level: self.regen.map(|_| self.divergence_level()),
            prompt_changed: self.regen.is_some_and(|regen| regen.prompt_changed),
            settings_changed: self.regen.is_some_and(|regen| regen.settings_changed),
            reasked: self.regen.is_some_and(|regen| regen.reasked),
            disclaimer: self.disclaimer().map(Cow::Borrowed),
            notice: self.regen.and_then(|regen| regen.notice()).map(Cow::Borrowed),
            note_language: self.regen.map(|regen| regen.language).unwrap_or_default(),
            evaluation_sha256: self.evaluation_sha256.clone(),
            decision: self.approved.decision(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for VerdictDelivery {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let document =
            DeliveryDocument::<CustomerQuery, Box<RawValue>, CrosscheckDecision>::deserialize(deserializer)?;
        let DeliveryDocument { tier, verdict, decision, .. } = document;
        let approved = judge_delivered(tier, VerdictPayload::json(&verdict), decision)
            .ok_or_else(|| D::Error::custom("the verdict is not approved, or does not match its decision"))?;
        let DeliveryDocument {
            session_id, query, cached_at, regen, original_verdict, evaluation_sha256, ..
        } = document;
        let DeliveryDocument { prompt_changed, settings_changed, reasked, note_language: language, .. } =
            document;
        if regen != original_verdict.is_some() {
            return Err(D::Error::custom("`regen` and `original_verdict` contradict each other"));
        }
        let regen = original_verdict.map(|original| RegenNotes {
            original,
            prompt_changed,
            settings_changed,
            reasked,
            language,
        });
        Ok(Self { session_id, query, approved, cached_at, regen, evaluation_sha256 })
    }
}

impl Row for VerdictDelivery {
    type Key = SessionId;
    const TABLE: &'static Table = &Table {
        name: "verdicts",
        bundle: Some("sessions"),
        data: RowData::of_named_session("verdict"),
        is_new_work: true,
        names_files: false,
        finds_entries: false,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[],
        index: not_indexed,
    };

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl KeyedRow for VerdictDelivery {
    fn key(&self) -> SessionId {
        self.session_id.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crosscheck::{UnexpectedFieldHandling, judge, judge_with};
    use crate::prompt::LanguageTag;

    fn delivery() -> VerdictDelivery {
        let verdict = r#"{ "summary": "A sound and simple plan.", "verdict": "GREEN", "x": 1.10 }"#;
        VerdictDelivery {
            session_id: "cs_1".parse().expect("a valid id"),
            query: CustomerQuery::new("Sell \"honey\"?".into()),
            approved: judge_with(
                UnexpectedFieldHandling::Deliver,
                ProductTier::Quick,
                VerdictPayload::raw(verdict),
            )
            .outcome
            .expect("the verdict passes the crosscheck"),
            cached_at: "2026-11-20T10:00:00Z".parse().expect("a valid time"),
            regen: None,
            evaluation_sha256: None,
        }
    }

    #[test]
    fn regenerated_document_shows_divergence_from_original() {
        use crate::label::VerdictLabel;
        for (original, level, note_field) in [
            (Some(VerdictLabel::Green), "\"none\"", None),
            (Some(VerdictLabel::Amber), "\"minor\"", Some("disclaimer")),
            (Some(VerdictLabel::Red), "\"significant\"", Some("disclaimer")),
            (None, "null", Some("notice")),
        ] {
            let original_ = OriginalLabel(original);
            let regen = Some(RegenNotes {
                original: original_,
                prompt_changed: false,
                settings_changed: false,
                reasked: false,
                language: NoteLanguage::En,
            });
            let text = serde_json::to_string(&VerdictDelivery { regen, ..delivery() })
                .expect("the value serializes");
            let word = OriginalLabel(original).as_str();
            let members = format!(
                r#""regen":true,"regen_reason":"cache_miss","original_verdict":"{word}","divergence_level":{level},"#
            );
            assert!(text.contains(&members), "{text}");
            for name in ["disclaimer", "notice"] {
                assert_eq!(
                    text.contains(&format!("\"{name}\":\"NOTE: ")),
                    note_field == Some(name),
                    "{text}"
                );
            }
            let back: VerdictDelivery = serde_json::from_str(&text).expect("valid JSON");
            assert_eq!(serde_json::to_string(&back).expect("the value serializes"), text);
        }
    }

    #[test]
    fn regenerated_document_is_marked_where_prompt_or_settings_changed() {
        for (prompt_changed, settings_changed, reasked) in
            [(true, false, false), (false, true, false), (true, true, false), (false, false, true)]
        {
            let original = OriginalLabel(Some(crate::label::VerdictLabel::Green));
            let language = NoteLanguage::En;
            let regen = Some(RegenNotes { original, prompt_changed, settings_changed, reasked, language });
            let text = serde_json::to_string(&VerdictDelivery { regen, ..delivery() })
                .expect("the value serializes");
            assert_eq!(text.contains(r#""prompt_changed":true"#), prompt_changed, "{text}");
            assert_eq!(text.contains(r#""settings_changed":true"#), settings_changed, "{text}");
            assert_eq!(text.contains(r#""reasked":true"#), reasked, "{text}");
            assert!(text.contains(CustomerNote::Changed.text(NoteLanguage::En)), "{text}");
            assert!(!text.contains("note_language"), "{text}");
            let back: VerdictDelivery = serde_json::from_str(&text).expect("valid JSON");
            assert_eq!(serde_json::to_string(&back).expect("the value serializes"), text);
        }
    }

    #[test]
    fn regenerated_document_has_its_notes_in_the_language_of_the_prompt() {
        use crate::label::VerdictLabel;
        let german: LanguageTag = "DE-at".to_owned().try_into().expect("a language");
        let language = NoteLanguage::of(&german);
        for (original, prompt_changed, note) in [
            (Some(VerdictLabel::Red), false, CustomerNote::Disclaimer),
            (Some(VerdictLabel::Green), true, CustomerNote::Changed),
            (None, true, CustomerNote::UnknownOriginal),
        ] {
            let original = OriginalLabel(original);
            let regen = Some(RegenNotes {
                original,
                prompt_changed,
                settings_changed: false,
                reasked: false,
                language,
            });
            let text = serde_json::to_string(&VerdictDelivery { regen, ..delivery() })
                .expect("the value serializes");
            assert!(text.contains(note.text(NoteLanguage::De)), "{text}");
            assert!(text.contains(r#""note_language":"de""#) && !text.contains("NOTE: "), "{text}");
            let back: VerdictDelivery = serde_json::from_str(&text).expect("valid JSON");
            assert_eq!(serde_json::to_string(&back).expect("the value serializes"), text);
        }
        for other in ["en-GB", "fr", "den", "x-de"] {
            let tag = other.to_owned().try_into().expect("a language");
            assert_eq!(NoteLanguage::of(&tag), NoteLanguage::En, "{other}");
        }
    }

    #[test]
    fn document_contains_verdict_as_model_wrote_it() {
        let text = serde_json::to_string(&delivery()).expect("the value serializes");
        assert_eq!(
            text,
            concat!(
                r#"{"session_id":"cs_1","tier":"quick","query":"Sell \"honey\"?","#,
                r#""verdict":{ "summary": "A sound and simple plan.", "verdict": "GREEN", "x": 1.10 },"#,
                r#""cached_at":"2026-11-20T10:00:00Z","regen":false,"decision":{"approved":true,"#,
                r#""coherence_score":1.0,"threshold":0.9740425724725061,"verdict_label":"GREEN","#,
                r#""flags":["unexpected_field:x"],"crosscheck_reason":"pass"}}"#,
            )
        );
        let back: VerdictDelivery = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!(serde_json::to_string(&back).expect("the value serializes"), text);
    }

    #[test]
    fn stripped_verdict_reads_back_with_flags_of_cut_members() {
        let raw = r#"{"mood":[1],"verdict":"GREEN","summary":"A sound and simple plan."}"#;
        let approved = judge(ProductTier::Quick, VerdictPayload::raw(raw))
            .outcome
            .expect("the verdict passes the crosscheck");
        let text =
            serde_json::to_string(&VerdictDelivery { approved, ..delivery() }).expect("the value serializes");
        assert!(!text.contains("[1]") && text.contains(r#""flags":["unexpected_field:mood"]"#), "{text}");
        let back: VerdictDelivery = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!(serde_json::to_string(&back).expect("the value serializes"), text);
        // no flag names this member, so it was added later
        let added = text.replace(r#"{"verdict":"GREEN","summary""#, r#"{"x":1,"verdict":"GREEN","summary""#);
        assert_ne!(added, text);
        assert!(serde_json::from_str::<VerdictDelivery>(&added).is_err());
    }

    #[test]
    fn changed_document_does_not_read_back() {
        let text = serde_json::to_string(&delivery()).expect("the value serializes");
        for (from, to) in [
            ("\"verdict\": \"GREEN\"", "\"verdict\": \"PURPLE\""),
            ("A sound and simple plan.", "A"),
            ("\"tier\":\"quick\"", "\"tier\":\"full\""),
            ("\"approved\":true", "\"approved\":false"),
            ("\"regen\":false", "\"regen\":true"),
        ] {
            assert!(text.contains(from), "the test changes something");
            assert!(
                serde_json::from_str::<VerdictDelivery>(&text.replace(from, to)).is_err(),
                "{from} -> {to}"
            );
        }
    }
}
