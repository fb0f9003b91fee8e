//! Regenerating a lost verdict.

use super::error::{GenerationError, GenerationResult};
use super::prompt::rebuild_prompt;
use super::runner::{GenerationJob, GenerationRunner, ModelCallPermits, ModelRequest};
use crate::rate_limiter::{CallLimitError, RequestRegen};
use crate::submission::{Submission, SubmissionOutcome};
use domain_base::gate_path::GatePath;
use domain_base::session_id::SessionId;
use domain_verdict::prompt::ModelPrompt;
use domain_verdict::session::{SessionCaller, SessionRecord};
use std::sync::Arc;
use std::time::Duration;

impl GenerationRunner {
    /// Regenerates the lost verdict of a session.
    pub(crate) async fn regenerate(&self, session_id: SessionId) -> GenerationResult {
        let application = session_id.application();
        let result = self.try_regenerate(session_id).await;
        self.count_outcome(application, GatePath::Regen, &result);
        Ok(result?)
    }

    /// The prompt for a verdict in place of a lost one: that of the first verdict, if it is available.
    fn regen_prompt(&self, session: &SessionRecord) -> Result<ModelPrompt, GenerationError> {
        let SessionRecord { session_id, tier, query, original, .. } = session;
        let first = original.as_ref().and_then(|original| original.prompt.as_ref());
        let first = first.map(|first| rebuild_prompt(&self.store, first, *tier, query)).transpose()?;
        first.flatten().map_or_else(|| self.first_prompt(&session_id.application(), *tier, query), Ok)
    }

    async fn try_regenerate(&self, session_id: SessionId) -> Result<SubmissionOutcome, GenerationError> {
        // another flight may have stored the verdict since the reader's cache miss
        if let Some((delivery, _)) = self.store.verdict(&session_id)? {
            return Ok(SubmissionOutcome::Replayed(Arc::new(delivery.into())));
        }
        let session = self.store.session(&session_id)?.map(|(session, _)| session);
        // an order that was placed since the reader's cache miss generates the verdict
        let session = session.filter(|session| !session.has_unfinished_order());
        let session = session.ok_or(GenerationError::SessionUnknown)?;
        let model = self.models.for_regen(&session_id.application(), session.original.as_ref());
        let model = model.ok_or(GenerationError::NoModel)?;
        if let Some(wait) = self.regen_wait(&session_id) {
            return Err(GenerationError::Limited(CallLimitError::Session { wait }));
        }
        let job = GenerationJob {
            request: ModelRequest {
                prompt: self.regen_prompt(&session)?,
                settings: model.regen_settings(session.original.as_ref()),
            },
            submission: Submission {
                session_id: session_id.clone(),
                caller: SessionCaller::Daemon,
                tier: session.tier,
                query: session.query,
                payload: None,
                customer_email: None,
                check: session.check,
                path: GatePath::Regen,
                prompt: None,
                generation_trace: None,
            },
        };
        let lease = self.request_lease(model).await?;
        let take = RequestRegen {
            session_id,
            oracle_id: model.oracle_id().clone(),
            tier: session.tier,
            generation: job.request.generation(),
        };
        let (regen_permit, slot) = self.handles.rate_limiter.ask(take).await??;
        let permits = ModelCallPermits { lease, slot, regen_permit: Some(regen_permit) };
        self.call_and_judge(model, job, permits).await.result
    }

    /// The time until a session's verdict may be regenerated; `None` for now. The rate limiter decides. This check only
    /// avoids that requests that come too soon reach the rate limiter and the circuit.
    pub(super) fn regen_wait(&self, session_id: &SessionId) -> Option<Duration> {
        let noted = self.store.regen_attempt(session_id).ok().flatten();
        let wait = noted.and_then(|(attempt, _)| attempt.wait(self.clock.now()));
        wait.map(|wait| wait.unsigned_abs())
    }
}
