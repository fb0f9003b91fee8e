//! Runs: one reading of one payload as one version of a source. A run becomes visible completely or not at all.

use super::id::{PipelineId, SourceId};
use super::ontology::OntologyRef;
use super::rejection::RecordRule;
use super::timeline::TimelineRun;
use crate::axis_effect::AxisEffect;
use domain_base::decimal::{Decimal, Rounding};
use domain_base::digest::{Sha256Hex, digest_of_json};
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use domain_base::service::is_zero;
use domain_base::wording::format_count;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use strum::{IntoStaticStr, VariantArray};

/// The number of digits of a run's id at the beginning of the ids of its records.
const RECORD_ID_DIGITS: usize = 16;
/// The number of decimal places of a share.
const SHARE_DIGITS: i32 = 4;

/// Everything that a run's outcome depends on. Its digest is the id of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunInput {
    /// The ontology.
    pub ontology: OntologyRef,
    /// The digest of the pipeline's definition.
    pub pipeline_sha256: Sha256Hex,
    /// The digest of the payload.
    pub raw_sha256: Sha256Hex,
    /// The time at which the source released this version.
    pub released_at: Timestamp,
    /// The source's own name of this version.
    pub version: String,
}

impl RunInput {
    #[must_use]
    pub fn run_id(&self) -> Sha256Hex {
        digest_of_json(self)
    }
}

/// A stored run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct IngestionRun {
    /// The id of the run.
    pub run_id: Sha256Hex,
    /// The id of the source.
    pub oracle_id: SourceId,
    /// Its number among the source's runs, from 1.
    pub number: u32,
    /// The id of the pipeline.
    pub pipeline_id: PipelineId,
    /// The input that its outcome depends on.
    #[serde(flatten)]
    pub input: RunInput,
    /// Whether the version contains all records of the source.
    pub snapshot: bool,
    /// Whether it may replace an earlier run of this version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
    /// The run that this one undoes, with all its records. Such a run reads no payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<UndoneRun>,
    /// The size of the payload, in bytes.
    pub raw_bytes: u64,
    /// The URL from which the payload was pulled, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_url: Option<String>,
    /// The time at which the payload was requested from the source, if it was pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieved_at: Option<Timestamp>,
    /// The number of invalidations of the source when the payload was requested or submitted, or the held run was approved.
    pub invalidation_count: u64,
    /// Who requested the run: the peer's user, `schedule` or `refresh`.
    pub requested_by: String,
    /// The state of the run.
    pub state: RunState,
    /// The time at which it began.
    pub started_at: Timestamp,
    /// The time at which it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The counts of a run that ended successfully.
    #[serde(default)]
    pub counts: RunCounts,
    /// The file with its rejects, its changes, and the locations of its records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<SortedFileRef>,
    /// Why it failed or is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The gates that it broke.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breaches: Vec<GateBreach>,
    /// An operator's decision: to approve a held run, to discard it, or to undo another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<RunDecision>,
}

/// A run that another run undoes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UndoneRun {
    /// The id of the run.
    pub run_id: Sha256Hex,
    /// Its number among the source's runs.
    pub number: u32,
}

/// An operator's decision about a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunDecision {
    /// The user of the operator's process.
    pub decided_by: String,
    /// The time of the decision.
    pub decided_at: Timestamp,
    /// The operator's reason.
    pub reason: String,
}

/// A reference to a sorted file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SortedFileRef {
    /// The digest of its rows and their index, which is also its name.
    pub sha256: Sha256Hex,
    /// The size of the file, in bytes.
    pub size_bytes: u64,
    /// The number of rows.
    pub rows: u64,
    /// The number of statements among the rows.
    pub statements: u64,
}

/// The state of a run.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    VariantArray,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum RunState {
    /// In progress. After a restart it begins again.
    Running,
    /// Completed; its records are visible.
    Completed,
    /// Failed; nothing of it is visible.
    Failed,
    /// Cancelled by an administrator.
    Cancelled,
    /// Held because it broke a gate. Nothing of it is visible until an operator approves it.
    Held,
    /// Discarded by an operator after it was held.
    Discarded,
}

impl RunState {
    /// Whether the archive must have the payload of a run in this state, unless it was pruned. `is_kept` says whether the pipeline
    /// keeps payloads.
    #[must_use]
    pub const fn needs_payload(self, is_kept: bool) -> bool {
        match self {
            Self::Running | Self::Held => true,
            Self::Completed => is_kept,
            Self::Failed | Self::Cancelled | Self::Discarded => false,
        }
    }
}

/// The effect of a release on the records that were in force at its date.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReleaseEffect {
    /// Records in force before it.
    pub in_force: u64,
    /// Records among them that are no longer in force with it.
    pub withdrawn: u64,
    /// Records among them that have other content with it.
    pub changed: u64,
    /// Records among them that it neither states nor withdraws, because rejected records have no readable identity and could be these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unconfirmed: u64,
}

/// A gate that a run has broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "gate", rename_all = "snake_case", deny_unknown_fields)]
pub enum GateBreach {
    /// Too many records were rejected.
    MaxRejectedRatio {
        /// Records rejected.
        rejected: u64,
        /// Records read.
        read: u64,
        /// The share allowed.
        allowed: Decimal,
    },
    /// Too many records would be withdrawn.
    MaxWithdrawnRatio {
        /// Records that would be withdrawn.
        withdrawn: u64,
        /// Records in force.
        in_force: u64,
        /// The share allowed.
        allowed: Decimal,
    },
    /// Too many records in force are not in the release. It withdraws none of them, because rejected records have no readable identity.
    Unconfirmed {
        /// Records in force that it neither states nor withdraws.
        unconfirmed: u64,
        /// Records in force before the release.
        in_force: u64,
        /// The share allowed.
        allowed: Decimal,
    },
    /// Too many records would change.
    MaxChangedRatio {
        /// Records that would change.
        changed: u64,
        /// Records in force.
        in_force: u64,
        /// The share allowed.
        allowed: Decimal,
    },
    /// Too few records were accepted.
    MinRecords {
        /// Records accepted.
        records: u64,
        /// Records required.
        required: u64,
    },
    /// The payload has the same bytes as that of another version of the source.
    SamePayload {
        /// The other version.
        version: String,
    },
    /// No record has a value on an axis for which the previous release had values.
    EmptiedAxis {
        /// The axis.
        axis: String,
        /// The version of the previous release.
        version: String,
    },
    /// The last line of the payload has no line break, unlike that of the previous release: its last value may be cut off.
    OpenEnd {
        /// The version of the previous release.
        version: String,
    },
    /// The payload is UTF-8, and the pipeline reads it as `latin-1`: characters outside ASCII would be wrong.
    Utf8Payload {
        /// Records with such characters.
        records: u64,
    },
    /// Earlier statements would be in force again although their content was pruned, since a replaced version lacks the records.
    PrunedContent {
        /// Records without content.
        records: u64,
    },
    /// Too many values of an axis would be empty.
    MaxUnfilledRatio {
        /// The axis; the path of the values if only those of one key of a group are concerned.
        axis: String,
        /// Values that would be empty.
        unfilled: u64,
        /// Values in force of the records that would be replaced or confirmed.
        filled: u64,
        /// The share allowed.
        allowed: Decimal,
    },
    /// Too many values of an axis would change.
    MaxChangedValuesRatio {
        /// The axis, as for `max_unfilled_ratio`.
        axis: String,
        /// Values that would change or be empty.
        changed: u64,
        /// Records that replace or confirm a record in force. On a group and on a key of a group: values in force of these
        /// records.
        #[serde(alias = "filled")]
        compared: u64,
        /// The share allowed.
        allowed: Decimal,
    },
    /// Most numbers of an axis would change by the same factor.
    CommonFactor {
        /// The axis, as for `max_unfilled_ratio`.
        axis: String,
        /// The factor.
        factor: String,
        /// Numbers that would change by it.
        numbers: u64,
        /// Numbers compared, without zeros.
        compared: u64,
    },
    /// Most numbers of an axis would become inverse: the product of the number in force and the new one is the same.
    CommonProduct {
        /// The axis, as for `max_unfilled_ratio`.
        axis: String,
        /// The product.
        product: String,
        /// Numbers that would become inverse.
        numbers: u64,
        /// Numbers compared, without zeros.
        compared: u64,
    },
}

/// The counts of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct RunCounts {
    /// Raw records in the payload.
    pub read: u64,
    /// Accepted records.
    pub records: u64,
    /// Records that are identical to an earlier record of the same run.
    pub collapsed: u64,
    /// Rejected records.
    pub rejected: u64,
    /// Rejected records by the rule that they broke.
    pub rejected_by_rule: BTreeMap<RecordRule, u64>,
    /// Warnings about accepted records, by rule.
    pub warnings_by_rule: BTreeMap<RecordRule, u64>,
    /// Rejected records whose identity could not be read. A run with such a record withdraws nothing.
    pub unidentified: u64,
    /// The axes that the definition maps to, each with the number of normalized records that have a value on it.
    pub axes: BTreeMap<String, AxisCoverage>,
    /// The effect on the values of each axis, over the records that replace or confirm a record in force.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub axis_effects: BTreeMap<String, AxisEffect>,
    /// The columns of the header, or the paths of the members of the records; empty if there are too many to compare them
    /// with those of another run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// The columns of a CSV or TSV in the order of the fields of a row. One without a name is an empty text. Empty with `unpivot`, if
    /// `columns` is empty, and with more than 1,024 columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub header: Vec<String>,
    /// Whether the last line of a payload in CSV or TSV has no line break; absent for other formats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_end: Option<bool>,
    /// Records with characters outside ASCII in a payload that is UTF-8 throughout, although its pipeline reads `latin-1`; absent for
    /// other payloads.
    #[serde(skip_serializing_if = "is_zero")]
    pub utf8_records: u64,
    /// Warnings about the run as a whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<RunWarning>,
    /// Changes made by the run, by kind: versions that became valid, were superseded, withdrawn, and so on.
    pub changes: BTreeMap<String, u64>,
    /// Its effect on the records in force at its date; absent if it can only add records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<ReleaseEffect>,
}

/// How many records have a value on an axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AxisCoverage {
    /// Records that have one.
    pub records: u64,
    /// Their share of the records that passed normalization, from 0 to 1, truncated to four decimal places: 1 means
    /// all.
    pub share: Decimal,
}

impl AxisCoverage {
    /// The fill of an axis on which `records` of `all` records have a value.
    #[must_use]
    pub fn new(records: u64, all: u64) -> Self {
        let whole = |count: u64| Decimal::from(i64::try_from(count).unwrap_or(i64::MAX));
        let share = whole(records).div_rounded(&whole(all), SHARE_DIGITS, Rounding::Truncate);
        Self { records, share: share.unwrap_or_else(|_| Decimal::from(0)) }
    }
}

/// A warning about a run as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum RunWarning {
    /// A path of the definition matched nothing in any record.
    UnmatchedPath {
        /// The path.
        path: String,
        /// The part of the definition that contains it: `mapping`, `key`, `from_unit_field` and so on.
        field: String,
        /// The axis that it is for, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        axis: Option<String>,
    },
    /// Columns of the header have no name and were ignored.
    UnnamedColumns {
        /// Their numbers, from 1.
        columns: Vec<usize>,
    },
    /// Values of an identity axis have words that mix letters of several scripts, such as a Cyrillic `а` in a Latin word. They
    /// look like other subjects, and are subjects of their own.
    MixedScripts {
        /// The axis.
        axis: String,
        /// The first such word.
        word: String,
        /// The number of records.
        records: u64,
    },
    /// Values of an identity axis have control characters, invisible ones, or white space at an end. They look like other subjects, and
    /// are subjects of their own.
    HiddenCharacters {
        /// The axis.
        axis: String,
        /// The start of the first such value.
        value: String,
        /// The number of records.
        records: u64,
    },
    /// Columns, or members of records, that the previous run of the pipeline did not have.
    ColumnsAppeared {
        /// Their names.
        names: Vec<String>,
        /// The version that the previous run read.
        version: String,
    },
    /// Columns, or members of records, that the previous run of the pipeline had.
    ColumnsDisappeared {
        /// Their names.
        names: Vec<String>,
        /// The version that the previous run read.
        version: String,
    },
}

/// The maximum number of names in the text of a warning.
const SHOWN_NAMES_MAX: usize = 20;

/// The first of `names`, and the number of the others.
fn format_names(names: &[String]) -> String {
    let mut shown =
        names.iter().take(SHOWN_NAMES_MAX).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN_NAMES_MAX {
        shown.push_str(&format!(" and {} more", names.len() - SHOWN_NAMES_MAX));
    }
    shown
}

impl fmt::Display for RunWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnmatchedPath { path, field, axis: Some(axis) } => {
                write!(f, "the {field} `{path}` of axis `{axis}` matched no record")
            }
            Self::UnmatchedPath { path, field, axis: None } => {
                write!(f, "`{path}` in `{field}` matched no record")
            }
            Self::UnnamedColumns { columns } => {
                let columns: Vec<_> = columns.iter().map(ToString::to_string).collect();
                write!(f, "the header has no name for column {}; ignored", columns.join(", "))
            }
            Self::MixedScripts { axis, word, records } => {
                let have = format_count(records, "record has", "records have");
                write!(
                    f,
                    "{have} letters of several scripts in one word of `{axis}`, such as `{word}`: such values look like other subjects \
                     and are subjects of their own"
                )
            }
            Self::HiddenCharacters { axis, value, records } => {
                let have = format_count(records, "record has", "records have");
                write!(
                    f,
                    "{have} control characters, invisible ones, or white space at an end of `{axis}`, such as {value:?}: such values \
                     look like other subjects and are subjects of their own"
                )
            }
            Self::ColumnsAppeared { names, version } => {
                write!(f, "not in version {version}: {}", format_names(names))
            }
            Self::ColumnsDisappeared { names, version } => {
                write!(f, "only in version {version}: {}", format_names(names))
            }
        }
    }
}

impl RunCounts {
    /// Adds a warning about the columns that appear or disappear, against the previous run of the pipeline.
    pub fn compare_columns(&mut self, before: &IngestionRun) {
        let (old, new) = (&before.counts.columns, &self.columns);
        if old.is_empty() || new.is_empty() {
            return;
        }
        let only_in = |some: &[String], others: &[String]| {
            let others: BTreeSet<_> = others.iter().collect();
            some.iter().filter(|name| !others.contains(name)).cloned().collect::<Vec<_>>()
        };
        let (appeared, disappeared) = (only_in(new, old), only_in(old, new));
        let version = || before.input.version.clone();
        if !appeared.is_empty() {
            self.warnings.push(RunWarning::ColumnsAppeared { names: appeared, version: version() });
        }
        if !disappeared.is_empty() {
            self.warnings.push(RunWarning::ColumnsDisappeared { names: disappeared, version: version() });
        }
    }
}

impl IngestionRun {
    /// The release of the run; `None` until it is completed.
    #[must_use]
    pub fn release(&self) -> Option<TimelineRun> {
        let ingested_at = self.ended_at.filter(|_| self.state == RunState::Completed)?;
        Some(TimelineRun {
            run: self.number,
            version: self.input.version.clone(),
            released_at: self.input.released_at,
            ingested_at,
            snapshot: self.snapshot,
            has_unidentified: self.counts.unidentified > 0,
            undoes: self.undoes.as_ref().map(|undone| undone.number),
        })
    }

    /// The id of the record that the run read at `position`.
    #[must_use]
    pub fn record_id(&self, position: u64) -> String {
        record_id(&self.run_id, position)
    }
}

/// The id of the run `number`, which undoes another run.
#[must_use]
pub fn undo_run_id(undone: &UndoneRun, number: u32) -> Sha256Hex {
    digest_of_json(&("undo", undone, number))
}

/// The id of the record that a run read at `position`.
#[must_use]
pub fn record_id(run_id: &Sha256Hex, position: u64) -> String {
    format!("{}-{position}", run_id.as_str().get(..RECORD_ID_DIGITS).unwrap_or_default())
}

/// Splits the id of a record into the beginning of the run's id and the position. `None` if the text is not such an id.
#[must_use]
pub fn split_record_id(record_id: &str) -> Option<(&str, u64)> {
    let (run, position) = record_id.split_once('-')?;
    let is_digits =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let plain = position == "0" || !position.starts_with(['0', '+']);
    (run.len() == RECORD_ID_DIGITS && is_digits(run) && plain).then_some(())?;
    Some((run, position.parse().ok()?))
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunProgress {
    /// The run.
    pub run_id: Sha256Hex,
    /// The source.
    pub oracle_id: SourceId,
    /// The pipeline.
    pub pipeline_id: PipelineId,
    /// The version that it reads.
    pub version: String,
    /// When it started.
    pub started_at: Timestamp,
    /// Its current phase.
    pub phase: RunPhase,
    /// Bytes of the payload that were read.
    pub bytes_read: u64,
    /// The size of the payload, in bytes.
    pub bytes: u64,
    /// Records that were read.
    pub read: u64,
    /// Records that were rejected.
    pub rejected: u64,
    /// Records of the source that were merged.
    pub merged: u64,
}

/// The phase of a run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RunPhase {
    /// It waits for other runs.
    Waiting,
    /// It reads its payload.
    Reading,
    /// It merges its records with those of the source.
    Merging,
    /// Its records become visible.
    Committing,
}

impl Row for IngestionRun {
    type Key = Sha256Hex;
    const TABLE: &'static Table = &Table {
        name: "runs",
        bundle: None,
        data: RowData::Impersonal,
        is_new_work: true,
        names_files: true,
        finds_entries: false,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[],
        index: not_indexed,
    };

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl KeyedRow for IngestionRun {
    fn key(&self) -> Sha256Hex {
        self.run_id.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_id_splits_into_run_id_and_position() {
        let run_id = Sha256Hex::of(b"run");
        for position in [0, 7, u64::MAX] {
            let id = record_id(&run_id, position);
            let (run, found) = split_record_id(&id).expect("a valid record id");
            assert!(run_id.as_str().starts_with(run) && found == position, "{id}");
        }
        for text in
            ["", "-1", "0123456789abcdef", "0123456789abcdef-", "0123456789abcdef-01", "0123456789abcdeg-1"]
        {
            assert_eq!(split_record_id(text), None, "{text}");
        }
    }

    #[test]
    fn run_id_depends_on_every_field_of_its_input() {
        let input = RunInput {
            ontology: OntologyRef {
                ontology_id: "population".parse().expect("a valid id"),
                version: "1".into(),
            },
            pipeline_sha256: Sha256Hex::of(b"pipeline"),
            raw_sha256: Sha256Hex::of(b"raw"),
            released_at: Timestamp::UNIX_EPOCH,
            version: "2020".into(),
        };
        let mut ids = BTreeSet::from([input.run_id().as_str().to_owned()]);
        let changes: [fn(&mut RunInput); 5] = [
            |input| input.ontology.version = "2".into(),
            |input| input.pipeline_sha256 = Sha256Hex::of(b"other"),
            |input| input.raw_sha256 = Sha256Hex::of(b"other"),
            |input| input.released_at = Timestamp::MAX,
            |input| input.version = "2021".into(),
        ];
        for change in changes {
            let mut changed = input.clone();
            change(&mut changed);
            assert!(ids.insert(changed.run_id().as_str().to_owned()));
        }
    }
}
