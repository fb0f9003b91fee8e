//! A connection to PostgreSQL, on a thread of its own.
//!
//! The caller waits for a limited time. A statement is never cancelled: after that time its thread and its connection are left to
//! themselves, and the next connection finds out what the statement did.

use crate::address::ServerAddress;
use crate::cluster::NO_CLUSTER;
use crate::{PostgresSettings, SharedLogDurability, failed, refused};
use postgres::config::TargetSessionAttrs;
use postgres::error::SqlState;
use postgres::{Client, Error, NoTls};
use std::error::Error as _;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;
use store_log::SharedLogError;

type Job = Box<dyn FnOnce(&mut Client) + Send>;

/// The thread of a connection. It ends with the last sender, after its statement.
#[derive(Debug)]
pub(crate) struct Connection {
    jobs: Sender<Job>,
    answer_within: Duration,
}

impl Connection {
    /// Runs `call` on the thread of the connection.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Client) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, SharedLogError> {
        let (answer, answered) = mpsc::channel();
        let job: Job = Box::new(move |client| drop(answer.send(call(client))));
        self.jobs.send(job).map_err(|_| failed("its connection has ended"))?;
        match answered.recv_timeout(self.answer_within) {
            Ok(answer) => answer.map_err(|error| error_of(&error)),
            Err(RecvTimeoutError::Timeout) => {
                Err(failed(format_args!("no answer within {} ms", self.answer_within.as_millis())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(failed("its connection has ended")),
        }
    }
}

/// Calls the server over a connection, which an error ends.
pub(crate) fn call<T: Send + 'static>(
    connection: &mut Option<Connection>,
    call: impl FnOnce(&mut Client) -> Result<T, Error> + Send + 'static,
) -> Result<T, SharedLogError> {
    let present = connection.take().ok_or_else(|| failed("it is not connected"))?;
    let answer = present.call(call)?;
    *connection = Some(present);
    Ok(answer)
}

/// An error with its causes: that of the client alone is `db error`.
fn error_of(error: &Error) -> SharedLogError {
    match error.as_db_error() {
        Some(cause) if *cause.code() == SqlState::UNDEFINED_TABLE => refused(NO_CLUSTER),
        Some(cause) => failed(format_args!("{} ({})", cause.message(), cause.code().code())),
        None => match error.source() {
            Some(cause) => failed(format_args!("{error}: {cause}")),
            None => failed(error),
        },
    }
}

/// Connects to a server that accepts writes, and checks its durability.
pub(crate) fn connect(settings: &PostgresSettings) -> Result<Connection, SharedLogError> {
    let PostgresSettings { url, durability, answer_within, .. } = settings;
    let address = ServerAddress::parse(url).map_err(failed)?;
    let (tls, mut config, answer_within) = (address.tls()?, address.config, *answer_within);
    config.target_session_attrs(TargetSessionAttrs::ReadWrite).connect_timeout(answer_within);
    config.tcp_user_timeout(answer_within).application_name("oracled");
    let (jobs, queue) = mpsc::channel::<Job>();
    let (opened, is_open) = mpsc::channel();
    let run = move || {
        let connected = match tls {
            Some(tls) => config.connect(tls),
            None => config.connect(NoTls),
        };
        let mut client = match connected {
            Ok(client) => client,
            Err(error) => return drop(opened.send(Err(error))),
        };
        if opened.send(Ok(())).is_ok() {
            queue.iter().for_each(|job| job(&mut client));
        }
    };
    thread::Builder::new().name("shared-log".to_owned()).spawn(run).map_err(failed)?;
    match is_open.recv_timeout(answer_within) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(error_of(&error)),
        Err(_) => return Err(failed(format_args!("no connection within {} ms", answer_within.as_millis()))),
    }
    let connection = Connection { jobs, answer_within };
    let standbys = connection.call(|client| {
        client.batch_execute("SET synchronous_commit = on")?;
        client.query_one("SHOW synchronous_standby_names", &[])?.try_get::<_, String>(0)
    })?;
    if *durability == SharedLogDurability::SynchronousStandby && standbys.is_empty() {
        return Err(refused(
            "the server has no synchronous standby; set synchronous_standby_names there, or another `durability` here",
        ));
    }
    Ok(connection)
}
