//! `oraclectl webhook`.

use super::outbox::{message_path, read_page, requeue, requeue_all_dead};
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, limit_parser};
use crate::base::output::{format_table, print_json, warn_of_omitted_rows};
use crate::base::program::examples;
use domain_base::page::PageLimit;
use domain_base::session_id::ApplicationName;
use domain_verdict::webhook::{WebhookId, WebhookState};
use domain_verdict::wire::{WebhookTestRequest, WebhookTestResponse};
use hyper::Method;
use jiff::Timestamp;
use std::io::{self, Write};

/// Test an endpoint of webhooks, or show, requeue or drop webhooks in the outbox
#[derive(Debug, clap::Args)]
pub(crate) struct WebhookArgs {
    #[command(subcommand)]
    action: WebhookAction,
}

#[derive(Debug, clap::Subcommand)]
enum WebhookAction {
    /// Send a test event at once, and show the status and the latency
    #[command(after_help = examples(&["oraclectl webhook test --application shop", "oraclectl webhook test --operator"]))]
    Test {
        /// The application whose endpoint is tested [default: default]
        #[arg(long, value_name = "NAME", conflicts_with = "operator")]
        application: Option<ApplicationName>,
        /// Test the endpoint of operators
        #[arg(long)]
        operator: bool,
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

impl WebhookArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.action {
            WebhookAction::Test { application, operator } => {
                let application = (!operator).then(|| application.clone().unwrap_or_default());
                test(options, out, application).await
            }
            WebhookAction::List { dead, after, limit } => {
                let after = after.as_ref().map(WebhookId::as_str);
                let page = read_page::<WebhookState>(options, WEBHOOKS, after, *limit, *dead).await?;
                if options.json {
                    return print_json(out, &page);
                }
                if let Some(next) = &page.next {
                    warn_of_omitted_rows(Some(next));
                }
                Ok(writeln!(out, "{}", format_webhooks(&page.items, Timestamp::now()))?)
            }
            WebhookAction::Requeue { webhook_id: Some(webhook_id), .. } => {
                let webhook = requeue(options, WEBHOOKS, webhook_id.as_str()).await?;
                print_webhook(options, out, &webhook, "is queued again")
            }
            WebhookAction::Requeue { webhook_id: None, .. } => {
                requeue_all_dead(options, out, WEBHOOKS, |webhook: &WebhookState| webhook.webhook_id.as_str())
                    .await
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
    application: Option<ApplicationName>,
) -> Result<(), CtlError> {
    let body = serde_json::to_vec(&WebhookTestRequest { application }).map_err(io::Error::from)?;
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

fn format_webhooks(webhooks: &[WebhookState], now: Timestamp) -> String {
    if webhooks.is_empty() {
        return "no webhooks".into();
    }
    let rows = webhooks.iter().map(|webhook| {
        [
            webhook.webhook_id.to_string(),
            webhook.kind.into_str().to_owned(),
            webhook.application.as_ref().map_or_else(|| "operators".into(), ToString::to_string),
            format!("{} s", now.duration_since(webhook.tries.queued_at).as_secs().max(0)),
            webhook.tries.attempts.to_string(),
            webhook.tries.next_attempt_at.map_or_else(|| "dead".into(), |at| at.to_string()),
            webhook.tries.last_error.clone().unwrap_or_else(|| "none".into()),
        ]
    });
    format_table(["id", "kind", "to", "age", "attempts", "next attempt", "last error"], rows.collect())
}
