//! A daemon process for one test, with its state, sockets and logs in a temporary directory.

pub mod caller;
pub mod card_forgeries;
pub mod cluster;
pub mod console;
pub mod described;
pub mod disk;
pub mod generation;
pub mod ground;
pub mod live;
pub mod load;
pub mod model;
pub mod old_state;
pub mod partition;
pub mod postgres;
pub mod reference;
pub mod signing;
pub mod strategies;
pub mod stream;
pub mod verification;
pub mod webhooks;
pub mod wire;
pub mod witness;

use bytes::Bytes;
use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_ctl::base::program::TOOLS;
use serde_json::{Value, json};
use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for anything that should happen soon. The limit is generous because the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The pauses between two looks at what should happen.
const POLL_MIN: Duration = Duration::from_millis(10);
const POLL_MAX: Duration = Duration::from_millis(500);

/// A quick-tier verdict that passes the crosscheck.
pub const GOOD: &str = r#"{"verdict":"GREEN","summary":"A sound and simple plan."}"#;

/// Names of the supervised actors, in the order in which the daemon reports them.
pub const ACTORS: [&str; 10] = [
    "logger",
    "oracle_health",
    "rate_limiter",
    "ingestion",
    "verification_upkeep",
    "notifier",
    "cache",
    "crosscheck",
    "regen",
    "orders",
];

/// Path of the program `name` that was built for the tests.
///
/// # Panics
/// Panics if the link for `oraclectl` cannot be made.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    // test programs are in target/<profile>/deps, the programs under test one folder above
    let this = env::current_exe().expect("the path of this program is known");
    let profile = this.parent().and_then(Path::parent).expect("cargo puts tests two folders deep");
    static LINKS: OnceLock<PathBuf> = OnceLock::new();
    if name == oracled_ctl::NAME {
        return LINKS.get_or_init(|| link_programs(profile)).join(name);
    }
    profile.join(format!("{name}-under-test"))
}

/// The folder with the program under the name `oraclectl`, and beside it under that of its tools.
fn link_programs(profile: &Path) -> PathBuf {
    let folder = profile.join("under-test");
    fs::create_dir_all(&folder).expect("the folder is created");
    for name in [TOOLS, oracled_ctl::NAME] {
        // a hard link, since the programs are beside the file that a symbolic link leads to. Another process may replace it, too
        let link = folder.join(format!("{name}.{}", process::id()));
        fs::hard_link(profile.join("oracled-under-test"), &link).expect("the program was built");
        fs::rename(&link, folder.join(name)).expect("the link is in place");
        // a link to the same file is not renamed
        drop(fs::remove_file(link));
    }
    folder
}

/// Removes from `command` the environment variables that the user of the tests has set for another daemon.
fn clear_variables(command: &mut Command) {
    let meant_for_a_daemon = |name: &str| {
        ["ORACLED_", "LISTEN_", "WATCHDOG_", "XDG_"].iter().any(|prefix| name.starts_with(prefix))
            || name.ends_with("_DIRECTORY")
            || [
                "COLUMNS",
                "NOTIFY_SOCKET",
                "JOURNAL_STREAM",
                "GEMINI_API_KEY",
                "LOOKUP_TOKEN",
                "OPENAI_API_KEY",
                "SMTP_PASSWORD",
            ]
            .contains(&name)
    };
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(meant_for_a_daemon) {
            command.env_remove(name);
        }
    }
}

/// Directory, variables and flags of a daemon. It outlives the daemon, so a second daemon can serve the same state.
#[derive(Debug)]
pub struct DaemonWorld {
    dir: TempDir,
    /// Words before the daemon's command line, for example a shell wrapper.
    pub wrapper: Vec<String>,
    /// Environment variables of the daemon.
    pub variables: Vec<(String, String)>,
    /// Flags in addition to those for the daemon's paths.
    pub flags: Vec<String>,
    /// Content of the daemon's configuration file.
    pub config: String,
}

impl Default for DaemonWorld {
    fn default() -> Self {
        let dir = tempfile::Builder::new().prefix("oracled-test-").tempdir().expect("a directory");
        Self { dir, wrapper: Vec::new(), variables: Vec::new(), flags: Vec::new(), config: String::new() }
    }
}

impl DaemonWorld {
    /// Creates a world with this configuration.
    #[must_use]
    pub fn with_config(config: &str) -> Self {
        Self { config: config.to_owned(), ..Self::default() }
    }

    /// Path of `name` in the world's directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Path of the routes' socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.path("o.sock")
    }

    /// Path of the control socket.
    #[must_use]
    pub fn control_socket(&self) -> PathBuf {
        self.path("c.sock")
    }

    /// Path of the socket for reviewers, if the configuration has it.
    #[must_use]
    pub fn review_socket(&self) -> PathBuf {
        self.path("r.sock")
    }

    /// Creates a world with this configuration and the socket for reviewers.
    #[must_use]
    pub fn for_reviewers(config: &str) -> Self {
        let mut world = Self::with_config(config);
        world.add_review_socket();
        world
    }

    /// Adds the socket for reviewers to the configuration.
    pub fn add_review_socket(&mut self) {
        let socket = format!("review_socket = \"{}\"\n", self.review_socket().display());
        self.config.insert_str(0, &socket);
    }

    /// Path of the state directory.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// Content of `oracle_log.jsonl`, the mirror of the log; empty if the file cannot be read.
    #[must_use]
    pub fn mirror(&self) -> String {
        fs::read_to_string(self.state().join("oracle_log.jsonl")).unwrap_or_default()
    }

    /// Standard error of all daemons of this world.
    #[must_use]
    pub fn service_log(&self) -> String {
        fs::read_to_string(self.path("stderr")).unwrap_or_default()
    }

    /// Everything that daemons of this world have written and that still exists: the mirror of the log, the service
    /// log and the database. Stop the daemon first, because data that it holds in memory is not included.
    ///
    /// # Panics
    /// Panics if a file cannot be read.
    #[must_use]
    pub fn written(&self) -> String {
        let mut written = self.mirror() + &self.service_log();
        for file in fs::read_dir(self.state().join("store")).expect("the store exists") {
            let file = file.expect("the system reports it").path();
            if file.is_file() {
                written.push_str(&String::from_utf8_lossy(&fs::read(file).expect("the file is readable")));
            }
        }
        written
    }

    /// Command that runs `oracled` with these arguments. Its home is the world's directory, and only the world's
    /// variables are set.
    #[must_use]
    pub fn oracled(&self, arguments: &[&str]) -> Command {
        let oracled = program("oracled").into_os_string();
        let mut line = self.wrapper.iter().map(Into::into).chain([oracled]);
        let mut command = Command::new(line.next().expect("the command has a program"));
        command.args(line).args(arguments).stdin(Stdio::null());
        clear_variables(&mut command);
        command.env("HOME", self.dir.path()).envs(self.variables.clone());
        command
    }

    /// Writes the configuration file and returns its path.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        let file = self.path("oracled.toml");
        fs::write(&file, &self.config).expect("the configuration is written");
        file
    }

    /// Command that runs `oracled serve` in this world.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = self.oracled(&["serve"]);
        for (flag, path) in [
            ("--config", self.config_file()),
            ("--state-dir", self.state()),
            ("--socket", self.socket()),
            ("--control-socket", self.control_socket()),
        ] {
            command.arg(flag).arg(path);
        }
        command.args(&self.flags);
        command
    }

    /// Starts a daemon and waits until it answers.
    pub async fn serve(&self) -> DaemonProcess<'_> {
        self.ready(self.spawn()).await
    }

    /// Waits until `daemon` answers.
    pub async fn ready<'w>(&'w self, mut daemon: DaemonProcess<'w>) -> DaemonProcess<'w> {
        let began = Instant::now();
        while !self.is_answering().await {
            assert!(
                daemon.child.try_wait().expect("the child process exists").is_none(),
                "{}",
                self.service_log()
            );
            assert!(began.elapsed() < PATIENCE, "the daemon does not answer: {}", self.service_log());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        daemon
    }

    /// Starts a daemon without waiting for it.
    #[must_use]
    pub fn spawn(&self) -> DaemonProcess<'_> {
        let mut command = self.command();
        command.stdout(Stdio::null());
        self.spawn_as(command)
    }

    /// Starts a daemon by `command` without waiting for it.
    #[must_use]
    pub fn spawn_as(&self, mut command: Command) -> DaemonProcess<'_> {
        let stderr =
            File::options().append(true).create(true).open(self.path("stderr")).expect("a file for the log");
        DaemonProcess { world: self, child: command.stderr(stderr).spawn().expect("the daemon starts") }
    }

    /// Runs a daemon that is expected to end by itself within [`PATIENCE`].
    #[must_use]
    pub fn run_until_exit(&self) -> Output {
        run_to_end(self.command())
    }

    /// Whether a daemon answers at this world's socket.
    pub async fn is_answering(&self) -> bool {
        match DaemonClient::connect(&self.socket()).await {
            Ok(mut client) => client.call(Method::GET, "/healthz", None).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Command that runs `oraclectl` against this world with these arguments.
    #[must_use]
    pub fn ctl_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("oraclectl"));
        clear_variables(&mut command);
        command.arg("--socket").arg(self.socket()).arg("--control-socket").arg(self.control_socket());
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs `oraclectl` against this world, as [`run_to_end`].
    #[must_use]
    pub fn ctl(&self, arguments: &[&str]) -> Output {
        run_to_end(self.ctl_command(arguments))
    }

    /// Runs `oraclectl` on another thread, so that servers of the test itself can answer the daemon meanwhile.
    pub async fn ctl_in_thread(&self, arguments: &[&str]) -> Output {
        let command = self.ctl_command(arguments);
        let output = tokio::task::spawn_blocking(|| run_to_end(command)).await;
        output.expect("the thread does not panic")
    }
}

/// Runs a program that is expected to end by itself. It is killed after [`PATIENCE`].
///
/// # Panics
/// Panics if it cannot be started.
#[must_use]
pub fn run_to_end(mut command: Command) -> Output {
    fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<io::Result<Vec<u8>>> {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).map(|_| bytes)
        })
    }
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let stdout = collect(child.stdout.take().expect("a pipe"));
    let stderr = collect(child.stderr.take().expect("a pipe"));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child process exists") {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill().expect("the child process exists");
        }
        thread::sleep(Duration::from_millis(2));
    };
    let [stdout, stderr] =
        [stdout, stderr].map(|read| read.join().expect("no panic").expect("the pipe is read"));
    Output { status, stdout, stderr }
}

/// Returns the error of a daemon that ended by itself: one line on standard error, with exit status 1.
///
/// # Panics
/// Panics if the daemon ended in another way.
#[must_use]
pub fn error_line(command: Command) -> String {
    let output = run_to_end(command);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("oracled: ") && stderr.lines().count() == 1, "{stderr}");
    stderr
}

/// A running daemon. Dropping it kills the process.
#[derive(Debug)]
pub struct DaemonProcess<'w> {
    world: &'w DaemonWorld,
    child: Child,
}

impl DaemonProcess<'_> {
    /// Process id of the daemon.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Connects a client to the routes' socket.
    pub async fn routes(&self) -> DaemonClient {
        DaemonClient::connect(&self.world.socket()).await.expect("the routes' socket is served")
    }

    /// Connects a client to the socket for reviewers.
    pub async fn review(&self) -> DaemonClient {
        DaemonClient::connect(&self.world.review_socket()).await.expect("the socket for reviewers is served")
    }

    /// Connects a client to the control socket.
    pub async fn control(&self) -> DaemonClient {
        DaemonClient::connect(&self.world.control_socket()).await.expect("the control socket is served")
    }

    /// Kills the process, as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().expect("the child process exists");
        self.child.wait().expect("the child process exists");
    }

    /// Sends the daemon the signal `name`.
    ///
    /// # Panics
    /// Panics if the system has no `kill`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", self.pid())).status();
        assert!(sent.expect("a shell exists").success(), "the signal is sent");
    }

    /// Sends SIGTERM and waits until the daemon has ended.
    pub fn stop(self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    /// Exit status of the daemon if it has ended.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the child process exists")
    }

    /// Waits until the daemon ends.
    ///
    /// # Panics
    /// Panics if it does not end within [`PATIENCE`].
    pub fn wait(mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the child process exists") {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "the daemon does not end: {}", self.world.service_log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Resident memory of the daemon, in bytes.
    ///
    /// # Errors
    /// Returns an error if `/proc` does not report it.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        self.memory_bytes("VmRSS:")
    }

    /// Peak resident memory of the daemon, in bytes.
    ///
    /// # Errors
    /// Returns an error if `/proc` does not report it.
    pub fn most_resident_bytes(&self) -> io::Result<u64> {
        self.memory_bytes("VmHWM:")
    }

    fn memory_bytes(&self, name: &str) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB")?.trim().parse().ok());
        kib.map(|kib: u64| kib * 1024).ok_or_else(|| io::Error::other(format!("no {name}")))
    }
}

impl Drop for DaemonProcess<'_> {
    fn drop(&mut self) {
        // the daemon may have ended already
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Sends a request and returns the answer, which the OpenAPI documents must declare.
pub async fn call(
    client: &mut DaemonClient,
    method: Method,
    path: &str,
    body: Option<Bytes>,
) -> DaemonResponse {
    let answer = client.call(method.clone(), path, body).await.expect("the daemon answers");
    described::check(&method.as_str().to_lowercase(), path, &answer);
    answer
}

/// Posts `body` as JSON.
pub async fn post(client: &mut DaemonClient, path: &str, body: &Value) -> DaemonResponse {
    call(client, Method::POST, path, Some(body.to_string().into())).await
}

/// Gets `path`.
pub async fn get(client: &mut DaemonClient, path: &str) -> DaemonResponse {
    call(client, Method::GET, path, None).await
}

/// Body of `answer` as a JSON value; null if it is not JSON.
#[must_use]
pub fn document(answer: &DaemonResponse) -> Value {
    answer.json().unwrap_or_default()
}

/// Value at the JSON pointer `place` in the body; null if there is none.
#[must_use]
pub fn at(answer: &DaemonResponse, place: &str) -> Value {
    document(answer).pointer(place).cloned().unwrap_or_default()
}

/// Returns the problem document in `answer`.
///
/// # Panics
/// Panics if `answer` is not a problem document with this status and code.
pub fn problem(answer: &DaemonResponse, status: u16, code: &str) -> Value {
    let document = document(answer);
    let field = |name: &str| document.get(name).cloned().unwrap_or_default();
    assert_eq!((answer.status.as_u16(), field("code")), (status, json!(code)), "{document}");
    assert_eq!(field("status"), status, "{document}");
    assert_eq!(field("type"), format!("urn:oracled:problem:{code}"));
    assert!(field("detail").as_str().is_some_and(|detail| !detail.is_empty()), "{document}");
    let content_type = answer.headers.get("content-type").and_then(|value| value.to_str().ok());
    assert_eq!(content_type, Some("application/problem+json"));
    assert!(answer.headers.contains_key("x-request-id"), "{:?}", answer.headers);
    document
}

/// Log entries that match the query string `question`, read from the control socket, as if the log had no entries of reads by
/// operators: each read of a test adds one. `event=operator_read` asks for these entries.
///
/// # Panics
/// Panics if they cannot be read.
pub async fn log(control: &mut DaemonClient, question: &str) -> Vec<Value> {
    if question.contains("event=") {
        return log_with_reads(control, question).await;
    }
    let params = question.split('&').filter(|param| !param.is_empty());
    let (limit, mut others): (Vec<_>, Vec<_>) = params.partition(|param| param.starts_with("limit="));
    let limit = limit.first().and_then(|limit| limit.strip_prefix("limit="));
    let limit = limit.map_or(100, |limit| limit.parse().expect("a number"));
    others.push("limit=10000");
    let mut entries = log_with_reads(control, &others.join("&")).await;
    entries.retain(is_no_read);
    if question.contains("after=") || question.contains("since=") {
        entries.truncate(limit);
    } else {
        entries.drain(..entries.len().saturating_sub(limit));
    }
    entries
}

/// Log entries that match the query string `question`, read from the control socket.
///
/// # Panics
/// Panics if they cannot be read.
pub async fn log_with_reads(control: &mut DaemonClient, question: &str) -> Vec<Value> {
    let answer = get(control, &format!("/v1/log?{question}")).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    lines(&answer.body)
}

/// Whether a log entry is not of a read by an operator.
#[must_use]
pub fn is_no_read(entry: &Value) -> bool {
    entry.get("event").is_none_or(|event| event != "operator_read")
}

/// Number of entries that a read of the whole log asks for at a time.
const AT_ONCE: usize = 10_000;

/// All log entries, from the first, without those of reads by operators.
///
/// # Panics
/// Panics if they cannot be read, or if a sequence number is missing.
pub async fn read_whole_log(control: &mut DaemonClient) -> Vec<Value> {
    let mut entries = Vec::new();
    loop {
        let more = log_with_reads(control, &format!("after={}&limit={AT_ONCE}", entries.len())).await;
        // each read adds an entry, so the last page is not empty
        let is_last = more.len() < AT_ONCE;
        for entry in more {
            let seq = entry.get("seq").and_then(Value::as_u64);
            assert_eq!(seq, Some(entries.len() as u64 + 1), "a gap before {entry}");
            entries.push(entry);
        }
        if is_last {
            entries.retain(is_no_read);
            return entries;
        }
    }
}

/// Copies a directory with all its files.
///
/// # Panics
/// Panics if a file cannot be read or written.
pub fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the directory is created");
    for entry in fs::read_dir(from).expect("the directory is readable") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("the copy succeeds");
        }
    }
}

/// Parses `text` as JSON lines.
#[must_use]
pub fn lines(text: &[u8]) -> Vec<Value> {
    let values = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    values.map(|line| serde_json::from_slice(line).expect("each line is JSON")).collect()
}

/// Body of a quick-tier submission with the verdict `raw`.
#[must_use]
pub fn submission(raw: &str) -> Value {
    json!({"tier": "quick", "query": "Sell honey?", "raw": raw})
}

/// Waits until `holds` returns true, and panics with `what` after [`PATIENCE`].
pub async fn eventually(what: &str, holds: impl AsyncFnMut() -> bool) {
    eventually_within(PATIENCE, what, holds).await;
}

/// Waits until `holds` returns true, and panics with `what` after `patience`.
pub async fn eventually_within(patience: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < patience, "never: {what}");
        // a test that waits long leaves the processor to the daemon
        tokio::time::sleep((began.elapsed() / 20).clamp(POLL_MIN, POLL_MAX)).await;
    }
}
