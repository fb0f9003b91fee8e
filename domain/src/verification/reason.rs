//! Why an envelope is none with values, each reason in a word.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

/// Why an envelope has no values, or one axis has none.
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
pub enum Reason {
    /// The axis is one on which a person decides in any case.
    AlwaysHuman,
    /// The oracles' values measure different things.
    DefinitionMismatch,
    /// A value jumps away from what its source said before.
    Deviation,
    /// Somebody claims another value than an oracle has.
    OracleVsUser,
    /// The values differ by more than may be settled without a person.
    DeltaThreshold,
    /// The values differ by more than the ratio that may be settled without a reviewer.
    RatioThreshold,
    /// Oracles disagree, and a person is to decide that.
    RequireHuman,
    /// Oracles disagree, and none was verified later than the others, or late enough.
    RecencyUndecided,
    /// Oracles disagree, and the order of tiers contradicts the one for the axis's class.
    PrecedenceUnclear,
    /// Oracles disagree, and the strategy cannot settle values like these.
    StrategyImpossible,
    /// Too many conflicts on one axis.
    CascadeLimit,
    /// An oracle is in conflict on one axis, which takes all its answers with it.
    OracleInvalidated,
    /// The decision takes longer than it may.
    BudgetExceeded,
    /// Oracles disagree, and nobody is to decide that.
    Disputed,
    /// A person would have to decide, and so many questions wait for people, or over this thing, that none more is put before
    /// them.
    QueueFull,
    /// An oracle did not answer in time, could not be reached, or is not called while its circuit is open.
    OracleUnreachable,
    /// An oracle failed, cannot answer such a question, gave an answer that cannot be trusted, or its current release holds
    /// the record and it was rejected.
    OracleUnusable,
    /// An answer is stale, and its source's policy does not let that pass.
    Stale,
    /// An answer is older than the axis allows, or the answer itself where the axis is state-sensitive.
    Expired,
    /// Oracles disagree, and are to be asked for all their axes once more.
    Reverification,
    /// No trusted oracle has a value that counts, and all that were to answer did.
    NoValue,
    /// Only what is unverified, or counts as that, has a value, and all others that were to answer did.
    UnverifiedOnly,
    /// Fewer registered oracles have a value than the workflow requires, and all expected answers arrived.
    TooFewSources,
    /// It is not said which thing is meant.
    ThingNotFixed,
    /// An oracle knows several things that could be meant.
    SeveralThings,
    /// The workflow verifies nothing.
    NonAuthoritative,
    /// The decision will be taken later.
    Deferred,
}

impl Reason {
    /// Whether a person has to decide.
    #[must_use]
    pub const fn is_for_a_person(self) -> bool {
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

    /// Whether it can be said only where all answered that were to.
    #[must_use]
    pub const fn is_of_all_answers(self) -> bool {
        matches!(self, Self::NoValue | Self::UnverifiedOnly | Self::TooFewSources)
    }

    /// Whether it closes the question, whatever else there is.
    #[must_use]
    pub const fn is_closing(self) -> bool {
        matches!(self, Self::Stale | Self::Expired | Self::Reverification)
    }
}
