//! Rendering of mails with minijinja.

use super::MailTemplate;
use super::syntax::{add_filters_and_tests, check_syntax};
use crate::base::visible::visible_text;
use crate::verdict::divergence::NoteLanguage;
use crate::verdict::label::{ProductTier, VerdictLabel};
use crate::verdict::mail::{MailKind, OutboxMail};
use crate::verdict::prompt::LanguageTag;
use crate::verdict::query::CustomerQuery;
use jiff::Timestamp;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value, escape_formatter};
use serde::Serialize;
use std::borrow::Cow;

/// The maximum number of steps to render a part, so that each rendering ends soon.
const STEPS_MAX: u64 = 20_000;
/// The maximum length of a rendered text, in bytes.
const RENDERED_MAX_BYTES: usize = 1024 * 1024;
/// The length of a rendered subject, in characters, after which it is cut.
const SUBJECT_MAX_CHARS: usize = 255;

/// The content of a mail, rendered from a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MailContent {
    /// One line without control characters.
    pub subject: String,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    pub language: LanguageTag,
}

/// Why a part of a template cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{part}`{}: {fault}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct MailRenderError {
    /// The path of the part in the template.
    pub part: String,
    pub line: Option<usize>,
    /// The fault and its remedy. It quotes the template, and no value of the mail.
    pub fault: String,
}

/// The variables of a template. A value that a mail does not have is the empty text.
#[derive(Serialize)]
struct MailVariables<'m> {
    session_id: &'m str,
    tier: ProductTier,
    kind: MailKind,
    language: &'m LanguageTag,
    query: &'m CustomerQuery,
    /// Its members have the order of the verdict.
    verdict: Value,
    verdict_label: VerdictLabel,
    original_verdict: &'static str,
    disclaimer: &'static str,
    cached_at: Timestamp,
    contact: &'m str,
}

impl MailTemplate {
    /// The content of `mail`; `None` if the template has no text for mails of its kind. `contact` is the contact for
    /// questions.
    ///
    /// # Errors
    /// A part cannot be rendered.
    pub fn render(
        &self,
        mail: &OutboxMail,
        contact: Option<&str>,
    ) -> Result<Option<MailContent>, MailRenderError> {
        let OutboxMail { standing, delivery, .. } = mail;
        let Some(parts) = self.mails.get(standing.kind) else { return Ok(None) };
        let variables = Value::from_serialize(MailVariables {
            session_id: standing.session_id.local(),
            tier: delivery.approved.tier(),
            kind: standing.kind,
            language: &self.language,
            query: &delivery.query,
            verdict: serde_json::from_str(delivery.approved.verdict().get()).unwrap_or_default(),
            verdict_label: delivery.approved.label(),
            original_verdict: delivery.regen.map_or("", |regen| regen.original.as_str()),
            disclaimer: delivery.disclaimer_in(NoteLanguage::of(&self.language)).unwrap_or_default(),
            cached_at: delivery.cached_at,
            contact: contact.unwrap_or_default(),
        });
        let environment = create_environment();
        let mut rendered = Vec::new();
        for (part, source) in parts.named(standing.kind) {
            rendered.push(render_part(&environment, part, source, &variables)?);
        }
        let mut rendered = rendered.into_iter();
        Ok(Some(MailContent {
            subject: one_line(&rendered.next().unwrap_or_default()),
            text: rendered.next().unwrap_or_default(),
            html: rendered.next(),
            language: self.language.clone(),
        }))
    }
}

/// The settings of all renderings. The engine has no access to files or to other templates.
fn create_environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    add_filters_and_tests(&mut environment);
    environment.set_auto_escape_callback(|part| {
        if part.ends_with(".html") { AutoEscape::Html } else { AutoEscape::None }
    });
    // values are foreign text
    environment.set_formatter(|out, state, value| {
        let text = value.to_string();
        match visible_text(&text) {
            Cow::Owned(shown) => escape_formatter(out, state, &Value::from(shown)),
            Cow::Borrowed(_) => escape_formatter(out, state, value),
        }
    });
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // a line with nothing but a block leaves no empty line
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_fuel(Some(STEPS_MAX));
    environment
}

fn render_part(
    environment: &Environment<'_>,
    part: String,
    source: &str,
    variables: &Value,
) -> Result<String, MailRenderError> {
    if let Err((line, fault)) = check_syntax(source) {
        return Err(MailRenderError { part, line: Some(line), fault });
    }
    // a full buffer ends the rendering
    let mut buffer = vec![0; RENDERED_MAX_BYTES];
    let mut rest = buffer.as_mut_slice();
    let used = environment.template_from_named_str(&part, source).and_then(|template| {
        template.render_captured_to(variables, &mut rest)?;
        // a branch that was not rendered can have an unknown variable, too
        Ok(template.undeclared_variables(false))
    });
    let used = match used {
        Ok(used) => used,
        Err(error) if error.kind() == ErrorKind::WriteFailure => {
            let fault = format!(
                "the rendered text has more than {RENDERED_MAX_BYTES} bytes; repeat less in its loops"
            );
            return Err(MailRenderError { part, line: None, fault });
        }
        Err(error) => {
            let fault = describe_error(&error, source, variables);
            return Err(MailRenderError { line: error.line(), part, fault });
        }
    };
    let is_known = |name: &String| variables.get_attr(name).is_ok_and(|value| !value.is_undefined());
    if let Some(unknown) = used.into_iter().filter(|name| !is_known(name)).min() {
        let line = source.lines().position(|line| line.contains(&unknown)).map(|before| before + 1);
        return Err(MailRenderError { part, line, fault: describe_undefined(&unknown, variables) });
    }
    let length = RENDERED_MAX_BYTES.saturating_sub(rest.len());
    let rendered = buffer.get(..length).unwrap_or_default();
    Ok(replace_controls(&String::from_utf8_lossy(rendered)))
}

fn describe_error(error: &Error, source: &str, variables: &Value) -> String {
    let expression = error.range().and_then(|range| source.get(range)).unwrap_or_default();
    match error.kind() {
        ErrorKind::UndefinedError => describe_undefined(expression, variables),
        ErrorKind::OutOfFuel => {
            format!("the rendering takes more than {STEPS_MAX} steps; repeat less in its loops")
        }
        // these errors quote only the template
        kind @ (ErrorKind::SyntaxError
        | ErrorKind::UnknownFilter
        | ErrorKind::UnknownTest
        | ErrorKind::UnknownFunction
        | ErrorKind::UnknownMethod) => {
            format!("{kind} ({}); templates have the syntax of Jinja", error.detail().unwrap_or_default())
        }
        kind => format!("{kind} in `{expression}`; change this expression"),
    }
}

fn describe_undefined(expression: &str, variables: &Value) -> String {
    let names = variables.try_iter().into_iter().flatten().map(|name| name.to_string()).collect::<Vec<_>>();
    format!(
        "`{expression}` has no value; write a condition around it, such as `{{% if tier == \"full\" %}}`, or use another variable \
         (one of {})",
        names.join(", ")
    )
}

/// `text` without control characters other than line breaks and tabs.
fn replace_controls(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    text.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), " ")
}

/// `text` as one line, so that a subject cannot become a second header.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").chars().take(SUBJECT_MAX_CHARS).collect()
}
