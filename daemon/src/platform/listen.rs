//! The sockets: inherited from systemd or bound here, and served within limits.

mod bounded_writes;

use super::access_log::AccessLog;
use super::api::front::{REQUEST_ID, new_request_id};
use super::config::{SocketFile, SocketFiles};
use super::problem::Problem;
use actors_ground::queries::CallerWaitCheck;
use actors_platform::clock::stopwatch;
use bounded_writes::BoundedWrites;
pub use bounded_writes::ShortageCheck;
use domain_base::caller::PeerCredentials;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use listenfd::ListenFd;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, shutdown};
use nix::sys::stat::{Mode, umask};
use nix::unistd::chown;
use oracled_api::base::problem::PROBLEM_MEDIA_TYPE;
use std::convert::Infallible;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{env, fs, process};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, interval, sleep_until, timeout};

/// The name of the routes' socket among the sockets from systemd.
const ROUTES_NAME: &str = "oracled";
/// The name of the control socket among the sockets from systemd.
const CONTROL_NAME: &str = "oracled-control";
/// The name of the socket for reviewers among the sockets from systemd.
const REVIEW_NAME: &str = "oracled-review";
/// Maximum distance of the nearest timer. tokio wakes its driver by a system call for each timer that is
/// earlier than all others. Without a near timer, each request's timer would be such.
const NEAR_TIMER: Duration = Duration::from_secs(1);
/// Pause of accepting if the process has no file descriptor left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// A socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process answers on the socket.
    #[error(
        "the socket {path} is in use by another process; stop that process, or set `{key}` to another path"
    )]
    Live {
        /// Path of the socket.
        path: PathBuf,
        /// The configuration key of the path.
        key: &'static str,
    },
    /// Another kind of file has the socket's path.
    #[error("{path} exists and is not a socket; move it away, or set `{key}` to another path")]
    NotASocket { path: PathBuf, key: &'static str },
    /// The socket cannot be created.
    #[error("cannot create the socket {path}: {source}")]
    Io {
        /// Path of the socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// systemd passed an unexpected file descriptor.
    #[error(
        "an inherited file descriptor is called `{name}`; it must be `{ROUTES_NAME}`, `{CONTROL_NAME}` or `{REVIEW_NAME}` \
         (FileDescriptorName=) and be a listening Unix socket"
    )]
    UnknownInherited {
        /// Name of the descriptor.
        name: String,
    },
}

/// The sockets, listening.
#[derive(Debug)]
pub struct DaemonSockets {
    pub routes: UnixListener,
    /// The control socket.
    pub control: UnixListener,
    /// The socket for reviewers; `None` if neither systemd nor the configuration has one.
    pub review: Option<UnixListener>,
    /// The socket files that were bound here, to be removed at the end.
    bound: Vec<BoundSocket>,
}

impl DaemonSockets {
    /// Takes the sockets from systemd and binds the others.
    ///
    /// # Errors
    /// If a socket is in use, cannot be created, or is not as expected.
    pub async fn open(files: &SocketFiles<'_>) -> Result<Self, ListenError> {
        let InheritedSockets { routes, control, review } = InheritedSockets::take()?;
        let mut bound = Vec::new();
        let routes = open_socket(routes, &files.routes, &mut bound).await?;
        let control = open_socket(control, &files.control, &mut bound).await?;
        let review = match (review, files.review) {
            (Some(inherited), _) => Some(listen(inherited, Path::new(REVIEW_NAME))?),
            (None, Some(file)) => Some(open_socket(None, &file, &mut bound).await?),
            (None, None) => None,
        };
        Ok(Self { routes, control, review, bound })
    }

    /// The socket files to remove at the end of serving.
    #[must_use]
    pub fn bound_sockets(&self) -> Vec<BoundSocket> {
        self.bound.clone()
    }
}

/// The identity of a socket's file when it was bound.
#[derive(Debug, Clone)]
pub struct BoundSocket {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl BoundSocket {
    fn identify(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    /// Removes the file, unless another file has its path now.
    ///
    /// # Errors
    /// If the file no longer exists or cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        let now = Self::identify(&self.path)?;
        if (now.device, now.inode) == (self.device, self.inode) {
            fs::remove_file(&self.path)
        } else {
            Ok(())
        }
    }
}

/// The sockets from systemd.
#[derive(Default)]
struct InheritedSockets {
    routes: Option<StdListener>,
    control: Option<StdListener>,
    review: Option<StdListener>,
}

impl InheritedSockets {
    fn take() -> Result<Self, ListenError> {
        let mut inherited = ListenFd::from_env();
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut sockets = Self::default();
        for index in 0..inherited.len() {
            let name = names.next().unwrap_or_default();
            let slot = match name {
                ROUTES_NAME => &mut sockets.routes,
                CONTROL_NAME => &mut sockets.control,
                REVIEW_NAME => &mut sockets.review,
                _ => return Err(ListenError::UnknownInherited { name: name.to_owned() }),
            };
            let socket = inherited.take_unix_listener(index).ok().flatten();
            *slot = Some(socket.ok_or_else(|| ListenError::UnknownInherited { name: name.to_owned() })?);
        }
        Ok(sockets)
    }
}

/// Takes the inherited socket, or binds `file` and adds it to `bound`.
async fn open_socket(
    inherited: Option<StdListener>,
    file: &SocketFile<'_>,
    bound: &mut Vec<BoundSocket>,
) -> Result<UnixListener, ListenError> {
    let path = file.path;
    if let Some(inherited) = inherited {
        return listen(inherited, path);
    }
    let socket = bind(file).await?;
    bound.push(
        BoundSocket::identify(path).map_err(|source| ListenError::Io { path: path.to_owned(), source })?,
    );
    listen(socket, path)
}

fn listen(socket: StdListener, path: &Path) -> Result<UnixListener, ListenError> {
    let listening = socket.set_nonblocking(true).and_then(|()| UnixListener::from_std(socket));
    listening.map_err(|source| ListenError::Io { path: path.to_owned(), source })
}

/// Binds a socket. A stale socket file is replaced; any other file is an error.
async fn bind(&SocketFile { key, path, mode, group }: &SocketFile<'_>) -> Result<StdListener, ListenError> {
    let io = |source| ListenError::Io { path: path.to_owned(), source };
    let live = || ListenError::Live { path: path.to_owned(), key };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(io(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ListenError::NotASocket { path: path.to_owned(), key });
        }
        // a connection attempt does not wait for room in the backlog: a listener with a full backlog is alive too
        Ok(_) => match UnixStream::connect(path).await {
            Ok(_) => return Err(live()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(live()),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(io(error)),
        },
    }
    let dir = path.parent().unwrap_or(Path::new("/"));
    create_dir(dir).map_err(io)?;
    // created under another name with its mode and group, then renamed to replace a stale socket atomically
    let unnamed = dir.join(format!(".{}", process::id()));
    // a process with the same id may have been killed here before
    drop(fs::remove_file(&unnamed));
    let before = umask(Mode::from_bits_truncate(0o777 & !mode));
    let listener = StdListener::bind(&unnamed);
    umask(before);
    let listener = listener.map_err(io)?;
    let placed = group
        .map_or(Ok(()), |group| chown(&unnamed, None, Some(group)).map_err(io::Error::from))
        .and_then(|()| fs::rename(&unnamed, path));
    if let Err(error) = placed {
        drop(fs::remove_file(&unnamed));
        return Err(io(error));
    }
    Ok(listener)
}

/// Creates the directory of a socket. Every user can enter it; the mode of the socket decides who may connect.
fn create_dir(dir: &Path) -> io::Result<()> {
    let before = umask(Mode::from_bits_truncate(0o022));
    let created = fs::create_dir_all(dir);
    umask(before);
    created
}

#[derive(Debug, Clone)]
pub struct SocketLimits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Time that a connection may be idle, or take for a request's headers.
    pub idle: Duration,
    /// Time that a client may read nothing of its answer.
    pub unread: Duration,
    /// Whether a request is served to its end after the client has shut down its sending half, or has disconnected.
    pub finish_unheard: bool,
    /// Maximum number of headers of a request. The parser rejects twice as many as a broken request.
    pub headers: usize,
    /// Maximum length of all headers together, in bytes.
    pub header_bytes: usize,
}

/// Serves `listener` until `stop` is true, then finishes the requests in flight.
///
/// `handle` receives each request with the peer that sent it, and a function that returns whether that peer
/// still waits. `open` is the number of connections. While `is_short` returns true, clients that do not read
/// their answers are disconnected within seconds.
pub async fn serve<H, F, B>(
    listener: UnixListener,
    bounds: SocketLimits,
    open: Arc<AtomicUsize>,
    mut stop: watch::Receiver<bool>,
    is_short: ShortageCheck,
    access_log: Arc<AccessLog>,
    handle: H,
) where
    H: Fn(Request<Incoming>, PeerCredentials, CallerWaitCheck) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: hyper::body::Body<Data = bytes::Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .half_close(bounds.finish_unheard)
        .header_read_timeout(bounds.idle)
        .max_headers(2 * bounds.headers)
        .max_buf_size((2 * bounds.header_bytes).max(64 * 1024));
    let graceful = GracefulShutdown::new();
    let refusals = ConnectionRefusals::new(bounds.connections, Arc::clone(&access_log));
    let mut near_timer = interval(NEAR_TIMER);
    let mut pace = AcceptPace::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = near_timer.tick() => continue,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
                continue;
            }
        };
        pace.wait_after_accept().await;
        let Ok(peer) = read_peer(&stream) else { continue };
        let Some(counted) = ConnectionSlot::acquire(&open, bounds.connections) else {
            refusals.refuse(stream, peer);
            continue;
        };
        let handle = handle.clone();
        let stream = SharedStream::new(stream);
        let (watched, rest) = (stream.clone(), stream.clone());
        let still_waiting: CallerWaitCheck = Arc::new(move || watched.has_client());
        let service = service_fn(move |request| handle(request, peer, Arc::clone(&still_waiting)));
        let connection = graceful.watch(http.serve_connection(
            TokioIo::new(BoundedWrites::new(stream, bounds.unread, Arc::clone(&is_short))),
            service,
        ));
        let access_log = Arc::clone(&access_log);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
                let status = parse_error_status(&error);
                if status.is_some() {
                    access_log.record_rejected_connection(peer, status, &new_request_id());
                    discard_rest_for_a_moment(rest).await;
                }
            }
            drop(counted);
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

/// The status with which hyper has answered a request that it could not parse.
fn parse_error_status(error: &hyper::Error) -> Option<StatusCode> {
    match () {
        () if error.is_parse_too_large() => Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        () if error.is_parse() => Some(StatusCode::BAD_REQUEST),
        () => None,
    }
}

fn read_peer(stream: &UnixStream) -> io::Result<PeerCredentials> {
    let credentials = stream.peer_cred()?;
    Ok(PeerCredentials { uid: credentials.uid(), gid: credentials.gid(), pid: credentials.pid() })
}

struct ConnectionSlot(Arc<AtomicUsize>);

impl ConnectionSlot {
    fn acquire(open: &Arc<AtomicUsize>, bound: usize) -> Option<Self> {
        let previous =
            open.fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| (open < bound).then_some(open + 1));
        previous.ok().map(|_| Self(Arc::clone(open)))
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Maximum number of connections accepted in each [`ACCEPT_INTERVAL`]. A client can open and close tens of thousands
/// of connections a second; accepting all of them takes a whole processor. Connections beyond this rate wait
/// in the kernel's backlog. If the backlog is full, a blocking `connect` waits, and a non-blocking one fails
/// with `EAGAIN`.
const ACCEPT_BATCH: u32 = 16;
/// Time in which at most [`ACCEPT_BATCH`] connections are accepted.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(5);

/// Limits the rate of accepted connections.
#[derive(Debug)]
struct AcceptPace {
    accepted: u32,
    began: Instant,
}

impl AcceptPace {
    fn new() -> Self {
        Self { accepted: 0, began: stopwatch() }
    }

    /// To be called after each accepted connection. Waits until the next one may be accepted.
    async fn wait_after_accept(&mut self) {
        self.accepted += 1;
        if self.accepted < ACCEPT_BATCH {
            return;
        }
        let next = self.began + ACCEPT_INTERVAL;
        // tokio rounds a timer up to the next millisecond, even if its deadline has passed
        if stopwatch() < next {
            sleep_until(next).await;
        }
        *self = Self::new();
    }
}

/// Maximum number of refusals written at a time. Each holds a file descriptor for up to [`FAREWELL`]; without
/// the limit a flood of connections would use up the store's descriptors.
pub(crate) const REFUSALS_MAX: usize = 32;
/// Maximum time that a connection over the limit stays open for its refusal.
const FAREWELL: Duration = Duration::from_secs(1);

/// Refuses connections of one socket.
#[derive(Debug)]
struct ConnectionRefusals {
    connections: usize,
    writing: Arc<Semaphore>,
    access_log: Arc<AccessLog>,
}

impl ConnectionRefusals {
    /// `connections` is the limit of the socket.
    fn new(connections: usize, access_log: Arc<AccessLog>) -> Self {
        Self { connections, writing: Arc::new(Semaphore::new(REFUSALS_MAX)), access_log }
    }

    /// Answers 503 without reading the request. Closes the connection at once if [`REFUSALS_MAX`] refusals
    /// are being written.
    fn refuse(&self, stream: UnixStream, peer: PeerCredentials) {
        let request_id = new_request_id();
        let permit = Arc::clone(&self.writing).try_acquire_owned().ok();
        let status = permit.is_some().then_some(StatusCode::SERVICE_UNAVAILABLE);
        self.access_log.record_rejected_connection(peer, status, &request_id);
        let Some(permit) = permit else { return };
        let connections = self.connections;
        tokio::spawn(async move {
            if let Ok(Err(error)) = timeout(FAREWELL, write_refusal(stream, connections, &request_id)).await {
                tracing::debug!(%error, "could not write the refusal of a connection");
            }
            drop(permit);
        });
    }
}

async fn write_refusal(mut stream: UnixStream, connections: usize, request_id: &str) -> io::Result<()> {
    let problem = Problem::overloaded(format!("there are {connections} connections already"));
    let body = problem.to_json();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {PROBLEM_MEDIA_TYPE}\r\ncontent-length: {}\r\nretry-after: 1\r\n\
         {REQUEST_ID}: {request_id}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await?;
    discard_rest(stream).await
}

/// Discards what the client still sends to a connection that is answered, for at most [`FAREWELL`].
async fn discard_rest_for_a_moment(stream: impl AsyncRead + Unpin) {
    if let Ok(Err(error)) = timeout(FAREWELL, discard_rest(stream)).await {
        tracing::debug!(%error, "could not read the rest of a rejected request");
    }
}

/// A close before the client has sent its request would break the connection before the client reads the answer.
async fn discard_rest(mut stream: impl AsyncRead + Unpin) -> io::Result<()> {
    let mut rest = [0; 4096];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// A connection with several handles.
#[derive(Debug, Clone)]
struct SharedStream(Arc<UnixStream>);

impl SharedStream {
    fn new(stream: UnixStream) -> Self {
        Self(Arc::new(stream))
    }

    /// Whether the client has its end open. A client that only shut down its sending half counts as connected.
    fn has_client(&self) -> bool {
        let mut polled = [PollFd::new(self.0.as_fd(), PollFlags::empty())];
        let is_known = poll(&mut polled, PollTimeout::ZERO).is_ok();
        let hangup = PollFlags::POLLHUP | PollFlags::POLLERR;
        !(is_known && polled.iter().filter_map(PollFd::revents).any(|revents| revents.intersects(hangup)))
    }

    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&UnixStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match write(&self.0) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncRead for SharedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buf.initialize_unfilled()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(read) => {
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for SharedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(self.0.as_raw_fd(), Shutdown::Write).map_err(io::Error::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn connection_flood_is_accepted_one_batch_each_interval() {
        let (mut pace, began) = (AcceptPace::new(), stopwatch());
        for batch in 1..=10 {
            for _ in 1..ACCEPT_BATCH {
                pace.wait_after_accept().await;
            }
            assert_eq!(began.elapsed(), ACCEPT_INTERVAL * (batch - 1));
            pace.wait_after_accept().await;
            assert!(began.elapsed() >= ACCEPT_INTERVAL * batch);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_below_the_rate_do_not_wait() {
        let (mut pace, began) = (AcceptPace::new(), stopwatch());
        let step = ACCEPT_INTERVAL / ACCEPT_BATCH + Duration::from_micros(1);
        for number in 1..=10 * ACCEPT_BATCH {
            advance(step).await;
            pace.wait_after_accept().await;
            assert_eq!(began.elapsed(), step * number);
        }
    }

    #[tokio::test]
    async fn client_that_only_finished_sending_counts_as_connected() {
        let (stream, mut client) = UnixStream::pair().expect("a pair");
        let mut shared = SharedStream::new(stream);
        assert!(shared.has_client());
        client.write_all(b"request").await.expect("the request is sent");
        client.shutdown().await.expect("the client closes its sending side");
        let mut request = Vec::new();
        shared.read_to_end(&mut request).await.expect("the request is received");
        assert_eq!(request, b"request");
        assert!(shared.has_client());
        shared.write_all(b"answer").await.expect("the answer is sent");
        shared.shutdown().await.expect("the daemon closes its sending side");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.expect("the answer is received");
        assert_eq!(answer, b"answer");
    }

    #[tokio::test]
    async fn client_that_closed_counts_as_disconnected() {
        let (stream, client) = UnixStream::pair().expect("a pair");
        let shared = SharedStream::new(stream);
        drop(client);
        assert!(!shared.has_client());
    }
}
