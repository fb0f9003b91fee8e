//! A connection to PostgreSQL, on a thread of its own.
//!
//! The caller waits for a limited time. A statement is never cancelled: after that time its thread and its connection are left to
//! themselves, and the next connection finds out what the statement did.

use crate::address::ServerAddress;
use crate::cluster::NO_CLUSTER;
use crate::{PostgresSettings, SharedLogDurability, failed, refused};
use postgres::config::TargetSessionAttrs;
use postgres::error::SqlState;
use postgres::{Client, Config, Error, NoTls};
use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use store_log::SharedLogError;
use tokio_postgres_rustls::MakeRustlsConnect;

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

/// The threads of the connections of one owner, by server. A statement that has no answer keeps its own, such as an append while the standby
/// is away. At most one does: more would use up the connections of the server. One that hangs leaves those of the others.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionThreads(Arc<Mutex<BTreeMap<String, Arc<()>>>>);

impl ConnectionThreads {
    /// The most threads of a server: one waits for an answer, one ends, and one is in use.
    const MAX: usize = 3;

    /// A part that the thread of a new connection to `server` holds.
    fn add(&self, server: &str) -> Result<Arc<()>, SharedLogError> {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = Arc::clone(servers.entry(server.to_owned()).or_default());
        // the map has one, and this one is another
        if Arc::strong_count(&thread) > Self::MAX + 1 {
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
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => refused(format_args!(
            "{text}; the section *Rights* of docs/cluster.md lists the rights that the owner of the tables grants, and the actions that only the owner can do"
        )),
        // the user, its password or the database
        code if ["28", "3D", "42"].iter().any(|class| code.code().starts_with(class)) => refused(text),
        _ => failed(text),
    }
}

/// The error of servers that were tried in this order.
fn of_servers(mut errors: Vec<(String, SharedLogError)>) -> SharedLogError {
    if errors.len() == 1 {
        return errors.remove(0).1;
    }
    // one that did not answer may accept this host
    let is_refused = errors.iter().all(|(_, error)| matches!(error, SharedLogError::Refused(_)));
    let causes = errors.iter().map(|(name, error)| match error {
        SharedLogError::Unanswered(text) | SharedLogError::Refused(text) => format!("{name}: {text}"),
    });
    let causes = causes.collect::<Vec<_>>().join("; ");
    let text = format!("none of the {} servers in its URL can be used: {causes}", errors.len());
    if is_refused { refused(text) } else { failed(text) }
}

/// Connects to a server within `within`, if it accepts writes.
fn open_server(
    (mut config, tls): (Config, Option<MakeRustlsConnect>),
    (within, answer_within): (Duration, Duration),
    thread: Arc<()>,
) -> Result<Connection, SharedLogError> {
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
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
    match is_open.recv_timeout(within) {
        Ok(Ok(())) => Ok(Connection { jobs, answer_within, warning }),
        Ok(Err(error)) => Err(error_of(&error)),
        Err(_) => Err(failed(format_args!("no connection within {} ms", within.as_millis()))),
    }
}

/// Connects to the first server of the URL that accepts writes. All are tried within the wait for an answer.
fn open(settings: &PostgresSettings, threads: &ConnectionThreads) -> Result<Connection, SharedLogError> {
    let PostgresSettings { url, answer_within, .. } = settings;
    let address = ServerAddress::parse(url).map_err(failed)?;
    let (tls, servers) = (address.tls()?, address.servers());
    let share = |parts: usize| *answer_within / u32::try_from(parts).unwrap_or(u32::MAX);
    // a network connection takes a part of the time, so that its error comes in time
    let (network_within, within) = (share(servers.len() + 1), share(servers.len()));
    let mut errors = Vec::new();
    for (name, mut config) in servers {
        config.connect_timeout(network_within);
        let opened = threads
            .add(&name)
            .and_then(|thread| open_server((config, tls.clone()), (within, *answer_within), thread));
        match opened {
            Ok(connection) => return Ok(connection),
            Err(error) => errors.push((name, error)),
        }
    }
    Err(of_servers(errors))
}

/// Connects to a server that accepts writes, and checks its durability.
pub(crate) fn connect(
    settings: &PostgresSettings,
    threads: &ConnectionThreads,
) -> Result<Connection, SharedLogError> {
    let (connection, durability) = (open(settings, threads)?, &settings.durability);
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
        return Err(failed(format_args!(
            "the server has no synchronous standby ({connected} connected, and its synchronous_standby_names is empty); set it there. To do without one for a time, set \
             `cluster.durability = \"asynchronous\"`, and restart the hosts"
        )));
    }
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClusterIdentity, ClusterKeys};
    use std::net::TcpListener;

    /// An address of this host at which nothing listens.
    fn closed_port() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("an address").to_string()
    }

    fn settings(servers: &[String]) -> PostgresSettings {
        PostgresSettings {
            url: format!("postgres://me:secret@{}/db", servers.join(",")),
            host: "app-1".to_owned(),
            instance: [0; 16],
            store_id: 7,
            schema: 1,
            identity: ClusterIdentity { log_key: String::new(), held_key: String::new() },
            keys: ClusterKeys::parse("a AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=").expect("a key"),
            durability: SharedLogDurability::Storage,
            answer_within: Duration::from_secs(5),
        }
    }

    #[test]
    fn failed_connection_names_each_server_with_its_cause() {
        let servers = [closed_port(), closed_port()];
        let Err(SharedLogError::Unanswered(text)) = open(&settings(&servers), &ConnectionThreads::default())
        else {
            panic!("no server listens");
        };
        let [first, second] = servers.map(|server| text.find(&format!("{server}: ")).expect(&text));
        assert!(first < second && text.contains("refused") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn servers_refuse_this_host_only_if_each_one_does() {
        let servers = |errors: [SharedLogError; 2]| {
            ["db-1:5432", "db-2:5432"].map(str::to_owned).into_iter().zip(errors)
        };
        let text = "none of the 2 servers in its URL can be used: db-1:5432: a; db-2:5432: b";
        for (errors, expected) in
            [([refused("a"), refused("b")], refused(text)), ([failed("a"), refused("b")], failed(text))]
        {
            assert_eq!(of_servers(servers(errors).collect()), expected);
        }
        assert_eq!(of_servers(vec![("db-1:5432".to_owned(), refused("a"))]), refused("a"));
    }

    #[test]
    fn server_that_does_not_answer_leaves_time_for_the_next_one() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let silent = (silent.local_addr().expect("an address").to_string(), silent);
        let servers = [silent.0.clone(), closed_port()];
        let settings = PostgresSettings { answer_within: Duration::from_millis(400), ..settings(&servers) };
        let threads = ConnectionThreads::default();
        for attempt in 1..=5 {
            let Err(SharedLogError::Unanswered(text)) = open(&settings, &threads) else {
                panic!("no server answers");
            };
            let [first, second] =
                servers.each_ref().map(|server| text.find(&format!("{server}: ")).expect(&text));
            let expected = if attempt <= 3 { "no connection within 200 ms" } else { "an earlier statement" };
            assert!(first < second && text.contains(expected), "{attempt}: {text}");
            assert!(text[second..].contains("refused"), "{attempt}: {text}");
        }
    }
}
