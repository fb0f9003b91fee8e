//! The effect of a release on the records in force at its date, for the gates.

use crate::ground::view::{RecordStatements, SourceView};
use jiff::Timestamp;
use oracled_domain::ground::run::ReleaseEffect;
use oracled_domain::ground::timeline::{ReleaseScope, TimelineRun, VisibleReleases};

/// Counts the effect of a release on the records in force at its date or later. If the release replaces
/// another reading of its version with another date, the records in force at that date count too.
pub(super) struct ReleaseEffectGauge {
    times: Vec<EffectAtTime>,
    pub(super) effect: ReleaseEffect,
}

/// The known statements at a time, without the release and with it.
struct EffectAtTime {
    at: Timestamp,
    before: VisibleReleases,
    after: VisibleReleases,
}

impl ReleaseEffectGauge {
    pub(super) fn new(view: &SourceView, releases: &[TimelineRun], release: &TimelineRun) -> Self {
        let replaced =
            view.state.run_of_version(&release.version).map(|completed| completed.release.released_at);
        let replaced = replaced.filter(|at| *at != release.released_at);
        let times = [Some(release.released_at), replaced].into_iter().flatten().map(|at| {
            let scope = ReleaseScope { released_by: Some(at), ..ReleaseScope::default() };
            let before = VisibleReleases::new(&view.state.releases(), scope);
            EffectAtTime { at, before, after: VisibleReleases::new(releases, scope) }
        });
        Self { times: times.collect(), effect: ReleaseEffect::default() }
    }

    pub(super) fn count(&mut self, record: &RecordStatements) {
        let changes: Vec<_> = self.times.iter().filter_map(|time| time.change(record)).collect();
        self.effect.in_force += u64::from(!changes.is_empty());
        self.effect.withdrawn += u64::from(changes.contains(&RecordEffect::Withdrawn));
        let is_changed =
            changes.contains(&RecordEffect::Changed) && !changes.contains(&RecordEffect::Withdrawn);
        self.effect.changed += u64::from(is_changed);
    }
}

/// The effect on a record that was in force.
#[derive(Debug, PartialEq, Eq)]
enum RecordEffect {
    None,
    Changed,
    Withdrawn,
}

impl EffectAtTime {
    /// The effect on the record; `None` if it is not in force at the time or later.
    fn change(&self, record: &RecordStatements) -> Option<RecordEffect> {
        let (before, at) = match self.before.valid_at(record.times(), self.at) {
            Some(before) => (before, self.at),
            None => {
                let versions = self.before.versions(record.times());
                let next = versions.into_iter().find(|version| version.valid_from > self.at)?;
                (next, next.valid_from)
            }
        };
        Some(match self.after.valid_at(record.times(), at) {
            None => RecordEffect::Withdrawn,
            Some(after) if after.content != before.content => RecordEffect::Changed,
            Some(_) => RecordEffect::None,
        })
    }
}
