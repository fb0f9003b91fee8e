//! The links between the entries of a delivery. The journal sets them when it numbers the entries. So a group that is staged again gets new
//! links.

use crate::audit::log::{LogLine, leaf};
use crate::base::engine::TableReader;
use domain_audit::leaf::EntryLink;
use domain_audit::log_tree::{TreeHash, leaf_hash};
use domain_base::digest::Sha256Hex;
use domain_base::event::{AuditEvent, DeliveryRole, EventType, event_in, read_open};
use domain_base::session_id::SessionId;
use oracled_domain::events::event_type;
use serde::Deserialize;
use store_base::error::StoreError;

/// An entry of a session that a later delivery can name. Only a commit or a read of the log creates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceEntry {
    session_id: SessionId,
    event: &'static str,
    link: EntryLink,
}

impl EvidenceEntry {
    fn new(kind: &EventType, session_id: Option<SessionId>, link: EntryLink) -> Option<Self> {
        let session_id = session_id.filter(|_| kind.delivery_role == DeliveryRole::Evidence)?;
        Some(Self { session_id, event: kind.name, link })
    }

    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.link.seq
    }

    #[must_use]
    pub const fn event(&self) -> &'static str {
        self.event
    }

    /// Whether a record of `events` may name this entry. `first_seq` is the number of the record's first entry.
    pub(crate) fn precedes(&self, first_seq: u64, events: &[AuditEvent]) -> bool {
        let mut deliveries = events.iter().filter(|event| role_of(event) == DeliveryRole::Delivery);
        self.seq() < first_seq && deliveries.all(|event| event.session_id.as_ref() == Some(&self.session_id))
    }
}

impl TableReader {
    /// The entry with this line, if a delivery can name it.
    ///
    /// # Errors
    /// `Corrupt` if the line is not an entry.
    pub fn evidence(&self, line: &LogLine) -> Result<Option<EvidenceEntry>, StoreError> {
        #[derive(Deserialize)]
        struct OfSession {
            #[serde(default, deserialize_with = "read_open")]
            session_id: Option<SessionId>,
        }
        let Some(kind) = event_in(&line.json).and_then(event_type) else { return Ok(None) };
        let OfSession { session_id } = self.parse_entry(line)?;
        let hash = leaf_hash(leaf(self.dir(), &line.json)?.as_bytes());
        Ok(EvidenceEntry::new(kind, session_id, link_to(line.seq, &hash)))
    }
}

/// The links of the entries of one record.
#[derive(Debug)]
pub(crate) struct RecordLinks<'r> {
    /// The entries of earlier records that its delivery names.
    earlier: &'r [EvidenceEntry],
    /// Its own entries so far that a delivery can name.
    pub(crate) own: Vec<EvidenceEntry>,
    delivery: Vec<EntryLink>,
}

impl<'r> RecordLinks<'r> {
    pub(crate) const fn new(earlier: &'r [EvidenceEntry]) -> Self {
        Self { earlier, own: Vec::new(), delivery: Vec::new() }
    }

    /// The links of the next entry. If the earlier entries and the record have an event in common, the evidence of the record is about
    /// another verdict, and is not linked.
    pub(crate) fn of(&self, event: &AuditEvent) -> Vec<EntryLink> {
        let own = || self.own.iter().filter(|entry| event.session_id.as_ref() == Some(&entry.session_id));
        let repeats = |entry: &EvidenceEntry| self.earlier.iter().any(|earlier| earlier.event == entry.event);
        match role_of(event) {
            DeliveryRole::None | DeliveryRole::Evidence => Vec::new(),
            DeliveryRole::Effect => self.delivery.clone(),
            DeliveryRole::Delivery => {
                let own = own().filter(|_| !own().any(repeats));
                let mut links: Vec<_> =
                    self.earlier.iter().chain(own).map(|entry| entry.link.clone()).collect();
                links.sort_by_key(|link| link.seq);
                links
            }
        }
    }

    /// Notes that `event` is the entry `seq`, whose leaf has this hash.
    pub(crate) fn note(&mut self, event: &AuditEvent, seq: u64, hash: &TreeHash) {
        match role_of(event) {
            DeliveryRole::None | DeliveryRole::Effect => {}
            DeliveryRole::Delivery => self.delivery = vec![link_to(seq, hash)],
            DeliveryRole::Evidence => {
                let session_id = event.session_id.clone();
                self.own.extend(EvidenceEntry::new(event.kind.event_type(), session_id, link_to(seq, hash)));
            }
        }
    }
}

fn role_of(event: &AuditEvent) -> DeliveryRole {
    event.kind.event_type().delivery_role
}

fn link_to(seq: u64, hash: &TreeHash) -> EntryLink {
    EntryLink { seq, leaf_sha256: Sha256Hex::from_bytes(hash) }
}
