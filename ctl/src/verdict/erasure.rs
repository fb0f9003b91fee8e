//! Verbs for erasure and for the periods after which it happens.

use crate::audit::export_log::read_checkpoint;
use crate::audit::log::prove_erasures;
use crate::base::error::CtlError;
use crate::base::input::with_spinner;
use crate::base::options::{GlobalOptions, id_parser, problem_error};
use crate::base::output::print_json;
use domain_audit::event::DueKind;
use domain_base::session_id::SessionId;
use domain_base::text_form::visible_text;
use domain_base::wording::format_count;
use domain_ground::source_state::{PruneOutcome, PruneReport, SourcePruning, UnprunedSource};
use domain_verdict::legal_hold::LegalHold;
use domain_verdict::wire::{
    ErasedSession, ErasureRequest, ErasureResponse, PayloadRetention, RetentionResponse,
};
use hyper::Method;
use oracled_api::client::DaemonClient;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Erase the data of a session, or of all sessions with an address
///
/// It removes the session with its order, verdict, facts and queued messages, and the values of its log entries, from all files of
/// the state directory. The entries stay, with hashes in place of these values, so proofs stay valid. The command waits until that
/// is done; if it is interrupted, the daemon continues. Export the data first: oraclectl export --session ID.
#[derive(Debug, clap::Args)]
pub(crate) struct EraseArgs {
    #[command(flatten)]
    subject: ErasureSubject,
    /// Reason; the audit log keeps it, so do not name the person
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Write a certificate of the erasure to a new file: the log entries about it with their proofs, signed with the key of the log,
    /// and the proof that the log still contains all earlier entries. `oraclectl verify-log` verifies it
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct ErasureSubject {
    /// Session id; shop/cs_1 for a session of the application `shop`
    #[arg(long, value_name = "ID", value_parser = id_parser())]
    session: Option<String>,
    /// Address of the customer; upper and lower case count as the same. Removed sessions are included
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
}

impl EraseArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let request = ErasureRequest {
            session_id: self.subject.session.clone(),
            customer_email: self.subject.email.clone(),
            reason: self.reason.clone(),
        };
        let certificate = match &self.certificate {
            Some(file) => Some(Certificate::begin(file, options).await?),
            None => None,
        };
        let erased = options.run_on_control("/v1/erasures", &request);
        let answer = with_spinner("erasing the data from the files of all hosts", erased).await;
        let answer = match &self.subject.session {
            Some(session_id) => answer.map_err(|error| error.with_application_hint(session_id)),
            None => answer,
        };
        let erased: ErasureResponse = answer?.json()?;
        if options.json {
            print_json(out, &erased)?;
        } else {
            for text in describe_erased(&erased) {
                writeln!(out, "{}", visible_text(&text))?;
            }
            if !erased.sessions.is_empty() {
                writeln!(
                    out,
                    "not erased: backups and other copies from before, and in test mode the mails in STATE_DIR/test-mail; delete them"
                )?;
            }
        }
        if erased.waiting_hosts.is_empty() {
            return match certificate {
                Some(certificate) => certificate.write(&erased.sessions).await,
                None => Ok(()),
            };
        }
        let message = "the erasure is not complete on all hosts of the cluster".to_owned();
        Err(CtlError::Verb { message, exit_code: 4, was_printed: false })
    }
}

/// A certificate of an erasure, which is written when the erasure is complete.
struct Certificate {
    path: PathBuf,
    /// It is removed with this value, so a refused erasure leaves no file.
    unfinished: NamedTempFile,
    daemon: DaemonClient,
    /// The checkpoint before the erasure.
    before: String,
}

impl Certificate {
    /// Refuses a file that cannot be created, before the erasure: an erasure cannot be repeated for a certificate.
    async fn begin(path: &Path, options: &GlobalOptions) -> Result<Self, CtlError> {
        let mut daemon = DaemonClient::connect(&options.control_path()?).await?;
        let before = read_checkpoint(&mut daemon, false).await?;
        if path.symlink_metadata().is_ok() {
            return Err(uncreatable(path, &io::Error::from(io::ErrorKind::AlreadyExists)));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let unfinished = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
        let unfinished = unfinished.map_err(|error| uncreatable(path, &error))?;
        Ok(Self { path: path.to_owned(), unfinished, daemon, before })
    }

    async fn write(mut self, sessions: &[ErasedSession]) -> Result<(), CtlError> {
        let bundle = prove_erasures(&mut self.daemon, self.before, sessions).await?;
        print_json(&mut self.unfinished, &bundle)?;
        let written = self.unfinished.persist_noclobber(&self.path);
        written.map_err(|error| uncreatable(&self.path, &error.error))?;
        Ok(())
    }
}

fn uncreatable(path: &Path, error: &io::Error) -> CtlError {
    let message = format!("cannot create {}: {error}; name a new file", path.display());
    CtlError::Verb { message, exit_code: 1, was_printed: false }
}

/// The erased data and the remaining data, one text for each session and file.
pub(crate) fn describe_erased(erased: &ErasureResponse) -> Vec<String> {
    let sessions = erased.sessions.iter().map(|ErasedSession { session_id, data }| {
        let data: Vec<_> = data.iter().map(|data| data.as_str().replace('_', " ")).collect();
        let data = if data.is_empty() { "no data were left".to_owned() } else { data.join(", ") };
        format!("session {session_id} is erased: {data}")
    });
    let former: Vec<_> = erased.former_sessions.iter().map(SessionId::as_str).collect();
    let former = (!former.is_empty()).then(|| {
        let former = former.join(", ");
        format!(
            "not erased, they had this address only before a correction; use --session for them: {former}"
        )
    });
    let files = erased.unread_files.iter().map(|file| {
        format!(
            "{file} may still have the data: it is compressed, cannot be read, or has lines that are not entries of the log; \
             delete it, or correct that and repeat the command"
        )
    });
    let waiting = (!erased.waiting_hosts.is_empty()).then(|| {
        let hosts = erased.waiting_hosts.join(", ");
        format!("not complete: these hosts have not erased the data yet, and do so when they can: {hosts}")
    });
    sessions.chain(former).chain(files).chain(waiting).collect()
}

/// Remove the data that are older than configured
///
/// The daemon does this once a day. The keys `retention.*` of the configuration have the number of days for each kind of data. The
/// command waits until the data are removed; if it is interrupted, the daemon continues.
#[derive(Debug, clap::Args)]
pub(crate) struct RetentionArgs {
    /// Show the data that are due, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

impl RetentionArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let method = if self.dry_run { Method::GET } else { Method::POST };
        let mut client = DaemonClient::connect(&options.control_path()?).await?;
        let answer = client.call_without_timeout(method, "/v1/retention", Vec::new().into()).await?;
        if !answer.status.is_success() {
            return Err(problem_error(&answer));
        }
        let retention: RetentionResponse = answer.json()?;
        if options.json {
            print_json(out, &retention)?;
        } else {
            self.print(out, &retention)?;
        }
        let unpruned = retention.payloads.map_or(0, |payloads| payloads.report.unpruned.len());
        if unpruned > 0 && !self.dry_run {
            let message =
                format!("{} not pruned", format_count(unpruned as u64, "source was", "sources were"));
            return Err(CtlError::Verb { message, exit_code: 1, was_printed: false });
        }
        Ok(())
    }

    fn print(&self, out: &mut dyn Write, retention: &RetentionResponse) -> Result<(), CtlError> {
        let due = &retention.due;
        let kinds = [
            ("sessions with verdicts", "retention.verdicts_days", &due.verdicts),
            ("values of other log entries", "retention.log_values_days", &due.log_values),
            ("log entries of verifications", "retention.verifications_days", &due.verifications),
            ("log entries", "retention.log_days", &due.log),
        ];
        let state = if self.dry_run { "due" } else { "removed" };
        for (name, key, kind) in kinds {
            match kind {
                None => writeln!(out, "{name}: kept forever ({key} is not set)")?,
                Some(DueKind { days, before, count, oldest, .. }) => {
                    let oldest = oldest.map(|oldest| format!(", the oldest of {oldest}")).unwrap_or_default();
                    writeln!(
                        out,
                        "{name}: {count} {state}, older than {days} days (before {before}){oldest}"
                    )?;
                }
            }
        }
        for LegalHold { session_id, first_seq, .. } in &retention.legal_holds {
            writeln!(out, "session {session_id} is on hold, so log entries stay from entry {first_seq} on")?;
        }
        let name = "versions and payloads of sources";
        match &retention.payloads {
            None => writeln!(out, "{name}: kept forever (retention.payloads_days is not set)")?,
            Some(PayloadRetention { days, report: PruneReport { sources, unpruned } }) => {
                let outcomes = || sources.iter().map(|source| &source.outcome);
                let versions: u64 = outcomes().map(|outcome| outcome.versions).sum();
                let payloads: usize = outcomes().map(|outcome| outcome.payloads.len()).sum();
                let bytes: u64 = outcomes().map(|outcome| outcome.freed_bytes).sum();
                let removed = format_removed(versions, payloads);
                writeln!(out, "{name}: {removed} {state}, {bytes} bytes, older than {days} days")?;
                for SourcePruning { oracle_id, outcome } in sources {
                    let PruneOutcome { before, versions, payloads, freed_bytes } = outcome;
                    let removed = format_removed(*versions, payloads.len());
                    writeln!(out, "  {oracle_id}: {removed}, {freed_bytes} bytes (before {before})")?;
                }
                for UnprunedSource { oracle_id, cause } in unpruned {
                    let cause = visible_text(cause);
                    writeln!(out, "  {oracle_id}: not pruned; the next retention tries it again: {cause}")?;
                }
            }
        }
        for file in &retention.unread_files {
            let file = visible_text(file);
            writeln!(
                out,
                "{file} may still have the data: it is compressed, cannot be read, or has lines that are not entries of the log; \
                 delete it, or correct that"
            )?;
        }
        Ok(())
    }
}

fn format_removed(versions: u64, payloads: usize) -> String {
    let payloads = format_count(payloads, "payload", "payloads");
    format!("{} and {payloads}", format_count(versions, "version", "versions"))
}
