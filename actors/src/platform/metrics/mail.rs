//! The metrics of mail.

use super::{MetricLabelValue, init_counters, pairs};
use jiff::SignedDuration;
use oracled_domain::verdict::mail::MailKind;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use strum::{IntoStaticStr, VariantArray};

/// The outcome of an attempt to send a mail or a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum OutboxOutcome {
    /// The receiver has accepted the message.
    Sent,
    /// The attempt failed; the message will be retried.
    Failed,
    /// The attempt failed, and the message became a dead letter.
    Dead,
}

/// The labels of an attempt to send a mail.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct MailLabels {
    kind: MetricLabelValue,
    outcome: MetricLabelValue,
}

impl MailLabels {
    const fn new(kind: MailKind, outcome: OutboxOutcome) -> Self {
        Self { kind: MetricLabelValue(kind.into_str()), outcome: MetricLabelValue(outcome.into_str()) }
    }
}

/// The label of messages in the outbox: `queued` to be sent, or `dead`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutboxLabels {
    state: MetricLabelValue,
}

impl OutboxLabels {
    pub(super) const fn new(state: &'static str) -> Self {
        Self { state: MetricLabelValue(state) }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct MailMetrics {
    mails: Family<MailLabels, Counter>,
    depth: Family<OutboxLabels, Gauge>,
    oldest_age: Gauge,
}

impl Default for MailMetrics {
    fn default() -> Self {
        let kinds = pairs(MailKind::VARIANTS, OutboxOutcome::VARIANTS);
        Self {
            mails: init_counters(kinds.map(|(kind, outcome)| MailLabels::new(kind, outcome))),
            depth: Family::default(),
            oldest_age: Gauge::default(),
        }
    }
}

impl MailMetrics {
    /// Counts an attempt to send a mail of `kind`.
    pub(crate) fn count_mail_attempt(&self, kind: MailKind, outcome: OutboxOutcome) {
        self.mails.get_or_create(&MailLabels::new(kind, outcome)).inc();
    }

    /// Sets the numbers of queued mails and dead letters, and the age of the oldest queued mail.
    pub(crate) fn set_outbox_depth(&self, queued: u64, dead: u64, oldest_age: SignedDuration) {
        for (state, mails) in [("queued", queued), ("dead", dead)] {
            self.depth.get_or_create(&OutboxLabels::new(state)).set(i64::try_from(mails).unwrap_or(i64::MAX));
        }
        self.oldest_age.set(oldest_age.as_secs().max(0));
    }

    /// Adds the metrics to `registry`.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("mails", "attempts to send a mail, by kind and outcome", self.mails.clone());
        registry.register("outbox_depth", "mails to be sent, and dead letters", self.depth.clone());
        registry.register_with_unit(
            "outbox_oldest_age",
            "age of the oldest queued mail, updated at least once a minute",
            Unit::Seconds,
            self.oldest_age.clone(),
        );
    }
}
