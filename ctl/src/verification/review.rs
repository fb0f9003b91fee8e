//! `oraclectl review`.

pub(crate) mod show;

use crate::audit::log::parse_duration;
use crate::base::arguments::{AxisValueArg, collect_by_axis, id_parser, limit_parser, parse_axis_value};
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, read_pages, response_lines};
use crate::base::output::{print_error, print_json};
use crate::base::output_stream::print_note;
use domain_base::visible::{visible_json, visible_line};
use domain_ground::id::WorkflowId;
use domain_verification::event::ReviewEntry;
use domain_verification::review::{
    CommentRequest, DismissalRequest, ReviewResolution, ReviewState, RevocationRequest,
};
use hyper::Method;
use jiff::SignedDuration;
use oracled_api::base::client::{ClientError, DaemonClient};
use oracled_api::base::service::StatusReport;
use oracled_api::verdict::orders::OrderReport;
use oracled_api::verification::{ReviewEvidence, ReviewSummary};
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
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
    /// Resolve a review: the given values override all sources until they expire
    Resolve {
        /// The review
        #[arg(value_parser = id_parser())]
        review_id: String,
        /// The value of every axis of the review, such as `population=54208`
        #[arg(value_name = "AXIS=VALUE", required = true, value_parser = parse_axis_value)]
        values: Vec<AxisValueArg>,
        /// The definition of a value, if the sources have different ones: `population=without Kosovo`, or `population=`
        /// for the axis's own definition
        #[arg(long = "definition", value_name = "AXIS=TEXT", value_parser = parse_axis_value)]
        definitions: Vec<AxisValueArg>,
        /// Allow a value that no source and no claim has
        #[arg(long)]
        own_value: bool,
        /// The reason
        #[arg(long)]
        reason: String,
        /// Validity of the resolution, such as 90d, 12h, 30m
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        valid_for: SignedDuration,
    },
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
                    Ok(writeln!(out, "{}", show::format_queue(&queue))?)
                }
            }
            ReviewAction::Show { review_id } => {
                let state = read_review(options, review_id).await?;
                if options.json {
                    return print_json(out, &state);
                }
                show::show_review(out, &state, &read_evidence(options, review_id).await?)
            }
            ReviewAction::Resolve { review_id, values, definitions, own_value, reason, valid_for } => {
                let values = collect_by_axis(values)?;
                let given = collect_by_axis(definitions)?;
                let resolution = ReviewResolution {
                    definitions: complete_definitions(options, review_id, &values, given).await?,
                    values,
                    own_value: *own_value,
                    reason: reason.clone(),
                    // the daemon rejects a validity out of range, with the allowed range
                    valid_for_seconds: u64::try_from(valid_for.as_secs()).unwrap_or(0),
                };
                // an error of this note must not prevent the decision
                if let Ok(evidence) = read_evidence(options, review_id).await {
                    for line in show::changed_lines(&evidence) {
                        print_note(&line);
                    }
                }
                let state = post(options, review_id, "resolve", &resolution).await?;
                if options.json { print_json(out, &state) } else { show::show_resolved(out, &state) }
            }
            ReviewAction::Revoke { review_id, reason } => {
                let revocation = RevocationRequest { reason: reason.clone() };
                let state = post(options, review_id, "revoke", &revocation).await?;
                if options.json { print_json(out, &state) } else { show::show_revoked(out, &state) }
            }
            ReviewAction::Comment { review_id, text } => {
                let comment = CommentRequest { text: text.clone() };
                let state = post(options, review_id, "comments", &comment).await?;
                if options.json { print_json(out, &state) } else { show::show_commented(out, &state) }
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
            Ok(state) => show::show_dismissed(out, &state)?,
            Err(error) => {
                print_error(&error, options.json, out);
                first.get_or_insert(error);
            }
        }
    }
    first.map_or(Ok(()), |error| Err(CtlError::Printed(Box::new(error))))
}

pub(crate) async fn read_review(options: &GlobalOptions, review_id: &str) -> Result<ReviewState, CtlError> {
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

/// The definitions of `values`: the given ones, else the only definition with this value.
async fn complete_definitions(
    options: &GlobalOptions,
    review_id: &str,
    values: &BTreeMap<String, Json>,
    given: BTreeMap<String, Json>,
) -> Result<BTreeMap<String, String>, CtlError> {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let mut definitions: BTreeMap<_, _> =
        given.iter().map(|(axis, definition)| (axis.clone(), text(definition))).collect();
    let state = read_review(options, review_id).await?;
    for (axis, value) in values.iter().filter(|(axis, _)| state.review.is_definition_required(axis)) {
        if definitions.contains_key(axis) {
            continue;
        }
        if let Some(only) = state.review.only_definition_of(axis, &text(value)) {
            definitions.insert(axis.clone(), only.to_owned());
        }
    }
    Ok(definitions)
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
            writeln!(out, "{}", visible_line(&show::format_line(&listed)))?;
        }
        out.flush()?;
    }
    Ok(())
}
