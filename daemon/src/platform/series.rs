//! The metrics over time, which the daemon samples itself. A file in the state directory keeps them over a restart.

use super::api::metrics::{FeatureMetrics, collect, declared_series};
use super::api::request::QueryParams;
use super::openapi::CommonProblems;
use super::routes::{Routes, routes};
use super::service::DaemonService;
use axum::Json;
use axum::extract::State;
use domain_base::digest::{DIGITS, Sha256Hex};
use domain_base::series::{SeriesHistory, SeriesParams, SeriesResponse};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The name of the file in the state directory.
const FILE: &str = "series.json";
/// The time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(20);
/// The number of samples after which the file is written: 10 minutes.
const SAMPLES_PER_WRITE: u32 = 30;
/// Maximum time of the write at the stop: a hanging disk must not block the stop.
const STOP_MAX: Duration = Duration::from_secs(1);

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    routes![read_series]
}

/// Read the metrics of the last hour, day or week.
///
/// The daemon samples its metrics every 20 s. The values survive a restart; after a crash, the last 10 minutes can be missing.
#[utoipa::path(
    get,
    path = "/v1/series",
    operation_id = "read_series",
    tag = "platform",
    params(SeriesParams),
    responses(
        CommonProblems,
        (status = 200, description = "The values of each series", body = SeriesResponse),
    ),
)]
async fn read_series(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<SeriesParams>,
) -> Json<SeriesResponse> {
    let now = service.system.clock.now();
    Json(service.series.lock().unwrap_or_else(PoisonError::into_inner).read(params.range, now))
}

/// The task that samples the metrics.
#[derive(Debug)]
pub(crate) struct SeriesTask {
    task: JoinHandle<()>,
    series: Arc<Mutex<SeriesHistory>>,
    file: PathBuf,
}

impl SeriesTask {
    /// Restores the values in the state directory `dir`, and starts the task.
    pub(crate) fn start(
        service: &Arc<DaemonService>,
        dir: &Path,
        features: &'static [FeatureMetrics],
    ) -> Self {
        let (series, file) = (Arc::clone(&service.series), dir.join(FILE));
        *series.lock().unwrap_or_else(PoisonError::into_inner) = restore(&file, features);
        let task = tokio::spawn(sample(Arc::clone(service), file.clone(), features));
        Self { task, series, file }
    }

    /// Stops the task, and writes the values.
    pub(crate) async fn stop(self) {
        self.task.abort();
        drop(self.task.await);
        if timeout(STOP_MAX, write(self.series, self.file)).await.is_err() {
            tracing::warn!(file = FILE, "the last values of the series of metrics are not written");
        }
    }
}

async fn sample(service: Arc<DaemonService>, file: PathBuf, features: &'static [FeatureMetrics]) {
    let mut ticks = interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut unwritten = 0;
    loop {
        ticks.tick().await;
        match collect(&service, features).await {
            Ok(text) => {
                let now = service.system.clock.now();
                service.series.lock().unwrap_or_else(PoisonError::into_inner).add(&text, now);
                unwritten += 1;
            }
            Err(error) => tracing::warn!(%error, "the series of metrics lack a sample"),
        }
        if unwritten >= SAMPLES_PER_WRITE {
            write(Arc::clone(&service.series), file.clone()).await;
            unwritten = 0;
        }
    }
}

/// The values in `file`; none if it does not exist or is damaged.
fn restore(file: &Path, features: &[FeatureMetrics]) -> SeriesHistory {
    let mut history = SeriesHistory::new(declared_series(features));
    let restored = fs::read(file).and_then(|content| {
        let (digest, json) = content.split_at_checked(DIGITS).unwrap_or_default();
        if Sha256Hex::of(json).as_str().as_bytes() != digest {
            return Err(io::Error::new(ErrorKind::InvalidData, "the content does not have its SHA-256"));
        }
        Ok(history.restore(json)?)
    });
    match restored {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(%error, file = FILE, "the series of metrics begin again, because their file cannot be read");
        }
        _ => {}
    }
    history
}

/// Replaces the file: its SHA-256, then the values.
async fn write(series: Arc<Mutex<SeriesHistory>>, file: PathBuf) {
    let written = spawn_blocking(move || {
        let json = series.lock().unwrap_or_else(PoisonError::into_inner).to_json();
        let piece = file.with_extension("json.new");
        let mut new = File::create(&piece)?;
        new.write_all(Sha256Hex::of(&json).as_str().as_bytes())?;
        new.write_all(&json)?;
        // a crash of the system must not leave an empty file
        new.sync_data()?;
        fs::rename(&piece, &file)
    });
    let written = written.await.map_err(io::Error::other).and_then(|written| written);
    if let Err(error) = written {
        tracing::warn!(%error, file = FILE, "could not write the series of metrics");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::api::metrics::declared_series;
    use domain_base::series::SeriesRange;
    use jiff::Timestamp;

    #[tokio::test]
    async fn file_restores_the_values_unless_it_is_damaged() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join(FILE);
        let at = Timestamp::from_second(600).expect("a time");
        let mut history = SeriesHistory::new(declared_series(&[]));
        let scrape = |requests| {
            format!("oracled_http_requests_total{{socket=\"routes\",status=\"200\"}} {requests}\n")
        };
        history.add(&scrape(1), Timestamp::from_second(540).expect("a time"));
        history.add(&scrape(3), at);
        write(Arc::new(Mutex::new(history)), file.clone()).await;
        let read = |history: SeriesHistory| {
            let answer = history.read(SeriesRange::Hour, at);
            answer.series.first().and_then(|series| series.values.last().copied().flatten())
        };
        assert_eq!(read(restore(&file, &[])), Some(2.0));
        let mut content = fs::read(&file).expect("the file exists");
        *content.last_mut().expect("it has content") = b' ';
        fs::write(&file, content).expect("the file is written");
        assert_eq!(read(restore(&file, &[])), None);
        fs::write(&file, "short").expect("the file is written");
        assert_eq!(read(restore(&file, &[])), None);
    }
}
