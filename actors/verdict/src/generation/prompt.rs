//! The prompts of verdicts, from registered templates.

use crate::templates::find_registered_template;
use domain_verdict::label::ProductTier;
use domain_verdict::prompt::{
    ModelPrompt, PromptTemplate, PromptTierError, VerdictPrompt, build_verdict_prompt,
};
use domain_verdict::query::CustomerQuery;
use domain_verdict::template_name::TemplateName;
use oracled_store::{Store, StoreError};

/// Why there is no prompt.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The template is not registered.
    #[error(
        "prompt template {0} is not registered; register it with `oraclectl apply`, or configure another one as \
         `prompt_template`"
    )]
    Unknown(TemplateName),
    /// The template has no text for the tier.
    #[error(transparent)]
    Tier(#[from] PromptTierError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The prompt template that `name` names.
///
/// # Errors
/// It is not registered, or the store cannot be read.
pub fn find_prompt_template(store: &Store, name: &TemplateName) -> Result<PromptTemplate, PromptError> {
    if let Some(built_in) = PromptTemplate::find_built_in(name) {
        return Ok(built_in.clone());
    }
    let found = find_registered_template(store, name)?;
    found.ok_or_else(|| PromptError::Unknown(name.clone()))
}

/// The prompt of the template that `name` names.
///
/// # Errors
/// The template is not registered or has no text for the tier, or the store cannot be read.
pub fn find_prompt(
    store: &Store,
    name: &TemplateName,
    tier: ProductTier,
    query: &CustomerQuery,
) -> Result<ModelPrompt, PromptError> {
    Ok(build_verdict_prompt(&find_prompt_template(store, name)?, tier, query)?)
}

/// The stored prompt `first` again: its text, or else the prompt of its template. `None` if neither is available.
pub(super) fn rebuild_prompt(
    store: &Store,
    first: &VerdictPrompt,
    tier: ProductTier,
    query: &CustomerQuery,
) -> Result<Option<ModelPrompt>, StoreError> {
    let VerdictPrompt { template, text, .. } = first;
    if let Some(text) = text {
        return Ok(Some(ModelPrompt::of_text(tier, text.clone())));
    }
    let Some(template) = template else { return Ok(None) };
    match find_prompt(store, &template.clone().into(), tier, query) {
        Ok(prompt) => Ok(Some(prompt)),
        Err(PromptError::Unknown(_) | PromptError::Tier(_)) => Ok(None),
        Err(PromptError::Store(error)) => Err(error),
    }
}
