//! The card of a delivered verdict: `GET /v1/verdicts/{session_id}?card=1`.

use super::proof::{DeliveredText, no_delivery, prove_lines};
use crate::audit::checkpoints::CheckpointsSection;
use crate::ground::api::read_raw_text;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking};
use actors_verdict::submission::CachedVerdict;
use axum::response::{IntoResponse, Response};
use domain_audit::event::SessionErased;
use domain_audit::leaf::EntryLink;
use domain_base::digest::Sha256Hex;
use domain_base::event::{Event, read_open};
use domain_base::session_id::SessionId;
use domain_rules::event::RulesEvaluated;
use domain_verdict::card::VerdictCard;
use domain_verdict::event::{OrderReleased, OrderStopped, VerdictCached};
use hyper::header::CONTENT_TYPE;
use oracled_store::{LogLine, LogQuery, StoreError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The members by which the entries of a card are selected.
#[derive(Default, Deserialize)]
struct EntryOfCard {
    event: String,
    #[serde(default, deserialize_with = "read_open")]
    verdict_sha256: Option<Sha256Hex>,
    #[serde(default, deserialize_with = "read_open")]
    links: Option<Vec<EntryLink>>,
    /// The SHA-256 of an evaluation, also in the place of an erased one.
    #[serde(default)]
    evaluation_sha256: Option<IgnoredAny>,
}

/// The text of a delivered verdict.
struct CardVerdict {
    text: String,
    sha256: Sha256Hex,
}

/// Whether the data of the session were erased, and nothing was stored about it since.
pub(super) async fn is_erased(service: &Arc<DaemonService>, session_id: &SessionId) -> Result<bool, Problem> {
    let (store, id) = (service.system.store.clone(), session_id.clone());
    let read = move || -> Result<bool, StoreError> {
        let erased = LogQuery { limit: 1, newest: true, ..of_session(&id, Some(SessionErased::NAME)) };
        Ok(store.session(&id)?.is_none() && !store.log(&erased)?.is_empty())
    };
    run_blocking(read).await
}

/// The card of a session; `cached` is its verdict, unless it was erased.
pub(super) async fn read_card(
    service: &Arc<DaemonService>,
    session_id: SessionId,
    cached: Option<&CachedVerdict>,
) -> Result<Response, Problem> {
    let verdict = cached.map(|cached| {
        let document = serde_json::from_slice(&cached.body);
        let DeliveredText { verdict } = document.expect("the document of a delivery has its verdict");
        let text = verdict.get().to_owned();
        CardVerdict { sha256: Sha256Hex::of(text.as_bytes()), text }
    });
    let (reading, id) = (Arc::clone(service), session_id.clone());
    let mut card = run_blocking(move || prove_card(&reading, &id, verdict)).await?;
    let raw_records = read_raw_records(service, &card).await?;
    let session = service.system.store.session(&session_id)?;
    if let Some(check) = session.and_then(|(session, _)| session.check) {
        let facts = || check.facts_from.iter().flat_map(|source| source.facts());
        let find = |sha256: &str| {
            let fact = facts().find(|fact| Sha256Hex::of(fact.text.as_bytes()).as_str() == sha256);
            fact.map(|fact| fact.text.clone())
        };
        card.add_facts(&check.facts, find, &raw_records);
    }
    Ok(([(CONTENT_TYPE, "text/html; charset=utf-8")], card.render()).into_response())
}

/// The raw records of the statements on which the evaluation relied, by the ids of their records. Those that were pruned or cannot be
/// read are missing.
async fn read_raw_records(
    service: &Arc<DaemonService>,
    card: &VerdictCard,
) -> Result<BTreeMap<String, String>, Problem> {
    let mut found = BTreeMap::new();
    for record_id in card.relied_on() {
        let Ok(provenance) = service.system.queries.recorded_provenance(&record_id).await else { continue };
        let store = service.system.store.clone();
        let raw = run_blocking(move || Ok::<_, Problem>(read_raw_text(&store, &provenance).ok().flatten()));
        found.extend(raw.await?.map(|raw| (record_id, raw)));
    }
    Ok(found)
}

/// The card with its entries and their proof.
fn prove_card(
    service: &DaemonService,
    session_id: &SessionId,
    verdict: Option<CardVerdict>,
) -> Result<VerdictCard, Problem> {
    let store = &service.system.store;
    let lines = store.log(&of_session(session_id, None))?;
    let Some(lines) = select_entries(lines, verdict.as_ref()) else {
        return Err(no_delivery(store.first_seq()?));
    };
    let bundle = prove_lines(service, lines)?;
    let witnesses = service.section::<CheckpointsSection>().cosigning_keys(&bundle.checkpoint);
    let key = service.log_signer.key().to_string();
    Ok(VerdictCard::new(bundle, key, witnesses, verdict.map(|verdict| verdict.text)))
}

fn of_session(session_id: &SessionId, event: Option<&str>) -> LogQuery {
    let (session, events) = (Some(session_id.clone()), event.map(str::to_owned).into_iter().collect());
    LogQuery { session, events, limit: usize::MAX, ..LogQuery::default() }
}

/// The last delivery of the verdict among the entries of its session, the entries that it names, and those that name it. `None` if there is
/// none.
fn select_entries(lines: Vec<LogLine>, verdict: Option<&CardVerdict>) -> Option<Vec<LogLine>> {
    // an entry of another form is none of them
    let read = |line: LogLine| (serde_json::from_str(&line.json).unwrap_or_default(), line);
    let entries: Vec<(EntryOfCard, LogLine)> = lines.into_iter().map(read).collect();
    let is_delivery = |(entry, _): &&(EntryOfCard, LogLine)| {
        let is_it = verdict.is_none_or(|verdict| entry.verdict_sha256.as_ref() == Some(&verdict.sha256));
        entry.event == VerdictCached::NAME && is_it
    };
    let (delivery, LogLine { seq: delivered, .. }) = entries.iter().rfind(is_delivery)?;
    let (named, delivered) = (delivery.links.clone().unwrap_or_default(), *delivered);
    let has_facts = delivery.evaluation_sha256.is_some();
    let is_chosen = |(entry, LogLine { seq, .. }): &(EntryOfCard, LogLine)| match &*entry.event {
        // they have the names of operators
        OrderStopped::NAME | OrderReleased::NAME => false,
        // the card of a delivery without facts has no part for an evaluation by the rules of the policy alone
        RulesEvaluated::NAME if !has_facts => false,
        _ => {
            let names = |links: &[EntryLink], seq: u64| links.iter().any(|link| link.seq == seq);
            *seq == delivered
                || names(&named, *seq)
                || names(entry.links.as_deref().unwrap_or_default(), delivered)
        }
    };
    Some(entries.into_iter().filter(is_chosen).map(|(_, line)| line).collect())
}
