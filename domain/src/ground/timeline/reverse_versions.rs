//! The versions of a record in descending order.

use super::{RecordVersion, TimelineEntry, UnconfirmingVersion, VersionEnd, VisibleReleases};
use jiff::Timestamp;

/// Iterator over the versions of a record, the latest first.
pub(super) struct ReverseVersionIterator<'a> {
    pub(super) knowledge: &'a VisibleReleases,
    /// The remaining entries, in the order of `valid_from`.
    pub(super) entries: Vec<TimelineEntry>,
    /// The latest version that could not confirm the record.
    pub(super) unconfirmed: Option<UnconfirmingVersion>,
    /// The time at which the next version ends, and how.
    pub(super) following: Option<(Timestamp, VersionEnd)>,
    /// The version that may still begin earlier, and the rank of the reading that saw it last.
    pub(super) pending: Option<(RecordVersion, usize)>,
}

impl Iterator for ReverseVersionIterator<'_> {
    type Item = RecordVersion;

    fn next(&mut self) -> Option<RecordVersion> {
        while let Some(entry) = self.entries.pop() {
            if let Some(why) = self.knowledge.empty_interval_cause(&entry) {
                if why == VersionEnd::Expired {
                    self.following = Some((entry.valid_from, why));
                }
                continue;
            }
            let expired = entry.valid_until.map(|until| (until, VersionEnd::Expired));
            let withdrawn = self.knowledge.withdrawal(&entry);
            let withdrawn = withdrawn.map(|known| (known.released_at, VersionEnd::Withdrawn(known.run)));
            // the first of several ends at one time is used: a following version is more informative than an expiry or
            // a withdrawal
            let ends = [self.following, expired, withdrawn].into_iter().flatten();
            let end = ends.min_by_key(|(time, _)| *time);
            if let Some(finished) = self.merge_entry(entry, end) {
                return Some(finished);
            }
        }
        self.pending.take().map(|(version, _)| version)
    }
}

impl ReverseVersionIterator<'_> {
    /// The run that could not confirm a version with this end, if any.
    fn unconfirmed_by(&self, end: Option<(Timestamp, VersionEnd)>) -> Option<u32> {
        let UnconfirmingVersion { place, latest } = self.unconfirmed?;
        let released_at = self.knowledge.reading(place)?.released_at;
        let ended_before = match end {
            Some((time, VersionEnd::Superseded(_) | VersionEnd::Withdrawn(_))) => time <= released_at,
            Some((_, VersionEnd::Expired | VersionEnd::Open)) | None => false,
        };
        if ended_before { None } else { self.knowledge.reading(latest).map(|reading| reading.run) }
    }

    /// Puts `entry` before the pending version. Returns the pending version as finished, or extends it if the content
    /// is the same.
    fn merge_entry(
        &mut self,
        entry: TimelineEntry,
        end: Option<(Timestamp, VersionEnd)>,
    ) -> Option<RecordVersion> {
        self.following = Some((entry.valid_from, VersionEnd::Superseded(entry.statement)));
        let touched = self.pending.as_mut().filter(|(pending, _)| {
            pending.content == entry.content && end.is_some_and(|(time, _)| time == pending.valid_from)
        });
        if let Some((version, last_seen)) = touched {
            version.statement = entry.statement;
            version.valid_from = entry.valid_from;
            if entry.last_seen > *last_seen {
                *last_seen = entry.last_seen;
                version.last_seen = self.knowledge.reading(entry.last_seen)?.run;
            }
            return None;
        }
        let version = RecordVersion {
            statement: entry.statement,
            content: entry.content,
            valid_from: entry.valid_from,
            valid_until: end.map(|(time, _)| time),
            ended_by: end.map_or(VersionEnd::Open, |(_, why)| why),
            last_seen: self.knowledge.reading(entry.last_seen)?.run,
            unconfirmed_by: self.unconfirmed_by(end),
        };
        self.pending.replace((version, entry.last_seen)).map(|(finished, _)| finished)
    }
}
