//! The examples in the help of the verbs.

/// The end of a verb's help: these command lines.
pub fn examples(lines: &[&str]) -> String {
    format!("Examples:\n  {}", lines.join("\n  "))
}

#[cfg(test)]
mod tests {
    use clap::Command;

    /// The words of a command line, as a shell splits them.
    fn split_words(line: &str) -> Vec<String> {
        let line = line.strip_prefix("sudo ").unwrap_or(line);
        let parts = line.split('\'').enumerate();
        let marked =
            parts.map(|(number, part)| if number % 2 == 0 { part.replace(' ', "\n") } else { part.into() });
        let marked: String = marked.collect();
        marked.split('\n').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    /// Checks the examples of `verb`, whose path is `path`, and of the verbs below it; returns their number.
    fn check(verb: &Command, path: &[String]) -> usize {
        let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        // a line that ends with a backslash continues in the next one
        let help = help.replace("\\\n", " ");
        // the end of the whole help has the exit codes
        assert!(path.is_empty() || help.is_empty() || help.starts_with("Examples:\n"), "{help}");
        let examples: Vec<_> = help.lines().skip(1).filter(|_| !path.is_empty()).collect();
        for example in &examples {
            let matches = crate::command().try_get_matches_from(split_words(example.trim_start()));
            let mut matches = &matches.unwrap_or_else(|error| panic!("{example}: {error}"));
            for name in path {
                let (found, below) = matches.subcommand().expect("the example has a verb");
                assert_eq!(found, name, "{example}");
                matches = below;
            }
        }
        let below = verb.get_subcommands();
        examples.len()
            + below.map(|verb| check(verb, &[path, &[verb.get_name().to_owned()]].concat())).sum::<usize>()
    }

    #[test]
    fn examples_parse_as_commands_of_their_verb() {
        assert!(check(&crate::command(), &[]) > 80);
    }
}
