//! Queries: the data of a registered source, its freshness, and how the freshness policy handles stale data (seed:
//! `rfc-0002-ground-truth`, "Query Contract" and "Freshness & Invalidation").
//!
//! Reading needs no actor. The caller reads the store: a small lookup on its own thread, a longer scan on another one.

mod answer;
mod entry;
mod feed;
mod record_read;

use crate::ingestion::sharing::FETCH_POLL;
use crate::ingestion::{IngestionActor, RefreshSource};
use crate::metrics::{QueryMetrics, QueryOutcome};
pub use crate::queries::answer::{IngestedSourceAnswer, IngestedSourceQuestion};
use crate::registry::policy_of;
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::actor_handle::ActorHandle;
use actors_platform::caller::{CallerWaitCheck, spawn_for_caller};
use actors_platform::clock::{Clock, monotonic};
use answer::{PolicyCheckedAnswer, QueryLookupOutcome, RunningQuery};
use domain_base::digest::Sha256Hex;
use domain_base::moment::{FutureTimeError, find_past_time};
use domain_base::wording::ParseTextError;
use domain_ground::event::SourceReadKind;
use domain_ground::freshness::{AnswerFreshness, AnswerHandling};
use domain_ground::id::SourceId;
use domain_ground::query::{
    InvalidQueryError, KnownValue, OracleQuery, QueryAnswer, QueryRequest, ValidatedQuery, ValueHistory,
};
use domain_ground::source::{OracleTier, SourceAdapterKind, SourceAvailability};
use domain_ground::subject::{name_subject, title_subject};
use domain_ground::timeline::{RecordStatement, ReleaseHistory, ReleaseScope};
use domain_ground::value::{AxisValue, TypedValue};
pub use entry::OpenReadEntry;
pub use feed::{ChangesPage, FeedChange, FeedPosition};
use jiff::Timestamp;
use oracled_store::ground::query::{RECORDS_SCANNED_MAX, ScanBudget, ScanError, WORK_MAX};
use oracled_store::ground::view::SourceView;
use oracled_store::{Store, StoreError};
pub use record_read::RecordReadError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

/// The longest wait for memory for a page.
const PAGE_MEMORY_WAIT_MAX: Duration = Duration::from_secs(5);
/// The assumed ratio of an answer's JSON to the data of its records, at most.
const JSON_TIMES: usize = 2;
/// The longest cursor, in bytes.
const CURSOR_MAX_BYTES: usize = 128 * 1024;
/// Hexadecimal digits of a query's digest in a cursor, to distinguish queries.
const DIGEST_DIGITS: usize = 16;

/// The longest id of a query, in bytes.
pub const QUERY_ID_MAX_BYTES: usize = 128;

/// Why a query is not answered.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The source is not registered.
    #[error("no source {0} is registered")]
    SourceUnknown(SourceId),
    /// The source is live: each request asks it again.
    #[error("source {0} is live and stores no records; it is queried by POST /v1/verify")]
    Live(SourceId),
    /// The source does not answer now.
    #[error("{0}")]
    Silent(String),
    #[error(transparent)]
    Bad(#[from] InvalidQueryError),
    /// The query names a time in the future.
    #[error(transparent)]
    Ahead(#[from] FutureTimeError),
    /// The position in the feed of changes does not exist.
    #[error("`since`: {0}")]
    Position(#[from] ParseTextError),
    /// The id of the query is invalid.
    #[error("`query_id` is invalid (1 to {QUERY_ID_MAX_BYTES} visible ASCII characters allowed)")]
    QueryId,
    /// The data is too old for the source's policy.
    #[error(transparent)]
    Stale(#[from] StaleDataError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Other answers use all memory for pages.
    #[error("too many answers are in progress or not read yet; try again later")]
    Busy,
    /// The query exceeds the work limit.
    #[error(
        "the query takes more than {WORK_MAX} units of work (1 for each filter, record and KiB of the record, 16 for a \
         `regex`); fix identity axes or an indexed axis by `eq`, or use fewer filters"
    )]
    TooCostly,
    /// The filters of a history do not fix one subject.
    #[error(
        "no `eq` filter has a value for these identity axes: {axes}; a history is that of one subject, so give a value for each \
         of them"
    )]
    SubjectOpen {
        /// The axes, separated by commas.
        axes: String,
    },
    /// The latest records of one subject are too large for a page.
    #[error(
        "the latest records of one subject have more bytes than a page; add filters that select fewer of them, or request a \
         larger `max_results`"
    )]
    SubjectTooLarge,
    /// The scan reached its deadline, or the caller closed the connection.
    #[error("the scan was stopped after {} s; try again, or narrow the query", DEADLINE.as_secs())]
    Stopped,
    /// An internal error.
    #[error("could not answer the query: {0}")]
    Reading(String),
    /// The log does not accept the entry of the read.
    #[error(transparent)]
    Unlogged(#[from] CommitError),
}

/// An answer with its part of the memory for pages, to be released when the answer has been sent. A small answer has
/// none.
#[derive(Debug)]
pub struct QueryAnswerPage {
    pub answer: QueryAnswer,
    /// One permit for each byte, for about the longest possible JSON of the answer.
    pub memory_permit: Option<OwnedSemaphorePermit>,
}

#[derive(Debug, Clone)]
pub struct QueryService {
    store: Store,
    log: LoggerHandle,
    clock: Clock,
    metrics: QueryMetrics,
    ingestion: ActorHandle<IngestionActor>,
    /// The longest wait of a stale answer for a refresh.
    refresh_wait: Duration,
    /// The free memory for pages, in bytes. `pages_bytes` is the total.
    pages: Arc<Semaphore>,
    pages_bytes: usize,
    pub processors: ProcessorPool,
}

impl From<ScanError> for QueryError {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::Store(error) => error.into(),
            ScanError::TooCostly => Self::TooCostly,
            ScanError::SubjectTooLarge => Self::SubjectTooLarge,
            ScanError::Stopped => Self::Stopped,
        }
    }
}

/// The outcome label of a query in the metrics.
const fn outcome(error: Option<&QueryError>) -> QueryOutcome {
    match error {
        None => QueryOutcome::Answered,
        Some(
            QueryError::SourceUnknown(_)
            | QueryError::Live(_)
            | QueryError::Bad(_)
            | QueryError::Ahead(_)
            | QueryError::Position(_)
            | QueryError::QueryId,
        ) => QueryOutcome::Refused,
        Some(QueryError::Silent(_)) => QueryOutcome::Silent,
        Some(QueryError::Stale { .. }) => QueryOutcome::Stale,
        Some(QueryError::TooCostly | QueryError::SubjectOpen { .. } | QueryError::SubjectTooLarge) => {
            QueryOutcome::TooCostly
        }
        Some(QueryError::Stopped) => QueryOutcome::Stopped,
        Some(QueryError::Busy) => QueryOutcome::Busy,
        Some(QueryError::Store(_) | QueryError::Reading(_) | QueryError::Unlogged(_)) => QueryOutcome::Failed,
    }
}

impl QueryService {
    pub fn new(
        store: Store,
        log: LoggerHandle,
        clock: Clock,
        metrics: QueryMetrics,
        ingestion: ActorHandle<IngestionActor>,
        refresh_wait: Duration,
        (pages_bytes, processors): (usize, ProcessorPool),
    ) -> Self {
        let pages = Arc::new(Semaphore::new(pages_bytes));
        Self { store, log, clock, metrics, ingestion, refresh_wait, pages, pages_bytes, processors }
    }

    /// Returns a page of the answer to `query`. A scan ends early once `still_waiting` returns false.
    ///
    /// # Errors
    /// The cause; see [`QueryError`].
    pub async fn page(
        &self,
        query: OracleQuery,
        still_waiting: CallerWaitCheck,
    ) -> Result<QueryAnswerPage, QueryError> {
        let mut entry = self.open_query_entry(&query);
        let answered = self.answer(query, entry.began(), &still_waiting).await;
        self.metrics.count_query(entry.elapsed(), outcome(answered.as_ref().err()));
        if let Ok(page) = &answered {
            entry.note_answer(&page.answer);
        }
        entry.set_error_outcome(answered.as_ref().err());
        self.close_entry(entry).await?;
        answered
    }

    async fn answer(
        &self,
        query: OracleQuery,
        began: Instant,
        still_waiting: &CallerWaitCheck,
    ) -> Result<QueryAnswerPage, QueryError> {
        if !query.query_id.as_ref().is_none_or(|id| is_query_id(id)) {
            return Err(QueryError::QueryId);
        }
        let mut waited = false;
        loop {
            let (freshness, page) = self.read(query.clone(), began, still_waiting).await?;
            if let Some(page) = self.enforce_policy(&query.oracle_id, &freshness, page, &mut waited).await? {
                return Ok(page);
            }
        }
    }

    /// A source with its files open. While this host of a cluster still fetches files of it, this waits for at most as long as for a
    /// refresh.
    ///
    /// # Errors
    /// `SourceUnknown`; or the store cannot be read.
    pub async fn view(&self, oracle_id: &SourceId) -> Result<Arc<SourceView>, QueryError> {
        let began = monotonic();
        loop {
            match self.store.view(oracle_id) {
                Err(StoreError::FactsNotHere { .. }) if began.elapsed() < self.refresh_wait => {
                    sleep(FETCH_POLL).await;
                }
                view => return view?.ok_or_else(|| QueryError::SourceUnknown(oracle_id.clone())),
            }
        }
    }

    /// The freshness of an answer, and a page of it if the policy allows it. A small lookup runs here. A
    /// longer scan, or a query with patterns to compile, runs on another thread once memory and a processor
    /// are free.
    async fn read(
        &self,
        query: OracleQuery,
        began: Instant,
        still_waiting: &CallerWaitCheck,
    ) -> Result<(AnswerFreshness, Option<QueryAnswerPage>), QueryError> {
        let now = self.clock.now();
        let view = self.view(&query.oracle_id).await?;
        if view.state.entry.registration.adapter_id == SourceAdapterKind::Http {
            return Err(QueryError::Live(query.oracle_id));
        }
        let warning = match view.state.entry.availability(now) {
            SourceAvailability::Answers => None,
            SourceAvailability::AnswersWithWarning(warning) => Some(warning),
            SourceAvailability::Silent(why) => return Err(QueryError::Silent(why)),
        };
        let page_bytes = query.request.page_bytes();
        let has_patterns = query.request.has_patterns();
        let answering = move || RunningQuery::new(query, view, warning, now, began);
        let (PolicyCheckedAnswer { freshness, answer }, room) = if has_patterns {
            self.scan(page_bytes, still_waiting, move |scan| answering()?.page(scan)).await?
        } else {
            let answering = answering()?;
            match answering.look_up()? {
                QueryLookupOutcome::Answered(answer) => (*answer, None),
                QueryLookupOutcome::TooMuch => {
                    self.scan(page_bytes, still_waiting, move |scan| answering.page(scan)).await?
                }
            }
        };
        Ok((freshness, answer.map(|answer| QueryAnswerPage { answer, memory_permit: room })))
    }

    /// Waits for memory for a page and for a processor, then runs `read` on another thread. Returns its
    /// result with the memory permit.
    async fn scan(
        &self,
        page_bytes: usize,
        still_waiting: &CallerWaitCheck,
        read: impl FnOnce(&SourceScan) -> Result<PolicyCheckedAnswer, QueryError> + Send + 'static,
    ) -> Result<(PolicyCheckedAnswer, Option<OwnedSemaphorePermit>), QueryError> {
        let (room, permit) = self.room(page_bytes.saturating_mul(JSON_TIMES)).await?;
        let scan = SourceScan::new(permit, Arc::clone(still_waiting));
        // the thread owns the permit: its page stays in memory even if the caller has disconnected
        let read = spawn_blocking(move || Ok((read(&scan)?, Some(room)))).await;
        read.unwrap_or_else(|error| Err(QueryError::Reading(error.to_string())))
    }

    /// Waits for memory for `bytes`, at most all memory for pages, and then for a processor.
    async fn room(&self, bytes: usize) -> Result<(OwnedSemaphorePermit, ScanPermit), QueryError> {
        let permits = u32::try_from(bytes.min(self.pages_bytes)).unwrap_or(u32::MAX);
        let room = async {
            let room = Arc::clone(&self.pages).acquire_many_owned(permits).await;
            (room.expect("the semaphore is never closed"), self.processors.acquire_for_scan().await)
        };
        timeout(PAGE_MEMORY_WAIT_MAX, room).await.map_err(|_| QueryError::Busy)
    }

    /// Whether queries wait for memory that pages hold until they are read.
    #[must_use]
    pub fn is_short_of_pages(&self) -> bool {
        // a waiting query takes all available permits
        self.pages.available_permits() == 0
    }

    /// Waits for a processor for a scan.
    async fn processor(&self) -> Result<ScanPermit, QueryError> {
        timeout(PAGE_MEMORY_WAIT_MAX, self.processors.acquire_for_scan()).await.map_err(|_| QueryError::Busy)
    }
}

fn is_query_id(id: &str) -> bool {
    (1..=QUERY_ID_MAX_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

impl RunningQuery {
    /// The freshness of the answer, whose oldest release is from `oldest`. It covers the requested axes, and
    /// the filtered axes except identities, since an identity does not age. A question about the past is
    /// evaluated at that time.
    fn freshness(&self, oldest: Option<Timestamp>) -> AnswerFreshness {
        let request = &self.oracle_query.request;
        // only requested times count, neither the last run's time nor the time in a cursor
        let past = find_past_time(request.point_in_time, request.known_at, self.now);
        let is_identity = |path: &str| self.view.ontology.axis(path).is_some_and(|axis| axis.identity);
        let mut axes: Vec<_> = request.axes_requested.iter().map(String::as_str).collect();
        for path in request.filters.iter().map(|filter| filter.axis.as_str()) {
            if !is_identity(path) && !axes.contains(&path) {
                axes.push(path);
            }
        }
        evaluate_freshness(&self.view, &axes, oldest, past, self.now, self.scope())
    }
}

/// The position after a page, with the times of the query: data ingested between two pages is in neither. It is opaque to
/// callers, and valid only for its query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueryCursor {
    /// The key of the last record that was read.
    key: Vec<u8>,
    point_in_time: Timestamp,
    known_at: Option<Timestamp>,
    /// The beginning of the query's digest.
    query: String,
}

impl QueryCursor {
    /// A digest of the query without its cursor, page size and id.
    fn digest(query: &OracleQuery) -> String {
        let request = QueryRequest {
            cursor: None,
            max_results: None,
            explain: false,
            include_provenance: false,
            ..query.request.clone()
        };
        let json = serde_json::to_vec(&(&query.oracle_id, &request)).expect("a query is plain data");
        Sha256Hex::of(&json).as_str().get(..DIGEST_DIGITS).unwrap_or_default().to_owned()
    }

    /// The cursor as text: the hexadecimal digits of its JSON.
    fn to_text(&self) -> String {
        let json = serde_json::to_vec(self).expect("a cursor is plain data");
        json.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parses `text`, which must be a cursor of `query`.
    fn read(text: &str, query: &OracleQuery) -> Result<Self, InvalidQueryError> {
        let read = || {
            if text.len() > CURSOR_MAX_BYTES || !text.len().is_multiple_of(2) {
                return None;
            }
            let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let (pairs, _) = text.as_bytes().as_chunks::<2>();
            let json: Option<Vec<u8>> =
                pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
            let cursor: Self = serde_json::from_slice(&json?).ok()?;
            Some(cursor).filter(|cursor| cursor.query == Self::digest(query))
        };
        read().ok_or(InvalidQueryError::Cursor)
    }
}

/// The cursor for the next page after the key `more`.
fn cursor_of(answering: &RunningQuery, more: Option<Vec<u8>>) -> Option<String> {
    let RunningQuery { oracle_query, point_in_time, known_at, .. } = answering;
    more.map(|key| {
        let query = QueryCursor::digest(oracle_query);
        QueryCursor { key, point_in_time: *point_in_time, known_at: *known_at, query }.to_text()
    })
}

/// The maximum number of periods in a history.
const PERIODS_MAX: usize = 10_000;

impl QueryService {
    /// The values that the subject which the filters of `request` fix has on its first axis, each with the periods of
    /// valid time and of system time in which a question gets it. One read is one entry in the log.
    ///
    /// # Errors
    /// The source cannot be queried, or the filters do not fix one subject.
    pub async fn value_history(
        &self,
        oracle_id: &SourceId,
        request: QueryRequest,
    ) -> Result<ValueHistory, QueryError> {
        let mut entry = self.open_entry(SourceReadKind::History, Some(oracle_id.clone()), &request);
        let read = self.read_history(oracle_id, request).await;
        if let Ok(history) = &read {
            entry.note_export(std::iter::empty(), history.values.len() as u64);
        }
        entry.set_error_outcome(read.as_ref().err());
        self.close_entry(entry).await?;
        read
    }

    async fn read_history(
        &self,
        oracle_id: &SourceId,
        request: QueryRequest,
    ) -> Result<ValueHistory, QueryError> {
        let view = self.view(oracle_id).await?;
        if view.state.entry.registration.adapter_id == SourceAdapterKind::Http {
            return Err(QueryError::Live(oracle_id.clone()));
        }
        if let SourceAvailability::Silent(why) = view.state.entry.availability(self.clock.now()) {
            return Err(QueryError::Silent(why));
        }
        let permit = self.processor().await?;
        let read = spawn_blocking(move || {
            let _permit = permit;
            read_values(&view, &request)
        });
        read.await.map_err(|error| QueryError::Reading(error.to_string()))?
    }
}

fn read_values(view: &SourceView, request: &QueryRequest) -> Result<ValueHistory, QueryError> {
    let provided = &view.state.entry.registration.axes_provided;
    let query = ValidatedQuery::new(request, &view.ontology, provided)?;
    if !query.identity_is_whole {
        return Err(QueryError::SubjectOpen { axes: query.open_identity(&view.ontology).join(", ") });
    }
    let path = request.axes_requested.first().cloned().unwrap_or_default();
    let releases = view.state.releases();
    let mut history = ReleaseHistory::new(&releases);
    let identity = view.ontology.identity().map(|axis| axis.axis.clone());
    let subject: BTreeMap<String, AxisValue> =
        identity.zip(query.identity.values().iter().map(TypedValue::to_value)).collect();
    let (mut values, mut names) = (Vec::new(), BTreeMap::new());
    for record in view.records(&query.identity.key(), Bound::Unbounded)? {
        let record = record?;
        let times: Vec<RecordStatement> = record.times().copied().collect();
        for version in history.known_versions(&times) {
            let Some(statement) = record.statement(version.statement) else { continue };
            let content = view.content(&statement)?;
            if let Some(content) = &content {
                // the latest version can lack a name that an earlier one has
                names.extend(name_subject(subject.keys(), &content.axes));
            }
            values.push(KnownValue {
                record_id: view.record_id(statement.time.run, statement.position).unwrap_or_default(),
                valid_from: version.valid_from,
                valid_until: version.valid_until,
                known_from: version.known_from,
                known_until: version.known_until,
                value: content.and_then(|mut content| content.axes.remove(&path)),
            });
            if values.len() > PERIODS_MAX {
                return Err(QueryError::TooCostly);
            }
        }
    }
    let unit = view.ontology.axis(&path).and_then(|axis| axis.unit.clone());
    let title = title_subject([&path], Some(&view.ontology), &subject, &names);
    Ok(ValueHistory { title, unit, values })
}

/// The longest time of a scan.
const DEADLINE: Duration = Duration::from_secs(5);
/// The budget of a lookup, which runs on its caller's thread without a scan.
const LOOKUP: ScanBudget<'static> = ScanBudget { records: 256, work: 16_384, ..ScanBudget::UNLIMITED };

/// The processors that long evaluations of rules and long scans share. Scans take at most half of them, but at
/// least one, so that a flood of costly queries does not delay verdicts that the rules check.
#[derive(Debug, Clone)]
pub struct ProcessorPool {
    all: Arc<Semaphore>,
    scans: Arc<Semaphore>,
}

impl Default for ProcessorPool {
    fn default() -> Self {
        let count = available_parallelism().map_or(1, usize::from);
        Self { all: Arc::new(Semaphore::new(count)), scans: Arc::new(Semaphore::new((count / 2).max(1))) }
    }
}

impl ProcessorPool {
    /// Waits for a processor for an evaluation.
    pub async fn acquire_for_evaluation(&self) -> Option<SemaphorePermit<'_>> {
        // the semaphore is never closed
        self.all.acquire().await.ok()
    }

    /// Waits for a processor for a scan.
    pub async fn acquire_for_scan(&self) -> ScanPermit {
        let scan = Arc::clone(&self.scans).acquire_owned().await;
        // the permit for scans comes first, so that few scans can queue for a processor before an evaluation
        let processor = Arc::clone(&self.all).acquire_owned().await;
        ScanPermit { _permits: [scan.ok(), processor.ok()] }
    }
}

#[derive(Debug)]
pub struct ScanPermit {
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

/// A scan with its processor.
struct SourceScan {
    _permit: ScanPermit,
    still_waiting: CallerWaitCheck,
    deadline: Instant,
}

impl SourceScan {
    /// Starts the time limit.
    fn new(permit: ScanPermit, still_waiting: CallerWaitCheck) -> Self {
        Self { _permit: permit, still_waiting, deadline: monotonic() + DEADLINE }
    }

    /// Runs `read` within the limits.
    fn run<T>(&self, read: impl FnOnce(ScanBudget<'_>) -> Result<T, ScanError>) -> Result<T, ScanError> {
        let go_on = || monotonic() < self.deadline && (self.still_waiting)();
        read(ScanBudget { records: RECORDS_SCANNED_MAX, work: WORK_MAX, proceed: &go_on })
    }
}

impl fmt::Debug for SourceScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// The data of a source is too old for its policy.
#[derive(Debug, thiserror::Error)]
#[error("the data of source {oracle_id} is stale: {}", .freshness.warnings.join("; "))]
pub struct StaleDataError {
    pub oracle_id: SourceId,
    /// The age of the data, and the allowed age.
    pub freshness: Box<AnswerFreshness>,
}

/// The freshness on `axes` of a release from `as_of`, evaluated at `past`, or at `now` for a question about
/// the present. `scope` limits the releases that count.
fn evaluate_freshness(
    view: &SourceView,
    axes: &[&str],
    as_of: Option<Timestamp>,
    past: Option<Timestamp>,
    now: Timestamp,
    scope: ReleaseScope,
) -> AnswerFreshness {
    let invalidated_at = view.state.invalidated_at(past, scope);
    policy_of(&view.state, &view.ontology).evaluate(axes, as_of, invalidated_at, past.unwrap_or(now))
}

/// The trust tier of a source for data of this freshness.
const fn tier_of(view: &SourceView, freshness: &AnswerFreshness) -> OracleTier {
    let tier = view.state.entry.registration.oracle_tier;
    if matches!(freshness.answer, AnswerHandling::DegradeTier) { tier.lower() } else { tier }
}

impl QueryService {
    /// Returns `given` if the policy allows it, and begins a refresh if one is due. `None` means that this call waited
    /// for a refresh, so the caller must read the source again. A caller waits at most once: `waited` is then true.
    async fn enforce_policy<T>(
        &self,
        oracle_id: &SourceId,
        freshness: &AnswerFreshness,
        given: Option<T>,
        waited: &mut bool,
    ) -> Result<Option<T>, StaleDataError> {
        if freshness.answer == AnswerHandling::BlockUntilFresh && !*waited {
            *waited = true;
            self.wait_for_refresh(oracle_id.clone()).await;
            return Ok(None);
        }
        let given = given.filter(|_| freshness.answer.is_served());
        if freshness.refresh && (given.is_some() || !*waited) {
            self.begin_refresh(oracle_id.clone());
        }
        let stale =
            || StaleDataError { oracle_id: oracle_id.clone(), freshness: Box::new(freshness.clone()) };
        given.map(Some).ok_or_else(stale)
    }

    /// Waits for a refresh of the source, for at most the configured time.
    async fn wait_for_refresh(&self, oracle_id: SourceId) {
        let refreshed =
            timeout(self.refresh_wait, self.ingestion.ask(RefreshSource(oracle_id.clone()))).await;
        if let Ok(Ok(Err(error))) = refreshed {
            tracing::debug!(%oracle_id, %error, "could not refresh the source");
        }
    }

    /// Begins a refresh of the source without waiting for it.
    fn begin_refresh(&self, oracle_id: SourceId) {
        let ingestion = self.ingestion.clone();
        spawn_for_caller(async move {
            match ingestion.ask(RefreshSource(oracle_id.clone())).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%oracle_id, %error, "could not refresh the source"),
                Err(error) => tracing::warn!(%oracle_id, %error, "could not begin a refresh"),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_query(max_results: usize, axis: &str) -> OracleQuery {
        OracleQuery {
            query_id: None,
            oracle_id: "source".parse().expect("a valid id"),
            request: QueryRequest {
                axes_requested: vec![axis.into()],
                max_results: Some(max_results),
                ..QueryRequest::default()
            },
        }
    }

    #[test]
    fn cursor_is_accepted_only_for_its_own_query() {
        let cursor = QueryCursor {
            key: vec![0, 255, 7],
            point_in_time: Timestamp::UNIX_EPOCH,
            known_at: None,
            query: QueryCursor::digest(&test_query(1, "a")),
        };
        let text = cursor.to_text();
        assert_eq!(QueryCursor::read(&text, &test_query(2, "a")), Ok(cursor));
        assert_eq!(QueryCursor::read(&text, &test_query(1, "b")), Err(InvalidQueryError::Cursor));
        for broken in ["", "0", "zz", "éé", &text[2..], &text.repeat(2), &"00".repeat(CURSOR_MAX_BYTES)] {
            assert_eq!(QueryCursor::read(broken, &test_query(1, "a")), Err(InvalidQueryError::Cursor));
        }
    }
}
