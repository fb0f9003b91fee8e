//! The floor of every write: the journal without a daemon, with as many writers as there are connections.

use crate::load::{LoadRound, nanoseconds};
use crate::records::record;
use crate::table::histogram;
use hdrhistogram::Histogram;
use oracled_store::{Journal, JournalRecord, Store, StoreOptions};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{io, thread};
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The highest number of records in a group, as in the logger.
const GROUP_MAX: usize = 512;
/// The size of sled's page cache, in bytes: the daemon's default.
pub(crate) const CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// The memory for cached blocks of the ground-truth layer's files, in bytes: the daemon's default.
pub(crate) const FACTS_CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// A record for the committing thread, and the channel for its reply.
type QueuedRecord = (JournalRecord, oneshot::Sender<()>);

/// A journal without a daemon.
pub(crate) struct StandaloneJournal {
    journal: Journal,
}

impl StandaloneJournal {
    /// Opens a journal in `dir`.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        Ok(Self { journal: open(dir)? })
    }

    /// Runs `writers` tasks that submit records. Each sends its next record when the previous one is durable.
    /// Returns the sizes of the groups, too.
    ///
    /// A submission has one record or several. Before its last record it waits for `pause`, which does not
    /// count. After a pause the disk is slower than in continuous use.
    pub(crate) fn round(
        &mut self,
        writers: usize,
        submissions: usize,
        pause: Duration,
        batches: &mut impl Iterator<Item = Vec<JournalRecord>>,
    ) -> io::Result<(LoadRound, Vec<usize>)> {
        let share = submissions / writers;
        let shares: Vec<Vec<_>> = (0..writers).map(|_| batches.by_ref().take(share).collect()).collect();
        let (sender, receiver) = mpsc::channel();
        let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
        let journal = &mut self.journal;
        thread::scope(|scope| {
            let committing = scope.spawn(move || commit_all(journal, &receiver));
            let began = Instant::now();
            let latencies = runtime.block_on(async {
                let mut tasks = JoinSet::new();
                for submissions in shares {
                    tasks.spawn(submit_records(submissions, pause, sender.clone()));
                }
                let mut all = histogram();
                while let Some(of_one) = tasks.join_next().await {
                    all.add(of_one.expect("a writer does not panic")).expect("the bounds are the same");
                }
                all
            });
            let requests = share * writers;
            let rate = requests as f64 / began.elapsed().as_secs_f64();
            drop(sender);
            let groups = committing.join().expect("the journal does not panic")?;
            Ok((LoadRound { requests, rate, latencies }, groups))
        })
    }
}

async fn submit_records(
    submissions: Vec<Vec<JournalRecord>>,
    pause: Duration,
    sender: mpsc::Sender<QueuedRecord>,
) -> Histogram<u64> {
    let mut latencies = histogram();
    for records in submissions {
        let mut took = Duration::ZERO;
        let last = records.len() - 1;
        for (number, record) in records.into_iter().enumerate() {
            if number == last && !pause.is_zero() {
                sleep(pause).await;
            }
            let (reply, durable) = oneshot::channel();
            let began = Instant::now();
            sender.send((record, reply)).expect("the journal listens");
            durable.await.expect("the journal commits it");
            took += began.elapsed();
        }
        latencies.saturating_record(nanoseconds(took));
    }
    latencies
}

/// Commits waiting records as one group, until all senders are dropped.
fn commit_all(journal: &mut Journal, receiver: &mpsc::Receiver<QueuedRecord>) -> io::Result<Vec<usize>> {
    let mut groups = Vec::new();
    while let Ok(first) = receiver.recv() {
        let waiting = std::iter::once(first).chain(receiver.try_iter()).take(GROUP_MAX);
        let (records, replies): (Vec<JournalRecord>, Vec<_>) = waiting.unzip();
        let outcomes = journal.commit(&records).map_err(io::Error::other)?;
        groups.push(records.len());
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            outcome.map_err(io::Error::other)?;
            reply.send(()).expect("the writer waits for the reply");
        }
    }
    Ok(groups)
}

pub(crate) fn open(dir: &Path) -> io::Result<Journal> {
    let options = StoreOptions {
        dir: dir.to_owned(),
        cache_bytes: CACHE_BYTES,
        facts_cache_bytes: FACTS_CACHE_BYTES,
        min_free_bytes: 0,
    };
    Ok(Store::open(options).map_err(io::Error::other)?.0)
}

/// Fills the store in `dir` with the first verdicts of `verdicts` sessions.
pub(crate) fn fill_store(dir: &Path, verdicts: usize) -> io::Result<()> {
    commit_all_of(&mut open(dir)?, (0..verdicts).map(record))
}

/// Commits records in groups.
pub(crate) fn commit_all_of(
    journal: &mut Journal,
    mut records: impl Iterator<Item = JournalRecord>,
) -> io::Result<()> {
    loop {
        let group: Vec<JournalRecord> = records.by_ref().take(GROUP_MAX).collect();
        if group.is_empty() {
            return Ok(());
        }
        let outcomes = journal.commit(&group).map_err(io::Error::other)?;
        if let Some(refused) = outcomes.into_iter().find_map(Result::err) {
            return Err(io::Error::other(refused));
        }
    }
}
