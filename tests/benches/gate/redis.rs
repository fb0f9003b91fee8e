//! A peer of a durable submission: Redis with `appendfsync always`, if `redis-server` is installed.

use crate::load::{LoadConnections, LoadRound, RoundEnd};
use crate::peer::PeerProcess;
use crate::records::session_id;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A running server.
#[derive(Debug)]
pub(crate) struct RedisServer {
    _process: PeerProcess,
    socket: PathBuf,
}

impl RedisServer {
    /// Starts a server in the folder `dir`; `None` if it is not installed.
    pub(crate) fn start(dir: &Path) -> io::Result<Option<Self>> {
        let socket = dir.join("redis.sock");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
        // a rewrite of its file would be work that the journal does not have
        command.args(["--auto-aof-rewrite-percentage", "0", "--unixsocket"]).arg(&socket);
        command.arg("--dir").arg(dir);
        match PeerProcess::spawn(&mut command, &socket) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            process => Ok(Some(Self { _process: process?, socket })),
        }
    }

    /// Stores values of `bytes` bytes under the ids of `requests` sessions, beginning with number `from`.
    pub(crate) fn round(
        &self,
        connections: usize,
        requests: usize,
        from: usize,
        bytes: usize,
    ) -> io::Result<LoadRound> {
        let (mut numbers, value) = (from.., vec![b'x'; bytes]);
        let whole = |answer: &[u8]| answer.ends_with(b"\r\n").then_some(answer.len());
        LoadConnections::connect(&self.socket, connections)?.round_of(
            RoundEnd::Sent(requests),
            "+OK",
            whole,
            |request| {
                let key = session_id(numbers.next().expect("the range is endless"));
                write!(request, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${bytes}\r\n", key.len())
                    .expect("a write to memory succeeds");
                request.extend_from_slice(&value);
                request.extend_from_slice(b"\r\n");
            },
        )
    }
}
