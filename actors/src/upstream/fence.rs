//! The Markdown code fence that models put around JSON although the prompt forbids it.

const FENCE: &str = "```";

/// Returns the text within one code fence around the whole of `text`, else `text` unchanged. Nothing else is repaired.
pub(crate) fn strip_fence(text: &str) -> &str {
    inside(text.trim()).unwrap_or(text)
}

fn inside(text: &str) -> Option<&str> {
    let (language, rest) = text.strip_prefix(FENCE)?.split_once('\n')?;
    let inner = rest.strip_suffix(FENCE)?;
    let named = ["", "json"].iter().any(|word| language.trim().eq_ignore_ascii_case(word));
    let on_its_own_line = inner.trim_end_matches([' ', '\t']).ends_with('\n');
    let another = inner.lines().any(|line| line.trim_start().starts_with(FENCE));
    (named && on_its_own_line && !another).then(|| inner.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strip_fence_removes_one_fence_around_the_whole_text() {
        for fenced in
            ["```json\n{}\n```", "```\n{}\n```", "  ```JSON  \r\n{}\r\n```\n\n", "```json\n\n  {}\n  ```"]
        {
            assert_eq!(strip_fence(fenced), "{}", "{fenced:?}");
        }
        assert_eq!(strip_fence("```json\n{\"a\": \"``` in a text\"}\n```"), "{\"a\": \"``` in a text\"}");
        assert_eq!(strip_fence("```\n```"), "```\n```", "nothing is in it");
    }

    #[test]
    fn strip_fence_leaves_any_other_text_unchanged() {
        for text in [
            "{}",
            " {} \n",
            "",
            "```",
            "``````",
            "```json",
            "```json\n{}",
            "{}\n```",
            "```{}```",
            "```json {}\n```",
            "```json\n{}```",
            "```yaml\n{}\n```",
            "Here you are:\n```json\n{}\n```",
            "```json\n{}\n```\nThere you are.",
            "```json\n{}\n```\n```json\n{}\n```",
        ] {
            assert_eq!(strip_fence(text), text, "{text:?}");
        }
    }
}
