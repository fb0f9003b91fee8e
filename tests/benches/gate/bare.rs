//! The floor of a read: only axum, which returns the same bytes from a separate process on the same kind of runtime.

use crate::SERVE_BARE;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::{get, post};
use bytes::Bytes;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use std::{env, fs, io};
use tokio::net::UnixListener;
use tokio::runtime;

/// Serves the bytes of the file `body` at `socket`, until the process is killed.
pub(crate) fn serve(socket: &Path, body: &Path) -> io::Result<()> {
    let body = Bytes::from(fs::read(body)?);
    let answer = move || ([(CONTENT_TYPE, "application/json")], body.clone());
    let query_answer = answer.clone();
    let router = Router::new()
        .route("/v1/verdicts/{session_id}", get(async move || answer()))
        .route("/v1/query", post(async move |_: Bytes| query_answer()));
    runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = UnixListener::bind(socket)?;
        axum::serve(listener, router).await
    })
}

/// The running bare server. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct BareServer(Child);

impl BareServer {
    /// Starts the server with `body` as its answer, and waits until its socket exists.
    pub(crate) fn start(socket: &Path, body_file: &Path, body: &[u8]) -> io::Result<Self> {
        fs::write(body_file, body)?;
        let mut command = Command::new(env::current_exe()?);
        let child = command.arg(SERVE_BARE).arg(socket).arg(body_file).stdin(Stdio::null()).spawn()?;
        let bare = Self(child);
        for _ in 0..1000 {
            if socket.exists() {
                return Ok(bare);
            }
            sleep(Duration::from_millis(5));
        }
        Err(io::Error::other("the bare server does not start"))
    }
}

impl BareServer {
    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
