//! A store with a source and functions to ingest runs, for tests.

pub(super) mod histories;

use super::files::GroundFiles;
use super::query::ScanBudget;
use super::staging::{AcceptedRecord, RunStaging, StagedRun};
use super::statement::StoredStatement;
use super::view::SourceView;
use crate::testing::{open, options};
use crate::{Journal, JournalRecord, RowWrite, Store, StoreError};
use domain_audit::event::ServiceStopped;
use domain_base::digest::{Sha256Hex, Sha256Stream};
use domain_base::document::RegisteredDocument;
use domain_base::event::AuditEvent;
use domain_ground::event::{PruneEntry, SourcePruned};
use domain_ground::id::SourceId;
use domain_ground::ontology::Ontology;
use domain_ground::query::{QueryRequest, ValidatedQuery};
use domain_ground::record::RecordContent;
use domain_ground::run::{IngestionRun, RunCounts, RunInput, RunState, SortedFileRef};
use domain_ground::source::{SourceRegistration, SourceRegistryEntry};
use domain_ground::source_state::{CompletedRun, SourceState, StatedRecords};
use domain_ground::timeline::{RecordStatement, TimelineRun};
use domain_ground::value::AxisValue;
use jiff::Timestamp;
use serde_json::json;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

pub(super) const SOURCE: &str = "worldbank";

/// The statement of a run about the population of a country in a year.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestStatement {
    pub(super) country: String,
    pub(super) year: u32,
    pub(super) region: String,
    pub(super) people: u64,
    pub(super) from: Option<i64>,
    /// The source's id of the record; by default country and year.
    pub(super) id: Option<String>,
    /// The end of its raw record, which no axis takes.
    pub(super) comment: String,
}

/// The input of a run.
#[derive(Debug, Clone)]
pub(super) struct TestRun {
    pub(super) version: String,
    pub(super) released_s: i64,
    pub(super) snapshot: bool,
    pub(super) statements: Vec<TestStatement>,
}

pub(super) fn test_statement(country: &str, year: u32, people: u64) -> TestStatement {
    let region = if country < "M" { "north" } else { "south" };
    TestStatement {
        country: country.into(),
        year,
        region: region.into(),
        people,
        from: None,
        id: None,
        comment: String::new(),
    }
}

pub(super) fn test_run(
    version: &str,
    released_s: i64,
    snapshot: bool,
    statements: Vec<TestStatement>,
) -> TestRun {
    TestRun { version: version.into(), released_s, snapshot, statements }
}

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a valid time")
}

pub(super) fn oracle_id() -> SourceId {
    SOURCE.parse().expect("a valid id")
}

pub(super) fn ontology() -> Ontology {
    ONTOLOGY.clone()
}

static ONTOLOGY: LazyLock<Ontology> = LazyLock::new(|| {
    let axes = json!([
        {"axis": "country", "type": "string", "class": "measured", "identity": true, "description": "c"},
        {"axis": "year", "type": "integer", "class": "measured", "identity": true, "description": "y"},
        {"axis": "region", "type": "string", "class": "measured", "indexed": true, "description": "r"},
        {"axis": "people", "type": "integer", "class": "measured", "description": "p"},
    ]);
    serde_json::from_value(json!({"ontology_id": "population", "version": "1", "axes": axes}))
        .expect("an ontology")
});

impl TestStatement {
    pub(super) fn content(&self) -> RecordContent {
        let text = |text: &str| AxisValue::Text(text.into());
        let axes = [
            ("country", text(&self.country)),
            ("year", text(&self.year.to_string())),
            ("region", text(&self.region)),
            ("people", text(&self.people.to_string())),
        ];
        let axes = axes.into_iter().map(|(axis, value)| (axis.to_owned(), value)).collect();
        RecordContent { axes, ..RecordContent::default() }
    }

    pub(super) fn key(&self) -> Vec<u8> {
        let identity = self.content().identity(&ONTOLOGY).expect("the identity is complete");
        let id = self.id.clone().unwrap_or_else(|| format!("{}/{}", self.country, self.year));
        identity.record_key(&id)
    }

    pub(super) fn raw(&self) -> Vec<u8> {
        let Self { country, year, region, people, comment, .. } = self;
        format!("{country},{year},{region},{people}{comment}\n").into_bytes()
    }

    pub(super) fn statement(&self, run: u32) -> RecordStatement {
        let content = digest(&self.content().to_json());
        RecordStatement { run, valid_from: self.from.map(at), valid_until: None, content: Some(content) }
    }
}

pub(super) fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut stream = Sha256Stream::default();
    stream.push(bytes);
    stream.finish_bytes()
}

impl TestRun {
    /// Its statements as they are stored, as run `number`.
    pub(super) fn stored(&self, number: u32) -> Vec<StoredStatement> {
        let mut offset = 0;
        let stored = (0..).zip(&self.statements).map(|(position, stated)| {
            let raw = stated.raw();
            let row = stated.content().to_row(stated.content().to_json().len(), &ONTOLOGY).map(Into::into);
            let statement = StoredStatement {
                time: stated.statement(number),
                position,
                offset,
                len: raw.len() as u32,
                raw_hash: digest(&raw),
                verified: true,
                row,
            };
            offset += raw.len() as u64;
            statement
        });
        stored.collect()
    }

    pub(super) fn input(&self) -> RunInput {
        let raw: Vec<u8> = self.statements.iter().flat_map(TestStatement::raw).collect();
        RunInput {
            ontology: ontology().reference(),
            pipeline_sha256: Sha256Hex::of(if self.snapshot { b"snapshot" } else { b"delta" }),
            raw_sha256: Sha256Hex::of(&raw),
            released_at: at(self.released_s),
            version: self.version.clone(),
        }
    }
}

/// A store in a temporary directory, with one source.
pub(super) struct TestStore {
    pub(super) dir: TempDir,
    open: Option<(Journal, Store)>,
}

impl TestStore {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut world = Self { open: Some(open(dir.path())), dir };
        world.register(&oracle_id());
        world
    }

    pub(super) fn register(&mut self, oracle_id: &SourceId) {
        let registration: SourceRegistration = serde_json::from_value(json!({
            "oracle_id": oracle_id, "oracle_name": "People", "oracle_tier": "primary", "upstream_authority": "them",
            "upstream_url": "there", "data_license": "free", "domain": "population",
            "ontology": ontology().reference(), "axes_provided": ["country", "year", "region", "people"],
            "update_frequency": "annual", "adapter_id": "store", "query_contract": "v1"
        }))
        .expect("a registration");
        let entry = SourceRegistryEntry::new(registration, "test".into(), at(0));
        self.commit(vec![
            RowWrite::put(&RegisteredDocument::new(ontology(), at(0), "test".into())),
            RowWrite::put::<SourceState>(&SourceState::new(entry)),
        ]);
    }

    pub(super) fn commit(&mut self, writes: Vec<RowWrite>) {
        self.commit_event(AuditEvent::new(at(0), None, ServiceStopped {}), writes);
    }

    pub(super) fn commit_event(&mut self, event: AuditEvent, writes: Vec<RowWrite>) {
        let record = JournalRecord { events: vec![event], writes, ..JournalRecord::default() };
        self.journal()
            .commit(&[record])
            .expect("the commit succeeds")
            .remove(0)
            .expect("the record is not stale");
    }

    pub(super) fn journal(&mut self) -> &mut Journal {
        &mut self.open.as_mut().expect("the store is open").0
    }

    pub(super) fn reopen(&mut self) {
        // the store is locked while a handle exists
        self.close();
        self.open = Some(open(self.dir.path()));
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }

    pub(super) fn try_reopen(&mut self) -> Result<(), StoreError> {
        self.close();
        self.open = Some(Store::open(options(self.dir.path()))?);
        Ok(())
    }

    pub(super) fn store(&self) -> &Store {
        &self.open.as_ref().expect("the store is open").1
    }

    pub(super) fn view(&self) -> Arc<SourceView> {
        self.store().view(&oracle_id()).expect("the read succeeds").expect("the source exists")
    }

    pub(super) fn release(&self, reading: &TestRun) -> TimelineRun {
        let run = self.view().state.next_number();
        TimelineRun {
            run,
            version: reading.version.clone(),
            released_at: at(reading.released_s),
            ingested_at: at(1_000_000 + i64::from(run)),
            snapshot: reading.snapshot,
            has_unidentified: false,
            undoes: None,
        }
    }

    /// A run up to the point where a commit would name its files.
    pub(super) fn staging(&self, reading: &TestRun) -> RunStaging {
        let (run_id, number) = (reading.input().run_id(), self.view().state.next_number());
        self.staging_in(self.store().files(), (&run_id, number), reading)
    }

    pub(super) fn staging_in(
        &self,
        files: &GroundFiles,
        (run_id, number): (&Sha256Hex, u32),
        reading: &TestRun,
    ) -> RunStaging {
        let mut staging = RunStaging::new(files, run_id, number).expect("the write succeeds");
        for (test_statement, statement) in reading.statements.iter().zip(reading.stored(number)) {
            let mut region = Vec::new();
            domain_ground::value::append_text_key(&test_statement.region, &mut region);
            let index = [(2, region)];
            staging
                .accept(&AcceptedRecord { key: &test_statement.key(), statement: &statement, index: &index })
                .expect("the write succeeds");
        }
        staging
    }

    pub(super) fn staged(&self, reading: &TestRun) -> Result<StagedRun, StoreError> {
        let release = self.release(reading);
        let staged = self.staging(reading).finish(&self.view(), &release, |_| true)?;
        Ok(staged.expect("the caller does not stop it"))
    }

    /// Ingests a run that becomes visible, and removes the files that it replaces.
    pub(super) fn ingest(&mut self, reading: &TestRun) -> RunCounts {
        let release = self.release(reading);
        let staged = self.staged(reading).expect("the staging succeeds");
        self.complete_staged(reading, release, staged)
    }

    /// Makes a run visible, and removes the files that it replaces.
    pub(super) fn complete_staged(
        &mut self,
        reading: &TestRun,
        release: TimelineRun,
        staged: StagedRun,
    ) -> RunCounts {
        let before = self.view();
        let counts = staged.counts.clone();
        self.complete(
            reading,
            release,
            &counts,
            (staged.rows.clone(), staged.stated),
            staged.statements.clone(),
        );
        staged.keep_files();
        self.store().remove_replaced(&before.state).expect("the source is read");
        counts
    }

    /// Prunes the content that ceased to hold by `before`, without removing payloads. Returns the number of pruned
    /// statements, and the payloads that are no longer needed.
    pub(super) fn prune(&mut self, before: i64) -> (u64, Vec<Sha256Hex>) {
        let pruned = self
            .view()
            .prune(at(before), |_| true)
            .expect("the read succeeds")
            .expect("the caller does not stop it");
        let report = (pruned.statements, pruned.unneeded.clone());
        let old = self.view();
        let mut state = old.state.clone();
        state.files = pruned.into_kept_files();
        let entry = PruneEntry {
            oracle_id: oracle_id(),
            before: at(before),
            versions: report.0,
            payloads: report.1.clone(),
            peer: None,
        };
        self.commit_event(
            AuditEvent::new(at(0), None, SourcePruned(entry)),
            vec![RowWrite::put::<SourceState>(&state)],
        );
        self.store().remove_replaced(&old.state).expect("the source is read");
        report
    }

    /// The export of the source, as lines of JSON.
    pub(super) fn export(&self) -> Vec<u8> {
        let mut export = Vec::new();
        self.view().export(&mut export).expect("a write to memory does not fail");
        export
    }

    pub(super) fn facts_path(&self, file: &SortedFileRef) -> PathBuf {
        self.dir.path().join("ground/facts").join(format!("{}.sorted", file.sha256))
    }

    /// The path of a run's payload in the archive.
    pub(super) fn payload_path(&self, reading: &TestRun) -> PathBuf {
        self.dir.path().join("ground/raw").join(format!("{}.raw", reading.input().raw_sha256))
    }

    pub(super) fn complete(
        &mut self,
        reading: &TestRun,
        release: TimelineRun,
        counts: &RunCounts,
        (rows, stated): (SortedFileRef, StatedRecords),
        files: Vec<SortedFileRef>,
    ) {
        let run = self.run_of(reading, &release, counts, &rows);
        let completed = CompletedRun {
            run_id: run.run_id.clone(),
            pipeline_id: run.pipeline_id.clone(),
            pipeline_sha256: run.input.pipeline_sha256.clone(),
            raw_sha256: run.input.raw_sha256.clone(),
            source_url: None,
            release,
            invalidation_count: run.invalidation_count,
            records: counts.records,
            rows,
            stated,
        };
        let state = self.view().state.clone().with_completed(completed, vec!["people-v1".into()], files);
        self.commit(vec![RowWrite::put::<SourceState>(&state), RowWrite::put::<IngestionRun>(&run)]);
    }

    pub(super) fn run_of(
        &self,
        reading: &TestRun,
        release: &TimelineRun,
        counts: &RunCounts,
        rows: &SortedFileRef,
    ) -> IngestionRun {
        IngestionRun {
            run_id: reading.input().run_id(),
            oracle_id: oracle_id(),
            number: release.run,
            pipeline_id: "people".parse().expect("a valid id"),
            input: reading.input(),
            snapshot: reading.snapshot,
            replace: false,
            undoes: None,
            raw_bytes: reading.statements.iter().map(|statement| statement.raw().len() as u64).sum(),
            source_url: None,
            retrieved_at: None,
            invalidation_count: 0,
            requested_by: "test".into(),
            state: RunState::Completed,
            started_at: at(0),
            ended_at: Some(release.ingested_at),
            counts: counts.clone(),
            rows: Some(rows.clone()),
            cause: None,
            breaches: Vec::new(),
            decision: None,
        }
    }

    /// Archives a run's payload.
    pub(super) fn archive(&self, reading: &TestRun) {
        let mut writer = self.store().archive_writer(&oracle_id()).expect("a file");
        reading
            .statements
            .iter()
            .for_each(|statement| writer.push(&statement.raw()).expect("the write succeeds"));
        writer.finish().expect("the write succeeds");
    }

    /// The records in force at `second`, in key order, by the releases known at `known_s`.
    pub(super) fn records_in_force(&self, second: i64, known_s: Option<i64>) -> Vec<(String, u32, u64)> {
        let (view, ontology) = (self.view(), ontology());
        let query = query(&ontology, &[]);
        let known_at = known_s.map(at);
        let answered =
            view.query(&query, at(second), known_at, None, ScanBudget::UNLIMITED).expect("the read succeeds");
        answered.found.iter().map(|hit| summarize_content(&hit.content)).collect()
    }

    /// The names of the sorted files.
    pub(super) fn file_names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path().join("ground/facts")).expect("the directory exists");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
    }
}

pub(super) fn summarize_content(content: &RecordContent) -> (String, u32, u64) {
    let text = |axis: &str| content.axes[axis].to_string();
    (text("country"), text("year").parse().expect("a year"), text("people").parse().expect("a number"))
}

pub(super) fn query(ontology: &Ontology, filters: &[(&str, &str, serde_json::Value)]) -> ValidatedQuery {
    let filters: Vec<_> = filters
        .iter()
        .map(|(axis, operator, value)| json!({"axis": axis, "operator": operator, "value": value}))
        .collect();
    let request: QueryRequest = serde_json::from_value(
        json!({"axes_requested": ["people"], "filters": filters, "max_results": 10_000}),
    )
    .expect("a request");
    let provided: Vec<_> = ontology.axes.iter().map(|axis| axis.axis.clone()).collect();
    ValidatedQuery::new(&request, ontology, &provided).expect("the query is valid")
}
