//! How far the hosts of a cluster have removed data from their files.
//!
//! The log is the same on all hosts, and each host removes the data of an erasure or a retention from its own files. It reports the last
//! entry that starts such a removal and up to which it has done so.

use crate::work_turn::WorkTurn;
use std::time::Instant;
use tokio::sync::watch;

/// The removals of this host, and of the others.
#[derive(Debug, Clone)]
pub struct HostRemovals {
    /// The host with the turn logs the end of a removal.
    pub turn: WorkTurn,
    pub own: watch::Sender<OwnRemovals>,
    /// Those of the members of the cluster, and when they were read.
    pub members: watch::Receiver<(Option<Instant>, Vec<MemberRemovals>)>,
}

/// The removals of this host.
#[derive(Debug, Clone, Copy)]
pub struct OwnRemovals {
    /// The entry up to which this host has done all removals.
    pub up_to: u64,
    /// When this was noted.
    pub at: Instant,
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
    /// The members that have not done the removal that starts with entry `seq`; `None` if the members were not read since this host has done
    /// its last one: another host may have entered the cluster.
    #[must_use]
    pub fn behind(&self, seq: u64) -> Option<Vec<MemberRemovals>> {
        let own = *self.own.borrow();
        let (read_at, members) = &*self.members.borrow();
        let is_behind = |member: &&MemberRemovals| {
            let up_to = if self.turn.host() == Some(&member.host) { own.up_to } else { member.up_to };
            up_to < seq
        };
        let is_new = read_at.is_some_and(|read_at| read_at > own.at);
        is_new.then(|| members.iter().filter(is_behind).cloned().collect())
    }

    /// Whether a member has done the removal that starts with entry `seq`.
    #[must_use]
    pub fn is_done_on_one(&self, seq: u64) -> bool {
        self.members.borrow().1.iter().any(|member| member.up_to >= seq)
    }
}
