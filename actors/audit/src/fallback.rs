//! The fallback for audit entries that the journal rejects: each goes to the service log as one marked line (seed:
//! `tmm-crosscheck`, failure mode "oracle_log.jsonl write fails").

use domain_base::caller::RequestCaller;
use domain_base::event::json_members;
use oracled_store::JournalRecord;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// Writes one line to the service log.
type FallbackLineSink = dyn Fn(&str) + Send + Sync;

/// The writer of the fallback lines.
#[derive(Clone)]
pub struct FallbackLog(Arc<FallbackLineSink>);

/// The start of a line, before the members of the entry: the marker and the cause.
#[derive(Serialize)]
struct FallbackHead<'e> {
    log_fallback: bool,
    /// Not named `cause`, because some entries have a field `cause`.
    fallback_cause: &'e str,
}

/// The end of a line, after the members of the entry.
#[derive(Serialize)]
struct FallbackEnd<'e> {
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'e RequestCaller>,
}

impl FallbackLog {
    /// Standard error, which journald reads under systemd.
    #[must_use]
    pub fn stderr() -> Self {
        use std::io::Write;
        // eprintln! panics if standard error is closed, and there is nowhere else to report that
        Self::new(|line| drop(writeln!(std::io::stderr(), "{line}")))
    }

    /// Passes each line to `write`.
    #[must_use]
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    /// Writes the events of `record` that have happened although the commit failed. Returns their number.
    pub(crate) fn write(&self, record: &JournalRecord, cause: &str) -> u64 {
        let mut entries = 0;
        for (index, entry) in record.events.iter().enumerate().filter(|(_, event)| !event.kind.needs_commit())
        {
            let head = json_members(&FallbackHead { log_fallback: true, fallback_cause: cause });
            let end = json_members(&FallbackEnd { caller: record.callers.of(index) });
            let entry = entry.members();
            let comma = if end.is_empty() { "" } else { "," };
            (self.0)(&format!("{{{head},{entry}{comma}{end}}}"));
            entries += 1;
        }
        entries
    }
}

impl fmt::Debug for FallbackLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fallback")
    }
}
