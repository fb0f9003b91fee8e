//! `oraclectl verify-log`.

#[cfg(test)]
mod tests;

use super::log::format_entry;
use super::verify_directory;
use crate::audit::verification::{
    CosigningWitness, EntryNumber, LogKeys, LogReplay, ReplayReport, VerdictReport, VerifiedDocument,
    WitnessKeys, check_test_mode, read_signed, unusable, verify,
};
use crate::base::error::CtlError;
use crate::base::input::read_text;
use crate::base::output::{format_pairs, print_json};
use crate::base::program::examples;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_audit::checkpoint::Checkpoint;
use domain_audit::leaf::{TEST_MODE, hidden_members};
use domain_base::wording::format_count;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::io::{self, Write};
use std::path::PathBuf;

/// Verify entries of `oraclectl log prove`, a verdict with its proof, or the log of a directory, without a daemon
///
/// It checks the signature of the checkpoint, and that the log of the checkpoint has each entry unchanged. For a verdict from
/// `oraclectl verdict ID --proof`, it also checks that its text is the one that was delivered to the session. It shows the
/// application of the session, and the members of the document that the proof does not cover.
///
/// For a state directory or a backup, it reads all entries from the segments, and compares them with the checkpoint of the
/// backup, with that of `--since`, and with `oracle_log.jsonl`. It also verifies the high-water mark, the files of sources, the
/// keys, and the manifest of a backup. Differences that can have another cause than a change are notes, such as a damaged segment whose
/// copy is whole. Each row is compared with the entry that set it, also if a later entry replaced it; a replaced version that was removed
/// is not reported.
///
/// With `--replay`, it computes each logged decision again from its inputs: crosschecks, evaluations of rules, comparisons of
/// regenerated verdicts, several opinions, and verifications with their calls and reviews. It reports which results differ, and which inputs are
/// missing. The texts of delivered verdicts and their facts are only in a state directory or a backup.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl verify-log bundle.json --key log-key --since checkpoint", "oraclectl verify-log /var/lib/oracled --key log-key --since checkpoint"]))]
pub(crate) struct VerifyLogArgs {
    /// The output of `oraclectl log prove` or of `oraclectl verdict ID --proof`, a certificate of an erasure, a state directory, a backup,
    /// or an export; `-` reads standard input
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// A public key of the log, or a file with it, from a source that you trust (required); repeat it if the log got a new key
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// A public key of a witness that must have cosigned the checkpoint, or a file with it; for a state directory or a backup,
    /// the checkpoint of `--since`. Repeat it for each witness
    #[arg(long = "witness", value_name = "KEY")]
    witnesses: Vec<String>,
    /// An earlier checkpoint, which the log must continue
    #[arg(long, visible_alias = "checkpoint", value_name = "CHECKPOINT")]
    since: Option<PathBuf>,
    /// Compute the logged decisions again, and compare the results
    #[arg(long)]
    replay: bool,
    /// Accept entries of a daemon in test mode in a document, too
    #[arg(long)]
    allow_test_mode: bool,
}

/// The verification of a document.
#[derive(Serialize)]
struct VerificationReport<'d> {
    log: LogReport,
    /// Whether an entry is of a daemon in test mode.
    test_mode: bool,
    /// The witnesses of `--witness`, which have cosigned the checkpoint.
    cosigned: Vec<CosigningWitness>,
    /// The size of the earlier log that this one continues.
    continues: Option<u64>,
    /// The size of the earlier log in a continuation that was not verified.
    continuation_not_verified: Option<u64>,
    /// The verdict, if the document has one.
    verdict: Option<VerdictReport>,
    /// The entries with values that were erased, or withheld from the reader.
    withheld: Vec<WithheldValues>,
    /// The lines of the entries.
    entries: Vec<&'d RawValue>,
    /// The replayed decisions, with `--replay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<ReplayReport>,
}

/// The values of an entry that the document has only as hashes.
#[derive(Serialize)]
struct WithheldValues {
    seq: u64,
    members: Vec<String>,
}

/// The verified checkpoint.
#[derive(Serialize)]
struct LogReport {
    origin: String,
    size: u64,
    root: String,
}

impl VerifyLogArgs {
    pub(crate) fn run(&self, is_json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
        if self.keys.is_empty() {
            let message = "--key is missing: name the public key of the log, which `oraclectl log key > log-key` writes";
            return Err(CtlError::Usage(message.to_owned()));
        }
        let (keys, witnesses) = (LogKeys::read(&self.keys)?, WitnessKeys::read(&self.witnesses)?);
        if self.bundle.is_dir() {
            if !self.witnesses.is_empty() {
                let file = verify_directory::cosigned_file(&self.bundle, self.since.as_deref())?;
                witnesses.verify(&read_signed(&file)?)?;
            }
            let replay = self.replay.then(|| LogReplay::new(true));
            return verify_directory::run(&self.bundle, &keys, self.since.as_deref(), replay, is_json, out);
        }
        let text = read_text(&self.bundle)?;
        let file = self.bundle.display().to_string();
        let document = VerifiedDocument::read(&text).map_err(|error| unusable(&file, error))?;
        let bundle = document.bundle();
        let earlier = match self.since.as_deref() {
            Some(file) => Some(keys.read_checkpoint(file)?),
            None => keys.earlier_checkpoint(bundle)?,
        };
        let Checkpoint { origin, size, root } = verify(bundle, &keys, earlier.as_ref())?;
        let test_mode = bundle.entries.iter().any(|entry| is_of_test_mode(&entry.line));
        check_test_mode(test_mode, self.allow_test_mode)?;
        let entries = bundle.entries.iter().map(|entry| serde_json::from_str(&entry.line));
        let withheld = bundle.entries.iter().filter_map(|entry| withheld_values(&entry.line));
        // a proof without the root of the earlier log proves nothing
        let continuation = bundle.continuation.as_ref().filter(|_| earlier.is_none());
        let report = VerificationReport {
            log: LogReport { origin, size, root: BASE64_STANDARD.encode(root) },
            test_mode,
            cosigned: witnesses.verify(&bundle.checkpoint)?,
            continues: earlier.map(|earlier| earlier.size),
            continuation_not_verified: continuation.map(|proved| proved.old_size),
            verdict: document.check_verdict()?,
            withheld: withheld.collect(),
            entries: entries.collect::<Result<_, _>>().map_err(|error| unusable(&file, error))?,
            replay: self.replay.then(|| document.replay()).transpose()?,
        };
        if is_json {
            print_json(out, &report)?;
        } else {
            report.print(out)?;
        }
        report.replay.as_ref().map_or(Ok(()), ReplayReport::check)
    }
}

/// Whether the entry with this line is of a daemon in test mode. The member cannot be erased or withheld.
fn is_of_test_mode(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|entry| entry.get(TEST_MODE) == Some(&Value::Bool(true)))
}

/// The values that the entry with this line has only as hashes, if there are any.
fn withheld_values(line: &str) -> Option<WithheldValues> {
    let EntryNumber { seq } = serde_json::from_str(line).ok()?;
    let members = hidden_members(line).ok().filter(|members| !members.is_empty())?;
    Some(WithheldValues { seq, members })
}

impl VerificationReport<'_> {
    fn print(&self, out: &mut dyn Write) -> Result<(), CtlError> {
        let count = |entries: u64| format_count(entries, "entry", "entries");
        let LogReport { origin, size, root } = &self.log;
        let mut rows =
            vec![("log", origin.clone()), ("checkpoint", format!("{}, root {root}", count(*size)))];
        if self.test_mode {
            rows.push(("test mode", "the entries are about no verdict for a customer".to_owned()));
        }
        rows.extend(
            self.cosigned
                .iter()
                .map(|witness| ("cosigned", format!("by {} at {}", witness.name, witness.at))),
        );
        if let Some(earlier) = self.continues {
            rows.push(("continues", format!("the log of {}", count(earlier))));
        }
        let mut verified = count(self.entries.len() as u64);
        if let Some(verdict) = &self.verdict {
            let VerdictReport { session_id, application, .. } = verdict;
            rows.push((
                "delivered to",
                format!("session {} of the application {application}", session_id.local()),
            ));
            verified = format!("{}; {verified}", verdict.verified.join(", "));
        }
        rows.push(("verified", verified));
        let members = self.verdict.as_ref().map(|verdict| verdict.not_verified.join(", "));
        let continuation = self.continuation_not_verified.map(|earlier| {
            format!("that the log continues that of {}; name its checkpoint with --since", count(earlier))
        });
        let not_verified = members.filter(|members| !members.is_empty()).into_iter().chain(continuation);
        rows.extend(not_verified.map(|what| ("not verified", what)));
        rows.extend(self.withheld.iter().map(|WithheldValues { seq, members }| {
            ("withheld", format!("entry {seq}: {}", members.join(", ")))
        }));
        writeln!(out, "{}", format_pairs(&rows))?;
        for entry in &self.entries {
            let entry: Value = serde_json::from_str(entry.get()).map_err(io::Error::from)?;
            writeln!(out, "{}", format_entry(&entry))?;
        }
        self.replay.as_ref().map_or(Ok(()), |replay| replay.print(out))
    }
}
