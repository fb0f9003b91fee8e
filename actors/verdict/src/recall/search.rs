//! The search for delivered verdicts that relied on statements of a source that differ now.

use super::{RecallError, RecallScope};
use domain_base::digest::Sha256Hex;
use domain_base::event::LoggedEvent;
use domain_ground::id::SourceId;
use domain_ground::ontology::template::ParsedFactTemplate;
use domain_ground::record::RecordContent;
use domain_ground::run::split_record_id;
use domain_ground::source_state::CompletedRun;
use domain_ground::timeline::{ReleaseScope, VersionChangeKind, VisibleReleases};
use domain_rules::event::{RulesEntry, RulesEvaluated};
use domain_rules::references::StatementReference;
use domain_rules::sourced::{OriginFacts, SourcedFactOrigin};
use domain_rules::{CandidateCheck, RuleVerdict};
use domain_verdict::recall::{
    EvaluatedVerdict, NotEvaluatedCause, RecallResult, RecalledStatement, RecalledVerdict, ReliedStatement,
    STATEMENTS, StatementPart, UnknownCause, differs_on, has_fact, present_facts,
};
use domain_verdict::wire::UnknownReliance;
use jiff::Timestamp;
use oracled_store::ground::view::{FoundVersion, RecordStatements, SourceView};
use oracled_store::{LogLine, LogQuery, Postings, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// The number of changes of a run that are read at a time.
const PAGE_CHANGES: usize = 1000;
/// A search for verdicts that relied on statements of a source that differ now.
pub(crate) struct RecallSearch<'s> {
    store: &'s Store,
    postings: Postings<'s>,
    view: &'s SourceView,
    now: Timestamp,
    /// Only releases that were ingested at or before this time.
    known_at: Option<Timestamp>,
    /// Whether a present version was found whose content was pruned.
    found_pruned: bool,
    templates: Vec<ParsedFactTemplate<'s>>,
    /// The visible releases of questions about a time, or about the present, after a number of runs or after all of them.
    visible: BTreeMap<(Option<Timestamp>, Option<u32>), VisibleReleases>,
    /// The entries of the verdicts, and the names of the statements that differ.
    pub(super) entries: BTreeSet<u64>,
    differing: BTreeSet<String>,
    /// The entries of verdicts with statements whose content was pruned, so that it is not known whether they differ.
    pub(super) pruned: BTreeSet<u64>,
}

impl<'s> RecallSearch<'s> {
    pub(super) fn new(store: &'s Store, view: &'s SourceView, now: Timestamp) -> Self {
        Self {
            now: view.state.present(now),
            known_at: None,
            found_pruned: false,
            store,
            postings: store.postings(STATEMENTS),
            view,
            templates: ParsedFactTemplate::all(&view.ontology),
            visible: BTreeMap::new(),
            entries: BTreeSet::new(),
            differing: BTreeSet::new(),
            pruned: BTreeSet::new(),
        }
    }

    /// A search in which the present is the time `at`, as the source was known then.
    pub(crate) fn as_of(store: &'s Store, view: &'s SourceView, at: Timestamp) -> Self {
        Self { now: at, known_at: Some(at), ..Self::new(store, view, at) }
    }

    pub(super) const fn oracle_id(&self) -> &'s SourceId {
        self.view.state.entry.oracle_id()
    }

    pub(super) fn add_scope(&mut self, scope: &RecallScope) -> Result<(), RecallError> {
        let completed = &self.view.state.completed;
        match scope {
            RecallScope::Source => Ok(self.add_all()?),
            RecallScope::Record(record_id) => {
                let unknown = || RecallError::RecordUnknown {
                    oracle_id: self.oracle_id().clone(),
                    record_id: record_id.clone(),
                };
                let record = self.record(record_id)?.ok_or_else(unknown)?;
                Ok(self.add_record(&record, None)?)
            }
            RecallScope::Run(run_id) => {
                let run = completed.iter().rev().find(|run| run.run_id == *run_id);
                let run = run.ok_or_else(|| RecallError::RunUnknown(run_id.clone()))?;
                Ok(self.add_runs([run].into_iter())?)
            }
            RecallScope::Since(since) => {
                Ok(self.add_runs(completed.iter().filter(|run| run.release.ingested_at >= *since))?)
            }
        }
    }

    /// Adds the verdicts that relied on earlier statements about the records that `runs` have changed.
    fn add_runs(&mut self, runs: impl Iterator<Item = &'s CompletedRun>) -> Result<(), StoreError> {
        let mut changed: BTreeMap<Vec<u8>, (BTreeSet<u32>, RecordStatements)> = BTreeMap::new();
        for run in runs {
            let (run, mut after) = (run.release.run, None);
            loop {
                let page = self.view.changes(run, after, PAGE_CHANGES)?;
                after = page.last().map(|(ordinal, _)| *ordinal);
                // a new version replaces none that was relied on
                let replaced = page.iter().filter(|(_, entry)| entry.kind != VersionChangeKind::BecameValid);
                for (_, entry) in replaced {
                    if let Some(record) = self.view.record(entry.run, entry.position)? {
                        let (runs, _) =
                            changed.entry(record.key.clone()).or_insert_with(|| (BTreeSet::new(), record));
                        runs.insert(run);
                    }
                }
                if page.len() < PAGE_CHANGES {
                    break;
                }
            }
        }
        changed.values().try_for_each(|(runs, record)| self.add_record(record, Some(runs)))
    }

    /// Adds the verdicts that relied on statements about the record that differ now. With `runs`, only those that one of these runs
    /// has changed, and that are from before it.
    fn add_record(
        &mut self,
        record: &RecordStatements,
        runs: Option<&BTreeSet<u32>>,
    ) -> Result<(), StoreError> {
        for (index, statement) in record.statements.iter().enumerate() {
            let (run, position) = (statement.time.run, statement.position);
            let is_earlier = runs.is_none_or(|runs| runs.last().is_some_and(|last| run < *last));
            let Some(record_id) = self.view.record_id(run, position).filter(|_| is_earlier) else { continue };
            let mut relied_on = Vec::new();
            let prefix = ReliedStatement::prefix(self.oracle_id(), Some(&record_id));
            self.postings.visit(&prefix, |name, entries| {
                relied_on.push((name.to_owned(), entries.clone()));
                Ok(())
            })?;
            for (name, entries) in relied_on {
                let point_in_time =
                    ReliedStatement::read(&name).and_then(|statement| statement.point_in_time);
                let mut later = runs.into_iter().flatten().filter(|later| run < **later);
                let is_in_scope =
                    runs.is_none() || later.any(|later| self.has_changed(record, *later, point_in_time));
                if !is_in_scope {
                    continue;
                }
                match self.differs(&name, record, index)? {
                    Some(true) => {
                        self.entries.extend(entries);
                        self.differing.insert(name);
                    }
                    Some(false) => {}
                    None => self.pruned.extend(entries),
                }
            }
        }
        Ok(())
    }

    /// Whether run number `run` has changed the statement in force about the record at a time.
    fn has_changed(&mut self, record: &RecordStatements, run: u32, point_in_time: Option<Timestamp>) -> bool {
        let time = point_in_time.unwrap_or(self.now);
        let [before, after] = [run.saturating_sub(1), run].map(|known| {
            let version = self.visible(point_in_time, Some(known)).valid_at(record.times(), time);
            version.map(|version| version.content)
        });
        before.is_some() && before != after
    }

    /// The releases that a question about a time sees, or has seen after the first `known` runs.
    fn visible(&mut self, point_in_time: Option<Timestamp>, known: Option<u32>) -> &VisibleReleases {
        let (view, time, known_at) = (self.view, point_in_time.unwrap_or(self.now), self.known_at);
        self.visible.entry((point_in_time, known)).or_insert_with(|| {
            let mut releases = view.state.releases();
            releases.retain(|release| known.is_none_or(|known| release.run <= known));
            VisibleReleases::new(&releases, ReleaseScope { known_at, released_by: Some(time) })
        })
    }

    /// Adds the verdicts that relied on any statement of the source.
    fn add_all(&mut self) -> Result<(), StoreError> {
        // in the order of the records in their files, so that each block is read once
        let mut by_place = BTreeMap::<_, Vec<String>>::new();
        let prefix = ReliedStatement::prefix(self.oracle_id(), None);
        self.postings.visit(&prefix, |name, _| {
            let statement = ReliedStatement::read(name);
            if let Some(place) = statement.and_then(|statement| self.place(&statement.record_id)) {
                by_place.entry(place).or_default().push(name.to_owned());
            }
            Ok(())
        })?;
        let mut pruned = BTreeSet::new();
        for ((run, position), names) in by_place {
            let Some(record) = self.view.record(run, position)? else { continue };
            let index = index_of_run(&record, run);
            if index >= record.statements.len() {
                continue;
            }
            for name in names {
                match self.differs(&name, &record, index)? {
                    Some(true) => self.differing.insert(name),
                    Some(false) => false,
                    None => pruned.insert(name),
                };
            }
        }
        for (names, all) in [(&self.differing, &mut self.entries), (&pruned, &mut self.pruned)] {
            for name in names {
                self.postings.visit(name, |found, entries| {
                    if found == name {
                        all.extend(entries);
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Whether the statement at `index` of `record`, of which the verdicts under `name` relied on a part, differs now. `None` if the
    /// content that has to be compared was pruned.
    fn differs(
        &mut self,
        name: &str,
        record: &RecordStatements,
        index: usize,
    ) -> Result<Option<bool>, StoreError> {
        let Some(statement) = ReliedStatement::read(name) else { return Ok(Some(true)) };
        self.found_pruned = false;
        let (_, now) = self.present(record, statement.point_in_time)?.unzip();
        if self.found_pruned {
            return Ok(None);
        }
        Ok(match statement.part {
            StatementPart::Fact { template_id, sha256 } => {
                Some(!has_fact(&self.facts(&template_id, &BTreeSet::new(), None, now.as_ref()), &sha256))
            }
            StatementPart::Axis(axis) => match self.content(record, index)? {
                None if now.is_some() => None,
                before => Some(differs_on(&axis, before.as_ref(), now.as_ref())),
            },
        })
    }

    /// The facts that a template makes now in place of `texts`. A template that the ontology does not have makes none.
    fn facts(
        &self,
        template_id: &str,
        texts: &BTreeSet<&str>,
        before: Option<&RecordContent>,
        now: Option<&RecordContent>,
    ) -> Vec<String> {
        let template = self.templates.iter().find(|template| template.id().as_str() == template_id);
        template.map(|template| present_facts(template, texts, before, now)).unwrap_or_default()
    }

    /// The present version of a record at a time, and its content.
    fn present(
        &mut self,
        record: &RecordStatements,
        point_in_time: Option<Timestamp>,
    ) -> Result<Option<(FoundVersion, RecordContent)>, StoreError> {
        let (view, time) = (self.view, point_in_time.unwrap_or(self.now));
        let Some(found) = SourceView::valid_at(record, self.visible(point_in_time, None), time) else {
            return Ok(None);
        };
        let content = view.content(&found.statement)?;
        self.found_pruned |= content.is_none();
        Ok(content.map(|content| (found, content)))
    }

    /// The content of a statement; `None` if it was pruned.
    fn content(&self, record: &RecordStatements, index: usize) -> Result<Option<RecordContent>, StoreError> {
        let statement = record.statement(index);
        Ok(statement.map(|statement| self.view.content(&statement)).transpose()?.flatten())
    }

    /// The record with this id, with all its statements.
    fn record(&self, record_id: &str) -> Result<Option<RecordStatements>, StoreError> {
        let Some((run, position)) = self.place(record_id) else { return Ok(None) };
        self.view.record(run, position)
    }

    /// The number of the run and the position of a record.
    fn place(&self, record_id: &str) -> Option<(u32, u64)> {
        let (digits, position) = split_record_id(record_id)?;
        let completed = &self.view.state.completed;
        let run = completed.iter().rev().find(|run| run.run_id.as_str().starts_with(digits))?;
        Some((run.release.run, position))
    }

    /// The verdicts whose statements are not known.
    pub(super) fn unknown(&self) -> Result<UnknownReliance, StoreError> {
        let count = |cause: UnknownCause| {
            let mut all: BTreeSet<u64> = BTreeSet::new();
            for name in [cause.name(None), cause.name(Some(self.oracle_id()))] {
                self.postings.visit(&name, |_, entries| {
                    all.extend(entries);
                    Ok(())
                })?;
            }
            Ok::<_, StoreError>(all.len() as u64)
        };
        Ok(UnknownReliance {
            not_listed: count(UnknownCause::NotListed)?,
            erased: count(UnknownCause::Erased)?,
            damaged: count(UnknownCause::Damaged)?,
            pruned: self.pruned.difference(&self.entries).count() as u64,
        })
    }
}

/// One verdict.
impl RecallSearch<'_> {
    /// Whether any of the statements of a recall differs now.
    pub(super) fn is_touched(&mut self, verdict: &RecalledVerdict) -> Result<bool, StoreError> {
        for RecalledStatement { reference, .. } in &verdict.statements {
            if self.add_differing(reference)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The verdict of the evaluation `seq` with all of its statements of the source that differ now, whichever run has changed them.
    pub(super) fn verdict_with_all(&mut self, seq: u64) -> Result<Option<RecalledVerdict>, StoreError> {
        let Some(logged) = read_evaluation(self.store, seq)? else { return Ok(None) };
        for reference in references_of(&logged.event.0, self.oracle_id()) {
            self.add_differing(&reference)?;
        }
        self.verdict(seq)
    }

    /// Adds the statements of `reference` that differ now, also those of a record that is not found. Returns true if any differ, or if
    /// that is not known for some.
    fn add_differing(&mut self, reference: &StatementReference) -> Result<bool, StoreError> {
        let (place, record) = (self.place(&reference.record_id), self.record(&reference.record_id)?);
        let mut has_any = false;
        for statement in ReliedStatement::of(reference) {
            let name = statement.name(self.oracle_id());
            let is_differing = match (place, &record) {
                (Some((run, _)), Some(record)) => self.differs(&name, record, index_of_run(record, run))?,
                _ => Some(true),
            };
            has_any |= is_differing != Some(false);
            if is_differing == Some(true) {
                self.differing.insert(name);
            }
        }
        Ok(has_any)
    }
}

/// The verdicts of the search.
impl RecallSearch<'_> {
    /// The verdict of the evaluation `seq`; `None` if its values or its session were removed meanwhile.
    pub(super) fn verdict(&mut self, seq: u64) -> Result<Option<RecalledVerdict>, StoreError> {
        let Some(logged) = read_evaluation(self.store, seq)? else { return Ok(None) };
        let LoggedEvent { event: RulesEvaluated(entry), session_id: Some(session_id), timestamp } = logged
        else {
            return Ok(None);
        };
        let Some((session, _)) = self.store.session(&session_id)? else { return Ok(None) };
        let mut statements = Vec::new();
        for reference in references_of(&entry, self.oracle_id()) {
            let is_differing =
                |statement: ReliedStatement| self.differing.contains(&statement.name(&reference.oracle_id));
            if ReliedStatement::of(&reference).any(is_differing) {
                statements.push(self.statement(reference, session.check.as_deref())?);
            }
        }
        let evaluated_at = timestamp;
        let recalled = |result, cause, rules_verdict, statements| {
            let entry = seq;
            Some(RecalledVerdict {
                session_id: session_id.clone(),
                entry,
                evaluated_at,
                result,
                cause,
                rules_verdict,
                statements,
            })
        };
        let not_evaluated = RecallResult::NotEvaluated;
        let delivery = self.store.verdict(&session_id)?.map(|(delivery, _)| delivery);
        let delivery =
            delivery.filter(|delivery| delivery.evaluation_sha256.as_ref() == Some(&entry.evaluation_sha256));
        let (Some(delivery), Some(check)) = (delivery, session.check.as_deref()) else {
            return Ok(recalled(not_evaluated, Some(NotEvaluatedCause::TextNotStored), None, statements));
        };
        if statements.iter().any(|statement| statement.reference.fact_sha256.is_none()) {
            return Ok(recalled(not_evaluated, Some(NotEvaluatedCause::Verification), None, statements));
        }
        let Some(replaced) = self.known_facts(check)? else {
            return Ok(recalled(not_evaluated, Some(NotEvaluatedCause::ContentPruned), None, statements));
        };
        let verdict = EvaluatedVerdict { approved: delivery.approved, check, entry: &entry };
        let (result, rules_verdict) = verdict.examine_again(&replaced, &mut statements);
        let cause = (result == RecallResult::NotEvaluated).then_some(match rules_verdict {
            RuleVerdict::Error => NotEvaluatedCause::RuleError,
            RuleVerdict::Pass | RuleVerdict::Fail => NotEvaluatedCause::NoEvidence,
        });
        Ok(recalled(result, cause, Some(rules_verdict), statements))
    }

    /// The statement of `reference`, as it was in `check` and as it is now.
    fn statement(
        &mut self,
        reference: StatementReference,
        check: Option<&CandidateCheck>,
    ) -> Result<RecalledStatement, StoreError> {
        let record = self.record(&reference.record_id)?;
        let present = record.as_ref().map(|record| self.present(record, reference.point_in_time));
        let (found, now) = present.transpose()?.flatten().unzip();
        let before = match (&record, self.place(&reference.record_id)) {
            (Some(record), Some((run, _))) => self.content(record, index_of_run(record, run))?,
            _ => None,
        };
        let version = |found: FoundVersion| {
            self.view.state.run(found.statement.time.run).map(|run| run.release.version.clone())
        };
        let now_version = found.and_then(version);
        let (then, present) = match (&reference.template_id, &reference.fact_sha256) {
            (Some(template_id), Some(sha256)) => {
                let then = check.and_then(|check| text_of(check, &reference, sha256));
                let texts = then.iter().map(String::as_str).collect();
                let facts = self.facts(template_id.as_str(), &texts, before.as_ref(), now.as_ref());
                (then, facts)
            }
            _ => {
                let values = |content: Option<&RecordContent>| {
                    let value = |axis: &String| Some(format!("{axis}: {}", content?.axes.get(axis)?));
                    reference.axes.iter().filter_map(value).collect::<Vec<_>>()
                };
                let then = values(before.as_ref());
                ((!then.is_empty()).then(|| then.join(", ")), values(now.as_ref()))
            }
        };
        Ok(RecalledStatement { reference, then, now: present, now_version, checked: Vec::new() })
    }

    /// The present facts of the source in place of those of `check` that have changed, by the index of the first fact of each record
    /// and template. The other facts of that record and template are replaced by none.
    fn replaced_facts(&mut self, check: &CandidateCheck) -> Result<BTreeMap<u32, Vec<String>>, StoreError> {
        let mut replaced = BTreeMap::new();
        for source in &check.facts_from {
            for origin in &source.origins {
                let SourcedFactOrigin::Record(of) = &origin.origin else { continue };
                if of.oracle_id != *self.oracle_id() {
                    continue;
                }
                let record = self.record(&of.record_id)?;
                let present = record.as_ref().map(|record| self.present(record, source.point_in_time));
                let (_, now) = present.transpose()?.flatten().unzip();
                let before = match (&record, self.place(&of.record_id)) {
                    (Some(record), Some((run, _))) => self.content(record, index_of_run(record, run))?,
                    _ => None,
                };
                for facts in origin.facts.chunk_by(|one, other| one.template_id == other.template_id) {
                    let Some(first) = facts.first() else { continue };
                    let texts: BTreeSet<_> = facts.iter().map(|fact| fact.text.as_str()).collect();
                    let present =
                        self.facts(first.template_id.as_str(), &texts, before.as_ref(), now.as_ref());
                    if !present.iter().map(String::as_str).eq(facts.iter().map(|fact| fact.text.as_str())) {
                        replaced.extend(facts.iter().map(|fact| (fact.fact, Vec::new())));
                        replaced.insert(first.fact, present);
                    }
                }
            }
        }
        Ok(replaced)
    }
}

/// The facts of a source as of a time.
impl RecallSearch<'_> {
    /// The facts of the source in place of those of `check`, as [`Self::replaced_facts`]; `None` if the content of a version was pruned.
    pub(crate) fn known_facts(
        &mut self,
        check: &CandidateCheck,
    ) -> Result<Option<BTreeMap<u32, Vec<String>>>, StoreError> {
        self.found_pruned = false;
        let replaced = self.replaced_facts(check)?;
        Ok((!self.found_pruned).then_some(replaced))
    }
}

/// The entry with this number; `None` if it was dropped.
///
/// # Errors
/// It cannot be read. Faults of other entries do not matter.
pub(super) fn read_entry(store: &Store, seq: u64) -> Result<Option<LogLine>, StoreError> {
    let after = seq.saturating_sub(1);
    let query = LogQuery { after, limit: 1, skips_unreadable: true, ..LogQuery::default() };
    let page = store.log_page(&query)?;
    if page.unreadable.contains(&seq) {
        let detail = format!("entry {seq} of the log cannot be read");
        return Err(StoreError::Corrupt { dir: store.dir().to_owned(), detail });
    }
    Ok(page.lines.into_iter().find(|line| line.seq == seq))
}

/// The evaluation of the entry with this number; `None` if it was dropped, or if its values were erased.
pub(super) fn read_evaluation(
    store: &Store,
    seq: u64,
) -> Result<Option<LoggedEvent<RulesEvaluated>>, StoreError> {
    Ok(read_entry(store, seq)?.and_then(|line| LoggedEvent::read(&line.json).ok().flatten()))
}

/// The index of the statement of `run` about a record.
fn index_of_run(record: &RecordStatements, run: u32) -> usize {
    record.statements.iter().position(|statement| statement.time.run == run).unwrap_or(usize::MAX)
}

/// The statements of a source that an evaluation relied on.
fn references_of(entry: &RulesEntry, oracle_id: &SourceId) -> Vec<StatementReference> {
    let references = entry.facts_from.iter().filter_map(|facts| facts.relied_on.as_ref()).flatten();
    references.filter(|reference| reference.oracle_id == *oracle_id).cloned().collect()
}

/// The text of the fact that `reference` refers to.
fn text_of(check: &CandidateCheck, reference: &StatementReference, sha256: &Sha256Hex) -> Option<String> {
    let origins = check.facts_from.iter().flat_map(|source| &source.origins);
    let is_of_record = |origin: &&OriginFacts| matches!(&origin.origin, SourcedFactOrigin::Record(record) if record.record_id == reference.record_id);
    let mut facts = origins.filter(is_of_record).flat_map(|origin| &origin.facts);
    facts.find(|fact| Sha256Hex::of(fact.text.as_bytes()) == *sha256).map(|fact| fact.text.clone())
}
