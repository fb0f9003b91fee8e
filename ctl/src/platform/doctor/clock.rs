//! The system clock, compared with the newest log entry and the newest file.

use super::CheckResult;
use jiff::{SignedDuration, Timestamp};
use std::fs;
use std::path::Path;

/// A clock may be set back by less, for example by a leap second.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(2);
/// No clock is right before the first release of the daemon.
const EARLIEST: &str = "2026-01-01T00:00:00Z";

/// Checks the clock against the newest log entry, and the newest file in the state directory.
pub(super) fn check_clock(state_dir: Option<&Path>, last_entry_at: Option<Timestamp>) -> CheckResult {
    let newest_file_at = state_dir.and_then(newest_file_at);
    judge_clock(Timestamp::now(), last_entry_at, newest_file_at)
}

fn judge_clock(
    now: Timestamp,
    last_entry_at: Option<Timestamp>,
    newest_file_at: Option<Timestamp>,
) -> CheckResult {
    let remedy = "check the time synchronization (`timedatectl`)";
    if EARLIEST.parse().is_ok_and(|earliest: Timestamp| now < earliest) {
        return CheckResult::fault("clock", format!("the clock shows {now}"), remedy);
    }
    for (what, at) in [("log entry", last_entry_at), ("file", newest_file_at)] {
        if let Some(at) = at.filter(|at| at.duration_since(now) > TOLERANCE) {
            let value = format!("the clock shows {now}, and the newest {what} is of {at}");
            return CheckResult::fault("clock", value, remedy);
        }
    }
    let newest = last_entry_at.map(|at| format!(", and the newest log entry is of {at}")).unwrap_or_default();
    CheckResult::pass("clock", format!("the clock shows {now}{newest}"))
}

/// The newest time of change of a file in the state directory, or of a segment.
fn newest_file_at(dir: &Path) -> Option<Timestamp> {
    let folders = [dir.to_owned(), dir.join("segments")];
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let times = files.filter_map(|file| Timestamp::try_from(file.metadata().ok()?.modified().ok()?).ok());
    times.max()
}

#[cfg(test)]
mod tests {
    use super::super::CheckLevel::{Fault, Pass};
    use super::*;

    #[test]
    fn clock_before_the_newest_entry_or_file_is_a_fault() {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).ok();
        for (entry, file, level) in [
            (None, None, Pass),
            (at(-9), at(-1), Pass),
            (at(2), at(2), Pass),
            (at(3), None, Fault),
            (at(0), at(3), Fault),
        ] {
            let now = at(0).expect("a valid time");
            assert_eq!(judge_clock(now, entry, file).level, level, "{entry:?} {file:?}");
        }
        let reset = Timestamp::from_second(0).expect("a valid time");
        assert_eq!(judge_clock(reset, None, None).level, Fault);
    }
}
