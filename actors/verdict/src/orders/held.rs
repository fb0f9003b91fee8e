//! Verdicts that the policy holds: reading and releasing one.

use super::admin::{ChangeOrder, OrderChangeError};
use super::{OrderWork, OrdersActor};
use crate::cache::{AdmitVerdict, VerdictCacheError, VerdictRelease};
use crate::generation::GenerationError;
use crate::submission::{GenerationTrace, Submission, SubmissionOutcome};
use actix::{Context, Handler, Message, ResponseFuture};
use actors_audit::logger::CommitError;
use actors_platform::work::Work;
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::HeldVerdictRead;
use domain_verdict::held::HeldVerdict;
use domain_verdict::session::SessionRecord;
use oracled_store::{JournalRecord, RowExpectation};

/// Reads the verdict that the policy holds, for an operator.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<HeldVerdictText, OrderChangeError>")]
pub struct ReadHeldVerdict {
    pub session_id: SessionId,
    /// The operator.
    pub peer: PeerCredentials,
}

/// A held verdict that was decrypted and judged again.
#[derive(Debug)]
pub struct HeldVerdictText {
    pub held: HeldVerdict,
    pub delivery: VerdictDelivery,
}

impl OrderWork {
    /// Decrypts the held verdict of a session. Deserialization judges it again.
    async fn open_held(&self, session_id: &SessionId) -> Result<(HeldVerdictText, u64), OrderChangeError> {
        let held = self.store().held_verdict(session_id).map_err(GenerationError::from)?;
        let Some((held, revision)) = held else { return Err(self.not_held(session_id)?) };
        let text = self.gate.key.open(session_id, &held.sealed).await?;
        let damaged = |_| OrderChangeError::HeldVerdictDamaged(session_id.clone());
        let delivery = serde_json::from_slice(&text).map_err(damaged)?;
        Ok((HeldVerdictText { held, delivery }, revision))
    }

    /// Why the order of a session has no held verdict.
    fn not_held(&self, session_id: &SessionId) -> Result<OrderChangeError, GenerationError> {
        let session = self.store().session(session_id)?;
        let order = session.and_then(|(session, _)| session.order);
        let session_id = session_id.clone();
        Ok(match order {
            Some(order) => OrderChangeError::NoHeldVerdict { session_id, state: order.state },
            None => OrderChangeError::Unknown(session_id),
        })
    }

    /// Releases the verdict that the policy holds: it is delivered like any other. Returns its session afterwards.
    pub(super) async fn release(&self, message: ChangeOrder) -> Result<SessionRecord, OrderChangeError> {
        let ChangeOrder { session_id, reason, user, changed_at: known_change, .. } = message;
        let (HeldVerdictText { held, delivery }, held_revision) = self.open_held(&session_id).await?;
        let session = self.store().session(&session_id).map_err(GenerationError::from)?;
        let Some((session, _)) = session else { return Err(OrderChangeError::Unknown(session_id)) };
        // read after the held verdict: each change of it changes the order
        let changed_at = session.order.as_ref().map(|order| order.changed_at);
        if let Some(changed_at) = changed_at.filter(|at| known_change.is_some_and(|known| known != *at)) {
            return Err(OrderChangeError::Changed { session_id, changed_at });
        }
        let trace = |generation| GenerationTrace { generation, interactions: Vec::new() };
        let submission = Submission {
            path: held.path,
            prompt: held.prompt,
            generation_trace: held.generation.map(trace),
            ..Submission::of_order(&session)
        };
        let VerdictDelivery { approved, evaluation_sha256, .. } = delivery;
        let release = Some(VerdictRelease { held_revision, reason, user });
        let admit = AdmitVerdict { submission, approved, judged: Vec::new(), evaluation_sha256, release };
        match self.runner.handles.cache.ask(admit).await {
            Ok(Ok(SubmissionOutcome::Stored(_) | SubmissionOutcome::Regenerated(..))) => {}
            Ok(Ok(SubmissionOutcome::RejectedByPolicy { causes, .. })) => {
                return Err(OrderChangeError::RefusedByPolicy { session_id, causes });
            }
            // another operator has decided meanwhile, or another verdict was refused
            Ok(Ok(_) | Err(VerdictCacheError::Commit(CommitError::Stale(_)))) => {
                let revision = self.store().held_verdict_revision(&session_id);
                if revision.map_err(GenerationError::from)? == Some(held_revision) {
                    return Err(OrderChangeError::CheckInForce(session_id));
                }
                return Err(self.not_held(&session_id)?);
            }
            Ok(Err(error)) => return Err(GenerationError::from(error).into()),
            Err(error) => return Err(GenerationError::from(error).into()),
        }
        self.published(&session_id)?;
        let session = self.store().session(&session_id).map_err(GenerationError::from)?;
        session.map(|(session, _)| session).ok_or(OrderChangeError::Unknown(session_id))
    }

    async fn read_held(&self, message: ReadHeldVerdict) -> Result<HeldVerdictText, OrderChangeError> {
        let ReadHeldVerdict { session_id, peer } = message;
        let (text, revision) = self.open_held(&session_id).await?;
        let read = HeldVerdictRead { verdict_sha256: text.held.verdict_sha256.clone(), peer };
        let record = JournalRecord {
            expect: vec![RowExpectation::new::<HeldVerdict>(&session_id, Some(revision))],
            ..JournalRecord::from(AuditEvent::new(self.clock().now(), session_id, read))
        };
        self.runner.handles.log.commit(record).await.map_err(GenerationError::from)?;
        Ok(text)
    }
}

impl Handler<ReadHeldVerdict> for OrdersActor {
    type Result = ResponseFuture<Result<HeldVerdictText, OrderChangeError>>;

    fn handle(&mut self, message: ReadHeldVerdict, _: &mut Context<Self>) -> Self::Result {
        let desk = self.work.clone();
        Box::pin(async move { desk.read_held(message).await })
    }
}
