//! Mail templates: registered documents, immutable under their version, which minijinja renders.
//!
//! Templates can use only a part of Jinja. No value can become larger than those of the mail, so that a rendering needs
//! little time and memory: there is no assignment, no concatenation, no list, no function and no slice.

use crate::crosscheck::judge;
use crate::delivery::{RegenNotes, VerdictDelivery};
use crate::divergence::{NoteLanguage, OriginalLabel};
use crate::label::{ProductTier, VerdictLabel};
use crate::mail::{MailKind, OutboxMail};
use crate::prompt::{LanguageTag, TemplateRef};
use crate::query::CustomerQuery;
use crate::recall::{RecallResult, RecalledClaim, RecalledStatement, RecalledVerdict};
use crate::recall_notice::{NoticeStatement, RecallNotice, SourceRecall};
use domain_base::digest::Sha256Hex;
use domain_base::document::{Document, DocumentVersions};
use domain_base::payload::VerdictPayload;
use domain_base::text_form::{is_blank, visible_text};
use domain_ground::id::TemplateId;
use domain_rules::CandidateSpan;
use domain_rules::references::StatementReference;
use jiff::Timestamp;
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value, escape_formatter, filters,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::borrow::Cow;
use std::sync::Arc;
use strum::VariantArray;
use utoipa::ToSchema;

/// The maximum length of a subject, in bytes.
const SUBJECT_MAX_BYTES: usize = 1024;
/// The maximum length of a plain text and of an HTML text, in bytes.
const TEXT_MAX_BYTES: usize = 64 * 1024;

/// A mail template: one version of the texts of mails in one language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MailTemplate {
    /// The id, the same for all versions.
    pub template_id: TemplateId,
    /// The version. The newest version is the one with the highest number.
    #[schema(minimum = 1)]
    pub version: u32,
    /// The language of the texts.
    pub language: LanguageTag,
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The texts of the mails, for at least one kind. Other mails have the built-in text. A recall notice has none.
    pub mails: MailTexts,
}

/// The texts of a mail template, by the kind of the mail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MailTexts {
    /// The mail with the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<MailParts>,
    /// The notice that the results page shows another verdict than the mailed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergence_notice: Option<MailParts>,
    /// The notice that a source has changed a statement on which the verdict relied. It is only drafted with such a text, and only sent
    /// when a person releases it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall_notice: Option<MailParts>,
}

/// The parts of a mail, in the language of Jinja templates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MailParts {
    /// The subject, at most 1 KiB.
    pub subject: String,
    /// The plain text, at most 64 KiB.
    pub text: String,
    /// The same as HTML, at most 64 KiB. Values are escaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
}

impl MailTexts {
    /// The parts of mails of this kind.
    #[must_use]
    pub const fn get(&self, kind: MailKind) -> Option<&MailParts> {
        match kind {
            MailKind::Verdict => self.verdict.as_ref(),
            MailKind::DivergenceNotice => self.divergence_notice.as_ref(),
            MailKind::RecallNotice => self.recall_notice.as_ref(),
        }
    }
}

/// Why a mail template is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MailTemplateError {
    /// The version is 0.
    #[error("`version` is 0 (1 to {} allowed)", u32::MAX)]
    Version,
    /// There is no mail.
    #[error("`mails` has no mail; add `verdict`, `divergence_notice` or `recall_notice`")]
    NoMail,
    /// A part is empty or too long.
    #[error(
        "`{part}` has {bytes} bytes, or only white space (1 to {max} bytes allowed, with a visible character)"
    )]
    Length { part: String, bytes: usize, max: usize },
    /// A part cannot be rendered for a sample verdict.
    #[error("{error} (rendered for a sample verdict of the tier {tier})")]
    Render { tier: ProductTier, error: MailRenderError },
}

impl Document for MailTemplate {
    const KIND: &'static str = "mail_template";
    const DISTINGUISHING_MEMBER: &'static str = "mails";
    const VERSIONS: DocumentVersions = DocumentVersions::Numbered;

    fn document_id(&self) -> String {
        self.reference().to_string()
    }
}

impl MailTemplate {
    /// The reference to this version.
    #[must_use]
    pub fn reference(&self) -> TemplateRef {
        TemplateRef { id: self.template_id.clone(), version: self.version }
    }

    /// Validates a document. Each mail is rendered for a sample verdict of each tier.
    ///
    /// # Errors
    /// The first fault.
    pub fn validate(&self) -> Result<(), MailTemplateError> {
        if self.version == 0 {
            return Err(MailTemplateError::Version);
        }
        let mut has_mail = false;
        for kind in MailKind::VARIANTS {
            let Some(parts) = self.mails.get(*kind) else { continue };
            has_mail = true;
            parts.check_lengths(*kind)?;
            for tier in ProductTier::ALL {
                let rendered = self.render(&sample_mail(*kind, tier), Some("support@example.org"));
                rendered.map_err(|error| MailTemplateError::Render { tier, error })?;
            }
        }
        if has_mail { Ok(()) } else { Err(MailTemplateError::NoMail) }
    }
}

impl MailParts {
    /// The path of each part with its text.
    fn named(&self, kind: MailKind) -> impl Iterator<Item = (String, &str)> {
        let parts =
            [("subject", Some(&self.subject)), ("text", Some(&self.text)), ("html", self.html.as_ref())];
        let parts = parts.into_iter().filter_map(|(name, part)| Some((name, part?)));
        parts.map(move |(name, part)| (format!("mails.{}.{name}", kind.into_str()), part.as_str()))
    }

    fn check_lengths(&self, kind: MailKind) -> Result<(), MailTemplateError> {
        for (part, text) in self.named(kind) {
            let max = if part.ends_with("subject") { SUBJECT_MAX_BYTES } else { TEXT_MAX_BYTES };
            if is_blank(text) || text.len() > max {
                return Err(MailTemplateError::Length { part, bytes: text.len(), max });
            }
        }
        Ok(())
    }
}

/// The template for a mail about a verdict in this language, by the lookup of RFC 4647, section 3.4: the language's own
/// template, or that of the language without its last subtags. The default is the first template.
#[must_use]
pub fn select_mail_template<'t>(
    templates: &'t [MailTemplate],
    language: Option<&LanguageTag>,
) -> Option<&'t MailTemplate> {
    let mut range = language.map(LanguageTag::as_str);
    while let Some(tag) = range {
        let mut templates = templates.iter();
        let found = templates.find(|template| template.language.as_str().eq_ignore_ascii_case(tag));
        if found.is_some() {
            return found;
        }
        range = tag.rsplit_once('-').map(|(shorter, _)| shorter);
    }
    templates.first()
}

/// A mail of this kind about a verdict of this tier.
fn sample_mail(kind: MailKind, tier: ProductTier) -> OutboxMail {
    let original = OriginalLabel(Some(VerdictLabel::Red));
    let delivery = VerdictDelivery {
        session_id: "sample".parse().expect("a valid id"),
        query: CustomerQuery::new("Sell honey & jam?".to_owned()),
        approved: judge(tier, VerdictPayload::raw(&sample_verdict(tier)))
            .outcome
            .expect("the sample passes the crosscheck"),
        cached_at: "2026-01-01T00:00:00Z".parse().expect("a valid time"),
        regen: (kind == MailKind::DivergenceNotice).then_some(RegenNotes {
            original,
            prompt_changed: false,
            settings_changed: false,
            reasked: false,
            language: NoteLanguage::default(),
        }),
        evaluation_sha256: None,
    };
    let to = "customer@example.org".to_owned().try_into().expect("a valid address");
    if kind == MailKind::RecallNotice {
        let (notice, now) = (sample_notice(&delivery), delivery.cached_at);
        return OutboxMail::of_recall(notice, Arc::new(delivery), to, now);
    }
    OutboxMail::queued(kind, Arc::new(delivery), to)
}

/// A notice about one statement that has another value now, and one that is withdrawn.
fn sample_notice(delivery: &VerdictDelivery) -> RecallNotice {
    let oracle_id = "office".parse().expect("a valid id");
    let statement = |then: Option<&str>, now: &[&str], result| RecalledStatement {
        reference: StatementReference {
            oracle_id: "office".parse().expect("a valid id"),
            record_id: "0123456789abcdef-0".to_owned(),
            source_version: None,
            template_id: None,
            fact_sha256: None,
            axes: Vec::new(),
            point_in_time: None,
            claims: Vec::new(),
            claims_omitted: 0,
        },
        then: then.map(str::to_owned),
        now: now.iter().map(|fact| (*fact).to_owned()).collect(),
        now_version: None,
        checked: vec![RecalledClaim {
            claim: CandidateSpan { end: 0, field: None, start: 0 },
            text: "Bees make honey.".to_owned(),
            result,
        }],
    };
    let withdrawn =
        RecalledStatement { checked: Vec::new(), ..statement(None, &[], RecallResult::NoLongerSupported) };
    let changed = statement(Some("Bees make honey"), &["Bees make wax"], RecallResult::NowContradicted);
    let verdict = RecalledVerdict {
        session_id: delivery.session_id.clone(),
        entry: 1,
        evaluated_at: delivery.cached_at,
        result: RecallResult::NowContradicted,
        cause: None,
        rules_verdict: None,
        statements: vec![changed, withdrawn],
    };
    let recall = SourceRecall { oracle_id, run_id: Sha256Hex::of(b""), verdict };
    RecallNotice::drafted(None, recall, delivery.approved.sha256(), delivery.cached_at)
}

/// A verdict with exactly the members of the tier. A test is a text or an object.
fn sample_verdict(tier: ProductTier) -> String {
    let judged = json!({"verdict": "GREEN", "analysis": "It holds."});
    let (label, summary) = ("GREEN", "A sound and simple plan.");
    let breakdown = json!({
        "Stability": judged, "Turbulence": judged, "Change Rate": judged, "Completion": judged, "Curvature": judged,
    });
    let verdict = match tier {
        ProductTier::Quick => json!({"verdict": label, "summary": summary}),
        ProductTier::Full => json!({"verdict": label, "summary": summary, "breakdown": breakdown}),
        ProductTier::Strategy => json!({
            "verdict": label, "summary": summary, "breakdown": breakdown,
            "strategy": {
                "next_step": "Ask ten people.", "alternative": "Sell jam.",
                "tests": ["A stall at the market", {"name": "A price", "days": 3}],
            },
        }),
    };
    verdict.to_string()
}

/// The maximum number of steps to render a part, so that each rendering ends soon.
const STEPS_MAX: u64 = 20_000;
/// The maximum length of a rendered text, in bytes.
const RENDERED_MAX_BYTES: usize = 1024 * 1024;
/// The length of a rendered subject, in characters, after which it is cut.
const SUBJECT_MAX_CHARS: usize = 255;

/// The content of a mail, rendered from a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MailContent {
    /// The subject: one line without control characters.
    pub subject: String,
    /// The plain text.
    pub text: String,
    /// The same as HTML; absent if the template has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub html: Option<String>,
    /// The language of the template.
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
    result: &'static str,
    statements: Vec<NoticeStatement<'m>>,
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
        let OutboxMail { state, delivery, recall, .. } = mail;
        let recall = recall.as_deref();
        let Some(parts) = self.mails.get(state.kind) else { return Ok(None) };
        let variables = Value::from_serialize(MailVariables {
            session_id: state.session_id.local(),
            tier: delivery.approved.tier(),
            kind: state.kind,
            language: &self.language,
            query: &delivery.query,
            verdict: serde_json::from_str(delivery.approved.verdict().get()).unwrap_or_default(),
            verdict_label: delivery.approved.label(),
            original_verdict: delivery.regen.map_or("", |regen| regen.original.as_str()),
            disclaimer: delivery.disclaimer_in(NoteLanguage::of(&self.language)).unwrap_or_default(),
            cached_at: delivery.cached_at,
            contact: contact.unwrap_or_default(),
            result: recall.map_or("", |notice| notice.result().into()),
            statements: recall.map(RecallNotice::statements).unwrap_or_default(),
        });
        let environment = create_environment();
        let mut rendered = Vec::new();
        for (part, source) in parts.named(state.kind) {
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

/// The maximum length of a tag, in bytes. The parser needs a stack for nested operators.
const TAG_MAX_BYTES: usize = 500;
/// Words that can begin a block.
const BLOCKS: [&str; 8] = ["if", "elif", "else", "endif", "for", "endfor", "raw", "endraw"];
/// Characters that are not allowed in a tag, outside of texts in quotation marks.
const REFUSED: [char; 6] = ['~', '*', '+', '[', ']', '{'];

/// Adds the filters and tests of mail templates.
fn add_filters_and_tests(environment: &mut Environment<'_>) {
    environment.add_filter("abs", filters::abs);
    environment.add_filter("capitalize", filters::capitalize);
    environment.add_filter("default", filters::default);
    environment.add_filter("dictsort", filters::dictsort);
    environment.add_filter("first", filters::first);
    environment.add_filter("items", filters::items);
    environment.add_filter("last", filters::last);
    environment.add_filter("length", filters::length);
    environment.add_filter("lower", filters::lower);
    environment.add_filter("reverse", filters::reverse);
    environment.add_filter("round", filters::round);
    environment.add_filter("sort", filters::sort);
    environment.add_filter("title", filters::title);
    environment.add_filter("trim", filters::trim);
    environment.add_filter("upper", filters::upper);
    environment.add_test("defined", minijinja::tests::is_defined);
    environment.add_test("endingwith", minijinja::tests::is_endingwith);
    environment.add_test("mapping", minijinja::tests::is_mapping);
    environment.add_test("none", minijinja::tests::is_none);
    environment.add_test("number", minijinja::tests::is_number);
    environment.add_test("sequence", minijinja::tests::is_sequence);
    environment.add_test("startingwith", minijinja::tests::is_startingwith);
    environment.add_test("string", minijinja::tests::is_string);
    environment.add_test("undefined", minijinja::tests::is_undefined);
}

/// Checks that a template has only permitted tags. A template that is cut off is left to the parser.
///
/// # Errors
/// The line, from 1, and the fault.
fn check_syntax(source: &str) -> Result<(), (usize, String)> {
    let mut rest = source;
    while let Some((start, kind)) = next_tag(rest) {
        let line = source.len().saturating_sub(rest.len()) + start;
        let line = source.get(..line).unwrap_or_default().matches('\n').count() + 1;
        let Some(after) = rest.get(start + kind.len()..) else { break };
        let Some(end) = (match kind {
            "{#" => after.find("#}"),
            "{%" => find_end(after, "%}"),
            _ => find_end(after, "}}"),
        }) else {
            break;
        };
        let (tag, following) = after.split_at(end);
        rest = following.get(2..).unwrap_or_default();
        if kind == "{#" {
            continue;
        }
        check_tag(tag, kind == "{%").map_err(|fault| (line, fault))?;
        if kind == "{%" && first_word(tag) == "raw" {
            rest = rest.split_once("endraw").map_or("", |(_, after)| after);
        }
    }
    Ok(())
}

/// The first tag or comment: its position and its first two characters.
fn next_tag(text: &str) -> Option<(usize, &str)> {
    let starts = ["{{", "{%", "{#"].into_iter().filter_map(|kind| Some((text.find(kind)?, kind)));
    starts.min()
}

/// The end of a tag, outside of texts in quotation marks.
fn find_end(tag: &str, end: &str) -> Option<usize> {
    unquoted(tag).find(|(at, _)| tag.get(*at..).is_some_and(|rest| rest.starts_with(end))).map(|(at, _)| at)
}

/// The characters outside of texts in quotation marks, with their positions.
fn unquoted(tag: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut quote, mut is_escaped) = (None, false);
    tag.char_indices().filter(move |(_, character)| {
        if is_escaped {
            is_escaped = false;
            return false;
        }
        match (quote, character) {
            (Some(_), '\\') => is_escaped = true,
            (Some(open), character) if open == *character => quote = None,
            (None, '"' | '\'') => quote = Some(*character),
            (None, _) => return true,
            (Some(_), _) => {}
        }
        false
    })
}

fn first_word(tag: &str) -> &str {
    tag.trim_start_matches(['-', '+']).split_whitespace().next().unwrap_or_default()
}

fn check_tag(tag: &str, is_block: bool) -> Result<(), String> {
    if tag.len() > TAG_MAX_BYTES {
        return Err(format!(
            "a tag has {} bytes (at most {TAG_MAX_BYTES} allowed); write a shorter one",
            tag.len()
        ));
    }
    let content = tag.strip_prefix(['-', '+']).unwrap_or(tag);
    let content = content.strip_suffix(['-', '+']).unwrap_or(content);
    if let Some((_, character)) = unquoted(content).find(|(_, character)| REFUSED.contains(character)) {
        return Err(format!(
            "a tag has `{character}`; lists, slices, maps, concatenation, sums and products are not supported"
        ));
    }
    let word = first_word(tag).trim_end_matches('-');
    if is_block && !BLOCKS.contains(&word) {
        let word = domain_base::wording::excerpt(word);
        return Err(format!("the block `{word}` is not supported (one of {})", BLOCKS.join(", ")));
    }
    if is_block && content.split_whitespace().any(|word| word == "recursive") {
        return Err("a recursive loop is not supported; write one loop for each level".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
