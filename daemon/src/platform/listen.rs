//! The sockets: inherited from systemd or bound here, and served within limits.

use super::access_log::AccessLog;
use super::api::front::{REQUEST_ID, new_request_id};
use super::config::{SocketFile, SocketFiles};
use super::problem::Problem;
use actors_platform::caller::CallerWaitCheck;
use actors_platform::clock::stopwatch;
use domain_base::caller::PeerCredentials;
use domain_base::problem::PROBLEM_MEDIA_TYPE;
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
use std::convert::Infallible;
use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::num::NonZero;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{env, fs, io, process, thread};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, Sleep, interval, sleep, sleep_until, timeout};

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
        "the socket {path} is in use by another process; stop that process, or set `{key}`, or the variable ORACLED_{} if it is set, to another path", .key.to_uppercase()
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
    /// The listener for metrics cannot be opened.
    #[error(
        "cannot listen on {address} (`metrics.listen`): {source}; choose a free port, and under systemd add the drop-in that \
         `oracled check-config` prints"
    )]
    Metrics {
        /// The configured address.
        address: SocketAddr,
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
    /// The listener for metrics; `None` if the configuration has none.
    pub metrics: Option<TcpListener>,
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
        let metrics = match files.metrics {
            Some(address) => {
                let bound = TcpListener::bind(address).await;
                Some(bound.map_err(|source| ListenError::Metrics { address, source })?)
            }
            None => None,
        };
        Ok(Self { routes, control, review, metrics, bound })
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

/// The threads that serve connections. Each connection stays on one of them, in turn.
#[derive(Debug)]
pub struct ServingThreads {
    runtimes: Vec<Handle>,
    next: AtomicUsize,
    /// Ends the threads, if they were started.
    stop: watch::Sender<()>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

impl ServingThreads {
    /// The current thread.
    pub fn current() -> Self {
        Self::new(vec![Handle::current()], watch::channel(()).0, Vec::new())
    }

    fn new(runtimes: Vec<Handle>, stop: watch::Sender<()>, threads: Vec<thread::JoinHandle<()>>) -> Self {
        Self { runtimes, next: AtomicUsize::new(0), stop, threads: Mutex::new(threads) }
    }

    /// Starts a thread for each processor.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start() -> io::Result<Self> {
        let (stop, ended) = watch::channel(());
        let start_thread = |_| {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (handle, mut ended) = (runtime.handle().clone(), ended.clone());
            let run = async move {
                let mut near_timer = interval(NEAR_TIMER);
                loop {
                    tokio::select! {
                        _ = near_timer.tick() => {}
                        _ = ended.changed() => break,
                    }
                }
            };
            let thread = thread::Builder::new().name("routes".into()).spawn(move || {
                runtime.block_on(run);
                // a blocking task that is cut off must not keep the thread
                runtime.shutdown_background();
            })?;
            Ok((handle, thread))
        };
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let started = (0..processors).map(start_thread).collect::<io::Result<Vec<_>>>()?;
        let (runtimes, threads) = started.into_iter().unzip();
        Ok(Self::new(runtimes, stop, threads))
    }

    /// Ends the threads that were started, and with them all requests, which get no answer.
    pub fn stop(&self) {
        self.stop.send_replace(());
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the routes panicked");
            }
        }
    }

    fn next(&self) -> &Handle {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.runtimes.len();
        self.runtimes.get(next).expect("there is at least one thread")
    }
}

/// Serves `listener` until `stop` is true, then finishes the requests in flight. The connections are served by `threads`.
///
/// `handle` receives each request with the peer that sent it, and a function that returns whether that peer
/// still waits. `open` is the number of connections. While `is_short` returns true, clients that do not read
/// their answers are disconnected within seconds.
pub async fn serve<H, F, B>(
    (listener, threads): (UnixListener, Arc<ServingThreads>),
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
                sleep(EXHAUSTED_PAUSE).await;
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
        let thread = threads.next();
        let moved = stream.into_std().and_then(|stream| {
            let _runtime = thread.enter();
            UnixStream::from_std(stream)
        });
        let stream = match moved {
            Ok(stream) => SharedStream::new(stream),
            Err(error) => {
                tracing::warn!(%error, "cannot serve a connection");
                continue;
            }
        };
        let (watched, rest) = (stream.clone(), stream.clone());
        let still_waiting: CallerWaitCheck = Arc::new(move || watched.has_client());
        let service = service_fn(move |request| handle(request, peer, Arc::clone(&still_waiting)));
        let connection = graceful.watch(http.serve_connection(
            TokioIo::new(BoundedWrites::new(stream, bounds.unread, Arc::clone(&is_short))),
            service,
        ));
        let access_log = Arc::clone(&access_log);
        thread.spawn(async move {
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

/// Time that a client may leave its answer unread while memory for answers is short.
const UNREAD_WHEN_SHORT: Duration = Duration::from_secs(2);
/// Bytes that a client must read to regain one second. So a client that reads a few bytes at a time also runs
/// out of time.
const BYTES_PER_SECOND: f64 = 1024.0 * 1024.0;
/// Maximum time that a client that writes may read nothing, as a multiple of the bound.
const BOUNDS_WHILE_WRITING: u32 = 10;
/// Interval at which a stalled answer is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Returns whether requests wait for memory that unread answers hold.
pub type ShortageCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// A stream that fails if its client reads nothing for `bound`, and writes nothing either: some clients write a whole
/// batch before they read, within [`BOUNDS_WHILE_WRITING`] times `bound`. Without this limit, a client that never reads
/// its answer would hold a connection and the answer in memory without end.
struct BoundedWrites<S> {
    stream: S,
    bound: Duration,
    is_short: ShortageCheck,
    /// Time that answers were unread, less the time regained for bytes that were read.
    unread: Duration,
    /// Set while the client reads nothing.
    stalled: Option<WriteStall>,
    /// When the client last wrote.
    wrote_at: Option<Instant>,
}

struct WriteStall {
    began: Instant,
    check: Pin<Box<Sleep>>,
}

impl<S> BoundedWrites<S> {
    const fn new(stream: S, bound: Duration, is_short: ShortageCheck) -> Self {
        Self { stream, bound, is_short, unread: Duration::ZERO, stalled: None, wrote_at: None }
    }

    fn check_stall(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            if let Some(stall) = self.stalled.take() {
                self.unread += stall.began.elapsed();
            }
            #[expect(clippy::cast_precision_loss, reason = "one write has fewer than 2^52 bytes")]
            let read = written.as_ref().map_or(0.0, |bytes| *bytes as f64);
            self.unread = self.unread.saturating_sub(Duration::from_secs_f64(read / BYTES_PER_SECOND));
            return Poll::Ready(written);
        }
        // stalls add up: a client that reads a few bytes before each check is as slow as one that reads nothing
        if self.stalled.is_none() && self.unread >= UNREAD_WHEN_SHORT && (self.is_short)() {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        let stall = self.stalled.get_or_insert_with(|| WriteStall {
            began: stopwatch(),
            check: Box::pin(sleep(CHECK_INTERVAL.min(self.bound))),
        });
        while stall.check.as_mut().poll(cx).is_ready() {
            let is_too_slow = stall.began.elapsed() + self.unread >= UNREAD_WHEN_SHORT && (self.is_short)();
            let silent = stall.began.max(self.wrote_at.unwrap_or(stall.began)).elapsed();
            let is_over = stall.began.elapsed() >= self.bound.saturating_mul(BOUNDS_WHILE_WRITING);
            if is_too_slow || is_over || silent >= self.bound {
                return Poll::Ready(Err(ErrorKind::TimedOut.into()));
            }
            let next = CHECK_INTERVAL.min(self.bound.saturating_sub(silent));
            stall.check.as_mut().reset(stopwatch() + next);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > filled {
            self.wrote_at = Some(stopwatch());
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedWrites<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.check_stall(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.check_stall(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
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

    const BOUND: Duration = Duration::from_secs(60);

    /// The time to write `bytes` to a client that reads `step` bytes each `pause`, and whether all were written.
    async fn time_writes(bytes: usize, step: usize, pause: Duration, short: bool) -> (Duration, bool) {
        let (stream, mut client) = duplex(1024);
        let short = AtomicBool::new(short);
        let mut writes = BoundedWrites::new(stream, BOUND, Arc::new(move || short.load(Ordering::Relaxed)));
        let began = stopwatch();
        let reader = tokio::spawn(async move {
            let mut read = vec![0; step];
            loop {
                sleep(pause).await;
                if client.read(&mut read).await.is_ok_and(|read| read == 0) {
                    return;
                }
            }
        });
        let all = writes.write_all(&vec![0; bytes]).await.is_ok();
        let took = began.elapsed();
        drop(writes);
        reader.abort();
        (took, all)
    }

    #[tokio::test(start_paused = true)]
    async fn unread_answer_is_cut_after_seconds_only_while_memory_is_short() {
        let forever = Duration::from_secs(3600);
        let (took, all) = time_writes(10_000, 1, forever, true).await;
        assert!(!all && took < Duration::from_secs(3), "{took:?}");
        let (took, all) = time_writes(10_000, 1, forever, false).await;
        assert!(!all && took >= BOUND, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn answer_read_little_by_little_is_cut_only_while_memory_is_short() {
        let (took, all) = time_writes(100_000, 100, Duration::from_millis(100), true).await;
        assert!(!all && took < Duration::from_secs(4), "{took:?}");
        let (_, all) = time_writes(100_000, 100, Duration::from_millis(100), false).await;
        assert!(all, "it is slow, and no request waits for memory");
        let (_, all) = time_writes(10_000_000, 1024, Duration::from_micros(500), true).await;
        assert!(all, "it is fast enough");
    }

    #[tokio::test(start_paused = true)]
    async fn unread_answer_of_a_client_that_writes_is_cut_after_10_times_the_bound() {
        let (stream, mut client) = duplex(1024);
        let (mut requests, mut answers) = split(BoundedWrites::new(stream, BOUND, Arc::new(|| false)));
        let writer = tokio::spawn(async move {
            while client.write_all(b"x").await.is_ok() {
                sleep(BOUND / 2).await;
            }
        });
        let reader = tokio::spawn(async move { while requests.read_u8().await.is_ok() {} });
        let began = stopwatch();
        assert!(answers.write_all(&[0; 10_000]).await.is_err());
        let took = began.elapsed();
        assert!(took >= BOUND * 10 && took < BOUND * 11, "{took:?}");
        writer.abort();
        reader.abort();
    }
}
