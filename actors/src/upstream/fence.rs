//! The Markdown code fence that models put around JSON although they were told not to.

const FENCE: &str = "```";

/// The text within one code fence around the whole of `text`, else `text` as it is. Nothing else is repaired.
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
    fn one_fence_around_everything_is_taken_off() {
        for fenced in
            ["```json\n{}\n```", "```\n{}\n```", "  ```JSON  \r\n{}\r\n```\n\n", "```json\n\n  {}\n  ```"]
        {
            assert_eq!(strip_fence(fenced), "{}", "{fenced:?}");
        }
        assert_eq!(strip_fence("```json\n{\"a\": \"``` in a text\"}\n```"), "{\"a\": \"``` in a text\"}");
        assert_eq!(strip_fence("```\n```"), "```\n```", "nothing is in it");
    }

    #[test]
    fn anything_else_stays_as_it_came() {
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
