//! The card of a delivered verdict: `GET /v1/verdicts/{session_id}?card=1`.

use super::proof::{DeliveredText, no_delivery, prove_lines};
use crate::audit::checkpoints::CheckpointsSection;
use crate::ground::api::read_raw_text;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking};
use actors_verdict::submission::CachedVerdict;
use axum::response::{IntoResponse, Response};
use domain_audit::event::SessionErased;
use domain_base::digest::Sha256Hex;
use domain_base::event::{Event, read_open};
use domain_base::gate_path::GatePath;
use domain_base::session_id::SessionId;
use domain_rules::event::RulesEvaluated;
use domain_verdict::card::VerdictCard;
use domain_verdict::event::{
    OrderAttempted, PolicyApplied, RegenAttempted, RegenDivergenceCheck, TmmCrosscheck, VerdictCached,
};
use domain_verdict::opinion::OrderOpinion;
use hyper::header::CONTENT_TYPE;
use oracled_store::{LogLine, LogQuery, StoreError};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The members by which the entries of a card are selected.
#[derive(Default, Deserialize)]
struct EntryOfCard {
    event: String,
    #[serde(default)]
    attempt: Option<u32>,
    #[serde(default, deserialize_with = "read_open")]
    verdict_sha256: Option<Sha256Hex>,
    /// The SHA-256 of an evaluation, or an object in its place if it was erased.
    #[serde(default)]
    evaluation_sha256: Option<Value>,
    #[serde(default)]
    path: Option<GatePath>,
}

/// The text of a delivered verdict, and the SHA-256 of its evaluation.
struct CardVerdict {
    text: String,
    sha256: Sha256Hex,
    evaluation_sha256: Option<Sha256Hex>,
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
        let DeliveredText { verdict, evaluation_sha256 } =
            document.expect("the document of a delivery has its verdict");
        let text = verdict.get().to_owned();
        CardVerdict { sha256: Sha256Hex::of(text.as_bytes()), text, evaluation_sha256 }
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

/// The last delivery of the verdict among the entries of its session, with the entries about it. `None` if there is none.
fn select_entries(lines: Vec<LogLine>, verdict: Option<&CardVerdict>) -> Option<Vec<LogLine>> {
    // an entry of another form is none of them
    let read = |line: &LogLine| serde_json::from_str(&line.json).unwrap_or_default();
    let entries: Vec<EntryOfCard> = lines.iter().map(read).collect();
    let is_delivery = |entry: &EntryOfCard| {
        let is_it = verdict.is_none_or(|verdict| entry.verdict_sha256.as_ref() == Some(&verdict.sha256));
        entry.event == VerdictCached::NAME && is_it
    };
    let at = entries.iter().rposition(is_delivery)?;
    let (before, after) = entries.split_at_checked(at)?;
    let (delivered, after) = after.split_first()?;
    let last = |name: &str, fits: &dyn Fn(&EntryOfCard) -> bool| {
        before.iter().rposition(|entry| entry.event == name && fits(entry))
    };
    let is_same_text = |entry: &EntryOfCard| entry.verdict_sha256 == delivered.verdict_sha256;
    let decided = last(TmmCrosscheck::NAME, &is_same_text);
    let evaluation = verdict.and_then(|verdict| verdict.evaluation_sha256.as_ref()).map(Sha256Hex::as_str);
    let is_evaluation = |entry: &EntryOfCard| entry.event == RulesEvaluated::NAME;
    let evaluated = match verdict {
        // the entry of a delivery without facts names no evaluation
        _ if delivered.evaluation_sha256.is_none() => None,
        Some(_) => before.iter().rposition(|entry| {
            let own = entry.evaluation_sha256.as_ref().and_then(Value::as_str);
            is_evaluation(entry) && own.is_some() && own == evaluation
        }),
        // the evaluation of an erased verdict is in the record of its crosscheck
        None => decided.and_then(|decided| {
            let next = before.iter().skip(decided).position(is_evaluation)?;
            Some(decided + next)
        }),
    };
    let attempted = match delivered.path {
        // with several opinions, an earlier attempt made the answer that is delivered
        Some(GatePath::Generate) => {
            let is_its_opinion =
                |entry: &&EntryOfCard| entry.event == OrderOpinion::NAME && is_same_text(entry);
            let opinion = before.iter().find(is_its_opinion).and_then(|entry| entry.attempt);
            last(OrderAttempted::NAME, &|entry| opinion.is_none() || entry.attempt == opinion)
        }
        Some(GatePath::Regen) => last(RegenAttempted::NAME, &|_| true),
        _ => None,
    };
    // a comparison is in the commit of its delivery
    let commit = after.iter().take_while(|entry| entry.event != VerdictCached::NAME);
    let compared = commit.map(|entry| entry.event == RegenDivergenceCheck::NAME).position(|is_it| is_it);
    let compared = compared.map(|offset| at + 1 + offset);
    let policy = last(PolicyApplied::NAME, &is_same_text);
    let chosen = [attempted, decided, evaluated, policy, Some(at), compared];
    let is_chosen = |index: &usize| chosen.contains(&Some(*index));
    Some(lines.into_iter().enumerate().filter(|(index, _)| is_chosen(index)).map(|(_, line)| line).collect())
}
