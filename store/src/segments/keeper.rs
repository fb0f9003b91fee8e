//! The thread that prepares the next segment and compresses sealed ones, so that commits need not wait for that.

use super::files::SegmentFiles;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

#[derive(Debug, Clone, Copy)]
enum KeeperTask {
    /// Prepares the next segment with a size in bytes.
    Prepare(u64),
    /// Compresses the segment with this number, whose groups end at this byte, if that is known.
    Compress(u64, Option<u64>),
}

/// The handle of the thread. When it is dropped, the thread ends after its current task.
#[derive(Debug)]
pub(crate) struct SegmentKeeper {
    tasks: Option<mpsc::Sender<KeeperTask>>,
    prepared: Arc<Mutex<Option<File>>>,
    thread: Option<JoinHandle<()>>,
}

impl SegmentKeeper {
    pub(crate) fn start(files: SegmentFiles) -> Self {
        let (tasks, queue) = mpsc::channel();
        let prepared = Arc::<Mutex<Option<File>>>::default();
        let slot = Arc::clone(&prepared);
        let thread = thread::spawn(move || {
            for task in queue {
                run(&files, task, &slot);
            }
        });
        Self { tasks: Some(tasks), prepared, thread: Some(thread) }
    }

    pub(crate) fn prepare(&self, size: u64) {
        self.send(KeeperTask::Prepare(size));
    }

    pub(crate) fn compress(&self, number: u64, len: Option<u64>) {
        self.send(KeeperTask::Compress(number, len));
    }

    /// The file of the next segment, if it is prepared.
    pub(crate) fn take_prepared(&self) -> Option<File> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn send(&self, task: KeeperTask) {
        // the thread ends early only by a panic; then segments are neither prepared nor compressed until the next start
        if let Some(tasks) = &self.tasks
            && tasks.send(task).is_err()
        {
            tracing::warn!("segments are not compressed until the next start");
        }
    }
}

fn run(files: &SegmentFiles, task: KeeperTask, slot: &Mutex<Option<File>>) {
    match task {
        KeeperTask::Prepare(size) => match files.prepare(size) {
            Ok(Some(file)) => *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(file),
            // the journal has not needed it yet, or has just taken it
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "could not prepare the next segment; commits are slower"),
        },
        KeeperTask::Compress(number, len) => {
            compress(files, number, len);
            // segments that could not be compressed before, for example because the disk was full
            for earlier in files.uncompressed().unwrap_or_default().range(..number) {
                compress(files, *earlier, None);
            }
        }
    }
}

fn compress(files: &SegmentFiles, number: u64, len: Option<u64>) {
    if let Err(error) = files.compress(number, len) {
        tracing::warn!(%error, segment = number, "could not compress a segment");
    }
}

impl Drop for SegmentKeeper {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::warn!("the thread of the segments panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::row_batch::RowBatch;
    use crate::segments::Segments;
    use std::fs;

    #[test]
    fn segment_whose_compression_failed_is_compressed_with_a_later_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut segments = Segments::create(dir.path(), 7, &RowBatch::default()).expect("they are created");
        // a folder with the name of the incomplete file
        let blocked = dir.path().join("segments/0000000001.new");
        fs::create_dir(&blocked).expect("the directory is created");
        for entry in 1..=6 {
            let mut rows = RowBatch::default();
            rows.insert(b"key".to_vec(), vec![1; 3000].as_slice());
            segments.append(entry, &rows).expect("the append succeeds");
        }
        // ends the thread that compresses sealed segments
        drop(segments);
        let files = SegmentFiles::new(dir.path());
        let plain = || files.uncompressed().expect("the folder is readable");
        assert!(plain().contains(&1) && !plain().contains(&2), "{:?}", plain());
        fs::remove_dir(&blocked).expect("the removal succeeds");
        run(&files, KeeperTask::Compress(2, None), &Mutex::default());
        assert!(!plain().contains(&1), "{:?}", plain());
    }
}
