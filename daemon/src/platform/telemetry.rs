//! The service's own log: what the daemon says of itself, to standard error or to journald.
//!
//! It is not the audit log, which is the store's. Messages are structured; panics become one line each.

use serde::{Deserialize, Serialize};
use std::env;
use std::io::{self, IsTerminal};
use std::panic;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// How the service's own log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum LogFormat {
    /// For people, or for journald where systemd runs the daemon.
    Text,
    /// One JSON object a line.
    Json,
}

impl TryFrom<String> for LogFormat {
    type Error = &'static str;

    fn try_from(word: String) -> Result<Self, &'static str> {
        clap::ValueEnum::from_str(&word, false)
            .map_err(|_| "the value is not a log format; allowed: text, json")
    }
}

/// Changes what is written while the daemon runs.
#[derive(Debug, Clone)]
pub struct LogLevel(reload::Handle<EnvFilter, Registry>);

impl LogLevel {
    /// The directives in force.
    #[must_use]
    pub fn get(&self) -> String {
        self.0.with_current(ToString::to_string).unwrap_or_default()
    }

    /// Puts other directives in force.
    ///
    /// # Errors
    /// What is wrong with them, in words.
    pub fn set(&self, directives: &str) -> Result<(), String> {
        self.0.reload(filter(directives)?).map_err(|error| error.to_string())
    }
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Reads tracing's filter directives.
///
/// # Errors
/// What is wrong with them, in words.
pub fn filter(directives: &str) -> Result<EnvFilter, String> {
    if directives.trim().is_empty() {
        return Err("nothing is given".into());
    }
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    // tracing takes any other bare word for a module of which everything is told, and of nothing else anything
    let bare =
        directives.split(',').map(str::trim).find(|word| !word.contains(['=', '[']) && !is_level(word));
    if let Some(word) = bare {
        return Err(format!("`{word}` is no level; allowed: {}", LEVELS.join(", ")));
    }
    EnvFilter::try_new(directives).map_err(|error| error.to_string())
}

/// Starts the service's log, for the whole process.
///
/// # Errors
/// Where it was started before, or `directives` cannot be read.
pub fn start(format: LogFormat, directives: &str) -> anyhow::Result<LogLevel> {
    let (filter, handle) = reload::Layer::new(filter(directives).map_err(anyhow::Error::msg)?);
    let registry = tracing_subscriber::registry().with(filter);
    let started: Result<(), TryInitError> = match format {
        LogFormat::Json => registry.with(fmt::layer().json().with_writer(io::stderr)).try_init(),
        LogFormat::Text => registry.with(text_layer()).try_init(),
    };
    started?;
    panic::set_hook(Box::new(|panic| {
        if oracled_store::panic_becomes_an_error() {
            return;
        }
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "{}", panic.payload_as_str().unwrap_or("a panic"));
    }));
    Ok(LogLevel(handle))
}

fn text_layer() -> Box<dyn Layer<Layered> + Send + Sync> {
    // systemd sets this where standard error goes to the journal; there the fields stay fields
    if env::var_os("JOURNAL_STREAM").is_some()
        && let Ok(journald) = tracing_journald::layer()
    {
        return Box::new(journald);
    }
    Box::new(fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal()))
}

type Layered = tracing_subscriber::layer::Layered<reload::Layer<EnvFilter, Registry>, Registry>;
