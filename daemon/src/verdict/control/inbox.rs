//! Held orders, drafted notices and dead letters in the inbox.

use crate::platform::inbox::InboxKind;
use domain_base::inbox::{ITEMS_PER_KIND, InboxImportance, WaitingItem};
use domain_base::session_id::SessionId;
use domain_base::text_form::encode_segment;
use domain_verdict::mail::{MailKind, MailState};
use domain_verdict::order::OrderState;
use domain_verdict::outbox::{MessageChannel, MessageState};
use domain_verdict::recall_notice::RecallNotice;
use oracled_store::{Store, StoreError};

const HELD_ORDER: &str = "held_order";
const RECALL_NOTICE: &str = "recall_notice";
const DEAD_MAIL: &str = "dead_mail";
const DEAD_WEBHOOK: &str = "dead_webhook";

/// The kinds of items that reviewers decide.
pub(crate) const REVIEW_INBOX: &[InboxKind] = &[
    InboxKind { name: HELD_ORDER, read: read_held_orders },
    InboxKind { name: RECALL_NOTICE, read: read_recall_notices },
];

/// The further kinds of items of the feature.
pub(crate) const INBOX: &[InboxKind] = &[
    InboxKind { name: DEAD_MAIL, read: |store| read_dead_letters(store, MessageChannel::Mail) },
    InboxKind { name: DEAD_WEBHOOK, read: |store| read_dead_letters(store, MessageChannel::Webhook) },
];

/// The page of a held verdict with its decision, or that of the session.
fn order_link(session_id: &SessionId, has_verdict: bool) -> String {
    let page = if has_verdict { "/held" } else { "" };
    format!("/sessions/{}{page}", encode_segment(session_id.as_str()))
}

fn read_held_orders(store: &Store) -> Result<Vec<WaitingItem>, StoreError> {
    let sessions = store.oldest_orders(OrderState::Held, ITEMS_PER_KIND)?.into_iter();
    let item = |session: domain_verdict::session::SessionRecord| {
        let order = session.order?;
        Some(WaitingItem {
            kind: HELD_ORDER.to_owned(),
            // without the query: who reads that of a held verdict is in the log
            title: format!("Verdict of {}, {}", session.session_id, session.tier.into_str()),
            cause: order.reason().unwrap_or_default(),
            importance: InboxImportance::Customer,
            since: order.changed_at,
            sources: Vec::new(),
            link: order_link(&session.session_id, order.is_held_by_policy()),
            id: session.session_id.to_string(),
        })
    };
    Ok(sessions.filter_map(item).collect())
}

fn read_recall_notices(store: &Store) -> Result<Vec<WaitingItem>, StoreError> {
    let mut items = Vec::new();
    store.visit_recall_notices(None, |notice, _| {
        items.push(recall_notice(&notice));
        items.len() < ITEMS_PER_KIND
    })?;
    Ok(items)
}

fn recall_notice(notice: &RecallNotice) -> WaitingItem {
    let sources: Vec<_> = notice.recalls.iter().map(|recall| recall.oracle_id.to_string()).collect();
    let result: &str = notice.result().into();
    let id = notice.session_id.to_string();
    WaitingItem {
        kind: RECALL_NOTICE.to_owned(),
        title: format!("Notice about the verdict of {id}"),
        cause: format!("{}: {}", result.replace('_', " "), sources.join(", ")),
        importance: InboxImportance::Customer,
        since: notice.drafted_at,
        sources,
        link: format!("/notices/{}", encode_segment(&id)),
        id,
    }
}

fn read_dead_letters(store: &Store, channel: MessageChannel) -> Result<Vec<WaitingItem>, StoreError> {
    let mut items = Vec::new();
    store.visit_messages(Some(channel), None, |state| {
        if state.tries().is_dead() {
            items.push(dead_letter(state));
        }
        items.len() < ITEMS_PER_KIND
    })?;
    Ok(items)
}

fn dead_letter(state: MessageState) -> WaitingItem {
    let tries = state.tries();
    let (since, cause) = (tries.tried_at.unwrap_or(tries.queued_at), tries.last_error.clone());
    let (kind, id, title, importance, link) = match state {
        MessageState::Mail(MailState { mail_id, kind, session_id, .. }) => {
            let what = match kind {
                MailKind::Verdict => "Verdict mail",
                MailKind::DivergenceNotice => "Notice of another verdict",
                MailKind::RecallNotice => "Notice of a recall",
            };
            let title = format!("{what}, session {session_id}");
            let link = format!("/dead/outbox/{}", encode_segment(mail_id.as_str()));
            (DEAD_MAIL, mail_id.to_string(), title, InboxImportance::Customer, link)
        }
        MessageState::Webhook(webhook) => {
            let title = webhook.describe();
            let id = webhook.webhook_id.to_string();
            let link = format!("/dead/webhooks/{}", encode_segment(&id));
            (DEAD_WEBHOOK, id, title, InboxImportance::Operation, link)
        }
    };
    WaitingItem {
        kind: kind.to_owned(),
        id,
        title,
        cause: cause.unwrap_or_default().reveal().to_owned(),
        importance,
        since,
        sources: Vec::new(),
        link,
    }
}
