//! The metrics of webhooks.

use super::mail::{OutboxLabels, OutboxOutcome};
use super::{MetricLabelValue, init_counters, pairs};
use oracled_domain::verdict::webhook::WebhookType;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use strum::VariantArray;

/// The labels of an attempt to send a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WebhookLabels {
    kind: MetricLabelValue,
    outcome: MetricLabelValue,
}

impl WebhookLabels {
    const fn new(kind: WebhookType, outcome: OutboxOutcome) -> Self {
        Self { kind: MetricLabelValue(kind.into_str()), outcome: MetricLabelValue(outcome.into_str()) }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct WebhookMetrics {
    webhooks: Family<WebhookLabels, Counter>,
    depth: Family<OutboxLabels, Gauge>,
}

impl Default for WebhookMetrics {
    fn default() -> Self {
        let kinds = pairs(WebhookType::VARIANTS, OutboxOutcome::VARIANTS);
        Self {
            webhooks: init_counters(kinds.map(|(kind, outcome)| WebhookLabels::new(kind, outcome))),
            depth: Family::default(),
        }
    }
}

impl WebhookMetrics {
    /// Counts an attempt to send a webhook of `kind`.
    pub(crate) fn count_attempt(&self, kind: WebhookType, outcome: OutboxOutcome) {
        self.webhooks.get_or_create(&WebhookLabels::new(kind, outcome)).inc();
    }

    /// Sets the numbers of queued webhooks and dead letters.
    pub(crate) fn set_outbox_depth(&self, queued: u64, dead: u64) {
        for (state, webhooks) in [("queued", queued), ("dead", dead)] {
            let depth = self.depth.get_or_create(&OutboxLabels::new(state));
            depth.set(i64::try_from(webhooks).unwrap_or(i64::MAX));
        }
    }

    /// Adds the metrics to `registry`.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "webhooks",
            "attempts to send a webhook, by kind and outcome",
            self.webhooks.clone(),
        );
        registry.register(
            "webhook_outbox_depth",
            "webhooks to be sent, and dead letters",
            self.depth.clone(),
        );
    }
}
