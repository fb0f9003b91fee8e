//! The daily removal of data that are older than configured, and its configuration.

use crate::platform::cluster::ClusterSection;
use crate::platform::config::{ConfigError, Configuration, Section, not_allowed_error};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_ground::ingestion::PruneOldContent;
use actors_verdict::erasure::RetentionDays;
use domain_base::caller::PeerCredentials;
use domain_verdict::wire::PayloadRetention;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use utoipa::ToSchema;

/// The time from the start to the first run.
const FIRST_AFTER: Duration = Duration::from_secs(5 * 60);
/// The time between the end of a run and the next one.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// After how many days data are removed from all files of the state directory. Without a key, data of its kind are kept forever.
/// The daemon removes due data once a day, and 5 minutes after a start. [Retention](../privacy.md#retention) has the details.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetentionSection {
    /// Days after the last change of a session. Then everything that `oraclectl erase` removes is removed.
    #[schema(minimum = 1, maximum = 36_500)]
    pub verdicts_days: Option<u32>,
    /// Days after a log entry. Then its caller and its erasable values are replaced by their hashes, except values of
    /// verifications. The session itself stays.
    #[schema(minimum = 1, maximum = 36_500)]
    pub log_values_days: Option<u32>,
    /// Days after a log entry about a verification or its review. Then its erasable values are replaced by their hashes, except its
    /// caller. Open reviews keep their values.
    #[schema(minimum = 1, maximum = 36_500)]
    pub verifications_days: Option<u32>,
    /// Days after a log entry. Then the entry is dropped from the log, and only its hash in the Merkle tree stays, so that all
    /// proofs of other entries stay valid. Sessions, verdicts and all other state stay. The log is dropped in blocks of some
    /// hundred entries.
    #[schema(minimum = 1, maximum = 36_500)]
    pub log_days: Option<u32>,
    /// Days after content of a source ceased to be valid. Then it is removed as by `oraclectl source prune`, with the payloads that
    /// no content needs; its provenance stays. A pipeline with a longer `storage.retention_days` keeps its content longer.
    #[schema(minimum = 1, maximum = 36_500)]
    pub payloads_days: Option<u32>,
}

impl Section for RetentionSection {
    fn key(&self) -> &'static str {
        "retention"
    }

    fn check(&self, all: &dyn Configuration) -> Vec<ConfigError> {
        let is_refused = self.payloads_days.is_some() && all.section::<ClusterSection>().lacks_objects();
        let allowed =
            "no value, since this host is one of a cluster (`cluster.host`) without `cluster.objects`";
        let fault = || not_allowed_error("retention.payloads_days", "set", allowed);
        is_refused.then(fault).into_iter().collect()
    }

    fn warnings(&self, _: &dyn Configuration) -> Vec<String> {
        // the values of its log entries go with a session
        let days = [
            ("verdicts_days", self.verdicts_days),
            ("log_days", self.log_days),
            ("log_values_days", self.log_values_days),
            ("verifications_days", self.verifications_days),
        ];
        let is_short = |(_, days): &(_, Option<u32>)| days.is_some_and(|days| days < LOGS_KEPT_DAYS);
        let short = days.into_iter().filter(is_short);
        let warn = |(key, days): (&str, Option<u32>)| {
            format!(
                "`retention.{key}` is {} days; the EU AI Act wants logs of high-risk systems kept for six months ({LOGS_KEPT_DAYS} days)",
                days.unwrap_or_default()
            )
        };
        short.map(warn).collect()
    }

    /// The age of a session is known from the log.
    fn check_limits(&self, _: &dyn Configuration) -> Vec<ConfigError> {
        self.check_log_days().err().into_iter().collect()
    }
}

/// How long the logs of a high-risk system have to be kept at least, by Articles 19 and 26(6) of the EU AI Act: six months.
const LOGS_KEPT_DAYS: u32 = 184;

impl RetentionSection {
    fn check_log_days(&self) -> Result<(), ConfigError> {
        match (self.log_days, self.verdicts_days) {
            (Some(log), Some(verdicts)) if log < verdicts => Err(not_allowed_error(
                "retention.log_days",
                log,
                format!(
                    "at least `retention.verdicts_days` ({verdicts}), since the log has the ages of sessions"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// The days by kind.
    #[must_use]
    pub const fn to_days(self) -> RetentionDays {
        RetentionDays {
            verdicts: self.verdicts_days,
            log_values: self.log_values_days,
            verifications: self.verifications_days,
            log: self.log_days,
        }
    }
}

/// The task that removes old data.
#[derive(Debug)]
pub(crate) struct RetentionTask(Option<JoinHandle<()>>);

impl RetentionTask {
    /// Starts the task if a kind of data is not kept forever.
    #[must_use]
    pub(crate) fn start(service: &Arc<DaemonService>) -> Self {
        let section = service.section::<RetentionSection>();
        let days = section.to_days();
        let is_configured = days != RetentionDays::default() || section.payloads_days.is_some();
        Self(is_configured.then(|| tokio::spawn(run_daily(Arc::clone(service), days))))
    }

    /// Starts no further run. A run in progress ends with `ErasureService::stop`, and continues after the next start.
    pub(crate) fn stop(self) {
        if let Self(Some(task)) = self {
            task.abort();
        }
    }
}

/// Prunes the content of sources that is older than configured. `None` if it is kept forever.
pub(crate) async fn prune_old_content(
    service: &DaemonService,
    peer: Option<PeerCredentials>,
    is_dry_run: bool,
) -> Result<Option<PayloadRetention>, Problem> {
    let Some(days) = service.section::<RetentionSection>().payloads_days else { return Ok(None) };
    let report = service.system.ingestion.ask(PruneOldContent { days, peer, is_dry_run }).await??;
    Ok(Some(PayloadRetention { days, report }))
}

async fn run_daily(service: Arc<DaemonService>, days: RetentionDays) {
    let mut pause = FIRST_AFTER;
    loop {
        sleep(pause).await;
        pause = EVERY;
        if service.require_turn("old data are removed").is_err() {
            continue;
        }
        let (erasure, log_key) = (service.system.erasure.clone(), service.log_signer.key().clone());
        // a task of its own, which the stop of this one does not cut off
        let run = tokio::spawn(async move {
            let turn = erasure.wait_for_turn().await;
            erasure.apply_retention(turn, days, None, &log_key).await
        });
        match run.await {
            Ok(Ok(applied)) => {
                tracing::info!(due = ?applied.due, unread_files = ?applied.unread_files, "retention applied");
            }
            Ok(Err(error)) => tracing::error!(%error, "could not remove old data"),
            Err(error) => tracing::error!(%error, "the removal of old data panicked; report this as a bug"),
        }
        match prune_old_content(&service, None, false).await {
            Ok(pruned) => tracing::info!(?pruned, "old content of sources was pruned"),
            Err(problem) => tracing::error!("could not prune old content of sources: {problem}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_days_below_verdicts_days_are_refused() {
        for (log, verdicts, is_allowed) in [(10, 20, false), (20, 20, true), (30, 20, true)] {
            let section = RetentionSection {
                log_days: Some(log),
                verdicts_days: Some(verdicts),
                ..RetentionSection::default()
            };
            let checked = section.check_log_days();
            assert_eq!(checked.is_ok(), is_allowed, "{checked:?}");
        }
    }
}
