//! The check of a text or a verdict: its facts, rules and expectations.

use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use actors_rules::{EvaluationCase, RuleService};
use domain_base::problem::INVALID_REQUEST;
use domain_ground::version_name::WordlistName;
use domain_rules::sourced::{FactSource, FactsFrom};
use domain_rules::wire::EvaluateTextRequest;
use domain_rules::{CandidateCheck, RuleSettings, TextLanguage};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Maximum length of a case's id, in characters.
const CASE_ID_MAX_CHARS: usize = 255;

/// The requested check of a text or a verdict, before sources are queried for facts.
#[derive(Debug)]
pub struct RequestedCheck {
    /// The check, with the facts of the request.
    check: CandidateCheck,
    /// The sources of further facts.
    facts_from: Option<Vec<FactsFrom>>,
}

/// A text with its requested check.
#[derive(Debug)]
pub struct RequestedCase {
    id: Option<String>,
    candidate_output: String,
    check: RequestedCheck,
}

/// A requested check, with the facts of the sources.
#[derive(Debug)]
pub struct SourcedCheck<T> {
    /// The request.
    pub request: T,
    /// The memory that those facts take.
    pub held: FactsReservation,
}

/// A part of the memory for all bodies, until it is dropped.
#[derive(Debug, Default)]
pub struct FactsReservation(Option<OwnedSemaphorePermit>);

impl FactsReservation {
    /// Total length of the facts, in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }
}

impl RequestedCheck {
    /// Whether sources are queried.
    #[must_use]
    pub const fn has_sources(&self) -> bool {
        self.facts_from.is_some()
    }

    /// The check without the facts of the sources.
    #[must_use]
    pub const fn without_sources(&self) -> &CandidateCheck {
        &self.check
    }

    /// The check, with the facts of the sources.
    ///
    /// # Errors
    /// If any source returns no facts, or there is no memory for them.
    pub async fn gather_facts(
        self,
        service: &DaemonService,
    ) -> Result<SourcedCheck<Arc<CandidateCheck>>, Problem> {
        let Self { check, facts_from } = self;
        let Some(facts_from) = facts_from else {
            return Ok(SourcedCheck { request: Arc::new(check), held: FactsReservation::default() });
        };
        let fact_sources = service.system.fact_sources.clone();
        let check =
            run_to_end(async move { Ok(fact_sources.collect_facts(check, facts_from).await?) }).await?;
        let check = validated(check, service.system.rules.settings())?;
        let sourced = check.facts_from.iter().flat_map(FactSource::facts);
        let held = service.reserve_body(sourced.map(|fact| fact.text.len()).sum())?;
        Ok(SourcedCheck { request: Arc::new(check), held: FactsReservation(Some(held)) })
    }
}

impl RequestedCase {
    /// The case, with the facts of the sources.
    ///
    /// # Errors
    /// The same as [`RequestedCheck::gather_facts`].
    pub async fn gather_facts(
        self,
        service: &DaemonService,
    ) -> Result<SourcedCheck<EvaluationCase>, Problem> {
        let Self { id, candidate_output, check } = self;
        let SourcedCheck { request: check, held } = check.gather_facts(service).await?;
        Ok(SourcedCheck { request: EvaluationCase { id, candidate_output, check }, held })
    }
}

impl RequestedCase {
    /// The case of an evaluation request.
    ///
    /// # Errors
    /// `InvalidRequest` if the check is invalid; `WordlistUnknown` if the word list is not registered.
    pub fn from_request(request: EvaluateTextRequest, rules: &RuleService) -> Result<Self, Problem> {
        let EvaluateTextRequest {
            id,
            candidate_output,
            facts,
            facts_from,
            context,
            constraints,
            expected,
            rules: applied,
            derive,
            language,
            wordlist,
        } = request;
        let chars = id.as_ref().map_or(0, |id| id.chars().count());
        if chars > CASE_ID_MAX_CHARS {
            let text = format!("`id` has {chars} characters; at most {CASE_ID_MAX_CHARS} are allowed");
            return Err(Problem::new(INVALID_REQUEST, text));
        }
        if facts.is_none() && facts_from.is_none() {
            let text =
                "missing field `facts`, or `facts_from`; send `facts: []` to check a text without facts";
            return Err(Problem::new(INVALID_REQUEST, text));
        }
        let (facts, constraints) = (facts.unwrap_or_default(), constraints.unwrap_or_default());
        let expected = expected.unwrap_or_default();
        let check = CandidateCheck {
            facts,
            context,
            constraints,
            expected,
            rules: applied,
            derive: derive.unwrap_or_default(),
            ..CandidateCheck::default()
        };
        let check = with_language_and_wordlist(check, language, wordlist.as_ref(), rules)?;
        let check = RequestedCheck { check: validated(check, rules.settings())?, facts_from };
        Ok(Self { id, candidate_output, check })
    }
}

impl RequestedCheck {
    /// The check of a verdict, which is stored with the session.
    ///
    /// # Errors
    /// `InvalidRequest` if the check is invalid; `WordlistUnknown`.
    pub fn of_session(
        check: CandidateCheck,
        facts_from: Option<Vec<FactsFrom>>,
        language: Option<TextLanguage>,
        wordlist: Option<&WordlistName>,
        rules: &RuleService,
    ) -> Result<Self, Problem> {
        let settings = rules.settings();
        let check = with_language_and_wordlist(check, language, wordlist, rules)?;
        let check = check.with_request_digest(facts_from.as_deref(), wordlist);
        // the configuration may change
        let check = validated(check, settings)?.with_configured_values(settings);
        Ok(Self { check, facts_from })
    }
}

/// Adds the language and the word list to `check`.
///
/// # Errors
/// `WordlistUnknown`; `InvalidRequest` if the language is not that of the word list.
fn with_language_and_wordlist(
    check: CandidateCheck,
    language: Option<TextLanguage>,
    wordlist: Option<&WordlistName>,
    rules: &RuleService,
) -> Result<CandidateCheck, Problem> {
    let Some(name) = wordlist else {
        return Ok(CandidateCheck { language: language.unwrap_or_default(), ..check });
    };
    let list = rules.find_wordlist(name)?;
    let own = list.document().language;
    if let Some(language) = language.filter(|language| *language != own) {
        let [language, own] = [language, own].map(<&str>::from);
        let text = format!(
            "`language` is `{language}`, and word list {} is for `{own}`; omit `language`, or name another list",
            list.document().reference()
        );
        return Err(Problem::new(INVALID_REQUEST, text));
    }
    Ok(CandidateCheck { language: own, wordlist: Some(list), ..check })
}

fn validated(check: CandidateCheck, settings: &RuleSettings) -> Result<CandidateCheck, Problem> {
    check.validate(settings).map_err(|error| Problem::new(INVALID_REQUEST, error.to_string()))?;
    Ok(check)
}
