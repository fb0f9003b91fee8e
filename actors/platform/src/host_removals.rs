//! How far the hosts of a cluster have removed data from their files.
//!
//! The log is the same on all hosts, and each host removes the data of an erasure or a retention from its own files. It reports the last
//! entry that starts such a removal and up to which it has done so.

use crate::work_turn::WorkTurn;
use tokio::sync::watch;

/// The removals of this host, and of the others.
#[derive(Debug, Clone)]
pub struct HostRemovals {
    /// The host with the turn logs the end of a removal.
    pub turn: WorkTurn,
    /// The entry up to which this host has done all removals.
    pub own: watch::Sender<u64>,
    /// That of each member of the cluster, as this host saw it last.
    pub members: watch::Receiver<Vec<MemberRemovals>>,
}

/// The removals of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRemovals {
    pub host: String,
    /// The entry up to which it has done all removals.
    pub up_to: u64,
    /// Whether it was not seen lately.
    pub is_away: bool,
}

impl HostRemovals {
    /// The members that have not done the removal that starts with entry `seq`.
    #[must_use]
    pub fn behind(&self, seq: u64) -> Vec<MemberRemovals> {
        let (own, members) = (*self.own.borrow(), self.members.borrow());
        let is_behind = |member: &&MemberRemovals| {
            let up_to = if self.turn.host() == Some(&member.host) { own } else { member.up_to };
            up_to < seq
        };
        members.iter().filter(is_behind).cloned().collect()
    }

    /// Whether a member has done the removal that starts with entry `seq`.
    #[must_use]
    pub fn is_done_on_one(&self, seq: u64) -> bool {
        self.members.borrow().iter().any(|member| member.up_to >= seq)
    }
}
