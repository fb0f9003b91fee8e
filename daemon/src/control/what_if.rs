//! `/v1/what-if`: the decisions of the log under another policy, other rules or the facts of another day.

use super::{DaemonStart, config_problem};
use crate::config::DaemonConfig;
use crate::platform::api::body::PieceWriter;
use crate::platform::api::request::JsonBody;
use crate::platform::config::{self, Configuration};
use crate::platform::logged_read::LoggedRead;
use crate::platform::openapi::{JSON_BODY, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_verdict::what_if::{WhatIfQuery, WhatIfTurn};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain_audit::event::ReadSubject;
use domain_base::problem::INVALID_REQUEST;
use domain_rules::RuleId;
use domain_rules::problem::WORDLIST_UNKNOWN;
use domain_verdict::what_if::{WhatIfLine, WhatIfReport, WhatIfRequest, WhatIfTerms};
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use serde::Serialize;
use std::io::{self, Write};
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// The path, for the time limit.
const PATH: &str = "/v1/what-if";
/// The name of the configuration in its errors.
const GATE: &str = "the gate file";

/// Whether a request has no time limit, because it reads all decisions of the log.
pub(super) fn has_no_time_limit<B>(request: &Request<B>) -> bool {
    request.uri().path() == PATH
}

problems!(WhatIfProblems: JSON_BODY STORE; INVALID_REQUEST WORDLIST_UNKNOWN);

/// Calculate the decisions of the log again with another policy, other rules or the facts of another day.
///
/// It changes nothing. One calculation runs at a time, and it ends when the client disconnects. Lines with the progress come before the
/// report, which is the last line. Single entries and rows that cannot be read are counted in the report; otherwise the response breaks
/// off. The entry `operator_read` in the log names the reader.
#[utoipa::path(
    post,
    path = "/v1/what-if",
    operation_id = "calculate_what_if",
    tag = "verdict",
    request_body = WhatIfRequest,
    responses(
        WhatIfProblems,
        (status = 200, description = "The progress, one line each, and the report", body = WhatIfLine, content_type = "application/x-ndjson"),
    ),
)]
pub(super) async fn calculate(
    State(service): State<Arc<DaemonService>>,
    Extension(start): Extension<Arc<DaemonStart>>,
    logged: LoggedRead,
    body: JsonBody,
) -> Result<Response, Problem> {
    let (query, terms) = read(&service, &start, body.parse()?)?;
    let turn = service.system.what_if.wait_for_turn().await;
    logged.log(&service, ReadSubject::WhatIf).await?;
    let (mut out, body) = PieceWriter::new();
    spawn_blocking(move || match write(&service, (&query, terms), &turn, &mut out) {
        Ok(true) => out.finish(),
        Ok(false) => {}
        Err(error) => tracing::warn!(error, "cannot complete a backtest; the response breaks off"),
    });
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::new(body)).into_response())
}

/// The calculation of a request.
fn read(
    service: &DaemonService,
    start: &DaemonStart,
    request: WhatIfRequest,
) -> Result<(WhatIfQuery, WhatIfTerms), Problem> {
    let WhatIfRequest { gate, rules, wordlist, facts_as_of, since, tier } = request;
    let given = gate.map(|text| config::parse::<DaemonConfig>(GATE, &text)).transpose();
    let given = given.map_err(|error| config_problem(&error))?;
    let config = given.as_ref().unwrap_or(&start.config);
    if let Some(rules) = &rules {
        check_rules(rules)?;
    }
    let wordlist = wordlist.map(|name| service.system.rules.find_wordlist(&name)).transpose()?;
    if facts_as_of.is_some_and(|at| at > service.system.clock.now()) {
        let detail = "`facts_as_of` is in the future; name a past time";
        return Err(Problem::new(INVALID_REQUEST, detail));
    }
    let digests = (config as &dyn Configuration).decision_digests();
    let terms = WhatIfTerms {
        is_requested_gate: given.is_some(),
        gate_sha256: digests.get("gate").cloned().unwrap_or_default(),
        rules: rules.clone(),
        wordlist: wordlist.as_ref().map(|list| list.document().reference()),
        facts_as_of,
        since,
        tier,
    };
    let policies = config.policies(start.flags.test_mode);
    let unexpected_fields = config.gate.unexpected_fields;
    Ok((WhatIfQuery { unexpected_fields, policies, rules, wordlist, facts_as_of, since, tier }, terms))
}

fn check_rules(rules: &[RuleId]) -> Result<(), Problem> {
    let fault = match RuleId::first_repeated(rules) {
        None if !rules.is_empty() => return Ok(()),
        None => "`rules` is empty; name a rule, or omit `rules`".to_owned(),
        Some(rule) => format!("`rules` names {rule} twice; name each rule once"),
    };
    Err(Problem::new(INVALID_REQUEST, fault))
}

/// Writes the lines of the answer. Returns whether it is complete; it is not if the client or the daemon ends.
fn write(
    service: &DaemonService,
    (query, terms): (&WhatIfQuery, WhatIfTerms),
    turn: &WhatIfTurn,
    out: &mut PieceWriter,
) -> Result<bool, String> {
    let (store, what_if) = (&service.system.store, &service.system.what_if);
    let (began_at, up_to_entry) = (service.system.clock.now(), store.last_seq());
    let first_entry = store.first_seq().map_err(|error| error.to_string())?;
    let stopping = service.subscribe_stop();
    let counts = what_if.run(turn, query, up_to_entry, |progress| {
        !*stopping.borrow() && write_line(out, &WhatIfLine::Progress(progress)).is_ok()
    });
    let Some(counts) = counts.map_err(|error| error.to_string())? else { return Ok(false) };
    let (decisions, from_text, from_flags) = (counts.decisions(), counts.from_text, counts.from_flags);
    let (not_calculated, unreadable_entries) = (counts.not_calculated(), counts.unreadable_entries);
    let transitions = counts.into_transitions();
    let changed = transitions.iter().filter(|transition| transition.then != transition.now);
    let report = WhatIfReport {
        began_at,
        up_to_entry,
        first_entry,
        now: terms,
        decisions,
        from_text,
        from_flags,
        not_calculated,
        unreadable_entries,
        changed: changed.map(|transition| transition.decisions).sum(),
        transitions,
    };
    Ok(write_line(out, &WhatIfLine::Report(Box::new(report))).is_ok())
}

fn write_line(out: &mut PieceWriter, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")?;
    out.flush()
}
