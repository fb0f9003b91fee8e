//! Registered templates by their names.

use domain_verdict::prompt::{LanguageTag, PromptTemplate, VerdictPrompt};
use domain_verdict::template_name::TemplateName;
use oracled_store::{Store, StoreError};

/// The language of `prompt`, if its template is known.
pub(crate) fn find_prompt_language(
    store: &Store,
    prompt: &VerdictPrompt,
) -> Result<Option<LanguageTag>, StoreError> {
    let Some(name) = prompt.template.clone().map(TemplateName::from) else { return Ok(None) };
    let template = match PromptTemplate::find_built_in(&name) {
        Some(built_in) => Some(built_in.clone()),
        None => store.find_document::<PromptTemplate, _>(&name)?,
    };
    Ok(template.map(|template| template.language))
}
