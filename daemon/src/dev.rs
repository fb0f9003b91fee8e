//! `oracled dev`: the whole daemon without any setup, and a demonstration of its main features by a client.
//!
//! The daemon is in test mode: without a configured model it has canned answers, and mails go to files.

mod chapters;
mod tools;

use crate::config::DaemonConfig;
use crate::dev::chapters::DevWalk;
use crate::dev::tools::DevTools;
use crate::platform::config::{DaemonFlags, redact_url};
use crate::platform::telemetry;
use crate::run::{NoTestStateError, RunningDaemon};
use crate::upstreams::{UpstreamClients, test_mail_dir};
use crate::verdict::config::models::{ModelProvider, ModelSection};
use actors_platform::clock::{Clock, monotonic};
use anyhow::{Context, anyhow, bail};
use domain_upstream::health::OracleHealthConfig;
use std::fs::Permissions;
use std::io::Write;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{fs, io};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;

/// Only warnings and errors are logged. Warnings about upstream services and the test mode are not logged, because the walk
/// shows the failures of the model, and names the mode.
const LOG_LEVEL: &str =
    "warn,actors_upstream=error,actors_upstream::oracle_health=error,oracled::test_mode=error";

/// Starts the daemon in a temporary directory, unless flags name other paths, and runs the walk. With `exit`,
/// the daemon ends after the walk. With `verbose`, each request and its response are shown. `seed` is a script that loads
/// further data after the walk. A state directory that has a finished walk gets no second one.
///
/// # Errors
/// The daemon, the walk or `seed` cannot run, or a signal stops the daemon before the end of the walk. A failed step
/// is not an error, but sets the exit code.
pub fn dev(
    mut flags: DaemonFlags,
    seed: Option<PathBuf>,
    exit: bool,
    verbose: bool,
) -> anyhow::Result<ExitCode> {
    flags.test_mode = true;
    flags.fix_config_file();
    seed.as_deref().map(DevTools::check_seed).transpose()?;
    // only this user may read the mails and verdicts
    let mode = Permissions::from_mode(0o700);
    let temporary = tempfile::Builder::new().prefix("oracled-dev-").permissions(mode).tempdir();
    let temporary = temporary.context("no temporary directory")?;
    let mut config = use_temporary_paths(DaemonConfig::load(&flags)?, &flags, &temporary);
    let log_level = telemetry::start(config.log_format, &config.log_level)?;
    actix_rt::System::new().block_on(async {
        let outside = DevUpstreams::new(&mut config, &flags)?;
        let (socket, control_socket) = (config.socket.clone(), config.control_socket.clone());
        writeln!(io::stdout(), "socket  {}\nstate   {}", socket.display(), config.state_dir.display())?;
        writeln!(io::stdout(), "model   {}", outside.model.describe())?;
        writeln!(io::stdout(), "mail    files in {} (test mode)", outside.mail_dir.display())?;
        for url in webhook_urls(&config) {
            writeln!(io::stdout(), "webhooks {}", redact_url(url))?;
        }
        writeln!(io::stdout())?;
        let tools = DevTools::new(temporary.path(), &socket, &control_socket)?;
        let daemon = RunningDaemon::start(config, flags, log_level).await.map_err(explain_start)?;
        let mut walk = DevWalk::start(&outside, &socket, &control_socket, verbose).await?;
        let began = monotonic();
        if walk.find_earlier_walk().await? {
            writeln!(io::stdout(), "the state directory has the demonstration already; it is not repeated")?;
        } else {
            tokio::select! {
                walked = run_chapters(&mut walk) => walked?,
                signal = wait_for_stop_signal() => {
                    daemon.stop().await;
                    signal?;
                    bail!("stopped by a signal before the end of the walk");
                }
            }
            let DevWalk { passed, unchecked, failed, .. } = walk;
            let count = passed + unchecked + failed;
            let unchecked = if unchecked == 0 { String::new() } else { format!(", {unchecked} not checked") };
            let seconds = began.elapsed().as_secs_f64();
            writeln!(io::stdout(), "\n{passed} of {count} steps passed{unchecked} ({seconds:.1} s)")?;
        }
        let failed = walk.failed;
        if let Some(seed) = seed {
            let tools = tools.clone();
            if let Err(error) = spawn_blocking(move || tools.run_seed(&seed)).await? {
                daemon.stop().await;
                return Err(error);
            }
        }
        if exit {
            daemon.stop().await;
        } else {
            let commands = format_next_commands(&walk, &tools);
            let console = spawn_blocking(move || tools.start_console()).await?;
            io::stdout().write_all(commands.as_bytes())?;
            daemon.run_until_stopped().await?;
            drop(console);
        }
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// The configured URLs of webhooks.
fn webhook_urls(config: &DaemonConfig) -> impl Iterator<Item = &str> {
    let own = config.applications.values().filter_map(|section| section.webhook_url.as_deref());
    let common =
        [&config.webhooks.url, &config.webhooks.operator_url].into_iter().filter_map(Option::as_deref);
    let further = config.webhooks.endpoints.values().map(|section| section.url.as_str());
    common.chain(own).chain(further)
}

/// The error of a start, with the remedy for `oracled dev`, which has no flag for the mode.
fn explain_start(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<NoTestStateError>() {
        Ok(NoTestStateError(dir)) => anyhow!(
            "the state directory {} belongs to a daemon without test mode; name another --state-dir, because `oracled dev` serves in \
             test mode",
            dir.display()
        ),
        Err(error) => error,
    }
}

/// Runs the chapters. Without a model, the chapters that call it are skipped. The responses of the model are
/// checked only if they are canned.
async fn run_chapters(walk: &mut DevWalk<'_>) -> io::Result<()> {
    walk.chapter("a coherent verdict is delivered", true, chapters::deliver_verdict).await?;
    walk.chapter(
        "a verdict that contradicts itself or is cut off is rejected",
        true,
        chapters::refuse_verdicts,
    )
    .await?;
    let outside = walk.outside;
    if !matches!(outside.model, DevModel::Missing) {
        let is_known = matches!(outside.model, DevModel::Canned { .. });
        let is_generated = walk
            .chapter(
                "the model generates a verdict, and the customer gets it by mail",
                is_known,
                chapters::generate_verdict,
            )
            .await?;
        let title = "a lost verdict is regenerated, and the difference is reported";
        if is_generated {
            walk.chapter(title, is_known, chapters::regenerate_verdict).await?;
        } else {
            walk.skip(title, "the previous step failed")?;
        }
    }
    if matches!(outside.model, DevModel::Canned { has_outage: true }) {
        walk.chapter("an order survives a failing model", true, chapters::simulate_outage).await?;
    }
    walk.chapter(
        "two releases of a source are ingested, and both can be queried",
        true,
        chapters::ingest_two_releases,
    )
    .await?;
    walk.chapter("a value leads back to its bytes in the payload", true, chapters::trace_value).await?;
    walk.chapter("a text is checked against the facts of the source", true, chapters::check_texts).await?;
    walk.chapter("a disagreement between two sources goes to a reviewer", true, chapters::decide_dispute)
        .await?;
    walk.chapter("the log reproduces every decision", true, chapters::reproduce_decision).await?;
    Ok(())
}

/// Puts every path without a flag into the temporary directory, because the paths from the file and the
/// variables may belong to a running daemon. Also replaces the default log level.
fn use_temporary_paths(mut config: DaemonConfig, flags: &DaemonFlags, temporary: &TempDir) -> DaemonConfig {
    for (key, flag, path) in config.paths_with_flags(flags) {
        if flag.is_none() {
            *path = temporary.path().join(key);
        }
    }
    config.review_socket = None;
    if config.log_level == DaemonConfig::default().log_level {
        LOG_LEVEL.clone_into(&mut config.log_level);
    }
    config
}

/// Waits for a signal during the walk; the daemon handles signals only after the walk.
async fn wait_for_stop_signal() -> io::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

/// Commands that work while the daemon runs.
fn format_next_commands(walk: &DevWalk<'_>, tools: &DevTools) -> String {
    let DevTools { oraclectl, socket, control_socket } = tools;
    let (oraclectl, socket, control_socket) =
        (oraclectl.display(), socket.display(), control_socket.display());
    let session = walk.id("good");
    // an earlier walk had other ids
    let ids = [("provenance", &walk.record_id), ("explain", &walk.execution_id)];
    let ids = ids.into_iter().filter(|(_, id)| !id.is_empty());
    let ids: String = ids.map(|(verb, id)| format!("  {oraclectl} {verb} {id}\n")).collect();
    format!(
        "The daemon serves until Ctrl-C. Commands to try in another terminal:\n\n  \
         export ORACLED_SOCKET={socket}\n  \
         export ORACLED_CONTROL_SOCKET={control_socket}\n  \
         {oraclectl} log\n  \
         {oraclectl} verdict {session}\n{ids}  \
         curl --unix-socket $ORACLED_SOCKET http://oracled/v1/verdicts/{session}\n"
    )
}

/// Number of retries of a failed call to the canned model: enough to show retries.
const MAX_RETRIES: u32 = 1;
/// Time that the circuit of the canned model stays open, in seconds: long enough to be seen, short enough for a walk.
const RESET_SECONDS: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);
/// Calls of the canned model within a minute: it has no quota.
const CALLS_PER_MINUTE: u32 = 1_000_000;

/// The model of the walk.
#[derive(Debug, Clone, Copy)]
enum DevModel {
    /// Canned answers, because no model is configured.
    Canned {
        /// Whether the walk has an outage. If `health` is configured, an outage could take too long.
        has_outage: bool,
    },
    Configured,
    /// No model: the configuration has none, or its key is missing.
    Missing,
}

/// The model and the mails.
#[derive(Debug)]
struct DevUpstreams {
    model: DevModel,
    mail_dir: PathBuf,
}

impl DevUpstreams {
    /// Adds the canned model to `config` if it has no model.
    fn new(config: &mut DaemonConfig, flags: &DaemonFlags) -> anyhow::Result<Self> {
        let upstreams = UpstreamClients::from_config(config, &Clock::system(), flags)?;
        let has_model = !upstreams.models.order.is_empty();
        let model = match (has_model, config.model == ModelSection::default()) {
            (true, _) => DevModel::Configured,
            (false, false) => DevModel::Missing,
            (false, true) => use_canned_model(config),
        };
        Ok(Self { model, mail_dir: test_mail_dir(&config.state_dir) })
    }

    /// A mail whose id begins with `id`, if one has arrived.
    fn find_mail(&self, id: &str) -> io::Result<Option<(PathBuf, String)>> {
        let entries = match fs::read_dir(&self.mail_dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries?,
        };
        for entry in entries {
            let file = entry?.path();
            if file.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(id)) {
                let text = fs::read_to_string(&file)?;
                return Ok(Some((file, text)));
            }
        }
        Ok(None)
    }
}

impl DevModel {
    /// The model, on one line.
    const fn describe(self) -> &'static str {
        match self {
            Self::Canned { has_outage: true } => {
                "canned: it answers every query; set GEMINI_API_KEY for Google's model"
            }
            Self::Canned { has_outage: false } => {
                "canned: it answers every query; no outage is shown, because `health` is configured"
            }
            Self::Configured => "as configured; answers are shown but not checked, and no outage is shown",
            Self::Missing => "none, because no model or no key is configured; no verdict is generated",
        }
    }
}

fn use_canned_model(config: &mut DaemonConfig) -> DevModel {
    config.model.provider = ModelProvider::Canned;
    config.model.max_retries = MAX_RETRIES;
    config.model.calls_per_minute = CALLS_PER_MINUTE;
    let has_outage = config.health == OracleHealthConfig::default();
    if has_outage {
        config.health.circuit_breaker_reset_seconds = RESET_SECONDS;
        config.health.recovery_threshold = NonZeroU32::MIN;
    }
    DevModel::Canned { has_outage }
}
