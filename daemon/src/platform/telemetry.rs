//! The service log, which goes to standard error or to journald.
//!
//! It is not the audit log, which is part of the store. Messages are structured; a panic is one line.

use domain_base::text_form::{visible_colored_text, visible_json, visible_line};
use serde::{Deserialize, Serialize};
use std::io::{self, IsTerminal, Write};
use std::{env, panic};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// The format of the service log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people, or journald fields if systemd runs the daemon.
    Text,
    /// One JSON object per line.
    Json,
}

/// The requests that the access log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessLogLevel {
    /// None.
    Off,
    /// Requests with a status of 500 or more, and requests without a whole response, because the client disconnected.
    Errors,
    /// All requests.
    All,
}

/// Changes the level of the service log while the daemon runs.
#[derive(Debug, Clone)]
pub struct LogLevelHandle(reload::Handle<EnvFilter, Registry>);

impl LogLevelHandle {
    /// The current directives.
    #[must_use]
    pub fn get(&self) -> String {
        self.0.with_current(ToString::to_string).unwrap_or_default()
    }

    /// Replaces the directives.
    ///
    /// # Errors
    /// The fault in the directives, as text.
    pub fn set(&self, directives: &str) -> Result<(), String> {
        self.0.reload(parse_filter(directives)?).map_err(|error| error.to_string())
    }
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The beginnings of the names of oracled's crates. A directive for `oracled` is for all of them.
const CRATES: [&str; 4] = ["oracled", "actors_", "domain_", "store_"];

/// Parses tracing filter directives. `oracled=debug` is for all crates of oracled.
///
/// # Errors
/// The fault in the directives, as text.
pub fn parse_filter(directives: &str) -> Result<EnvFilter, String> {
    if directives.trim().is_empty() {
        return Err("the text is empty".into());
    }
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    // tracing parses any other bare word as a module name, and then logs only that module
    let bare =
        directives.split(',').map(str::trim).find(|word| !word.contains(['=', '[']) && !is_level(word));
    if let Some(word) = bare {
        // the caller names the whole text
        let word = if word == directives.trim() { String::new() } else { format!("`{word}` is ") };
        return Err(format!(
            "{word}not a level; allowed: {}, or a filter such as `info,actors_verdict=debug`",
            LEVELS.join(", ")
        ));
    }
    let of_crates =
        directives.split(',').flat_map(|directive| match directive.trim().strip_prefix("oracled=") {
            Some(level) => CRATES.map(|name| format!("{name}={level}")).to_vec(),
            None => vec![directive.to_owned()],
        });
    EnvFilter::try_new(of_crates.collect::<Vec<_>>().join(",")).map_err(|error| error.to_string())
}

/// Starts the service log for the whole process.
///
/// # Errors
/// If the service log is already started, or `directives` cannot be parsed.
pub fn start(format: LogFormat, directives: &str) -> anyhow::Result<LogLevelHandle> {
    let (filter, handle) = reload::Layer::new(parse_filter(directives).map_err(anyhow::Error::msg)?);
    let registry = tracing_subscriber::registry().with(filter);
    let started: Result<(), TryInitError> = match format {
        LogFormat::Json => {
            registry.with(fmt::layer().json().with_writer(|| VisibleLog(show_json_line))).try_init()
        }
        LogFormat::Text => registry.with(text_layer()).try_init(),
    };
    started?;
    panic::set_hook(Box::new(|panic| {
        if oracled_store::is_panic_caught() {
            return;
        }
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "{}", panic.payload_as_str().unwrap_or("a panic"));
    }));
    Ok(LogLevelHandle(handle))
}

fn text_layer() -> Box<dyn Layer<FilteredRegistry> + Send + Sync> {
    // systemd sets this variable if standard error goes to the journal, which keeps the fields
    if env::var_os("JOURNAL_STREAM").is_some()
        && let Ok(journald) = tracing_journald::layer()
    {
        return Box::new(journald);
    }
    let is_terminal = io::stderr().is_terminal();
    let show = if is_terminal { show_colored_line } else { show_line };
    Box::new(fmt::layer().with_writer(move || VisibleLog(show)).with_ansi(is_terminal))
}

/// Writes log lines to standard error. Each write is one line, whose values may be foreign text.
struct VisibleLog(fn(&str) -> String);

impl Write for VisibleLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let shown = (self.0)(text.strip_suffix('\n').unwrap_or(&text)) + "\n";
        io::stderr().write_all(shown.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn show_line(line: &str) -> String {
    visible_line(line).into_owned()
}

/// A line with the colors of its level and its names.
fn show_colored_line(line: &str) -> String {
    visible_colored_text(line).replace('\n', "\\n")
}

fn show_json_line(line: &str) -> String {
    visible_json(line).into_owned()
}

type FilteredRegistry = tracing_subscriber::layer::Layered<reload::Layer<EnvFilter, Registry>, Registry>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directive_for_oracled_is_for_all_of_its_crates() {
        let filter = parse_filter("warn, oracled=debug").expect("valid directives").to_string();
        let mut directives: Vec<_> = filter.split(',').collect();
        directives.sort_unstable();
        let all = ["actors_=debug", "domain_=debug", "oracled=debug", "store_=debug", "warn"];
        assert_eq!(directives, all);
        assert!(parse_filter("oracled=loud").is_err());
        for (directives, named) in [("bogus", "not a level"), ("info,bogus", "`bogus` is not a level")] {
            let error = parse_filter(directives).expect_err("it is not a level");
            assert!(error.starts_with(named), "{error}");
        }
    }

    #[test]
    fn log_line_shows_foreign_text_as_escapes() {
        let line = "WARN cause=\u{202e}x\u{200b}\u{9b}2J\nERROR forged";
        assert_eq!(show_line(line), r"WARN cause=\u{202e}x\u{200b}\u{9b}2J\nERROR forged");
        assert_eq!(
            show_colored_line(&format!("\u{1b}[33m{line}\u{1b}[2J")),
            "\u{1b}[33mWARN cause=\\u{202e}x\\u{200b}\\u{9b}2J\\nERROR forged\\u{1b}[2J"
        );
        assert_eq!(show_json_line("{\"cause\":\"\u{202e}\"}"), r#"{"cause":"\u202e"}"#);
    }
}
