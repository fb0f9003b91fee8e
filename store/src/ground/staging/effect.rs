//! The effect of a release on the records in force at its date, and on their values, for the gates.

use crate::ground::statement::StoredStatement;
use crate::ground::view::{RecordStatements, SourceView};
use domain_ground::axis_effect::{AxisEffectGauge, AxisEffects};
use domain_ground::run::{ReleaseEffect, RunCounts};
use domain_ground::timeline::{ReleaseScope, TimelineRun, VersionEnd, VisibleReleases};
use jiff::Timestamp;
use store_base::error::StoreError;

/// Counts the effect of a release on the records in force at its date or later. If the release replaces
/// another reading of its version with another date, the records in force at that date count too.
pub(super) struct ReleaseEffectGauge<'v> {
    times: Vec<EffectAtTime>,
    effect: ReleaseEffect,
    values: AxisEffectGauge<'v>,
}

/// The known statements at a time, without the release and with it.
struct EffectAtTime {
    at: Timestamp,
    before: VisibleReleases,
    after: VisibleReleases,
}

impl<'v> ReleaseEffectGauge<'v> {
    pub(super) fn new(view: &'v SourceView, releases: &[TimelineRun], release: &TimelineRun) -> Self {
        let replaced =
            view.state.run_of_version(&release.version).map(|completed| completed.release.released_at);
        let replaced = replaced.filter(|at| *at != release.released_at);
        let times = [Some(release.released_at), replaced].into_iter().flatten().map(|at| {
            let scope = ReleaseScope { released_by: Some(at), ..ReleaseScope::default() };
            let before = VisibleReleases::new(&view.state.releases(), scope);
            EffectAtTime { at, before, after: VisibleReleases::new(releases, scope) }
        });
        Self {
            times: times.collect(),
            effect: ReleaseEffect::default(),
            values: AxisEffectGauge::new(&view.ontology),
        }
    }

    pub(super) fn count(&mut self, record: &RecordStatements) {
        let changes: Vec<_> = self.times.iter().filter_map(|time| time.change(record)).collect();
        self.effect.in_force += u64::from(!changes.is_empty());
        self.effect.withdrawn += u64::from(changes.contains(&RecordEffect::Withdrawn));
        let is_changed =
            changes.contains(&RecordEffect::Changed) && !changes.contains(&RecordEffect::Withdrawn);
        self.effect.changed += u64::from(is_changed);
    }

    /// Compares the values of the release's own `statement` with those of the earlier version that it replaces or
    /// confirms, if there is one and its content was not pruned.
    pub(super) fn compare_values(
        &mut self,
        view: &SourceView,
        earlier: &RecordStatements,
        statement: &StoredStatement,
    ) -> Result<(), StoreError> {
        let Some(row) = statement.row.as_deref().filter(|_| !earlier.statements.is_empty()) else {
            return Ok(());
        };
        let replaced = self.times.iter().find_map(|time| time.replaced_by(earlier, statement));
        let replaced = replaced.and_then(|replaced| earlier.statement(replaced)?.row);
        if let Some(replaced) = &replaced {
            self.values.compare(&view.content_row(replaced)?, &view.content_row(row)?);
        }
        Ok(())
    }

    /// Stores the effects in the counts of the run. The effect on records is left out unless `others_change`: the run
    /// can then only add records. Returns the effects on values, with those of single keys.
    pub(super) fn store_in(self, counts: &mut RunCounts, others_change: bool) -> AxisEffects {
        let axis_effects = self.values.into_effects();
        counts.effect = others_change.then_some(self.effect);
        counts.axis_effects = axis_effects.axes.clone();
        axis_effects
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
    /// The index of the statement that represents the version which `statement` replaces or confirms: the one in force
    /// when the statement becomes valid, or at the release. A version that expired by itself counts as in force until
    /// the next one, because a feed of short-lived records would otherwise be compared with nothing.
    fn replaced_by(&self, earlier: &RecordStatements, statement: &StoredStatement) -> Option<usize> {
        let versions = self.before.versions(earlier.times());
        let in_force = |time: Timestamp| {
            let last = versions.iter().rev().find(|version| version.valid_from <= time)?;
            let counts = last.is_valid_at(time) || last.ended_by == VersionEnd::Expired;
            counts.then_some(last.statement)
        };
        in_force(statement.time.valid_from.unwrap_or(self.at)).or_else(|| in_force(self.at))
    }

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
