//! The source registry: each source with its trust tier, its axes and its review status.
//!
//! Source: RFC-0002, "Source Registry". An entry has the RFC's fields under the RFC's names. The daemon fills in the
//! rest; a registration cannot set these fields.

use super::id::SourceId;
use super::ontology::{IncompatibleAxisError, Ontology, OntologyRef};
use domain_base::digest::Sha256Hex;
use domain_base::document::{Document, DocumentVersions};
use domain_base::payload::given;
use domain_base::text_form::is_blank;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

/// The source id of locks in verification records. No source can have it.
pub const LOCK_ORACLE_ID: &str = "human-lock";
/// The source id of confirmed claims in verification records. No source can have it.
pub const CONFIRMATION_ORACLE_ID: &str = "human-confirmation";
/// The minimum time between the announcement of a deprecation and its effect (RFC, registry invariant 3).
pub const DEPRECATION_NOTICE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// The longest text in a registration, in bytes.
const TEXT_MAX_BYTES: usize = 1024;

/// A source document: the description of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceRegistration {
    /// The stable id.
    pub oracle_id: SourceId,
    /// The name.
    pub oracle_name: String,
    /// The trust in the source: declared, never inferred.
    pub oracle_tier: OracleTier,
    /// The publisher.
    pub upstream_authority: String,
    /// The address where the data is published.
    pub upstream_url: String,
    /// The license of the data.
    pub data_license: String,
    /// The subject area.
    pub domain: String,
    /// The ontology whose axes the source provides.
    pub ontology: OntologyRef,
    /// The axes that the source provides, including every identity.
    pub axes_provided: Vec<String>,
    /// The region that the data covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub geographic_scope: Option<String>,
    /// How often a new version is published. The default freshness policy depends on it.
    pub update_frequency: UpdateFrequency,
    /// How queries are answered; it cannot change later.
    pub adapter_id: SourceAdapterKind,
    /// The name of the source's query interface, for readers.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub query_contract: Option<String>,
    /// Whether each release is complete, so that records missing from a newer release are withdrawn; false by default.
    #[serde(default)]
    pub snapshot: bool,
    /// What is done about delivered verdicts that relied on its statements that differ now, if their application does not say it; by default
    /// what the configuration says.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub recall: Option<RecallMode>,
}

/// What is done about delivered verdicts that relied on statements that differ now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecallMode {
    /// Nothing: they are only counted.
    Off,
    /// They are listed on request.
    #[default]
    List,
    /// They are listed, and each is reported to its application by the webhook `verdict.recalled`. A notice to the customer is drafted
    /// if the mail template has one.
    Notify,
}

/// How queries are answered: `store` from ingested records, `http` by a request to the live source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SourceAdapterKind {
    /// From ingested records.
    Store,
    /// By an HTTP request to the live source, as its adapter document defines.
    Http,
}

/// A source in the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SourceRegistryEntry {
    /// The registration.
    #[serde(flatten)]
    pub registration: SourceRegistration,
    /// The version with the latest release time; empty before the first ingestion.
    pub current_version: String,
    /// The ingested versions, in the order of their release.
    pub version_history: Vec<VersionRecord>,
    /// The time of registration.
    pub registered_at: Timestamp,
    /// The user of the peer process that registered it.
    pub registered_by: String,
    /// Whether the source may answer.
    pub review_status: SourceReviewStatus,
    /// The time from which a deprecated source no longer answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecation_date: Option<Timestamp>,
}

/// Whether a source may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SourceReviewStatus {
    /// It can be ingested but does not answer yet.
    Pending,
    /// It answers.
    Approved,
    /// It answers with a warning until its deprecation date.
    Deprecated,
}

/// An ingested version of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionRecord {
    /// The source's own name of the version.
    pub version: String,
    /// The time at which the source released it.
    pub released_at: Timestamp,
    /// The time at which it was ingested.
    pub ingested_at: Timestamp,
    /// The number of its records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_count: Option<u64>,
    /// The SHA-256 of the ingested payload.
    pub checksum: Sha256Hex,
}

/// Whether a source may answer at a given time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceAvailability {
    /// It may answer.
    Answers,
    /// It may answer, with this warning.
    AnswersWithWarning(String),
    /// It may not answer, for this reason.
    Silent(String),
}

/// Why a registration, or a change of a source, is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceRegistrationError {
    /// A text is empty or too long.
    #[error("`{field}` is empty or too long (1 to {TEXT_MAX_BYTES} bytes allowed)")]
    Text {
        /// The name of the field.
        field: &'static str,
    },
    /// The registration names no axes.
    #[error("`axes_provided` is empty (at least one axis required)")]
    NoAxes,
    /// An axis is not in the ontology.
    #[error("`axes_provided`: `{axis}` is not an axis of {ontology_id} {version}; its axes are: {known}")]
    UnknownAxis {
        /// The path of the axis.
        axis: String,
        ontology_id: String,
        /// The version of the ontology.
        version: String,
        /// The axes of the ontology, separated by commas.
        known: String,
    },
    /// An axis is named twice.
    #[error("`axes_provided` names `{axis}` twice")]
    RepeatedAxis {
        /// The path of the axis.
        axis: String,
    },
    /// The registration names another ontology than the one given.
    #[error("`ontology` is {named}, but must be {given}")]
    OtherOntology { named: OntologyRef, given: OntologyRef },
    /// An identity axis is missing.
    #[error("`axes_provided` does not name the identity axis `{axis}` (all identity axes are required)")]
    IdentityMissing {
        /// The path of the axis.
        axis: String,
    },
    /// The id is reserved for reviewers' decisions.
    #[error("`oracle_id`: `{0}` is reserved for reviewers' decisions; use another id")]
    Reserved(SourceId),
    /// A field that identifies the source, or that its records depend on, would change.
    #[error("`{field}` cannot change from {before} to {after}; register another source")]
    Fixed {
        /// The name of the field.
        field: &'static str,
        /// The registered value.
        before: String,
        /// The requested value.
        after: String,
    },
    /// The new ontology would change the meaning of the source's records.
    #[error(
        "`ontology` cannot change from {before} to {after}, because records or answers depend on it: {fault}. Register another \
         source, or an ontology version that keeps all axes and their order; it may only add values to an enum and \
         append axes that are not identities"
    )]
    Ontology {
        /// The registered ontology.
        before: OntologyRef,
        /// The requested ontology.
        after: OntologyRef,
        /// The difference between them.
        fault: Box<IncompatibleAxisError>,
    },
    /// The deprecation date is too early.
    #[error("`deprecation_date` is {date} (at least 90 days from now required: {earliest} or later)")]
    TooSoon {
        /// The requested date.
        date: Timestamp,
        /// The earliest date allowed.
        earliest: Timestamp,
    },
    /// The source's review status does not allow the change.
    #[error("a source that is {} cannot be {change}", .status.into_str())]
    Transition {
        /// The current review status.
        status: SourceReviewStatus,
        /// The requested change.
        change: &'static str,
    },
}

impl Document for SourceRegistration {
    const KIND: &'static str = "source";
    const DISTINGUISHING_MEMBER: &'static str = "oracle_name";
    const VERSIONS: DocumentVersions = DocumentVersions::None;

    fn document_id(&self) -> String {
        self.oracle_id.to_string()
    }
}

impl SourceRegistration {
    /// The publisher and the address: `url`, or the registered address without one.
    #[must_use]
    pub fn authority(&self, url: Option<&str>) -> String {
        format!("{} ({})", self.upstream_authority, url.unwrap_or(&self.upstream_url))
    }

    /// Validates the registration against `ontology`.
    ///
    /// # Errors
    /// The first fault found.
    pub fn validate(&self, ontology: &Ontology) -> Result<(), SourceRegistrationError> {
        if [LOCK_ORACLE_ID, CONFIRMATION_ORACLE_ID].contains(&self.oracle_id.as_str()) {
            return Err(SourceRegistrationError::Reserved(self.oracle_id.clone()));
        }
        let scope = self.geographic_scope.as_deref().unwrap_or("none");
        let contract = self.query_contract.as_deref().unwrap_or("none");
        let texts = [
            ("oracle_name", self.oracle_name.as_str()),
            ("upstream_authority", &self.upstream_authority),
            ("upstream_url", &self.upstream_url),
            ("data_license", &self.data_license),
            ("domain", &self.domain),
            ("geographic_scope", scope),
            ("query_contract", contract),
        ];
        let is_sound = |text: &str| !is_blank(text) && text.len() <= TEXT_MAX_BYTES;
        if let Some((field, _)) = texts.into_iter().find(|(_, text)| !is_sound(text)) {
            return Err(SourceRegistrationError::Text { field });
        }
        if self.ontology != ontology.reference() {
            return Err(SourceRegistrationError::OtherOntology {
                named: self.ontology.clone(),
                given: ontology.reference(),
            });
        }
        if self.axes_provided.is_empty() {
            return Err(SourceRegistrationError::NoAxes);
        }
        let mut seen = BTreeSet::new();
        for axis in &self.axes_provided {
            if !seen.insert(axis) {
                return Err(SourceRegistrationError::RepeatedAxis { axis: axis.clone() });
            }
            if !ontology.axes.iter().any(|known| known.axis == *axis) {
                return Err(SourceRegistrationError::UnknownAxis {
                    axis: axis.clone(),
                    ontology_id: ontology.ontology_id.to_string(),
                    version: ontology.version.clone(),
                    known: ontology.axes.iter().map(|axis| axis.axis.as_str()).collect::<Vec<_>>().join(", "),
                });
            }
        }
        match ontology.identity().find(|axis| !self.axes_provided.contains(&axis.axis)) {
            Some(axis) => Err(SourceRegistrationError::IdentityMissing { axis: axis.axis.clone() }),
            None => Ok(()),
        }
    }
}

impl SourceRegistryEntry {
    /// A newly registered source, which can be ingested but does not answer.
    #[must_use]
    pub const fn new(registration: SourceRegistration, registered_by: String, at: Timestamp) -> Self {
        Self {
            registration,
            current_version: String::new(),
            version_history: Vec::new(),
            registered_at: at,
            registered_by,
            review_status: SourceReviewStatus::Pending,
            deprecation_date: None,
        }
    }

    /// The latest version that was released by `at`: some may be in the future.
    #[must_use]
    pub fn version_in_force(&self, at: Timestamp) -> Option<&VersionRecord> {
        // releases are in order
        self.version_history.iter().rfind(|version| version.released_at <= at)
    }

    /// The entry without its versions, in the form that is logged.
    #[must_use]
    pub fn without_history(&self) -> Self {
        Self { version_history: Vec::new(), ..self.clone() }
    }

    #[must_use]
    pub const fn oracle_id(&self) -> &SourceId {
        &self.registration.oracle_id
    }

    /// The entry with a changed registration, or an error.
    ///
    /// The id and the adapter id never change. The ontology's id and `snapshot` are fixed if the source has versions or
    /// `is_being_read`: a run is in progress, or an adapter queries the source and answers are cached. In that case
    /// `after_ontology`, which `registration` names, must keep the meaning of existing records
    /// ([`Ontology::check_compatible_with`]).
    ///
    /// # Errors
    /// `Fixed`, `Ontology`.
    pub fn amend(
        &self,
        registration: SourceRegistration,
        before_ontology: &Ontology,
        after_ontology: &Ontology,
        is_being_read: bool,
    ) -> Result<Self, SourceRegistrationError> {
        let (before, after) = (&self.registration, &registration);
        let always = [
            ("oracle_id", before.oracle_id.to_string(), after.oracle_id.to_string()),
            ("adapter_id", before.adapter_id.into_str().to_owned(), after.adapter_id.into_str().to_owned()),
        ];
        if let Some((field, before, after)) = always.into_iter().find(|(_, before, after)| before != after) {
            return Err(SourceRegistrationError::Fixed { field, before, after });
        }
        let fixed = [
            ("ontology_id", before.ontology.ontology_id.to_string(), after.ontology.ontology_id.to_string()),
            ("snapshot", before.snapshot.to_string(), after.snapshot.to_string()),
        ];
        if is_being_read || !self.version_history.is_empty() {
            let changed = fixed.into_iter().find(|(_, before, after)| before != after);
            if let Some((field, before, after)) = changed {
                return Err(SourceRegistrationError::Fixed { field, before, after });
            }
            after_ontology.check_compatible_with(before_ontology).map_err(|fault| {
                SourceRegistrationError::Ontology {
                    before: before.ontology.clone(),
                    after: after.ontology.clone(),
                    fault: Box::new(fault),
                }
            })?;
        }
        Ok(Self { registration, ..self.clone() })
    }

    /// The source, approved to answer. This also cancels a deprecation.
    #[must_use]
    pub fn approve(&self) -> Self {
        Self { review_status: SourceReviewStatus::Approved, deprecation_date: None, ..self.clone() }
    }

    /// The source, deprecated from `date` on. The date can be changed until it has passed.
    ///
    /// # Errors
    /// `TooSoon`; `Transition` if the source is pending or its deprecation date has passed.
    pub fn deprecate(&self, date: Timestamp, now: Timestamp) -> Result<Self, SourceRegistrationError> {
        if self.review_status == SourceReviewStatus::Pending {
            return Err(SourceRegistrationError::Transition {
                status: self.review_status,
                change: "deprecated",
            });
        }
        if self.deprecation_date.is_some_and(|date| date <= now) {
            // a later date would let the source answer again, which requires an approval
            let change = "deprecated again after its `deprecation_date`; approve it instead";
            return Err(SourceRegistrationError::Transition { status: self.review_status, change });
        }
        let earliest = now.saturating_add(DEPRECATION_NOTICE).unwrap_or(Timestamp::MAX);
        if date < earliest {
            return Err(SourceRegistrationError::TooSoon { date, earliest });
        }
        Ok(Self {
            review_status: SourceReviewStatus::Deprecated,
            deprecation_date: Some(date),
            ..self.clone()
        })
    }

    /// Whether the source may answer at `now`.
    #[must_use]
    pub fn availability(&self, now: Timestamp) -> SourceAvailability {
        let id = self.oracle_id();
        match (self.review_status, self.deprecation_date) {
            (SourceReviewStatus::Approved, _) => SourceAvailability::Answers,
            (SourceReviewStatus::Pending, _) => {
                SourceAvailability::Silent(format!("source {id} is not approved yet"))
            }
            (SourceReviewStatus::Deprecated, Some(date)) if now < date => {
                SourceAvailability::AnswersWithWarning(format!(
                    "source {id} is deprecated and answers until {date}"
                ))
            }
            (SourceReviewStatus::Deprecated, Some(date)) => {
                SourceAvailability::Silent(format!("source {id} is deprecated since {date}"))
            }
            (SourceReviewStatus::Deprecated, None) => {
                SourceAvailability::Silent(format!("source {id} is deprecated"))
            }
        }
    }

    /// The source with these versions.
    #[must_use]
    pub fn with_versions(&self, mut versions: Vec<VersionRecord>) -> Self {
        versions
            .sort_by(|one, other| (one.released_at, &one.version).cmp(&(other.released_at, &other.version)));
        let current_version = versions.last().map(|newest| newest.version.clone()).unwrap_or_default();
        Self { version_history: versions, current_version, ..self.clone() }
    }
}

/// The trust in a source: declared, never inferred. Tiers are ordered by trust.
// RFC-0002, "Oracle Trust Hierarchy"
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum OracleTier {
    /// Untrusted until validated.
    Unverified,
    /// Valid for a related domain only.
    CrossDomain,
    /// Supplementary.
    Secondary,
    /// Authoritative for the domain.
    Primary,
}

impl OracleTier {
    /// The next lower tier; the lowest tier stays the same.
    #[must_use]
    pub const fn lower(self) -> Self {
        match self {
            Self::Primary => Self::Secondary,
            Self::Secondary => Self::CrossDomain,
            Self::CrossDomain | Self::Unverified => Self::Unverified,
        }
    }
}

/// How often a source publishes a new version.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema, VariantArray,
)]
#[serde(rename_all = "snake_case")]
pub enum UpdateFrequency {
    /// Continuously.
    Realtime,
    /// Every day.
    Daily,
    /// Every week.
    Weekly,
    /// Every month.
    Monthly,
    /// Every quarter.
    Quarterly,
    /// Every year.
    Annual,
    /// No update is planned.
    Static,
    /// On request.
    OnDemand,
}

#[cfg(test)]
mod tests;
