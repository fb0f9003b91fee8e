//! Backtest: calculates the decisions of the log again, from stored inputs. It writes nothing.

use crate::recall::RecallSearch;
use domain_ground::id::SourceId;
use domain_rules::sourced::SourcedFactOrigin;
use domain_rules::wordlist::CompiledWordlist;
use domain_rules::{CandidateCheck, RuleId, RuleSettings};
use domain_verdict::crosscheck::UnexpectedFieldHandling;
use domain_verdict::label::ProductTier;
use domain_verdict::policy::DeliveryPolicies;
use domain_verdict::recall::with_replaced_facts;
use domain_verdict::what_if::{
    CalculatedDecision, GateDecisionReader, LoggedGateDecision, NotCalculatedCause, StoredInputs,
    WhatIfCounts, WhatIfGate, WhatIfProgress,
};
use jiff::Timestamp;
use oracled_store::ground::view::SourceView;
use oracled_store::{LogQuery, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::{self, available_parallelism};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The gate, and the decisions that are calculated.
#[derive(Debug, Clone)]
pub struct WhatIfQuery {
    pub unexpected_fields: UnexpectedFieldHandling,
    pub policies: DeliveryPolicies,
    /// The rules in place of those of each request with facts.
    pub rules: Option<Vec<RuleId>>,
    /// The word list in place of that of each request with facts.
    pub wordlist: Option<Arc<CompiledWordlist>>,
    /// The time as of which sources state the facts.
    pub facts_as_of: Option<Timestamp>,
    pub since: Option<Timestamp>,
    pub tier: Option<ProductTier>,
}

/// Waits for its turn: one calculation runs at a time.
#[derive(Debug)]
pub struct WhatIfTurn(#[expect(dead_code, reason = "dropped at the end of the turn")] OwnedMutexGuard<()>);

/// The service. Clones share the turn.
#[derive(Debug, Clone)]
pub struct WhatIfService {
    store: Store,
    settings: RuleSettings,
    turn: Arc<Mutex<()>>,
}

impl WhatIfService {
    #[must_use]
    pub fn new(store: Store, settings: RuleSettings) -> Self {
        Self { store, settings, turn: Arc::default() }
    }

    /// Waits until no other calculation runs.
    pub async fn wait_for_turn(&self) -> WhatIfTurn {
        WhatIfTurn(Arc::clone(&self.turn).lock_owned().await)
    }

    /// Calculates the decisions up to the entry `up_to`. Blocks on disk reads. One processor is left to the gate. `report` returns
    /// false to end the calculation, which then has no counts.
    ///
    /// # Errors
    /// The log or the sources cannot be read. Single entries and rows that are damaged only count as such, unless the search for the first
    /// entry since a time meets them.
    pub fn run(
        &self,
        _turn: &WhatIfTurn,
        query: &WhatIfQuery,
        up_to: u64,
        mut report: impl FnMut(WhatIfProgress) -> bool,
    ) -> Result<Option<WhatIfCounts>, StoreError> {
        let gate = WhatIfGate {
            unexpected_fields: query.unexpected_fields,
            policies: &query.policies,
            rules: query.rules.as_deref(),
            wordlist: query.wordlist.clone(),
            changes_checks: query.rules.is_some() || query.wordlist.is_some() || query.facts_as_of.is_some(),
            settings: &self.settings,
        };
        let views = self.views(query.facts_as_of)?;
        let calculation = WhatIfCalculation { store: &self.store, gate, views, as_of: query.facts_as_of };
        let (mut counts, mut reader) = (WhatIfCounts::default(), GateDecisionReader::default());
        let all = LogQuery { limit: usize::MAX, skips_unreadable: true, ..LogQuery::default() };
        let mut next = Some(LogQuery { since: query.since, ..all });
        let (mut first_entry, mut entry) = (None, 0);
        while let Some(query_of_page) = next {
            let page = self.store.log_page(&query_of_page)?;
            next = page.next.filter(|next| next.after < up_to);
            let mut decisions = Vec::new();
            let lines = page.lines.iter().map(|line| (line.seq, Some(line.json.as_str())));
            let unreadable = page.unreadable.iter().map(|seq| (*seq, None));
            let entries: BTreeMap<_, _> = lines.chain(unreadable).filter(|(seq, _)| *seq <= up_to).collect();
            for (seq, line) in entries {
                if let Some(Ok(decision)) = line.map(|line| reader.read(line)) {
                    decisions.extend(decision);
                } else {
                    decisions.extend(reader.skip(line));
                    counts.unreadable_entries += 1;
                }
                first_entry.get_or_insert(seq);
                entry = seq;
            }
            if next.is_none() {
                decisions.extend(std::mem::take(&mut reader).finish());
            }
            decisions.retain(|decision| query.tier.is_none_or(|tier| decision.tier == tier));
            counts.append(calculation.count(&decisions)?);
            let first_entry = first_entry.unwrap_or(up_to);
            let decisions = counts.decisions();
            if !report(WhatIfProgress { decisions, first_entry, entry, up_to_entry: up_to }) {
                return Ok(None);
            }
        }
        if counts.unreadable_entries > 0 {
            let entries = counts.unreadable_entries;
            tracing::error!(entries, "a backtest has left out entries of the log that cannot be read");
        }
        Ok(Some(counts))
    }

    /// The sources, if their facts of another day are asked for; `None` for those that cannot be read.
    fn views(
        &self,
        facts_as_of: Option<Timestamp>,
    ) -> Result<BTreeMap<SourceId, Option<Arc<SourceView>>>, StoreError> {
        let oracle_ids = if facts_as_of.is_some() { self.store.source_ids()? } else { Vec::new() };
        let mut views = BTreeMap::new();
        for oracle_id in oracle_ids {
            let view = match self.store.view(&oracle_id) {
                Err(error) if error.is_of_one_row() => Some(None),
                view => view?.map(Some),
            };
            views.extend(view.map(|view| (oracle_id, view)));
        }
        Ok(views)
    }
}

/// A calculation, which several threads share.
struct WhatIfCalculation<'c> {
    store: &'c Store,
    gate: WhatIfGate<'c>,
    /// `None` for sources that cannot be read.
    views: BTreeMap<SourceId, Option<Arc<SourceView>>>,
    as_of: Option<Timestamp>,
}

/// The sources with the versions that were in force, each read at its first use.
type SearchedSources<'s> = BTreeMap<&'s SourceId, RecallSearch<'s>>;

impl WhatIfCalculation<'_> {
    /// Calculates decisions on several threads.
    fn count(&self, decisions: &[LoggedGateDecision]) -> Result<WhatIfCounts, StoreError> {
        let threads = available_parallelism().map_or(1, NonZero::get).saturating_sub(1).max(1);
        let part = decisions.len().div_ceil(threads).max(1);
        let mut counts = WhatIfCounts::default();
        thread::scope(|scope| {
            let parts = decisions.chunks(part).map(|part| scope.spawn(|| self.count_part(part)));
            for running in parts.collect::<Vec<_>>() {
                counts.append(running.join().unwrap_or_else(|panic| resume_unwind(panic))?);
            }
            Ok(counts)
        })
    }

    fn count_part(&self, decisions: &[LoggedGateDecision]) -> Result<WhatIfCounts, StoreError> {
        let (mut counts, mut sources) = (WhatIfCounts::default(), SearchedSources::new());
        for logged in decisions {
            let calculated = catch_unwind(AssertUnwindSafe(|| self.calculate(logged, &mut sources)));
            let calculated = match calculated {
                Ok(Err(error)) if error.is_of_one_row() => Err(NotCalculatedCause::Damaged),
                Ok(calculated) => calculated?,
                Err(_) => Err(NotCalculatedCause::InternalError),
            };
            counts.add(logged, calculated);
        }
        Ok(counts)
    }

    fn calculate<'s>(
        &'s self,
        logged: &LoggedGateDecision,
        sources: &mut SearchedSources<'s>,
    ) -> Result<Result<CalculatedDecision, NotCalculatedCause>, StoreError> {
        let Some(session_id) = &logged.session_id else { return Ok(Err(NotCalculatedCause::Erased)) };
        let (delivery, session) = self.store.verdict_and_session(session_id)?;
        let mut stored = StoredInputs {
            delivery: delivery.map(|(delivery, _)| delivery),
            session: session.map(|(session, _)| session),
            ..StoredInputs::default()
        };
        if logged.can_have_check() {
            stored.check = stored.session.as_ref().and_then(|session| session.check.clone());
            if stored.session.is_none() {
                stored.check = self.store.rejecting_check(session_id)?.map(|(rejecting, _)| rejecting.check);
            }
        }
        if let (Some(as_of), Some(check)) = (self.as_of, &stored.check) {
            stored.check_on_day = Some(self.check_on_day(check, as_of, sources)?);
        }
        Ok(self.gate.calculate(logged, &stored))
    }

    /// `check` with the facts that its sources stated as of a time, about the same records.
    fn check_on_day<'s>(
        &'s self,
        check: &CandidateCheck,
        as_of: Timestamp,
        sources: &mut SearchedSources<'s>,
    ) -> Result<Result<CandidateCheck, NotCalculatedCause>, StoreError> {
        let mut oracle_ids = BTreeSet::new();
        for origin in check.facts_from.iter().flat_map(|source| &source.origins) {
            match &origin.origin {
                SourcedFactOrigin::Record(record) => oracle_ids.insert(&record.oracle_id),
                SourcedFactOrigin::Verification(_) => return Ok(Err(NotCalculatedCause::Verification)),
            };
        }
        let mut replaced = BTreeMap::new();
        for oracle_id in oracle_ids {
            let Some((oracle_id, view)) = self.views.get_key_value(oracle_id) else {
                return Ok(Err(NotCalculatedCause::FactsNotStored));
            };
            let Some(view) = view else { return Ok(Err(NotCalculatedCause::Damaged)) };
            // a request on that day would have been refused
            if view.state.completed.iter().all(|run| run.release.ingested_at > as_of) {
                return Ok(Err(NotCalculatedCause::NoRelease));
            }
            let search = sources.entry(oracle_id);
            let search = search.or_insert_with(|| RecallSearch::as_of(self.store, view, as_of));
            let Some(facts) = search.known_facts(check)? else {
                return Ok(Err(NotCalculatedCause::FactsNotStored));
            };
            replaced.extend(facts);
        }
        Ok(Ok(with_replaced_facts(check, &replaced)))
    }
}
