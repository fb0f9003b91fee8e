//! A peer of a durable submission: PostgreSQL with synchronous commits, if it is installed.

use crate::load::{LoadConnections, LoadRound, RoundEnd};
use crate::records::session_id;
use oracled_tests::postgres::{PostgresServer, USER};
use std::io;
use std::path::Path;

/// The end of an answer: the server is ready for the next query, outside of a transaction.
const READY: &[u8] = b"Z\0\0\0\x05I";
/// The beginning of the answer to an insertion: its parameters are bound.
const BOUND: &str = "2";
/// A list of no formats: all arguments, or all results, are text.
const ALL_TEXT: [u8; 2] = [0, 0];

/// The server with a table of its own.
#[derive(Debug)]
pub(crate) struct PostgresPeer(PostgresServer);

impl PostgresPeer {
    /// Starts a server in the empty folder `dir`; `None` if it is not installed.
    pub(crate) fn start(dir: &Path) -> io::Result<Option<Self>> {
        let Some(server) = PostgresServer::start(dir)? else { return Ok(None) };
        let mut table = LoadConnections::connect_greeted(&server.socket(), 1, &greeting(), |answer| {
            answer.ends_with(READY)
        })?;
        let create = message(b'Q', b"CREATE TABLE records (id text PRIMARY KEY, value text)\0");
        table.round_of(RoundEnd::Sent(1), "C", whole_answer, |request| request.extend_from_slice(&create))?;
        Ok(Some(Self(server)))
    }

    /// Inserts values of `bytes` bytes under the ids of `requests` sessions, beginning with number `from`: one transaction each,
    /// by a prepared statement.
    pub(crate) fn round(
        &self,
        connections: usize,
        requests: usize,
        from: usize,
        bytes: usize,
    ) -> io::Result<LoadRound> {
        let statement = message(b'P', b"insert\0INSERT INTO records VALUES ($1, $2)\0\0\0");
        let greeting = [greeting(), statement, message(b'S', b"")].concat();
        // ready after the greeting, and after the statement
        let is_ready =
            |answer: &[u8]| answer.windows(READY.len()).filter(|found| *found == READY).count() == 2;
        let (mut numbers, value) = (from.., vec![b'x'; bytes]);
        LoadConnections::connect_greeted(&self.0.socket(), connections, &greeting, is_ready)?.round_of(
            RoundEnd::Sent(requests),
            BOUND,
            whole_answer,
            |request| {
                let id = session_id(numbers.next().expect("the range is endless"));
                let text = |text: &[u8]| [&length(text.len()), text].concat();
                let arguments = [text(id.as_bytes()), text(&value)].concat();
                let bind = [b"\0insert\0", &ALL_TEXT[..], &[0, 2], &arguments, &ALL_TEXT].concat();
                request.extend_from_slice(&message(b'B', &bind));
                request.extend_from_slice(&message(b'E', b"\0\0\0\0\0"));
                request.extend_from_slice(&message(b'S', b""));
            },
        )
    }
}

/// The first message of a session: the version of the protocol, the user and the database.
fn greeting() -> Vec<u8> {
    let text = [&[0, 3, 0, 0], format!("user\0{USER}\0database\0postgres\0\0").as_bytes()].concat();
    [&length(text.len() + 4), text.as_slice()].concat()
}

fn message(kind: u8, text: &[u8]) -> Vec<u8> {
    [&[kind], length(text.len() + 4).as_slice(), text].concat()
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).expect("a short message").to_be_bytes()
}

fn whole_answer(answer: &[u8]) -> Option<usize> {
    answer.ends_with(READY).then_some(answer.len())
}
