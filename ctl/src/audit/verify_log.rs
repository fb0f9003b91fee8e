//! `oraclectl verify-log`.

use super::bundle::{VerifiedDocument, read_note, verify};
use super::log::format_entry;
use super::verify_directory;
use crate::base::error::CtlError;
use crate::base::input::read_text;
use crate::base::output::{format_pairs, print_json};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use oracled_domain::audit::checkpoint::LogKey;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Verify entries of `oraclectl log prove`, a verdict with its proof, or the log of a directory, without a daemon
///
/// It checks the signature of the checkpoint, and that the log of the checkpoint has each entry unchanged. Of a verdict from
/// `oraclectl verdict ID --proof`, it also checks that its text is the one that was delivered to the session.
///
/// For a state directory or a backup, it reads all entries from the segments, and compares them with the checkpoint of the
/// backup, with that of `--since`, and with `oracle_log.jsonl`.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyLogArgs {
    /// The output of `oraclectl log prove` or of `oraclectl verdict ID --proof`, a state directory, or a backup; `-` reads
    /// standard input
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// The public key of the log, or a file with it, from a source that you trust
    #[arg(long, value_name = "KEY")]
    key: String,
    /// An earlier checkpoint, which the log must continue
    #[arg(long, visible_alias = "checkpoint", value_name = "CHECKPOINT")]
    since: Option<PathBuf>,
}

impl VerifyLogArgs {
    pub(crate) fn run(&self, is_json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
        let key = read_key(&self.key)?;
        if self.bundle.is_dir() {
            return verify_directory::run(&self.bundle, &key, self.since.as_deref(), is_json, out);
        }
        let text = read_text(&self.bundle)?;
        let file = self.bundle.display().to_string();
        let document = VerifiedDocument::read(&text).map_err(|error| unusable(&file, error))?;
        let bundle = document.bundle();
        let earlier = self.since.as_deref().map(|file| read_note(file, &key)).transpose()?;
        let checkpoint = verify(bundle, &key, earlier.as_ref())?;
        let entries = bundle.entries.iter().map(|entry| serde_json::from_str(&entry.line));
        let entries = entries.collect::<Result<Vec<Value>, _>>().map_err(|error| unusable(&file, error))?;
        document.check_verdict(&entries)?;
        let root = BASE64_STANDARD.encode(checkpoint.root);
        if is_json {
            let continues = earlier.map(|earlier| earlier.size);
            let log = json!({"origin": checkpoint.origin, "size": checkpoint.size, "root": root});
            return print_json(out, &json!({"log": log, "continues": continues, "entries": entries}));
        }
        let mut head = vec![
            ("log", checkpoint.origin),
            ("checkpoint", format!("{} entries, root {root}", checkpoint.size)),
        ];
        if let Some(earlier) = earlier {
            head.push(("continues", format!("the log of {} entries", earlier.size)));
        }
        head.push(("verified", format!("{} entries", entries.len())));
        writeln!(out, "{}", format_pairs(&head))?;
        for entry in &entries {
            writeln!(out, "{}", format_entry(entry))?;
        }
        Ok(())
    }
}

/// The public key of a log: `text`, or the content of the file with this name.
pub(super) fn read_key(text: &str) -> Result<LogKey, CtlError> {
    match text.parse::<LogKey>() {
        Ok(key) => Ok(key),
        Err(_) if Path::new(text).is_file() => {
            let content = read_text(Path::new(text))?;
            content.trim().parse().map_err(|error| unusable(text, error))
        }
        Err(error) => Err(CtlError::Usage(error.to_string())),
    }
}

fn unusable(file: &str, error: impl ToString) -> CtlError {
    let message = format!("{file}: {}", error.to_string());
    CtlError::Verb { message, exit_code: 5, was_printed: false }
}
