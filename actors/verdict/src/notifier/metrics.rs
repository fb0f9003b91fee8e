//! The metrics of the outbox.

use actors_platform::metrics::{AddMetric, MetricLabelValue, init_counters, pairs};
use domain_base::series::{MetricSeries, SeriesMeasure, SeriesUnit};
use domain_verdict::mail::MailKind;
use domain_verdict::outbox::{MessageChannel, MessageEntry, MessageState, MessagesReport, OutboxReport};
use domain_verdict::webhook::WebhookType;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// The series of the outbox.
pub const SERIES: &[MetricSeries] = &[
    MetricSeries {
        name: "mail_age",
        title: "Age of the oldest mail that waits",
        unit: SeriesUnit::Seconds,
        metric: "outbox_oldest_age_seconds",
        filter: |_| true,
        by: None,
        measure: SeriesMeasure::Highest,
    },
    MetricSeries {
        name: "mail_attempts",
        title: "Attempts to send a mail",
        unit: SeriesUnit::PerMinute,
        metric: "mails_total",
        filter: |_| true,
        by: Some("outcome"),
        measure: SeriesMeasure::RatePerMinute,
    },
    MetricSeries {
        name: "webhook_attempts",
        title: "Attempts to send a webhook",
        unit: SeriesUnit::PerMinute,
        metric: "webhooks_total",
        filter: |_| true,
        by: Some("outcome"),
        measure: SeriesMeasure::RatePerMinute,
    },
];

/// The metrics of the outbox.
#[derive(Debug, Clone)]
pub struct OutboxMetrics {
    mails: ChannelMetrics,
    webhooks: ChannelMetrics,
    counts: Arc<Mutex<OutboxCounts>>,
}

/// The metrics of mails or of webhooks.
#[derive(Debug, Clone)]
struct ChannelMetrics {
    attempts: Family<AttemptLabels, Counter>,
    depth: Family<StateLabels, Gauge>,
    /// The age of the oldest queued message in seconds.
    oldest_age: Gauge,
}

/// The messages that the last survey found.
#[derive(Debug, Clone, Default)]
pub(super) struct OutboxCounts {
    mails: ChannelCounts,
    webhooks: ChannelCounts,
    /// How often the number of dead letters changed. A survey during which one changed may have counted it before or after.
    dead_changes: u64,
    /// Whether a survey has counted them.
    is_known: bool,
}

#[derive(Debug, Clone, Default)]
struct ChannelCounts {
    queued: usize,
    dead: i64,
    /// When the oldest message that is not a dead letter was queued.
    oldest: Option<Timestamp>,
}

impl OutboxCounts {
    const fn of(&mut self, channel: MessageChannel) -> &mut ChannelCounts {
        match channel {
            MessageChannel::Mail => &mut self.mails,
            MessageChannel::Webhook => &mut self.webhooks,
        }
    }

    /// Counts a message that a survey found.
    pub(super) fn add(&mut self, state: &MessageState, is_queued: bool) {
        let counts = self.of(state.entry().message_id.channel());
        if !is_queued {
            counts.dead += 1;
            return;
        }
        let queued_at = state.tries().queued_at;
        counts.queued += 1;
        counts.oldest = Some(counts.oldest.map_or(queued_at, |oldest| oldest.min(queued_at)));
    }
}

impl OutboxMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let mails = ChannelMetrics {
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
        };
        let webhooks = ChannelMetrics {
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
            oldest_age: registry.add_seconds(
                "webhook_outbox_oldest_age",
                "age of the oldest queued webhook, updated at least once a minute",
                Gauge::default(),
            ),
        };
        Self { mails, webhooks, counts: Arc::default() }
    }

    /// The dead letters, and since when the oldest other message waits; `None` before the first survey.
    #[must_use]
    pub fn report(&self) -> Option<OutboxReport> {
        let counts = self.counts().clone();
        let report = |channel: ChannelCounts| MessagesReport {
            dead: u64::try_from(channel.dead).unwrap_or(0),
            waiting_since: channel.oldest,
        };
        let OutboxCounts { mails, webhooks, is_known, .. } = counts;
        is_known.then(|| OutboxReport { mails: report(mails), webhooks: report(webhooks) })
    }

    fn counts(&self) -> MutexGuard<'_, OutboxCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    const fn of(&self, channel: MessageChannel) -> &ChannelMetrics {
        match channel {
            MessageChannel::Mail => &self.mails,
            MessageChannel::Webhook => &self.webhooks,
        }
    }

    /// Counts an attempt to send a message.
    pub(super) fn count_attempt(&self, message: &MessageEntry, outcome: OutboxOutcome) {
        let labels = AttemptLabels::new(message.kind.into_str(), outcome);
        self.of(message.message_id.channel()).attempts.get_or_create(&labels).inc();
    }

    /// Counts more dead letters, or fewer.
    pub(super) fn add_dead(&self, channel: MessageChannel, number: i64) {
        let mut counts = self.counts();
        counts.dead_changes += 1;
        counts.of(channel).dead += number;
    }

    /// The counts of a survey that has found nothing yet.
    pub(super) fn begin_survey(&self) -> OutboxCounts {
        OutboxCounts { dead_changes: self.counts().dead_changes, ..OutboxCounts::default() }
    }

    /// Sets the counts to those of a survey. Returns whether they are right.
    pub(super) fn end_survey(&self, survey: OutboxCounts) -> bool {
        let mut counts = self.counts();
        let dead_changes = counts.dead_changes;
        let is_current = survey.dead_changes == dead_changes;
        *counts = OutboxCounts { dead_changes, is_known: true, ..survey };
        is_current
    }

    /// Sets the gauges of a channel. `queued` is the number of its messages to be sent; `None` if it is only known by the last survey.
    pub(super) fn publish(&self, channel: MessageChannel, queued: Option<usize>, now: Timestamp) {
        let mut counts = self.counts();
        if !counts.is_known {
            return;
        }
        let ChannelCounts { queued: surveyed, dead, oldest } = counts.of(channel);
        let queued = queued.unwrap_or(*surveyed);
        if queued == 0 {
            *oldest = None;
        } else {
            // it came after the last survey
            oldest.get_or_insert(now);
        }
        let age = oldest.map(|oldest| now.duration_since(oldest)).unwrap_or_default();
        let metrics = self.of(channel);
        let queued = i64::try_from(queued).unwrap_or(i64::MAX);
        for (state, messages) in [("queued", queued), ("dead", (*dead).max(0))] {
            metrics.depth.get_or_create(&StateLabels { state: MetricLabelValue(state) }).set(messages);
        }
        metrics.oldest_age.set(age.as_secs().max(0));
    }
}
