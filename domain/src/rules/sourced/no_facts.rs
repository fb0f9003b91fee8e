//! Why there are no facts: what may not be believed gives none, and neither does what is not all that was asked for.

use super::{SOURCED_BYTES_MAX, SOURCED_FACTS_MAX};
use crate::ground::id::WorkflowId;
use crate::ground::ontology::OntologyRef;
use crate::ground::ontology::template::TooLong;
use crate::verification::EnvelopeKind;
use std::fmt;

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
    /// A value is in no fact, though templates are made for it.
    #[error("{0}")]
    Untold(Box<Untold>),
    /// Something was found, and gives no fact.
    #[error(
        "{of} gives no fact: no template of {ontology} that is made of what was asked for ({templates}) has all that it names"
    )]
    Nothing {
        /// Which decision, or answer.
        of: String,
        /// Of which ontology.
        ontology: OntologyRef,
        /// The templates that are made of what was asked for.
        templates: String,
    },
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
    #[error("the decision {execution_id} is {}: only an authoritative one gives facts{}", kind.into_str(), advised(advice.as_ref()))]
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

/// A value that is in no fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    /// Of which record, or decision.
    pub of: String,
    /// Its path.
    pub axis: String,
    /// By which definition it is, where no template tells that.
    pub definition: Option<String>,
    /// Of which ontology.
    pub ontology: OntologyRef,
    /// The templates that would tell it.
    pub templates: String,
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, axis, definition, ontology, templates } = self;
        let made_for_it = format!("the templates of {ontology} that tell it ({templates})");
        match definition {
            Some(definition) => write!(
                f,
                "no fact tells `{axis}` of {of}, which is by the definition `{definition}`: {made_for_it} do not tell that; one \
                 with `{{{axis}:definition}}` in it does"
            ),
            None => write!(
                f,
                "no fact tells `{axis}` of {of}: {made_for_it} tell something beside it that is missing, as \
                 `{{{axis}:definition}}` of a value without one is, or rounding leaves nothing of it"
            ),
        }
    }
}

fn advised(advice: Option<&String>) -> String {
    advice.map(|advice| format!("; {advice}")).unwrap_or_default()
}
