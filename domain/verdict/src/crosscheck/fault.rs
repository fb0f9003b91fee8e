//! The fault of the text of a rejected verdict, for its sender. It quotes the text, so it is never stored or logged.

use crate::label::{ProductTier, VerdictDimension, VerdictLabel};
use domain_base::payload::{JsonNode, VerdictPayload};
use domain_base::text_form::visible_line;

/// The maximum length of a quoted word, in characters.
const WORD_MAX_CHARS: usize = 40;
/// The maximum length of the parser's error, in characters. It can quote a name.
const ERROR_MAX_CHARS: usize = 160;

/// The first fault that the flags do not locate: of the JSON, or of a label. `None` if there is none.
#[must_use]
pub fn describe_fault(tier: ProductTier, payload: &VerdictPayload) -> Option<String> {
    let text = payload.text();
    let root = match JsonNode::parse(text) {
        Ok(root @ JsonNode::Object(_)) => root,
        Ok(_) => return Some("the text is JSON, but no object".to_owned()),
        Err(_) if text.is_empty() => return Some("the text is empty".to_owned()),
        Err(_) if text.starts_with("```") => return Some("the text begins with a Markdown fence".to_owned()),
        Err(error) => {
            return Some(format!("the text is no JSON: {}", quoted(&error.to_string(), ERROR_MAX_CHARS)));
        }
    };
    describe_label("verdict", &root).or_else(|| {
        let breakdown = root.object_at("breakdown").filter(|_| tier >= ProductTier::Full)?;
        VerdictDimension::ALL.into_iter().find_map(|dimension| {
            let path = format!("breakdown.{dimension}.verdict");
            describe_label(&path, breakdown.object_at(dimension.into_str())?)
        })
    })
}

/// The fault of the label of a judged object; `None` if it is valid or missing. `path` is that of the label.
fn describe_label(path: &str, object: &JsonNode<'_>) -> Option<String> {
    let (_, label) = object.members().iter().find(|(name, _)| name == "verdict")?;
    let value = match label {
        JsonNode::Text(word) if word.parse::<VerdictLabel>().is_ok() => return None,
        JsonNode::Text(word) => format!("`{}`", quoted(word, WORD_MAX_CHARS)),
        _ => "no string".to_owned(),
    };
    let allowed = VerdictLabel::ALL.map(|label| label.into_str()).join(", ");
    Some(format!("`{path}` is {value}; allowed: {allowed}"))
}

fn quoted(text: &str, chars_max: usize) -> String {
    let head: String = text.chars().take(chars_max).collect();
    let end = if head.len() < text.len() { "…" } else { "" };
    format!("{}{end}", visible_line(&head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_of_the_json_or_of_a_label_is_described() {
        let long = format!(r#"{{"verdict":"{}"}}"#, "é".repeat(50));
        let cut = format!("`verdict` is `{}…`; allowed: GREEN, AMBER, RED, NULL", "é".repeat(40));
        let labeled = r#"{"verdict":"RED","breakdown":{"Change Rate":{"verdict":"Red"}}}"#;
        let of_dimension = "`breakdown.Change Rate.verdict` is `Red`; allowed: GREEN, AMBER, RED, NULL";
        for (tier, text, expected) in [
            (ProductTier::Quick, "```json\n{}\n```", Some("the text begins with a Markdown fence")),
            (ProductTier::Quick, "Sure! {}", Some("the text is no JSON: expected value at line 1 column 1")),
            (ProductTier::Quick, "  ", Some("the text is empty")),
            (ProductTier::Quick, "[]", Some("the text is JSON, but no object")),
            (
                ProductTier::Quick,
                r#"{"verdict":"green"}"#,
                Some("`verdict` is `green`; allowed: GREEN, AMBER, RED, NULL"),
            ),
            (
                ProductTier::Quick,
                r#"{"verdict":null}"#,
                Some("`verdict` is no string; allowed: GREEN, AMBER, RED, NULL"),
            ),
            (ProductTier::Quick, long.as_str(), Some(cut.as_str())),
            (ProductTier::Full, labeled, Some(of_dimension)),
            (ProductTier::Quick, labeled, None),
            (ProductTier::Quick, "{}", None),
        ] {
            let fault = describe_fault(tier, &VerdictPayload::raw(text));
            assert_eq!(fault.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn error_of_the_parser_is_cut() {
        let name = "x".repeat(10_000);
        let text = format!(r#"{{"{name}":1,"{name}":2}}"#);
        let fault = describe_fault(ProductTier::Quick, &VerdictPayload::raw(&text)).expect("a fault");
        assert!(fault.starts_with("the text is no JSON: the name `xxx") && fault.len() < 200, "{fault}");
    }
}
