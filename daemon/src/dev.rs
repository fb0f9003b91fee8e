//! `oracled dev`: the whole daemon without any setup, and a walk through its main path as a client of itself.
//!
//! The substitutes for a model and a mail service are here. No other module knows them.

mod delivery;
mod gate;
mod ground;
mod mailbox;
mod model;
mod outside;
mod rules;
mod step;
mod verification;
mod walk;

use crate::platform::config::{Config, Flags};
use crate::platform::telemetry;
use crate::run::Daemon;
use anyhow::{Context, bail};
use oracled_api::base::client::Client;
use outside::Outside;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};
use walk::Walk;

/// The service log has only warnings, and no failures of the model: the walk shows those.
const LOG_LEVEL: &str = "warn,oracled_actors::upstream=error,oracled_actors::upstream::oracle_health=error";

/// Serves from a temporary directory, unless flags name other paths, and walks. With `exit`, ends after the walk; with
/// `verbose`, shows each request and its response.
///
/// # Errors
/// Any error that prevents the start of the daemon, or the walk.
pub fn dev(flags: Flags, exit: bool, verbose: bool) -> anyhow::Result<ExitCode> {
    let throw_away =
        tempfile::Builder::new().prefix("oracled-dev-").tempdir().context("no temporary directory")?;
    let mut config = of_its_own(Config::load(&flags)?, &flags, &throw_away);
    let log_level = telemetry::start(config.log_format, &config.log_level)?;
    actix_rt::System::new().block_on(async {
        let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let mut out = io::stdout();
        let outside = Outside::start(&mut config, &flags, throw_away.path()).await?;
        let (socket, control_socket) = (config.socket.clone(), config.control_socket.clone());
        let [model, mail] = outside.in_words();
        writeln!(out, "oracled serves on {}", socket.display())?;
        writeln!(out, "its state is in   {}", config.state_dir.display())?;
        writeln!(out, "its model is      {model}")?;
        writeln!(out, "its mail goes to  {mail}\n")?;
        let daemon = Daemon::start(config, flags, log_level).await?;
        let (routes, mut control) =
            (Client::connect(&socket).await?, Client::connect(&control_socket).await?);
        let before = walk::last_seq(&mut control).await?;
        let walk = Walk { out: &mut out, colour, verbose, routes, control, outside: &outside, before }.walk();
        let failed = tokio::select! {
            failed = walk => failed?,
            told = told_to_stop() => {
                daemon.stop().await;
                told?;
                bail!("stopped by a signal before the end of the walk");
            }
        };
        if exit {
            daemon.stop().await;
        } else {
            out.write_all(to_try(&socket, &control_socket, &step::session(before, "good")).as_bytes())?;
            daemon.until_stopped().await?;
        }
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Puts every path without a flag into the temporary directory: the paths of the file and the variables may belong to a
/// running daemon.
fn of_its_own(mut config: Config, flags: &Flags, throw_away: &TempDir) -> Config {
    let own =
        |flag: &Option<PathBuf>, name: &str| flag.clone().unwrap_or_else(|| throw_away.path().join(name));
    config.state_dir = own(&flags.state_dir, "state");
    config.socket = own(&flags.socket, "oracled.sock");
    config.control_socket = own(&flags.control_socket, "control.sock");
    if config.log_level == Config::default().log_level {
        LOG_LEVEL.clone_into(&mut config.log_level);
    }
    config
}

/// Waits for a signal during the walk; the daemon handles signals only after the walk.
async fn told_to_stop() -> io::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

fn to_try(socket: &Path, control_socket: &Path, session: &str) -> String {
    let (socket, control_socket) = (socket.display(), control_socket.display());
    format!(
        "It keeps serving; Ctrl-C ends it. Three commands to try in another terminal:\n\n  \
         curl --unix-socket {socket} http://oracled/v1/verdicts/{session}\n\n  \
         curl --unix-socket {socket} http://oracled/v1/crosscheck -H 'content-type: application/json' \\\n    \
         -d '{{\"session_id\":\"try\",\"tier\":\"quick\",\"query\":\"?\",\"raw\":\"no JSON at all\"}}'\n\n  \
         cargo run --release --bin oraclectl -- --control-socket {control_socket} log\n\n"
    )
}
