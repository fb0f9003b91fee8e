//! Renders facts from an answer or an envelope. Untrusted or incomplete data gives no facts: a verdict does not show
//! that a candidate was checked against fewer facts than intended.

use super::{
    FactQueryTarget, FactSource, NoFactsError, OmittedValue, OriginFacts, RecordOrigin, SOURCED_BYTES_MAX,
    SOURCED_FACTS_MAX, SourcedFact, SourcedFactOrigin, VerificationOrigin,
};
use domain_ground::ontology::Ontology;
use domain_ground::ontology::template::ParsedFactTemplate;
use domain_ground::query::QueryAnswer;
use domain_ground::value::AxisValue;
use domain_verification::envelope::AxisOutcome;
use domain_verification::workflow::{EnforcementMode, Workflow};
use domain_verification::{Envelope, EnvelopeKind};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Facts in progress, with their limits.
struct FactRenderer<'o> {
    ontology: &'o Ontology,
    templates: Vec<ParsedFactTemplate<'o>>,
    origins: Vec<OriginFacts>,
    facts: usize,
    bytes: usize,
}

impl<'o> FactRenderer<'o> {
    /// Selects the templates of `ontology` that only need the requested axes.
    fn new(ontology: &'o Ontology, requested: &[String]) -> Result<Self, NoFactsError> {
        let (templates, others): (Vec<_>, Vec<_>) = ParsedFactTemplate::all(ontology)
            .into_iter()
            .partition(|template| template.is_renderable_from(requested));
        if templates.is_empty() {
            let named: BTreeSet<_> = others.iter().flat_map(ParsedFactTemplate::requested_paths).collect();
            let named = if named.is_empty() { "none".into() } else { Vec::from_iter(named).join(", ") };
            let (ontology, requested) = (ontology.reference(), requested.join(", "));
            return Err(NoFactsError::NoTemplate { ontology, requested, named });
        }
        Ok(Self { ontology, templates, origins: Vec::new(), facts: 0, bytes: 0 })
    }

    /// Adds the facts of one record or envelope, named by `of`, template by template. Returns the paths of the values
    /// that are in facts. An origin without facts is not added.
    fn add_facts(
        &mut self,
        axes: &BTreeMap<String, AxisValue>,
        definitions: &BTreeMap<String, String>,
        origin: SourcedFactOrigin,
        of: &str,
    ) -> Result<BTreeSet<String>, NoFactsError> {
        let (mut facts, mut included) = (Vec::new(), BTreeSet::new());
        for template in &self.templates {
            for rendered in template.render(axes, definitions)? {
                self.facts += 1;
                self.bytes += rendered.text.len();
                if self.facts > SOURCED_FACTS_MAX || self.bytes > SOURCED_BYTES_MAX {
                    return Err(NoFactsError::TooMany);
                }
                included.extend(rendered.paths);
                facts.push(SourcedFact { fact: 0, template_id: rendered.template_id, text: rendered.text });
            }
        }
        if !facts.is_empty() {
            self.origins.push(OriginFacts { facts, origin });
        }
        self.check_definitions(&included, axes, definitions, of)?;
        Ok(included)
    }

    /// Fails if a value outside of `included` has a definition that no template includes.
    fn check_definitions(
        &self,
        included: &BTreeSet<String>,
        axes: &BTreeMap<String, AxisValue>,
        definitions: &BTreeMap<String, String>,
        of: &str,
    ) -> Result<(), NoFactsError> {
        for (path, definition) in definitions.iter().filter(|(path, _)| !included.contains(*path)) {
            let lacks =
                |template: &&ParsedFactTemplate<'_>| template.is_missing_definition(path, axes, definitions);
            self.reject_omitted_value(path, Some(definition), of, self.join_template_ids(lacks))?;
        }
        Ok(())
    }

    /// Fails because the value at `path` is in no fact, unless `templates` is empty.
    fn reject_omitted_value(
        &self,
        path: &str,
        definition: Option<&String>,
        of: &str,
        templates: String,
    ) -> Result<(), NoFactsError> {
        if templates.is_empty() {
            return Ok(());
        }
        Err(NoFactsError::Omitted(Box::new(OmittedValue {
            of: of.to_owned(),
            axis: path.to_owned(),
            definition: definition.cloned(),
            ontology: self.ontology.reference(),
            templates,
        })))
    }

    /// Fails if `of` gave no fact at all.
    fn check_has_facts(&self, of: String) -> Result<(), NoFactsError> {
        if self.facts > 0 {
            return Ok(());
        }
        let (ontology, templates) = (self.ontology.reference(), self.join_template_ids(|_| true));
        Err(NoFactsError::Nothing { of, ontology, templates })
    }

    /// The ids of the templates that satisfy `is_so`, separated by commas.
    fn join_template_ids(&self, is_so: impl Fn(&&ParsedFactTemplate<'_>) -> bool) -> String {
        let names = self.templates.iter().filter(is_so).map(|template| template.id().as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    fn finish(
        self,
        asked: FactQueryTarget,
        point_in_time: Option<Timestamp>,
        warnings: Vec<String>,
    ) -> FactSource {
        let Self { ontology, origins, facts, .. } = self;
        let ontology = ontology.reference();
        FactSource { facts: facts as u64, ontology, origins, point_in_time, asked, warnings }
    }
}

/// Checks the limits for the facts of all entries together.
///
/// # Errors
/// `TooMany`.
pub fn check_fact_limits(sources: &[FactSource]) -> Result<(), NoFactsError> {
    let facts: u64 = sources.iter().map(|source| source.facts).sum();
    let bytes: usize = sources.iter().flat_map(FactSource::facts).map(|fact| fact.text.len()).sum();
    let is_within = facts <= SOURCED_FACTS_MAX as u64 && bytes <= SOURCED_BYTES_MAX;
    if is_within { Ok(()) } else { Err(NoFactsError::TooMany) }
}

impl FactSource {
    /// Checks whether a query of a source of `ontology` can give facts.
    ///
    /// # Errors
    /// `NoTemplate`, `Cursor`.
    pub fn check_query(
        ontology: &Ontology,
        axes: &[String],
        cursor: Option<&str>,
    ) -> Result<(), NoFactsError> {
        if cursor.is_some() {
            return Err(NoFactsError::Cursor);
        }
        FactRenderer::new(ontology, axes).map(drop)
    }

    /// Checks whether a verification by `workflow`, with `ontology`, can give facts.
    ///
    /// # Errors
    /// `NotInline`, `NoTemplate`.
    pub fn check_workflow(
        workflow: &Workflow,
        ontology: &Ontology,
        axes: &[String],
    ) -> Result<(), NoFactsError> {
        if workflow.authority_latency.enforcement_mode != EnforcementMode::Inline {
            return Err(NoFactsError::NotInline { workflow: workflow.workflow_id.clone() });
        }
        Self::check_query(ontology, axes, None)
    }

    /// The facts from `answer`, to a query for `axes` of a source of `ontology` about `point_in_time`, or about the present. The
    /// query must request provenance, and the source's freshness policy must have allowed the answer.
    ///
    /// # Errors
    /// Why there are no facts.
    pub fn from_answer(
        answer: &QueryAnswer,
        axes: &[String],
        point_in_time: Option<Timestamp>,
        ontology: &Ontology,
    ) -> Result<Self, NoFactsError> {
        let mut rendering = FactRenderer::new(ontology, axes)?;
        let response = &answer.response;
        if response.cursor.is_some() {
            return Err(NoFactsError::More { records: response.records.len() });
        }
        let metadata = &response.query_metadata;
        let stale = metadata.freshness.policy.axes.iter().any(|axis| axis.stale);
        let provenance = response.provenance.as_deref().unwrap_or_default();
        for (index, record) in response.records.iter().enumerate() {
            let chain = provenance.get(index).filter(|chain| chain.record_id == record.record_id);
            let chain = chain.ok_or_else(|| NoFactsError::NoProvenance(record.record_id.clone()))?;
            let origin = SourcedFactOrigin::Record(RecordOrigin {
                oracle_id: answer.oracle_id.clone(),
                oracle_tier: metadata.oracle_tier,
                raw_hash: chain.raw_hash.clone(),
                record_id: record.record_id.clone(),
                source_version: chain.source_version.clone(),
                stale,
            });
            let of = format!("record {}", record.record_id);
            rendering.add_facts(&record.values(), &record.definitions, origin, &of)?;
        }
        if !response.records.is_empty() {
            rendering.check_has_facts("the query result".to_owned())?;
        }
        // warnings about age change every second, and the same facts must have the same digest
        let of_age = &metadata.freshness.policy.warnings;
        let warnings =
            response.warnings.iter().filter(|warning| !of_age.contains(warning)).cloned().collect();
        Ok(rendering.finish(FactQueryTarget::Query(answer.oracle_id.clone()), point_in_time, warnings))
    }

    /// The facts from `envelope`, with `ontology`.
    ///
    /// # Errors
    /// Why there are no facts.
    pub fn from_envelope(envelope: &Envelope, ontology: &Ontology) -> Result<Self, NoFactsError> {
        let valued = |axis: &AxisOutcome| axis.value.is_some();
        if envelope.kind != EnvelopeKind::Authoritative || !envelope.axes.values().all(valued) {
            return Err(NoFactsError::NotAuthoritative {
                execution_id: envelope.execution_id.clone(),
                kind: envelope.kind,
                retry_after_ms: envelope.retry.as_ref().and_then(|retry| retry.after_ms),
                advice: envelope.retry.as_ref().map(|retry| retry.advice.clone()),
            });
        }
        let requested: Vec<_> = envelope.axes.keys().cloned().collect();
        let mut rendering = FactRenderer::new(ontology, &requested)?;
        let (mut axes, mut definitions, mut records) =
            (envelope.subject.clone(), BTreeMap::new(), BTreeMap::new());
        let mut stale = false;
        for (path, AxisOutcome { value, definition, evidence, .. }) in &envelope.axes {
            axes.extend(value.clone().map(|value| (path.clone(), value)));
            definitions.extend(definition.clone().map(|definition| (path.clone(), definition)));
            stale |= evidence.iter().any(|evidence| evidence.stale);
            let evidence_records = evidence.iter().map(|evidence| evidence.record.clone()).collect();
            records.insert(path.clone(), evidence_records);
        }
        let origin = SourcedFactOrigin::Verification(VerificationOrigin {
            envelope_sha256: envelope.sha256.clone(),
            execution_id: envelope.execution_id.clone(),
            records,
            stale,
        });
        let of = format!("the decision {}", envelope.execution_id);
        let included = rendering.add_facts(&axes, &definitions, origin, &of)?;
        // every requested axis has a value, which must be in a fact if a template for it exists
        for path in envelope.axes.keys().filter(|path| !included.contains(*path)) {
            rendering.reject_omitted_value(
                path,
                None,
                &of,
                rendering.join_template_ids(|template| template.has_value_at(path)),
            )?;
        }
        rendering.check_has_facts(of)?;
        let asked = FactQueryTarget::Verify(envelope.workflow.clone());
        Ok(rendering.finish(asked, envelope.point_in_time, envelope.warnings.clone()))
    }
}
