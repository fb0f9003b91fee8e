//! `oraclectl log`, with `log prove`, `log checkpoint` and `log key`.

use crate::audit::export_log::{ExportArgs, get, read_checkpoint, read_key, unreadable};
use crate::audit::verification::{EntryNumber, LogKeys, unusable, verify};
use crate::base::error::CtlError;
use crate::base::input::read_text;
use crate::base::options::{GlobalOptions, encode_segment, id_parser, limit_parser, response_lines};
use crate::base::output::print_json;
use crate::base::program::examples;
use domain_audit::checkpoint::Checkpoint;
use domain_audit::event::{ErasureStarted, SessionErased};
use domain_audit::wire::{LogBundle, LogLimit, LogProof, ProvedContinuation, ProvedEntry};
use domain_base::event::{EntryMembers, Event, read_open};
use domain_base::moment::{Date, Moment};
use domain_base::session_id::SessionId;
use domain_base::text_form::{visible_json, visible_line};
use domain_verdict::wire::ErasedSession;
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use oracled_api::client::{ClientError, DaemonClient};
use oracled_domain::events::{event_type, event_types};
use serde::Deserialize;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Show the audit log: the newest entries, or the selected ones; or prove entries
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = examples(&["oraclectl log --follow", "oraclectl log --session cs_1 --since 2h", "oraclectl log --event message_failed -n 20", "oraclectl log --json --after 0", "oraclectl log prove --session cs_1", "oraclectl log export /srv/log", "oraclectl log checkpoint", "oraclectl log key"]))]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    verb: Option<LogVerb>,
    /// Keep running and print each new entry as it is written
    #[arg(short, long)]
    follow: bool,
    /// Only entries of this session; shop/cs_1 for a session of the application `shop`
    #[arg(long, value_name = "ID", value_parser = id_parser())]
    session: Option<String>,
    /// Only entries of the verification with this execution id
    #[arg(long, value_name = "ID", value_parser = id_parser())]
    execution: Option<String>,
    /// Only entries caused by the request with this X-Request-Id
    #[arg(long, value_name = "ID", value_parser = id_parser())]
    request: Option<String>,
    /// Only entries of these events, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(event_types().map(|kind| kind.name)))]
    event: Vec<String>,
    /// Only entries since a time (2026-11-20T10:00:00Z) or a day (in UTC), or of the last period (90s, 15m, 2h, 7d)
    #[arg(long, value_name = "TIME")]
    since: Option<SinceTime>,
    /// Only entries after the entry with this number
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Maximum number of entries [default: the newest 100; with --since or --after, the first 10000]
    #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(LogLimit::MAX))]
    limit: Option<usize>,
}

/// A time, or a duration before now.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SinceTime {
    At(Timestamp),
    Ago(SignedDuration),
}

impl FromStr for SinceTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(at) = Date::read(text).as_ref().and_then(Date::moment) {
            return Ok(Self::At(at));
        }
        let allowed = "a time such as 2026-11-20T10:00:00Z, a day such as 2026-11-20, or a period such as 90s, 15m, 2h, 7d";
        parse_duration(text).map(Self::Ago).map_err(|_| format!("`{text}` is not {allowed}"))
    }
}

/// Parses a duration such as 90s, 15m, 2h, 7d.
pub(crate) fn parse_duration(text: &str) -> Result<SignedDuration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.trim().parse::<i64>().ok());
    let days = days.and_then(|days| days.checked_mul(24)).map(SignedDuration::from_hours);
    let invalid = |_| format!("`{text}` is not a duration in days, hours or minutes; use 90d, 12h or 30m");
    days.map_or_else(|| text.parse::<SignedDuration>().map_err(invalid), Ok)
}

impl SinceTime {
    pub(crate) fn to_timestamp(self) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => Timestamp::now().saturating_sub(ago).unwrap_or(Timestamp::MIN),
        }
    }
}

impl LogArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        if let Some(verb) = &self.verb {
            return verb.run(options, out).await;
        }
        let path = self.request_path();
        let mut client = DaemonClient::connect(&options.control_path()?).await?;
        let response = client.open(Method::GET, &path, None).await?;
        let mut lines = response_lines(response).await?;
        let mut is_empty = true;
        while let Some(line) = lines.next_line().await? {
            print_entry(&line, options.json, out)?;
            out.flush()?;
            is_empty = false;
        }
        if is_empty && !options.json && !self.follow {
            writeln!(out, "no entries")?;
        }
        Ok(())
    }

    fn request_path(&self) -> String {
        // with a start, all entries from there; otherwise the newest
        let from_there = (self.since.is_some() || self.after.is_some()).then_some(LogLimit::MAX);
        let limit = self.limit.or(from_there);
        let params = [
            ("session", self.session.clone()),
            ("execution", self.execution.clone()),
            ("request_id", self.request.clone()),
            ("event", (!self.event.is_empty()).then(|| self.event.join(","))),
            ("since", self.since.map(|since| since.to_timestamp().to_string())),
            ("after", self.after.map(|after| after.to_string())),
            ("limit", limit.map(|limit| limit.to_string())),
        ];
        let params: Vec<_> = params
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", encode_segment(&value?))))
            .collect();
        format!("/v1/log{}?{}", if self.follow { "/follow" } else { "" }, params.join("&"))
    }
}

fn print_entry(line: &[u8], json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
    if json {
        return Ok(out.write_all(visible_json(&String::from_utf8_lossy(line)).as_bytes())?);
    }
    let entry: Value =
        serde_json::from_slice(line).map_err(|error| ClientError::Unreadable(error.to_string()))?;
    Ok(writeln!(out, "{}", format_entry(&entry))?)
}

/// A time with exactly three decimal places, so that the next column is aligned.
fn format_timestamp(timestamp: String) -> String {
    timestamp.parse().map_or(timestamp, |Moment(at)| format!("{at:.3}"))
}

/// One line: number, time, event, session, a summary of the entry, and the caller.
pub(crate) fn format_entry(entry: &Value) -> String {
    let entry = EntryMembers(entry);
    let (seq, at) = (entry.text("seq"), format_timestamp(entry.text("timestamp")));
    let what = [entry.words(&["event", "session_id"]), summarize_entry(entry), entry.caller()].join(" ");
    let line = format!("{seq} {at} {what}");
    visible_line(&line.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// See [`Event::summary`](domain_base::event::Event::summary); empty if this program does not know the event.
pub(crate) fn summarize_entry(entry: EntryMembers<'_>) -> String {
    event_type(&entry.text("event")).map(|kind| (kind.summary)(entry)).unwrap_or_default()
}

#[derive(Debug, clap::Subcommand)]
enum LogVerb {
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
struct ProveArgs {
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
    async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
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

/// The lines of all entries after entry `after` that `query` selects.
pub(crate) async fn read_all_lines(
    daemon: &mut DaemonClient,
    query: &str,
    mut after: u64,
) -> Result<Vec<String>, CtlError> {
    let mut lines = Vec::new();
    loop {
        let page = read_lines(daemon, &format!("{query}&after={after}&limit={}", LogLimit::MAX)).await?;
        let count = page.len();
        lines.extend(page);
        let last = lines.last().filter(|_| count == LogLimit::MAX);
        let Some(last) = last else { return Ok(lines) };
        after = serde_json::from_str::<EntryNumber>(last).map_err(unreadable)?.seq;
    }
}

/// The entries of completed erasures of these sessions after the checkpoint `before`, with their proofs and the proof that the log
/// continues that of the checkpoint, which were verified. An entry whose session id was erased, too, can be of any session.
pub(crate) async fn prove_erasures(
    daemon: &mut DaemonClient,
    before: String,
    sessions: &[ErasedSession],
) -> Result<LogBundle, CtlError> {
    let earlier = Checkpoint::read_unverified(&before).map_err(unreadable)?;
    let mut lines = Vec::new();
    let events = [ErasureStarted::NAME, SessionErased::NAME].join(",");
    for line in read_all_lines(daemon, &format!("event={events}"), earlier.size).await? {
        let SessionOfEntry { session_id } = serde_json::from_str(&line).map_err(unreadable)?;
        let is_one = |id: &SessionId| sessions.iter().any(|erased| erased.session_id == *id);
        if session_id.as_ref().is_none_or(is_one) {
            lines.push(line);
        }
    }
    prove_lines(daemon, lines, Some((earlier, Some(before)))).await
}

/// The session of an entry; `None` if its id was erased.
#[derive(Deserialize)]
struct SessionOfEntry {
    #[serde(default, deserialize_with = "read_open")]
    session_id: Option<SessionId>,
}

impl ProveArgs {
    async fn prove(&self, daemon: &mut DaemonClient) -> Result<LogBundle, CtlError> {
        let earlier = self.since.as_deref().map(read_earlier).transpose()?;
        let lines = self.entries.read(daemon).await?;
        prove_lines(daemon, lines, earlier.map(|earlier| (earlier, None))).await
    }
}

/// The entries with these lines and their proofs, which were verified, and the proof that the log continues `earlier`, whose note
/// the bundle gets if there is one.
async fn prove_lines(
    daemon: &mut DaemonClient,
    lines: Vec<String>,
    earlier: Option<(Checkpoint, Option<String>)>,
) -> Result<LogBundle, CtlError> {
    let (earlier, earlier_note) = earlier.unzip();
    let keys = LogKeys::one(read_key(daemon).await?);
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
    let entries = prove_at(daemon, lines, size).await?;
    let mut continuation = None;
    if let Some(earlier) = &earlier {
        let path = format!("/v1/log/continuation?old_size={}&size={size}", earlier.size);
        let proof = get(daemon, &path).await?.json()?;
        let checkpoint = earlier_note.flatten();
        continuation = Some(ProvedContinuation { old_size: earlier.size, proof, checkpoint });
    }
    let bundle = LogBundle { checkpoint: note, entries, continuation };
    verify(&bundle, &keys, earlier.as_ref())?;
    Ok(bundle)
}

/// The entries with these lines, with their proofs for the log of the first `size` entries.
pub(crate) async fn prove_at(
    daemon: &mut DaemonClient,
    lines: Vec<String>,
    size: u64,
) -> Result<Vec<ProvedEntry>, CtlError> {
    let mut entries = Vec::new();
    for line in lines {
        let EntryNumber { seq } = serde_json::from_str(&line).map_err(unreadable)?;
        let proof: LogProof = get(daemon, &format!("/v1/log/proof?seq={seq}&size={size}")).await?.json()?;
        entries.push(ProvedEntry { line, proof });
    }
    Ok(entries)
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
        read_all_lines(daemon, &query, 0).await
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn health_change_is_printed_on_one_line_with_its_cause() {
        let mut entry = json!({
            "seq": 7,
            "event": "oracle_health_changed",
            "oracle_id": "model",
            "from": "healthy",
            "to": "degraded",
            "cause": "a failure: status\n500",
            "consecutive_failures": 1,
            "peer": null,
            "timestamp": "2026-11-20T10:00:00Z",
        });
        let line = "7 2026-11-20T10:00:00.000Z oracle_health_changed model healthy → degraded: a failure: status 500";
        assert_eq!(format_entry(&entry), line);
        entry["peer"] = json!({"uid": 1, "gid": 2, "pid": 3});
        assert_eq!(format_entry(&entry), format!("{line} by uid 1 gid 2 pid 3"));
    }

    #[test]
    fn erased_values_are_printed_as_hidden() {
        let entry = json!({
            "seq": 7,
            "event": "order_attempt_failed",
            "attempt": 1,
            "outcome": "failed",
            "cause": {"sha256": "ab"},
            "next_attempt_at": null,
            "session_id": "cs_1",
            "timestamp": "2026-11-20T10:00:00Z",
            "caller": {"sha256": "cd"},
        });
        assert_eq!(
            format_entry(&entry),
            "7 2026-11-20T10:00:00.000Z order_attempt_failed cs_1 attempt 1 failed: hidden; no further attempt [caller hidden]"
        );
    }

    #[test]
    fn since_takes_a_time_a_day_or_a_period() {
        let at = |text: &str| text.parse::<SinceTime>().map(|since| since.to_timestamp().to_string());
        assert_eq!(at("2026-11-20").as_deref(), Ok("2026-11-20T00:00:00Z"));
        assert_eq!(at("2026-11-20T10:00:00Z").as_deref(), Ok("2026-11-20T10:00:00Z"));
        assert!(matches!("90s".parse(), Ok(SinceTime::Ago(ago)) if ago == SignedDuration::from_secs(90)));
        for wrong in ["2026-11-31", "soon", "90", ""] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn timestamps_get_milliseconds_and_other_text_is_unchanged() {
        for (given, shown) in [
            ("2026-11-20T10:00:00Z", "2026-11-20T10:00:00.000Z"),
            ("2026-11-20T10:00:00.1Z", "2026-11-20T10:00:00.100Z"),
            ("2026-11-20T10:00:00.123456789Z", "2026-11-20T10:00:00.123Z"),
            ("soon", "soon"),
        ] {
            assert_eq!(format_timestamp(given.to_owned()), shown);
        }
    }
}
