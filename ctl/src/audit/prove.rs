//! `oraclectl log prove`, `oraclectl log checkpoint` and `oraclectl log key`.

use super::bundle::{EntryNumber, verify};
use super::export_log::{ExportArgs, get, read_checkpoint, read_key, unreadable};
use super::log_keys::{LogKeys, unusable};
use crate::base::error::CtlError;
use crate::base::input::read_text;
use crate::base::options::{GlobalOptions, encode_segment, id_parser, response_lines};
use crate::base::output::print_json;
use domain_audit::checkpoint::Checkpoint;
use domain_audit::wire::{LogBundle, LogLimit, LogProof, ProvedContinuation, ProvedEntry};
use hyper::Method;
use oracled_api::client::DaemonClient;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Subcommand)]
pub(super) enum LogVerb {
    /// Print entries with the proof that the log has them
    ///
    /// `oraclectl verify-log` verifies the output without a daemon. The proof is for the newest checkpoint that a witness has
    /// cosigned, if it has all these entries.
    Prove(ProveArgs),
    /// Write the log to a directory that any web server can serve (C2SP `tlog-tiles`)
    ///
    /// The entries have hashes in place of the values that can be erased. `oraclectl verify-log DIR` verifies the directory.
    Export(ExportArgs),
    /// Print a signed checkpoint: the size of the log and the root of its Merkle tree
    Checkpoint {
        /// Print the newest checkpoint that a witness has cosigned; without one, the newest checkpoint
        #[arg(long)]
        cosigned: bool,
    },
    /// Print the public key with which checkpoints are verified
    Key,
}

#[derive(Debug, clap::Args)]
pub(super) struct ProveArgs {
    #[command(flatten)]
    entries: ProvedEntries,
    /// Also prove that the log continues that of an earlier checkpoint
    #[arg(long, value_name = "CHECKPOINT")]
    since: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct ProvedEntries {
    /// The entries of this session; shop/cs_1 for a session of the application `shop`
    #[arg(long, value_name = "ID", value_parser = id_parser())]
    session: Option<String>,
    /// The entries of the verification with this execution id
    #[arg(long, value_name = "ID", value_parser = id_parser())]
    execution: Option<String>,
    /// The entry with this number
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    seq: Option<u64>,
}

impl LogVerb {
    pub(super) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let mut daemon = DaemonClient::connect(&options.control_path()?).await?;
        match self {
            Self::Prove(args) => print_json(out, &args.prove(&mut daemon).await?),
            Self::Export(args) => args.run(&mut daemon, options.json, out).await,
            Self::Checkpoint { cosigned } => {
                Ok(write!(out, "{}", read_checkpoint(&mut daemon, *cosigned).await?)?)
            }
            Self::Key => Ok(writeln!(out, "{}", read_key(&mut daemon).await?)?),
        }
    }
}

/// The entry with the number `seq` and its proof, which was verified.
pub(crate) async fn prove_entry(daemon: &mut DaemonClient, seq: u64) -> Result<LogBundle, CtlError> {
    let entries = ProvedEntries { session: None, execution: None, seq: Some(seq) };
    ProveArgs { entries, since: None }.prove(daemon).await
}

impl ProveArgs {
    async fn prove(&self, daemon: &mut DaemonClient) -> Result<LogBundle, CtlError> {
        let keys = LogKeys::one(read_key(daemon).await?);
        let earlier = self.since.as_deref().map(read_earlier).transpose()?;
        let lines = self.entries.read(daemon).await?;
        if lines.is_empty() {
            let first = read_lines(daemon, "after=0&limit=1").await?;
            let first = first.first().and_then(|line| serde_json::from_str(line).ok());
            let message = match first {
                Some(EntryNumber { seq: first @ 2.. }) => format!(
                    "the log has no such entry; it begins with entry {first}, since earlier ones were dropped"
                ),
                _ => "the log has no such entry".to_owned(),
            };
            return Err(CtlError::Verb { message, exit_code: 1, was_printed: false });
        }
        let seqs = lines.iter().map(|line| serde_json::from_str(line).map(|EntryNumber { seq }| seq));
        let seqs = seqs.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        let needed = seqs.iter().copied().chain(earlier.as_ref().map(|earlier| earlier.size)).max();
        let mut note = read_checkpoint(daemon, true).await?;
        let mut size = keys.verify(&note).map_err(unreadable)?.size;
        if Some(size) < needed {
            note = read_checkpoint(daemon, false).await?;
            size = keys.verify(&note).map_err(unreadable)?.size;
        }
        let mut entries = Vec::new();
        for (line, seq) in lines.into_iter().zip(seqs) {
            let proof: LogProof =
                get(daemon, &format!("/v1/log/proof?seq={seq}&size={size}")).await?.json()?;
            entries.push(ProvedEntry { line, proof });
        }
        let mut continuation = None;
        if let Some(earlier) = &earlier {
            let path = format!("/v1/log/continuation?old_size={}&size={size}", earlier.size);
            let proof = get(daemon, &path).await?.json()?;
            continuation = Some(ProvedContinuation { old_size: earlier.size, proof });
        }
        let bundle = LogBundle { checkpoint: note, entries, continuation };
        verify(&bundle, &keys, earlier.as_ref())?;
        Ok(bundle)
    }
}

/// The checkpoint in a file. An earlier key may have signed it; `oraclectl verify-log` verifies its signature.
fn read_earlier(file: &Path) -> Result<Checkpoint, CtlError> {
    let note = read_text(file)?;
    Checkpoint::read_unverified(&note).map_err(|error| unusable(&file.display().to_string(), error))
}

impl ProvedEntries {
    /// The lines of the entries.
    async fn read(&self, daemon: &mut DaemonClient) -> Result<Vec<String>, CtlError> {
        if let Some(seq) = self.seq {
            let lines = read_lines(daemon, &format!("after={}&limit=1", seq - 1)).await?;
            let is_it =
                |line: &String| serde_json::from_str(line).is_ok_and(|EntryNumber { seq: read }| read == seq);
            return Ok(lines.into_iter().filter(is_it).collect());
        }
        let query = match (&self.session, &self.execution) {
            (Some(session), _) => format!("session={}", encode_segment(session)),
            (_, Some(execution)) => format!("execution={}", encode_segment(execution)),
            _ => return Ok(Vec::new()),
        };
        let (mut lines, mut after) = (Vec::new(), 0);
        loop {
            let page = read_lines(daemon, &format!("{query}&after={after}&limit={}", LogLimit::MAX)).await?;
            let count = page.len();
            lines.extend(page);
            let last = lines.last().filter(|_| count == LogLimit::MAX);
            let Some(last) = last else { return Ok(lines) };
            after = serde_json::from_str::<EntryNumber>(last).map_err(unreadable)?.seq;
        }
    }
}

async fn read_lines(daemon: &mut DaemonClient, query: &str) -> Result<Vec<String>, CtlError> {
    let response = daemon.open(Method::GET, &format!("/v1/log?{query}"), None).await?;
    let mut response = response_lines(response).await?;
    let mut lines = Vec::new();
    while let Some(line) = response.next_line().await? {
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        lines.push(str::from_utf8(line).map_err(unreadable)?.to_owned());
    }
    Ok(lines)
}
