//! A running `oraclectl console`, and a client of it.

use crate::{DaemonWorld, clear_variables, program};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use nix::unistd::{Uid, geteuid, setfsuid};
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A running console with the cookie of a browser. Dropping it kills the process.
#[derive(Debug)]
pub struct ConsoleProcess {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<std::process::ChildStdout>,
    /// The login link that it printed last.
    pub link: String,
    /// Where it listens, on 127.0.0.1 and on [::1].
    port: u16,
    cookie: Option<String>,
    /// The user of the browser, if it is not the user of the test.
    uid: Option<u32>,
}

/// An answer of the console.
#[derive(Debug)]
pub struct ConsoleAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl ConsoleAnswer {
    /// The path to which the answer sends the browser.
    ///
    /// # Panics
    /// Panics if it is no redirection.
    #[must_use]
    pub fn location(&self) -> &str {
        assert_eq!(self.status, StatusCode::SEE_OTHER, "{}", self.text);
        self.headers.get(LOCATION).and_then(|path| path.to_str().ok()).expect("a path")
    }
}

impl ConsoleProcess {
    /// Starts the console on a free port.
    ///
    /// # Panics
    /// Panics if it prints no link.
    #[must_use]
    pub fn start(world: &DaemonWorld) -> Self {
        Self::start_with(world, &[])
    }

    /// The same with further arguments.
    ///
    /// # Panics
    /// Panics if it prints no link.
    #[must_use]
    pub fn start_with(world: &DaemonWorld, arguments: &[&str]) -> Self {
        Self::spawn(world.ctl_command(&[&["console", "--port", "0"], arguments].concat()), None)
    }

    /// Starts the console with the socket for reviewers in place of the control socket.
    ///
    /// # Panics
    /// Panics if it prints no link.
    #[must_use]
    pub fn start_on_review_socket(world: &DaemonWorld) -> Self {
        let mut command = Command::new(program("oraclectl"));
        clear_variables(&mut command);
        command.arg("--control-socket").arg(world.review_socket()).args(["console", "--port", "0"]);
        Self::spawn(command, None)
    }

    /// Starts the console as another user, who may connect to the socket for reviewers only. Requires root.
    ///
    /// # Panics
    /// Panics if it prints no link.
    #[must_use]
    pub fn start_for_reviewer(world: &DaemonWorld, uid: u32) -> Self {
        let runtime = world.path("runtime");
        fs::create_dir_all(runtime.join("oracled")).expect("the directory is created");
        // a given control socket is always used, so the sockets are at their default places
        let sockets = [("control", world.control_socket()), ("review", world.review_socket())];
        for (name, socket) in sockets {
            symlink(socket, runtime.join(format!("oracled/{name}.sock"))).expect("the link is created");
        }
        for open in [&world.path(""), &runtime] {
            fs::set_permissions(open, Permissions::from_mode(0o711)).expect("own directories");
        }
        chown(world.review_socket(), Some(uid), None).expect("the test runs as root");
        let mut command = Command::new(program("oraclectl"));
        clear_variables(&mut command);
        command.args(["console", "--port", "0"]).env("XDG_RUNTIME_DIR", runtime).uid(uid).gid(uid);
        Self::spawn(command, Some(uid))
    }

    fn spawn(mut command: Command, uid: Option<u32>) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("oraclectl starts");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut console = Self { child, stdin, stdout, link: String::new(), port: 0, cookie: None, uid };
        console.read_link();
        console.port =
            console.authority().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        console
    }

    fn read_link(&mut self) {
        self.link.clear();
        self.stdout.read_line(&mut self.link).expect("a link");
        self.link.truncate(self.link.trim_end().len());
    }

    /// Presses Enter and reads the new link.
    ///
    /// # Panics
    /// Panics if the console prints no link.
    pub fn renew_link(&mut self) {
        self.stdin.write_all(b"\n").expect("the console reads its input");
        self.read_link();
    }

    /// The address without a path.
    ///
    /// # Panics
    /// Panics if the console has printed no link.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://{}", self.authority())
    }

    /// The host and the port of the link. The system need not resolve the host: the client connects to 127.0.0.1.
    fn authority(&self) -> &str {
        let link = self.link.strip_prefix("http://").and_then(|link| link.split_once("/login"));
        link.expect("a link").0
    }

    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The path of the login link.
    ///
    /// # Panics
    /// Panics if the link is not one of this console.
    #[must_use]
    pub fn login_path(&self) -> String {
        self.link.strip_prefix(&self.origin()).expect("the console's own address").to_owned()
    }

    /// Uses the login link.
    ///
    /// # Panics
    /// Panics if the console does not accept it.
    pub async fn log_in(&mut self) {
        let answer = self.get(&self.login_path()).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        let cookie =
            answer.headers.get(SET_COOKIE).and_then(|cookie| cookie.to_str().ok()).expect("a cookie");
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        assert!(!cookie.contains("Domain"), "it is for this host only: {cookie}");
        self.cookie = cookie.split(';').next().map(str::to_owned);
    }

    /// Reads a page as the browser that has logged in.
    pub async fn get(&self, path: &str) -> ConsoleAnswer {
        self.send(Method::GET, path, &[], String::new()).await
    }

    /// Sends a form of a page.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> ConsoleAnswer {
        let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let body = fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
        let body = body.collect::<Vec<_>>().join("&");
        self.send(Method::POST, path, &[(ORIGIN.as_str(), &self.origin())], body).await
    }

    /// Sends a request with further headers, which replace those of a browser.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> ConsoleAnswer {
        let (response, connection) = self.open(method, path, headers, body).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("the answer is complete").to_bytes();
        connection.abort();
        let text = String::from_utf8(body.to_vec()).expect("valid UTF-8");
        ConsoleAnswer { status: head.status, headers: head.headers, text }
    }

    /// Opens a stream of events.
    pub async fn events(&self, path: &str) -> ConsoleEvents {
        let (response, connection) = self.open(Method::GET, path, &[], String::new()).await;
        let status = response.status();
        ConsoleEvents { status, body: response.into_body(), connection }
    }

    async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> (Response<Incoming>, JoinHandle<hyper::Result<()>>) {
        let stream = connect(self.port, self.uid).expect("the console listens");
        stream.set_nonblocking(true).expect("a socket");
        let stream = TcpStream::from_std(stream).expect("a socket");
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.expect("the console answers");
        let connection = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        let own = [(HOST.as_str(), self.authority().to_owned())];
        let cookie = self.cookie.iter().map(|cookie| (COOKIE.as_str(), cookie.clone()));
        let form = [(CONTENT_TYPE.as_str(), "application/x-www-form-urlencoded".to_owned())];
        for (name, value) in own.into_iter().chain(cookie).chain(form) {
            if !headers.iter().any(|(given, _)| *given == name) {
                request = request.header(name, value);
            }
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).expect("a valid request");
        (sender.send_request(request).await.expect("the console answers"), connection)
    }
}

/// Connects as a user: the kernel notes the user for files of the thread that creates the socket.
fn connect(port: u16, uid: Option<u32>) -> io::Result<std::net::TcpStream> {
    let own = uid.map(|uid| setfsuid(Uid::from_raw(uid)));
    let connected = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    own.map(setfsuid);
    connected
}

/// Connections that another user opens and closes as fast as possible, until this is dropped.
#[derive(Debug)]
pub struct ConnectionFlood {
    stopped: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<u64>>,
}

impl ConnectionFlood {
    /// Starts to connect to `port` from two threads; as another user if the test runs as root.
    #[must_use]
    pub fn start(port: u16) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let uid = geteuid().is_root().then_some(65534);
        let connect_until_stopped = |stopped: Arc<AtomicBool>| {
            thread::spawn(move || {
                let mut count = 0;
                while !stopped.load(Ordering::Relaxed) {
                    // without a free port, those of closed connections are waited for
                    count += u64::from(connect(port, uid).is_ok());
                }
                count
            })
        };
        let threads = (0..2).map(|_| connect_until_stopped(Arc::clone(&stopped))).collect();
        Self { stopped, threads }
    }

    /// Stops, and returns the number of connections.
    ///
    /// # Panics
    /// Panics if a thread panicked.
    #[must_use]
    pub fn stop(mut self) -> u64 {
        self.stopped.store(true, Ordering::Relaxed);
        self.threads.drain(..).map(|thread| thread.join().expect("the thread does not panic")).sum()
    }
}

impl Drop for ConnectionFlood {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// A stream of events. Dropping it closes the connection.
#[derive(Debug)]
pub struct ConsoleEvents {
    pub status: StatusCode,
    body: Incoming,
    connection: JoinHandle<hyper::Result<()>>,
}

impl ConsoleEvents {
    /// The next event.
    ///
    /// # Panics
    /// Panics if the stream ends or does not bring one within 20 s.
    pub async fn next(&mut self) -> String {
        let mut event = Vec::new();
        // the connection can bring it in parts, which end anywhere
        while !event.ends_with(b"\n\n") {
            let frame = timeout(Duration::from_secs(20), self.body.frame()).await.expect("an event in time");
            let data = frame.expect("the stream is open").expect("the stream is open").into_data();
            event.extend_from_slice(&data.expect("data"));
        }
        String::from_utf8(event).expect("valid UTF-8")
    }

    /// Waits until the console ends the stream.
    ///
    /// # Panics
    /// Panics if it breaks, or does not end within 20 s.
    pub async fn wait_for_end(&mut self) {
        let read = timeout(Duration::from_secs(20), (&mut self.body).collect());
        read.await.expect("an end in time").expect("the stream does not break");
    }
}

impl Drop for ConsoleEvents {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Drop for ConsoleProcess {
    fn drop(&mut self) {
        self.child.kill().expect("the child process exists");
        self.child.wait().expect("the child process exists");
    }
}
