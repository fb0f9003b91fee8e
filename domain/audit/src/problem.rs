//! The codes of errors of the log and its backups.

use domain_base::problem_codes;

problem_codes! {
    /// Another backup or an erasure is in progress, or an erasure is not complete.
    BACKUP_IN_PROGRESS = 409: "Wait until it has ended. If an erasure does not end, the service log has the cause.",
    /// The entry of the log was dropped by `retention.log_days`. `detail` has the first entry that is left.
    ENTRY_DROPPED = 410: "Read a later entry. An export or a backup from before has the entry.",
    /// A segment of the log is damaged or missing, so that a backup could not be restored; `detail` names it.
    STATE_DAMAGED = 500: "Repeat the backup in a minute: the daemon rebuilds the store from the undamaged data. If that fails, keep the earlier backups, and read the service log.",
}
