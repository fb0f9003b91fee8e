//! The metrics of the outbox.

use crate::platform::metrics::{AddMetric, MetricLabelValue, init_counters, pairs};
use jiff::SignedDuration;
use oracled_domain::verdict::mail::MailKind;
use oracled_domain::verdict::webhook::WebhookType;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use strum::{IntoStaticStr, VariantArray};

/// The outcome of an attempt to send a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum OutboxOutcome {
    /// The receiver has accepted the message.
    Sent,
    /// The attempt failed; the message will be retried.
    Failed,
    /// The attempt failed, and the message became a dead letter.
    Dead,
}

/// The labels of an attempt to send a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    kind: MetricLabelValue,
    outcome: MetricLabelValue,
}

impl AttemptLabels {
    const fn new(kind: &'static str, outcome: OutboxOutcome) -> Self {
        Self { kind: MetricLabelValue(kind), outcome: MetricLabelValue(outcome.into_str()) }
    }

    /// All labels of messages of these kinds.
    fn all<K: Copy + Into<&'static str>>(kinds: &[K]) -> impl Iterator<Item = Self> {
        pairs(kinds, OutboxOutcome::VARIANTS).map(|(kind, outcome)| Self::new(kind.into(), outcome))
    }
}

/// The label of messages in the outbox: `queued` to be sent, or `dead`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: MetricLabelValue,
}

/// The metrics of mails or of webhooks.
#[derive(Debug, Clone)]
pub(crate) struct OutboxMetrics {
    attempts: Family<AttemptLabels, Counter>,
    depth: Family<StateLabels, Gauge>,
    /// The age of the oldest queued message in seconds.
    oldest_age: Gauge,
}

impl OutboxMetrics {
    pub(crate) fn register_for_mails(registry: &mut Registry) -> Self {
        Self {
            attempts: registry.add(
                "mails",
                "attempts to send a mail, by kind and outcome",
                init_counters(AttemptLabels::all(MailKind::VARIANTS)),
            ),
            depth: registry.add("outbox_depth", "mails to be sent, and dead letters", Family::default()),
            oldest_age: registry.add_seconds(
                "outbox_oldest_age",
                "age of the oldest queued mail, updated at least once a minute",
                Gauge::default(),
            ),
        }
    }

    /// The age of the oldest webhook is not a metric.
    pub(crate) fn register_for_webhooks(registry: &mut Registry) -> Self {
        Self {
            attempts: registry.add(
                "webhooks",
                "attempts to send a webhook, by kind and outcome",
                init_counters(AttemptLabels::all(WebhookType::VARIANTS)),
            ),
            depth: registry.add(
                "webhook_outbox_depth",
                "webhooks to be sent, and dead letters",
                Family::default(),
            ),
            oldest_age: Gauge::default(),
        }
    }

    /// Counts an attempt to send a message of `kind`.
    pub(super) fn count_attempt(&self, kind: &'static str, outcome: OutboxOutcome) {
        self.attempts.get_or_create(&AttemptLabels::new(kind, outcome)).inc();
    }

    /// Sets the numbers of queued messages and dead letters, and the age of the oldest queued message.
    pub(super) fn set_depth(&self, queued: u64, dead: u64, oldest_age: SignedDuration) {
        for (state, messages) in [("queued", queued), ("dead", dead)] {
            let depth = self.depth.get_or_create(&StateLabels { state: MetricLabelValue(state) });
            depth.set(i64::try_from(messages).unwrap_or(i64::MAX));
        }
        self.oldest_age.set(oldest_age.as_secs().max(0));
    }
}
