//! The source registry: who may be asked, how far to trust them, and where that stands.
//!
//! Source: RFC-0002, "Source Registry". An entry has the RFC's fields under the RFC's names; what the daemon fills in is not
//! taken from whoever registers.

mod tier;

pub use tier::OracleTier;

use super::frequency::UpdateFrequency;
use super::id::SourceId;
use super::ontology::{NotKept, Ontology, OntologyRef};
use crate::base::blank::is_blank;
use crate::base::digest::Sha256Hex;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use strum::IntoStaticStr;

/// The id under which locks stand in verification records; no workflow asks a source of that name.
pub const LOCK_ORACLE_ID: &str = "human-lock";
/// The id under which confirmed claims stand there.
pub const CONFIRMATION_ORACLE_ID: &str = "human-confirmation";
/// A deprecation is told so long before it takes effect (RFC, registry invariant 3).
pub const DEPRECATION_NOTICE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// The longest text in a registration, in bytes.
const TEXT_MAX_BYTES: usize = 1024;

/// What whoever registers a source says of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// Its stable id.
    pub oracle_id: SourceId,
    /// Its name, for people.
    pub oracle_name: String,
    /// How far it is trusted.
    pub oracle_tier: OracleTier,
    /// Who is behind it.
    pub upstream_authority: String,
    /// Where it is published.
    pub upstream_url: String,
    /// Under which terms it may be used.
    pub data_license: String,
    /// What it is about.
    pub domain: String,
    /// The ontology whose axes it fills.
    pub ontology: OntologyRef,
    /// Which of them.
    pub axes_provided: Vec<String>,
    /// Where it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub geographic_scope: Option<String>,
    /// How often there is something new.
    pub update_frequency: UpdateFrequency,
    /// Which adapter handles queries; it stays what it is.
    pub adapter_id: AdapterId,
    /// What its query interface is called.
    pub query_contract: String,
    /// Whether a release holds all that the source holds: what is not in it any more is withdrawn.
    #[serde(default)]
    pub snapshot: bool,
}

/// Which adapter handles queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AdapterId {
    /// What it says is ingested, and answered from the store.
    Store,
    /// It is live: asked by HTTP, each time, as its adapter document says.
    Http,
}

/// A source as it stands in the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRegistryEntry {
    /// What was registered.
    #[serde(flatten)]
    pub registration: Registration,
    /// The version that is the newest by its release; empty before the first.
    pub current_version: String,
    /// Every version that was ingested, in the order of their releases.
    pub version_history: Vec<VersionRecord>,
    /// When it was registered.
    pub registered_at: Timestamp,
    /// By whom: the peer's user.
    pub registered_by: String,
    /// Whether it answers.
    pub review_status: ReviewStatus,
    /// From when on it does not, where it is deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecation_date: Option<Timestamp>,
}

/// Whether a source answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ReviewStatus {
    /// Not yet: it can be ingested.
    Pending,
    /// Yes.
    Approved,
    /// Until its deprecation date, with a warning.
    Deprecated,
}

/// A version of a source that was ingested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionRecord {
    /// What the source calls it.
    pub version: String,
    /// When the source released it.
    pub released_at: Timestamp,
    /// When it was ingested.
    pub ingested_at: Timestamp,
    /// How many records it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_count: Option<u64>,
    /// The SHA-256 of the payload that was ingested.
    pub checksum: Sha256Hex,
}

/// Whether a source may answer now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    Answers,
    /// It may, with this warning.
    AnswersWithWarning(String),
    /// It may not, for this reason.
    Silent(String),
}

/// Why a source is not registered, or not changed so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSource {
    /// A text is empty or too long.
    #[error("`{field}` has 1 to {TEXT_MAX_BYTES} bytes")]
    Text {
        /// Which one.
        field: &'static str,
    },
    /// It names no axes.
    #[error("`axes_provided` names no axis")]
    NoAxes,
    /// An axis is not in the ontology.
    #[error("`axes_provided`: `{axis}` is not an axis of {ontology_id} {version}; there are: {known}")]
    UnknownAxis {
        /// Which one.
        axis: String,
        /// The ontology.
        ontology_id: String,
        /// Its version.
        version: String,
        /// Its axes.
        known: String,
    },
    /// An axis is named twice.
    #[error("`axes_provided` names `{axis}` twice")]
    RepeatedAxis {
        /// Which one.
        axis: String,
    },
    /// It names another ontology than the one it is read against.
    #[error("`ontology` is {named}, and not {given}")]
    OtherOntology {
        /// What it names.
        named: OntologyRef,
        /// Against which it is read.
        given: OntologyRef,
    },
    /// An axis that says what a record speaks of is missing.
    #[error("`axes_provided` does not name `{axis}`, without which nobody knows what a record speaks of")]
    IdentityMissing {
        /// Which one.
        axis: String,
    },
    /// The id stands for what people decide.
    #[error("`oracle_id`: `{0}` stands for what people decide, and is no source's")]
    Reserved(SourceId),
    /// What it is known by, or what its records depend on, would change.
    #[error("`{field}` cannot change from {before} to {after}: register another source")]
    Fixed {
        /// What would change.
        field: &'static str,
        /// What it is.
        before: String,
        /// What it would be.
        after: String,
    },
    /// Its records would be read by an ontology in which they mean something else.
    #[error(
        "`ontology` cannot change from {before} to {after}, by which the source's records would be read: {fault}. Register \
         another source, or a version that keeps the axes as they are and where they are: it may add words to an enum, and \
         axes behind the others that are no identities"
    )]
    Ontology {
        /// What it is.
        before: OntologyRef,
        /// What it would be.
        after: OntologyRef,
        /// What would be otherwise.
        fault: Box<NotKept>,
    },
    /// The deprecation would be too soon.
    #[error("`deprecation_date` is {date}; it must lie at least 90 days ahead, at {earliest} or later")]
    TooSoon {
        /// When it would be.
        date: Timestamp,
        /// When it may be.
        earliest: Timestamp,
    },
    /// The change does not follow from where it stands.
    #[error("a source that is {} cannot be {change}", .status.into_str())]
    Transition {
        /// Where it stands.
        status: ReviewStatus,
        /// What was to happen.
        change: &'static str,
    },
}

impl Registration {
    /// The publisher and the address: `url`, or the registered address without one.
    #[must_use]
    pub fn authority(&self, url: Option<&str>) -> String {
        format!("{} ({})", self.upstream_authority, url.unwrap_or(&self.upstream_url))
    }

    /// Whether a source can be registered so.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub fn validate(&self, ontology: &Ontology) -> Result<(), BadSource> {
        if [LOCK_ORACLE_ID, CONFIRMATION_ORACLE_ID].contains(&self.oracle_id.as_str()) {
            return Err(BadSource::Reserved(self.oracle_id.clone()));
        }
        let scope = self.geographic_scope.as_deref().unwrap_or("none");
        let texts = [
            ("oracle_name", self.oracle_name.as_str()),
            ("upstream_authority", &self.upstream_authority),
            ("upstream_url", &self.upstream_url),
            ("data_license", &self.data_license),
            ("domain", &self.domain),
            ("geographic_scope", scope),
            ("query_contract", &self.query_contract),
        ];
        let is_sound = |text: &str| !is_blank(text) && text.len() <= TEXT_MAX_BYTES;
        if let Some((field, _)) = texts.into_iter().find(|(_, text)| !is_sound(text)) {
            return Err(BadSource::Text { field });
        }
        if self.ontology != ontology.reference() {
            return Err(BadSource::OtherOntology {
                named: self.ontology.clone(),
                given: ontology.reference(),
            });
        }
        if self.axes_provided.is_empty() {
            return Err(BadSource::NoAxes);
        }
        let mut seen = BTreeSet::new();
        for axis in &self.axes_provided {
            if !seen.insert(axis) {
                return Err(BadSource::RepeatedAxis { axis: axis.clone() });
            }
            if !ontology.axes.iter().any(|known| known.axis == *axis) {
                return Err(BadSource::UnknownAxis {
                    axis: axis.clone(),
                    ontology_id: ontology.ontology_id.to_string(),
                    version: ontology.version.clone(),
                    known: ontology.axes.iter().map(|axis| axis.axis.as_str()).collect::<Vec<_>>().join(", "),
                });
            }
        }
        match ontology.identity().find(|axis| !self.axes_provided.contains(&axis.axis)) {
            Some(axis) => Err(BadSource::IdentityMissing { axis: axis.axis.clone() }),
            None => Ok(()),
        }
    }
}

impl SourceRegistryEntry {
    /// A source as it begins: it can be ingested, and does not answer.
    #[must_use]
    pub const fn new(registration: Registration, registered_by: String, at: Timestamp) -> Self {
        Self {
            registration,
            current_version: String::new(),
            version_history: Vec::new(),
            registered_at: at,
            registered_by,
            review_status: ReviewStatus::Pending,
            deprecation_date: None,
        }
    }

    /// The entry without its versions, as the log has it.
    #[must_use]
    pub fn without_history(&self) -> Self {
        Self { version_history: Vec::new(), ..self.clone() }
    }

    /// Its id.
    #[must_use]
    pub const fn oracle_id(&self) -> &SourceId {
        &self.registration.oracle_id
    }

    /// The same source under what is registered of it now. Its id stays, and whether it is live; and what its records depend on
    /// once there are any, or while the source `is_being_read`: a run goes on that will bring some, or it is asked by an adapter,
    /// and answers are kept. What `before_ontology` has, by which they are made, `after_ontology` keeps, which it names now.
    ///
    /// # Errors
    /// `Fixed`, `Ontology`.
    pub fn amended(
        &self,
        registration: Registration,
        before_ontology: &Ontology,
        after_ontology: &Ontology,
        is_being_read: bool,
    ) -> Result<Self, BadSource> {
        let (before, after) = (&self.registration, &registration);
        let always = [
            ("oracle_id", before.oracle_id.to_string(), after.oracle_id.to_string()),
            ("adapter_id", before.adapter_id.into_str().to_owned(), after.adapter_id.into_str().to_owned()),
        ];
        if let Some((field, before, after)) = always.into_iter().find(|(_, before, after)| before != after) {
            return Err(BadSource::Fixed { field, before, after });
        }
        let fixed = [
            ("ontology_id", before.ontology.ontology_id.to_string(), after.ontology.ontology_id.to_string()),
            ("snapshot", before.snapshot.to_string(), after.snapshot.to_string()),
        ];
        if is_being_read || !self.version_history.is_empty() {
            let changed = fixed.into_iter().find(|(_, before, after)| before != after);
            if let Some((field, before, after)) = changed {
                return Err(BadSource::Fixed { field, before, after });
            }
            after_ontology.keeps(before_ontology).map_err(|fault| BadSource::Ontology {
                before: before.ontology.clone(),
                after: after.ontology.clone(),
                fault: Box::new(fault),
            })?;
        }
        Ok(Self { registration, ..self.clone() })
    }

    /// The same source, answering from now on. A deprecation is taken back so, too.
    ///
    /// # Errors
    /// `Transition` where it answers already.
    pub fn approved(&self) -> Result<Self, BadSource> {
        if self.review_status == ReviewStatus::Approved {
            return Err(BadSource::Transition { status: self.review_status, change: "approved" });
        }
        Ok(Self { review_status: ReviewStatus::Approved, deprecation_date: None, ..self.clone() })
    }

    /// The same source, answering until `date`; another date may be set until it has passed.
    ///
    /// # Errors
    /// `TooSoon`; `Transition` where it does not answer.
    pub fn deprecated(&self, date: Timestamp, now: Timestamp) -> Result<Self, BadSource> {
        if self.review_status == ReviewStatus::Pending {
            return Err(BadSource::Transition { status: self.review_status, change: "deprecated" });
        }
        if self.deprecation_date.is_some_and(|date| date <= now) {
            // another date would let it answer again, which only an approval does
            let change = "deprecated anew once its date has passed; it can be approved";
            return Err(BadSource::Transition { status: self.review_status, change });
        }
        let earliest = now.saturating_add(DEPRECATION_NOTICE).unwrap_or(Timestamp::MAX);
        if date < earliest {
            return Err(BadSource::TooSoon { date, earliest });
        }
        Ok(Self { review_status: ReviewStatus::Deprecated, deprecation_date: Some(date), ..self.clone() })
    }

    /// Whether it may answer at `now`.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        let id = self.oracle_id();
        match (self.review_status, self.deprecation_date) {
            (ReviewStatus::Approved, _) => Standing::Answers,
            (ReviewStatus::Pending, _) => Standing::Silent(format!("source {id} is not approved yet")),
            (ReviewStatus::Deprecated, Some(date)) if now < date => {
                Standing::AnswersWithWarning(format!("source {id} is deprecated and answers until {date}"))
            }
            (ReviewStatus::Deprecated, Some(date)) => {
                Standing::Silent(format!("source {id} is deprecated since {date}"))
            }
            (ReviewStatus::Deprecated, None) => Standing::Silent(format!("source {id} is deprecated")),
        }
    }

    /// The same source with these versions.
    #[must_use]
    pub fn with_versions(&self, mut versions: Vec<VersionRecord>) -> Self {
        versions
            .sort_by(|one, other| (one.released_at, &one.version).cmp(&(other.released_at, &other.version)));
        let current_version = versions.last().map(|newest| newest.version.clone()).unwrap_or_default();
        Self { version_history: versions, current_version, ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
