//! `oracled dev`: the whole daemon without any setup, and a demonstration of its main features by a client.
//!
//! Only this module has the substitutes for a model and a mail service.

mod chapters;
mod mailbox;
mod model;

use crate::config::DaemonConfig;
use crate::dev::chapters::DevWalk;
use crate::platform::config::DaemonFlags;
use crate::platform::telemetry;
use crate::run::RunningDaemon;
use crate::upstreams::UpstreamClients;
use crate::verdict::config::mail::MailSection;
use crate::verdict::config::models::ModelSection as ModelConfig;
use actors_platform::clock::{Clock, monotonic};
use anyhow::{Context, bail};
use domain_upstream::health::OracleHealthConfig;
use mailbox::Mailbox;
use model::RecordedModel;
use std::fs::Permissions;
use std::io::Write;
use std::num::NonZeroU32;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::ExitCode;
use std::{env, io};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

/// Only warnings and errors are logged. Warnings about upstream services are not logged, because the walk shows
/// the failures of the model.
const LOG_LEVEL: &str = "warn,actors_upstream=error,actors_upstream::oracle_health=error";

/// Starts the daemon in a temporary directory, unless flags name other paths, and runs the walk. With `exit`,
/// the daemon ends after the walk. With `verbose`, each request and its response are shown.
///
/// # Errors
/// The daemon or the walk cannot run, or a signal stops the daemon before the end of the walk. A failed step
/// is not an error, but sets the exit code.
pub fn dev(flags: DaemonFlags, exit: bool, verbose: bool) -> anyhow::Result<ExitCode> {
    // only this user may read the mails and verdicts
    let mode = Permissions::from_mode(0o700);
    let temporary = tempfile::Builder::new().prefix("oracled-dev-").permissions(mode).tempdir();
    let temporary = temporary.context("no temporary directory")?;
    let mut config = use_temporary_paths(DaemonConfig::load(&flags)?, &flags, &temporary);
    let log_level = telemetry::start(config.log_format, &config.log_level)?;
    actix_rt::System::new().block_on(async {
        let outside = DevUpstreams::start(&mut config, &flags, temporary.path()).await?;
        let (socket, control_socket) = (config.socket.clone(), config.control_socket.clone());
        let [model, mail] = outside.describe();
        writeln!(io::stdout(), "socket  {}\nstate   {}", socket.display(), config.state_dir.display())?;
        writeln!(io::stdout(), "model   {model}\nmail    {mail}\n")?;
        // the program is oraclectl when it is started under that name
        let oraclectl = temporary.path().join("oraclectl");
        symlink(env::current_exe()?, &oraclectl)?;
        let daemon = RunningDaemon::start(config, flags, log_level).await?;
        let mut walk = DevWalk::start(&outside, &socket, &control_socket, verbose).await?;
        let began = monotonic();
        tokio::select! {
            walked = run_chapters(&mut walk) => walked?,
            signal = wait_for_stop_signal() => {
                daemon.stop().await;
                signal?;
                bail!("stopped by a signal before the end of the walk");
            }
        }
        let DevWalk { passed, unchecked, failed, .. } = walk;
        let unchecked = if unchecked == 0 { String::new() } else { format!(", {unchecked} not checked") };
        let count = passed + walk.unchecked + failed;
        let seconds = began.elapsed().as_secs_f64();
        writeln!(io::stdout(), "\n{passed} of {count} steps passed{unchecked} ({seconds:.1} s)")?;
        if exit {
            daemon.stop().await;
        } else {
            let commands = format_next_commands(&walk, &oraclectl, &socket, &control_socket);
            io::stdout().write_all(commands.as_bytes())?;
            daemon.run_until_stopped().await?;
        }
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Runs the chapters. Without a model, the chapters that call it are skipped. The responses of the model are
/// checked only if they are recorded ones.
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
        let is_known = matches!(outside.model, DevModel::Recorded { .. });
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
    if matches!(outside.model, DevModel::Recorded { has_outage: true, .. }) {
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
fn format_next_commands(
    walk: &DevWalk<'_>,
    oraclectl: &Path,
    socket: &Path,
    control_socket: &Path,
) -> String {
    let oraclectl = oraclectl.display();
    let (socket, control_socket) = (socket.display(), control_socket.display());
    let DevWalk { record_id, execution_id, .. } = walk;
    let session = walk.id("good");
    format!(
        "The daemon serves until Ctrl-C. Commands to try in another terminal:\n\n  \
         export ORACLED_SOCKET={socket}\n  \
         export ORACLED_CONTROL_SOCKET={control_socket}\n  \
         {oraclectl} log\n  \
         {oraclectl} verdict {session}\n  \
         {oraclectl} provenance {record_id}\n  \
         {oraclectl} explain {execution_id}\n  \
         curl --unix-socket $ORACLED_SOCKET http://oracled/v1/verdicts/{session}\n"
    )
}

/// Number of retries of a failed call to the recorded model: enough to show retries.
const MAX_RETRIES: u32 = 1;
/// Time that the recorded model's circuit stays open, in seconds: long enough to be seen, short enough for a
/// walk.
const RESET_SECONDS: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);

/// The model of the walk.
#[derive(Debug)]
enum DevModel {
    /// A recording, because no model is configured.
    Recorded {
        model: RecordedModel,
        /// Whether the walk has an outage. If `health` is configured, an outage could take too long.
        has_outage: bool,
    },
    Configured,
    /// No model: the configuration has none, or its key is missing.
    Missing,
}

/// The model and the mail service.
#[derive(Debug)]
struct DevUpstreams {
    model: DevModel,
    /// `None` if a mail service is configured.
    mailbox: Option<Mailbox>,
}

impl DevUpstreams {
    /// Starts a substitute for each missing upstream system, and adds it to `config`. Creates files in `dir`.
    async fn start(config: &mut DaemonConfig, flags: &DaemonFlags, dir: &Path) -> anyhow::Result<Self> {
        let upstreams = UpstreamClients::from_config(config, &Clock::system(), flags.allow_cleartext)?;
        let has_model = !upstreams.models.order.is_empty();
        let model = match (has_model, config.model == ModelConfig::default()) {
            (true, _) => DevModel::Configured,
            (false, false) => DevModel::Missing,
            (false, true) => start_recorded_model(config, dir).await?,
        };
        let mailbox = if config.mail == MailSection::default() {
            let mailbox = Mailbox::start(dir.join("mail")).await.context("no mailbox")?;
            mailbox.configure(&mut config.mail);
            Some(mailbox)
        } else {
            None
        };
        Ok(Self { model, mailbox })
    }

    /// The model and the mail service, each on one line.
    fn describe(&self) -> [String; 2] {
        let model = match &self.model {
            DevModel::Recorded { has_outage: true, .. } => {
                "a recording of a real model; set GEMINI_API_KEY for Google's model"
            }
            DevModel::Recorded { has_outage: false, .. } => {
                "a recording of a real model; no outage is shown, because `health` is configured"
            }
            DevModel::Configured => {
                "as configured; answers are shown but not checked, and no outage is shown"
            }
            DevModel::Missing => "none, because no model or no key is configured; no verdict is generated",
        };
        let mail = self.mailbox.as_ref().map_or_else(
            || "as configured; the arrival of mail is not checked".into(),
            |mailbox| format!("files in {}", mailbox.dir().display()),
        );
        [model.to_owned(), mail]
    }
}

async fn start_recorded_model(config: &mut DaemonConfig, dir: &Path) -> anyhow::Result<DevModel> {
    let model = RecordedModel::start().await.context("no recorded model")?;
    model.configure(&mut config.model, dir).context("no key for the recorded model")?;
    config.model.max_retries = MAX_RETRIES;
    let has_outage = config.health == OracleHealthConfig::default();
    if has_outage {
        config.health.circuit_breaker_reset_seconds = RESET_SECONDS;
        config.health.recovery_threshold = NonZeroU32::MIN;
    }
    Ok(DevModel::Recorded { model, has_outage })
}
