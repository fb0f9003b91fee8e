//! `oracled`: the daemon's command line.

use crate::config::DaemonConfig;
use crate::platform::config::{DaemonFlags, redact_url};
use crate::platform::telemetry;
use crate::upstreams::UpstreamClients;
use crate::{api, control, dev, review, run};
use actors_platform::clock::Clock;
use clap::{Command, CommandFactory, Parser, Subcommand};
use domain_base::text_form::{visible_json, visible_text, visible_toml};
use nix::sys::prctl::set_dumpable;
use oracled_store::StoreError;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check, store and deliver the verdicts of a model
#[derive(Debug, Parser)]
#[command(name = "oracled", version, max_term_width = 100)]
struct DaemonArgs {
    #[command(subcommand)]
    verb: DaemonCommand,
}

#[derive(Debug, Subcommand)]
enum DaemonCommand {
    /// Serve until a signal stops the daemon
    Serve {
        #[command(flatten)]
        flags: DaemonFlags,
    },
    /// Serve in test mode, demonstrate the main features, and keep serving
    ///
    /// The state is in a temporary directory, unless --state-dir names one that is kept. A kept state gets the demonstration
    /// once. Without a configured model, canned answers are given to every query.
    Dev {
        #[command(flatten)]
        flags: DaemonFlags,
        /// Script that loads documents and payloads after the demonstration
        ///
        /// It runs in its folder, with `oraclectl` in its PATH and the sockets of this daemon. The interpreter in its `#!` line runs
        /// it. Without such a line, `sh` runs it, and the first command that fails ends it. If the script fails, the daemon ends with status 1.
        #[arg(long, value_name = "FILE")]
        seed: Option<PathBuf>,
        /// Exit after the demonstration, with status 0, or 1 if a step failed
        #[arg(long)]
        exit: bool,
        /// Show each request and its response
        #[arg(short, long)]
        verbose: bool,
    },
    /// Print the OpenAPI document of the routes' socket
    Openapi {
        /// Print the document of the control socket instead
        #[arg(long)]
        control: bool,
        /// Print the document of the socket for reviewers instead
        #[arg(long, conflicts_with = "control")]
        review: bool,
    },
    /// Check the configuration, and print the configuration or its errors
    CheckConfig {
        #[command(flatten)]
        flags: DaemonFlags,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The command line.
#[must_use]
pub fn command() -> Command {
    DaemonArgs::command()
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    // a core dump would contain keys, queries and addresses
    if let Err(error) = set_dumpable(false) {
        print_note(&format!("cannot turn core dumps off: {error}"));
        return ExitCode::FAILURE;
    }
    let done = match DaemonArgs::parse().verb {
        DaemonCommand::Serve { flags } => serve(flags),
        DaemonCommand::Dev { flags, seed, exit, verbose } => dev::dev(flags, seed, exit, verbose),
        DaemonCommand::Openapi { control, review } => {
            print_openapi(control, review).or_else(end_at_broken_pipe)
        }
        DaemonCommand::CheckConfig { flags, json } => check_config(&flags, json).or_else(end_at_broken_pipe),
    };
    done.unwrap_or_else(|error| {
        // each fault of the configuration has its own line, and each line gets the prefix
        print_note(&format_error_chain(&error).replace('\n', "\noracled: "));
        match error.downcast_ref() {
            Some(StoreError::Diverged { .. }) => ExitCode::from(FORKED),
            _ if error.is::<run::StoppedEarlyError>() => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        }
    })
}

/// The exit status of a host whose log is not that of its cluster. systemd does not start it again.
const FORKED: u8 = 3;

/// Prints text on standard error. Without a reader, the text is lost.
fn print_note(text: &str) {
    drop(writeln!(io::stderr(), "oracled: {}", visible_text(text)));
}

/// Ends without an error if the reader of the output, such as `head`, needs no more.
fn end_at_broken_pipe(error: anyhow::Error) -> anyhow::Result<ExitCode> {
    let is_broken_pipe = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref().is_some_and(is_broken_pipe) { Ok(ExitCode::SUCCESS) } else { Err(error) }
}

/// The error and its causes, without causes that the text already contains.
fn format_error_chain(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

fn serve(mut flags: DaemonFlags) -> anyhow::Result<ExitCode> {
    flags.fix_config_file();
    let config = DaemonConfig::load(&flags)?;
    let log_level = telemetry::start(config.log_format, &config.log_level)?;
    let ignored = DaemonConfig::ignored_variables();
    if !ignored.is_empty() {
        tracing::info!(
            variables = ignored.join(", "),
            "environment variables ignored: not configuration keys"
        );
    }
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    run::serve(config, flags, log_level)?;
    Ok(ExitCode::SUCCESS)
}

fn print_openapi(is_control: bool, is_review: bool) -> anyhow::Result<ExitCode> {
    let document = match (is_control, is_review) {
        (true, _) => control::document(),
        (_, true) => review::document(),
        _ => api::document(),
    };
    let document: serde_json::Value = serde_json::from_str(document)?;
    writeln!(io::stdout(), "{document:#}")?;
    Ok(ExitCode::SUCCESS)
}

fn check_config(flags: &DaemonFlags, json: bool) -> anyhow::Result<ExitCode> {
    let config = DaemonConfig::load(flags)?;
    // checks addresses and secrets like a start
    let upstreams = UpstreamClients::from_config(&config, &Clock::system(), flags)?;
    run::find_held_key(&config)?;
    run::find_log_key()?;
    config.cluster.secrets(flags.allow_cleartext)?;
    config.traces.collector(&Clock::system(), flags.allow_cleartext)?;
    for fault in &upstreams.cleartext {
        print_note(&format!("warning: {fault}"));
    }
    for warning in config.warnings() {
        print_note(&format!("warning: {warning}"));
    }
    let ignored = DaemonConfig::ignored_variables();
    if !ignored.is_empty() {
        let names = ignored.join(", ");
        print_note(&format!("ignored variables, which are not configuration keys: {names}"));
    }
    if let Some(drop_in) = config.metrics.drop_in() {
        print_note(&format!(
            "`metrics.listen` needs this under systemd, in /etc/systemd/system/oracled.service.d/metrics.conf:\n{drop_in}"
        ));
    }
    print_config(&mut io::stdout().lock(), &config, json)?;
    print_note("the configuration is valid");
    Ok(ExitCode::SUCCESS)
}

/// Prints a configuration as the daemon uses it.
pub(crate) fn print_config(out: &mut impl Write, config: &DaemonConfig, as_json: bool) -> io::Result<()> {
    let mut config = serde_json::to_value(config)?;
    hide_keys(&mut config);
    if as_json {
        return writeln!(out, "{}", visible_json(&format!("{config:#}")));
    }
    print_as_toml(out, "", &config)
}

/// Hides values that can be a key: the part of a URL after its host, and a file path that does not exist.
fn hide_keys(config: &mut serde_json::Value) {
    for (key, value) in config.as_object_mut().into_iter().flatten() {
        match value {
            serde_json::Value::String(text) if key == "url" || key.ends_with("_url") => {
                *text = redact_url(text);
            }
            serde_json::Value::String(text) if key.ends_with("_file") && !Path::new(text).exists() => {
                *text = "not shown: no file has this path".into();
            }
            other => hide_keys(other),
        }
    }
}

/// Prints plain values, and then each section under its heading.
fn print_as_toml(out: &mut impl Write, section: &str, value: &serde_json::Value) -> io::Result<()> {
    let entries: Vec<_> = value.as_object().into_iter().flatten().collect();
    for (key, value) in entries.iter().filter(|(_, value)| !value.is_object()) {
        if value.is_null() {
            writeln!(out, "# {key} is not set")?;
        } else {
            writeln!(out, "{key} = {}", visible_toml(&value.to_string()))?;
        }
    }
    for (key, value) in entries.iter().filter(|(_, value)| value.is_object()) {
        let heading = format!("{section}{key}");
        writeln!(out, "\n[{heading}]")?;
        print_as_toml(out, &format!("{heading}."), value)?;
    }
    Ok(())
}
