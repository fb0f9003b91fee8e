//! Shared parts of the log's verifications: the public keys on the command line, the report of a replay, and the
//! verification of bundles and of verdicts with their proof.

use crate::base::error::CtlError;
use crate::base::input::read_text;
use crate::base::output::format_table;
use domain_audit::checkpoint::{Checkpoint, CheckpointError, LogKey, WitnessKey};
use domain_audit::leaf::leaf_of;
use domain_audit::log_proof::{is_continued, is_included};
use domain_audit::log_tree::leaf_hash;
use domain_audit::replay::{MemberDifference, ReplayOutcome, ReplayedDecision};
use domain_audit::wire::{BackupManifest, LogBundle, ManifestError};
use domain_base::digest::Sha256Hex;
use domain_base::session_id::{ApplicationName, SessionId};
use domain_base::text_form::visible_line;
use domain_base::wording::format_count;
use domain_verdict::replay::{DecisionReplay, StoredVerdict, read_decision};
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::str::FromStr;

/// The members of a verdict's document that its proof covers.
const VERIFIED_MEMBERS: [&str; 2] = ["session_id", "verdict"];
/// The member with the proof.
const PROOF_MEMBER: &str = "proof";

/// The number of an entry.
#[derive(Deserialize)]
pub(crate) struct EntryNumber {
    pub(crate) seq: u64,
}

/// A document that `verify-log` reads.
pub(super) enum VerifiedDocument {
    Bundle(LogBundle),
    /// A delivered verdict with its proof.
    Verdict(ProvedVerdict),
}

/// The members of a delivered verdict that its proof is about.
#[derive(Deserialize)]
pub(super) struct ProvedVerdict {
    session_id: SessionId,
    verdict: Box<RawValue>,
    #[serde(default)]
    evaluation_sha256: Option<Sha256Hex>,
    proof: LogBundle,
    #[serde(skip)]
    not_verified: Vec<String>,
}

/// The verification of a verdict.
#[derive(Serialize)]
pub(super) struct VerdictReport {
    pub(super) session_id: SessionId,
    /// The application in the entry of the delivery; an application does not see its name in the document.
    pub(super) application: ApplicationName,
    /// The members of the document that the proof covers, and the others.
    pub(super) verified: [&'static str; 2],
    pub(super) not_verified: Vec<String>,
}

/// The members of the entry of a delivery.
#[derive(Deserialize)]
struct DeliveryEntry {
    event: String,
    session_id: SessionId,
    verdict_sha256: Sha256Hex,
}

impl VerifiedDocument {
    /// Reads a document; the error is about a bundle, unless the document has a proof.
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        let members: BTreeMap<String, IgnoredAny> = serde_json::from_str(text)?;
        if !members.contains_key(PROOF_MEMBER) {
            return serde_json::from_str(text).map(Self::Bundle);
        }
        let mut verdict: ProvedVerdict = serde_json::from_str(text)?;
        let is_verified = |name: &str| VERIFIED_MEMBERS.contains(&name) || name == PROOF_MEMBER;
        verdict.not_verified = members.into_keys().filter(|name| !is_verified(name)).collect();
        Ok(Self::Verdict(verdict))
    }

    pub(super) const fn bundle(&self) -> &LogBundle {
        match self {
            Self::Bundle(bundle) => bundle,
            Self::Verdict(verdict) => &verdict.proof,
        }
    }

    /// Replays the decisions among the entries, which were verified.
    pub(super) fn replay(&self) -> Result<ReplayReport, CtlError> {
        let entries = self.bundle().entries.iter();
        let lines = entries.map(|entry| {
            let number: Result<EntryNumber, _> = serde_json::from_str(&entry.line);
            (number.map(|EntryNumber { seq }| seq).unwrap_or_default(), entry.line.as_str())
        });
        let mut replay = LogReplay::new(false);
        for line in BTreeMap::from_iter(lines).into_values() {
            replay.add(line, |_| Ok(self.delivered_verdict()))?;
        }
        Ok(replay.finish())
    }

    /// The verdict of the document, as if it were stored.
    fn delivered_verdict(&self) -> Option<StoredVerdict> {
        match self {
            Self::Bundle(_) => None,
            Self::Verdict(ProvedVerdict { verdict, evaluation_sha256, .. }) => Some(StoredVerdict {
                verdict: verdict.clone(),
                evaluation_sha256: evaluation_sha256.clone(),
                session: None,
            }),
        }
    }

    /// Checks that a verdict is the one of its entries, which were verified. `None` for a bundle.
    pub(super) fn check_verdict(&self) -> Result<Option<VerdictReport>, CtlError> {
        let Self::Verdict(ProvedVerdict { session_id, verdict, proof, not_verified, .. }) = self else {
            return Ok(None);
        };
        let sha256 = Sha256Hex::of(verdict.get().as_bytes());
        let delivered_to = |line: &str| {
            let entry: DeliveryEntry = serde_json::from_str(line).ok()?;
            let is_session =
                [entry.session_id.as_str(), entry.session_id.local()].contains(&session_id.as_str());
            let is_it = entry.event == "verdict_cached" && entry.verdict_sha256 == sha256 && is_session;
            is_it.then_some(entry.session_id)
        };
        let sessions: BTreeSet<_> =
            proof.entries.iter().filter_map(|entry| delivered_to(&entry.line)).collect();
        let message = match Vec::from_iter(sessions).as_slice() {
            [session_id] => {
                return Ok(Some(VerdictReport {
                    session_id: session_id.clone(),
                    application: session_id.application(),
                    verified: VERIFIED_MEMBERS,
                    not_verified: not_verified.clone(),
                }));
            }
            [one, other, ..] => format!(
                "the entries are about two sessions, {one} and {other}; allowed: entries of one session"
            ),
            [] => format!(
                "no entry is about the delivery of this verdict (SHA-256 {sha256}) to session {session_id}"
            ),
        };
        Err(refused(message))
    }
}

/// Verifies a bundle. Returns its checkpoint.
pub(crate) fn verify(
    bundle: &LogBundle,
    keys: &LogKeys,
    earlier: Option<&Checkpoint>,
) -> Result<Checkpoint, CtlError> {
    let checkpoint = keys.verify(&bundle.checkpoint).map_err(|error| refused(error.to_string()))?;
    if bundle.entries.is_empty() {
        return Err(refused("the document has no entries".to_owned()));
    }
    let mut numbers = BTreeSet::new();
    for entry in &bundle.entries {
        let seq = serde_json::from_str(&entry.line).map(|EntryNumber { seq }| seq).unwrap_or_default();
        let is_proved = || {
            let (leaf, proof) = (leaf_of(&entry.line).ok()?, entry.proof.read()?);
            let leaf = leaf_hash(leaf.as_bytes());
            Some(is_included(leaf, seq.checked_sub(1)?, checkpoint.size, &proof, &checkpoint.root))
        };
        if is_proved() != Some(true) {
            let what = if seq == 0 { "a line without a number".to_owned() } else { format!("entry {seq}") };
            return Err(refused(format!("{what} is not in the log: the entry or its proof was changed")));
        }
        if !numbers.insert(seq) {
            return Err(refused(format!(
                "entry {seq} is repeated; `oraclectl log prove` prints each entry once"
            )));
        }
    }
    let own = keys.earlier_checkpoint(bundle)?;
    for earlier in earlier.into_iter().chain(&own) {
        check_continuation(bundle, earlier, &checkpoint)?;
    }
    Ok(checkpoint)
}

/// Checks that the log of `checkpoint` continues that of `earlier`.
fn check_continuation(
    bundle: &LogBundle,
    earlier: &Checkpoint,
    checkpoint: &Checkpoint,
) -> Result<(), CtlError> {
    if earlier.origin != checkpoint.origin {
        let message = format!(
            "the earlier checkpoint is of the log {}, and the bundle of the log {}; allowed: checkpoints of one log",
            earlier.origin, checkpoint.origin
        );
        return Err(refused(message));
    }
    let continuation = bundle.continuation.as_ref().filter(|proved| proved.old_size == earlier.size);
    let Some(proof) = continuation.and_then(|proved| proved.proof.read()) else {
        let message = format!(
            "the bundle has no proof that the log continues that of {} entries; make it with `oraclectl log prove --since`",
            earlier.size
        );
        return Err(refused(message));
    };
    if !is_continued((earlier.size, &earlier.root), (checkpoint.size, &checkpoint.root), &proof) {
        let message = format!(
            "the log of {} entries does not continue that of {} entries: one of them was changed, or they are two logs with \
             one key",
            checkpoint.size, earlier.size
        );
        return Err(refused(message));
    }
    Ok(())
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
pub(crate) struct LogKeys(Vec<LogKey>);

impl LogKeys {
    pub(super) fn one(key: LogKey) -> Self {
        Self(vec![key])
    }

    /// The keys in these arguments. Each is a key, or a file with a key.
    pub(crate) fn read(arguments: &[String]) -> Result<Self, CtlError> {
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
    pub(crate) fn has(&self, key: &str) -> bool {
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
        self.verify(&read_signed(file)?).map_err(|error| refused(format!("{}: {error}", file.display())))
    }

    /// The checkpoint of the earlier log that a bundle has, whose signature it verifies.
    pub(super) fn earlier_checkpoint(&self, bundle: &LogBundle) -> Result<Option<Checkpoint>, CtlError> {
        let note = bundle.continuation.as_ref().and_then(|proved| proved.checkpoint.as_deref());
        let earlier = note.map(|note| self.verify(note)).transpose();
        earlier.map_err(|error| refused(format!("the earlier checkpoint in the bundle: {error}")))
    }
}

/// The public keys of witnesses that must have cosigned a checkpoint.
pub(crate) struct WitnessKeys(Vec<WitnessKey>);

/// A witness that has cosigned a checkpoint.
#[derive(Serialize)]
pub(crate) struct CosigningWitness {
    pub(crate) name: String,
    pub(crate) at: Timestamp,
}

impl WitnessKeys {
    /// The keys in these arguments. Each is a key, or a file with a key.
    pub(crate) fn read(arguments: &[String]) -> Result<Self, CtlError> {
        Ok(Self(arguments.iter().map(|argument| read_key(argument)).collect::<Result<_, _>>()?))
    }

    /// Verifies that each of the witnesses has cosigned the checkpoint in `note`.
    pub(crate) fn verify(&self, note: &str) -> Result<Vec<CosigningWitness>, CtlError> {
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

/// The text of a file that is verified. Bytes that are no text are those of a changed file.
pub(crate) fn read_signed(file: &Path) -> Result<String, CtlError> {
    read_text(file).map_err(|error| match error {
        CtlError::Read { file, cause } if cause.kind() == ErrorKind::InvalidData => {
            refused(format!("{file}: {cause}"))
        }
        error => error,
    })
}

/// The error about a log that is not the expected one.
pub(crate) fn refused(message: String) -> CtlError {
    CtlError::Verb { message, exit_code: 1, was_printed: false }
}

/// Refuses entries of a daemon in test mode, unless they are allowed.
pub(crate) fn check_test_mode(is_test: bool, is_allowed: bool) -> Result<(), CtlError> {
    if is_test && !is_allowed {
        let message = "the entries are of a daemon in test mode, whose verdicts no customer gets; `--allow-test-mode` accepts them";
        return Err(refused(message.to_owned()));
    }
    Ok(())
}

/// The error about a file whose content is invalid.
pub(super) fn unusable(file: &str, error: impl ToString) -> CtlError {
    let message = format!("{file}: {}", error.to_string());
    CtlError::Verb { message, exit_code: 5, was_printed: false }
}
