//! The size of the state directory by part, which a background task measures.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::fs::{self, DirEntry};
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The time between two measurements. A state directory can have hundreds of thousands of files.
const EVERY: Duration = Duration::from_secs(60);
/// The parts, with the start of the paths of their files in the state directory.
const PARTS: [(&str, &str); 6] = [
    ("segments", "segments"),
    ("database", "store"),
    ("log_lines", "oracle_log"),
    ("facts", "ground/facts"),
    ("payloads", "ground/raw"),
    ("work", "ground/work"),
];
/// The part of the other files.
const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartLabels {
    part: &'static str,
}

/// The metric of the size. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StateSizeMetrics(Family<PartLabels, Gauge>);

impl StateSizeMetrics {
    pub fn register(&self, registry: &mut Registry) {
        let help = "Size of the state directory by part, measured every 60 s";
        registry.register_with_unit("storage", help, Unit::Bytes, self.0.clone());
    }

    fn set(&self, sizes: &[(&'static str, u64)]) {
        for (part, bytes) in sizes {
            self.0.get_or_create(&PartLabels { part }).set(i64::try_from(*bytes).unwrap_or(i64::MAX));
        }
    }
}

/// The task that measures the state directory.
#[derive(Debug)]
pub(crate) struct StateSizeTask(JoinHandle<()>);

impl StateSizeTask {
    #[must_use]
    pub(crate) fn start(dir: &Path, metrics: &StateSizeMetrics) -> Self {
        let (dir, metrics) = (dir.to_owned(), metrics.clone());
        Self(tokio::spawn(async move {
            loop {
                let dir = dir.clone();
                match tokio::task::spawn_blocking(move || measure_parts(&dir)).await {
                    Ok(sizes) => metrics.set(&sizes),
                    Err(error) => tracing::warn!(%error, "could not measure the state directory"),
                }
                sleep(EVERY).await;
            }
        }))
    }

    pub(crate) fn stop(self) {
        self.0.abort();
    }
}

/// The bytes of the files of each part. A file that disappears meanwhile counts as 0.
fn measure_parts(dir: &Path) -> Vec<(&'static str, u64)> {
    let mut sizes: Vec<_> = PARTS.iter().map(|(part, _)| (*part, 0)).chain([(OTHER, 0)]).collect();
    add_files(dir, "", &mut sizes);
    sizes
}

/// Adds the files in `dir`, whose path in the state directory is `prefix`.
fn add_files(dir: &Path, prefix: &str, sizes: &mut [(&'static str, u64)]) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(metadata) = DirEntry::metadata(&entry) else { continue };
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if metadata.is_dir() {
            add_files(&entry.path(), &format!("{path}/"), sizes);
            continue;
        }
        let part = PARTS.iter().find(|(_, start)| path.starts_with(start)).map_or(OTHER, |(part, _)| *part);
        if let Some((_, bytes)) = sizes.iter_mut().find(|(name, _)| *name == part) {
            *bytes += metadata.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_of_the_state_directory_is_in_one_part() {
        let dir = tempfile::tempdir().expect("a directory");
        for (path, bytes) in [
            ("segments/0000000001", 1),
            ("segments/spare", 2),
            ("store/db", 4),
            ("store/blobs/1", 8),
            ("oracle_log.jsonl", 16),
            ("oracle_log-1.jsonl", 32),
            ("ground/facts/a.sorted", 64),
            ("ground/raw/a.raw", 128),
            ("ground/work/run/1", 256),
            ("log.key", 512),
            ("ground/unknown", 1024),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is created");
            fs::write(path, vec![b'x'; bytes]).expect("the file is written");
        }
        let sizes = [3, 12, 48, 64, 128, 256, 1536];
        let measured: Vec<_> = measure_parts(dir.path()).into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(measured, sizes);
    }
}
