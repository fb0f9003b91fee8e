//! Callers with another user id. Only root can act as another user.

use crate::{DaemonWorld, eventually, program};
use oracled_api::client::DaemonClient;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A process of another user, which passes connections on to the routes' socket.
#[derive(Debug)]
pub struct UserRelay {
    process: Child,
    socket: PathBuf,
}

impl UserRelay {
    /// Starts the relay for user `uid`, with a group of the same number.
    ///
    /// # Panics
    /// Panics if the test does not run as root, or the relay does not start.
    pub async fn start(world: &DaemonWorld, uid: u32) -> Self {
        let dir = world.path(&format!("user-{uid}"));
        fs::create_dir_all(&dir).expect("the directory is created");
        for path in [&world.path(""), &dir] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("the mode is set");
        }
        let socket = dir.join("relay.sock");
        let mut command = Command::new(program("relay"));
        command.arg(&socket).arg(world.socket()).stdin(Stdio::piped());
        let process = command.uid(uid).gid(uid).spawn().expect("the relay starts");
        eventually("the relay listens", async || UnixStream::connect(&socket).is_ok()).await;
        Self { process, socket }
    }

    /// The socket of the relay.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub async fn connect(&self) -> DaemonClient {
        DaemonClient::connect(&self.socket).await.expect("the relay is there")
    }
}

impl Drop for UserRelay {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Whether this process may act as another user.
#[must_use]
pub fn is_root(world: &DaemonWorld) -> bool {
    fs::metadata(world.path("")).is_ok_and(|dir| dir.uid() == 0)
}
