//! Notices to customers about recalled verdicts: a report drafts them, and a person releases or discards each.

use super::search::read_evaluation;
use super::{NOTIFIED_AT_ONCE, RecallError, RecallSearch, RecallService};
use crate::mail_content::MailContentError;
use actors_audit::logger::CommitError;
use actors_platform::caller::current_trace;
use domain_base::caller::{DecidingUser, PeerCredentials, TraceContext};
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_ground::id::SourceId;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::MessageQueued;
use domain_verdict::mail::{MailId, MailKind, OutboxMail};
use domain_verdict::mail_template::MailContent;
use domain_verdict::outbox::OutboxMessage;
use domain_verdict::recall::RecalledVerdict;
use domain_verdict::recall_notice::{
    RecallNotice, RecallNoticeAction, RecallNoticeDiscarded, RecallNoticeRead, RecallNoticeReleased,
    RecallNoticeWithdrawn, SourceRecall,
};
use domain_verdict::session::SessionRecord;
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowExpectation, RowWrite, StoreError};
use tokio::task::{JoinError, spawn_blocking};

/// The draft of a notice in a record about its session.
#[derive(Debug)]
pub(super) struct NoticeDraft {
    notice: RecallNotice,
    /// The revision of the stored draft that it replaces.
    revision: Option<u64>,
    /// The revision of the verdict, so that none is drafted for one that is purged or replaced meanwhile.
    verdict_revision: u64,
}

impl NoticeDraft {
    pub(super) fn add_to(self, record: &mut JournalRecord) {
        let Self { notice, revision, verdict_revision } = self;
        let session_id = &notice.session_id;
        record.expect.push(RowExpectation::new::<RecallNotice>(session_id, revision));
        record.expect.push(RowExpectation::new::<VerdictDelivery>(session_id, Some(verdict_revision)));
        record.writes.push(RowWrite::put(&notice));
    }
}

/// The removals of recalls from drafts.
#[derive(Debug, Default)]
struct Withdrawals {
    records: Vec<JournalRecord>,
    /// The first error of a draft that could not be compared, if a repair can remove it.
    uncompared: Option<StoreError>,
}

/// Drafts.
impl RecallService {
    /// Adds `recall` to the draft of a notice, if that can be sent: the verdict of the evaluation is stored, its session has an address, and
    /// its mail template has the text. Returns whether it does.
    pub(super) fn draft_notice(
        &self,
        draft: &mut Option<NoticeDraft>,
        search: &mut RecallSearch<'_>,
        recall: SourceRecall,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let session_id = recall.verdict.session_id.clone();
        let stored = self.store.verdict_and_session(&session_id)?;
        let (Some((delivery, verdict_revision)), Some((session, _))) = stored else {
            return Ok(false);
        };
        let evaluation = read_evaluation(&self.store, recall.verdict.entry)?;
        let evaluation_sha256 = evaluation.map(|logged| logged.event.0.evaluation_sha256);
        // another verdict can be stored since the evaluation, or since the recall was found
        let is_evaluated = evaluation_sha256.is_some() && evaluation_sha256 == delivery.evaluation_sha256;
        if !is_evaluated || session.customer_email.is_none() || !self.has_notice(&session_id)? {
            return Ok(false);
        }
        let (before, revision) = match draft.take() {
            Some(NoticeDraft { notice, revision, .. }) => (Some(notice), revision),
            None => match self.store.recall_notice(&session_id) {
                Err(StoreError::RowLost { entry, .. }) => (None, Some(entry)),
                notice => notice?.unzip(),
            },
        };
        // with the statements that earlier runs of its source have changed, too
        let recall = match search.verdict_with_all(recall.verdict.entry)? {
            Some(verdict) => SourceRecall { verdict, ..recall },
            None => recall,
        };
        let notice = RecallNotice::drafted(before, recall, delivery.approved.sha256(), now);
        *draft = Some(NoticeDraft { notice, revision, verdict_revision });
        Ok(true)
    }

    /// Whether the mail template of a session has the text of notices.
    fn has_notice(&self, session_id: &SessionId) -> Result<bool, StoreError> {
        let Some(renderer) = &self.renderer else { return Ok(false) };
        match renderer.has_text(session_id, MailKind::RecallNotice) {
            Ok(has_text) => Ok(has_text),
            Err(MailContentError::Store(error)) => Err(error),
            Err(error) => {
                tracing::warn!(%session_id, %error, "no notice about a recalled verdict is drafted");
                Ok(false)
            }
        }
    }

    /// Removes recalls by the source from drafts if their statements are again as they were. Returns the first error of a draft that could
    /// not be compared, if a repair can remove it.
    pub(super) async fn withdraw_notices(
        &self,
        oracle_id: &SourceId,
    ) -> Result<Option<StoreError>, RecallError> {
        let (mut after, mut uncompared) = (None::<SessionId>, None);
        loop {
            let (service, source) = (self.clone(), oracle_id.clone());
            let built = spawn_blocking(move || service.build_withdrawals(&source, after.as_ref()));
            let (withdrawals, next) = built.await.map_err(RecallError::task)??;
            for record in withdrawals.records {
                self.log.commit(record).await?;
            }
            uncompared = uncompared.or(withdrawals.uncompared);
            if next.is_none() {
                return Ok(uncompared);
            }
            after = next;
        }
    }

    /// The removals of recalls from the next drafts with a recall by the source, after that of session `after`; and the session of the
    /// last of them, if more can follow.
    fn build_withdrawals(
        &self,
        oracle_id: &SourceId,
        after: Option<&SessionId>,
    ) -> Result<(Withdrawals, Option<SessionId>), StoreError> {
        let mut open = Vec::new();
        self.store.visit_recall_notices(after, |notice, revision| {
            if notice.recalls.iter().any(|recall| recall.oracle_id == *oracle_id) {
                open.push((notice, revision));
            }
            open.len() < NOTIFIED_AT_ONCE
        })?;
        let last = open.last().filter(|_| open.len() == NOTIFIED_AT_ONCE);
        let next = last.map(|(notice, _)| notice.session_id.clone());
        Ok((self.build_withdrawals_of(oracle_id, open)?, next))
    }

    /// The removals of recalls by the source from these drafts, which have their revisions.
    fn build_withdrawals_of(
        &self,
        oracle_id: &SourceId,
        open: Vec<(RecallNotice, u64)>,
    ) -> Result<Withdrawals, StoreError> {
        let (mut withdrawals, now) = (Withdrawals::default(), self.clock.now());
        if open.is_empty() {
            return Ok(withdrawals);
        }
        let view = match self.store.view(oracle_id) {
            Err(error) if error.is_repairable() => {
                withdrawals.uncompared = Some(error);
                return Ok(withdrawals);
            }
            view => view?,
        };
        let Some(view) = view else { return Ok(withdrawals) };
        let mut search = RecallSearch::new(&self.store, &view, now);
        for (notice, revision) in open {
            let recall = notice.recalls.iter().find(|recall| recall.oracle_id == *oracle_id);
            let Some(recall) = recall else { continue };
            let session_id = notice.session_id.clone();
            match search.is_touched(&recall.verdict) {
                Ok(false) => {}
                Ok(true) => continue,
                Err(error) if error.is_of_one_row() => {
                    tracing::error!(%session_id, %error, "a drafted notice is not compared with its source, which cannot be read");
                    if error.is_repairable() {
                        withdrawals.uncompared.get_or_insert(error);
                    }
                    continue;
                }
                Err(error) => return Err(error),
            }
            let withdrawn = RecallNoticeWithdrawn { oracle_id: oracle_id.clone() };
            let expected = RowExpectation::new::<RecallNotice>(&session_id, Some(revision));
            let written = match notice.without(oracle_id, now) {
                Some(rest) => RowWrite::put(&rest),
                None => RowWrite::remove::<RecallNotice>(&session_id),
            };
            withdrawals.records.push(JournalRecord {
                expect: vec![expected],
                writes: vec![written],
                ..JournalRecord::from(AuditEvent::new(now, session_id, withdrawn))
            });
        }
        Ok(withdrawals)
    }

    /// Removes recalls from the draft of a session if their statements are again as they were. Returns whether the facts of the draft are
    /// the present ones.
    async fn withdraw_from(&self, session_id: &SessionId) -> Result<bool, RecallError> {
        let recalls = self.store.recall_notice(session_id)?.map(|(notice, _)| notice.recalls);
        let mut is_present = true;
        for recall in recalls.into_iter().flatten() {
            let (service, session_id) = (self.clone(), session_id.clone());
            let compared = spawn_blocking(move || {
                let open = service.store.recall_notice(&session_id)?.into_iter().collect();
                let Withdrawals { records, uncompared } =
                    service.build_withdrawals_of(&recall.oracle_id, open)?;
                match uncompared {
                    Some(error) => Err(error),
                    None => Ok((records, service.has_present_facts(&recall)?)),
                }
            });
            let (records, has_present_facts) = compared.await.map_err(RecallError::task)??;
            is_present &= has_present_facts;
            for record in records {
                self.log.commit(record).await?;
            }
        }
        Ok(is_present)
    }

    /// Whether the source states now what the recall says.
    fn has_present_facts(
        &self,
        SourceRecall { oracle_id, verdict, .. }: &SourceRecall,
    ) -> Result<bool, StoreError> {
        let Some(view) = self.store.view(oracle_id)? else { return Ok(true) };
        let mut search = RecallSearch::new(&self.store, &view, self.clock.now());
        let facts = |verdict: &RecalledVerdict| {
            verdict.statements.iter().map(|statement| statement.now.clone()).collect::<Vec<_>>()
        };
        // an evaluation that was dropped from the log cannot be compared
        let present = search.verdict_with_all(verdict.entry)?;
        Ok(present.is_none_or(|present| facts(&present) == facts(verdict)))
    }
}

/// Why a notice is not read or decided. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum RecallNoticeError {
    #[error("no notice about session {0} is drafted")]
    Unknown(SessionId),
    /// It is not the one on which the decision is based.
    #[error(
        "the notice about session {0} was changed, released or discarded meanwhile, or its source states something else now; look at it \
         again before you decide: within 30 s, a draft follows its source"
    )]
    Changed(SessionId),
    #[error("no mail service is configured; configure `mail.transport` and restart, or discard the notice")]
    NoMailService,
    #[error("session {0} has no address; add one with `oraclectl session correct`, or discard the notice")]
    NoAddress(SessionId),
    #[error("the verdict of session {0} that the notice is about is no longer stored; discard the notice")]
    NoVerdict(SessionId),
    #[error(transparent)]
    Content(MailContentError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Commit(CommitError),
    #[error(transparent)]
    Withdrawal(#[from] RecallError),
    /// The task that reads the store panicked.
    #[error("could not prepare the notice: {0}; report this as a bug")]
    Task(String),
}

impl RecallNoticeError {
    fn task(error: JoinError) -> Self {
        Self::Task(error.to_string())
    }

    /// The error of a commit that depends on the notice of a session.
    fn commit(error: CommitError, session_id: SessionId) -> Self {
        match error {
            CommitError::Stale(_) => Self::Changed(session_id),
            error => Self::Commit(error),
        }
    }

    /// Whether the notice cannot be sent as it is.
    const fn is_of_mail(&self) -> bool {
        matches!(self, Self::NoMailService | Self::NoAddress(_) | Self::NoVerdict(_) | Self::Content(_))
    }
}

/// A notice with the mail that the customer would get.
#[derive(Debug)]
pub struct NoticePreview {
    pub notice: RecallNotice,
    /// `None` if it cannot be sent.
    pub mail: Option<MailContent>,
    /// Why it cannot be sent.
    pub fault: Option<String>,
}

/// Releases or discards the notice of a session.
#[derive(Debug, Clone)]
pub struct DecideNotice {
    pub session_id: SessionId,
    pub action: RecallNoticeAction,
    /// The operator's reason.
    pub reason: String,
    /// The time of the facts on which the decision is based. A release has one.
    pub drafted_at: Option<Timestamp>,
    /// The operator.
    pub user: DecidingUser,
}

/// The mail of a notice, ready to be queued.
struct PreparedMail {
    mail: OutboxMail,
    content: Option<MailContent>,
    /// The rows on which it depends.
    expect: [RowExpectation; 2],
}

/// Decisions.
impl RecallService {
    /// Reads the notice of a session for an operator, whom the log names.
    ///
    /// # Errors
    /// There is none, or the store cannot be read or written.
    pub async fn read_notice(
        &self,
        session_id: SessionId,
        peer: PeerCredentials,
    ) -> Result<NoticePreview, RecallNoticeError> {
        let (service, id) = (self.clone(), session_id.clone());
        let preview = spawn_blocking(move || service.preview_notice(&id)).await;
        let (preview, revision) = preview.map_err(RecallNoticeError::task)??;
        let read = AuditEvent::new(self.clock.now(), session_id.clone(), RecallNoticeRead { peer });
        let record = JournalRecord {
            expect: vec![RowExpectation::new::<RecallNotice>(&session_id, Some(revision))],
            ..JournalRecord::from(read)
        };
        let committed = self.log.commit(record).await;
        committed.map_err(|error| RecallNoticeError::commit(error, session_id))?;
        Ok(preview)
    }

    fn preview_notice(&self, session_id: &SessionId) -> Result<(NoticePreview, u64), RecallNoticeError> {
        let unknown = || RecallNoticeError::Unknown(session_id.clone());
        let (notice, revision) = self.store.recall_notice(session_id)?.ok_or_else(unknown)?;
        let (mail, fault) = match self.prepare_mail(&notice, None, self.clock.now()) {
            Ok(prepared) => (prepared.content, None),
            Err(error) if error.is_of_mail() => (None, Some(error.to_string())),
            Err(error) => return Err(error),
        };
        Ok((NoticePreview { notice, mail, fault }, revision))
    }

    /// Decides about a notice. Returns the id of the mail if it is released: it is queued, to the present address of the session. Before a
    /// release, its facts are compared with the present ones.
    ///
    /// # Errors
    /// There is no notice, it has changed, or it cannot be sent.
    pub async fn decide_notice(&self, decision: DecideNotice) -> Result<Option<MailId>, RecallNoticeError> {
        if decision.action == RecallNoticeAction::Release && !self.withdraw_from(&decision.session_id).await?
        {
            return Err(RecallNoticeError::Changed(decision.session_id));
        }
        let (service, session_id, trace) = (self.clone(), decision.session_id.clone(), current_trace());
        let built = spawn_blocking(move || service.build_decision(decision, trace)).await;
        let (mail_id, record) = built.map_err(RecallNoticeError::task)??;
        let committed = self.log.commit(record).await;
        committed.map_err(|error| RecallNoticeError::commit(error, session_id))?;
        Ok(mail_id)
    }

    fn build_decision(
        &self,
        decision: DecideNotice,
        trace: Option<TraceContext>,
    ) -> Result<(Option<MailId>, JournalRecord), RecallNoticeError> {
        let DecideNotice { session_id, action, reason, drafted_at, user } = decision;
        let DecidingUser { peer, name: user_name } = user;
        let (notice, revision) = match self.store.recall_notice(&session_id)? {
            Some(found) if drafted_at.is_none_or(|at| at == found.0.drafted_at) => found,
            None if drafted_at.is_none() => return Err(RecallNoticeError::Unknown(session_id)),
            _ => return Err(RecallNoticeError::Changed(session_id)),
        };
        let now = self.clock.now();
        let mut record = JournalRecord {
            expect: vec![RowExpectation::new::<RecallNotice>(&session_id, Some(revision))],
            writes: vec![RowWrite::remove::<RecallNotice>(&session_id)],
            ..JournalRecord::default()
        };
        if action == RecallNoticeAction::Discard {
            let discarded = RecallNoticeDiscarded { reason, user_name, peer };
            record.events.push(AuditEvent::new(now, session_id, discarded));
            return Ok((None, record));
        }
        let PreparedMail { mail, expect, .. } = self.prepare_mail(&notice, trace, now)?;
        let mail_id = mail.state.mail_id.clone();
        let message = OutboxMessage::from(mail);
        let queued = MessageQueued(message.state().entry());
        let released = RecallNoticeReleased { reason, user_name, peer };
        record.events.push(AuditEvent::new(now, session_id.clone(), released));
        record.events.push(AuditEvent::new(now, session_id, queued));
        record.expect.extend(expect);
        record.writes.push(RowWrite::put(&message));
        Ok((Some(mail_id), record))
    }

    /// The mail of a notice, to the present address of its session. It is rendered now to find out whether it can be sent.
    fn prepare_mail(
        &self,
        notice: &RecallNotice,
        trace: Option<TraceContext>,
        now: Timestamp,
    ) -> Result<PreparedMail, RecallNoticeError> {
        let session_id = &notice.session_id;
        let renderer = self.renderer.as_ref().ok_or(RecallNoticeError::NoMailService)?;
        let (verdict, session) = self.store.verdict_and_session(session_id)?;
        let unknown = || RecallNoticeError::Unknown(session_id.clone());
        let (session, session_revision) = session.ok_or_else(unknown)?;
        let verdict = verdict.filter(|(delivery, _)| *delivery.approved.sha256() == notice.verdict_sha256);
        let (delivery, revision) = verdict.ok_or_else(|| RecallNoticeError::NoVerdict(session_id.clone()))?;
        let to = session.customer_email.ok_or_else(|| RecallNoticeError::NoAddress(session_id.clone()))?;
        let mail = OutboxMail { trace, ..OutboxMail::of_recall(notice.clone(), delivery.into(), to, now) };
        let content = renderer.find_content(&mail).map_err(|error| match error {
            MailContentError::Store(error) => RecallNoticeError::Store(error),
            error => RecallNoticeError::Content(error),
        })?;
        let expect = [
            RowExpectation::new::<SessionRecord>(session_id, Some(session_revision)),
            RowExpectation::new::<VerdictDelivery>(session_id, Some(revision)),
        ];
        Ok(PreparedMail { mail, content, expect })
    }
}
