//! A scripted model: a server on the loopback interface that uses the protocols of Gemini, OpenAI and Anthropic, can fail in all
//! ways that a server can, and records the requests.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

/// Longest request, in bytes, with its head.
const REQUEST_MAX_BYTES: usize = 8 << 20;

/// A complete answer by Gemini's protocol with this text.
#[must_use]
pub fn gemini_answer(text: &str) -> Value {
    json!({
        "candidates": [{
            "content": {"parts": [{"text": text}], "role": "model"},
            "finishReason": "STOP",
            "index": 0,
        }],
        "usageMetadata": {"promptTokenCount": 300, "candidatesTokenCount": 40, "totalTokenCount": 340},
        "modelVersion": "gemini-2.5-flash",
        "responseId": "r1",
    })
}

/// A complete answer by OpenAI's protocol with this text.
#[must_use]
pub fn openai_answer(text: &str) -> Value {
    json!({
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-made-up-001",
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": null},
            "finish_reason": "stop",
        }],
        "usage": {"prompt_tokens": 300, "completion_tokens": 40, "total_tokens": 340},
    })
}

/// A complete answer by Anthropic's protocol with this text.
#[must_use]
pub fn anthropic_answer(text: &str) -> Value {
    json!({
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-made-up-001",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": null,
        "usage": {"input_tokens": 300, "output_tokens": 40, "service_tier": "standard"},
    })
}

/// Body of an answer.
#[derive(Debug, Clone)]
enum ScriptedBody {
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// A complete answer with this text, in the protocol of the request.
    Saying(String),
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptedEnd {
    /// After the whole body.
    Whole,
    /// The connection is closed after this number of bytes of the body.
    CutAfter(usize),
    /// The connection is closed before the first byte.
    HungUp,
    /// It does not end: the connection stays open without data.
    Silence,
}

/// One answer of a script.
#[derive(Debug, Clone)]
pub struct ScriptedReply {
    status: u16,
    headers: Vec<(String, String)>,
    body: ScriptedBody,
    delay: Duration,
    end: ScriptedEnd,
}

impl ScriptedReply {
    fn new(status: u16, body: ScriptedBody, end: ScriptedEnd) -> Self {
        Self { status, headers: Vec::new(), body, delay: Duration::ZERO, end }
    }

    /// A complete answer with this text, in the protocol of the request.
    #[must_use]
    pub fn with_text(text: &str) -> Self {
        Self::new(200, ScriptedBody::Saying(text.to_owned()), ScriptedEnd::Whole)
    }

    /// An answer with this status and body.
    #[must_use]
    pub fn bytes(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, ScriptedBody::Bytes(body.into()), ScriptedEnd::Whole)
    }

    /// An answer with this status and this JSON document.
    #[must_use]
    pub fn json(status: u16, document: &Value) -> Self {
        Self::bytes(status, document.to_string())
    }

    /// An error with this status, in the format that all protocols share.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Self {
        let error = json!({"code": status, "message": message, "status": "MADE_UP", "details": []});
        Self::json(status, &json!({"error": error}))
    }

    /// Closes the connection before the first byte.
    #[must_use]
    pub fn hang_up() -> Self {
        Self::new(200, ScriptedBody::Bytes(Vec::new()), ScriptedEnd::HungUp)
    }

    /// Sends no answer and keeps the connection open.
    #[must_use]
    pub fn silence() -> Self {
        Self::new(200, ScriptedBody::Bytes(Vec::new()), ScriptedEnd::Silence)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Delays the answer.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Closes the connection after this number of bytes of the body.
    #[must_use]
    pub const fn cut_after(mut self, bytes: usize) -> Self {
        self.end = ScriptedEnd::CutAfter(bytes);
        self
    }

    fn on_the_wire(&self, path: &str) -> (Vec<u8>, Vec<u8>) {
        let body = match &self.body {
            ScriptedBody::Bytes(bytes) => bytes.clone(),
            ScriptedBody::Saying(text) if path.ends_with(":generateContent") => {
                gemini_answer(text).to_string().into_bytes()
            }
            ScriptedBody::Saying(text) if path.ends_with("/messages") => {
                anthropic_answer(text).to_string().into_bytes()
            }
            ScriptedBody::Saying(text) => openai_answer(text).to_string().into_bytes(),
        };
        let mut head = format!("HTTP/1.1 {} Made Up\r\ncontent-length: {}\r\n", self.status, body.len());
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        (head.into_bytes(), body)
    }
}

/// A request as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// Method of the request.
    pub method: String,
    /// Path, as it was on the wire.
    pub path: String,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body; null if it has none or is not JSON.
    pub body: Value,
}

impl ReceivedRequest {
    /// Value of a header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Debug)]
struct ModelServerState {
    script: VecDeque<ScriptedReply>,
    otherwise: ScriptedReply,
    probed: ScriptedReply,
    delay: fn(&ReceivedRequest) -> Duration,
    requests: Vec<ReceivedRequest>,
    probes: Vec<ReceivedRequest>,
    in_flight: usize,
    most_in_flight: usize,
}

/// A running server. Dropping it stops the server.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<Mutex<ModelServerState>>,
    serving: AbortHandle,
}

impl ModelServer {
    /// Starts a server that answers each request with a good quick-tier verdict.
    ///
    /// # Panics
    /// Panics if the loopback interface has no free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback has a port");
        let address = listener.local_addr().expect("a listener has its address");
        let state = Arc::new(Mutex::new(ModelServerState {
            script: VecDeque::new(),
            otherwise: ScriptedReply::with_text(crate::GOOD),
            probed: ScriptedReply::json(200, &json!({"name": "models/made-up"})),
            delay: |_| Duration::ZERO,
            requests: Vec::new(),
            probes: Vec::new(),
            in_flight: 0,
            most_in_flight: 0,
        }));
        let serving = tokio::spawn(serve(listener, Arc::clone(&state))).abort_handle();
        Self { address, state, serving }
    }

    /// Base URL for Gemini's and Anthropic's protocols.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Base URL for OpenAI's protocol.
    #[must_use]
    pub fn openai_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Adds answers for the next requests, one for each.
    pub fn next(&self, replies: impl IntoIterator<Item = ScriptedReply>) {
        self.state().script.extend(replies);
    }

    /// Sets the answer for requests after the end of the script.
    pub fn set_default(&self, reply: ScriptedReply) {
        self.state().otherwise = reply;
    }

    /// Delays each answer by the time that `delay` returns for its request.
    pub fn set_delay(&self, delay: fn(&ReceivedRequest) -> Duration) {
        self.state().delay = delay;
    }

    /// Sets the answer to `GET` requests, which are probes for the models themselves.
    pub fn set_probe_reply(&self, reply: ScriptedReply) {
        self.state().probed = reply;
    }

    /// Requests for an answer, in the order in which they arrived.
    #[must_use]
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.state().requests.clone()
    }

    /// Number of requests for an answer.
    #[must_use]
    pub fn request_count(&self) -> usize {
        self.state().requests.len()
    }

    /// Requests for the models themselves.
    #[must_use]
    pub fn probes(&self) -> Vec<ReceivedRequest> {
        self.state().probes.clone()
    }

    /// Largest number of requests for an answer that waited at the same time.
    #[must_use]
    pub fn most_in_flight(&self) -> usize {
        self.state().most_in_flight
    }

    fn state(&self) -> MutexGuard<'_, ModelServerState> {
        lock(&self.state)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock(state: &Mutex<ModelServerState>) -> MutexGuard<'_, ModelServerState> {
    state.lock().expect("the lock is not poisoned")
}

/// Serves until it is aborted, which closes all connections.
async fn serve(listener: TcpListener, state: Arc<Mutex<ModelServerState>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                // a client that disconnects early is not an error of the server
                let state = Arc::clone(&state);
                connections.spawn(async move { drop(serve_connection(stream, &state).await) });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Counts a request as in flight until it is dropped.
struct InFlightGuard<'s>(&'s Mutex<ModelServerState>);

impl<'s> InFlightGuard<'s> {
    fn begin(state: &'s Mutex<ModelServerState>) -> Self {
        let mut counted = lock(state);
        counted.in_flight += 1;
        counted.most_in_flight = counted.most_in_flight.max(counted.in_flight);
        Self(state)
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        lock(self.0).in_flight -= 1;
    }
}

/// Records a request and returns its answer.
fn record_request(state: &Mutex<ModelServerState>, seen: ReceivedRequest) -> ScriptedReply {
    let mut state = lock(state);
    if seen.method == "GET" {
        state.probes.push(seen);
        return state.probed.clone();
    }
    let delay = (state.delay)(&seen);
    state.requests.push(seen);
    let reply = state.script.pop_front().unwrap_or_else(|| state.otherwise.clone());
    ScriptedReply { delay: reply.delay + delay, ..reply }
}

/// Answers the requests on one connection until one side closes it.
async fn serve_connection(mut stream: TcpStream, state: &Mutex<ModelServerState>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(seen) = read(&mut stream, &mut buffer).await? {
        let _waiting = (seen.method != "GET").then(|| InFlightGuard::begin(state));
        let path = seen.path.clone();
        let reply = record_request(state, seen);
        let (head, mut body) = reply.on_the_wire(&path);
        tokio::select! {
            () = sleep(reply.delay) => {}
            () = wait_for_close(&stream) => return Ok(()),
        }
        match reply.end {
            ScriptedEnd::HungUp => return Ok(()),
            ScriptedEnd::Silence => {
                wait_for_close(&stream).await;
                return Ok(());
            }
            ScriptedEnd::CutAfter(bytes) => body.truncate(bytes),
            ScriptedEnd::Whole => {}
        }
        stream.write_all(&[head, body].concat()).await?;
        if reply.end != ScriptedEnd::Whole {
            return Ok(());
        }
    }
    Ok(())
}

/// Waits until the client has closed its side. Further data from the client does not count as closing.
async fn wait_for_close(stream: &TcpStream) {
    match stream.peek(&mut [0]).await {
        Ok(0) | Err(_) => {}
        Ok(_) => std::future::pending().await,
    }
}

/// Next request on a connection; `None` if the connection has ended.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<ReceivedRequest>> {
    loop {
        if let Some((seen, bytes)) = parse(buffer) {
            buffer.drain(..bytes);
            return Ok(Some(seen));
        }
        if buffer.len() > REQUEST_MAX_BYTES || stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// The request at the start of `bytes` and its length in bytes; `None` if it is incomplete.
fn parse(bytes: &[u8]) -> Option<(ReceivedRequest, usize)> {
    const BLANK: &[u8] = b"\r\n\r\n";
    let head_bytes = bytes.windows(BLANK.len()).position(|window| window == BLANK)?;
    let head = String::from_utf8_lossy(bytes.get(..head_bytes)?);
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let pair = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: Vec<_> = lines.filter_map(pair).collect();
    let mut seen = ReceivedRequest { method, path, headers, body: Value::Null };
    let body_bytes = seen.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let body_begins = head_bytes + BLANK.len();
    let body = bytes.get(body_begins..body_begins + body_bytes)?;
    seen.body = serde_json::from_slice(body).unwrap_or_default();
    Some((seen, body_begins + body_bytes))
}
