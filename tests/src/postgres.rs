//! A server of PostgreSQL of its own, if it is installed.

use nix::unistd::{User, geteuid};
use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The name of the user and of the superuser.
pub const USER: &str = "oracled";
/// The port in the name of the socket. The server does not listen on it.
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

impl PostgresServer {
    /// Starts a server in the empty folder `dir`, with a socket there; `None` if PostgreSQL is not installed.
    ///
    /// # Errors
    /// The server does not start.
    pub fn start(dir: &Path) -> io::Result<Option<Self>> {
        let Some(programs) = find_programs() else { return Ok(None) };
        // the server refuses to run as root
        let other = User::from_name("postgres").ok().flatten().filter(|_| geteuid().is_root());
        let command = |program: &str| {
            let mut command = Command::new(programs.join(program));
            if let Some(user) = &other {
                command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
            }
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
            command
        };
        let data = dir.join("data");
        if let Some(user) = &other {
            chown(dir, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
        let mut prepare = command("initdb");
        prepare.args(["--auth", "trust", "--username", USER, "--pgdata"]).arg(&data);
        if !prepare.status()?.success() {
            return Err(io::Error::other("initdb failed"));
        }
        let mut serve = command("postgres");
        serve.arg("-D").arg(&data).arg("-k").arg(dir).args(["-p", PORT]);
        for setting in ["listen_addresses=", "fsync=on", "synchronous_commit=on", "full_page_writes=on"] {
            serve.args(["-c", setting]);
        }
        let server = Self { process: serve.spawn()?, dir: dir.to_owned() };
        // its socket exists before it accepts sessions
        let began = Instant::now();
        let is_ready =
            || fs::read_to_string(data.join("postmaster.pid")).is_ok_and(|state| state.contains("ready"));
        while !is_ready() {
            if began.elapsed() > PATIENCE {
                return Err(io::Error::other("PostgreSQL does not start"));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(Some(server))
    }

    /// The path of its socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir.join(format!(".s.PGSQL.{PORT}"))
    }

    /// The settings of a client.
    #[must_use]
    pub fn url(&self) -> String {
        format!("host={} port={PORT} user={USER} dbname=postgres", self.dir.display())
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // its processes of the sessions end with it
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
