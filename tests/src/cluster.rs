//! Several daemons on this machine with one log in PostgreSQL.

use crate::generation::world_with_model;
use crate::postgres::PostgresServer;
use crate::{DaemonProcess, DaemonWorld};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The server of a cluster, and the secrets of its hosts.
#[derive(Debug)]
pub struct TestCluster {
    /// `None` while it is stopped.
    pub server: Option<PostgresServer>,
    standby: Option<PostgresServer>,
    dir: TempDir,
}

fn text(path: &Path) -> &str {
    path.to_str().expect("valid UTF-8")
}

impl TestCluster {
    /// Starts the server; `None` if PostgreSQL is not installed.
    ///
    /// # Panics
    /// Panics if the server does not start.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::start_in(|server| {
            let server = PostgresServer::start(server).expect("the server starts")?;
            Some((server, None))
        })
    }

    /// As [`start`](Self::start), with a synchronous standby, which ends with this. The hosts require it.
    ///
    /// # Panics
    /// Panics if a server does not start.
    #[must_use]
    pub fn start_with_standby() -> Option<Self> {
        Self::start_in(|server| {
            let standby = server.with_file_name("standby");
            fs::create_dir(&standby).expect("the folder is created");
            let servers = PostgresServer::start_with_standby(server, &standby).expect("the servers start");
            servers.map(|(server, standby)| (server, Some(standby)))
        })
    }

    /// Starts a cluster with the server that `start` starts in this folder, and its standby.
    fn start_in(
        start: impl FnOnce(&Path) -> Option<(PostgresServer, Option<PostgresServer>)>,
    ) -> Option<Self> {
        let dir = tempfile::Builder::new().prefix("oracled-cluster-").tempdir().expect("a directory");
        let server_dir = dir.path().join("pg");
        fs::create_dir(&server_dir).expect("the folder is created");
        let (server, standby) = start(&server_dir)?;
        fs::write(dir.path().join("url"), server.url()).expect("the write succeeds");
        let key = BASE64_STANDARD.encode([7; 32]);
        fs::write(dir.path().join("keys"), format!("2026-11 {key}\n")).expect("the write succeeds");
        Some(Self { server: Some(server), standby, dir })
    }

    /// The configuration of a host.
    #[must_use]
    pub fn config(&self, host: &str) -> String {
        let (url, keys) = (self.dir.path().join("url"), self.dir.path().join("keys"));
        let durability = if self.standby.is_some() { "synchronous_standby" } else { "asynchronous" };
        format!(
            "[cluster]\nhost = \"{host}\"\nurl_file = \"{}\"\nkeys_file = \"{}\"\ndurability = \"{durability}\"\n",
            url.display(),
            keys.display()
        )
    }

    /// The folder of the objects that the hosts can share.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        self.dir.path().join("objects")
    }

    /// The file with the cluster's keys.
    ///
    /// # Panics
    /// Panics if it cannot be read.
    #[must_use]
    pub fn keys(&self) -> String {
        fs::read_to_string(self.dir.path().join("keys")).expect("the read succeeds")
    }

    /// A host that is not started yet, which calls the model at this URL.
    #[must_use]
    pub fn world(&self, host: &str, model_url: &str, config: &str) -> DaemonWorld {
        world_with_model(model_url, &format!("{config}\n{}", self.config(host)))
    }

    /// Starts `first` as the first host of the cluster.
    ///
    /// # Panics
    /// Panics if the cluster is not created.
    pub async fn init<'w>(&self, first: &'w DaemonWorld) -> DaemonProcess<'w> {
        fs::create_dir_all(first.state()).expect("the folder is created");
        let output = first.ctl(&["cluster", "init", "--state-dir", text(&first.state())]);
        assert!(output.status.success(), "{output:?}");
        first.serve().await
    }

    /// Starts `next` as a further host, with a backup of `first`, which runs.
    ///
    /// # Panics
    /// Panics if it does not join.
    pub async fn join<'w>(&self, next: &'w DaemonWorld, first: &DaemonWorld) -> DaemonProcess<'w> {
        self.restore(next, first).await;
        next.serve().await
    }

    /// Restores a backup of `first`, which runs, to the state directory of `next`.
    ///
    /// # Panics
    /// Panics if it fails.
    pub async fn restore(&self, next: &DaemonWorld, first: &DaemonWorld) {
        let backup = next.path("backup");
        drop(fs::remove_dir_all(&backup));
        let output = first.ctl_in_thread(&["backup", text(&backup)]).await;
        assert!(output.status.success(), "{output:?}");
        let key = first.ctl_in_thread(&["log", "key"]).await;
        let key = String::from_utf8(key.stdout).expect("valid UTF-8");
        let (log_key, held_key): (PathBuf, PathBuf) =
            (first.state().join("log.key"), first.state().join("held.key"));
        let state = next.state();
        let join = ["cluster", "join", text(&backup), "--state-dir", text(&state), "--key", key.trim()];
        let keys = ["--log-key", text(&log_key), "--held-key", text(&held_key)];
        let output = next.ctl_in_thread(&[&join[..], &keys[..]].concat()).await;
        assert!(output.status.success(), "{output:?}");
    }

    /// Ends the server at once.
    pub fn stop_server(&mut self) {
        self.server = None;
    }

    /// Starts the server again with its data.
    ///
    /// # Panics
    /// Panics if it does not start.
    pub fn start_server(&mut self) {
        let started = PostgresServer::start_again(&self.dir.path().join("pg")).expect("the server starts");
        self.server = started;
    }
}
