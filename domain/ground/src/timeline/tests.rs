use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn at_day(day: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + day * 86_400).expect("a valid time")
}

fn day_of(time: Timestamp) -> i64 {
    (time.as_second() - 1_700_000_000) / 86_400
}

/// Releases of the runs 1, 2, …, each given as `(version, day of release, snapshot)`. All are ingested after all
/// releases, one an hour.
fn releases(read: &[(&str, i64, bool)]) -> Vec<TimelineRun> {
    let release = |(run, (version, day, snapshot)): (u32, &(&str, i64, bool))| TimelineRun {
        run,
        version: (*version).into(),
        released_at: at_day(*day),
        ingested_at: ingested(run),
        snapshot: *snapshot,
        has_unidentified: false,
        undoes: None,
    };
    (1..).zip(read).map(release).collect()
}

fn ingested(run: u32) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + i64::from(run) * 3_600).expect("a valid time")
}

fn run_statement(run: u32, content: u8) -> RecordStatement {
    RecordStatement { run, valid_from: None, valid_until: None, content: Some([content; 32]) }
}

/// The statement of a run that has the record but rejected it.
fn rejected(run: u32) -> RecordStatement {
    RecordStatement { content: None, ..run_statement(run, 0) }
}

fn from(run: u32, day: i64, content: u8) -> RecordStatement {
    RecordStatement { valid_from: Some(at_day(day)), ..run_statement(run, content) }
}

fn until(statement: RecordStatement, day: i64) -> RecordStatement {
    RecordStatement { valid_until: Some(at_day(day)), ..statement }
}

fn known_at(at: Timestamp) -> ReleaseScope {
    ReleaseScope { known_at: Some(at), ..ReleaseScope::default() }
}

fn released_by(day: i64) -> ReleaseScope {
    ReleaseScope { released_by: Some(at_day(day)), ..ReleaseScope::default() }
}

fn all_releases(releases: &[TimelineRun]) -> VisibleReleases {
    VisibleReleases::new(releases, ReleaseScope::default())
}

/// A version as its statement, its days, and its end.
fn short(version: &RecordVersion) -> (usize, i64, Option<i64>, VersionEnd) {
    (version.statement, day_of(version.valid_from), version.valid_until.map(day_of), version.ended_by)
}

fn short_versions(
    releases: &[TimelineRun],
    statements: &[RecordStatement],
) -> Vec<(usize, i64, Option<i64>, VersionEnd)> {
    all_releases(releases).versions(statements).iter().map(short).collect()
}

/// The corrected statements, each with the statement that represents the superseding content.
fn corrections(known: &VisibleReleases, statements: &[RecordStatement]) -> Vec<(usize, usize)> {
    let corrected = |index| match known.statement_state(statements, index) {
        Some(StatementState::Corrected(by)) => Some((index, by)),
        _ => None,
    };
    (0..statements.len()).filter_map(corrected).collect()
}

/// The changes made by the last of the runs: the kind, and the statements that represent the version before and after.
fn last_changes(
    releases: &[TimelineRun],
    statements: &[RecordStatement],
) -> Vec<(VersionChangeKind, Option<usize>, Option<usize>)> {
    let (_, before) = releases.split_last().expect("a run");
    let changes = changes(statements, &all_releases(before), &all_releases(releases));
    let statement = |version: Option<RecordVersion>| version.map(|version| version.statement);
    changes.iter().map(|change| (change.kind, statement(change.before), statement(change.after))).collect()
}

#[test]
fn other_content_supersedes_and_same_content_extends() {
    let releases = releases(&[("1", 1, true), ("2", 2, true), ("3", 3, true)]);
    let statements = [run_statement(1, 7), run_statement(2, 7), run_statement(3, 8)];
    assert_eq!(
        short_versions(&releases, &statements),
        [(0, 1, Some(3), VersionEnd::Superseded(2)), (2, 3, None, VersionEnd::Open)]
    );
    let versions = all_releases(&releases).versions(&statements);
    assert_eq!(versions[0].last_seen, 2, "the latest release that contains it");
    assert_eq!(at(&versions, at_day(0)), None);
    assert_eq!(at(&versions, at_day(2)), Some(&versions[0]));
    assert_eq!(at(&versions, at_day(3)), Some(&versions[1]), "an interval does not hold its end");
}

#[test]
fn snapshot_without_the_record_ends_its_version() {
    let snapshots = releases(&[("1", 1, true), ("2", 2, true), ("3", 3, true)]);
    let statements = [run_statement(1, 7), run_statement(3, 7)];
    assert_eq!(
        short_versions(&snapshots, &statements),
        [(0, 1, Some(2), VersionEnd::Withdrawn(2)), (1, 3, None, VersionEnd::Open)]
    );
    let others = releases(&[("1", 1, false), ("2", 2, false), ("3", 3, false)]);
    assert_eq!(short_versions(&others, &statements), [(0, 1, None, VersionEnd::Open)], "they close nothing");
}

#[test]
fn latest_release_counts_among_statements_with_one_valid_from() {
    for (first, second, counts) in [(1, 2, 1), (2, 1, 0)] {
        let releases = releases(&[("1", first, true), ("2", second, true)]);
        let statements = [from(1, 0, 7), from(2, 0, 8)];
        assert_eq!(short_versions(&releases, &statements), [(counts, 0, None, VersionEnd::Open)]);
        let corrections = corrections(&all_releases(&releases), &statements);
        assert_eq!(corrections, [(1 - counts, counts)]);
    }
    let one_day = releases(&[("2", 1, true), ("1", 1, true)]);
    let statements = [run_statement(1, 7), run_statement(2, 8)];
    assert_eq!(
        short_versions(&one_day, &statements),
        [(0, 1, None, VersionEnd::Open)],
        "the version's text settles it"
    );
}

#[test]
fn repeated_statement_is_represented_by_the_earliest() {
    let releases =
        releases(&[("1", 1, true), ("2", 2, true), ("3", 3, true), ("4", 4, true), ("5", 5, true)]);
    let statements = [from(1, 0, 7), from(2, 0, 8), from(4, 0, 7)];
    assert_eq!(
        short_versions(&releases, &statements),
        [(0, 0, Some(5), VersionEnd::Withdrawn(5))],
        "run 3 did not end it"
    );
    assert_eq!(all_releases(&releases).versions(&statements)[0].last_seen, 4);
    let corrections = corrections(&all_releases(&releases), &statements);
    assert_eq!(corrections, [(1, 0)]);
}

#[test]
fn correction_is_superseded_by_the_statement_of_its_corrected_version() {
    let releases = releases(&[("1", 1, false), ("2", 2, false), ("3", 3, false)]);
    let statements = [from(1, 0, 7), from(2, 5, 8), from(3, 5, 7)];
    assert_eq!(short_versions(&releases, &statements), [(0, 0, None, VersionEnd::Open)]);
    let corrections = corrections(&all_releases(&releases), &statements);
    assert_eq!(corrections, [(1, 0)]);
}

#[test]
fn correction_without_interval_still_corrects() {
    let releases = releases(&[("1", 1, false), ("2", 2, false), ("3", 3, false)]);
    let statements = [from(1, 5, 7), until(from(2, 5, 8), 4), until(from(3, 5, 8), 4)];
    assert_eq!(short_versions(&releases, &statements), []);
    let corrections = corrections(&all_releases(&releases), &statements);
    assert_eq!(corrections, [(0, 1)]);
}

#[test]
fn statement_without_interval_reports_its_end() {
    let releases = releases(&[("1", 1, true), ("2", 2, true), ("3", 3, true)]);
    let became =
        |statements: &[RecordStatement], index| all_releases(&releases).statement_state(statements, index);
    assert_eq!(became(&[until(from(3, 9, 7), 8)], 0), Some(StatementState::Ended(VersionEnd::Expired)));
    assert_eq!(
        became(&[from(1, 9, 7)], 0),
        Some(StatementState::Ended(VersionEnd::Withdrawn(2))),
        "before it began"
    );
    let again = [from(1, 1, 7), from(3, 1, 7)];
    assert!(matches!(became(&again, 1), Some(StatementState::Same(RecordVersion { statement: 0, .. }))));
    assert_eq!(became(&[run_statement(4, 7)], 0), Some(StatementState::Replaced));
    assert_eq!(became(&[], 0), None);
}

#[test]
fn repeated_reading_replaces_whole_version() {
    let mut twice = releases(&[("1", 1, true), ("2", 2, true), ("2", 2, true)]);
    let statements = [run_statement(1, 7), run_statement(2, 8)];
    assert_eq!(
        short_versions(&twice, &statements),
        [(0, 1, Some(2), VersionEnd::Withdrawn(3))],
        "run 3 does not hold it"
    );
    assert_eq!(
        last_changes(&twice, &statements),
        [(VersionChangeKind::Moved, Some(0), Some(0)), (VersionChangeKind::Replaced, Some(1), None),]
    );
    let again = [run_statement(1, 7), run_statement(2, 8), run_statement(3, 8)];
    assert_eq!(
        short_versions(&twice, &again),
        [(0, 1, Some(2), VersionEnd::Superseded(2)), (2, 2, None, VersionEnd::Open)]
    );
    assert_eq!(
        last_changes(&twice, &again),
        [(VersionChangeKind::Replaced, Some(1), Some(2)), (VersionChangeKind::BecameValid, None, Some(2))]
    );
    twice.reverse();
    assert_eq!(short_versions(&twice, &again).len(), 2, "the list of releases may have any order");
    assert!(!all_releases(&twice).is_counted(2) && all_releases(&twice).is_counted(3));
}

#[test]
fn interval_that_would_end_before_it_begins_is_dropped() {
    let releases = releases(&[("1", 1, true), ("2", 2, true), ("3", 3, true)]);
    assert_eq!(short_versions(&releases, &[from(1, 9, 7)]), [], "withdrawn on day 2, before day 9");
    assert_eq!(
        short_versions(&releases, &[from(1, 9, 7), run_statement(3, 8)]),
        [(1, 3, None, VersionEnd::Open)],
        "and it ends nothing"
    );
    assert_eq!(short_versions(&releases, &[until(run_statement(3, 7), 3)]), []);
}

#[test]
fn record_can_name_its_expiry() {
    let releases = releases(&[("1", 1, false), ("2", 2, false), ("3", 3, false)]);
    let statements = [until(run_statement(1, 7), 2), run_statement(3, 7)];
    assert_eq!(
        short_versions(&releases, &statements),
        [(0, 1, Some(2), VersionEnd::Expired), (1, 3, None, VersionEnd::Open)]
    );
    let statements = [until(run_statement(1, 7), 9), run_statement(2, 8)];
    assert_eq!(
        short_versions(&releases, &statements)[0],
        (0, 1, Some(2), VersionEnd::Superseded(1)),
        "the earlier end counts"
    );
    let statements = [run_statement(1, 7), until(run_statement(2, 7), 1)];
    assert_eq!(
        short_versions(&releases, &statements),
        [(0, 1, Some(2), VersionEnd::Expired)],
        "it had ended by day 2"
    );
}

#[test]
fn later_statement_replaces_a_withdrawal() {
    let releases = releases(&[("1", 1, true), ("2", 20, true), ("3", 30, true)]);
    let statements = [from(1, 10, 7), from(3, 5, 8)];
    assert_eq!(
        short_versions(&releases, &statements),
        [(1, 5, None, VersionEnd::Open)],
        "the latest snapshot holds it"
    );
    assert_eq!(
        last_changes(&releases, &statements),
        [(VersionChangeKind::Withdrawn, Some(0), Some(1)), (VersionChangeKind::BecameValid, None, Some(1)),]
    );
}

#[test]
fn changes_of_a_run_have_kinds_of_the_rfc() {
    use VersionChangeKind::{BecameValid, Expired, Moved, Superseded, Withdrawn};
    let in_order = releases(&[("1", 1, true), ("2", 2, true)]);
    assert_eq!(last_changes(&in_order, &[run_statement(2, 7)]), [(BecameValid, None, Some(0))]);
    assert_eq!(
        last_changes(&in_order, &[run_statement(1, 7), run_statement(2, 7)]),
        [],
        "only `last_seen` changes"
    );
    assert_eq!(
        last_changes(&in_order, &[run_statement(1, 7), run_statement(2, 8)]),
        [(Superseded, Some(0), Some(0)), (BecameValid, None, Some(1)),]
    );
    assert_eq!(
        last_changes(&in_order, &[from(1, 0, 7), from(2, 0, 8)]),
        [(Superseded, Some(0), Some(1)), (BecameValid, None, Some(1)),]
    );
    assert_eq!(last_changes(&in_order, &[run_statement(1, 7)]), [(Withdrawn, Some(0), Some(0))]);
    assert_eq!(last_changes(&in_order, &[from(1, 9, 7)]), [(Withdrawn, Some(0), None)]);
    let restated = [from(1, 0, 7), until(from(2, 0, 7), 5)];
    assert_eq!(last_changes(&in_order, &restated), [(Expired, Some(0), Some(0))]);
    let restated = [from(1, 0, 7), until(from(2, 0, 7), -1)];
    assert_eq!(last_changes(&in_order, &restated), [(Expired, Some(0), None)]);

    let late = releases(&[("3", 3, true), ("1", 1, true)]);
    assert_eq!(
        last_changes(&late, &[run_statement(1, 7), run_statement(2, 7)]),
        [(Moved, Some(0), Some(1)), (BecameValid, None, Some(1))],
        "it begins earlier"
    );
    assert_eq!(
        last_changes(&late, &[run_statement(1, 7), run_statement(2, 8)]),
        [(BecameValid, None, Some(1))]
    );
    let between = releases(&[("1", 1, false), ("3", 3, false), ("2", 2, false)]);
    assert_eq!(
        last_changes(&between, &[run_statement(1, 7), run_statement(2, 8), run_statement(3, 9)]),
        [(Moved, Some(0), Some(0)), (BecameValid, None, Some(2)),]
    );
}

#[test]
fn late_version_takes_the_place_of_a_later_one_with_its_content() {
    use VersionChangeKind::{BecameValid, Moved};
    let late = releases(&[("1", 1, false), ("2", 9, false), ("3", 4, false)]);
    let statements = [run_statement(1, 1), run_statement(2, 2), run_statement(3, 2)];
    assert_eq!(
        last_changes(&late, &statements),
        [(Moved, Some(0), Some(0)), (Moved, Some(1), Some(2)), (BecameValid, None, Some(2))]
    );
    assert_eq!(
        short_versions(&late, &statements),
        [(0, 1, Some(4), VersionEnd::Superseded(2)), (2, 4, None, VersionEnd::Open)]
    );
}

#[test]
fn rejected_record_of_a_snapshot_stays_in_force_unconfirmed() {
    let snapshots = releases(&[("1", 1, true), ("2", 2, true), ("3", 3, true), ("4", 4, true)]);
    let versions = all_releases(&snapshots[..2]).versions(&[run_statement(1, 7), rejected(2)]);
    assert_eq!(versions.iter().map(short).collect::<Vec<_>>(), [(0, 1, None, VersionEnd::Open)]);
    assert_eq!((versions[0].last_seen, versions[0].unconfirmed_by), (1, Some(2)));

    let confirmed =
        all_releases(&snapshots[..3]).versions(&[run_statement(1, 7), rejected(2), run_statement(3, 7)]);
    assert_eq!((confirmed[0].last_seen, confirmed[0].unconfirmed_by), (3, None));
    let lacking = all_releases(&snapshots[..3]).versions(&[run_statement(1, 7), rejected(2)]);
    assert_eq!(short(&lacking[0]), (0, 1, Some(3), VersionEnd::Withdrawn(3)));
    assert_eq!(lacking[0].unconfirmed_by, Some(2));
    assert_eq!(short_versions(&snapshots, &[rejected(2)]), [], "it was never in force");
}

#[test]
fn snapshot_with_unidentified_rejects_withdraws_nothing() {
    let mut snapshots = releases(&[("1", 1, true), ("2", 2, true), ("3", 3, true)]);
    snapshots[1].has_unidentified = true;
    let versions = all_releases(&snapshots[..2]).versions(&[run_statement(1, 7)]);
    assert_eq!(versions.iter().map(short).collect::<Vec<_>>(), [(0, 1, None, VersionEnd::Open)]);
    assert_eq!(versions[0].unconfirmed_by, Some(2));
    assert_eq!(
        short_versions(&snapshots, &[run_statement(1, 7)]),
        [(0, 1, Some(3), VersionEnd::Withdrawn(3))]
    );
    let held = all_releases(&snapshots[..2]).versions(&[run_statement(1, 7), run_statement(2, 7)]);
    assert_eq!((held[0].last_seen, held[0].unconfirmed_by), (2, None));
}

#[test]
fn undo_removes_a_run_from_its_commit_on() {
    let mut runs = releases(&[("1", 1, true), ("2", 2, true), ("2", 2, true), ("2", 2, true)]);
    let statements = [run_statement(1, 7), run_statement(2, 8)];
    (runs[2].undoes, runs[3].undoes) = (Some(2), Some(3));
    assert_eq!(
        short_versions(&runs[..2], &statements),
        [(0, 1, Some(2), VersionEnd::Superseded(1)), (1, 2, None, VersionEnd::Open)]
    );
    assert_eq!(short_versions(&runs[..3], &statements), [(0, 1, None, VersionEnd::Open)]);
    assert_eq!(
        last_changes(&runs[..3], &statements),
        [(VersionChangeKind::Moved, Some(0), Some(0)), (VersionChangeKind::Undone, Some(1), Some(0)),]
    );
    assert_eq!(all_releases(&runs[..3]).statement_state(&statements, 1), Some(StatementState::Undone));
    let before = VisibleReleases::new(&runs[..3], known_at(ingested(2)));
    assert_eq!(before, all_releases(&runs[..2]), "a question with an earlier `known_at` still sees it");
    assert_eq!(
        short_versions(&runs, &statements),
        short_versions(&runs[..2], &statements),
        "an undo can be undone"
    );
}

#[test]
fn undo_of_a_repeated_version_restores_the_earlier_run() {
    let mut runs = releases(&[("1", 1, true), ("1", 1, true), ("1", 1, true)]);
    runs[2].undoes = Some(2);
    assert_eq!(
        short_versions(&runs, &[run_statement(1, 7), run_statement(2, 8)]),
        [(0, 1, None, VersionEnd::Open)]
    );
}

#[test]
fn scope_hides_release_from_queries_about_earlier_times() {
    let runs = releases(&[("1", 1, true), ("2", 5, true)]);
    let then = VisibleReleases::new(&runs, released_by(4));
    let versions = then.versions(&[run_statement(1, 7), run_statement(2, 7)]);
    assert_eq!((short(&versions[0]), versions[0].last_seen), ((0, 1, None, VersionEnd::Open), 1));
    assert_eq!(then.latest(), Some(1));
    let withdrawn = then.versions(&[run_statement(1, 7)]);
    assert_eq!(withdrawn[0].valid_until, None, "the later snapshot is not seen");
}

#[test]
fn no_statements_or_no_releases_give_no_versions() {
    let releases = releases(&[("1", 1, true)]);
    assert_eq!(short_versions(&releases, &[]), []);
    assert_eq!(short_versions(&releases, &[run_statement(9, 7)]), [], "an unknown run");
    assert_eq!(short_versions(&[], &[run_statement(1, 7)]), []);
    assert_eq!(all_releases(&[]).valid_at(&[run_statement(1, 7)], Timestamp::MAX), None);
}

const DAYS: i64 = 12;

/// A source: its runs, and their statements about one record.
#[derive(Debug, Clone)]
struct TimelineHistory {
    releases: Vec<TimelineRun>,
    statements: Vec<RecordStatement>,
}

/// Histories of up to 8 runs. If `twice`, versions repeat, and some runs undo earlier ones.
fn history(twice: bool) -> impl Strategy<Value = TimelineHistory> {
    let day = || prop::option::weighted(0.4, 0..DAYS);
    let content = prop::option::weighted(0.85, 0..3_u8);
    let spoken = prop::option::weighted(0.7, (day(), prop::option::weighted(0.2, 0..DAYS), content));
    let kind = (prop::bool::weighted(0.7), prop::bool::weighted(0.2), prop::option::weighted(0.15, 1..8_u32));
    prop::collection::vec((0..DAYS, kind, 0..4_u8, spoken), 1..8).prop_map(move |runs| {
        let mut history = TimelineHistory { releases: Vec::new(), statements: Vec::new() };
        for (run, (released, (snapshot, has_unidentified, undoes), version, spoken)) in (1..).zip(runs) {
            let undoes = undoes.filter(|undone| twice && *undone < run);
            if let Some(undone) = undoes {
                let mut release = history.releases[undone as usize - 1].clone();
                (release.run, release.ingested_at, release.undoes) = (run, ingested(run), undoes);
                history.releases.push(release);
                continue;
            }
            history.releases.push(TimelineRun {
                run,
                version: if twice { version.to_string() } else { run.to_string() },
                released_at: at_day(released),
                ingested_at: ingested(run),
                snapshot,
                has_unidentified,
                undoes: None,
            });
            history.statements.extend(spoken.map(|(from, until, content)| RecordStatement {
                run,
                valid_from: from.map(at_day),
                valid_until: until.map(at_day),
                content: content.map(|content| [content; 32]),
            }));
        }
        history
    })
}

/// The same history with another order of arrival: its run `order[k]` arrives as run `k + 1`.
fn arriving(history: &TimelineHistory, order: &[u32]) -> TimelineHistory {
    let number = |run: u32| {
        let index = order.iter().position(|ordered| *ordered == run).expect("the order contains each run");
        u32::try_from(index + 1).expect("the number is small")
    };
    let mut other = history.clone();
    for release in &mut other.releases {
        release.run = number(release.run);
        release.ingested_at = ingested(release.run);
    }
    for statement in &mut other.statements {
        statement.run = number(statement.run);
    }
    other
}

/// Whether the run counts: no run that counts undoes it.
fn is_active(history: &TimelineHistory, run: u32) -> bool {
    !history.releases.iter().any(|undo| undo.undoes == Some(run) && is_active(history, undo.run))
}

/// A slow model of the rules: the content on `day`, from what each version says about that day.
fn model(history: &TimelineHistory, day: i64) -> Option<u8> {
    let readings = history.releases.iter().filter(|run| run.undoes.is_none() && is_active(history, run.run));
    let readings: Vec<_> = readings.collect();
    let holds =
        |release: &TimelineRun| history.statements.iter().find(|statement| statement.run == release.run);
    // for each version the latest reading that is certain about the record
    let is_certain = |release: &TimelineRun| match holds(release) {
        Some(statement) => statement.content.is_some(),
        None => !release.has_unidentified,
    };
    let versions: BTreeSet<_> = readings.iter().map(|release| &release.version).collect();
    let mut ordered: Vec<_> = versions
        .into_iter()
        .filter_map(|version| {
            let mut certain =
                readings.iter().filter(|release| release.version == *version && is_certain(release));
            certain.next_back().copied()
        })
        .collect();
    ordered.sort_by_key(|release| (release.released_at, &release.version));
    let begins = |index: usize| {
        let release = ordered[index];
        holds(release).map(|statement| day_of(statement.valid_from.unwrap_or(release.released_at)))
    };
    let withdrawn = |index: usize| {
        let withdraws = |release: &TimelineRun| release.snapshot && holds(release).is_none();
        (index + 1..ordered.len()).find(|later| withdraws(ordered[*later]))
    };
    let positions = 0..ordered.len();
    let stands = |index: &usize| {
        let Some(begin) = begins(*index) else { return false };
        let corrected = (index + 1..ordered.len()).any(|later| begins(later) == Some(begin));
        let withdrawn = withdrawn(*index);
        let overruled = withdrawn.is_some_and(|withdrawn| {
            (withdrawn..ordered.len()).any(|later| begins(later).is_some_and(|other| other <= begin))
        });
        let gone = withdrawn.is_some_and(|withdrawn| day_of(ordered[withdrawn].released_at) <= begin);
        begin <= day && !corrected && !overruled && !gone
    };
    let latest = positions.filter(stands).max_by_key(|index| begins(*index))?;
    let statement = holds(ordered[latest])?;
    let expired = statement.valid_until.is_some_and(|until| day_of(until) <= day);
    let closed = withdrawn(latest).is_some_and(|closed| day_of(ordered[closed].released_at) <= day);
    (!expired && !closed).then_some(statement.content?[0])
}

/// A version without the parts that depend on the order of arrival.
fn plain(history: &TimelineHistory, version: &RecordVersion) -> (String, i64, Option<i64>, u8, String) {
    let of_run = |run: u32| {
        history
            .releases
            .iter()
            .find(|release| release.run == run)
            .expect("the value is known")
            .version
            .clone()
    };
    let of = |statement: usize| of_run(history.statements[statement].run);
    let end = match version.ended_by {
        VersionEnd::Open => "open".into(),
        VersionEnd::Superseded(by) => format!("superseded by {}", of(by)),
        VersionEnd::Withdrawn(run) => format!("withdrawn by {}", of_run(run)),
        VersionEnd::Expired => "expired".into(),
    };
    let end = format!("{end}, last seen in {}", of_run(version.last_seen));
    (
        of(version.statement),
        day_of(version.valid_from),
        version.valid_until.map(day_of),
        version.content[0],
        end,
    )
}

#[test]
fn record_rejected_by_new_reading_keeps_former_statement() {
    let releases = releases(&[("v1", 1, true), ("v1", 1, true)]);
    let statements = [run_statement(1, b'a'), rejected(2)];
    let versions = all_releases(&releases).versions(&statements);
    assert_eq!(versions.len(), 1);
    assert_eq!(
        (versions[0].statement, versions[0].content[0], versions[0].unconfirmed_by),
        (0, b'a', Some(2))
    );
    assert_eq!(all_releases(&releases[..1]).versions(&statements)[0].unconfirmed_by, None);
}

/// The versions of a record by the first `runs` of the releases: content, days, and the run that did not confirm it.
fn contents(
    releases: &[TimelineRun],
    statements: &[RecordStatement],
    runs: usize,
) -> Vec<(u8, i64, Option<i64>, Option<u32>)> {
    let versions = all_releases(&releases[..runs]).versions(statements);
    let shown = versions.iter().map(|version| {
        let (_, from, until, _) = short(version);
        (version.content[0], from, until, version.unconfirmed_by)
    });
    shown.collect()
}

#[test]
fn reject_keeps_record_out_of_force_that_a_reading_has_removed() {
    for snapshot in [true, false] {
        let mut runs =
            releases(&[("1", 1, snapshot), ("1", 1, snapshot), ("1", 1, snapshot), ("1", 1, snapshot)]);
        let statements = [run_statement(1, b'b'), rejected(3)];
        assert_eq!(contents(&runs, &statements, 1), [(b'b', 1, None, None)]);
        for count in 2..=3 {
            assert_eq!(contents(&runs, &statements, count), [], "after run {count}");
        }
        assert_eq!(last_changes(&runs[..3], &statements), [], "the reject changes nothing");
        assert_eq!(all_releases(&runs[..3]).rejected_by(&statements), Some(3));
        assert_eq!(all_releases(&runs).rejected_by(&statements), None, "the last reading lacks it");
        // without the reading that removed it, the reject keeps it in force
        runs[3].undoes = Some(2);
        assert_eq!(contents(&runs, &statements, 4), [(b'b', 1, None, Some(3))]);
        assert_eq!(last_changes(&runs, &statements), [(VersionChangeKind::BecameValid, None, Some(0))]);
    }
}

#[test]
fn reject_keeps_record_of_earlier_version_withdrawn_by_an_earlier_reading() {
    let mut runs = releases(&[("1", 1, true), ("2", 2, true), ("2", 2, true), ("2", 2, true)]);
    let statements = [run_statement(1, b'b'), rejected(3)];
    let withdrawn = [(b'b', 1, Some(2), None)];
    assert_eq!(contents(&runs, &statements, 2), withdrawn);
    assert_eq!(contents(&runs, &statements, 3), withdrawn, "a rejected record");
    assert_eq!(last_changes(&runs[..3], &statements), []);
    runs[3].has_unidentified = true;
    assert_eq!(contents(&runs, &statements, 4), withdrawn, "a reject without an identity");
    assert_eq!(last_changes(&runs, &statements), []);
}

#[test]
fn several_rejecting_readings_keep_the_statement_of_the_last_certain_one() {
    let runs = releases(&[("1", 1, true), ("1", 1, true), ("1", 1, true), ("1", 1, true), ("1", 1, true)]);
    let statements =
        [run_statement(1, b'a'), run_statement(2, b'b'), rejected(3), rejected(4), run_statement(5, b'c')];
    assert_eq!(contents(&runs, &statements, 3), [(b'b', 1, None, Some(3))]);
    assert_eq!(contents(&runs, &statements, 4), [(b'b', 1, None, Some(4))]);
    assert_eq!(contents(&runs, &statements, 5), [(b'c', 1, None, None)]);
    let kept = all_releases(&runs[..4]);
    assert_eq!(kept.versions(&statements)[0].last_seen, 2, "its age counts from the reading that states it");
    assert!(matches!(kept.statement_state(&statements, 1), Some(StatementState::Version(_))));
    assert_eq!(kept.statement_state(&statements, 0), Some(StatementState::Replaced));
    let was_replaced = [(VersionChangeKind::Replaced, Some(1), Some(4))];
    assert_eq!(last_changes(&runs, &statements)[..1], was_replaced);
}

#[test]
fn reading_with_unidentified_rejects_withdraws_nothing_that_was_in_force() {
    for snapshot in [true, false] {
        let mut runs = releases(&[("1", 1, snapshot), ("1", 1, snapshot), ("1", 1, snapshot)]);
        runs[1].has_unidentified = true;
        let statements = [run_statement(1, b'b')];
        assert_eq!(contents(&runs, &statements, 2), [(b'b', 1, None, Some(2))]);
        assert_eq!(last_changes(&runs[..2], &statements), []);
        assert_eq!(contents(&runs, &statements, 3), [], "a reading without rejects removes it");
    }
}

#[test]
fn kept_statement_ends_by_the_release_after_it() {
    let runs = releases(&[("1", 1, true), ("1", 1, true), ("2", 2, true), ("3", 3, true)]);
    let statements = [run_statement(1, b'a'), rejected(2), run_statement(3, b'b')];
    assert_eq!(
        last_changes(&runs[..3], &statements),
        [(VersionChangeKind::Superseded, Some(0), Some(0)), (VersionChangeKind::BecameValid, None, Some(2))]
    );
    let corrected = [from(1, 0, b'a'), rejected(2), from(3, 0, b'b')];
    assert_eq!(last_changes(&runs[..3], &corrected)[0], (VersionChangeKind::Superseded, Some(0), Some(2)));
    assert_eq!(contents(&runs, &corrected, 4), [(b'b', 0, Some(3), None)]);
}

#[test]
fn reject_with_another_release_date_keeps_statement_at_its_own_date() {
    // version 1 moves after version 2, whose correction stays in force
    let runs = releases(&[("1", 1, false), ("2", 3, false), ("1", 5, false)]);
    let statements = [from(1, 0, b'a'), from(2, 0, b'b'), rejected(3)];
    assert_eq!(contents(&runs, &statements, 3), [(b'b', 0, None, Some(3))]);
    let statements = [run_statement(1, b'a'), run_statement(2, b'b'), rejected(3)];
    assert_eq!(contents(&runs, &statements, 3), [(b'a', 1, Some(3), None), (b'b', 3, None, Some(3))]);
    let earlier = releases(&[("1", 3, true), ("1", 1, true)]);
    let statements = [run_statement(1, b'a'), rejected(2)];
    assert_eq!(contents(&earlier, &statements, 2), [(b'a', 3, None, Some(2))]);
}

#[test]
fn reject_of_a_late_version_keeps_what_was_in_force_at_its_date() {
    // version 2 arrives last; version 1 is in force at its date, and version 3 withdraws or states the record
    let runs = releases(&[("1", 1, true), ("3", 3, true), ("2", 2, true)]);
    let stated = [run_statement(1, b'a'), run_statement(2, b'c'), rejected(3)];
    assert_eq!(contents(&runs, &stated, 3), [(b'a', 1, Some(3), None), (b'c', 3, None, None)]);
    let then =
        VisibleReleases::new(&runs, released_by(2)).valid_at(&stated, at_day(2)).expect("it is in force");
    assert_eq!((then.content[0], then.unconfirmed_by), (b'a', Some(3)));
    let withdrawn = [run_statement(1, b'a'), rejected(3)];
    assert_eq!(contents(&runs, &withdrawn, 3), [(b'a', 1, Some(3), Some(3))]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 3_000 } else { 300_000 }))]

    #[test]
    fn versions_agree_with_slow_model_day_by_day(history in history(true)) {
        let known = all_releases(&history.releases);
        let versions = known.versions(&history.statements);
        for day in -1..=DAYS {
            let found = at(&versions, at_day(day));
            prop_assert_eq!(found.map(|version| version.content[0]), model(&history, day), "day {}", day);
            prop_assert_eq!(known.valid_at(&history.statements, at_day(day)), found.copied());
        }
    }

    #[test]
    fn intervals_are_ordered_disjoint_and_end_as_stated(history in history(true)) {
        let versions = all_releases(&history.releases).versions(&history.statements);
        for version in &versions {
            prop_assert!(version.valid_until.is_none_or(|until| version.valid_from < until));
            prop_assert_eq!(version.valid_until.is_none(), version.ended_by == VersionEnd::Open);
            let statement = history.statements[version.statement];
            prop_assert_eq!(statement.content, Some(version.content));
            if let VersionEnd::Withdrawn(run) = version.ended_by {
                let by = history.releases.iter().find(|release| release.run == run).expect("the value is known");
                prop_assert!(by.snapshot && !by.has_unidentified);
                prop_assert!(history.statements.iter().all(|statement| statement.run != run));
                prop_assert_eq!(Some(by.released_at), version.valid_until);
            }
        }
        for pair in versions.windows(2) {
            let [one, next] = pair else { unreachable!() };
            let until = one.valid_until.expect("another follows");
            prop_assert!(until <= next.valid_from);
            let superseded = one.ended_by == VersionEnd::Superseded(next.statement);
            prop_assert_eq!(superseded, until == next.valid_from, "a gap has a reason of its own");
            prop_assert!(!superseded || one.content != next.content, "the same content extends");
        }
    }

    #[test]
    fn supersession_follows_valid_from_without_cycles(history in history(true)) {
        let known = all_releases(&history.releases);
        let versions = known.versions(&history.statements);
        let begins = |statement: usize| {
            versions.iter().find(|version| version.statement == statement).map(|version| version.valid_from)
        };
        for version in &versions {
            if let VersionEnd::Superseded(by) = version.ended_by {
                prop_assert!(begins(by).expect("it is a version") > version.valid_from);
            }
        }
        for (statement, superseded_by) in corrections(&known, &history.statements) {
            let differ = history.statements[statement].content != history.statements[superseded_by].content;
            prop_assert!(differ, "a correction has another content");
        }
    }

    #[test]
    fn every_statement_has_a_current_state(history in history(true)) {
        let known = all_releases(&history.releases);
        let versions = known.versions(&history.statements);
        for (index, statement) in history.statements.iter().enumerate() {
            let became = known.statement_state(&history.statements, index).expect("something has");
            let stands = versions.iter().find(|version| version.statement == index);
            let begins = statement.valid_from.or_else(|| {
                let release = history.releases.iter().find(|release| release.run == statement.run)?;
                Some(release.released_at)
            });
            let holds = at(&versions, begins.expect("its run is there"));
            let is_undone = !is_active(&history, statement.run);
            prop_assert_eq!(matches!(became, StatementState::Undone), is_undone);
            let counts = known.is_counted(statement.run) && statement.content.is_some();
            prop_assert!(!counts || !matches!(became, StatementState::Replaced));
            match became {
                StatementState::Version(version) => prop_assert_eq!(stands, Some(&version)),
                StatementState::Same(version) => {
                    prop_assert_eq!((holds, Some(version.content)), (Some(&version), statement.content));
                    prop_assert_ne!(version.statement, index);
                }
                StatementState::Ended(why) => {
                    prop_assert!(holds.is_none_or(|version| Some(version.content) != statement.content));
                    prop_assert!(matches!(why, VersionEnd::Withdrawn(_) | VersionEnd::Expired), "{:?}", why);
                }
                StatementState::Corrected(_) | StatementState::Replaced | StatementState::Undone => {}
            }
            prop_assert_eq!(stands.is_some(), matches!(became, StatementState::Version(_)));
        }
        prop_assert_eq!(known.statement_state(&history.statements, history.statements.len()), None);
    }

    #[test]
    fn versions_do_not_depend_on_order_of_arrival(
        (history, order) in history(false).prop_flat_map(|history| {
            let order: Vec<_> = history.releases.iter().map(|release| release.run).collect();
            (Just(history), Just(order).prop_shuffle())
        }),
    ) {
        // versions are named after the runs of the first order, and these names stay
        let other = arriving(&history, &order);
        let summarize = |history: &TimelineHistory| -> Vec<_> {
            let versions = all_releases(&history.releases).versions(&history.statements);
            versions.iter().map(|version| plain(history, version)).collect()
        };
        prop_assert_eq!(summarize(&history), summarize(&other));
    }

    #[test]
    fn known_at_equals_a_store_with_the_runs_up_to_then(history in history(true)) {
        for run in 0..=history.releases.len() {
            let then = VisibleReleases::new(&history.releases, known_at(ingested(u32::try_from(run).expect("the number is small"))));
            let first = all_releases(&history.releases[..run]);
            prop_assert_eq!(&then, &first);
            let reported = history.statements.iter().filter(|statement| statement.run as usize <= run);
            let reported: Vec<_> = reported.copied().collect();
            prop_assert_eq!(then.versions(&history.statements), first.versions(&reported));
        }
    }

    #[test]
    fn later_release_does_not_change_answers_about_earlier_times(history in history(true), day in 0..DAYS) {
        let is_seen = |release: &&TimelineRun| release.undoes.is_some() || release.released_at <= at_day(day);
        let seen = history.releases.iter().filter(is_seen);
        let seen: Vec<_> = seen.cloned().collect();
        let then = VisibleReleases::new(&history.releases, released_by(day));
        prop_assert_eq!(&then, &all_releases(&seen));
        let reported = history.statements.iter().filter(|statement| seen.iter().any(|release| release.run == statement.run));
        let reported: Vec<_> = reported.copied().collect();
        let plain = |version: &RecordVersion| plain(&history, version);
        let (later, earlier) = (then.versions(&history.statements), then.versions(&reported));
        prop_assert_eq!(
            later.iter().map(plain).collect::<Vec<_>>(),
            earlier.iter().map(|version| {
                let index = |offset: usize| history.statements.iter().position(|statement| *statement == reported[offset]);
                let ended_by = match version.ended_by {
                    VersionEnd::Superseded(by) => VersionEnd::Superseded(index(by).expect("the value exists")),
                    end => end,
                };
                plain(&RecordVersion { statement: index(version.statement).expect("the value exists"), ended_by, ..*version })
            }).collect::<Vec<_>>()
        );
    }

    #[test]
    fn changes_of_all_runs_add_up_to_current_versions(history in history(true)) {
        let mut standing = BTreeSet::new();
        for run in 1..=history.releases.len() {
            let before = all_releases(&history.releases[..run - 1]);
            let after = all_releases(&history.releases[..run]);
            for change in changes(&history.statements, &before, &after) {
                let statement = |version: Option<RecordVersion>| version.map(|version| version.statement);
                let (was, is) = (statement(change.before), statement(change.after));
                if let Some(was) = was.filter(|was| Some(*was) != is) {
                    prop_assert!(standing.remove(&was), "it stood");
                }
                if change.kind == VersionChangeKind::BecameValid {
                    standing.extend(is);
                }
            }
            let versions = after.versions(&history.statements);
            let stand: BTreeSet<_> = versions.iter().map(|version| version.statement).collect();
            prop_assert_eq!(&standing, &stand, "after run {}", run);
        }
    }

    #[test]
    fn last_change_of_each_statement_has_its_interval(history in history(true)) {
        let mut intervals = BTreeMap::new();
        for run in 1..=history.releases.len() {
            let before = all_releases(&history.releases[..run - 1]);
            let after = all_releases(&history.releases[..run]);
            for change in changes(&history.statements, &before, &after) {
                let subject = change.before.or(change.after).expect("a version");
                match change.remaining() {
                    Some(is) => intervals.insert(is.statement, (is.valid_from, is.valid_until)),
                    None => intervals.remove(&subject.statement),
                };
            }
            for day in -1..=DAYS {
                let contains = |(from, until): &(Timestamp, Option<Timestamp>)| {
                    *from <= at_day(day) && until.is_none_or(|until| at_day(day) < until)
                };
                let found: Vec<_> = intervals.iter().filter(|(_, interval)| contains(interval)).collect();
                prop_assert!(found.len() <= 1, "day {}, after run {}", day, run);
                let found = found.first().map(|(statement, _)| **statement);
                let expected = after.valid_at(&history.statements, at_day(day));
                prop_assert_eq!(found, expected.map(|version| version.statement), "day {}, after run {}", day, run);
            }
        }
    }
}
