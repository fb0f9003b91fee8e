//! The effect of a release on the records in force at its date, for the gates.

use crate::ground::view::{Record, SourceView};
use jiff::Timestamp;
use oracled_domain::ground::run::Effect;
use oracled_domain::ground::timeline::{Knowledge, Release, Scope};

/// Counts the effect of a release on the records in force at its date or later. If the release replaces another reading of
/// its version with another date, the records in force at that date count too.
pub(super) struct EffectGauge {
    times: Vec<AtTime>,
    pub(super) effect: Effect,
}

/// The known statements at a time, without the release and with it.
struct AtTime {
    at: Timestamp,
    before: Knowledge,
    after: Knowledge,
}

impl EffectGauge {
    pub(super) fn new(view: &SourceView, releases: &[Release], release: &Release) -> Self {
        let replaced = view.state.read_as(&release.version).map(|completed| completed.release.released_at);
        let replaced = replaced.filter(|at| *at != release.released_at);
        let times = [Some(release.released_at), replaced].into_iter().flatten().map(|at| {
            let scope = Scope { released_by: Some(at), ..Scope::default() };
            let before = Knowledge::new(&view.state.releases(), scope);
            AtTime { at, before, after: Knowledge::new(releases, scope) }
        });
        Self { times: times.collect(), effect: Effect::default() }
    }

    pub(super) fn count(&mut self, record: &Record) {
        let changes: Vec<_> = self.times.iter().filter_map(|time| time.change(record)).collect();
        self.effect.in_force += u64::from(!changes.is_empty());
        self.effect.withdrawn += u64::from(changes.contains(&Change::Withdrawn));
        let is_changed = changes.contains(&Change::Changed) && !changes.contains(&Change::Withdrawn);
        self.effect.changed += u64::from(is_changed);
    }
}

/// The effect on a record that was in force.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    None,
    Changed,
    Withdrawn,
}

impl AtTime {
    /// The effect on the record; `None` if it is not in force at the time or later.
    fn change(&self, record: &Record) -> Option<Change> {
        let (before, at) = match self.before.valid_at(record.times(), self.at) {
            Some(before) => (before, self.at),
            None => {
                let versions = self.before.versions(record.times());
                let next = versions.into_iter().find(|version| version.valid_from > self.at)?;
                (next, next.valid_from)
            }
        };
        Some(match self.after.valid_at(record.times(), at) {
            None => Change::Withdrawn,
            Some(after) if after.content != before.content => Change::Changed,
            Some(_) => Change::None,
        })
    }
}
