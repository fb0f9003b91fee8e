//! The data in the frame of each page: the numbers beside the entries of the navigation, and whether the daemon is in test mode.

use super::Console;
use super::parts::cut;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::verification::review::read_review_report;
use domain_base::inbox::InboxResponse;
use domain_ground::wire::{FreshnessReport, SourceSummary};
use domain_verdict::wire::SessionPage;
use hyper::Method;
use oracled_domain::status::StatusReport;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// The header of each answer of a daemon in test mode.
const TEST_MODE: &str = "x-oracled-test-mode";
/// Time between two counts of stale sources: it takes a request for each source, and ages change slowly.
const STALE_PAUSE: Duration = Duration::from_secs(15);
/// How long a page waits for a new count of stale sources. Then it has the last one.
const STALE_WAIT: Duration = Duration::from_secs(2);

/// Numbers beside the entries of the navigation; `None` if they cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct NavCounts {
    /// What needs a decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inbox: Option<u64>,
    /// Orders that wait for their next attempt, or have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) orders: Option<u64>,
    /// Sources with a stale axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sources: Option<u64>,
}

/// The data that was read for earlier frames.
#[derive(Debug, Default)]
pub(super) struct FrameState {
    is_test: AtomicBool,
    stale: Arc<StaleSources>,
    /// The beginnings of the queries of sessions.
    queries: KnownTexts,
    /// The titles of reviews.
    titles: KnownTexts,
}

/// The number of stale sources.
#[derive(Debug, Default)]
struct StaleSources {
    /// When they were counted last, and their number; `None` if they could not be read.
    last: Mutex<Option<(Instant, u64)>>,
    /// Held while they are counted.
    counting: Mutex<()>,
}

impl StaleSources {
    /// Counts them, unless that was done a moment ago.
    async fn renew(&self, count: impl Future<Output = Result<u64, CtlError>>) {
        let _counting = self.counting.lock().await;
        let is_new = self.last.lock().await.is_some_and(|(at, _)| at.elapsed() < STALE_PAUSE);
        if !is_new {
            let stale = count.await.ok();
            *self.last.lock().await = stale.map(|stale| (Instant::now(), stale));
        }
    }

    async fn last(&self) -> Option<u64> {
        self.last.lock().await.map(|(_, stale)| stale)
    }
}

/// Texts by the ids of their items. Each is read once, since the log has an entry of each read.
#[derive(Debug, Default)]
struct KnownTexts(Mutex<HashMap<String, String>>);

impl KnownTexts {
    /// The text of an item; `None` if it is empty, or cannot be read.
    async fn get(&self, id: &str, read: impl Future<Output = Result<String, CtlError>>) -> Option<String> {
        let mut known = self.0.lock().await;
        let text = match known.get(id).cloned() {
            Some(text) => text,
            None => {
                let text = read.await.ok()?;
                if known.len() >= TEXTS_MAX {
                    known.clear();
                }
                known.insert(id.to_owned(), text.clone());
                text
            }
        };
        Some(text).filter(|text| !text.is_empty())
    }
}

impl FrameState {
    /// Whether the daemon was in test mode when it answered last.
    pub(super) fn is_test(&self) -> bool {
        self.is_test.load(Ordering::Relaxed)
    }

    /// The beginning of the query of a session, as its page has it. `None` for reviewers: who reads a query on their socket is in the log.
    pub(super) async fn read_query(&self, console: &Console, session_id: &str) -> Option<String> {
        if console.has_only_reviews {
            return None;
        }
        let path = format!("/v1/sessions/{}", encode_segment(session_id));
        let read = async {
            let page: SessionPage = console.options.call_control(Method::GET, &path, None).await?.json()?;
            Ok::<_, CtlError>(cut(&page.session.query, QUERY_CHARS))
        };
        self.queries.get(session_id, read).await
    }

    /// The title of a review in words, as its page has it.
    pub(super) async fn read_title(&self, console: &Console, review_id: &str) -> Option<String> {
        let read = async { Ok::<_, CtlError>(read_review_report(&console.options, review_id).await?.title) };
        self.titles.get(review_id, read).await
    }
}

/// Maximum length of the beginning of a query, in characters.
const QUERY_CHARS: usize = 80;
/// Maximum number of texts of a kind that are remembered.
const TEXTS_MAX: usize = 1_000;

/// The numbers of the navigation. A page without them is better than none.
pub(super) async fn read_counts(console: &Console) -> NavCounts {
    try_read_counts(console).await.unwrap_or_default()
}

/// The numbers of the navigation.
///
/// # Errors
/// The inbox cannot be read.
pub(super) async fn try_read_counts(console: &Console) -> Result<NavCounts, CtlError> {
    let inbox = console.options.call_for_reviewer(Method::GET, "/v1/inbox?limit=1", None).await?;
    console.frame.is_test.store(inbox.headers.contains_key(TEST_MODE), Ordering::Relaxed);
    let inbox = inbox.json::<InboxResponse>().ok();
    let inbox = inbox.map(|inbox| inbox.counts.values().map(|count| *count as u64).sum());
    if console.has_only_reviews {
        return Ok(NavCounts { inbox, ..NavCounts::default() });
    }
    let status = console.options.call_control(Method::GET, "/v1/status", None).await;
    let status = status.ok().and_then(|status| status.json::<StatusReport>().ok());
    let orders = status.and_then(|status| status.orders).map(|orders| orders.queued + orders.generating);
    Ok(NavCounts { inbox, orders, sources: read_stale(console).await })
}

/// The number of stale sources. A task of its own counts them, so that it completes if the page is closed or does not wait.
async fn read_stale(console: &Console) -> Option<u64> {
    let (stale, options) = (Arc::clone(&console.frame.stale), console.options.clone());
    let counted = tokio::spawn(async move { stale.renew(count_stale(&options)).await });
    if timeout(STALE_WAIT, counted).await.is_ok_and(|counted| counted.is_err()) {
        return None;
    }
    console.frame.stale.last().await
}

async fn count_stale(options: &GlobalOptions) -> Result<u64, CtlError> {
    let sources = options.call_routes(Method::GET, "/v1/sources", None).await?;
    let mut stale = 0;
    for source in sources.json::<Vec<SourceSummary>>()? {
        let path = format!("/v1/sources/{}/freshness", encode_segment(source.entry.oracle_id().as_str()));
        let report: FreshnessReport = options.call_control(Method::GET, &path, None).await?.json()?;
        stale += u64::from(report.now.axes.iter().any(|axis| axis.stale));
    }
    Ok(stale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stale_sources_are_counted_once_in_a_while() {
        let stale = StaleSources::default();
        stale.renew(async { Err(CtlError::Usage("no daemon".to_owned())) }).await;
        assert_eq!(stale.last().await, None);
        for number in [3, 4] {
            stale.renew(async { Ok(number) }).await;
            assert_eq!(stale.last().await, Some(3));
        }
    }

    #[tokio::test]
    async fn text_of_an_item_is_read_once() {
        let texts = KnownTexts::default();
        let failure = || CtlError::Usage("no daemon".to_owned());
        assert_eq!(texts.get("v-1", async { Err(failure()) }).await, None);
        for text in ["Population, Aruba, 1961", "another text"] {
            let read = texts.get("v-1", async { Ok(text.to_owned()) }).await;
            assert_eq!(read.as_deref(), Some("Population, Aruba, 1961"));
        }
    }
}
