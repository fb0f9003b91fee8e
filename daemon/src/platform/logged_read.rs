//! The entry of a read by an operator or a reviewer. The handlers of such reads take a [`LoggedRead`].

use super::problem::Problem;
use super::service::DaemonService;
use actors_audit::logger::CommitError;
use actors_audit::logger::handle::CommitDecision;
use axum::extract::{FromRequestParts, Query, RawPathParams};
use domain_audit::event::{OperatorRead, ReadSubject};
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use hyper::http::request::Parts;
use oracled_store::JournalRecord;
use std::convert::Infallible;

/// The parameters that name a session, of a path and of a query.
const SESSION_PARAMS: [&str; 2] = ["session_id", "session"];
/// The parameters of the log whose values are not logged: a caller chooses these ids, and no erasure would find them in the entry of a read.
const SEARCHED_IDS: [&str; 2] = ["execution", "request_id"];

/// The parameters of a request that reads data.
#[derive(Debug)]
pub struct LoggedRead {
    session: Option<SessionId>,
    others: Vec<(String, String)>,
}

impl<S: Sync> FromRequestParts<S> for LoggedRead {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let of_path = RawPathParams::from_request_parts(parts, &()).await;
        let of_path = of_path.iter().flatten().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let of_query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        // the handler rejects invalid parameters itself
        let of_query = of_query.map(|Query(params)| params).unwrap_or_default();
        let (sessions, others): (Vec<_>, _) =
            of_path.chain(of_query).partition(|(name, _)| SESSION_PARAMS.contains(&name.as_str()));
        let session = sessions.into_iter().find_map(|(_, id)| SessionId::try_from(id).ok());
        Ok(Self { session, others })
    }
}

impl LoggedRead {
    /// Commits the entry of the read. Call it before the answer is sent. An entry that cannot be committed goes to the service log, and the
    /// read is answered: an operator needs it to repair the daemon.
    ///
    /// # Errors
    /// The session was changed during each attempt.
    pub(crate) async fn log(self, service: &DaemonService, subject: ReadSubject) -> Result<(), Problem> {
        let Self { session, others } = self;
        let parameter = |(name, value): (String, String)| {
            if SEARCHED_IDS.contains(&name.as_str()) { name } else { format!("{name}={value}") }
        };
        let parameters = others.into_iter().map(parameter).collect::<Vec<_>>();
        let parameters = Some(parameters.join("&")).filter(|parameters| !parameters.is_empty());
        let (read, now) = (OperatorRead { subject, parameters }, service.system.clock.now());
        let store = &service.system.store;
        let logged = service.system.log.decide_and_commit(|| {
            // an erasure removes the row first, so no entry after it names the session; a row that cannot be read counts as unknown
            let row = session.as_ref().and_then(|id| store.session_expectation(id).ok().flatten());
            let session = session.clone().filter(|_| row.is_some());
            let event = AuditEvent::new(now, session, read.clone());
            let record = JournalRecord { expect: row.into_iter().collect(), ..JournalRecord::from(event) };
            Ok::<_, CommitError>(CommitDecision::Change((), record))
        });
        match logged.await {
            Ok(_) => Ok(()),
            Err(CommitError::Unavailable(cause)) => {
                tracing::warn!(cause, "a read could not be logged; its entry is in the service log");
                Ok(())
            }
            Err(error @ CommitError::Stale(_)) => Err(error.into()),
        }
    }
}
