//! A peer: a server in a process of its own, at a Unix socket.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use std::{env, io};

/// The pause between two looks at the peer's socket, and their highest number.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSES_MAX: usize = 1000;

/// A running peer. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct PeerProcess(Child);

impl PeerProcess {
    /// Starts this program as the server that `mode` names, at `socket`, with the path that it uses.
    pub(crate) fn start(mode: &str, socket: &Path, path: &Path) -> io::Result<Self> {
        Self::spawn(Command::new(env::current_exe()?).arg(mode).arg(socket).arg(path), socket)
    }

    /// Starts the server that `command` names, and waits until its socket exists.
    pub(crate) fn spawn(command: &mut Command, socket: &Path) -> io::Result<Self> {
        let peer = Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?);
        for _ in 0..PAUSES_MAX {
            if socket.exists() {
                return Ok(peer);
            }
            sleep(PAUSE);
        }
        Err(io::Error::other(format!("{} does not start", command.get_program().display())))
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
