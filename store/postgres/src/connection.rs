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
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use store_log::SharedLogError;

/// How long a silent server is waited for before it is asked, and between two questions.
const KEEPALIVE: Duration = Duration::from_secs(1);

/// The settings of a session. A host that ends within a transaction, or whose network does, must not keep the locks of its rows, for which
/// the others wait.
const SESSION: &str = "
SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '10s';
SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3";

type Job = Box<dyn FnOnce(&mut Client) + Send>;

/// The thread of a connection. It ends with the last sender, after its statement.
#[derive(Debug)]
pub(crate) struct Connection {
    jobs: Sender<Job>,
    /// The longest wait for an answer.
    pub(crate) answer_within: Duration,
    /// The warning of the server about the present statement.
    warning: Arc<Mutex<Option<String>>>,
}

/// The threads of the connections of one owner. A statement that has no answer keeps its own, such as an append while the standby is
/// away. At most one does: more would use up the connections of the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionThreads(Arc<()>);

impl ConnectionThreads {
    /// The most threads: one waits for an answer, one ends, and one is in use.
    const MAX: usize = 3;

    /// A part that the thread of a new connection holds.
    fn add(&self) -> Result<Arc<()>, SharedLogError> {
        let thread = Arc::clone(&self.0);
        if Arc::strong_count(&self.0) > Self::MAX + 1 {
            return Err(failed(
                "the server has not answered an earlier statement yet; if it runs, its synchronous standby may be away",
            ));
        }
        Ok(thread)
    }
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
            Ok(answer) => {
                let answer = answer.map_err(|error| error_of(&error))?;
                let warning = self.warning.lock().unwrap_or_else(PoisonError::into_inner).take();
                warning.map_or(Ok(answer), |warning| Err(failed(format_args!("the server warns: {warning}"))))
            }
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
    let Some(cause) = error.as_db_error() else {
        return match error.source() {
            // the text of TLS for this has a link to its manual
            Some(cause) if cause.to_string().contains("close_notify") => {
                failed("the server has ended the connection")
            }
            Some(cause) if cause.to_string().contains("UnknownIssuer") => {
                failed(format_args!("{error}: {cause}; name the file of its CA by `sslrootcert` in the URL"))
            }
            Some(cause) if cause.to_string().contains("lookup address") => failed(format_args!(
                "{cause}; check the name of the server in the URL, and that `@`, `/`, `#`, `%` and `:` of the password are encoded there"
            )),
            Some(cause) => failed(format_args!("{error}: {cause}")),
            None => failed(error),
        };
    };
    let text = format!("{} ({})", cause.message(), cause.code().code());
    match cause.code() {
        code if *code == SqlState::UNDEFINED_TABLE => refused(NO_CLUSTER),
        // the user, its password or the database
        code if code.code().starts_with("28") || code.code().starts_with("3D") => refused(text),
        _ => failed(text),
    }
}

/// The error of the last one of several servers, which were all tried.
fn of_last_server(error: SharedLogError, servers: usize) -> SharedLogError {
    let name = |text: String| match servers {
        0 | 1 => text,
        servers => format!("none of the {servers} servers in its URL can be used; the last one: {text}"),
    };
    match error {
        SharedLogError::Unanswered(text) => SharedLogError::Unanswered(name(text)),
        SharedLogError::Refused(text) => SharedLogError::Refused(name(text)),
    }
}

/// Connects to a server that accepts writes, and checks its durability.
pub(crate) fn connect(
    settings: &PostgresSettings,
    threads: &ConnectionThreads,
) -> Result<Connection, SharedLogError> {
    let thread = threads.add()?;
    let PostgresSettings { url, durability, answer_within, .. } = settings;
    let address = ServerAddress::parse(url).map_err(failed)?;
    let (tls, mut config, answer_within) = (address.tls()?, address.config, *answer_within);
    // each server of the URL is tried within the wait
    let servers = config.get_hosts().len().max(config.get_hostaddrs().len());
    let within = answer_within / u32::try_from(servers + 1).unwrap_or(u32::MAX);
    config.target_session_attrs(TargetSessionAttrs::ReadWrite).connect_timeout(within);
    config.tcp_user_timeout(answer_within).application_name("oracled");
    config.keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE).keepalives_retries(3);
    let warning = Arc::<Mutex<Option<String>>>::default();
    let noted = Arc::clone(&warning);
    // such as that a commit may not be replicated
    config.notice_callback(move |notice| {
        if notice.severity() == "WARNING" {
            noted
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert_with(|| notice.message().to_owned());
        }
    });
    let (jobs, queue) = mpsc::channel::<Job>();
    let (opened, is_open) = mpsc::channel();
    let run = move || {
        let _thread = thread;
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
        Ok(Err(error)) => return Err(of_last_server(error_of(&error), servers)),
        Err(_) => return Err(failed(format_args!("no connection within {} ms", answer_within.as_millis()))),
    }
    let connection = Connection { jobs, answer_within, warning };
    let (standbys, connected) = connection.call(|client| {
        client.batch_execute(SESSION)?;
        let row = client.query_typed_one(
            "SELECT current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication)",
            &[],
        )?;
        Ok((row.try_get::<_, String>(0)?, row.try_get::<_, i64>(1)?))
    })?;
    if connected == 0 && !standbys.is_empty() && *durability != SharedLogDurability::Storage {
        return Err(failed(
            "the server waits for a synchronous standby, and none is connected to it; start one. To do without one for a time, empty synchronous_standby_names \
             there, set `cluster.durability = \"asynchronous\"`, and restart the hosts",
        ));
    }
    if *durability == SharedLogDurability::SynchronousStandby && standbys.is_empty() {
        return Err(failed(
            "the server has no synchronous standby; set synchronous_standby_names there. To do without one for a time, set `cluster.durability = \"asynchronous\"`, and restart \
             the hosts",
        ));
    }
    Ok(connection)
}
