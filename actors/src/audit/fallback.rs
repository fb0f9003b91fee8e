//! Where an audit entry goes that the journal does not take: to the service log, whole, as one marked line
//! (seed: `tmm-crosscheck`, failure mode "oracle_log.jsonl write fails").

use oracled_domain::{Caller, Event};
use oracled_store::Record;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// Writes one line to the service log.
type WriteLine = dyn Fn(&str) + Send + Sync;

/// The service log's last resort.
#[derive(Clone)]
pub struct Fallback(Arc<WriteLine>);

/// The line: an entry, marked, with the reason.
#[derive(Serialize)]
struct Line<'e> {
    log_fallback: bool,
    /// Not `cause`, which some entries have of their own.
    fallback_cause: &'e str,
    #[serde(flatten)]
    entry: &'e Event,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'e Caller>,
}

impl Fallback {
    /// Standard error, which journald reads under systemd.
    #[must_use]
    pub fn stderr() -> Self {
        use std::io::Write;
        // eprintln! panics where standard error is closed, and there is no other place left to tell it
        Self::new(|line| drop(writeln!(std::io::stderr(), "{line}")))
    }

    /// Lines go to `write`.
    #[must_use]
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    /// Writes those events of `record` that have happened although they were not committed, and returns their number.
    pub(crate) fn write(&self, record: &Record, cause: &str) -> u64 {
        let mut entries = 0;
        for (index, entry) in record.events.iter().enumerate().filter(|(_, event)| !event.kind.needs_commit())
        {
            let caller = record.callers.of(index);
            let line =
                serde_json::to_string(&Line { log_fallback: true, fallback_cause: cause, entry, caller });
            (self.0)(&line.expect("an event is plain data with string keys"));
            entries += 1;
        }
        entries
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fallback")
    }
}
