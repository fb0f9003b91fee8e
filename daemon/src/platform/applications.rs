//! The applications that use the routes' socket.

use domain_base::application::ApplicationName;
use domain_base::caller::PeerCredentials;
use std::collections::BTreeMap;

/// The processes of an application.
#[derive(Debug, Clone, Default)]
pub struct ApplicationProcesses {
    pub uids: Vec<u32>,
    /// The group ids, for processes whose user id no application lists.
    pub gids: Vec<u32>,
    /// Maximum number of verdicts in flight.
    pub in_flight: Option<usize>,
}

/// The applications by name. If there are none, all callers belong to `default`.
#[derive(Debug, Clone, Default)]
pub struct Applications(pub BTreeMap<ApplicationName, ApplicationProcesses>);

impl Applications {
    /// The names, or only `default` if no application is configured.
    #[must_use]
    pub fn names(&self) -> Vec<ApplicationName> {
        if self.0.is_empty() {
            return vec![ApplicationName::default()];
        }
        self.0.keys().cloned().collect()
    }

    /// The application of the process `peer`; `None` if it belongs to none.
    pub(crate) fn of_peer(&self, peer: PeerCredentials) -> Option<ApplicationName> {
        if self.0.is_empty() {
            return Some(ApplicationName::default());
        }
        let by_uid = || self.0.iter().find(|(_, processes)| processes.uids.contains(&peer.uid));
        let by_gid = || self.0.iter().find(|(_, processes)| processes.gids.contains(&peer.gid));
        by_uid().or_else(by_gid).map(|(name, _)| name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_belongs_to_application_of_its_uid_before_that_of_its_gid() {
        let processes = |uids: &[u32], gids: &[u32]| ApplicationProcesses {
            uids: uids.into(),
            gids: gids.into(),
            in_flight: None,
        };
        let all = [("shop", processes(&[1], &[])), ("help", processes(&[3], &[2]))];
        let named = all.map(|(name, processes)| (name.parse().expect("a valid name"), processes));
        let all = Applications(named.into());
        let of = |uid, gid| all.of_peer(PeerCredentials { uid, gid, pid: None }).map(String::from);
        assert_eq!(of(1, 2).as_deref(), Some("shop"));
        assert_eq!(of(9, 2).as_deref(), Some("help"));
        assert_eq!(of(9, 1), None);
        let peer = PeerCredentials { uid: 9, gid: 9, pid: None };
        assert_eq!(Applications::default().of_peer(peer), Some(ApplicationName::default()));
    }
}
