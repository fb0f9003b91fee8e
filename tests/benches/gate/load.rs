//! A client with little overhead, so that the measurement shows the server. It has one thread, and one
//! request in flight for each connection. Requests are written as bytes, and answers are parsed only to find
//! their end.

use crate::table::histogram;
use hdrhistogram::Histogram;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time after which a server without a response counts as dead.
const PATIENCE_MS: u16 = 20_000;
const HEAD_END: &[u8] = b"\r\n\r\n";
const LENGTH: &[u8] = b"content-length: ";

/// The end of a round.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RoundEnd {
    /// After this long.
    Elapsed(Duration),
    /// After this number of requests.
    Sent(usize),
}

/// The result of a round.
#[derive(Debug)]
pub(crate) struct LoadRound {
    /// Number of requests.
    pub(crate) requests: usize,
    /// Requests per second.
    pub(crate) rate: f64,
    /// The times from sending a request to its complete answer, in nanoseconds.
    pub(crate) latencies: Histogram<u64>,
}

/// Connections to one server, or to several.
#[derive(Debug)]
pub(crate) struct LoadConnections {
    epoll: Epoll,
    connections: Vec<LoadConnection>,
}

#[derive(Debug)]
struct LoadConnection {
    stream: UnixStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    filled: usize,
    sent_at: Instant,
}

impl LoadConnections {
    /// Opens the connections.
    pub(crate) fn connect(socket: &Path, connections: usize) -> io::Result<Self> {
        Self::connect_to(&[socket], connections)
    }

    /// Opens the connections, with the same number to each of the servers, or one more.
    pub(crate) fn connect_to(sockets: &[impl AsRef<Path>], connections: usize) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::empty())?;
        let connections = sockets.iter().cycle().take(connections).enumerate().map(|(number, socket)| {
            let stream = UnixStream::connect(socket)?;
            epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?;
            let (request, answer) = (Vec::new(), vec![0; 64 * 1024]);
            Ok(LoadConnection { stream, request, answer, filled: 0, sent_at: Instant::now() })
        });
        let connections = connections.collect::<io::Result<_>>()?;
        Ok(Self { epoll, connections })
    }

    /// Opens the connections, sends `greeting` on each, and reads its answer until `is_whole` returns true.
    pub(crate) fn connect_greeted(
        socket: &Path,
        connections: usize,
        greeting: &[u8],
        is_whole: impl Fn(&[u8]) -> bool,
    ) -> io::Result<Self> {
        let mut load = Self::connect(socket, connections)?;
        for LoadConnection { stream, .. } in &mut load.connections {
            stream.write_all(greeting)?;
            let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
            while !is_whole(&answer) {
                let read = stream.read(&mut piece)?;
                answer.extend_from_slice(piece.get(..read).unwrap_or_default());
                if read == 0 {
                    let text = String::from_utf8_lossy(&answer).into_owned();
                    return Err(io::Error::other(format!("the greeting is refused: {text}")));
                }
            }
        }
        Ok(load)
    }

    /// Repeatedly sends the request that `next` writes, on every connection. Each answer must have `status`.
    pub(crate) fn round(
        &mut self,
        until: RoundEnd,
        status: u16,
        next: impl FnMut(&mut Vec<u8>),
    ) -> io::Result<LoadRound> {
        self.round_of(until, &format!("HTTP/1.1 {status} "), whole_length, next)
    }

    /// Repeatedly sends the request that `next` writes, on every connection. Each answer must begin with `start`, and has the
    /// length that `whole_length` returns.
    pub(crate) fn round_of(
        &mut self,
        until: RoundEnd,
        start: &str,
        whole_length: fn(&[u8]) -> Option<usize>,
        mut next: impl FnMut(&mut Vec<u8>),
    ) -> io::Result<LoadRound> {
        let mut latencies = histogram();
        let mut events = vec![EpollEvent::empty(); self.connections.len()];
        let began = Instant::now();
        let (mut sent, mut answered) = (0, 0);
        for connection in &mut self.connections {
            connection.send(&mut next)?;
            sent += 1;
        }
        while answered < sent {
            let ready = self.epoll.wait(&mut events, PATIENCE_MS)?;
            if ready == 0 {
                return Err(io::Error::other("the server does not answer"));
            }
            for event in events.iter().take(ready) {
                let number = usize::try_from(event.data()).expect("the number came from a usize");
                let connection = self.connections.get_mut(number).expect("the connection is registered");
                if !connection.receive(start.as_bytes(), whole_length)? {
                    continue;
                }
                let now = Instant::now();
                latencies.saturating_record(nanoseconds(now - connection.sent_at));
                answered += 1;
                let continues = match until {
                    RoundEnd::Elapsed(duration) => now - began < duration,
                    RoundEnd::Sent(requests) => sent < requests,
                };
                if continues {
                    connection.send(&mut next)?;
                    sent += 1;
                }
            }
        }
        let rate = answered as f64 / began.elapsed().as_secs_f64();
        Ok(LoadRound { requests: answered, rate, latencies })
    }
}

impl LoadConnection {
    fn send(&mut self, next: &mut impl FnMut(&mut Vec<u8>)) -> io::Result<()> {
        self.request.clear();
        next(&mut self.request);
        self.filled = 0;
        self.sent_at = Instant::now();
        self.stream.write_all(&self.request)
    }

    /// Reads available bytes. Returns true once the answer is complete.
    fn receive(&mut self, start: &[u8], whole_length: fn(&[u8]) -> Option<usize>) -> io::Result<bool> {
        let room = self.answer.get_mut(self.filled..).unwrap_or_default();
        let read = self.stream.read(room)?;
        self.filled += read;
        let answer = self.answer.get(..self.filled).unwrap_or_default();
        if read == 0 || !answer.starts_with(start.get(..answer.len()).unwrap_or(start)) {
            let text = String::from_utf8_lossy(answer).into_owned();
            return Err(io::Error::other(format!("unexpected answer: {text}")));
        }
        Ok(whole_length(answer).is_some_and(|length| length <= answer.len()))
    }
}

/// The total length of the message that begins with these bytes; `None` until its head is complete.
pub(crate) fn whole_length(message: &[u8]) -> Option<usize> {
    let head_bytes = find(message, HEAD_END)?;
    let head = message.get(..head_bytes)?;
    let from = find(head, LENGTH)? + LENGTH.len();
    let digits = head.get(from..)?.iter().take_while(|byte| byte.is_ascii_digit());
    let body_bytes = digits.fold(0, |length, digit| 10 * length + usize::from(digit - b'0'));
    Some(head_bytes + HEAD_END.len() + body_bytes)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// A duration in nanoseconds.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A `GET` of `path`.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: oracled\r\n\r\n").into_bytes()
}

/// Writes a `POST` of the JSON `body` to `path` into `request`.
pub(crate) fn post(request: &mut Vec<u8>, path: &str, body: &str) -> io::Result<()> {
    send(request, "POST", path, body)
}

/// Writes a `PUT` of the JSON `body` to `path` into `request`.
pub(crate) fn put(request: &mut Vec<u8>, path: &str, body: &str) -> io::Result<()> {
    send(request, "PUT", path, body)
}

fn send(request: &mut Vec<u8>, method: &str, path: &str, body: &str) -> io::Result<()> {
    write!(
        request,
        "{method} {path} HTTP/1.1\r\nhost: oracled\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The body of one answer to a `GET` of `path`.
pub(crate) fn body_of(socket: &Path, path: &str) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(&get(path))?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece)?;
        answer.extend_from_slice(piece.get(..read).unwrap_or_default());
        match whole_length(&answer) {
            Some(length) if length <= answer.len() => {
                let head_bytes = find(&answer, HEAD_END).map_or(0, |at| at + HEAD_END.len());
                return Ok(answer.split_off(head_bytes));
            }
            _ if read == 0 => return Err(io::Error::other("the answer ended early")),
            _ => {}
        }
    }
}
