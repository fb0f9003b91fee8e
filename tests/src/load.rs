//! Clients that put a daemon under load, record its answers, and check them afterwards.

use crate::{GOOD, document, get, post, problem, submission};
use bytes::Bytes;
use domain_audit::event::OperatorRead;
use domain_base::event::{Event, event_in};
use hyper::{Method, StatusCode};
use oracled_api::client::{ClientError, DaemonClient, DaemonResponse};
use oracled_store::{LogQuery, Store, StoreOptions};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Verdicts of this size or more, in bytes, are submitted without facts, because facts double the size of the
/// request.
const CHECKED_MAX_BYTES: usize = 64 * 1024;

/// Last known state of a session, as a client recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownSessionState {
    /// The verdict is stored, and this is its document.
    Cached(Bytes),
    /// The verdict was stored and then purged.
    Purged,
    /// The result of a write is unknown. If the session has a verdict, it is this one, if one is given.
    Unsure(Option<Bytes>),
}

/// Answers that clients received from a daemon.
#[derive(Debug, Default)]
pub struct AnswerLedger {
    /// State of each session.
    pub sessions: BTreeMap<String, KnownSessionState>,
    /// The fact of each session that was submitted with one. It is also the summary of the verdict.
    facts: BTreeMap<String, String>,
    /// Sessions with a judgment that was answered, and whether it was an approval.
    pub judged: Vec<(String, bool)>,
    /// Acknowledged verdicts, including those that were purged later.
    pub acknowledged: usize,
    /// Number of all answers.
    pub answers: usize,
    /// Answers with a problem document that reports a failure of the daemon.
    pub failures: usize,
}

impl AnswerLedger {
    /// Adds the answers of another client. No two clients use the same session.
    pub fn add(&mut self, other: Self) {
        self.sessions.extend(other.sessions);
        self.facts.extend(other.facts);
        self.judged.extend(other.judged);
        self.acknowledged += other.acknowledged;
        self.answers += other.answers;
        self.failures += other.failures;
    }

    /// Compares the document `found` for a session, or its absence, with the recorded answers and the log.
    ///
    /// # Panics
    /// Panics if they differ.
    pub fn check(&self, chronicle: &LogContent, session: &str, found: Option<&[u8]>) {
        let text = found.map(String::from_utf8_lossy);
        assert_eq!(
            found.is_some(),
            chronicle.cached.contains_key(session),
            "{session}: the log and {text:?}"
        );
        match self.sessions.get(session) {
            Some(KnownSessionState::Cached(expected)) => {
                assert_eq!(found, Some(&expected[..]), "{session} was acknowledged: {text:?}");
            }
            Some(KnownSessionState::Purged) => assert_eq!(found, None, "{session} was purged: {text:?}"),
            Some(KnownSessionState::Unsure(Some(expected))) => {
                assert!(found.is_none_or(|found| found == expected), "{session}: {text:?}");
            }
            Some(KnownSessionState::Unsure(None)) | None => {}
        }
    }

    /// Checks that the log has every judgment that was answered.
    ///
    /// # Panics
    /// Panics if one is missing.
    pub fn check_judgments(&self, chronicle: &LogContent) {
        for judged in &self.judged {
            assert!(chronicle.judged.contains(judged), "no entry for {judged:?}");
        }
    }

    /// Opens the store in `state`, which no daemon has open, and compares all of it with the recorded answers.
    ///
    /// # Panics
    /// Panics if anything is missing, different or unexpected.
    pub fn check_store(&self, state: &Path) -> LogContent {
        let options = StoreOptions {
            dir: state.to_owned(),
            cache_bytes: 64 << 20,
            facts_cache_bytes: 1 << 20,
            min_free_bytes: 0,
        };
        let (journal, store) = Store::open(options).expect("the store opens");
        store.audit_all().expect("the store has all that it counts");
        let query = LogQuery { limit: usize::MAX, ..LogQuery::default() };
        let log = store.log(&query).expect("the log is read");
        let chronicle = LogContent::read(log.iter().map(|line| line.json.as_str()));
        let counts = journal.counts();
        assert_eq!([counts.entries, counts.of("verdicts"), counts.of("sessions")], chronicle.counts());
        self.check_judgments(&chronicle);
        for session in self.sessions.keys().chain(chronicle.sessions.iter()) {
            let id = session.parse().expect("a session id");
            let found = store.verdict(&id).expect("the store is read");
            let document = found.map(|(delivery, _)| serde_json::to_vec(&delivery).expect("plain data"));
            self.check(&chronicle, session, document.as_deref());
        }
        chronicle
    }

    /// Compares the daemon's answers for these sessions with the recorded answers.
    ///
    /// # Panics
    /// Panics if they differ.
    pub async fn check_answers(
        &self,
        routes: &mut DaemonClient,
        chronicle: &LogContent,
        sessions: &[&String],
    ) {
        for session in sessions {
            let answer = get(routes, &format!("/v1/verdicts/{session}")).await;
            let found = match answer.status {
                StatusCode::OK => Some(&answer.body[..]),
                StatusCode::NOT_FOUND => None,
                status => unreachable!("{session}: {status} {:?}", answer.body),
            };
            self.check(chronicle, session, found);
        }
    }
}

/// Content of a log, entry by entry.
#[derive(Debug, Default)]
pub struct LogContent {
    /// Number of entries.
    pub entries: u64,
    /// Number of entries of reads by operators.
    pub reads: u64,
    /// Sessions that have a verdict at the end of the log, with its digest.
    pub cached: BTreeMap<String, String>,
    /// Sessions that have had a verdict.
    pub sessions: BTreeSet<String>,
    /// Sessions with a judgment, and whether it was an approval.
    pub judged: BTreeSet<(String, bool)>,
}

impl LogContent {
    /// Reads `lines` in order.
    ///
    /// # Panics
    /// Panics if a sequence number is missing or repeated, or if a verdict was cached or purged twice. Also panics if
    /// a verdict was cached without an approval in the entry before it. An approval by the rules may be between the
    /// two.
    pub fn read<'l>(lines: impl IntoIterator<Item = &'l str>) -> Self {
        let mut this = Self::default();
        let mut before = Value::Null;
        for line in lines {
            let entry: Value = serde_json::from_str(line).expect("each line is JSON");
            this.entries += 1;
            assert_eq!(field(&entry, "seq"), this.entries, "sequence numbers have no gaps: {line}");
            let session = field(&entry, "session_id").as_str().unwrap_or_default().to_owned();
            let digest = field(&entry, "verdict_sha256").as_str().unwrap_or_default().to_owned();
            match field(&entry, "event").as_str() {
                Some("tmm_crosscheck") => {
                    this.judged.insert((session, field(&entry, "approved") == true));
                }
                Some("verdict_cached") => {
                    assert_eq!(field(&before, "event"), "tmm_crosscheck", "{line}");
                    assert_eq!(field(&before, "approved"), true, "{line}");
                    assert_eq!(field(&before, "session_id"), field(&entry, "session_id"), "{line}");
                    assert_eq!(field(&before, "verdict_sha256"), field(&entry, "verdict_sha256"), "{line}");
                    this.sessions.insert(session.clone());
                    assert_eq!(this.cached.insert(session, digest), None, "cached once: {line}");
                }
                // the entry of the rules gate is between the two; only a pass is accepted
                Some("rules_evaluated")
                    if field(&entry, "verdict") == "PASS"
                        && field(&before, "session_id") == session.as_str() =>
                {
                    continue;
                }
                Some("verdict_purged") => assert_eq!(this.cached.remove(&session), Some(digest), "{line}"),
                Some(OperatorRead::NAME) => this.reads += 1,
                _ => {}
            }
            before = entry;
        }
        this
    }

    /// The numbers of entries, verdicts and sessions of a store with this log.
    #[must_use]
    pub fn counts(&self) -> [u64; 3] {
        [self.entries, self.cached.len() as u64, self.sessions.len() as u64]
    }
}

/// Member of an object; null if there is none.
#[must_use]
pub fn field<'v>(value: &'v Value, name: &str) -> &'v Value {
    value.get(name).unwrap_or(&Value::Null)
}

/// Adds one fact to the submission.
fn with_facts(mut submission: Value, fact: &str) -> Value {
    submission.as_object_mut().expect("an object").insert("facts".into(), json!([fact]));
    submission
}

/// Body of a crosscheck request for a good verdict.
#[must_use]
pub fn check_of(session: &str) -> Value {
    json!({"session_id": session, "tier": "quick", "query": "Sell honey?", "raw": GOOD})
}

/// Configuration of the load.
#[derive(Debug, Clone)]
pub struct LoadConfig {
    /// Path of the routes' socket.
    pub routes: PathBuf,
    /// Path of the control socket.
    pub control: PathBuf,
    /// Prefix of the session names.
    pub name: String,
    /// Number of clients. Each has connections of its own.
    pub callers: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl LoadConfig {
    /// Sends requests until `stop` is true or the daemon is gone. Returns the recorded answers, and how many clients
    /// lost their connection.
    ///
    /// # Panics
    /// Panics if an answer is not valid.
    pub async fn run(self, stop: watch::Receiver<bool>) -> (AnswerLedger, usize) {
        let mut callers = JoinSet::new();
        for number in 0..self.callers {
            let (load, stop) = (self.clone(), stop.clone());
            callers.spawn(async move {
                let mut caller = LoadClient {
                    routes: DaemonClient::connect(&load.routes).await.expect("the routes' socket is served"),
                    control: DaemonClient::connect(&load.control)
                        .await
                        .expect("the control socket is served"),
                    rng: fastrand::Rng::with_seed(load.seed.wrapping_mul(1009) + number as u64),
                    name: format!("{}-{number}", load.name),
                    created: 0,
                    ledger: AnswerLedger::default(),
                };
                while !*stop.borrow() {
                    if caller.step().await.is_err() {
                        return (caller.ledger, 1);
                    }
                }
                (caller.ledger, 0)
            });
        }
        let (mut ledger, mut lost) = (AnswerLedger::default(), 0);
        while let Some(caller) = callers.join_next().await {
            let (answers, gone) = caller.expect("every answer is valid");
            ledger.add(answers);
            lost += gone;
        }
        (ledger, lost)
    }
}

struct LoadClient {
    routes: DaemonClient,
    control: DaemonClient,
    rng: fastrand::Rng,
    name: String,
    created: usize,
    ledger: AnswerLedger,
}

impl LoadClient {
    async fn step(&mut self) -> Result<(), ClientError> {
        match self.rng.u8(0..20) {
            0..=8 => self.submit(20..400).await,
            9 => self.submit(100_000..700_000).await,
            10..=11 => self.submit_refused().await,
            12..=14 => self.repeat().await,
            15..=16 => self.check().await,
            17..=18 => self.purge().await,
            _ => self.read().await,
        }
    }

    /// A new session name.
    fn fresh(&mut self, kind: &str) -> String {
        self.created += 1;
        format!("{}-{kind}-{}", self.name, self.created)
    }

    /// A random session from the ledger.
    fn random_session(&mut self) -> Option<(String, KnownSessionState)> {
        let sessions = &self.ledger.sessions;
        let nth = self.rng.usize(0..sessions.len().max(1));
        sessions.iter().nth(nth).map(|(session, state)| (session.clone(), state.clone()))
    }

    async fn call(&mut self, path: &str, body: &Value) -> Result<DaemonResponse, ClientError> {
        self.routes.call(Method::POST, path, Some(Bytes::from(body.to_string()))).await
    }

    /// Whether the status of `answer` is one of `allowed`. Any other answer must be a problem document for a failure
    /// of the daemon.
    fn done(&mut self, answer: &DaemonResponse, allowed: &[u16]) -> bool {
        self.ledger.answers += 1;
        let status = answer.status.as_u16();
        if allowed.contains(&status) {
            return true;
        }
        assert!(status == 500 || status == 503, "{status}: {:?}", answer.body);
        let known = ["internal_error", "storage_unavailable", "overloaded"];
        let document = document(answer);
        let code = known.into_iter().find(|code| field(&document, "code") == code);
        problem(answer, status, code.expect("a code for a failure"));
        self.ledger.failures += 1;
        false
    }

    async fn submit(&mut self, bytes: std::ops::Range<usize>) -> Result<(), ClientError> {
        let (session, checked) = (self.fresh("v"), self.rng.bool());
        self.deliver(session, bytes, checked).await
    }

    /// Submits a verdict for a session that has none. `checked` adds facts that the verdict passes.
    async fn deliver(
        &mut self,
        session: String,
        bytes: std::ops::Range<usize>,
        checked: bool,
    ) -> Result<(), ClientError> {
        let bytes = self.rng.usize(bytes);
        let summary: String = std::iter::repeat_with(|| self.rng.alphanumeric()).take(bytes).collect();
        let verdict = json!({"verdict": "GREEN", "summary": summary}).to_string();
        self.ledger.sessions.insert(session.clone(), KnownSessionState::Unsure(None));
        let mut submission = submission(&verdict);
        if checked && bytes < CHECKED_MAX_BYTES {
            submission = with_facts(submission, &summary);
            self.ledger.facts.insert(session.clone(), summary);
        } else {
            self.ledger.facts.remove(&session);
        }
        let answer = self.call(&format!("/v1/verdicts/{session}"), &submission).await?;
        if self.done(&answer, &[201]) {
            self.acknowledge(session, answer.body);
        }
        Ok(())
    }

    fn acknowledge(&mut self, session: String, document: Bytes) {
        self.ledger.acknowledged += 1;
        self.ledger.judged.push((session.clone(), true));
        self.ledger.sessions.insert(session, KnownSessionState::Cached(document));
    }

    /// Submits a second verdict for a session.
    async fn repeat(&mut self) -> Result<(), ClientError> {
        let Some((session, state)) = self.random_session() else { return Ok(()) };
        // the first verdict may have been checked against facts, which the session keeps
        if state == KnownSessionState::Purged {
            return self.deliver(session, 20..400, true).await;
        }
        // an unknown result may be a session with a fact, which its verdict has to pass
        let again = match self.ledger.facts.get(&session) {
            Some(fact) if !matches!(state, KnownSessionState::Cached(_)) => {
                let verdict = json!({"verdict": "GREEN", "summary": fact}).to_string();
                with_facts(submission(&verdict), fact)
            }
            _ => submission(GOOD),
        };
        let answer = self.call(&format!("/v1/verdicts/{session}"), &again).await?;
        let allowed: &[u16] =
            if matches!(state, KnownSessionState::Cached(_)) { &[200] } else { &[200, 201] };
        if !self.done(&answer, allowed) {
            return Ok(());
        }
        let replayed = br#","replayed":true}"#;
        let document = match answer.body.strip_suffix(replayed) {
            Some(members) => Bytes::from([members, b"}"].concat()),
            None => answer.body,
        };
        match state {
            KnownSessionState::Cached(expected) => assert_eq!(expected, document, "{session}"),
            _ => self.acknowledge(session, document),
        }
        Ok(())
    }

    async fn submit_refused(&mut self) -> Result<(), ClientError> {
        let session = self.fresh("r");
        let raw = r#"{"verdict":"GREEN","summary":""#;
        let answer = self.call(&format!("/v1/verdicts/{session}"), &submission(raw)).await?;
        if self.done(&answer, &[422]) {
            self.ledger.judged.push((session, false));
        }
        Ok(())
    }

    async fn check(&mut self) -> Result<(), ClientError> {
        let session = self.fresh("c");
        let answer = self.call("/v1/crosscheck", &check_of(&session)).await?;
        if self.done(&answer, &[200]) {
            self.ledger.judged.push((session, true));
        }
        Ok(())
    }

    async fn purge(&mut self) -> Result<(), ClientError> {
        let Some((session, KnownSessionState::Cached(document))) = self.random_session() else {
            return Ok(());
        };
        self.ledger.sessions.insert(session.clone(), KnownSessionState::Unsure(Some(document)));
        let answer = self.control.call(Method::DELETE, &format!("/v1/verdicts/{session}"), None).await?;
        if self.done(&answer, &[200]) {
            self.ledger.sessions.insert(session, KnownSessionState::Purged);
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), ClientError> {
        let Some((session, KnownSessionState::Cached(document))) = self.random_session() else {
            return Ok(());
        };
        let answer = self.routes.call(Method::GET, &format!("/v1/verdicts/{session}"), None).await?;
        if self.done(&answer, &[200]) {
            assert_eq!(answer.body, document, "{session}");
        }
        Ok(())
    }
}

/// Number of entries that a read of the whole log asks for at a time.
const AT_ONCE: usize = 5000;

/// The whole log, read from the control socket.
///
/// # Panics
/// Panics if it cannot be read.
pub async fn read_log(control: &mut DaemonClient) -> String {
    let mut log = String::new();
    let mut after = 0;
    loop {
        let answer = get(control, &format!("/v1/log?after={after}&limit={AT_ONCE}")).await;
        assert_eq!(answer.status, 200, "{:?}", answer.body);
        let page = std::str::from_utf8(&answer.body).expect("the log is text");
        let count = page.lines().count();
        after += count;
        log.push_str(page);
        // each read adds an entry, so the last page is not empty
        if count < AT_ONCE {
            return log;
        }
    }
}

/// Checks that the mirror in `state` is the log of the control socket and the entries of its read, and that the status has the same
/// counts. Returns the parsed log.
///
/// # Panics
/// Panics if they differ.
pub async fn check_served(control: &mut DaemonClient, state: &Path) -> LogContent {
    let log = read_log(control).await;
    let mirror = std::fs::read_to_string(state.join("oracle_log.jsonl")).expect("the mirror is read");
    let rest = mirror.strip_prefix(&log);
    assert!(
        rest.is_some_and(|rest| rest.lines().all(|line| event_in(line) == Some(OperatorRead::NAME))),
        "the mirror has {} lines, the log {}",
        mirror.lines().count(),
        log.lines().count()
    );
    let chronicle = LogContent::read(mirror.lines());
    let status: Value = get(control, "/v1/status").await.json().expect("status is JSON");
    assert_eq!(
        [field(&status, "entries"), field(&status, "verdicts"), field(&status, "sessions")],
        chronicle.counts().map(|count| json!(count)).each_ref()
    );
    chronicle
}

/// Posts `{}` to `path` on the control socket.
///
/// # Panics
/// Panics if the answer is not a success.
pub async fn post_action(control: &mut DaemonClient, path: &str) -> DaemonResponse {
    let answer = post(control, path, &json!({})).await;
    assert!(answer.status.is_success(), "{path}: {} {:?}", answer.status, answer.body);
    answer
}
