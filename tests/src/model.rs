//! A model that answers what a test tells it to: a server on the loopback that speaks Gemini's wire and OpenAI's,
//! fails in every way a server can, and remembers what it was asked.

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

/// A request may be so long, with its head.
const REQUEST_MAX_BYTES: usize = 8 << 20;

/// A whole answer of Gemini's that says `text`.
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

/// A whole answer of OpenAI's that says `text`.
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

/// What is answered.
#[derive(Debug, Clone)]
enum Body {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A whole answer that says this, on whichever wire it was asked.
    Saying(String),
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// As it should.
    Whole,
    /// With the connection, after so many bytes of the body.
    CutAfter(usize),
    /// With the connection, before its first byte.
    HungUp,
    /// Never: the connection stays open and silent.
    Silence,
}

/// One answer, as a script has it.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
    delay: Duration,
    end: End,
}

impl Reply {
    fn new(status: u16, body: Body, end: End) -> Self {
        Self { status, headers: Vec::new(), body, delay: Duration::ZERO, end }
    }

    /// A whole answer that says `text`, on whichever wire it is asked.
    #[must_use]
    pub fn saying(text: &str) -> Self {
        Self::new(200, Body::Saying(text.to_owned()), End::Whole)
    }

    /// These bytes under this status.
    #[must_use]
    pub fn bytes(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, Body::Bytes(body.into()), End::Whole)
    }

    /// This document under this status.
    #[must_use]
    pub fn json(status: u16, document: &Value) -> Self {
        Self::bytes(status, document.to_string())
    }

    /// An error of this status, in the form that both wires share.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Self {
        let error = json!({"code": status, "message": message, "status": "MADE_UP", "details": []});
        Self::json(status, &json!({"error": error}))
    }

    /// The connection ends before the first byte.
    #[must_use]
    pub fn hang_up() -> Self {
        Self::new(200, Body::Bytes(Vec::new()), End::HungUp)
    }

    /// No answer, ever.
    #[must_use]
    pub fn silence() -> Self {
        Self::new(200, Body::Bytes(Vec::new()), End::Silence)
    }

    /// With another header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Only after this time.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Only so many bytes of the body, and then the connection ends.
    #[must_use]
    pub const fn cut_after(mut self, bytes: usize) -> Self {
        self.end = End::CutAfter(bytes);
        self
    }

    fn on_the_wire(&self, path: &str) -> (Vec<u8>, Vec<u8>) {
        let body = match &self.body {
            Body::Bytes(bytes) => bytes.clone(),
            Body::Saying(text) if path.ends_with(":generateContent") => {
                gemini_answer(text).to_string().into_bytes()
            }
            Body::Saying(text) => openai_answer(text).to_string().into_bytes(),
        };
        let mut head = format!("HTTP/1.1 {} Made Up\r\ncontent-length: {}\r\n", self.status, body.len());
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        (head.into_bytes(), body)
    }
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Its path, as it stood on the wire.
    pub path: String,
    /// Its headers, the names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body; null where it had none.
    pub body: Value,
}

impl Seen {
    /// The value of a header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Debug)]
struct State {
    script: VecDeque<Reply>,
    otherwise: Reply,
    probed: Reply,
    requests: Vec<Seen>,
    probes: Vec<Seen>,
    in_flight: usize,
    most_in_flight: usize,
}

/// The server. It ends when it is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    serving: AbortHandle,
}

impl ModelServer {
    /// Starts one that says a good verdict of the quick tier to whatever it is asked.
    ///
    /// # Panics
    /// Where the loopback has no port to give.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback has a port");
        let address = listener.local_addr().expect("a listener has its address");
        let state = Arc::new(Mutex::new(State {
            script: VecDeque::new(),
            otherwise: Reply::saying(crate::GOOD),
            probed: Reply::json(200, &json!({"name": "models/made-up"})),
            requests: Vec::new(),
            probes: Vec::new(),
            in_flight: 0,
            most_in_flight: 0,
        }));
        let serving = tokio::spawn(serve(listener, Arc::clone(&state))).abort_handle();
        Self { address, state, serving }
    }

    /// Where it is: the base of Gemini's wire.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The base of OpenAI's wire.
    #[must_use]
    pub fn openai_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The next answers, one each.
    pub fn next(&self, replies: impl IntoIterator<Item = Reply>) {
        self.state().script.extend(replies);
    }

    /// What is answered when the script is done.
    pub fn otherwise(&self, reply: Reply) {
        self.state().otherwise = reply;
    }

    /// What is answered to questions about the models themselves.
    pub fn when_probed(&self, reply: Reply) {
        self.state().probed = reply;
    }

    /// The requests for an answer, in the order in which they came.
    #[must_use]
    pub fn requests(&self) -> Vec<Seen> {
        self.state().requests.clone()
    }

    /// How many requests for an answer came.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.state().requests.len()
    }

    /// The questions about the models themselves.
    #[must_use]
    pub fn probes(&self) -> Vec<Seen> {
        self.state().probes.clone()
    }

    /// How many requests for an answer were waiting at once, at most.
    #[must_use]
    pub fn most_in_flight(&self) -> usize {
        self.state().most_in_flight
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("nobody panics with it")
}

/// Serves until it is aborted, and all connections with it.
async fn serve(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                // a client that goes away in the middle is no failure of the server's
                let state = Arc::clone(&state);
                connections.spawn(async move { drop(converse(stream, &state).await) });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// A request for an answer, counted for as long as it waits for it.
struct Waiting<'s>(&'s Mutex<State>);

impl<'s> Waiting<'s> {
    fn begin(state: &'s Mutex<State>) -> Self {
        let mut counted = lock(state);
        counted.in_flight += 1;
        counted.most_in_flight = counted.most_in_flight.max(counted.in_flight);
        Self(state)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(self.0).in_flight -= 1;
    }
}

/// Notes a request, and hands back its answer.
fn take(state: &Mutex<State>, seen: Seen) -> Reply {
    let mut state = lock(state);
    if seen.method == "GET" {
        state.probes.push(seen);
        return state.probed.clone();
    }
    state.requests.push(seen);
    state.script.pop_front().unwrap_or_else(|| state.otherwise.clone())
}

/// Answers what comes on one connection, until either side ends it.
async fn converse(mut stream: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(seen) = read(&mut stream, &mut buffer).await? {
        let _waiting = (seen.method != "GET").then(|| Waiting::begin(state));
        let path = seen.path.clone();
        let reply = take(state, seen);
        let (head, mut body) = reply.on_the_wire(&path);
        tokio::select! {
            () = sleep(reply.delay) => {}
            () = gone(&stream) => return Ok(()),
        }
        match reply.end {
            End::HungUp => return Ok(()),
            End::Silence => {
                gone(&stream).await;
                return Ok(());
            }
            End::CutAfter(bytes) => body.truncate(bytes),
            End::Whole => {}
        }
        stream.write_all(&[head, body].concat()).await?;
        if reply.end != End::Whole {
            return Ok(());
        }
    }
    Ok(())
}

/// Waits until the client has closed its side; a client that sends more is still there.
async fn gone(stream: &TcpStream) {
    match stream.peek(&mut [0]).await {
        Ok(0) | Err(_) => {}
        Ok(_) => std::future::pending().await,
    }
}

/// The next request on a connection; none where it has ended.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Seen>> {
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

/// The request that `bytes` begin with, and its length, if it is whole.
fn parse(bytes: &[u8]) -> Option<(Seen, usize)> {
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
    let mut seen = Seen { method, path, headers, body: Value::Null };
    let body_bytes = seen.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let body_begins = head_bytes + BLANK.len();
    let body = bytes.get(body_begins..body_begins + body_bytes)?;
    seen.body = serde_json::from_slice(body).unwrap_or_default();
    Some((seen, body_begins + body_bytes))
}
