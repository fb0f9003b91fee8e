//! The lines of the keys in the configuration file.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The line of `key` in `text`, counted from 1; `None` if `text` is not TOML, or does not have the key.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let start = find_key(table.get_ref(), key)?;
    Some(1 + text.get(..start)?.matches('\n').count())
}

/// The position of `key` in the text of `table`.
fn find_key(table: &DeTable<'_>, key: &str) -> Option<usize> {
    table.iter().find_map(|(name, value): (&Spanned<_>, &Spanned<_>)| {
        match (key.strip_prefix(name.get_ref().as_ref())?, value.get_ref()) {
            ("", _) => Some(name.span().start),
            (below, DeValue::Table(table)) => find_key(table, below.strip_prefix('.')?),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_key_is_found_in_each_form_of_a_table() {
        let text = "# a comment\nsokcet = '/x'\n\n[limit]\nidle_s = 1\n\n[models.a]\nnmae = \"\"\"\n\n\"\"\"\n\
                    mail.hsot = 1\nother = { x.yy = 1 }\n";
        for (key, line) in [
            ("sokcet", Some(2)),
            ("limit", Some(4)),
            ("limit.idle_s", Some(5)),
            ("models.a.nmae", Some(8)),
            ("models.a.mail.hsot", Some(11)),
            ("models.a.other.x.yy", Some(12)),
            ("models.b.nmae", None),
            ("sokcet.a", None),
            ("soc", None),
        ] {
            assert_eq!(line_of(text, key), line, "{key}");
        }
        assert_eq!(line_of("[limits", "limits"), None);
    }
}
