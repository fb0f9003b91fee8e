//! The precedence of oracles by the class of an axis (RFC-0002, "Conflict Resolution Hierarchy"). People come first on
//! self-reported axes and decide nothing on measured ones; they are considered before any oracle.

use super::LeadingValue;
use crate::ground::axis::{Axis, AxisClass};
use crate::verification::record::OracleVerificationRecord;
use crate::verification::tier::VerificationTier;

/// The rank of an oracle, in ascending order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PrecedenceRank {
    /// Neither lookup nor proof.
    Other,
    /// Cryptographic proof: signed evidence with a chain of custody.
    Proof,
    /// Deterministic lookup: a primary oracle; on a self-reported axis, a primary oracle that signs its answers.
    Lookup,
}

/// The highest rank among the members of one side.
pub(super) fn rank(axis: &Axis, side: &LeadingValue<'_, '_>) -> PrecedenceRank {
    let ranks = side.members.iter().map(|member| {
        let record = &member.answer.candidate.record;
        let is_lookup = match axis.class {
            AxisClass::Measured => true,
            AxisClass::SelfReported => is_signed(record),
        };
        if is_lookup && member.tier == VerificationTier::Primary {
            PrecedenceRank::Lookup
        } else if is_signed(record) && record.chain_of_custody.as_ref().is_some_and(|hands| !hands.is_empty())
        {
            PrecedenceRank::Proof
        } else {
            PrecedenceRank::Other
        }
    });
    ranks.max().unwrap_or(PrecedenceRank::Other)
}

fn is_signed(record: &OracleVerificationRecord) -> bool {
    record.signature_info.as_ref().is_some_and(|signature| signature.signature_valid)
}
