//! `oracled dev`: the whole daemon without any set-up, and a walk through its main path as a client of itself.

mod walk;

use crate::client::Client;
use crate::config::{Config, Flags};
use crate::run::Daemon;
use crate::telemetry;
use anyhow::Context;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::TempDir;

/// Serves from a throw-away directory, unless another is named, and walks. With `exit`, ends behind the walk.
///
/// # Errors
/// Whatever keeps the daemon from starting, or the walk from being walked.
pub fn dev(flags: Flags, exit: bool) -> anyhow::Result<ExitCode> {
    let throw_away =
        tempfile::Builder::new().prefix("oracled-dev-").tempdir().context("no temporary directory")?;
    let config = in_place_of_defaults(Config::load(&flags)?, &throw_away);
    let log_level = telemetry::start(config.log_format, &config.log_level)?;
    actix_rt::System::new().block_on(async {
        let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let mut out = io::stdout();
        let (socket, control_socket) = (config.socket.clone(), config.control_socket.clone());
        writeln!(out, "oracled serves on {}", socket.display())?;
        writeln!(out, "its state is in   {}\n", config.state_dir.display())?;
        let daemon = Daemon::start(config, flags, log_level).await?;
        let mut routes = Client::connect(&socket).await?;
        let mut control = Client::connect(&control_socket).await?;
        let before = walk::last_seq(&mut control).await?;
        let failed = walk::walk(&mut out, colour, &mut routes, &mut control, before).await?;
        drop((routes, control));
        if failed > 0 {
            writeln!(out, "{failed} of the steps above were not as they should be")?;
        }
        if exit {
            daemon.stop().await;
        } else {
            out.write_all(to_try(&socket, &control_socket, &walk::session(before, "good")).as_bytes())?;
            daemon.until_stopped().await?;
        }
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// What nobody has configured goes into the throw-away directory, and the log keeps to warnings.
fn in_place_of_defaults(mut config: Config, throw_away: &TempDir) -> Config {
    let default = Config::default();
    let instead = |path: &mut PathBuf, default: PathBuf, name: &str| {
        if *path == default {
            *path = throw_away.path().join(name);
        }
    };
    instead(&mut config.state_dir, default.state_dir, "state");
    instead(&mut config.socket, default.socket, "oracled.sock");
    instead(&mut config.control_socket, default.control_socket, "control.sock");
    if config.log_level == default.log_level {
        "warn".clone_into(&mut config.log_level);
    }
    config
}

fn to_try(socket: &Path, control_socket: &Path, session: &str) -> String {
    let (socket, control_socket) = (socket.display(), control_socket.display());
    format!(
        "It keeps serving; Ctrl-C ends it. Three things to try from another terminal:\n\n  \
         curl --unix-socket {socket} http://oracled/v1/verdicts/{session}\n\n  \
         curl --unix-socket {socket} http://oracled/v1/crosscheck -H 'content-type: application/json' \\\n    \
         -d '{{\"session_id\":\"try\",\"tier\":\"quick\",\"query\":\"?\",\"raw\":\"no JSON at all\"}}'\n\n  \
         cargo run --release --bin oraclectl -- --control-socket {control_socket} log\n\n"
    )
}
