//! The metrics of sources.

use crate::platform::problem::Problem;
use crate::platform::scraped_metrics::MetricsText;
use crate::platform::service::{DaemonService, run_blocking};
use domain_ground::source::VersionRecord;
use domain_ground::source_state::SourceState;
use domain_ground::upkeep::SourceCheck;
use oracled_store::StoreError;
use std::sync::Arc;

/// A source with the state of its files.
struct SourceFiles {
    state: SourceState,
    /// Number of its files that are missing or truncated.
    missing: usize,
    last_check: Option<SourceCheck>,
}

/// Reads for each source: when it was last ingested and released (if ever), its held runs, its missing files, and the result of
/// its last check.
pub(crate) async fn read(service: &Arc<DaemonService>) -> Result<MetricsText, Problem> {
    let store = service.system.store.clone();
    let sources = run_blocking(move || {
        let with_files = |state: SourceState| {
            let missing = store.files().faults(&state).len();
            let last_check = store.source_check(state.entry.oracle_id());
            SourceFiles { state, missing, last_check }
        };
        Ok::<_, StoreError>(store.sources()?.into_iter().map(with_files).collect::<Vec<_>>())
    });
    let sources = sources.await?;
    let label = |source: &SourceFiles| format!("oracle=\"{}\"", source.state.entry.oracle_id());
    let latest = |source: &SourceFiles, read: fn(&VersionRecord) -> jiff::Timestamp| {
        Some((label(source), source.state.entry.version_history.iter().map(read).max()?.as_second()))
    };
    let mut text = MetricsText::default();
    text.gauges(
        "source_ingested_timestamp_seconds",
        "when the last run of a source became visible",
        sources.iter().filter_map(|source| latest(source, |version| version.ingested_at)),
    );
    text.gauges(
        "source_released_timestamp_seconds",
        "when the newest version of a source was released",
        sources.iter().filter_map(|source| latest(source, |version| version.released_at)),
    );
    text.gauges(
        "source_runs_held",
        "runs of a source that are held for an operator's decision",
        sources.iter().map(|source| (label(source), source.state.held.len())),
    );
    text.gauges(
        "source_files_missing",
        "files of a source that are missing, or have another length",
        sources.iter().map(|source| (label(source), source.missing)),
    );
    let checked = || sources.iter().filter_map(|source| Some((label(source), source.last_check.as_ref()?)));
    text.gauges(
        "source_faults",
        "faults that the last check of a source found",
        checked().map(|(label, check)| (label, check.fault_count)),
    );
    text.gauges(
        "source_checked_timestamp_seconds",
        "when the last check of a source ended",
        checked().map(|(label, check)| (label, check.checked_at.as_second())),
    );
    Ok(text)
}
