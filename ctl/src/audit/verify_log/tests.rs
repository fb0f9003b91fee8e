use super::*;
use clap::Parser;
use domain_audit::checkpoint::LogSigner;
use domain_audit::log_proof::{prove_consistency, prove_inclusion, root};
use domain_audit::log_tiles::{Subtree, root_of};
use domain_audit::log_tree::{TreeHash, leaf_hash};
use domain_audit::wire::{LogBundle, LogProof, ProvedContinuation, ProvedEntry};
use domain_base::digest::Sha256Hex;
use serde_json::json;
use std::convert::Infallible;
use std::fs;
use tempfile::TempDir;

#[derive(Parser)]
struct TestArgs {
    #[command(flatten)]
    verb: VerifyLogArgs,
}

/// The entries of a log, and a folder for the files of the test.
struct TestLog {
    lines: Vec<String>,
    dir: TempDir,
}

const VERDICT: &str = r#"{"verdict":"GREEN"}"#;

fn signer(secret: u8) -> LogSigner {
    LogSigner::new("oracled/1", &[secret; 32])
}

fn key(secret: u8) -> String {
    signer(secret).key().to_string()
}

impl TestLog {
    /// A log with the deliveries of one verdict to these sessions.
    fn of_deliveries(sessions: &[&str]) -> Self {
        let sha256 = Sha256Hex::of(VERDICT.as_bytes());
        let line = |(seq, session): (u64, &&str)| {
            format!(
                r#"{{"seq":{seq},"event":"verdict_cached","score":1.50,"verdict_sha256":"{sha256}","session_id":"{session}"}}"#
            )
        };
        let dir = tempfile::tempdir().expect("a directory");
        Self { lines: (1..).zip(sessions).map(line).collect(), dir }
    }

    fn size(&self) -> u64 {
        self.lines.len() as u64
    }

    fn subtree(&self) -> impl FnMut(Subtree) -> Result<TreeHash, Infallible> {
        let hashes: Vec<_> = self.lines.iter().map(|line| leaf_hash(line.as_bytes())).collect();
        move |Subtree { height, index }| {
            let first = (index as usize) << height;
            Ok(root_of(&hashes[first..first + (1 << height)]))
        }
    }

    fn checkpoint(&self, size: u64, secret: u8) -> String {
        let Ok(root) = root(size, &mut self.subtree());
        signer(secret).sign(size, root)
    }

    /// The bundle of these entries, signed with the key 1.
    fn bundle(&self, seqs: &[u64]) -> LogBundle {
        let entry = |seq: &u64| {
            let Ok(proof) = prove_inclusion(seq - 1, self.size(), &mut self.subtree());
            ProvedEntry { line: self.lines[*seq as usize - 1].clone(), proof: LogProof::of(&proof) }
        };
        let entries = seqs.iter().map(entry).collect();
        LogBundle { checkpoint: self.checkpoint(self.size(), 1), entries, continuation: None }
    }

    fn continuation(&self, old_size: u64) -> ProvedContinuation {
        let Ok(proof) = prove_consistency(old_size, self.size(), &mut self.subtree());
        ProvedContinuation { old_size, proof: LogProof::of(&proof), checkpoint: None }
    }

    fn verdict(&self, session: &str, seqs: &[u64]) -> String {
        let proof = serde_json::to_string(&self.bundle(seqs)).expect("plain data");
        format!(
            r#"{{"session_id":"{session}","tier":"full","verdict":{VERDICT},"query":"?","proof":{proof}}}"#
        )
    }

    fn file(&self, name: &str, text: &str) -> String {
        let file = self.dir.path().join(name);
        fs::write(&file, text).expect("the file is written");
        file.display().to_string()
    }

    /// A text without the path of the folder.
    fn without_folder(&self, text: &str) -> String {
        text.replace(&self.dir.path().display().to_string(), "DIR")
    }

    /// Verifies a document with the key 1. Returns the output, or the message of the error.
    fn verify(&self, document: &str, more: &[&str]) -> Result<String, String> {
        self.run(document, &[&["--key", &key(1)], more].concat(), false)
    }

    fn verify_as_json(&self, document: &str) -> Value {
        let shown = self.run(document, &["--key", &key(1)], true).expect("it is verified");
        serde_json::from_str(&shown).expect("JSON")
    }

    fn run(&self, document: &str, arguments: &[&str], is_json: bool) -> Result<String, String> {
        let file = self.file("document", document);
        let arguments = [&["verify-log", &file], arguments].concat();
        let TestArgs { verb } = TestArgs::try_parse_from(arguments).map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        verb.run(is_json, &mut out).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).expect("valid UTF-8"))
    }
}

fn text_of(bundle: &LogBundle) -> String {
    serde_json::to_string(bundle).expect("plain data")
}

#[test]
fn verdict_reports_the_members_that_its_proof_does_not_cover() {
    let log = TestLog::of_deliveries(&["cs_1", "shop/cs_2"]);
    let document = log.verdict("cs_1", &[1]);
    let shown = log.verify(&document, &[]).expect("it is verified");
    let line = |name: &str| shown.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    assert!(line("verified").is_some_and(|line| line.ends_with("session_id, verdict; 1 entry")), "{shown}");
    assert!(line("not verified").is_some_and(|line| line.ends_with("query, tier")), "{shown}");
    let shown = log.verify_as_json(&document);
    assert_eq!(shown["verdict"]["verified"], json!(["session_id", "verdict"]));
    assert_eq!(shown["verdict"]["not_verified"], json!(["query", "tier"]));
    assert_eq!(log.verify_as_json(&text_of(&log.bundle(&[1])))["verdict"], Value::Null);
}

#[test]
fn verdict_shows_the_application_that_its_entry_names() {
    let log = TestLog::of_deliveries(&["shop/cs_1", "cs_2"]);
    let shown = log.verify(&log.verdict("cs_1", &[1]), &[]).expect("it is verified");
    assert!(shown.contains("cs_1") && shown.contains("shop"), "{shown}");
    let shown = log.verify_as_json(&log.verdict("cs_1", &[1]));
    assert_eq!(shown["verdict"]["application"], "shop");
    let shown = log.verify_as_json(&log.verdict("cs_2", &[2]));
    assert_eq!(shown["verdict"]["application"], "default");
    // a document that names the application of its session is compared with it
    assert!(log.verify(&log.verdict("shop/cs_1", &[1]), &[]).is_ok());
    let refused = log.verify(&log.verdict("bank/cs_1", &[1]), &[]).expect_err("another application");
    assert!(refused.contains("bank/cs_1"), "{refused}");
}

#[test]
fn verdict_is_refused_if_its_entries_name_two_applications() {
    let log = TestLog::of_deliveries(&["shop/cs_1", "bank/cs_1"]);
    let refused = log.verify(&log.verdict("cs_1", &[1, 2]), &[]).expect_err("it is ambiguous");
    assert!(refused.contains("bank/cs_1") && refused.contains("shop/cs_1"), "{refused}");
}

#[test]
fn bundle_with_a_repeated_entry_is_refused() {
    let log = TestLog::of_deliveries(&["cs_1", "cs_2"]);
    assert!(log.verify(&text_of(&log.bundle(&[2, 1])), &[]).is_ok());
    let refused = log.verify(&text_of(&log.bundle(&[1, 2, 1])), &[]).expect_err("entry 1 is repeated");
    insta::assert_snapshot!(log.without_folder(&refused));
}

#[test]
fn continuation_is_reported_as_not_verified_without_its_checkpoint() {
    let log = TestLog::of_deliveries(&["cs_1", "cs_2", "cs_3"]);
    let mut bundle = log.bundle(&[1]);
    bundle.continuation = Some(log.continuation(2));
    let shown = log.verify(&text_of(&bundle), &[]).expect("it is verified");
    let row = |shown: &str| shown.lines().find(|line| line.starts_with("not verified")).map(str::to_owned);
    insta::assert_snapshot!(row(&shown).expect("the row of what is not verified"));
    let shown = log.verify_as_json(&text_of(&bundle));
    assert_eq!((&shown["continues"], &shown["continuation_not_verified"]), (&Value::Null, &json!(2)));

    let since = log.file("since", &log.checkpoint(2, 1));
    let shown = log.verify(&text_of(&bundle), &["--since", &since]).expect("it continues");
    assert_eq!(row(&shown), None, "{shown}");
}

#[test]
fn continuation_with_its_checkpoint_is_verified_without_another_one() {
    let log = TestLog::of_deliveries(&["cs_1", "cs_2", "cs_3"]);
    let mut bundle = log.bundle(&[3]);
    let mut with_checkpoint = |note: String| {
        bundle.continuation = Some(ProvedContinuation { checkpoint: Some(note), ..log.continuation(2) });
        text_of(&bundle)
    };
    let document = with_checkpoint(log.checkpoint(2, 1));
    let shown = log.verify_as_json(&document);
    assert_eq!((&shown["continues"], &shown["continuation_not_verified"]), (&json!(2), &Value::Null));
    // the root of another log, signed with the key, and the right root, signed with another key
    let other_root = signer(1).sign(2, leaf_hash(b"other"));
    for forged in [other_root, log.checkpoint(2, 2)] {
        let document = with_checkpoint(forged);
        let since = log.file("since", &log.checkpoint(2, 1));
        log.verify(&document, &[]).expect_err("the earlier checkpoint is forged");
        log.verify(&document, &["--since", &since]).expect_err("also beside the right one");
    }
}

#[test]
fn entry_is_printed_as_json_with_its_exact_text() {
    let log = TestLog::of_deliveries(&["cs_1"]);
    let shown = log.run(&text_of(&log.bundle(&[1])), &["--key", &key(1)], true).expect("it is verified");
    assert!(shown.contains(&log.lines[0]), "{shown}");
}

#[test]
fn checkpoints_of_two_keys_are_verified_with_both_keys() {
    let log = TestLog::of_deliveries(&["cs_1", "cs_2", "cs_3"]);
    let mut bundle = log.bundle(&[1]);
    bundle.continuation = Some(log.continuation(2));
    let bundle = text_of(&bundle);
    let since = log.file("since", &log.checkpoint(2, 2));
    let unsigned = log.verify(&bundle, &["--since", &since]).expect_err("the other key is missing");
    let file = log.file("key", &key(2));
    for other in [&key(2), &file] {
        log.verify(&bundle, &["--since", &since, "--key", other]).expect("both are signed");
    }
    let forged = log.file("since", &log.checkpoint(2, 2).replace("\n2\n", "\n1\n"));
    let changed = log.verify(&bundle, &["--since", &forged, "--key", &key(2)]).expect_err("it was changed");
    let other_log = LogSigner::new("oracled/2", &[1; 32]).key().to_string();
    let other = log.verify(&bundle, &["--key", &other_log]).expect_err("the keys are of two logs");
    insta::assert_snapshot!(log.without_folder(&[unsigned, changed, other].join("\n")));
}

#[test]
fn witness_that_has_not_cosigned_the_checkpoint_is_named() {
    let log = TestLog::of_deliveries(&["cs_1"]);
    let witness = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2";
    let mut bundle = log.bundle(&[1]);
    let missing = log.verify(&text_of(&bundle), &["--witness", witness]).expect_err("it is not cosigned");
    // a cosignature of another checkpoint
    bundle.checkpoint += "\u{2014} remora.n621.de 2net5wAAAABqEiEgPlfF3V06o0Y+fHM+J5J9s27wgxxcOVSpZ/2g/KSiXCg9DEZI+aVCIobWX9sXTynk5XeU/zZ0WBxtqB0DrAWfBw==\n";
    log.verify(&text_of(&bundle), &[]).expect("cosignatures of unknown keys are ignored");
    let file = log.file("witness", witness);
    let forged = log.verify(&text_of(&bundle), &["--witness", &file]).expect_err("it is forged");
    let of_log = log.verify(&text_of(&bundle), &["--witness", &key(1)]).expect_err("the key of a log");
    insta::assert_snapshot!(log.without_folder(&[missing, forged, of_log].join("\n")));
}
