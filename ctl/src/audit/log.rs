//! `oraclectl log`.

use super::prove::LogVerb;
use crate::base::error::CtlError;
use crate::base::examples::examples;
use crate::base::options::{GlobalOptions, encode_segment, id_parser, limit_parser, response_lines};
use domain_audit::wire::LogLimit;
use domain_base::event::EntryMembers;
use domain_base::moment::{Date, Moment};
use domain_base::visible::{visible_json, visible_line};
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use oracled_api::client::{ClientError, DaemonClient};
use oracled_domain::events::{event_type, event_types};
use serde_json::Value;
use std::io::Write;
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
    /// Only entries of this event
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(event_types().map(|kind| kind.name)))]
    event: Option<String>,
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
            ("event", self.event.clone()),
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
