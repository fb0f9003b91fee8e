//! Registered templates by their names.

use domain_base::document::Document;
use domain_verdict::prompt::{LanguageTag, PromptTemplate, VerdictPrompt};
use domain_verdict::template_name::{TemplateName, TemplateRef};
use oracled_store::{Store, StoreError};

/// The registered template that `name` names.
pub(crate) fn find_registered_template<D: Document>(
    store: &Store,
    name: &TemplateName,
) -> Result<Option<D>, StoreError> {
    if name.version.is_some() {
        return Ok(store.registered::<D>(&name.to_string())?.map(|(registered, _)| registered.document));
    }
    let versions = store.registered_ids::<D>()?.into_iter().filter_map(|id| id.parse::<TemplateRef>().ok());
    let newest =
        versions.filter(|reference| name.matches(reference)).max_by_key(|reference| reference.version);
    newest.map_or(Ok(None), |reference| find_registered_template(store, &reference.into()))
}

/// The language of `prompt`, if its template is known.
pub(crate) fn find_prompt_language(
    store: &Store,
    prompt: &VerdictPrompt,
) -> Result<Option<LanguageTag>, StoreError> {
    let Some(name) = prompt.template.clone().map(TemplateName::from) else { return Ok(None) };
    let template = match PromptTemplate::find_built_in(&name) {
        Some(built_in) => Some(built_in.clone()),
        None => find_registered_template::<PromptTemplate>(store, &name)?,
    };
    Ok(template.map(|template| template.language))
}
