//! Entries of the log that cannot be read.

use crate::testing::{GOOD, TestSystem, id, with_system};
use actors_verdict::what_if::WhatIfQuery;
use domain_base::event::{AuditEvent, EntryMembers, Event, EventClass};
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_rules::event::RulesEvaluated;
use domain_verdict::crosscheck::{UnexpectedFieldHandling, judge_with};
use domain_verdict::event::{CrosscheckEntry, TmmCrosscheck};
use domain_verdict::label::ProductTier;
use domain_verdict::policy::DeliveryPolicies;
use domain_verdict::query::CustomerQuery;
use domain_verdict::recall::{STATEMENTS, UnknownCause};
use domain_verdict::what_if::{NotCalculatedCause, NotCalculatedCount};
use oracled_store::JournalRecord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// An entry with the name of an evaluation, and without its members.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
struct BrokenEvaluation {}

impl Event for BrokenEvaluation {
    const NAME: &'static str = RulesEvaluated::NAME;
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(_: EntryMembers<'_>) -> String {
        String::new()
    }
}

#[test]
fn backtest_and_index_of_recalls_count_entries_that_cannot_be_read() {
    with_system(|TestSystem { system, .. }| async move {
        let (now, query) = (system.clock.now(), CustomerQuery::new("Sell honey?".into()));
        let unexpected_fields = UnexpectedFieldHandling::Strip;
        let judgment = judge_with(unexpected_fields, ProductTier::Quick, VerdictPayload::raw(GOOD));
        let judged = TmmCrosscheck(CrosscheckEntry::of(&judgment, &query, GatePath::Submit));
        let events = vec![
            AuditEvent::new(now, id("cs_1"), judged),
            AuditEvent::new(now, id("cs_1"), BrokenEvaluation {}),
        ];
        let record = JournalRecord { events, ..JournalRecord::default() };
        system.log.commit(record).await.expect("the commit succeeds");
        let last = system.store.last_seq();

        let applied = system.recalls.catch_up(Duration::from_secs(5)).expect("the index is built");
        let mut damaged = BTreeSet::new();
        let visit = |_: &str, entries: &BTreeSet<u64>| {
            damaged.extend(entries.clone());
            Ok(())
        };
        system.store.postings(STATEMENTS).visit(&UnknownCause::Damaged.name(None), visit).expect("readable");
        assert_eq!((applied, damaged), (last, BTreeSet::from([last])));

        let query = WhatIfQuery {
            unexpected_fields,
            policies: DeliveryPolicies::default(),
            rules: None,
            wordlist: None,
            facts_as_of: None,
            since: None,
            tier: None,
        };
        let turn = system.what_if.wait_for_turn().await;
        let counts = system.what_if.run(&turn, &query, last, |_| true).expect("the rest is calculated");
        let counts = counts.expect("it was not ended");
        let damaged = NotCalculatedCount { cause: NotCalculatedCause::Damaged, decisions: 1 };
        assert_eq!((counts.unreadable_entries, counts.not_calculated()), (1, vec![damaged]));
    });
}
