//! Facts out of an answer, or an envelope. What may not be believed gives none, and neither does what is not all that was asked
//! for: whoever is checked against fewer facts than were meant is not told so by a verdict.

use super::{
    Asked, FactOrigin, FactSource, Origin, RecordOrigin, SOURCED_BYTES_MAX, SOURCED_FACTS_MAX, SourcedFact,
    VerificationOrigin,
};
use crate::ground::id::WorkflowId;
use crate::ground::ontology::template::{Template, TooLong};
use crate::ground::ontology::{Ontology, OntologyRef};
use crate::ground::query::QueryAnswer;
use crate::ground::value::Value;
use crate::verification::envelope::AxisOutcome;
use crate::verification::workflow::{EnforcementMode, Workflow};
use crate::verification::{Envelope, EnvelopeKind};
use std::collections::{BTreeMap, BTreeSet};

/// Why there are no facts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFacts {
    /// No template gives a fact of what is asked for.
    #[error("no template of {ontology} is made of {asked} alone; what they are made of: {named}")]
    NoTemplate {
        /// Of which ontology.
        ontology: OntologyRef,
        /// What is asked for.
        asked: String,
        /// Which axes templates name; nothing where there are none.
        named: String,
    },
    /// There is more than one page.
    #[error(
        "the query finds more than one page of {records} records; narrow it by filters, or raise `max_results`: facts are made of \
         all that it finds, or of nothing"
    )]
    More {
        /// How many the page has.
        records: usize,
    },
    /// It goes on from another answer.
    #[error("`cursor` is not taken: facts are made of all that a query finds, from its beginning")]
    Cursor,
    /// A fact is too long.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// There are too many, or they are too long together.
    #[error(
        "there are more facts than {SOURCED_FACTS_MAX}, or they have more than {SOURCED_BYTES_MAX} bytes together"
    )]
    TooMany,
    /// Where a record comes from is missing.
    #[error("the answer does not tell where record {0} comes from")]
    NoProvenance(String),
    /// A workflow vouches for nothing while somebody waits.
    #[error(
        "workflow {workflow} decides nothing while somebody waits: its `enforcement_mode` is not INLINE, and only an \
         authoritative decision gives facts"
    )]
    NotInline {
        /// Which.
        workflow: WorkflowId,
    },
    /// A decision does not vouch for what was asked.
    #[error("the decision {execution_id} is {}: only an authoritative one gives facts{}", kind.as_str(), advised(advice.as_ref()))]
    NotAuthoritative {
        /// Which decision.
        execution_id: String,
        /// Of which kind it is.
        kind: EnvelopeKind,
        /// After how long it may be asked for again, in milliseconds.
        retry_after_ms: Option<u64>,
        /// What has to happen.
        advice: Option<String>,
    },
}

fn advised(advice: Option<&String>) -> String {
    advice.map(|advice| format!("; {advice}")).unwrap_or_default()
}

/// Facts on their way, within their bounds.
struct Rendering<'o> {
    templates: Vec<Template<'o>>,
    origins: Vec<FactOrigin>,
    facts: usize,
    bytes: usize,
}

impl<'o> Rendering<'o> {
    /// By those templates of `ontology` that are made of the axes `asked` for.
    fn new(ontology: &'o Ontology, asked: &[String]) -> Result<Self, NoFacts> {
        let (templates, others): (Vec<_>, Vec<_>) =
            Template::all(ontology).into_iter().partition(|template| template.is_made_of(asked));
        if templates.is_empty() {
            let named: BTreeSet<_> = others.iter().flat_map(Template::needs).collect();
            let named =
                if named.is_empty() { "it has none".into() } else { Vec::from_iter(named).join(", ") };
            let (ontology, asked) = (ontology.reference(), asked.join(", "));
            return Err(NoFacts::NoTemplate { ontology, asked, named });
        }
        Ok(Self { templates, origins: Vec::new(), facts: 0, bytes: 0 })
    }

    /// Takes what is said of one thing, template by template. What gives no fact is no origin of any.
    fn take(
        &mut self,
        axes: &BTreeMap<String, Value>,
        definitions: &BTreeMap<String, String>,
        origin: Origin,
    ) -> Result<(), NoFacts> {
        let mut facts = Vec::new();
        for template in &self.templates {
            for rendered in template.render(axes, definitions)? {
                self.facts += 1;
                self.bytes += rendered.text.len();
                if self.facts > SOURCED_FACTS_MAX || self.bytes > SOURCED_BYTES_MAX {
                    return Err(NoFacts::TooMany);
                }
                facts.push(SourcedFact { fact: 0, template_id: rendered.template_id, text: rendered.text });
            }
        }
        if !facts.is_empty() {
            self.origins.push(FactOrigin { facts, origin });
        }
        Ok(())
    }

    fn done(self, ontology: &Ontology, asked: Asked, warnings: Vec<String>) -> FactSource {
        let Self { origins, facts, .. } = self;
        FactSource { facts: facts as u64, ontology: ontology.reference(), origins, asked, warnings }
    }
}

/// Whether what several entries gave is within the bounds of all of them together.
///
/// # Errors
/// `TooMany`.
pub fn within_bounds(sources: &[FactSource]) -> Result<(), NoFacts> {
    let facts: u64 = sources.iter().map(|source| source.facts).sum();
    let bytes: usize = sources.iter().flat_map(FactSource::facts).map(|fact| fact.text.len()).sum();
    let is_within = facts <= SOURCED_FACTS_MAX as u64 && bytes <= SOURCED_BYTES_MAX;
    if is_within { Ok(()) } else { Err(NoFacts::TooMany) }
}

impl FactSource {
    /// Whether what is asked of a source of `ontology` can give facts at all.
    ///
    /// # Errors
    /// `NoTemplate`, `Cursor`.
    pub fn is_possible(ontology: &Ontology, axes: &[String], cursor: Option<&str>) -> Result<(), NoFacts> {
        if cursor.is_some() {
            return Err(NoFacts::Cursor);
        }
        Rendering::new(ontology, axes).map(drop)
    }

    /// Whether what is asked of `workflow`, over `ontology`, can give facts at all.
    ///
    /// # Errors
    /// `NotInline`, `NoTemplate`.
    pub fn is_possible_of(workflow: &Workflow, ontology: &Ontology, axes: &[String]) -> Result<(), NoFacts> {
        if workflow.authority_latency.enforcement_mode != EnforcementMode::Inline {
            return Err(NoFacts::NotInline { workflow: workflow.workflow_id.clone() });
        }
        Self::is_possible(ontology, axes, None)
    }

    /// The facts that `answer` gives, to a query for `axes` of a source of `ontology` that asks for provenance. Its policy has let
    /// it pass.
    ///
    /// # Errors
    /// Why it gives none.
    pub fn of_answer(answer: &QueryAnswer, axes: &[String], ontology: &Ontology) -> Result<Self, NoFacts> {
        let mut rendering = Rendering::new(ontology, axes)?;
        let response = &answer.response;
        if response.cursor.is_some() {
            return Err(NoFacts::More { records: response.records.len() });
        }
        let metadata = &response.query_metadata;
        let stale = metadata.freshness.policy.axes.iter().any(|axis| axis.stale);
        let provenance = response.provenance.as_deref().unwrap_or_default();
        for (place, record) in response.records.iter().enumerate() {
            let chain = provenance.get(place).filter(|chain| chain.record_id == record.record_id);
            let chain = chain.ok_or_else(|| NoFacts::NoProvenance(record.record_id.clone()))?;
            let origin = Origin::Record(RecordOrigin {
                oracle_id: answer.oracle_id.clone(),
                oracle_tier: metadata.oracle_tier,
                raw_hash: chain.raw_hash.clone(),
                record_id: record.record_id.clone(),
                source_version: chain.source_version.clone(),
                stale,
            });
            rendering.take(&record.axes, &record.definitions, origin)?;
        }
        // an age is another one each second, and the same facts are to have the same digest
        let of_age = &metadata.freshness.policy.warnings;
        let warnings =
            response.warnings.iter().filter(|warning| !of_age.contains(warning)).cloned().collect();
        Ok(rendering.done(ontology, Asked::Query(answer.oracle_id.clone()), warnings))
    }

    /// The facts that `envelope` gives, over `ontology`.
    ///
    /// # Errors
    /// Why it gives none.
    pub fn of_envelope(envelope: &Envelope, ontology: &Ontology) -> Result<Self, NoFacts> {
        let valued = |axis: &AxisOutcome| axis.value.is_some();
        if envelope.kind != EnvelopeKind::Authoritative || !envelope.axes.values().all(valued) {
            return Err(NoFacts::NotAuthoritative {
                execution_id: envelope.execution_id.clone(),
                kind: envelope.kind,
                retry_after_ms: envelope.retry.as_ref().and_then(|retry| retry.after_ms),
                advice: envelope.retry.as_ref().map(|retry| retry.advice.clone()),
            });
        }
        let asked: Vec<_> = envelope.axes.keys().cloned().collect();
        let mut rendering = Rendering::new(ontology, &asked)?;
        let (mut axes, mut definitions, mut records) =
            (envelope.thing.clone(), BTreeMap::new(), BTreeMap::new());
        let mut stale = false;
        for (path, AxisOutcome { value, definition, evidence, .. }) in &envelope.axes {
            axes.extend(value.clone().map(|value| (path.clone(), value)));
            definitions.extend(definition.clone().map(|definition| (path.clone(), definition)));
            stale |= evidence.iter().any(|evidence| evidence.stale);
            let behind = evidence.iter().map(|evidence| evidence.record.clone()).collect();
            records.insert(path.clone(), behind);
        }
        let origin = Origin::Verification(VerificationOrigin {
            envelope_sha256: envelope.sha256.clone(),
            execution_id: envelope.execution_id.clone(),
            records,
            stale,
        });
        rendering.take(&axes, &definitions, origin)?;
        Ok(rendering.done(ontology, Asked::Verify(envelope.workflow.clone()), envelope.warnings.clone()))
    }
}
