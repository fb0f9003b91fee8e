//! Sessions, their verdicts and orders, held verdicts, costs, regenerations, rejecting checks, and mail.

use crate::ground::Store;
use domain_base::digest::Sha256Hex;
use domain_base::row::{Row, RowData, RowOwner, Table};
use domain_base::session_id::{ApplicationName, SessionId};
use domain_verdict::cost::{COSTS, DayCosts, day_name};
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::legal_hold::LegalHold;
use domain_verdict::mail::{MailId, MailKind, OutboxMail};
use domain_verdict::order::{ORDERS, OrderPosition, OrderState, orders_prefix};
use domain_verdict::outbox::{MessageChannel, MessageId, MessageState, OutboxMessage, StoredMessageHead};
use domain_verdict::policy::HeldVerdict;
use domain_verdict::recall_notice::RecallNotice;
use domain_verdict::regen::RegenAttempt;
use domain_verdict::replay::StoredVerdict;
use domain_verdict::session::{CustomerEmail, RejectingCheck, SessionRecord};
use domain_verdict::webhook::{WebhookId, WebhookOutage, WebhookReceiver};
use jiff::Timestamp;
use jiff::civil::Date;
use oracled_domain::tables::tables;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use store_base::error::StoreError;
use store_log::rows::{self, CHUNK_BYTES, StoredValue, key, stored_in, with_prefix};
use store_log::{Bundle, CommittedRows, RowExpectation, RowName, RowWrite, skip_lost, visit_rows};

// The costs of model calls, as one row for each UTC day.
//
// The journal computes the rows from the events of a record, in the commit of the record.

/// The number of days that are read at a time.
const DAYS_AT_ONCE: usize = 100;

/// A row with its revision, if it is stored.
pub(crate) type RevisedRow<T> = Option<(T, u64)>;

impl Store {
    /// The costs of one day.
    pub fn costs_of_day(&self, day: Date) -> Result<DayCosts, StoreError> {
        Ok(self.own_row(COSTS.name, &day_name(day))?.unwrap_or_default())
    }

    /// The costs of all days from `since` to `until`, the earliest day first. Blocks on disk reads.
    pub fn costs(&self, since: Option<Date>, until: Option<Date>) -> Result<Vec<DayCosts>, StoreError> {
        let before = since.and_then(|since| since.yesterday().ok());
        let mut after = before.map(day_name);
        let mut costs = Vec::new();
        loop {
            let names = self.names_after(COSTS.name, after.as_deref(), DAYS_AT_ONCE)?;
            let Some(last) = names.last() else { return Ok(costs) };
            after = Some(last.clone());
            for name in names {
                if until.is_some_and(|until| name > day_name(until)) {
                    return Ok(costs);
                }
                costs.extend(self.own_row(COSTS.name, &name)?);
            }
        }
    }
}

impl Store {
    /// The verdict of a session that the policy holds, with its revision.
    ///
    /// # Errors
    /// The held verdict cannot be read.
    pub fn held_verdict(&self, session_id: &SessionId) -> Result<Option<(HeldVerdict, u64)>, StoreError> {
        self.get(session_id)
    }

    /// The revision of the held verdict of a session, even if the row is damaged.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn held_verdict_revision(&self, session_id: &SessionId) -> Result<Option<u64>, StoreError> {
        let head = self.head(HeldVerdict::TABLE, session_id.as_str())?;
        Ok(head.map(|(revision, _)| revision))
    }

    /// Whether the policy holds any verdict.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn has_held_verdicts(&self) -> Result<bool, StoreError> {
        Ok(!self.names_after(HeldVerdict::TABLE.name, None, 1)?.is_empty())
    }

    /// One of the verdicts that the policy holds.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn any_held_verdict(&self) -> Result<Option<HeldVerdict>, StoreError> {
        let first = self.names_after(HeldVerdict::TABLE.name, None, 1)?.pop();
        let session_id = first.and_then(|name| name.parse::<SessionId>().ok());
        Ok(session_id.map(|id| self.held_verdict(&id)).transpose()?.flatten().map(|(held, _)| held))
    }
}

impl Store {
    /// The legal hold of a session, with its revision.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn legal_hold(&self, session_id: &SessionId) -> Result<Option<(LegalHold, u64)>, StoreError> {
        self.get(session_id)
    }

    /// The revision of the legal hold of a session, even if the row is damaged.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn legal_hold_revision(&self, session_id: &SessionId) -> Result<Option<u64>, StoreError> {
        let head = self.head(LegalHold::TABLE, session_id.as_str())?;
        Ok(head.map(|(revision, _)| revision))
    }

    /// All legal holds, by session.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn legal_holds(&self) -> Result<Vec<LegalHold>, StoreError> {
        let names = self.names(rows::all(LegalHold::TABLE.name), .., usize::MAX)?;
        let ids = names.into_iter().filter_map(|name| name.parse().ok());
        ids.filter_map(|id| self.legal_hold(&id).map(|hold| Some(hold?.0)).transpose()).collect()
    }
}

impl Store {
    /// The outage of an endpoint of webhooks, with its revision.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn webhook_outage(
        &self,
        receiver: &WebhookReceiver,
    ) -> Result<Option<(WebhookOutage, u64)>, StoreError> {
        self.get(receiver)
    }

    /// The outages of all endpoints of webhooks. One that is lost or damaged begins again.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn webhook_outages(&self) -> Result<Vec<WebhookOutage>, StoreError> {
        let names = self.names(rows::all(WebhookOutage::TABLE.name), .., usize::MAX)?;
        let mut outages = Vec::new();
        for name in names {
            match self.named::<WebhookOutage>(&name) {
                Err(error @ (StoreError::Corrupt { .. } | StoreError::RowLost { .. })) => {
                    tracing::error!(%error, name, "an outage of an endpoint of webhooks is left out");
                }
                outage => outages.extend(outage?.map(|(outage, _)| outage)),
            }
        }
        Ok(outages)
    }
}

impl Store {
    /// The drafted notice of a session, with its revision.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn recall_notice(&self, session_id: &SessionId) -> Result<Option<(RecallNotice, u64)>, StoreError> {
        self.get(session_id)
    }

    /// The revision of the drafted notice of a session, even if the row is damaged.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn recall_notice_revision(&self, session_id: &SessionId) -> Result<Option<u64>, StoreError> {
        let head = self.head(RecallNotice::TABLE, session_id.as_str())?;
        Ok(head.map(|(revision, _)| revision))
    }

    /// Passes the drafted notices after that of session `after` to `visit`, in the order of the sessions, except lost ones. Stops if
    /// `visit` returns false.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn visit_recall_notices(
        &self,
        after: Option<&SessionId>,
        mut visit: impl FnMut(RecallNotice, u64) -> bool,
    ) -> Result<(), StoreError> {
        let after = after.map(|session_id| session_id.as_str().to_owned());
        self.visit_names(RecallNotice::TABLE.name, after, |names| {
            for session_id in names.into_iter().filter_map(|name| SessionId::try_from(name).ok()) {
                let notice = skip_lost(self.recall_notice(&session_id))?;
                if notice.is_some_and(|(notice, revision)| !visit(notice, revision)) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}

impl Store {
    /// The latest attempt of a session, with its revision.
    pub fn regen_attempt(&self, session_id: &SessionId) -> Result<Option<(RegenAttempt, u64)>, StoreError> {
        self.get(session_id)
    }
}

/// The size of a stored rejecting check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectingCheckSize {
    pub session_id: SessionId,
    /// The revision; a newer rejecting check has a higher one.
    pub revision: u64,
    /// The size on the disk, in bytes, rounded up to whole chunks.
    pub bytes: u64,
}

impl Store {
    /// A rejecting check with its revision.
    ///
    /// # Errors
    /// The rejecting check cannot be read.
    pub fn rejecting_check(
        &self,
        session_id: &SessionId,
    ) -> Result<Option<(RejectingCheck, u64)>, StoreError> {
        self.get(session_id)
    }

    /// The size of a rejecting check; `None` if it does not exist.
    ///
    /// # Errors
    /// The rejecting check cannot be read.
    pub fn rejecting_check_size(
        &self,
        session_id: SessionId,
    ) -> Result<Option<RejectingCheckSize>, StoreError> {
        let head = self.head(RejectingCheck::TABLE, session_id.as_str())?;
        Ok(head.map(|(revision, chunks)| {
            let bytes = u64::from(chunks) * CHUNK_BYTES as u64;
            RejectingCheckSize { session_id, revision, bytes }
        }))
    }

    /// The sizes of all rejecting checks.
    ///
    /// # Errors
    /// A rejecting check cannot be read.
    pub fn rejecting_check_sizes(&self) -> Result<Vec<RejectingCheckSize>, StoreError> {
        let names = self.names(rows::all(RejectingCheck::TABLE.name), .., usize::MAX)?;
        let size = |name: String| {
            name.parse().ok().and_then(|session_id| self.rejecting_check_size(session_id).transpose())
        };
        names.into_iter().filter_map(size).collect()
    }
}

/// The tables whose rows are named by sessions.
fn session_tables() -> impl Iterator<Item = &'static Table> {
    tables().filter(|table| matches!(table.data, RowData::Session { owner: RowOwner::Name, .. }))
}

/// The rows that are named by a session, each with its revision; `None` if it does not exist.
#[derive(Debug, Clone)]
pub struct SessionRows(Vec<(RowName, Option<u64>)>);

impl SessionRows {
    /// The highest revision; `None` if the session has no rows.
    #[must_use]
    pub fn latest(&self) -> Option<u64> {
        self.0.iter().filter_map(|(_, revision)| *revision).max()
    }

    /// Whether a row is in the stored table `stored`.
    fn is_in(&self, stored: &str) -> bool {
        self.0.iter().any(|(row, revision)| revision.is_some() && stored_in(row.table) == stored)
    }

    /// The writes that remove the rows, and the expectations that no row has changed.
    #[must_use]
    pub fn removal(self) -> (Vec<RowExpectation>, Vec<RowWrite>) {
        let of = |(row, revision): (RowName, Option<u64>)| {
            let write = revision.map(|_| RowWrite::remove_row(row.clone()));
            (RowExpectation { row, revision }, write)
        };
        let (expect, writes): (_, Vec<_>) = self.0.into_iter().map(of).unzip();
        (expect, writes.into_iter().flatten().collect())
    }

    /// The same for the rows in tables that `writes` does not change.
    #[must_use]
    pub fn removal_except(mut self, writes: &[RowWrite]) -> (Vec<RowExpectation>, Vec<RowWrite>) {
        self.0.retain(|(row, _)| !writes.iter().any(|write| write.row.table.name == row.table.name));
        self.removal()
    }
}

impl Store {
    /// The rows that are named by a session.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn session_rows(&self, session_id: &SessionId) -> Result<SessionRows, StoreError> {
        self.revisions(session_tables(), session_id.as_str()).map(SessionRows)
    }

    /// The values of the rows that are named by a session, by the names of their tables, except lost ones and those in `except`.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn session_values(
        &self,
        session_id: &SessionId,
        except: &[&str],
    ) -> Result<BTreeMap<String, Value>, StoreError> {
        let mut values = BTreeMap::new();
        for table in session_tables().filter(|table| !except.contains(&table.name)) {
            let row = self.value(table, session_id.as_str())?;
            let value = skip_lost(self.parse(table, session_id.as_str(), row))?;
            values.extend(value.map(|(value, _)| (table.name.to_owned(), value)));
        }
        Ok(values)
    }

    /// The sessions with mails or webhooks in the outbox.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn sessions_with_messages(&self) -> Result<BTreeSet<SessionId>, StoreError> {
        let mut sessions = BTreeSet::new();
        self.visit_messages(None, None, |message| {
            sessions.extend(message.session_id().cloned());
            true
        })?;
        Ok(sessions)
    }

    /// The rows of a session if all of them were written up to entry `last_seq`, it has no order that waits for an attempt or an
    /// operator, and it is not on legal hold.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn expired_session(
        &self,
        session_id: &SessionId,
        last_seq: u64,
    ) -> Result<Option<SessionRows>, StoreError> {
        let rows = self.session_rows(session_id)?;
        let is_on_hold = rows.is_in(stored_in(LegalHold::TABLE));
        if is_on_hold || rows.latest().is_none_or(|latest| latest > last_seq) {
            return Ok(None);
        }
        // the order of a lost session has no other data
        let order = skip_lost(self.session(session_id))?.and_then(|(session, _)| session.order);
        let has_ended = order.is_none_or(|order| order.state.has_ended());
        Ok(has_ended.then_some(rows))
    }

    /// Passes the sessions that [`Self::expired_session`] accepts to `visit`, in groups, each with its latest revision. Stops if
    /// `visit` returns false.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn visit_expired_sessions(
        &self,
        last_seq: u64,
        mut visit: impl FnMut(Vec<(SessionId, u64)>) -> bool,
    ) -> Result<(), StoreError> {
        let mut visited: Vec<&str> = Vec::new();
        let mut is_visiting = true;
        for stored in session_tables().map(stored_in) {
            if visited.contains(&stored) {
                continue;
            }
            self.visit_names(stored, None, |names| {
                let mut expired = Vec::new();
                for session_id in names.into_iter().filter_map(|name| SessionId::try_from(name).ok()) {
                    let Some(rows) = self.expired_session(&session_id, last_seq)? else { continue };
                    let is_visited = visited.iter().any(|table| rows.is_in(table));
                    if let Some(latest) = rows.latest().filter(|_| !is_visited) {
                        expired.push((session_id, latest));
                    }
                }
                is_visiting = expired.is_empty() || visit(expired);
                Ok(is_visiting)
            })?;
            if !is_visiting {
                break;
            }
            visited.push(stored);
        }
        Ok(())
    }
}

/// Selects the orders to read.
#[derive(Debug, Clone, Default)]
pub struct OrderQuery {
    /// Only orders of this application.
    pub application: Option<ApplicationName>,
    /// Only orders in this state.
    pub state: Option<OrderState>,
    /// Only orders that were placed before this one.
    pub before: Option<OrderPosition>,
    /// The highest number of orders to return.
    pub limit: usize,
}

/// Every application with every state.
fn pairs<'a>(
    applications: &'a [ApplicationName],
    states: &'a [OrderState],
) -> impl Iterator<Item = (&'a ApplicationName, OrderState)> {
    applications.iter().flat_map(|application| states.iter().map(move |state| (application, *state)))
}

impl Store {
    /// The sessions whose orders match `query`, the order placed last first, without their checks.
    ///
    /// # Errors
    /// A session cannot be read.
    pub fn orders(&self, query: &OrderQuery) -> Result<Vec<SessionRecord>, StoreError> {
        let states = query.state.as_ref().map_or(OrderState::ALL, std::slice::from_ref);
        let applications = match &query.application {
            Some(application) => vec![application.clone()],
            None => self.applications_with_orders()?,
        };
        let (mut found, mut before) = (Vec::new(), query.before.clone());
        // an order that changed its state meanwhile is skipped, and another one is read instead
        while found.len() < query.limit {
            let most = query.limit - found.len();
            let mut positions = Vec::new();
            for (application, state) in pairs(&applications, states) {
                positions.extend(self.order_positions(application, state, before.as_ref(), most)?);
            }
            positions.sort_unstable_by(|a, b| b.cmp(a));
            positions.dedup();
            positions.truncate(most);
            let Some(last) = positions.last() else { break };
            before = Some(last.clone());
            for position in &positions {
                found.extend(self.session_in_state(position, states)?);
            }
        }
        Ok(found)
    }

    /// The sessions whose orders are in `state`, without their checks: of each application the orders placed first, at most `limit`.
    ///
    /// # Errors
    /// A session cannot be read.
    pub fn oldest_orders(&self, state: OrderState, limit: usize) -> Result<Vec<SessionRecord>, StoreError> {
        let mut found = Vec::new();
        for application in self.applications_with_orders()? {
            let prefix = orders_prefix(&application, state);
            for name in self.names(with_prefix(ORDERS.name, &prefix), .., limit)? {
                let position = name.strip_prefix(&prefix);
                let position = position.and_then(|name| OrderPosition::parse_name(name, &application));
                let Some(position) = position else { continue };
                found.extend(self.session_in_state(&position, &[state])?);
            }
        }
        Ok(found)
    }

    /// The session at a position, without its check, if its order is still in one of `states`.
    fn session_in_state(
        &self,
        position: &OrderPosition,
        states: &[OrderState],
    ) -> Result<Option<SessionRecord>, StoreError> {
        let session = match self.session(&position.session_id) {
            // one damaged session must not hide the others
            Err(StoreError::Corrupt { .. }) => None,
            read => read?.map(|(session, _)| session),
        };
        let matches = |session: &SessionRecord| {
            session.order.as_ref().is_some_and(|order| states.contains(&order.state))
        };
        // the facts of a session can take a megabyte
        Ok(session.filter(matches).map(|session| SessionRecord { check: None, ..session }))
    }

    /// The applications that have orders.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn applications_with_orders(&self) -> Result<Vec<ApplicationName>, StoreError> {
        let mut found: Vec<ApplicationName> = Vec::new();
        loop {
            // the character after the separator: the names of the last application are before it
            let after = found.last().map(|last| format!("{last}0"));
            let names = self.names_after(ORDERS.name, after.as_deref(), 1)?;
            match names.first().and_then(|name| name.split_once('/')?.0.parse().ok()) {
                Some(application) => found.push(application),
                None => return Ok(found),
            }
        }
    }

    /// The number of orders of `application` in `state`, and the time at which the oldest of them was placed.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn count_orders(
        &self,
        application: &ApplicationName,
        state: OrderState,
    ) -> Result<(u64, Option<Timestamp>), StoreError> {
        let prefix = orders_prefix(application, state);
        let names = self.names(with_prefix(ORDERS.name, &prefix), .., usize::MAX)?;
        let position = |name: &String| OrderPosition::parse_name(name.strip_prefix(&prefix)?, application);
        let oldest = names.first().and_then(position);
        let placed_at = oldest.and_then(|oldest| Timestamp::from_microsecond(oldest.placed_at_us).ok());
        Ok((names.len() as u64, placed_at))
    }

    /// The positions of the last `most` orders of `application` in `state` before `before`, the last one first.
    fn order_positions(
        &self,
        application: &ApplicationName,
        state: OrderState,
        before: Option<&OrderPosition>,
        most: usize,
    ) -> Result<Vec<OrderPosition>, StoreError> {
        let prefix = orders_prefix(application, state);
        let mut keys = with_prefix(ORDERS.name, &prefix);
        if let Some(before) = before {
            keys.end = key(ORDERS.name, &[prefix.as_bytes(), before.names_end(application).as_bytes()]);
        }
        let names = self.last_names(keys, most)?;
        let parse = |name: &String| OrderPosition::parse_name(name.strip_prefix(&prefix)?, application);
        Ok(names.iter().filter_map(parse).collect())
    }
}

impl Store {
    /// A message with its revision. The verdict of a mail is judged again when it is read. The text of a mail with the session's
    /// first verdict is compared with the SHA-256 in its session.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn message(&self, id: &MessageId) -> Result<Option<(OutboxMessage, u64)>, StoreError> {
        let mut before = None;
        loop {
            let Some((message, revision)) = self.get::<OutboxMessage>(id)? else { return Ok(None) };
            let OutboxMessage::Mail(mail) = &message else { return Ok(Some((message, revision))) };
            let session_id = &mail.state.session_id;
            let session = self.session(session_id)?;
            let seen = Some((revision, session.as_ref().map(|(_, revision)| *revision)));
            let expected_sha256 = session.and_then(|(session, _)| session.delivered_sha256);
            let expected_sha256 = expected_sha256.filter(|_| mail.state.kind == MailKind::Verdict);
            let compared = expected_sha256
                .map_or(Ok(()), |promised| self.compare_text(session_id, &mail.delivery, &promised));
            match compared {
                Ok(()) => return Ok(Some((message, revision))),
                // a commit between the two reads replaces both rows; rows that differ twice were never equal
                Err(error) if before == seen => return Err(error),
                Err(_) => before = seen,
            }
        }
    }

    /// A mail with its revision, as [`Self::message`].
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn mail(&self, mail_id: &MailId) -> Result<Option<(OutboxMail, u64)>, StoreError> {
        let message = self.message(&mail_id.clone().into())?;
        Ok(message.and_then(|(message, revision)| match message {
            OutboxMessage::Mail(mail) => Some((mail, revision)),
            OutboxMessage::Webhook(_) => None,
        }))
    }

    /// The state of a message with its revision. Its content is not read, so that a damaged message can be removed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn message_state(&self, id: &MessageId) -> Result<Option<(MessageState, u64)>, StoreError> {
        self.message_head(&id.to_string())
    }

    /// Passes the states of the messages after `after` to `visit`, in the order of their ids; `only` those of a channel. Stops if
    /// `visit` returns false.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub fn visit_messages(
        &self,
        only: Option<MessageChannel>,
        after: Option<&MessageId>,
        mut visit: impl FnMut(MessageState) -> bool,
    ) -> Result<(), StoreError> {
        let mut cursor = after.map(ToString::to_string);
        if only == Some(MessageChannel::Webhook)
            && cursor.as_deref().is_none_or(|after| after < WebhookId::PREFIX)
        {
            // their ids follow one another: those of mails before them are not read
            cursor = Some(WebhookId::PREFIX.to_owned());
        }
        self.visit_names(OutboxMessage::TABLE.name, cursor, |names| {
            let is_meant =
                |name: &String| only.is_none() || name.parse().ok().map(|id: MessageId| id.channel()) == only;
            if only == Some(MessageChannel::Webhook)
                && !names.iter().any(|name| name.starts_with(WebhookId::PREFIX))
            {
                return Ok(false);
            }
            for name in names.into_iter().filter(is_meant) {
                let state = match self.message_head(&name) {
                    Ok(Some((state, _))) => state,
                    // the message was sent meanwhile
                    Ok(None) => continue,
                    // it must not keep the others from being sent
                    Err(error @ (StoreError::Corrupt { .. } | StoreError::RowLost { .. })) => {
                        tracing::error!(%error, name, "a message of the outbox is damaged, and is skipped");
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                if !visit(state) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// The number of webhooks in the outbox.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub fn count_webhooks(&self) -> Result<u64, StoreError> {
        let names = with_prefix(OutboxMessage::TABLE.name, WebhookId::PREFIX);
        Ok(self.names(names, .., usize::MAX)?.len() as u64)
    }

    /// The webhooks of a session.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub fn webhooks_of(&self, session_id: &SessionId) -> Result<Vec<MessageId>, StoreError> {
        let mut webhooks = Vec::new();
        self.visit_messages(Some(MessageChannel::Webhook), None, |state| {
            if state.session_id() == Some(session_id) {
                webhooks.push(state.entry().message_id);
            }
            true
        })?;
        Ok(webhooks)
    }

    fn message_head(&self, name: &str) -> Result<Option<(MessageState, u64)>, StoreError> {
        let table = OutboxMessage::TABLE;
        let head = self.parse::<StoredMessageHead>(table, name, self.value(table, name)?)?;
        Ok(head.map(|(head, revision)| (head.into(), revision)))
    }
}

/// The sessions that have or had an address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionsWithAddress {
    /// Those that have it now.
    pub present: BTreeSet<SessionId>,
    /// Those that were removed, whose data are left in the segments.
    pub removed: BTreeSet<SessionId>,
    /// Those that had it before it was corrected.
    pub corrected: BTreeSet<SessionId>,
}

impl Store {
    /// A session, with its revision.
    pub fn session(&self, session_id: &SessionId) -> Result<Option<(SessionRecord, u64)>, StoreError> {
        self.get(session_id)
    }

    /// The present revision of a session, for a record that depends on it; `None` if there is no such session.
    pub fn session_expectation(&self, session_id: &SessionId) -> Result<Option<RowExpectation>, StoreError> {
        let session = self.session(session_id)?;
        Ok(session.map(|(_, revision)| RowExpectation::new::<SessionRecord>(session_id, Some(revision))))
    }

    /// Whether there is a session with this id, or a rejected verdict of an unknown one, even if the row is lost.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn has_session_data(&self, session_id: &SessionId) -> Result<bool, StoreError> {
        Ok(self.session_rows(session_id)?.latest().is_some())
    }

    /// The cached verdict of a session, with its revision. It is judged again when it is read, and its text is compared
    /// with the SHA-256 in its session.
    pub fn verdict(&self, session_id: &SessionId) -> Result<Option<(VerdictDelivery, u64)>, StoreError> {
        Ok(self.verdict_and_session(session_id)?.0)
    }

    /// The cached verdict of a session as [`Self::verdict`], and the session, each with its revision.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn verdict_and_session(
        &self,
        session_id: &SessionId,
    ) -> Result<(RevisedRow<VerdictDelivery>, RevisedRow<SessionRecord>), StoreError> {
        let name = session_id.as_str();
        let mut bundle = self.bundle(VerdictDelivery::TABLE, name)?;
        let [verdict, session] =
            [VerdictDelivery::TABLE, SessionRecord::TABLE].map(|table| bundle.set(table, None));
        let verdict = self.parse::<VerdictDelivery>(VerdictDelivery::TABLE, name, verdict)?;
        let session = self.parse::<SessionRecord>(SessionRecord::TABLE, name, session)?;
        let expected_sha256 = session.as_ref().and_then(|(session, _)| session.cached_sha256.as_ref());
        if let (Some((delivery, _)), Some(expected)) = (&verdict, expected_sha256) {
            self.compare_text(session_id, delivery, expected)?;
        }
        Ok((verdict, session))
    }

    /// The SHA-256 of the cached verdict of a session and its revision, for its removal. The SHA-256 is
    /// `None` if the stored verdict is damaged.
    pub fn verdict_for_removal(
        &self,
        session_id: &SessionId,
    ) -> Result<Option<(Option<Sha256Hex>, u64)>, StoreError> {
        match self.verdict(session_id) {
            Err(error @ (StoreError::Corrupt { .. } | StoreError::RowLost { .. })) => {
                tracing::warn!(%session_id, %error, "the verdict to be removed is damaged");
                let row = self.value(VerdictDelivery::TABLE, session_id.as_str())?;
                Ok(row.map(|verdict| (None, verdict.revision)))
            }
            found => Ok(found?.map(|(delivery, at)| (Some(delivery.approved.sha256().clone()), at))),
        }
    }

    /// Compares the text of a verdict with the SHA-256 stored in its session.
    pub(crate) fn compare_text(
        &self,
        session_id: &SessionId,
        delivery: &VerdictDelivery,
        expected_sha256: &Sha256Hex,
    ) -> Result<(), StoreError> {
        let found = delivery.approved.sha256();
        if found == expected_sha256 {
            return Ok(());
        }
        let detail = format!(
            "the text of a verdict of session {session_id} has the SHA-256 {found}, its session has {expected_sha256}"
        );
        Err(StoreError::Corrupt { dir: self.dir().to_owned(), detail })
    }

    /// The sessions that have or had this address (upper and lower case are equal). Reads all segments, since they have the removed
    /// sessions and the earlier versions of the others.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn sessions_with_address(&self, address: &CustomerEmail) -> Result<SessionsWithAddress, StoreError> {
        let address = address.as_str().to_lowercase();
        let has_address = |session: &SessionRecord| {
            session.customer_email.as_ref().is_some_and(|found| found.as_str().to_lowercase() == address)
        };
        let mut ever: BTreeSet<SessionId> = BTreeSet::new();
        visit_rows(self, |batch| {
            let stored_in = stored_in(SessionRecord::TABLE);
            for (name, _) in rows::changed(batch, stored_in) {
                let Some(Some(row)) = rows::get_from(batch, stored_in, name) else { continue };
                let bundle = Bundle::from_bytes(self.dir(), &row)?;
                let Some(session) = bundle.row(SessionRecord::TABLE) else { continue };
                let corrupt = |error: serde_json::Error| StoreError::Corrupt {
                    dir: self.dir().to_owned(),
                    detail: format!("the session {}: {error}", String::from_utf8_lossy(name)),
                };
                // a lost one has no address
                if session.value.is_empty() {
                    continue;
                }
                let session: SessionRecord = serde_json::from_slice(&session.value).map_err(corrupt)?;
                if has_address(&session) {
                    ever.insert(session.session_id);
                }
            }
            Ok(())
        })?;
        let mut found = SessionsWithAddress::default();
        for session_id in ever {
            // a lost one may have the address
            let session = match self.session(&session_id) {
                Err(StoreError::RowLost { .. }) => {
                    found.present.insert(session_id);
                    continue;
                }
                session => session?,
            };
            match session {
                Some((session, _)) if !has_address(&session) => found.corrected.insert(session_id),
                Some(_) => found.present.insert(session_id),
                None => found.removed.insert(session_id),
            };
        }
        Ok(found)
    }
}

/// The verdict of a session, as it was after the commit of `rows`. `None` if the group did not store one, or it was erased.
///
/// # Errors
/// `Corrupt` if the row is malformed.
pub fn committed_verdict(
    rows: &CommittedRows<'_>,
    session_id: &SessionId,
) -> Result<Option<StoredVerdict>, StoreError> {
    let (session, verdict) = (SessionRecord::TABLE, VerdictDelivery::TABLE);
    let Some(row) = rows.stored(verdict, session_id.as_str()) else { return Ok(None) };
    let malformed = |error: &dyn Display| StoreError::Corrupt {
        dir: rows.dir().to_owned(),
        detail: format!("the row of session {session_id}: {error}"),
    };
    let row = row.ok_or_else(|| malformed(&"a chunk is missing"))?;
    let bundle = Bundle::from_bytes(rows.dir(), &row)?;
    let Some(StoredValue { revision, value }) = bundle.row(verdict) else { return Ok(None) };
    // a later session may have another original than the one that the verdict was compared with
    let session = bundle.row(session).filter(|session| session.revision <= *revision);
    let session = session.map(|session| serde_json::from_slice(&session.value)).transpose();
    let session = session.map_err(|error| malformed(&error))?;
    StoredVerdict::read(value, session).map(Some).map_err(|error| malformed(&error))
}

#[cfg(test)]
mod tests;
