//! `oraclectl verify-log`: the public keys on the command line, what is verified, and the report of `--replay`.

use super::bundle::{EntryNumber, VerdictReport, VerifiedDocument, verify};
use super::log::format_entry;
use super::verify_directory;
use crate::base::error::CtlError;
use crate::base::input::read_text;
use crate::base::output::{format_pairs, format_table, print_json};
use crate::base::program::examples;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_audit::checkpoint::{Checkpoint, CheckpointError, LogKey, WitnessKey};
use domain_audit::leaf::hidden_members;
use domain_audit::replay::{MemberDifference, ReplayOutcome, ReplayedDecision};
use domain_audit::wire::backup::{BackupManifest, ManifestError};
use domain_base::count::format_count;
use domain_base::session_id::SessionId;
use domain_base::visible::visible_line;
use domain_verdict::replay::{DecisionReplay, StoredVerdict, read_decision};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Verify entries of `oraclectl log prove`, a verdict with its proof, or the log of a directory, without a daemon
///
/// It checks the signature of the checkpoint, and that the log of the checkpoint has each entry unchanged. For a verdict from
/// `oraclectl verdict ID --proof`, it also checks that its text is the one that was delivered to the session. It shows the
/// application of the session, and the members of the document that the proof does not cover.
///
/// For a state directory or a backup, it reads all entries from the segments, and compares them with the checkpoint of the
/// backup, with that of `--since`, and with `oracle_log.jsonl`. It also verifies the high-water mark, the files of sources, the
/// keys, and the manifest of a backup. Differences that can have another cause than a change are notes.
///
/// With `--replay`, it computes each logged decision again from its inputs: crosschecks, evaluations of rules, comparisons of
/// regenerated verdicts, and verifications with their calls and reviews. It reports which results differ, and which inputs are
/// missing. The texts of delivered verdicts and their facts are only in a state directory or a backup.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl verify-log bundle.json --key log-key --since checkpoint", "oraclectl verify-log /var/lib/oracled --key log-key --since checkpoint"]))]
pub(crate) struct VerifyLogArgs {
    /// The output of `oraclectl log prove` or of `oraclectl verdict ID --proof`, a state directory, or a backup; `-` reads
    /// standard input
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// A public key of the log, or a file with it, from a source that you trust; repeat it if the log got a new key
    #[arg(long = "key", value_name = "KEY", required = true)]
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
}

/// The verification of a document.
#[derive(Serialize)]
struct VerificationReport<'d> {
    log: LogReport,
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
        let (keys, witnesses) = (LogKeys::read(&self.keys)?, WitnessKeys::read(&self.witnesses)?);
        if self.bundle.is_dir() {
            if !self.witnesses.is_empty() {
                let file = verify_directory::cosigned_file(&self.bundle, self.since.as_deref())?;
                witnesses.verify(&read_text(&file)?)?;
            }
            let replay = self.replay.then(|| LogReplay::new(true));
            return verify_directory::run(&self.bundle, &keys, self.since.as_deref(), replay, is_json, out);
        }
        let text = read_text(&self.bundle)?;
        let file = self.bundle.display().to_string();
        let document = VerifiedDocument::read(&text).map_err(|error| unusable(&file, error))?;
        let bundle = document.bundle();
        let earlier = self.since.as_deref().map(|file| keys.read_checkpoint(file)).transpose()?;
        let Checkpoint { origin, size, root } = verify(bundle, &keys, earlier.as_ref())?;
        let entries = bundle.entries.iter().map(|entry| serde_json::from_str(&entry.line));
        let withheld = bundle.entries.iter().filter_map(|entry| withheld_values(&entry.line));
        // a proof without the root of the earlier log proves nothing
        let continuation = bundle.continuation.as_ref().filter(|_| earlier.is_none());
        let report = VerificationReport {
            log: LogReport { origin, size, root: BASE64_STANDARD.encode(root) },
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

/// Maximum number of different decisions that are listed.
const DIFFERENT_MAX: usize = 1000;
/// Maximum length of a value that is shown to people, in characters.
const VALUE_CHARS: usize = 60;

/// A replay in progress, and its report.
pub(super) struct LogReplay {
    replay: DecisionReplay,
    report: ReplayReport,
}

/// The decisions that were computed again.
#[derive(Debug, Default, Serialize)]
pub(super) struct ReplayReport {
    /// The counts by the name of the event.
    events: BTreeMap<&'static str, ReplayCounts>,
    /// The decisions that differ; at most 1,000.
    different: Vec<DifferentDecision>,
    /// The number of further decisions that differ.
    different_omitted: u64,
}

#[derive(Debug, Default, Serialize)]
struct ReplayCounts {
    /// Decisions whose results are all the same.
    reproduced: u64,
    /// Decisions whose results are the same as far as they follow from the available inputs, by the missing input.
    reproduced_in_part: BTreeMap<String, u64>,
    /// Decisions with another result.
    different: u64,
    /// Decisions that cannot be computed, by the missing input.
    not_reproducible: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct DifferentDecision {
    seq: u64,
    event: &'static str,
    members: Vec<MemberDifference>,
}

impl LogReplay {
    /// A replay of all entries of a log if `is_whole`, else of some of them.
    pub(super) fn new(is_whole: bool) -> Self {
        Self { replay: DecisionReplay::new(is_whole), report: ReplayReport::default() }
    }

    /// Notes that entries before the next one were dropped.
    pub(super) fn note_dropped(&mut self) {
        self.replay.note_missing_entries();
    }

    /// Replays the entry with this line, if it is a decision. `find_verdict` returns the verdict that is stored with it.
    pub(super) fn add(
        &mut self,
        line: &str,
        find_verdict: impl FnOnce(&SessionId) -> Result<Option<StoredVerdict>, CtlError>,
    ) -> Result<(), CtlError> {
        let unreadable =
            |error| CtlError::Verb { message: format!("{error}"), exit_code: 1, was_printed: false };
        let Some(entry) = read_decision(line).map_err(unreadable)? else { return Ok(()) };
        let stored = entry.session_id().map_or(Ok(None), find_verdict)?;
        for decision in self.replay.add(&entry, stored.as_ref()) {
            self.report.count(decision);
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> ReplayReport {
        for decision in self.replay.finish() {
            self.report.count(decision);
        }
        self.report
    }
}

impl ReplayReport {
    fn count(&mut self, ReplayedDecision { seq, event, outcome }: ReplayedDecision) {
        let counts = self.events.entry(event).or_default();
        match outcome {
            ReplayOutcome::Reproduced => counts.reproduced += 1,
            ReplayOutcome::ReproducedInPart(missing) => {
                *counts.reproduced_in_part.entry(missing.to_string()).or_default() += 1;
            }
            ReplayOutcome::NotReproducible(missing) => {
                *counts.not_reproducible.entry(missing.to_string()).or_default() += 1;
            }
            ReplayOutcome::Different(members) => {
                counts.different += 1;
                if self.different.len() < DIFFERENT_MAX {
                    self.different.push(DifferentDecision { seq, event, members });
                } else {
                    self.different_omitted += 1;
                }
            }
        }
    }

    /// # Errors
    /// `NotReproduced` if a decision differs.
    pub(super) fn check(&self) -> Result<(), CtlError> {
        if self.different.is_empty() { Ok(()) } else { Err(CtlError::NotReproduced) }
    }

    /// Prints the report for people.
    pub(super) fn print(&self, out: &mut dyn Write) -> Result<(), CtlError> {
        if self.events.is_empty() {
            return Ok(writeln!(out, "\nno decisions to replay")?);
        }
        let sum = |by_input: &BTreeMap<String, u64>| by_input.values().sum::<u64>();
        let row = |(event, counts): (&&str, &ReplayCounts)| {
            let numbers = [
                counts.reproduced,
                sum(&counts.reproduced_in_part),
                counts.different,
                sum(&counts.not_reproducible),
            ];
            let [reproduced, in_part, different, not] = numbers.map(|number| number.to_string());
            [(*event).to_owned(), reproduced, in_part, different, not]
        };
        let heading = ["decisions", "reproduced", "in part", "different", "not reproducible"];
        writeln!(out, "\n{}", format_table(heading, self.events.iter().map(row).collect()))?;
        for (event, counts) in &self.events {
            let in_part = counts.reproduced_in_part.iter().map(|found| ("reproduced in part", found));
            let not = counts.not_reproducible.iter().map(|found| ("not reproducible", found));
            for (outcome, (missing, count)) in in_part.chain(not) {
                writeln!(out, "{event}: {count} {outcome}: {}", visible_line(missing))?;
            }
        }
        for DifferentDecision { seq, event, members } in &self.different {
            writeln!(out, "entry {seq}, {event}: different")?;
            for MemberDifference { member, logged, computed } in members {
                let (logged, computed) = (shorten_value(logged), shorten_value(computed));
                let member = visible_line(member);
                writeln!(out, "  {member}: logged {logged}, computed {computed}")?;
            }
        }
        if self.different_omitted > 0 {
            writeln!(out, "{} more", format_count(self.different_omitted, "decision", "decisions"))?;
        }
        Ok(())
    }
}

fn shorten_value(value: &Value) -> String {
    crate::base::output::shorten_line(&value.to_string(), VALUE_CHARS)
}

/// The public keys of one log, which has a new key after a rotation.
pub(super) struct LogKeys(Vec<LogKey>);

impl LogKeys {
    pub(super) fn one(key: LogKey) -> Self {
        Self(vec![key])
    }

    /// The keys in these arguments. Each is a key, or a file with a key.
    pub(super) fn read(arguments: &[String]) -> Result<Self, CtlError> {
        let keys = arguments.iter().map(|argument| read_key(argument)).collect::<Result<Vec<LogKey>, _>>()?;
        if let [first, rest @ ..] = keys.as_slice()
            && let Some(other) = rest.iter().find(|key| key.name != first.name)
        {
            let message =
                format!("the keys are of two logs, {} and {}; name keys of one log", first.name, other.name);
            return Err(CtlError::Usage(message));
        }
        Ok(Self(keys))
    }

    /// Whether one of the keys has this text.
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|one| one.to_string() == key)
    }

    /// Verifies that one of the keys signed a checkpoint.
    pub(super) fn verify(&self, note: &str) -> Result<Checkpoint, CheckpointError> {
        let mut fault = CheckpointError::Unsigned;
        for key in &self.0 {
            match key.verify(note) {
                Err(CheckpointError::Unsigned) => {}
                Err(error) => fault = error,
                verified => return verified,
            }
        }
        Err(fault)
    }

    /// Verifies that one of the keys signed the manifest of a backup.
    pub(super) fn verify_manifest(&self, text: &str) -> Result<BackupManifest, ManifestError> {
        BackupManifest::verify(text, &self.0)
    }

    /// Reads a checkpoint in a file, and verifies its signature.
    pub(super) fn read_checkpoint(&self, file: &Path) -> Result<Checkpoint, CtlError> {
        self.verify(&read_text(file)?).map_err(|error| refused(format!("{}: {error}", file.display())))
    }
}

/// The public keys of witnesses that must have cosigned a checkpoint.
struct WitnessKeys(Vec<WitnessKey>);

/// A witness that has cosigned a checkpoint.
#[derive(Serialize)]
struct CosigningWitness {
    name: String,
    at: Timestamp,
}

impl WitnessKeys {
    /// The keys in these arguments. Each is a key, or a file with a key.
    fn read(arguments: &[String]) -> Result<Self, CtlError> {
        Ok(Self(arguments.iter().map(|argument| read_key(argument)).collect::<Result<_, _>>()?))
    }

    /// Verifies that each of the witnesses has cosigned the checkpoint in `note`.
    fn verify(&self, note: &str) -> Result<Vec<CosigningWitness>, CtlError> {
        let verify = |key: &WitnessKey| match key.verify(note) {
            Ok(cosignature) => Ok(CosigningWitness { name: key.name.clone(), at: cosignature.at }),
            Err(error) => Err(refused(format!("witness {}: {error}", key.name))),
        };
        self.0.iter().map(verify).collect()
    }
}

fn read_key<K: FromStr<Err: Error>>(argument: &str) -> Result<K, CtlError> {
    match argument.parse() {
        Err(_) if Path::new(argument).is_file() => {
            let text = read_text(Path::new(argument))?;
            text.trim().parse().map_err(|error: K::Err| unusable(argument, error))
        }
        parsed => parsed.map_err(|error: K::Err| CtlError::Usage(error.to_string())),
    }
}

/// The error about a log that is not the expected one.
pub(super) fn refused(message: String) -> CtlError {
    CtlError::Verb { message, exit_code: 1, was_printed: false }
}

/// The error about a file whose content is invalid.
pub(super) fn unusable(file: &str, error: impl ToString) -> CtlError {
    let message = format!("{file}: {}", error.to_string());
    CtlError::Verb { message, exit_code: 5, was_printed: false }
}

#[cfg(test)]
mod tests;
