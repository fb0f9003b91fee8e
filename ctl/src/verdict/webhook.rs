//! `oraclectl webhook`.

use super::outbox::{message_path, read_page, requeue, requeue_all_dead};
use crate::audit::log::{SinceTime, read_all_lines};
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, limit_parser};
use crate::base::output::{format_table, print_json, print_note, warn_of_omitted_rows};
use crate::base::program::examples;
use domain_base::event::{Event, read_open};
use domain_base::page::PageLimit;
use domain_base::session_id::ApplicationName;
use domain_base::upstream_text::UpstreamText;
use domain_ground::id::EndpointId;
use domain_verdict::event::{MessageFailed, MessageSent};
use domain_verdict::outbox::{MessageId, MessageKind};
use domain_verdict::webhook::{WebhookAnswer, WebhookId, WebhookOutage, WebhookReceiver, WebhookState};
use domain_verdict::wire::{EndpointReport, EndpointRequest, WebhookTestResponse};
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use oracled_api::client::DaemonClient;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Show, test or resume endpoints of webhooks, and show, requeue or drop webhooks in the outbox
#[derive(Debug, clap::Args)]
pub(crate) struct WebhookArgs {
    #[command(subcommand)]
    action: WebhookAction,
}

#[derive(Debug, clap::Subcommand)]
enum WebhookAction {
    /// Show the endpoints with their events, queued webhooks and outages
    Endpoints,
    /// Show the attempts to send webhooks, the newest last, with the answers of their endpoints
    #[command(after_help = examples(&["oraclectl webhook log --application shop --failed --since 2d"]))]
    Log {
        #[command(flatten)]
        endpoint: EndpointArgs,
        /// Only attempts that failed
        #[arg(long)]
        failed: bool,
        /// Only attempts since a time (2026-11-20T10:00:00Z) or a day (in UTC), or in the last period (90s, 15m, 2h, 7d) [default: 1d]
        #[arg(long, value_name = "TIME")]
        since: Option<SinceTime>,
        /// Maximum number of attempts, the newest ones [default: 100]
        #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(usize::MAX))]
        limit: Option<usize>,
    },
    /// Resume a paused endpoint, so that its webhooks are sent again
    #[command(after_help = examples(&["oraclectl webhook resume --application shop", "oraclectl webhook resume --endpoint crm"]))]
    Resume {
        #[command(flatten)]
        endpoint: EndpointArgs,
    },
    /// Send a test event at once, and show the status and the latency
    #[command(after_help = examples(&["oraclectl webhook test --application shop", "oraclectl webhook test --operator"]))]
    Test {
        #[command(flatten)]
        endpoint: EndpointArgs,
    },
    /// Show queued webhooks and dead letters
    #[command(after_help = examples(&["oraclectl webhook list --dead"]))]
    List {
        /// Only dead letters
        #[arg(long)]
        dead: bool,
        /// Only webhooks after the webhook with this id
        #[arg(long, value_name = "ID")]
        after: Option<WebhookId>,
        /// Maximum number of webhooks, up to 1000 [default: 100]
        #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(<PageLimit>::MAX))]
        limit: Option<usize>,
    },
    /// Retry a webhook as if it had just been queued
    #[command(after_help = examples(&["oraclectl webhook requeue --all-dead"]))]
    Requeue {
        /// Id of the webhook
        #[arg(required_unless_present = "all_dead", conflicts_with = "all_dead")]
        webhook_id: Option<WebhookId>,
        /// All dead letters
        #[arg(long)]
        all_dead: bool,
    },
    /// Remove a webhook without sending it
    Drop {
        /// Id of the webhook
        webhook_id: WebhookId,
    },
}

/// The choice of an endpoint.
#[derive(Debug, clap::Args)]
struct EndpointArgs {
    /// The application that receives the webhooks [default: that of --endpoint, else default; all for `log`]
    #[arg(long, value_name = "NAME", conflicts_with = "operator")]
    application: Option<ApplicationName>,
    /// The endpoints of operators, in place of those of an application
    #[arg(long)]
    operator: bool,
    /// The id of a further endpoint in `webhooks.endpoints` [default: the first endpoint, and all for `log`]
    #[arg(long, value_name = "ID")]
    endpoint: Option<EndpointId>,
}

impl EndpointArgs {
    /// The endpoint that the arguments name. The id of a further endpoint is enough, because no other has it.
    async fn find(&self, options: &GlobalOptions) -> Result<EndpointRequest, CtlError> {
        let application = if self.endpoint.is_some() && self.application.is_none() && !self.operator {
            self.find_configured(options).await?.application
        } else {
            (!self.operator).then(|| self.application.clone().unwrap_or_default())
        };
        Ok(EndpointRequest { application, endpoint: self.endpoint.clone() })
    }

    /// The first configured endpoint that the arguments name.
    async fn find_configured(&self, options: &GlobalOptions) -> Result<WebhookReceiver, CtlError> {
        let mut receivers = read_endpoints(options).await?.into_iter().map(|endpoint| endpoint.receiver);
        receivers.find(|receiver| self.includes(receiver)).ok_or_else(|| {
            let id = self.endpoint.as_ref().map(|id| format!(" `{id}`")).unwrap_or_default();
            let of = match &self.application {
                Some(name) => format!(" of application `{name}`"),
                None if self.operator => " of operators".to_owned(),
                None => String::new(),
            };
            let message = format!(
                "no endpoint{id} of webhooks{of} is configured; `oraclectl webhook endpoints` lists the endpoints"
            );
            CtlError::Verb { message, exit_code: 1, was_printed: false }
        })
    }

    /// Whether the arguments name this endpoint.
    fn includes(&self, receiver: &WebhookReceiver) -> bool {
        let is_to_receiver = match &self.application {
            Some(name) => receiver.application.as_ref() == Some(name),
            None => !self.operator || receiver.application.is_none(),
        };
        is_to_receiver && self.endpoint.as_ref().is_none_or(|id| receiver.endpoint.as_ref() == Some(id))
    }
}

impl WebhookArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.action {
            WebhookAction::Endpoints => list_endpoints(options, out).await,
            WebhookAction::Log { endpoint, failed, since, limit } => {
                let mut attempts = read_attempts(options, *failed, *since).await?;
                attempts.retain(|(_, attempt)| endpoint.includes(&attempt.receiver));
                // an endpoint that was removed has attempts in the log
                if attempts.is_empty() && (endpoint.application.is_some() || endpoint.endpoint.is_some()) {
                    endpoint.find_configured(options).await?;
                }
                let omitted = attempts.len().saturating_sub(limit.unwrap_or(ATTEMPTS_SHOWN));
                print_attempts(options, out, attempts.get(omitted..).unwrap_or_default())
            }
            WebhookAction::Resume { endpoint } => resume(options, out, &endpoint.find(options).await?).await,
            WebhookAction::Test { endpoint } => test(options, out, &endpoint.find(options).await?).await,
            WebhookAction::List { dead, after, limit } => {
                let after = after.as_ref().map(WebhookId::as_str);
                let page = read_page::<WebhookState>(options, WEBHOOKS, after, *limit, *dead).await?;
                if options.json {
                    return print_json(out, &page);
                }
                if let Some(next) = &page.next {
                    warn_of_omitted_rows(Some(next));
                }
                let paused = read_paused(options).await?;
                Ok(writeln!(out, "{}", format_webhooks(&page.items, &paused, Timestamp::now()))?)
            }
            WebhookAction::Requeue { webhook_id: Some(webhook_id), .. } => {
                let webhook: WebhookState = requeue(options, WEBHOOKS, webhook_id.as_str()).await?;
                print_webhook(options, out, &webhook, "is queued again")?;
                note_paused(options, |receiver| *receiver == webhook.receiver()).await
            }
            WebhookAction::Requeue { webhook_id: None, .. } => {
                let id: fn(&WebhookState) -> &str = |webhook| webhook.webhook_id.as_str();
                requeue_all_dead(options, out, WEBHOOKS, id).await?;
                note_paused(options, |_| true).await
            }
            WebhookAction::Drop { webhook_id } => {
                let path = message_path(WEBHOOKS, webhook_id.as_str());
                let webhook = options.call_control(Method::DELETE, &path, None).await?.json()?;
                print_webhook(options, out, &webhook, "is removed unsent")
            }
        }
    }
}

/// The folder of webhooks on the control socket.
const WEBHOOKS: &str = "/v1/webhooks";

async fn test(
    options: &GlobalOptions,
    out: &mut dyn Write,
    endpoint: &EndpointRequest,
) -> Result<(), CtlError> {
    let body = serde_json::to_vec(endpoint).map_err(io::Error::from)?;
    let answer = options.call_control(Method::POST, "/v1/webhooks/test", Some(body.into())).await?;
    let tested: WebhookTestResponse = answer.json()?;
    if options.json {
        print_json(out, &tested)?;
    } else if let (Some(status), Some(latency_ms)) = (tested.status, tested.latency_ms) {
        writeln!(out, "test webhook {}: status {status} after {latency_ms} ms", tested.webhook_id)?;
    } else {
        let error = tested.error.as_deref().unwrap_or("no answer");
        writeln!(out, "the test failed: {error}")?;
    }
    if tested.error.is_some() { Err(CtlError::ProbeFailed) } else { Ok(()) }
}

async fn read_endpoints(options: &GlobalOptions) -> Result<Vec<EndpointReport>, CtlError> {
    Ok(options.call_control(Method::GET, "/v1/webhooks/endpoints", None).await?.json()?)
}

/// The endpoints to which nothing is sent until they are resumed.
async fn read_paused(options: &GlobalOptions) -> Result<BTreeSet<WebhookReceiver>, CtlError> {
    let endpoints = read_endpoints(options).await?.into_iter();
    let paused = endpoints.filter(|endpoint| endpoint.paused_at.is_some());
    Ok(paused.map(|endpoint| endpoint.receiver).collect())
}

/// Prints on standard error which of these endpoints are paused.
async fn note_paused(
    options: &GlobalOptions,
    is_meant: impl Fn(&WebhookReceiver) -> bool,
) -> Result<(), CtlError> {
    for receiver in read_paused(options).await?.iter().filter(|receiver| is_meant(receiver)) {
        print_note(&format!(
            "oraclectl: webhooks to {} are paused; its webhooks wait until `{}`",
            receiver.describe(),
            resume_command(receiver)
        ));
    }
    Ok(())
}

fn resume_command(WebhookReceiver { application, endpoint }: &WebhookReceiver) -> String {
    let receiver = match application {
        Some(name) => format!("--application {name}"),
        None => "--operator".to_owned(),
    };
    let endpoint = endpoint.as_ref().map(|id| format!(" --endpoint {id}")).unwrap_or_default();
    format!("oraclectl webhook resume {receiver}{endpoint}")
}

async fn list_endpoints(options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let endpoints = read_endpoints(options).await?;
    if options.json {
        return print_json(out, &endpoints);
    }
    if endpoints.is_empty() {
        return Ok(writeln!(out, "no endpoint of webhooks is configured")?);
    }
    let rows = endpoints.iter().map(|endpoint| {
        let state = match (endpoint.paused_at, endpoint.failing_since) {
            (Some(at), _) => format!("paused since {at:.0}"),
            (None, Some(since)) => format!("failing since {since:.0}"),
            (None, None) => "sending".to_owned(),
        };
        let events: Vec<_> = endpoint.events.iter().map(|event| event.into_str()).collect();
        let counts = [endpoint.waiting, endpoint.dead].map(|count| count.to_string());
        let [waiting, dead] = counts;
        [endpoint.receiver.describe(), state, waiting, dead, events.join(" ")]
    });
    Ok(writeln!(out, "{}", format_table(["to", "state", "waiting", "dead", "events"], rows.collect()))?)
}

async fn resume(
    options: &GlobalOptions,
    out: &mut dyn Write,
    endpoint: &EndpointRequest,
) -> Result<(), CtlError> {
    let body = serde_json::to_vec(endpoint).map_err(io::Error::from)?;
    let answer = options.call_control(Method::POST, "/v1/webhooks/resume", Some(body.into())).await?;
    let ended: WebhookOutage = answer.json()?;
    if options.json {
        return print_json(out, &ended);
    }
    Ok(writeln!(out, "webhooks to {} are sent again", ended.receiver.describe())?)
}

/// The number of attempts that are shown if no other is given.
const ATTEMPTS_SHOWN: usize = 100;
/// The time for which attempts are shown if no other is given.
const ATTEMPTS_OF: SignedDuration = SignedDuration::from_hours(24);

/// An attempt to send a message, in the log.
#[derive(Debug, Deserialize)]
pub(crate) struct LoggedAttempt {
    /// The number of its entry.
    pub(crate) seq: u64,
    event: String,
    pub(crate) timestamp: Timestamp,
    /// `None` if it was erased: that of a mail has the id of its session.
    #[serde(default, deserialize_with = "read_open")]
    message_id: Option<MessageId>,
    pub(crate) kind: MessageKind,
    #[serde(flatten)]
    pub(crate) receiver: WebhookReceiver,
    pub(crate) attempt: u32,
    #[serde(flatten)]
    pub(crate) answer: Option<WebhookAnswer>,
    /// `None` if the attempt succeeded, or if the cause was erased.
    #[serde(default, deserialize_with = "read_open")]
    pub(crate) cause: Option<String>,
}

impl LoggedAttempt {
    pub(crate) fn is_sent(&self) -> bool {
        self.event == MessageSent::NAME
    }
}

/// The attempts to send webhooks in the order of the log, each with its line.
async fn read_attempts(
    options: &GlobalOptions,
    only_failed: bool,
    since: Option<SinceTime>,
) -> Result<Vec<(String, LoggedAttempt)>, CtlError> {
    let mut daemon = DaemonClient::connect(&options.control_path()?).await?;
    let since = since.unwrap_or(SinceTime::Ago(ATTEMPTS_OF)).to_timestamp();
    let events: &[&str] =
        if only_failed { &[MessageFailed::NAME] } else { &[MessageFailed::NAME, MessageSent::NAME] };
    let query = format!("event={}&since={since}", events.join(","));
    let mut attempts = Vec::new();
    for line in read_all_lines(&mut daemon, &query, 0).await? {
        let attempt: LoggedAttempt = serde_json::from_str(&line).map_err(io::Error::from)?;
        if matches!(attempt.kind, MessageKind::Webhook(_)) {
            attempts.push((line, attempt));
        }
    }
    Ok(attempts)
}

fn print_attempts(
    options: &GlobalOptions,
    out: &mut dyn Write,
    attempts: &[(String, LoggedAttempt)],
) -> Result<(), CtlError> {
    if options.json {
        return attempts.iter().try_for_each(|(line, _)| Ok(writeln!(out, "{line}")?));
    }
    if attempts.is_empty() {
        return Ok(writeln!(out, "no attempts")?);
    }
    let rows = attempts.iter().map(|(_, attempt)| {
        [
            format!("{:.3}", attempt.timestamp),
            attempt.receiver.describe(),
            attempt.kind.into_str().to_owned(),
            attempt.message_id.as_ref().map_or_else(|| "erased".into(), ToString::to_string),
            attempt.attempt.to_string(),
            attempt.answer.map_or_else(|| "none".into(), |answer| answer.status.to_string()),
            attempt.answer.map_or_else(String::new, |answer| format!("{} ms", answer.latency_ms)),
            match &attempt.cause {
                Some(cause) => cause.clone(),
                None if attempt.is_sent() => "sent".into(),
                None => "failed; the cause was erased".into(),
            },
        ]
    });
    let heads = ["at", "to", "kind", "id", "attempt", "status", "latency", "result"];
    Ok(writeln!(out, "{}", format_table(heads, rows.collect()))?)
}

fn print_webhook(
    options: &GlobalOptions,
    out: &mut dyn Write,
    webhook: &WebhookState,
    what: &str,
) -> Result<(), CtlError> {
    if options.json {
        return print_json(out, webhook);
    }
    Ok(writeln!(out, "webhook {} {what}", webhook.webhook_id)?)
}

fn format_webhooks(webhooks: &[WebhookState], paused: &BTreeSet<WebhookReceiver>, now: Timestamp) -> String {
    if webhooks.is_empty() {
        return "no webhooks".into();
    }
    let rows = webhooks.iter().map(|webhook| {
        let next_attempt = match webhook.tries.next_attempt_at {
            None => "dead".to_owned(),
            Some(_) if paused.contains(&webhook.receiver()) => "paused: see `webhook resume`".to_owned(),
            Some(at) => at.to_string(),
        };
        [
            webhook.webhook_id.to_string(),
            webhook.kind.into_str().to_owned(),
            webhook.receiver().describe(),
            format!("{} s", now.duration_since(webhook.tries.queued_at).as_secs().max(0)),
            webhook.tries.attempts.to_string(),
            next_attempt,
            webhook.tries.last_error.as_ref().map_or("none", UpstreamText::reveal).to_owned(),
        ]
    });
    format_table(["id", "kind", "to", "age", "attempts", "next attempt", "last error"], rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_webhook_waits_for_a_resume_only_if_its_endpoint_is_paused() {
        let webhook: WebhookState = serde_json::from_value(serde_json::json!({
            "webhook_id": format!("msg_{}", "0".repeat(32)), "kind": "order.delivered", "application": "shop",
            "endpoint": "crm", "session_id": null, "queued_at": "2026-11-20T10:00:00Z",
            "tried_since": "2026-11-20T10:00:00Z", "next_attempt_at": "2026-11-20T10:00:00Z", "attempts": 0,
            "last_error": null,
        }))
        .expect("a webhook");
        let (receiver, now) = (webhook.receiver(), webhook.tries.queued_at);
        assert_eq!(resume_command(&receiver), "oraclectl webhook resume --application shop --endpoint crm");
        let listed =
            |paused: BTreeSet<WebhookReceiver>| format_webhooks(std::slice::from_ref(&webhook), &paused, now);
        assert!(!listed(BTreeSet::new()).contains("paused:"));
        assert!(listed(BTreeSet::from([receiver])).contains("paused:"));
    }

    #[test]
    fn attempt_is_read_if_its_id_and_its_cause_were_erased() {
        let erased = serde_json::json!({"sha256": "0".repeat(64)});
        let entry = serde_json::json!({
            "seq": 7, "event": "message_failed", "message_id": erased, "kind": "verdict", "attempt": 1, "cause": erased,
            "next_attempt_at": null, "timestamp": "2026-11-20T10:00:00Z",
        });
        let attempt: LoggedAttempt = serde_json::from_value(entry).expect("an attempt");
        assert!(attempt.message_id.is_none() && attempt.cause.is_none() && attempt.answer.is_none());
        assert!(matches!(attempt.kind, MessageKind::Mail(_)));
    }
}
