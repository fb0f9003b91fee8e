//! A verdict on its way to delivery, and its outcome: the same two values from the route to the cache and back.

use bytes::Bytes;
use oracled_domain::rules::{Check, Evaluation};
use oracled_domain::verdict::session::{Email, Mismatch};
use oracled_domain::{
    Decision, Delivery, DivergenceCheck, Event, GatePath, Generation, Payload, Query, SessionId, Tier,
};
use oracled_store::Record;
use std::sync::Arc;
use std::time::Duration;

/// A verdict that is to be judged and delivered, or made first.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The session of the verdict.
    pub session_id: SessionId,
    /// The tier that was bought.
    pub tier: Tier,
    /// The question.
    pub query: Query,
    /// The verdict; `None` until the model has made it.
    pub payload: Option<Payload>,
    /// The address to which the verdict is mailed.
    pub customer_email: Option<Email>,
    /// What the rules check the verdict against; valid. A session keeps it.
    pub check: Option<Arc<Check>>,
    /// The path on which the verdict arrived.
    pub path: GatePath,
    /// How the model made the verdict, if it did.
    pub made: Option<Made>,
}

/// How the model made a verdict.
#[derive(Debug, Clone)]
pub struct Made {
    /// The prompt and the settings.
    pub generation: Generation,
    /// The attempts to call the model.
    pub interactions: Vec<Event>,
}

impl Made {
    /// The entries that report how `made` was made.
    pub(crate) fn entries(made: Option<&Self>) -> impl Iterator<Item = Event> {
        made.into_iter().flat_map(|made| made.interactions.iter().cloned())
    }

    /// A record of these entries, and `then` after them.
    pub(crate) fn record(made: Option<&Self>, then: impl IntoIterator<Item = Event>) -> Record {
        Record { events: Self::entries(made).chain(then).collect(), ..Record::default() }
    }
}

/// The outcome of a submission. Its log entries are durable in every case.
#[derive(Debug, Clone)]
pub enum SubmissionOutcome {
    /// It was only judged, as requested.
    Checked(Decision),
    /// It passed and is delivered.
    Stored(Arc<Cached>),
    /// It passed, replaces a lost verdict, and was compared with the first one.
    Regenerated(Arc<Cached>, DivergenceCheck),
    /// The session has a verdict already, which stands.
    Replayed(Arc<Cached>),
    /// The session has another tier, query or owner.
    Mismatch(Mismatch),
    /// The crosscheck rejected it. None of it was kept.
    RejectedByCrosscheck {
        /// The decision.
        decision: Decision,
        /// The time until the session's verdict may be regenerated again; `None` unless this was a regeneration.
        retry_after: Option<Duration>,
    },
    /// It passed the crosscheck, and the rules rejected it. None of it was kept.
    RejectedByRules {
        /// The evaluation.
        evaluation: Arc<Evaluation>,
        /// As for the crosscheck.
        retry_after: Option<Duration>,
    },
}

impl SubmissionOutcome {
    /// The same; a rejection says when to try again.
    #[must_use]
    pub(crate) fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        if let Self::RejectedByCrosscheck { retry_after, .. } | Self::RejectedByRules { retry_after, .. } =
            &mut self
        {
            *retry_after = wait;
        }
        self
    }
}

/// A delivered verdict, as the document that answers for it.
#[derive(Debug)]
pub struct Cached {
    /// Its JSON.
    pub body: Bytes,
}

impl From<Delivery> for Cached {
    fn from(delivery: Delivery) -> Self {
        let body = serde_json::to_vec(&delivery).expect("a delivery is plain data with string keys");
        Self { body: body.into() }
    }
}
