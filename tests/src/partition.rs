//! A network between a host and its PostgreSQL server that can be cut, in one direction or both.

use crate::postgres::PORT;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The directions in which nothing arrives. What is sent meanwhile arrives afterwards, as with TCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cut {
    pub to_server: bool,
    pub to_client: bool,
}

/// A network with one server. Dropping it ends it.
#[derive(Debug)]
pub struct CuttableNetwork {
    dir: TempDir,
    server: Arc<Mutex<PathBuf>>,
    cut: watch::Sender<Cut>,
    accepting: JoinHandle<()>,
}

impl CuttableNetwork {
    /// Leads to the server with this socket.
    ///
    /// # Panics
    /// Panics if its own socket cannot be created.
    #[must_use]
    pub fn to(socket: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("oracled-net-").tempdir().expect("a directory");
        let listener =
            UnixListener::bind(dir.path().join(format!(".s.PGSQL.{PORT}"))).expect("a socket is created");
        let (server, cut) = (Arc::new(Mutex::new(socket.to_owned())), watch::Sender::new(Cut::default()));
        let (target, cuts) = (Arc::clone(&server), cut.subscribe());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let socket = target.lock().unwrap_or_else(PoisonError::into_inner).clone();
                tokio::spawn(connect(client, socket, cuts.clone()));
            }
        });
        Self { dir, server, cut, accepting }
    }

    /// The folder of its socket, for the URL of a client.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Leads new connections to another server.
    pub fn lead_to(&self, socket: &Path) {
        socket.clone_into(&mut self.server.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Cuts these directions, and no other.
    pub fn cut(&self, cut: Cut) {
        self.cut.send_replace(cut);
    }
}

impl Drop for CuttableNetwork {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn connect(client: UnixStream, socket: PathBuf, cuts: watch::Receiver<Cut>) {
    let Ok(server) = UnixStream::connect(socket).await else { return };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let there = tokio::spawn(carry(from_client, to_server, cuts.clone(), |cut| !cut.to_server));
    drop(carry(from_server, to_client, cuts, |cut| !cut.to_client).await);
    // the server has ended the connection
    there.abort();
}

/// Carries bytes while `is_open`, and then the end.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut cuts: watch::Receiver<Cut>,
    is_open: impl Fn(&Cut) -> bool,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut bytes).await?;
        if cuts.wait_for(|cut| is_open(cut)).await.is_err() || read == 0 {
            return to.shutdown().await;
        }
        to.write_all(bytes.get(..read).unwrap_or_default()).await?;
    }
}
