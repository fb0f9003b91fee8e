//! Why sources give no facts. Untrusted or incomplete data gives none.

use super::{SOURCED_BYTES_MAX, SOURCED_FACTS_MAX};
use crate::ground::id::WorkflowId;
use crate::ground::ontology::OntologyRef;
use crate::ground::ontology::template::FactTooLongError;
use crate::verification::EnvelopeKind;
use std::fmt;

/// Why there are no facts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFactsError {
    /// Every template uses an axis that was not requested.
    #[error("no template of {ontology} uses only {requested}; the axes in its templates are: {named}")]
    NoTemplate {
        ontology: OntologyRef,
        /// The requested axes, separated by commas.
        requested: String,
        /// The axes that the templates use, or a text that there are no templates.
        named: String,
    },
    /// There is more than one page.
    #[error(
        "the query finds more than one page of {records} records, but facts must cover the complete result; add filters or \
         increase `max_results`"
    )]
    More {
        /// The number of records on the page.
        records: usize,
    },
    /// The query has a cursor.
    #[error("`cursor` is not allowed, because facts must cover the complete result of a query")]
    Cursor,
    #[error(transparent)]
    TooLong(#[from] FactTooLongError),
    /// The facts exceed their number or their total size.
    #[error(
        "there are too many facts (at most {SOURCED_FACTS_MAX} facts of {SOURCED_BYTES_MAX} bytes in total allowed)"
    )]
    TooMany,
    /// The provenance of a record is missing.
    #[error("the answer has no provenance for record {0}")]
    NoProvenance(String),
    /// A value is in no fact, although templates include it.
    #[error("{0}")]
    Omitted(Box<OmittedValue>),
    /// Records were found, but none gives a fact.
    #[error(
        "{of} gives no fact: each template of {ontology} for the requested axes ({templates}) lacks a value or a definition"
    )]
    Nothing {
        /// The verification or the answer.
        of: String,
        ontology: OntologyRef,
        /// The templates that use only requested axes.
        templates: String,
    },
    /// The workflow does not decide inline.
    #[error(
        "workflow {workflow} does not decide within a request, because its `enforcement_mode` is not INLINE, and only an \
         authoritative decision gives facts"
    )]
    NotInline { workflow: WorkflowId },
    /// The envelope is not authoritative.
    #[error("the decision {execution_id} is {}; only an authoritative decision gives facts{}", kind.into_str(), append_advice(advice.as_ref()))]
    NotAuthoritative {
        /// The id of the verification.
        execution_id: String,
        kind: EnvelopeKind,
        /// The time after which the verification may be repeated, in milliseconds.
        retry_after_ms: Option<u64>,
        /// The required action.
        advice: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OmittedValue {
    /// The record or the verification.
    pub of: String,
    /// The path of the value.
    pub axis: String,
    /// The definition of the value, if no template includes it.
    pub definition: Option<String>,
    pub ontology: OntologyRef,
    /// The templates that include the value.
    pub templates: String,
}

impl fmt::Display for OmittedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, axis, definition, ontology, templates } = self;
        let templates = format!("the templates of {ontology} for it ({templates})");
        match definition {
            Some(definition) => write!(
                f,
                "no fact contains `{axis}` of {of}: {templates} do not include its definition `{definition}`; add a template \
                 with `{{{axis}:definition}}`"
            ),
            None => write!(
                f,
                "no fact contains `{axis}` of {of}: {templates} need a value or a definition that is missing, or the value \
                 rounds to zero"
            ),
        }
    }
}

fn append_advice(advice: Option<&String>) -> String {
    advice.map(|advice| format!("; {advice}")).unwrap_or_default()
}
