//! The errors of the verbs, and their exit codes.

use domain_base::digest::Sha256Hex;
use domain_base::session_id::SessionId;
use oracled_api::client::ClientError;
use oracled_api::directories::DefaultDirectories;
use std::env;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The error with which a verb ends.
#[derive(Debug, thiserror::Error)]
pub enum CtlError {
    /// The daemon does not answer.
    #[error(transparent)]
    Client(ClientError),
    /// The daemon rejects the request, or cannot serve it now.
    #[error("{detail}{} ({code})", next_command(.code))]
    Problem {
        /// The `detail` of the problem document.
        detail: String,
        /// The stable problem code.
        code: String,
        /// The HTTP status.
        status: u16,
        /// The `Retry-After` of the answer.
        retry_after: Option<Duration>,
        /// The `X-Request-Id` of the answer.
        request_id: Option<Box<str>>,
        /// The whole problem document.
        document: serde_json::Value,
    },
    /// The verdict is not approved. The decision was printed.
    #[error("the verdict is not approved")]
    NotApproved,
    /// The verdict is ordered, but not delivered yet. The order was printed.
    #[error("the verdict of session {0} is not delivered yet; `oraclectl verdict {0}` shows it later")]
    NotDelivered(SessionId),
    /// The order of the verdict is held. It was printed.
    #[error(
        "the order of session {session_id} is held; `oraclectl order {} {session_id} --reason …` decides it{}",
        if *.has_verdict { "release|retry|fail|cancel" } else { "retry|fail|cancel" },
        application_hint(.session_id)
    )]
    OrderHeld {
        session_id: SessionId,
        /// Whether the policy holds a verdict, which can be released.
        has_verdict: bool,
    },
    /// No values are verified. The reason was printed.
    #[error("no values are verified")]
    NotVerified,
    /// A decision has another result when it is computed again. Both were printed.
    #[error("the logged decision cannot be reproduced")]
    NotReproduced,
    /// A probe failed. The cause was printed.
    #[error("the probe failed")]
    ProbeFailed,
    /// A run failed, or a check found faults. The reason was printed.
    #[error("the run failed")]
    RunFailed,
    /// A run is held. The gates that it failed were printed.
    #[error(
        "run {0} is held, so its records are not visible; `oraclectl ingest show {0}` shows the failed gates and the next commands"
    )]
    Held(Sha256Hex),
    /// Some of several operations failed. Each error was printed; the first one decides the exit code.
    #[error(transparent)]
    Printed(Box<CtlError>),
    /// The user interrupted the wait for a run.
    #[error(
        "run {0} continues; `oraclectl ingest show {0}` shows its progress, `oraclectl ingest cancel {0}` ends it"
    )]
    Detached(Sha256Hex),
    /// The connection broke while a run was in progress, or while it was being started.
    #[error("{cause}; {next}")]
    RunLost {
        /// The error of the connection.
        cause: ClientError,
        /// The state of the run, and the next command.
        next: String,
    },
    /// A name is ambiguous.
    #[error("{0}")]
    NotOne(String),
    /// The arguments contradict each other, or a variable of the environment is invalid.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read.
    #[error("cannot read {file}: {cause}")]
    Read {
        /// The path, or "standard input".
        file: String,
        /// The error of the system.
        cause: io::Error,
    },
    /// An error that is specific to a verb.
    #[error("{message}")]
    Verb {
        /// The error text.
        message: String,
        /// The exit status of the process.
        exit_code: u8,
        /// Whether the reason was printed already.
        was_printed: bool,
    },
    /// Standard output cannot be written.
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
}

/// The next command after a problem with this code, as a suffix of the problem's text. Empty if there is no such
/// command, or if the daemon's text already names it.
pub fn next_command(code: &str) -> &'static str {
    match code {
        "source_unknown" => "; `oraclectl get source` lists the sources",
        "ontology_unknown" => "; `oraclectl get ontology` lists the ontologies",
        "pipeline_unknown" => "; `oraclectl get pipeline` lists the pipelines of all sources",
        "workflow_unknown" => {
            "; `oraclectl get workflow` lists the workflows, `oraclectl new source` writes one, and docs/verification.md describes it"
        }
        "execution_unknown" => "; nor is it a session in the log: a session of an application is shop/cs_1",
        "run_unknown" => "; `oraclectl ingest list` lists the runs",
        "review_unknown" => "; `oraclectl review list --all` lists the reviews",
        "review_rule_unknown" => "; `oraclectl get review_rule` lists the review rules",
        "mail_unknown" => "; `oraclectl outbox` lists the mails, `oraclectl webhook list` the webhooks",
        "source_silent" => "; `oraclectl source approve SOURCE` approves a source whose status is pending",
        "runs_held" => {
            "; use `oraclectl ingest approve RUN --reason …` or `oraclectl ingest discard RUN --reason …`"
        }
        _ => "",
    }
}

/// How a session is named if it is one of an application. The routes' socket answers without the application.
fn application_hint(session_id: &SessionId) -> String {
    let is_full = session_id.as_str().contains('/');
    if is_full {
        String::new()
    } else {
        format!("; write shop/{session_id} for a session of the application `shop`")
    }
}

impl From<ClientError> for CtlError {
    fn from(error: ClientError) -> Self {
        Self::Client(match error {
            ClientError::NotThere { path, reason } => {
                let hint = default_path_hint(&path).unwrap_or_default();
                ClientError::NotThere { path, reason: reason + &hint }
            }
            other => other,
        })
    }
}

/// A socket of the daemon, with the variable and the option for another path.
pub(super) struct DaemonSocket {
    pub(super) file: &'static str,
    pub(super) variable: &'static str,
    option: &'static str,
}

pub(super) const ROUTES_SOCKET: DaemonSocket =
    DaemonSocket { file: "oracled.sock", variable: "ORACLED_SOCKET", option: "--socket" };
pub(super) const CONTROL_SOCKET: DaemonSocket =
    DaemonSocket { file: "control.sock", variable: "ORACLED_CONTROL_SOCKET", option: "--control-socket" };

/// How another path than the default one `path` is given; `None` if it is not the default path, or is denied to this user.
fn default_path_hint(path: &Path) -> Option<String> {
    let is_default = |DaemonSocket { file, variable, .. }: &DaemonSocket| {
        env::var_os(variable).is_none() && DefaultDirectories::find_socket(file) == path
    };
    let DaemonSocket { variable, option, .. } =
        [ROUTES_SOCKET, CONTROL_SOCKET].into_iter().find(is_default)?;
    if UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
        return None;
    }
    Some(format!(
        "; this is the default path, because `{variable}` is not set: if the daemon has another one, set it, or use {option}"
    ))
}

impl CtlError {
    /// Replaces the text of a problem with the code `problem_code`, and the `detail` of its document. Other errors stay
    /// as they are.
    pub fn reword(self, problem_code: &str, text: impl FnOnce() -> String) -> Self {
        match self {
            Self::Problem { code, status, retry_after, request_id, mut document, .. }
                if code == problem_code =>
            {
                let detail = text();
                if let Some(members) = document.as_object_mut() {
                    members.insert("detail".to_owned(), detail.clone().into());
                }
                Self::Problem { detail, code, status, retry_after, request_id, document }
            }
            other => other,
        }
    }

    /// Adds to the error about an unknown session how a session of an application is named, unless `session_id` is such a name.
    pub fn with_application_hint(self, session_id: &str) -> Self {
        let Self::Problem { detail, code, .. } = &self else { return self };
        let is_unknown =
            matches!(code.as_str(), "session_unknown" | "order_unknown" | "recall_notice_unknown");
        if session_id.contains('/') || !is_unknown {
            return self;
        }
        let (code, detail) = (code.clone(), detail.clone());
        self.reword(&code, || {
            format!("{detail}; to name a session of an application, write shop/{session_id}")
        })
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotApproved
            | Self::NotReproduced
            | Self::ProbeFailed
            | Self::RunFailed
            | Self::NotOne(_) => 1,
            Self::Usage(_) => 2,
            Self::Printed(first) => first.exit_code(),
            Self::NotVerified => 6,
            Self::Held(_) => 7,
            Self::Detached(_) => 130,
            // a retry helps once the other work has ended
            Self::Problem { code, .. } if code == "backup_in_progress" => 4,
            // no backup succeeds before the damage is repaired, and no retry brings a lost row back
            Self::Problem { code, .. } if matches!(code.as_str(), "state_damaged" | "record_damaged") => 1,
            Self::Problem { status, code, .. } if *status < 500 || code == "model_refused" => 1,
            // the daemon has no model: a retry does not help
            Self::Problem { retry_after: None, code, .. } if code == "model_unavailable" => 1,
            Self::Client(_) | Self::RunLost { .. } => 3,
            Self::Verb { exit_code, .. } => *exit_code,
            Self::NotDelivered(_) | Self::OrderHeld { .. } | Self::Problem { .. } => 4,
            Self::Read { .. } | Self::Output(_) => 5,
        }
    }

    /// Whether the reader of standard output has closed it. The program then ends with success.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == ErrorKind::BrokenPipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problem(code: &str, status: u16, has_retry_after: bool) -> CtlError {
        CtlError::Problem {
            detail: "it failed".to_owned(),
            code: code.to_owned(),
            status,
            retry_after: has_retry_after.then_some(Duration::from_secs(5)),
            request_id: None,
            document: json!({"code": code, "detail": "it failed"}),
        }
    }

    #[test]
    fn problem_exits_with_4_if_a_retry_can_help() {
        for (code, status, has_retry_after, exit_code) in [
            ("crosscheck_rejected", 422, false, 1),
            ("backup_in_progress", 409, false, 4),
            ("run_busy", 409, false, 1),
            ("state_damaged", 500, false, 1),
            ("record_damaged", 500, false, 1),
            ("model_refused", 502, true, 1),
            ("model_refused_request", 502, false, 4),
            ("model_unavailable", 503, true, 4),
            ("model_unavailable", 503, false, 1),
        ] {
            assert_eq!(problem(code, status, has_retry_after).exit_code(), exit_code, "{code}");
        }
    }

    #[test]
    fn problem_names_the_next_command_before_its_code() {
        let shown = [problem("run_unknown", 404, false), problem("invalid_query", 400, false)];
        insta::assert_snapshot!("next_command_of_problems", shown.map(|error| error.to_string()).join("\n"));
    }

    #[test]
    fn held_order_names_the_command_with_its_session() {
        let held = |id: &str| {
            let session_id = id.parse().expect("a valid id");
            CtlError::OrderHeld { session_id, has_verdict: false }.to_string()
        };
        insta::assert_snapshot!("commands_for_held_orders", [held("shop/cs_1"), held("cs_1")].join("\n"));
    }

    #[test]
    fn reword_changes_text_and_document_of_only_the_named_problem() {
        for (code, expected) in [("session_unknown", "no session"), ("invalid_query", "it failed")] {
            let reworded = problem(code, 404, false).reword("session_unknown", || "no session".into());
            let CtlError::Problem { detail, document, .. } = reworded else { panic!("{reworded:?}") };
            assert_eq!((detail.as_str(), &document), (expected, &json!({"code": code, "detail": expected})));
        }
    }
}
