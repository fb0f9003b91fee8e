//! What a release does to the records in force at its date, for the gates.

use crate::ground::view::{Record, SourceView};
use domain::ground::gates::Effect;
use domain::ground::timeline::{Knowledge, Release, Scope};
use jiff::Timestamp;

/// Counts what a release does to the records in force at its date.
pub(super) struct EffectGauge {
    before: Knowledge,
    after: Knowledge,
    at: Timestamp,
    pub(super) effect: Effect,
}

impl EffectGauge {
    pub(super) fn new(view: &SourceView, releases: &[Release], release: &Release) -> Self {
        let scope = Scope { released_by: Some(release.released_at), ..Scope::default() };
        Self {
            before: Knowledge::new(&view.state.releases(), scope),
            after: Knowledge::new(releases, scope),
            at: release.released_at,
            effect: Effect::default(),
        }
    }

    pub(super) fn count(&mut self, record: &Record) {
        let Some(before) = self.before.valid_at(record.times(), self.at) else { return };
        self.effect.in_force += 1;
        match self.after.valid_at(record.times(), self.at) {
            None => self.effect.withdrawn += 1,
            Some(after) if after.content != before.content => self.effect.changed += 1,
            Some(_) => {}
        }
    }
}
