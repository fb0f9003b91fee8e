//! `oraclectl review`.

pub(crate) mod resolve;

use super::verify;
use crate::base::error::CtlError;
use crate::base::options::{
    GlobalOptions, encode_segment, id_parser, limit_parser, read_pages, response_lines,
};
use crate::base::output::{format_pairs, format_table, format_user, print_error, print_json, shorten_line};
use crate::base::program::examples;
use domain_base::text_form::{visible_json, visible_line};
use domain_ground::id::{SourceId, WorkflowId};
use domain_verdict::wire::OrderReport;
use domain_verification::event::ReviewEntry;
use domain_verification::review::{
    CommentRequest, DismissalRecord, DismissalRequest, ResolutionRecord, ReviewComment, ReviewState,
    RevocationRecord, RevocationRequest,
};
use domain_verification::wire::{ReviewEvidence, ReviewReport, ReviewSummary, ReviewedSourceAnswer};
use domain_verification::{AxisReason, CandidateAnswer, ReviewCase};
use hyper::Method;
use jiff::Timestamp;
use oracled_api::client::{ClientError, DaemonClient};
use oracled_domain::status::StatusReport;
use resolve::ResolveArgs;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;

/// List what waits for a person; show and decide reviews of questions that the sources could not settle
#[derive(Debug, clap::Args)]
pub(crate) struct ReviewArgs {
    #[command(subcommand)]
    action: ReviewAction,
}

#[derive(Debug, clap::Subcommand)]
enum ReviewAction {
    /// List the open reviews and the held orders, of each the newest first
    ///
    /// `oraclectl review` decides reviews (kind `verification`), and `oraclectl order` decides held orders (kind `order`).
    #[command(after_help = examples(&["oraclectl review list --workflow population", "oraclectl review list --all -n 20", "oraclectl review list --kind order"]))]
    List {
        /// Only this kind
        #[arg(long, value_name = "KIND", conflicts_with = "workflow")]
        kind: Option<QueueKind>,
        /// Also list resolved and dismissed reviews
        #[arg(long)]
        all: bool,
        /// Only reviews of this workflow, without held orders
        #[arg(long, value_name = "ID")]
        workflow: Option<WorkflowId>,
        /// Maximum number of entries [default: all]
        #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(usize::MAX))]
        limit: Option<usize>,
    },
    /// Show a review with all answers and their origin
    Show {
        /// The review
        #[arg(value_parser = id_parser())]
        review_id: String,
    },
    /// Resolve a review: the given values override all sources until they expire; or, with `--rule`, resolve many reviews alike
    ///
    /// A review rule is a registered document. It is applied to each open review, and each resolution is a request of its own. A review
    /// to which the rule does not apply stays open.
    #[command(after_help = examples(&["oraclectl review resolve v-0660d63c8093cc-02f36bb2b4 population=54208 --reason 'census report' --valid-for 90d", "oraclectl review resolve --rule small-difference --since 30d --dry-run", "oraclectl review resolve --rule small-difference@1 --workflow population --reason 'the later release'"]))]
    Resolve(ResolveArgs),
    /// Revoke the resolution of a review, so that the next verification decides again
    Revoke {
        /// The review
        #[arg(value_parser = id_parser())]
        review_id: String,
        /// The reason
        #[arg(long)]
        reason: String,
    },
    /// Dismiss reviews without a decision, for example of settled disputes; the next verification decides again
    #[command(after_help = examples(&["oraclectl review dismiss v-0660d63c8093cc-02f36bb2b4 --reason 'the sources agree again'"]))]
    Dismiss {
        /// The reviews
        #[arg(required = true, value_name = "REVIEW_ID", value_parser = id_parser())]
        review_ids: Vec<String>,
        /// The reason
        #[arg(long)]
        reason: String,
    },
    /// Comment on a review, open or closed
    Comment {
        /// The review
        #[arg(value_parser = id_parser())]
        review_id: String,
        /// The comment: 1 to 4096 bytes
        text: String,
    },
    /// Print each new review as it is opened, until interrupted
    Watch,
}

/// A review or a held order, which waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum QueueKind {
    Verification,
    Order,
}

/// One entry of the queue.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum QueueEntry {
    Verification(ReviewSummary),
    Order(OrderReport),
}

impl ReviewArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.action {
            ReviewAction::List { all, kind, workflow, limit } => {
                let queue = read_queue(options, *all, *kind, workflow.as_ref());
                let mut queue = queue.await?;
                queue.truncate(limit.unwrap_or(usize::MAX));
                if options.json {
                    print_json(out, &queue)
                } else {
                    Ok(writeln!(out, "{}", format_queue(&queue))?)
                }
            }
            ReviewAction::Show { review_id } => {
                let state = read_review(options, review_id).await?;
                if options.json {
                    return print_json(out, &state);
                }
                show_review(out, &state, &read_evidence(options, review_id).await?)
            }
            ReviewAction::Resolve(resolve) => resolve.run(options, out).await,
            ReviewAction::Revoke { review_id, reason } => {
                let revocation = RevocationRequest { reason: reason.clone() };
                let state = post(options, review_id, "revoke", &revocation).await?;
                if options.json { print_json(out, &state) } else { show_revoked(out, &state) }
            }
            ReviewAction::Comment { review_id, text } => {
                let comment = CommentRequest { text: text.clone() };
                let state = post(options, review_id, "comments", &comment).await?;
                if options.json { print_json(out, &state) } else { show_commented(out, &state) }
            }
            ReviewAction::Dismiss { review_ids, reason } => {
                dismiss(options, review_ids, &DismissalRequest { reason: reason.clone() }, out).await
            }
            ReviewAction::Watch => watch(options, out).await,
        }
    }
}

/// Dismisses the reviews one by one. After an error it continues with the next review.
async fn dismiss(
    options: &GlobalOptions,
    review_ids: &[String],
    dismissal: &DismissalRequest,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let mut first = None;
    for review_id in review_ids {
        match post(options, review_id, "dismiss", dismissal).await {
            Ok(state) if options.json => print_json(out, &state)?,
            Ok(state) => show_dismissed(out, &state)?,
            Err(error) => {
                print_error(&error, options.json, out);
                first.get_or_insert(error);
            }
        }
    }
    first.map_or(Ok(()), |error| Err(CtlError::Printed(Box::new(error))))
}

pub(crate) async fn read_review(options: &GlobalOptions, review_id: &str) -> Result<ReviewState, CtlError> {
    Ok(read_review_report(options, review_id).await?.into_state())
}

pub(crate) async fn read_review_report(
    options: &GlobalOptions,
    review_id: &str,
) -> Result<ReviewReport, CtlError> {
    Ok(options.call_for_reviewer(Method::GET, &review_path(review_id), None).await?.json()?)
}

pub(crate) async fn read_evidence(
    options: &GlobalOptions,
    review_id: &str,
) -> Result<ReviewEvidence, CtlError> {
    let path = format!("{}/evidence", review_path(review_id));
    Ok(options.call_for_reviewer(Method::GET, &path, None).await?.json()?)
}

/// Sends an operator's decision about a review. Returns the new state of the review.
pub(crate) async fn post(
    options: &GlobalOptions,
    review_id: &str,
    verb: &str,
    word: &impl Serialize,
) -> Result<ReviewState, CtlError> {
    let body = serde_json::to_vec(word).map_err(std::io::Error::from)?;
    let path = format!("{}/{verb}", review_path(review_id));
    Ok(options.call_for_reviewer(Method::POST, &path, Some(body.into())).await?.json()?)
}

fn review_path(review_id: &str) -> String {
    format!("/v1/reviews/{}", encode_segment(review_id))
}

/// The reviews of `kind`, then the held orders.
async fn read_queue(
    options: &GlobalOptions,
    all: bool,
    kind: Option<QueueKind>,
    workflow: Option<&WorkflowId>,
) -> Result<Vec<QueueEntry>, CtlError> {
    let mut queue = Vec::new();
    let socket = options.reviewer_socket_path()?;
    if kind != Some(QueueKind::Order) {
        let workflow =
            workflow.map(|id| format!("&workflow={}", encode_segment(id.as_str()))).unwrap_or_default();
        let reviews = read_pages(&socket, &format!("/v1/reviews?open={}{workflow}", !all)).await?;
        queue.extend(reviews.into_iter().map(QueueEntry::Verification));
    }
    if kind != Some(QueueKind::Verification) && workflow.is_none() {
        let orders = read_pages(&socket, "/v1/orders?state=held").await?;
        queue.extend(orders.into_iter().map(QueueEntry::Order));
    }
    Ok(queue)
}

/// Follows the log from its current end.
async fn watch(options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let status: StatusReport = options.call_control(Method::GET, "/v1/status", None).await?.json()?;
    let path = format!("/v1/log/follow?event=review_opened&after={}", status.entries);
    let mut client = DaemonClient::connect(&options.control_path()?).await?;
    let mut lines = response_lines(client.open(Method::GET, &path, None).await?).await?;
    while let Some(line) = lines.next_line().await? {
        let unreadable = |error: serde_json::Error| ClientError::Unreadable(error.to_string());
        let ReviewEntry { review, .. } = serde_json::from_slice(&line).map_err(unreadable)?;
        let listed = ReviewSummary::from(ReviewState::new_open(*review));
        if options.json {
            let text = serde_json::to_string(&listed).map_err(std::io::Error::from)?;
            writeln!(out, "{}", visible_json(&text))?;
        } else {
            writeln!(out, "{}", visible_line(&format_line(&listed)))?;
        }
        out.flush()?;
    }
    Ok(())
}

/// Maximum length of a review's values in a list, in characters.
const VALUES_MAX_CHARS: usize = 60;
/// Maximum length of a raw record, in characters.
const RAW_MAX_CHARS: usize = 500;

/// The queue as a table.
fn format_queue(queue: &[QueueEntry]) -> String {
    if queue.is_empty() {
        return "no reviews".into();
    }
    let row = |entry: &QueueEntry| match entry {
        QueueEntry::Verification(review) => [
            "verification".into(),
            review.review_id.clone(),
            review.workflow_id.to_string(),
            format_subject(review),
            format_axes(review),
            shorten_line(&format_values(review), VALUES_MAX_CHARS),
            review.opened_at.to_string(),
            format_state(review),
        ],
        QueueEntry::Order(report) => order_row(report),
    };
    format_table(
        ["kind", "id", "workflow", "subject", "to decide", "values or reason", "opened at", "state"],
        queue.iter().map(row).collect(),
    )
}

/// The row of a held order, with the commands that decide it.
fn order_row(report: &OrderReport) -> [String; 8] {
    let OrderReport { session_id, tier, order, .. } = report;
    let commands =
        if order.is_held_by_policy() { "release, retry, fail, cancel" } else { "retry, fail, cancel" };
    [
        "order".into(),
        session_id.to_string(),
        "-".into(),
        format!("{tier} verdict"),
        format!("oraclectl order: {commands}"),
        shorten_line(&order.reason().unwrap_or_else(|| "-".into()), VALUES_MAX_CHARS),
        order.changed_at.to_string(),
        "held".into(),
    ]
}

/// The state of a review, in words.
pub(crate) fn format_state(review: &ReviewSummary) -> String {
    let event = |what: &str, by: &Option<String>, name: &Option<String>, at: Option<Timestamp>| {
        let by = by.as_ref().map(|by| format_user(by, name.as_deref()));
        by.zip(at).map(|(by, at)| format!("{what} at {at} by {by}"))
    };
    let resolved = event("resolved", &review.resolved_by, &review.resolved_by_name, review.resolved_at);
    let revoked = review.revoked_at.map(|at| format!(", revoked at {at}")).unwrap_or_default();
    let dismissed = event("dismissed", &review.dismissed_by, &review.dismissed_by_name, review.dismissed_at);
    resolved.map(|resolved| resolved + &revoked).or(dismissed).unwrap_or_else(|| "open".into())
}

/// A review on one line.
fn format_line(review: &ReviewSummary) -> String {
    let (id, workflow) = (&review.review_id, &review.workflow_id);
    let values = shorten_line(&format_values(review), VALUES_MAX_CHARS);
    format!(
        "{} {id} {workflow}: {}: {}: {values}",
        review.opened_at,
        format_subject(review),
        format_axes(review)
    )
}

pub(crate) fn format_subject(review: &ReviewSummary) -> String {
    let is_past = review.point_in_time.is_some() || review.known_at.is_some();
    let at = if is_past {
        format!(", as of {}", verify::format_times(review.point_in_time, review.known_at))
    } else {
        String::new()
    };
    format!("{}{at}", verify::format_identity(&review.subject))
}

/// The answered and claimed values of the axes to decide, each value once.
pub(crate) fn format_values(review: &ReviewSummary) -> String {
    let of_axis = |path: &String| {
        let stated = review.values.values().filter_map(|values| values.get(path));
        let mut values: Vec<_> = stated.map(|stated| stated.value.to_string()).collect();
        values.sort_unstable();
        values.dedup();
        values.extend(review.claimed.get(path).map(|claim| format!("claimed {}", claim.value)));
        values.join(", ")
    };
    let axes: Vec<_> = review.axes.keys().map(of_axis).filter(|values| !values.is_empty()).collect();
    if axes.is_empty() { "-".into() } else { axes.join("; ") }
}

pub(crate) fn format_axes(review: &ReviewSummary) -> String {
    let axis = |(path, reasons): (&String, &BTreeSet<AxisReason>)| {
        let reasons: Vec<_> = reasons.iter().map(|reason| reason.into_str()).collect();
        format!("{path} ({})", reasons.join(", "))
    };
    review.axes.iter().map(axis).collect::<Vec<_>>().join(", ")
}

/// Prints a review with all that a reviewer needs for a decision.
fn show_review(out: &mut dyn Write, state: &ReviewState, evidence: &ReviewEvidence) -> Result<(), CtlError> {
    let review = &state.review;
    let head = [
        ("review", review.review_id.clone()),
        ("workflow", review.workflow_id.to_string()),
        ("subject", verify::format_identity(&review.subject)),
        ("as of", verify::format_times(review.point_in_time, review.known_at)),
        ("opened at", review.opened_at.to_string()),
        ("evidence", format!("SHA-256 {}", review.evidence_hash)),
    ];
    writeln!(out, "{}", format_pairs(&head))?;
    for (path, reasons) in &review.axes {
        writeln!(out, "{}", visible_line(path))?;
        for why in verify::describe_reasons(reasons) {
            writeln!(out, "  {why}")?;
        }
        for (oracle_id, candidate) in &review.candidates {
            if let Some(jump) = candidate.deviations.get(path) {
                writeln!(out, "  {oracle_id}: {}", visible_line(jump))?;
            }
        }
        if let Some(claim) = review.claimed.get(path) {
            let confirmed = if claim.confirmed { ", and has confirmed the claim" } else { "" };
            let line = format!("{} claims {}{confirmed}", claim.claimed_by, claim.value);
            writeln!(out, "  {}", visible_line(&line))?;
        }
    }
    if !review.candidates.is_empty() {
        let rows = review.candidates.iter().map(answer_row).collect();
        writeln!(
            out,
            "\n{}",
            format_table(["source", "values", "version", "as of", "verified", "trust"], rows)
        )?;
        writeln!(out, "\norigin of the answers")?;
        for candidate in review.candidates.iter().map(format_provenance) {
            writeln!(out, "  {}", visible_line(&candidate))?;
        }
        for (oracle_id, text) in &evidence.raw_texts {
            writeln!(out, "  raw record of {oracle_id}: {}", shorten_line(text, RAW_MAX_CHARS))?;
        }
        for line in changed_lines(evidence) {
            writeln!(out, "{}", visible_line(&line))?;
        }
    }
    let silent = review.sources.iter().filter(|(oracle_id, _)| !review.candidates.contains_key(*oracle_id));
    for (oracle_id, outcome) in silent {
        writeln!(out, "{oracle_id}: {}", outcome.into_str())?;
    }
    writeln!(out)?;
    if state.is_open() {
        writeln!(out, "next: {}", visible_line(&resolve_command(review)))?;
    }
    let resolved = state.resolved.iter().flat_map(format_resolution);
    let revoked = state.revoked.iter().flat_map(format_revocation);
    let dismissed = state.dismissed.iter().flat_map(format_dismissal);
    let comments = state.comments.iter().map(format_comment);
    let decisions: Vec<_> = resolved.chain(revoked).chain(dismissed).chain(comments).collect();
    Ok(out.write_all(format_pairs(&decisions).as_bytes())?)
}

/// The sources whose answers have changed since the review was opened.
pub(crate) fn changed_lines(evidence: &ReviewEvidence) -> Vec<String> {
    let line = |(oracle_id, answer): (&SourceId, &ReviewedSourceAnswer)| {
        let Some(version) = &answer.version else {
            return format!("changed since: {oracle_id} has no answer now");
        };
        let values = answer.values.iter().map(|(path, value)| format!("{path} {value}"));
        let values = values.collect::<Vec<_>>().join(", ");
        let values = if values.is_empty() { "no value".to_owned() } else { values };
        format!("changed since: {oracle_id} has {values} now (version {version})")
    };
    evidence.changed.iter().map(line).collect()
}

/// The row of a source's answer.
fn answer_row((oracle_id, candidate): (&SourceId, &CandidateAnswer)) -> [String; 6] {
    let record = &candidate.record;
    [
        oracle_id.to_string(),
        verify::format_values(&candidate.values),
        record.source_version.clone().unwrap_or_else(|| "-".into()),
        candidate.observed_at.to_string(),
        format!("{} by {}", record.verification_method, record.verifier_id),
        record.oracle_tier.into_str().to_owned(),
    ]
}

fn format_provenance((oracle_id, candidate): (&SourceId, &CandidateAnswer)) -> String {
    let record = &candidate.record;
    let hash = record.evidence_hash.as_ref().map(|hash| format!(", SHA-256 {hash}")).unwrap_or_default();
    let further = candidate.provenance.as_ref();
    let further = further.map(|chain| format!("; oraclectl provenance {}", chain.record_id));
    format!("{oracle_id}: {}{hash}{}", record.source_locator, further.unwrap_or_default())
}

fn resolve_command(review: &ReviewCase) -> String {
    let values: Vec<_> = review.axes.keys().map(|path| format!("{path}=VALUE")).collect();
    let paths = review.axes.keys().filter(|path| review.is_definition_required(path));
    let definitions: String = paths.map(|path| format!(" --definition {path}=TEXT")).collect();
    format!(
        "oraclectl review resolve {} {}{definitions} --reason \"…\" --valid-for 90d",
        review.review_id,
        values.join(" ")
    )
}

/// Prints a review whose resolution was just revoked.
fn show_revoked(out: &mut dyn Write, state: &ReviewState) -> Result<(), CtlError> {
    writeln!(out, "the resolution of review {} is revoked", state.review.review_id)?;
    let revoked: Vec<_> = state.revoked.iter().flat_map(format_revocation).collect();
    Ok(out.write_all(format_pairs(&revoked).as_bytes())?)
}

/// Prints a review that was just dismissed.
fn show_dismissed(out: &mut dyn Write, state: &ReviewState) -> Result<(), CtlError> {
    writeln!(out, "review {} is dismissed", state.review.review_id)?;
    let dismissed: Vec<_> = state.dismissed.iter().flat_map(format_dismissal).collect();
    Ok(out.write_all(format_pairs(&dismissed).as_bytes())?)
}

/// Prints the comment that was just stored.
fn show_commented(out: &mut dyn Write, state: &ReviewState) -> Result<(), CtlError> {
    writeln!(out, "the comment on review {} is stored", state.review.review_id)?;
    let last: Vec<_> = state.comments.last().map(format_comment).into_iter().collect();
    Ok(out.write_all(format_pairs(&last).as_bytes())?)
}

pub(crate) fn format_comment(
    ReviewComment { text, author_id, author_name, commented_at }: &ReviewComment,
) -> (&'static str, String) {
    let by = format_user(author_id, author_name.as_deref());
    ("comment", format!("by {by} at {commented_at}: {text}"))
}

pub(crate) fn format_dismissal(
    DismissalRecord { reason, verifier_id, verifier_name, dismissed_at }: &DismissalRecord,
) -> [(&'static str, String); 2] {
    [
        ("dismissed", format!("by {} at {dismissed_at}", format_user(verifier_id, verifier_name.as_deref()))),
        ("reason", reason.clone()),
    ]
}

pub(crate) fn format_revocation(
    RevocationRecord { reason, verifier_id, verifier_name, revoked_at }: &RevocationRecord,
) -> [(&'static str, String); 2] {
    let by = format_user(verifier_id, verifier_name.as_deref());
    [("revoked", format!("by {by} at {revoked_at}")), ("reason", reason.clone())]
}

pub(crate) fn format_resolution(
    ResolutionRecord { resolution, verifier_id, verifier_name, resolved_at, .. }: &ResolutionRecord,
) -> Vec<(&'static str, String)> {
    let validity = std::time::Duration::from_secs(resolution.valid_for_seconds);
    let until = resolved_at.saturating_add(validity).unwrap_or(Timestamp::MAX);
    let values = resolution.values.iter().map(|(path, value)| {
        let definition = resolution.definitions.get(path).map(|definition| match definition.trim() {
            "" => " (by the axis's own definition)".to_owned(),
            definition => format!(" (defined as {definition})"),
        });
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{path} {value}{}", definition.unwrap_or_default())
    });
    let mut pairs = vec![
        ("decided", values.collect::<Vec<_>>().join(", ")),
        ("by", format!("{} at {resolved_at}", format_user(verifier_id, verifier_name.as_deref()))),
        ("reason", resolution.reason.clone()),
        ("valid until", until.to_string()),
    ];
    pairs.extend(resolution.rule.as_ref().map(|rule| ("rule", rule.to_string())));
    pairs
}
