//! Querying all sources of a question at the same time.

use super::VerificationContext;
use super::answer_cache::CacheableAnswer;
use super::source::SourceCallResult;
use actors_platform::caller::run_as_current_caller;
use actors_platform::clock::stopwatch;
use domain_ground::id::SourceId;
use domain_ground::source::OracleTier;
use domain_verification::{
    CallFailure, CallTimeLimit, CandidateAnswer, DecisionInputs, OracleCall, OracleReply,
};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// The results of the queries that are not part of the decision's inputs.
#[derive(Default)]
pub(super) struct SourceCallExtras {
    pub(super) answers_to_cache: Vec<CacheableAnswer>,
    /// The earlier statements of sources about the same subject, for ingested sources.
    pub(super) earlier_statements: BTreeMap<SourceId, CandidateAnswer>,
}

impl VerificationContext {
    /// Queries `oracles` at the same time, and stores their replies in `inputs`. Each query ends at the hard
    /// timeout, and all of them at `deadline`. `put_at` is the time of the question. An untrusted source is
    /// awaited only until all others have answered and the soft timeout has passed.
    pub(super) async fn call_sources(
        self: &Arc<Self>,
        inputs: &mut DecisionInputs,
        oracles: &BTreeSet<SourceId>,
        put_at: Timestamp,
        deadline: Option<Instant>,
    ) -> SourceCallExtras {
        let began = stopwatch();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(began));
        let hard = Duration::from_millis(inputs.workflow.oracle_latency.hard_timeout_ms);
        let (limit, cut) = match left.filter(|left| *left < hard) {
            Some(left) => (left, CallTimeLimit::Budget),
            None => (hard, CallTimeLimit::HardTimeout),
        };
        let calls = std::mem::take(&mut inputs.calls);
        let question_inputs = Arc::new(DecisionInputs { asked_at: put_at, ..inputs.clone() });
        inputs.calls = calls;
        let mut on_their_way = JoinSet::new();
        let mut waited_for = BTreeSet::new();
        let mut begun = BTreeMap::new();
        for oracle_id in
            question_inputs.workflow.oracles.iter().filter(|oracle_id| oracles.contains(oracle_id)).cloned()
        {
            match self.prepare_source_call(&question_inputs, &oracle_id) {
                Err(call) => drop(inputs.calls.insert(oracle_id, *call)),
                Ok(request) => {
                    if request.tier() != OracleTier::Unverified {
                        waited_for.insert(oracle_id.clone());
                    }
                    // the call to log if the query does not end in time
                    begun.insert(oracle_id.clone(), request.unanswered_call(self.clock.now()));
                    let (verifier, is_again) = (Arc::clone(self), inputs.calls.contains_key(&oracle_id));
                    on_their_way.spawn(run_as_current_caller(async move {
                        let answered = verifier.call_source(request, limit, cut, is_again).await;
                        (oracle_id, answered)
                    }));
                }
            }
        }
        let nobody_is_trusted = waited_for.is_empty();
        let soft = Duration::from_millis(inputs.workflow.oracle_latency.soft_timeout_ms).min(limit);
        let mut extras = SourceCallExtras::default();
        loop {
            let next = on_their_way.join_next();
            let ended = if nobody_is_trusted || !waited_for.is_empty() {
                next.await
            } else {
                timeout_at(began + soft, next).await.ok().flatten()
            };
            let Some(ended) = ended else { break };
            let Ok((oracle_id, SourceCallResult { call, answer_to_cache: keep, earlier_statement: before })) =
                ended
            else {
                continue;
            };
            waited_for.remove(&oracle_id);
            begun.remove(&oracle_id);
            extras.answers_to_cache.extend(keep);
            extras.earlier_statements.extend(before.map(|before| (oracle_id.clone(), *before)));
            inputs.calls.insert(oracle_id, call);
        }
        let latency_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        for (oracle_id, call) in begun {
            let reply = if waited_for.contains(&oracle_id) {
                // the task ended without an answer
                OracleReply::Failed {
                    failure: CallFailure::Internal,
                    cause: "the query failed unexpectedly".into(),
                }
            } else {
                OracleReply::NotAwaited
            };
            inputs.calls.insert(oracle_id, OracleCall { latency_ms, reply, ..call });
        }
        extras
    }
}
