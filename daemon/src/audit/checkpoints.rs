//! Hands out signed checkpoints of the log, and compares the log with earlier ones at the start; with their
//! configuration.

use crate::platform::config::credentials::ClientSetup;
use crate::platform::config::{
    ConfigError, Configuration, Section, check_path, check_url, is_table_name, not_allowed_error,
};
use crate::platform::service::DaemonService;
use actors_upstream::web::witness::{SignedCheckpoint, WitnessClient};
use actors_upstream::witnesses::{ConflictingWitness, Witnesses};
use anyhow::{Context, bail};
use domain_audit::checkpoint::{Checkpoint, LogSigner, WitnessKey, WitnessKeyError};
use jiff::Timestamp;
use oracled_store::{Journal, Store};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep};
use utoipa::ToSchema;

/// Time before a start asks a witness again that reported a conflict.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// Compares the log with the checkpoints in the configured folder. If a tile of its tree is damaged, the database is rebuilt
/// first.
///
/// # Errors
/// The log does not continue that of a checkpoint, or the folder or a checkpoint cannot be read.
pub(crate) fn check_or_repair(
    section: &CheckpointsSection,
    journal: &mut Journal,
    store: &Store,
) -> anyhow::Result<()> {
    let Some(dir) = &section.dir else { return Ok(()) };
    let folder = CheckpointFolder::new(dir, store)?;
    match folder.check_log(store) {
        Err(error) if !journal.repair_now()? => Err(error),
        Err(_) => folder.check_log(store),
        checked => checked,
    }
}

/// Compares the log with those that the witnesses have seen. A witness that does not answer is asked again with the next
/// checkpoint.
///
/// # Errors
/// The log does not continue those of `checkpoints.stop_at_conflicts` witnesses.
pub(crate) async fn check_witnesses(
    witnesses: &Witnesses,
    signer: &LogSigner,
    store: &Store,
) -> anyhow::Result<()> {
    let (size, root) = store.log_head();
    let checkpoint = SignedCheckpoint { size, note: signer.sign(size, root) };
    witnesses.submit(store, checkpoint.clone()).await;
    if witnesses.has_unconfirmed_conflict() {
        sleep(REPEAT_PAUSE).await;
        witnesses.submit(store, checkpoint).await;
    }
    let Some(ConflictingWitness { name, conflict }) = witnesses.stopping_conflict() else { return Ok(()) };
    bail!(
        "the log conflicts with the witness {name}: {conflict}; restore a newer copy of the state directory; if its entries are \
         lost for good, remove `checkpoints.witnesses.{name}` from the configuration"
    )
}

/// The task that hands out checkpoints.
#[derive(Debug)]
pub(crate) struct CheckpointTask {
    task: JoinHandle<u64>,
    stop: watch::Sender<bool>,
}

impl CheckpointTask {
    #[must_use]
    pub(crate) fn start(service: &Arc<DaemonService>) -> Self {
        let (stop, mut stopped) = watch::channel(false);
        let service = Arc::clone(service);
        let mut ticks = interval(Duration::from_secs(service.section::<CheckpointsSection>().every_s));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let task = tokio::spawn(async move {
            let mut size = 0;
            loop {
                tokio::select! {
                    _ = ticks.tick() => {}
                    _ = stopped.changed() => return size,
                }
                let checkpoint = newest_checkpoint(&service);
                size = hand_out(&service, &checkpoint, size).await;
                tokio::select! {
                    () = have_cosigned(&service, checkpoint) => {}
                    _ = stopped.changed() => return size,
                }
            }
        });
        Self { task, stop }
    }

    /// Ends the task, and hands out the checkpoint of the whole log. Call this after the last entry.
    pub(crate) async fn stop(self, service: &Arc<DaemonService>) {
        self.stop.send_replace(true);
        let size = self.task.await.unwrap_or_default();
        let checkpoint = newest_checkpoint(service);
        hand_out(service, &checkpoint, size).await;
        have_cosigned(service, checkpoint).await;
    }
}

fn newest_checkpoint(service: &DaemonService) -> SignedCheckpoint {
    let (size, root) = service.system.store.log_head();
    SignedCheckpoint { size, note: service.log_signer.sign(size, root) }
}

/// Hands out a checkpoint to the service log and the folder if the log has more than `last` entries. Returns the number of
/// entries of the last checkpoint.
async fn hand_out(service: &Arc<DaemonService>, checkpoint: &SignedCheckpoint, last: u64) -> u64 {
    let SignedCheckpoint { size, note } = checkpoint;
    if *size == last {
        return last;
    }
    // as a string with escapes, so that the note is one line
    tracing::info!(size, note = ?note, "checkpoint of the log");
    if write(service, note.clone()).await { *size } else { last }
}

/// Has a checkpoint cosigned by the witnesses. They also get one that they know: its new cosignature shows that they know no
/// later one.
async fn have_cosigned(service: &Arc<DaemonService>, checkpoint: SignedCheckpoint) {
    let checkpoint = match &service.cluster {
        None => checkpoint,
        // a witness would report a longer log to a host that lacks entries
        Some(member) if !member.turn.is_ours() || service.catch_up().await.is_err() => return,
        Some(_) => newest_checkpoint(service),
    };
    let is_known = service.witnesses.cosigned().is_some_and(|cosigned| cosigned.size == checkpoint.size);
    let cosigned = service.witnesses.submit(&service.system.store, checkpoint).await;
    if service.witnesses.has_unconfirmed_conflict() {
        tracing::warn!("a witness reports a conflict; it is asked again with the next checkpoint");
    }
    let stops_work = service.witnesses.stopping_conflict().is_some();
    for ConflictingWitness { name, conflict } in service.witnesses.conflicts() {
        tracing::error!(
            witness = name,
            conflict,
            stops_work,
            "the log does not continue that of the witness"
        );
    }
    let Some(SignedCheckpoint { size, note }) = cosigned else { return };
    if !is_known {
        tracing::info!(size, note = ?note, "cosigned checkpoint of the log");
    }
    write(service, note).await;
}

/// Writes a checkpoint to the folder, if there is one. Returns whether it was written.
async fn write(service: &Arc<DaemonService>, note: String) -> bool {
    let Some(dir) = service.section::<CheckpointsSection>().dir.clone() else { return true };
    let (store, now) = (service.system.store.clone(), service.system.clock.now());
    let written = spawn_blocking(move || CheckpointFolder::new(&dir, &store)?.write(&note, now)).await;
    match written.map_err(anyhow::Error::from).and_then(|written| written) {
        Ok(()) => true,
        Err(error) => {
            let error = format!("{error:#}");
            tracing::error!(error, "could not write the checkpoint of the log");
            false
        }
    }
}

/// The most days with a checkpoint.
const DAYS_MAX: usize = 32;
/// The end of the name of each checkpoint.
const FILE_END: &str = ".checkpoint";

/// The checkpoints of one log in a folder. Several daemons can use one folder.
///
/// A log that was rolled back must continue all of them. So a replaced newest checkpoint is noticed, and the older ones are
/// at hand for auditors. One file for each day is a small number of files for a long time, whatever the interval is.
#[derive(Debug)]
struct CheckpointFolder<'d> {
    dir: &'d Path,
    /// The start of the names of its files.
    log: String,
}

impl<'d> CheckpointFolder<'d> {
    /// The checkpoints of the log of `store` in `dir`.
    ///
    /// # Errors
    /// `dir` is not a folder, or the store cannot be read.
    fn new(dir: &'d Path, store: &Store) -> anyhow::Result<Self> {
        if !dir.is_dir() {
            bail!(
                "`checkpoints.dir` is {}, which is not a folder; create it, or mount its disk",
                dir.display()
            );
        }
        Ok(Self { dir, log: store.log_name()?.replace('/', "-") })
    }

    /// Compares the log with all checkpoints. A log that is shorter or different is an older or a changed copy.
    ///
    /// A damaged checkpoint is left out if the log continues another one: a writer to the folder could also remove it.
    ///
    /// # Errors
    /// The log does not continue that of a checkpoint, or no checkpoint can be read.
    fn check_log(&self, store: &Store) -> anyhow::Result<()> {
        let mut files = self.days()?;
        files.extend(Some(self.newest()).filter(|file| file.exists()));
        if files.is_empty() {
            let dir = self.dir.display();
            tracing::warn!(%dir, log = self.log, "no earlier checkpoint: the log is not compared with one");
        }
        let (mut is_compared, mut damaged) = (false, Vec::new());
        // the newest first: its error names the most entries
        for file in files.iter().rev() {
            match read_checkpoint(file) {
                Ok(earlier) => {
                    self.compare(file, &earlier, store)?;
                    is_compared = true;
                }
                Err(error) => damaged.push((file, error)),
            }
        }
        for (file, error) in damaged {
            let remedy = format!("to remove this fault, move {} aside", file.display());
            if !is_compared {
                return Err(error.context(format!(
                    "no checkpoint in {} can be read, so the log is not compared with one; copy one from a backup of the folder; \
                     {remedy}",
                    self.dir.display()
                )));
            }
            let (error, file) = (format!("{error:#}"), file.display());
            tracing::error!(%file, error, remedy, "a checkpoint is damaged; the log continues the others");
        }
        Ok(())
    }

    fn compare(&self, file: &Path, earlier: &Checkpoint, store: &Store) -> anyhow::Result<()> {
        let at = file.display();
        let remedy = format!(
            "restore a newer copy of the state directory. If its entries are lost for good, or a daemon on a copy wrote that checkpoint, \
             move {}*{FILE_END} aside",
            self.dir.join(&self.log).display()
        );
        let entries = store.log_head().0;
        match store.log_root(earlier.size)? {
            Some(root) if root == earlier.root => Ok(()),
            Some(_) => bail!(
                "the first {} entries of the log are not those of the checkpoint in {at}: an entry was changed, or the log is \
                 another one; {remedy}",
                earlier.size,
            ),
            None => bail!(
                "the log has {entries} entries, and had {} at the checkpoint in {at}: the state directory is an older copy; \
                 {remedy}",
                earlier.size,
            ),
        }
    }

    /// Writes a checkpoint as the newest one and as that of the day, and removes those of the oldest days.
    ///
    /// # Errors
    /// A file cannot be written or removed.
    fn write(&self, note: &str, now: Timestamp) -> anyhow::Result<()> {
        let day = self.dir.join(format!("{}.{}{FILE_END}", self.log, now.strftime("%Y-%m-%d")));
        write_file(&day, note)?;
        write_file(&self.newest(), note)?;
        let days = self.days()?;
        for file in days.iter().rev().skip(DAYS_MAX) {
            fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
        }
        Ok(())
    }

    /// The file of the newest checkpoint.
    fn newest(&self) -> PathBuf {
        self.dir.join(format!("{}{FILE_END}", self.log))
    }

    /// The files of the days, in their order.
    fn days(&self) -> anyhow::Result<Vec<PathBuf>> {
        let read = || -> io::Result<Vec<PathBuf>> {
            let mut files = Vec::new();
            for entry in fs::read_dir(self.dir)? {
                let name = entry?.file_name();
                let name = name.to_str().unwrap_or_default();
                let day = name.strip_prefix(&self.log).and_then(|rest| rest.strip_suffix(FILE_END));
                files.extend(day.filter(|day| day.starts_with('.')).map(|_| self.dir.join(name)));
            }
            files.sort_unstable();
            Ok(files)
        };
        read().with_context(|| format!("cannot list {}", self.dir.display()))
    }
}

/// Reads a checkpoint. Its signature is not needed: a writer to the folder can also remove the checkpoint.
fn read_checkpoint(file: &Path) -> anyhow::Result<Checkpoint> {
    let at = file.display();
    let note = fs::read_to_string(file).with_context(|| format!("cannot read the checkpoint {at}"))?;
    Checkpoint::read_unverified(&note).with_context(|| format!("the checkpoint {at} is damaged"))
}

/// Writes a file as a whole or not at all.
fn write_file(file: &Path, note: &str) -> anyhow::Result<()> {
    let incomplete = file.with_extension("checkpoint.new");
    let written = File::create(&incomplete).and_then(|mut written| {
        written.write_all(note.as_bytes())?;
        written.sync_all()?;
        fs::rename(&incomplete, file)
    });
    written.with_context(|| format!("cannot write {}", file.display()))
}

/// Maximum number of witnesses. A verifier may refuse a checkpoint with more than 16 signatures, of which one is the log's.
const WITNESSES_MAX: usize = 15;

/// Signed checkpoints of the log, which the daemon hands out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckpointsSection {
    /// Existing folder for the newest checkpoint and the last one of each of 32 days, outside of `state_dir`, at best on another
    /// machine's disk. The daemon does not start if its log does not continue the logs of these checkpoints.
    #[schema(value_type = Option<String>)]
    pub dir: Option<PathBuf>,
    /// Interval of checkpoints. The folder and the service log get one while the log grows, the witnesses in any case.
    #[schema(minimum = 1, maximum = 86_400)]
    pub every_s: u64,
    /// Witnesses that cosign checkpoints by C2SP `tlog-witness`, at most 15, by name: 1 to 32 of `a-z 0-9 -`. `key` is the public
    /// key of the witness, `NAME+ID+KEY` with an Ed25519 key for cosignatures (type 4). `url` is its submission prefix, the part
    /// before `/add-checkpoint`: https, or http to a numeric address in `ingestion.allow_local`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub witnesses: BTreeMap<String, WitnessSection>,
    /// Time limit of the submission of a checkpoint to a witness. A start waits for the witnesses as long as this.
    #[schema(minimum = 100, maximum = 10_000)]
    witness_timeout_ms: u64,
    /// The number of witnesses that must report a conflict before new work stops, and a start is refused. Fewer raise an alert.
    /// A report is not signed: with 1, each witness alone can stop the daemon.
    #[schema(minimum = 1, maximum = 15)]
    pub stop_at_conflicts: usize,
}

/// A witness of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WitnessSection {
    /// Its public key.
    pub key: String,
    /// Its submission prefix.
    pub url: String,
}

impl Default for CheckpointsSection {
    fn default() -> Self {
        Self {
            dir: None,
            every_s: 300,
            witnesses: BTreeMap::new(),
            witness_timeout_ms: 5000,
            stop_at_conflicts: 2,
        }
    }
}

impl WitnessSection {
    /// The public key.
    ///
    /// # Errors
    /// If the text is not one.
    fn to_key(&self) -> Result<WitnessKey, WitnessKeyError> {
        self.key.parse()
    }
}

impl Section for CheckpointsSection {
    fn key(&self) -> &'static str {
        "checkpoints"
    }

    fn check_limits(&self, all: &dyn Configuration) -> Vec<ConfigError> {
        self.check_all(all.state_dir())
    }
}

impl CheckpointsSection {
    /// The keys of the witnesses that have cosigned the checkpoint in `note`.
    pub(crate) fn cosigning_keys(&self, note: &str) -> Vec<String> {
        let keys = self.witnesses.values().filter_map(|witness| witness.to_key().ok());
        keys.filter(|key| key.verify(note).is_ok()).map(|key| key.to_string()).collect()
    }

    /// The witnesses; `None` if one cannot be used. No connection is opened yet.
    pub(crate) fn create_witnesses(&self, setup: &mut ClientSetup<'_>) -> Option<Witnesses> {
        let (allow_local, allow_cleartext) = (&setup.network.allow_local, setup.network.allow_cleartext);
        let timeout = Duration::from_millis(self.witness_timeout_ms);
        let (mut clients, mut faults) = (Vec::new(), Vec::new());
        for (name, witness) in &self.witnesses {
            let fault = |key: &str, error: String| {
                ConfigError::NotUnderstood(format!("`checkpoints.witnesses.{name}.{key}`: {error}"))
            };
            let client = witness.to_key().map_err(|error| fault("key", error.to_string())).and_then(|key| {
                let clock = setup.clock.clone();
                WitnessClient::new(&witness.url, key, allow_local, timeout, allow_cleartext, clock)
                    .map_err(|error| fault("url", error.to_string()))
            });
            clients.extend(ConfigError::collect(client, &mut faults).map(|client| (name.clone(), client)));
        }
        if faults.is_empty() {
            return Some(Witnesses::new(clients, self.stop_at_conflicts, setup.clock.clone()));
        }
        setup.faults.push(ConfigError::Several(faults));
        None
    }

    fn check_all(&self, state_dir: &Path) -> Vec<ConfigError> {
        let checks = [self.check_dir(state_dir), self.check_witness_names()];
        let of_witnesses = self.witnesses.iter().flat_map(|(name, witness)| check_witness(name, witness));
        checks.into_iter().chain(of_witnesses).filter_map(Result::err).collect()
    }

    fn check_dir(&self, state_dir: &Path) -> Result<(), ConfigError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        check_path("checkpoints.dir", dir, usize::MAX)?;
        if dir.starts_with(state_dir) {
            return Err(not_allowed_error(
                "checkpoints.dir",
                dir.display(),
                "a folder outside of `state_dir`",
            ));
        }
        Ok(())
    }

    fn check_witness_names(&self) -> Result<(), ConfigError> {
        let fault =
            |given: &str, allowed: &str| Err(not_allowed_error("checkpoints.witnesses", given, allowed));
        if self.witnesses.len() > WITNESSES_MAX {
            let given = format!("{} tables", self.witnesses.len());
            return fault(&given, &format!("at most {WITNESSES_MAX}"));
        }
        if !self.witnesses.keys().all(|name| is_table_name(name)) {
            return fault("a table with another name", "names of 1 to 32 of `a-z 0-9 -`");
        }
        let keys: BTreeSet<_> = self.witnesses.values().map(|witness| &witness.key).collect();
        if keys.len() < self.witnesses.len() {
            return fault("two tables with the same `key`", "one table for each witness");
        }
        Ok(())
    }
}

fn check_witness(name: &str, witness: &WitnessSection) -> [Result<(), ConfigError>; 2] {
    let key = |key: &str| format!("checkpoints.witnesses.{name}.{key}");
    let of_key = witness.to_key().map(drop);
    let of_key = of_key.map_err(|error| ConfigError::NotUnderstood(format!("`{}`: {error}", key("key"))));
    let of_url = check_url(&key("url"), &witness.url).and_then(|()| {
        if witness.url.contains(['?', '#']) {
            let allowed = "the URL of the witness up to the part before `/add-checkpoint`";
            return Err(not_allowed_error(key("url"), "a URL with a query or a fragment", allowed));
        }
        Ok(())
    });
    [of_key, of_url]
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    #[test]
    fn folder_keeps_the_last_checkpoint_of_each_of_32_days() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = CheckpointFolder { dir: dir.path(), log: "oracled-1".to_owned() };
        let other = dir.path().join("oracled-12.2026-11-20.checkpoint");
        fs::write(&other, "of another log").expect("the write succeeds");
        let start: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a time");
        for hours in (0..40 * 24).step_by(12) {
            folder
                .write(&format!("after {hours} h"), start + SignedDuration::from_hours(hours))
                .expect("written");
        }
        let days = folder.days().expect("the folder is readable");
        assert_eq!(days.len(), DAYS_MAX);
        let read = |file: &Path| fs::read_to_string(file).expect("the file is readable");
        let (first, last) = (days.first().expect("a day"), days.last().expect("a day"));
        assert!(first.ends_with("oracled-1.2026-11-28.checkpoint"), "{first:?}");
        assert!(last.ends_with("oracled-1.2026-12-29.checkpoint"), "{last:?}");
        assert_eq!((read(first), read(last)), ("after 204 h".to_owned(), "after 948 h".to_owned()));
        assert_eq!(
            (read(&folder.newest()), read(&other)),
            ("after 948 h".to_owned(), "of another log".to_owned())
        );
    }

    const KEY: &str = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2";

    fn faults(witnesses: &[(&str, &str, &str)]) -> String {
        let witness = |(name, key, url): &(&str, &str, &str)| {
            ((*name).to_owned(), WitnessSection { key: (*key).to_owned(), url: (*url).to_owned() })
        };
        let witnesses = witnesses.iter().map(witness).collect();
        let section = CheckpointsSection { witnesses, ..CheckpointsSection::default() };
        ConfigError::Several(section.check_all(Path::new("/s"))).to_string()
    }

    #[test]
    fn witness_fault_names_its_key() {
        let url = "https://w.example/prefix";
        assert_eq!(faults(&[("w1", KEY, url)]), "");
        let of_log = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
        for (name, key, url, fault) in [
            ("W1", KEY, url, "`checkpoints.witnesses` is a table with another name"),
            ("w1", of_log, url, "`checkpoints.witnesses.w1.key`: the text is not the key of a witness"),
            ("w1", "", url, "`checkpoints.witnesses.w1.key`"),
            ("w1", KEY, "", "`checkpoints.witnesses.w1.url`"),
            ("w1", KEY, "ftp://w.example", "`checkpoints.witnesses.w1.url`"),
            ("w1", KEY, "https://u:p@w.example", "`checkpoints.witnesses.w1.url` is a URL with a login"),
            ("w1", KEY, "https://w.example/?a=b", "`checkpoints.witnesses.w1.url` is a URL with a query"),
        ] {
            let found = faults(&[(name, key, url)]);
            assert!(found.contains(fault), "{name} {key} {url}: {found}");
        }
        let twice = faults(&[("w1", KEY, url), ("w2", KEY, url)]);
        assert!(twice.contains("`checkpoints.witnesses`") && twice.contains("`key`"), "{twice}");
        let names: Vec<_> = (0..16).map(|n| format!("w{n}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), KEY, url)).collect();
        let many = faults(&many);
        assert!(["`checkpoints.witnesses`", " 16 ", " 15"].iter().all(|part| many.contains(part)), "{many}");
    }
}
