//! The reasons for missing values, each as one stable word.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

/// Why an envelope, or one of its axes, has no value.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
    VariantArray,
    IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AxisReason {
    /// A reviewer always decides on this axis.
    AlwaysHuman,
    /// The values of the oracles have different definitions.
    DefinitionMismatch,
    /// A value deviates from its source's baseline.
    Deviation,
    /// A claim differs from the value of an oracle.
    OracleVsUser,
    /// The values differ by more than the difference that may be settled without a reviewer.
    DeltaThreshold,
    /// The values differ by more than the ratio that may be settled without a reviewer.
    RatioThreshold,
    /// Oracles disagree, and a reviewer must decide.
    RequireHuman,
    /// Oracles disagree, and no value is newer than the others or recent enough.
    RecencyUndecided,
    /// Oracles disagree, and the order of tiers contradicts the one for the axis's class.
    PrecedenceUnclear,
    /// Oracles disagree, and the strategy cannot settle such values.
    StrategyImpossible,
    /// Too many conflicts on one axis.
    CascadeLimit,
    /// An oracle is in conflict on one axis, which invalidates all its answers.
    OracleInvalidated,
    /// The decision took longer than its time limit.
    BudgetExceeded,
    /// Oracles disagree, and the dispute is only reported.
    Disputed,
    /// A reviewer would have to decide, but the review queue, or the number of open reviews of this subject, is at its
    /// limit.
    QueueFull,
    /// An oracle did not answer in time, could not be reached, or is not called while its circuit is open.
    OracleUnreachable,
    /// An oracle failed, cannot answer such a question, or gave an answer that cannot be trusted; or the ingestion of its
    /// current release rejected the record.
    OracleUnusable,
    /// An answer is stale, and its source's policy does not allow that.
    Stale,
    /// A value is older than the axis allows or, if the axis is state-sensitive, than the answer itself allows.
    Expired,
    /// Oracles disagree, and must be queried again for all their axes.
    Reverification,
    /// No trusted oracle has a value that counts, and all expected answers arrived.
    NoValue,
    /// Only oracles that are unverified, or count as unverified, have a value, and all other expected answers arrived.
    UnverifiedOnly,
    /// Fewer registered oracles have a value than the workflow requires, and all expected answers arrived.
    TooFewSources,
    /// The question does not identify one subject.
    SubjectNotFixed,
    /// An oracle has several matching records.
    SeveralSubjects,
    /// The workflow verifies nothing.
    NonAuthoritative,
    /// The decision is made later.
    Deferred,
}

impl AxisReason {
    /// The reason in words.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::AlwaysHuman => "a reviewer always decides this axis",
            Self::DefinitionMismatch => "the values of the sources have different definitions",
            Self::Deviation => "a value deviates too far from its source's baseline",
            Self::OracleVsUser => "a claim differs from the value of a source",
            Self::DeltaThreshold => "the values differ by more than may be settled without a reviewer",
            Self::RatioThreshold => {
                "the values differ by more than the ratio that may be settled without a reviewer"
            }
            Self::RequireHuman => "the sources disagree, and a reviewer has to decide",
            Self::RecencyUndecided => {
                "the sources disagree, and none was published later than the others or recently enough"
            }
            Self::PrecedenceUnclear => {
                "the sources disagree, and the order of their tiers contradicts the precedence for this axis"
            }
            Self::StrategyImpossible => "the sources disagree, and the strategy cannot settle such values",
            Self::CascadeLimit => "one axis has more conflicts than may be settled in sequence",
            Self::OracleInvalidated => {
                "a source is in conflict on one axis, which invalidates all its answers"
            }
            Self::BudgetExceeded => "the decision exceeded its time budget",
            Self::Disputed => "the sources disagree, and the workflow leaves that undecided",
            Self::QueueFull => {
                "too many reviews are open, in total or for this subject; reviewers have to resolve or dismiss some first"
            }
            Self::OracleUnreachable => {
                "a source did not answer in time, could not be reached, or is not called while its circuit is open"
            }
            Self::OracleUnusable => {
                "a source failed, is not approved or ingested yet, had no release then, cannot answer such a question, returned an untrusted answer, or rejected the record in its current release"
            }
            Self::Stale => "the data of a source is stale, and its freshness policy does not allow that",
            Self::Expired => "the data of a source is older than the axis or the source allows",
            Self::Reverification => "the sources disagree, and have to be queried again for all their axes",
            Self::NoValue => "no trusted source has a usable value, and all expected sources answered",
            Self::UnverifiedOnly => {
                "only sources that are unverified, or count as unverified, have a value, and all other expected sources answered"
            }
            Self::TooFewSources => "fewer registered sources have a value than the workflow requires",
            Self::SubjectNotFixed => "the question does not identify one subject",
            Self::SeveralSubjects => "a source has several records of the subject",
            Self::NonAuthoritative => "the workflow does not verify values",
            Self::Deferred => "the decision is pending",
        }
    }

    /// Whether a reviewer must decide.
    #[must_use]
    pub const fn is_for_reviewer(self) -> bool {
        matches!(
            self,
            Self::AlwaysHuman
                | Self::DefinitionMismatch
                | Self::Deviation
                | Self::OracleVsUser
                | Self::DeltaThreshold
                | Self::RatioThreshold
                | Self::RequireHuman
                | Self::RecencyUndecided
                | Self::PrecedenceUnclear
                | Self::StrategyImpossible
                | Self::CascadeLimit
                | Self::OracleInvalidated
        )
    }

    /// Whether the reason requires that all expected answers arrived.
    #[must_use]
    pub const fn is_all_answers_required(self) -> bool {
        matches!(self, Self::NoValue | Self::UnverifiedOnly | Self::TooFewSources)
    }

    /// Whether the reason blocks the axis, whatever other reasons exist.
    #[must_use]
    pub const fn is_blocking(self) -> bool {
        matches!(self, Self::Stale | Self::Expired | Self::Reverification)
    }
}
