//! A server of PostgreSQL of its own, if it is installed.

use ::postgres::{Client, NoTls};
use nix::unistd::{User, geteuid};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// The name of the user and of the superuser.
pub const USER: &str = "oracled";
/// The port in the name of the socket of a server that listens on none.
pub const PORT: &str = "5432";

const PATIENCE: Duration = Duration::from_secs(30);

/// A running server. Dropping it ends the server.
#[derive(Debug)]
pub struct PostgresServer {
    process: Child,
    dir: PathBuf,
}

/// The folder of the newest installed server.
fn find_programs() -> Option<PathBuf> {
    let named = Command::new("pg_config").arg("--bindir").output().ok();
    let named = named.map(|found| PathBuf::from(String::from_utf8_lossy(&found.stdout).trim()));
    // Debian has no `pg_config` without the packages for developers
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let installed = installed.map(|version| version.path().join("bin"));
    named.into_iter().chain(installed).filter(|folder| folder.join("initdb").exists()).max()
}

/// The user of the server, which refuses to run as root.
fn other_user() -> Option<User> {
    User::from_name("postgres").ok().flatten().filter(|_| geteuid().is_root())
}

/// Gives this folder or file to the user of the server.
fn give(path: &Path) -> io::Result<()> {
    let Some(user) = other_user() else { return Ok(()) };
    chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
}

fn command(programs: &Path, program: &str) -> Command {
    let mut command = Command::new(programs.join(program));
    if let Some(user) = other_user() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    command
}

impl PostgresServer {
    /// Starts a server in the empty folder `dir`, with a socket there; `None` if PostgreSQL is not installed.
    ///
    /// # Errors
    /// The server does not start.
    pub fn start(dir: &Path) -> io::Result<Option<Self>> {
        Self::start_with(dir, PORT, &["listen_addresses="])
    }

    /// Starts a server that also listens on this port of the loopback address, with a certificate and its key (PEM).
    ///
    /// # Errors
    /// The server does not start.
    pub fn start_with_tls(dir: &Path, port: u16, certificate: &str, key: &str) -> io::Result<Option<Self>> {
        let files = [("server.pem", certificate), ("server.key", key)].map(|(name, text)| {
            let file = dir.join(name);
            fs::write(&file, text)?;
            fs::set_permissions(&file, Permissions::from_mode(0o600))?;
            Ok::<_, io::Error>(file)
        });
        let [certificate, key] = files;
        let certificate = format!("ssl_cert_file={}", certificate?.display());
        let key = format!("ssl_key_file={}", key?.display());
        let settings = ["listen_addresses=127.0.0.1", "ssl=on", &certificate, &key];
        Self::start_with(dir, &port.to_string(), &settings)
    }

    /// Starts a server in the empty folder `dir`, as [`start`](Self::start), and a synchronous standby in the empty folder
    /// `standby_dir`. A commit is answered when both have it.
    ///
    /// # Errors
    /// One of them does not start.
    pub fn start_with_standby(dir: &Path, standby_dir: &Path) -> io::Result<Option<(Self, Self)>> {
        let Some(primary) = Self::start(dir)? else { return Ok(None) };
        let standby = primary.start_standby(standby_dir)?;
        primary.set("synchronous_standby_names", "*").map_err(io::Error::other)?;
        Ok(standby.map(|standby| (primary, standby)))
    }

    /// Starts a standby of this server in the empty folder `dir`; `None` if PostgreSQL is not installed.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_standby(&self, dir: &Path) -> io::Result<Option<Self>> {
        let Some(programs) = find_programs() else { return Ok(None) };
        give(dir)?;
        self.copy(&programs, &dir.join("data"), &["--write-recovery-conf"])?;
        Self::serve(&programs, dir, PORT, &["listen_addresses="]).map(Some)
    }

    /// Copies the present data of the server, for [`start_saved`](Self::start_saved).
    ///
    /// # Errors
    /// The server does not run.
    pub fn save(&self) -> io::Result<()> {
        let Some(programs) = find_programs() else { return Ok(()) };
        drop(fs::remove_dir_all(self.dir.join("saved")));
        self.copy(&programs, &self.dir.join("saved"), &[])
    }

    fn copy(&self, programs: &Path, to: &Path, arguments: &[&str]) -> io::Result<()> {
        let mut copy = command(programs, "pg_basebackup");
        copy.args(["--no-sync", "--checkpoint", "fast", "--port", PORT, "--username", USER]).args(arguments);
        copy.arg("--host").arg(&self.dir).arg("--pgdata").arg(to);
        if copy.status()?.success() { Ok(()) } else { Err(io::Error::other("pg_basebackup failed")) }
    }

    /// Starts a server with the data that [`save`](Self::save) has copied from an earlier one in `dir`, which has ended.
    ///
    /// # Errors
    /// The server does not start.
    pub fn start_saved(dir: &Path) -> io::Result<Option<Self>> {
        let data = dir.join("data");
        fs::remove_dir_all(&data)?;
        fs::rename(dir.join("saved"), &data)?;
        Self::start_again(dir)
    }

    /// Changes a setting of the server.
    ///
    /// # Errors
    /// The server does not run, or has no such setting.
    pub fn set(&self, name: &str, value: &str) -> Result<(), ::postgres::Error> {
        self.call(|client| {
            client.execute(&format!("ALTER SYSTEM SET {name} = '{value}'"), &[])?;
            client.execute("SELECT pg_reload_conf()", &[]).map(drop)
        })
    }

    /// Runs these statements.
    ///
    /// # Errors
    /// The server does not run, or refuses a statement.
    ///
    /// # Panics
    /// Panics if `run` does.
    pub fn call<T: Send>(
        &self,
        run: impl FnOnce(&mut Client) -> Result<T, ::postgres::Error> + Send,
    ) -> Result<T, ::postgres::Error> {
        // the client has a runtime of its own, which cannot be in another one
        let call = || run(&mut Client::connect(&self.url(), NoTls)?);
        scope(|threads| threads.spawn(call).join()).expect("no panic")
    }

    /// Lets a standby receive nothing more.
    ///
    /// # Errors
    /// It does not run.
    ///
    /// # Panics
    /// Panics if it still receives after 30 s.
    pub fn stop_receiving(&self) -> Result<(), ::postgres::Error> {
        self.set("primary_conninfo", "")?;
        let receives = "SELECT FROM pg_stat_wal_receiver";
        let began = Instant::now();
        while self.call(|client| client.query_opt(receives, &[]))?.is_some() {
            assert!(began.elapsed() < PATIENCE, "the standby still receives");
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Promotes a standby. It accepts writes when this returns.
    ///
    /// # Errors
    /// It is not promoted.
    pub fn promote(&self) -> io::Result<()> {
        let Some(programs) = find_programs() else { return Ok(()) };
        let mut promote = command(&programs, "pg_ctl");
        promote.args(["promote", "--wait", "--pgdata"]).arg(self.dir.join("data"));
        if promote.status()?.success() { Ok(()) } else { Err(io::Error::other("pg_ctl promote failed")) }
    }

    fn start_with(dir: &Path, port: &str, settings: &[&str]) -> io::Result<Option<Self>> {
        let Some(programs) = find_programs() else { return Ok(None) };
        let data = dir.join("data");
        give(dir)?;
        fs::read_dir(dir)?.try_for_each(|file| give(&file?.path()))?;
        let mut prepare = command(&programs, "initdb");
        prepare.args(["--no-sync", "--auth", "trust", "--username", USER, "--pgdata"]).arg(&data);
        if !prepare.status()?.success() {
            return Err(io::Error::other("initdb failed"));
        }
        Self::serve(&programs, dir, port, settings).map(Some)
    }

    /// Starts a server with the data of an earlier one that was started in `dir`.
    ///
    /// # Errors
    /// The server does not start.
    pub fn start_again(dir: &Path) -> io::Result<Option<Self>> {
        let Some(programs) = find_programs() else { return Ok(None) };
        Self::serve(&programs, dir, PORT, &["listen_addresses="]).map(Some)
    }

    fn serve(programs: &Path, dir: &Path, port: &str, settings: &[&str]) -> io::Result<Self> {
        let data = dir.join("data");
        let mut serve = command(programs, "postgres");
        serve.arg("-D").arg(&data).arg("-k").arg(dir).args(["-p", port]);
        // a killed server leaves its shared memory: in its own folder it is removed with it
        let memory = "dynamic_shared_memory_type=mmap";
        for setting in
            ["fsync=on", "synchronous_commit=on", "full_page_writes=on", memory].iter().chain(settings)
        {
            serve.args(["-c", setting]);
        }
        let server = Self { process: serve.spawn()?, dir: dir.to_owned() };
        // its socket exists before it accepts sessions, and a killed server leaves its state
        let (began, id) = (Instant::now(), server.process.id().to_string());
        let is_ready = || {
            let state = fs::read_to_string(data.join("postmaster.pid"));
            state.is_ok_and(|state| state.lines().next() == Some(&*id) && state.contains("ready"))
        };
        while !is_ready() {
            if began.elapsed() > PATIENCE {
                return Err(io::Error::other("PostgreSQL does not start"));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// The path of its socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir.join(format!(".s.PGSQL.{PORT}"))
    }

    /// The settings of a client.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The settings of a client that uses this server or `other`, whichever accepts writes.
    #[must_use]
    pub fn url_with(&self, other: &Self) -> String {
        let dirs = [&self.dir, &other.dir].map(|dir| dir.display().to_string()).join(",");
        format!("host={dirs} port={PORT},{PORT} user={USER} dbname=postgres")
    }

    /// The folder in which it was started.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The settings of a client with this user.
    #[must_use]
    pub fn url_as(&self, user: &str) -> String {
        format!("host={} port={PORT} user={user} dbname=postgres", self.dir.display())
    }

    /// The settings of a client of this database.
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        format!("host={} port={PORT} user={USER} dbname={database}", self.dir.display())
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // those of the sessions end by themselves, but may commit before they notice
        let id = self.process.id();
        let sessions = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        drop(self.process.kill());
        drop(self.process.wait());
        drop(Command::new("sh").arg("-c").arg(format!("kill -KILL {sessions} 2>/dev/null")).status());
    }
}
