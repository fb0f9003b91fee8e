//! The prompt of a submitted or registered verdict, as the caller names it.

use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_verdict::generation::{PromptError, find_prompt};
use domain_base::blank::is_blank;
use domain_base::digest::ParseDigestError;
use domain_verdict::label::ProductTier;
use domain_verdict::prompt::{ModelPrompt, VerdictPrompt};
use domain_verdict::query::CustomerQuery;
use domain_verdict::template_name::{ParseTemplateNameError, TemplateRef};
use oracled_api::base::problem::ProblemCode;
use oracled_api::verdict::SubmittedPrompt;
use std::fmt::Display;

/// Maximum length of a prompt's text, in bytes.
const TEXT_MAX_BYTES: usize = 256 * 1024;

/// The prompt that the session stores.
///
/// # Errors
/// `InvalidRequest` if the template is not registered or has no text for the tier, or if the text or the digest is invalid.
pub(super) fn parse_prompt(
    service: &DaemonService,
    prompt: Option<SubmittedPrompt>,
    tier: ProductTier,
    query: &CustomerQuery,
) -> Result<Option<VerdictPrompt>, Problem> {
    let Some(SubmittedPrompt { template, text, sha256 }) = prompt else { return Ok(None) };
    Ok(Some(match (template, text, sha256) {
        (Some(name), None, None) => build_prompt(service, &name, tier, query)?,
        (None, Some(text), None) => {
            let bytes = text.len();
            if is_blank(&text) {
                return Err(invalid("text", "it is empty; leave `prompt` out if the prompt is not known"));
            }
            if bytes > TEXT_MAX_BYTES {
                return Err(invalid(
                    "text",
                    format_args!("it has {bytes} bytes (at most {TEXT_MAX_BYTES} allowed)"),
                ));
            }
            ModelPrompt::of_text(tier, text).into()
        }
        (None, None, Some(digits)) => {
            let sha256 = digits.parse().map_err(|error: ParseDigestError| invalid("sha256", error))?;
            VerdictPrompt { sha256, template: None, text: None }
        }
        _ => {
            let detail = "`prompt` needs exactly one of `template`, `text` and `sha256`";
            return Err(Problem::new(ProblemCode::InvalidRequest, detail));
        }
    }))
}

/// The prompt of the template called `name`.
fn build_prompt(
    service: &DaemonService,
    name: &str,
    tier: ProductTier,
    query: &CustomerQuery,
) -> Result<VerdictPrompt, Problem> {
    let template: TemplateRef =
        name.parse().map_err(|error: ParseTemplateNameError| invalid("template", error))?;
    match find_prompt(&service.system.store, &template.clone().into(), tier, query) {
        Ok(prompt) => Ok(prompt.into()),
        Err(PromptError::Store(error)) => Err(error.into()),
        Err(PromptError::Tier(error)) => Err(invalid("template", error)),
        Err(PromptError::Unknown(_)) => {
            let fault = format_args!(
                "prompt template {template} is not registered; `oraclectl prompt list` lists the registered ones"
            );
            Err(invalid("template", fault))
        }
    }
}

fn invalid(member: &str, fault: impl Display) -> Problem {
    Problem::new(ProblemCode::InvalidRequest, format!("`prompt.{member}`: {fault}"))
}
