//! Several daemons on this machine with one log in PostgreSQL.

use crate::generation::world_with_model;
use crate::partition::CuttableNetwork;
use crate::postgres::{PORT, PostgresServer, USER};
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
    durability: &'static str,
    dir: TempDir,
    /// The folder of the server.
    server_dir: PathBuf,
    /// The number of standbys that were started.
    standbys: usize,
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

    /// As [`start`](Self::start), with a standby for which no commit waits.
    ///
    /// # Panics
    /// Panics if a server does not start.
    #[must_use]
    pub fn start_with_asynchronous_standby() -> Option<Self> {
        let cluster = Self::start_with_standby()?;
        let server = cluster.server.as_ref().expect("it was started");
        server.set("synchronous_standby_names", "").expect("the server runs");
        Some(Self { durability: "asynchronous", ..cluster })
    }

    /// This cluster, whose hosts have this value of `cluster.durability`.
    #[must_use]
    pub fn with_durability(self, durability: &'static str) -> Self {
        Self { durability, ..self }
    }

    /// Lets hosts that start from now on connect as this user.
    ///
    /// # Panics
    /// Panics if the server does not run, or the file cannot be written.
    pub fn set_user(&self, user: &str) {
        let url = self.server.as_ref().expect("it runs").url_as(user);
        fs::write(self.dir.path().join("url"), url).expect("the write succeeds");
    }

    /// Starts a cluster with the server that `start` starts in this folder, and its standby.
    fn start_in(
        start: impl FnOnce(&Path) -> Option<(PostgresServer, Option<PostgresServer>)>,
    ) -> Option<Self> {
        let dir = tempfile::Builder::new().prefix("oracled-cluster-").tempdir().expect("a directory");
        let server_dir = dir.path().join("pg");
        fs::create_dir(&server_dir).expect("the folder is created");
        let (server, standby) = start(&server_dir)?;
        let url = standby.as_ref().map_or_else(|| server.url(), |standby| server.url_with(standby));
        fs::write(dir.path().join("url"), url).expect("the write succeeds");
        let key = BASE64_STANDARD.encode([7; 32]);
        fs::write(dir.path().join("keys"), format!("2026-11 {key}\n")).expect("the write succeeds");
        let standbys = usize::from(standby.is_some());
        let durability = if standby.is_some() { "synchronous_standby" } else { "asynchronous" };
        Some(Self { server: Some(server), standby, durability, dir, server_dir, standbys })
    }

    /// The configuration of a host.
    #[must_use]
    pub fn config(&self, host: &str) -> String {
        self.config_with(host, &self.dir.path().join("url"))
    }

    /// The configuration of a host that reaches the server over `network`.
    ///
    /// # Panics
    /// Panics if the file of its URL cannot be written.
    #[must_use]
    pub fn config_behind(&self, host: &str, network: &CuttableNetwork) -> String {
        let (url, dir) = (self.dir.path().join(format!("url-{host}")), network.dir().display());
        let text = format!("host={dir} port={PORT} user={USER} dbname=postgres");
        fs::write(&url, text).expect("the write succeeds");
        self.config_with(host, &url)
    }

    fn config_with(&self, host: &str, url: &Path) -> String {
        let (keys, durability) = (self.dir.path().join("keys"), self.durability);
        format!(
            "[cluster]\nhost = \"{host}\"\nurl_file = \"{}\"\nkeys_file = \"{}\"\ndurability = \"{durability}\"\n",
            url.display(),
            keys.display()
        )
    }

    /// The folders of the server and of its standby.
    pub fn server_dirs(&self) -> impl Iterator<Item = &Path> {
        self.server.iter().chain(&self.standby).map(PostgresServer::dir)
    }

    /// Whether the server has a standby.
    #[must_use]
    pub const fn has_standby(&self) -> bool {
        self.standby.is_some()
    }

    /// Lets the standby receive nothing more.
    ///
    /// # Panics
    /// Panics if there is none, or if it still receives.
    pub fn stop_replication(&self) {
        self.standby.as_ref().expect("a standby").stop_receiving().expect("it runs");
    }

    /// Ends the standby at once.
    pub fn stop_standby(&mut self) {
        self.standby = None;
    }

    /// Replaces the cluster's keys for all hosts.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn set_keys(&self, keys: &str) {
        fs::write(self.dir.path().join("keys"), keys).expect("the write succeeds");
    }

    /// The folder of the objects that the hosts can share.
    ///
    /// # Panics
    /// Panics if it cannot be created.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        let folder = self.dir.path().join("objects");
        fs::create_dir_all(&folder).expect("the folder is created");
        folder
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
        self.init_with(first, &[]).await
    }

    /// The same with these further arguments.
    ///
    /// # Panics
    /// Panics if the cluster is not created.
    pub async fn init_with<'w>(&self, first: &'w DaemonWorld, arguments: &[&str]) -> DaemonProcess<'w> {
        fs::create_dir_all(first.state()).expect("the folder is created");
        let state = first.state();
        let output = first.ctl(&[&["cluster", "init", "--state-dir", text(&state)], arguments].concat());
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
        self.restore_with(next, first, &[]).await;
    }

    /// The same with these further arguments.
    ///
    /// # Panics
    /// Panics if it fails.
    pub async fn restore_with(&self, next: &DaemonWorld, first: &DaemonWorld, arguments: &[&str]) {
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
        let output = next.ctl_in_thread(&[&join[..], &keys[..], arguments].concat()).await;
        assert!(output.status.success(), "{output:?}");
    }

    /// Ends the server at once.
    pub fn stop_server(&mut self) {
        self.server = None;
    }

    /// Kills the server, and promotes its standby.
    ///
    /// # Panics
    /// Panics if there is none, or if it is not promoted.
    pub fn fail_over(&mut self) {
        self.stop_server();
        let standby = self.standby.take().expect("a standby");
        standby.promote().expect("it is promoted");
        standby.dir().clone_into(&mut self.server_dir);
        self.server = Some(standby);
    }

    /// Starts a synchronous standby of the server, which ends with this.
    ///
    /// # Panics
    /// Panics if it does not start.
    pub fn add_standby(&mut self) {
        self.standbys += 1;
        let dir = self.dir.path().join(format!("standby-{}", self.standbys));
        let server = self.server.as_ref().expect("a server");
        fs::create_dir(&dir).expect("the folder is created");
        self.standby = server.start_standby(&dir).expect("it starts");
        server.set("synchronous_standby_names", "*").expect("the server runs");
    }

    /// Kills the server, and starts it with the data of the last [`PostgresServer::save`].
    ///
    /// # Panics
    /// Panics if it does not start.
    pub fn restore_server(&mut self) {
        self.stop_server();
        self.server = PostgresServer::start_saved(&self.server_dir).expect("the server starts");
    }

    /// Starts the server again with its data.
    ///
    /// # Panics
    /// Panics if it does not start.
    pub fn start_server(&mut self) {
        let started = PostgresServer::start_again(&self.server_dir).expect("the server starts");
        self.server = started;
    }
}
