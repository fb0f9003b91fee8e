//! The order of oracles by what an axis is (RFC-0002, "Conflict Resolution Hierarchy"). People, who come first on self-reported
//! axes and decide nothing on measured ones, are looked at before any oracle.

use super::Standing;
use crate::ground::axis::{Axis, AxisClass};
use crate::verification::record::OracleVerificationRecord;
use crate::verification::tier::Tier;

/// Who is looked up, who has proof, and who has neither; the order is that of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Neither of the others.
    Other,
    /// Cryptographic proof: signed evidence with a chain of custody.
    Proof,
    /// Deterministic lookup: a primary oracle; on a self-reported axis one that signs what it says.
    Lookup,
}

/// The highest rank among those behind one side.
pub(super) fn rank(axis: &Axis, side: &Standing<'_, '_>) -> Rank {
    let ranks = side.members.iter().map(|member| {
        let record = &member.voice.candidate.record;
        let is_lookup = match axis.class {
            AxisClass::Measured => true,
            AxisClass::SelfReported => is_signed(record),
        };
        if is_lookup && member.tier == Tier::Primary {
            Rank::Lookup
        } else if is_signed(record) && record.chain_of_custody.as_ref().is_some_and(|hands| !hands.is_empty())
        {
            Rank::Proof
        } else {
            Rank::Other
        }
    });
    ranks.max().unwrap_or(Rank::Other)
}

fn is_signed(record: &OracleVerificationRecord) -> bool {
    record.signature_info.as_ref().is_some_and(|signature| signature.signature_valid)
}
