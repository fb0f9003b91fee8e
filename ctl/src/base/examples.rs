//! The examples in the help of the verbs.

use clap::Command;

/// The examples of a verb, by its path.
const EXAMPLES: [(&str, &[&str]); 56] = [
    ("crosscheck", &["oraclectl crosscheck verdict.json --tier full"]),
    (
        "submit",
        &[
            "oraclectl submit cs_1 verdict.json --tier full --query 'Does ice float?'",
            "oraclectl submit cs_1 verdict.json --tier full --query 'Does ice float?' --facts facts.txt",
            "oraclectl submit cs_1 --tier full --query 'Does ice float?'",
        ],
    ),
    ("register", &["oraclectl register cs_2 --tier full --query 'Does ice float?' --original-verdict GREEN"]),
    ("verdict", &["oraclectl verdict cs_1"]),
    ("divergence", &["oraclectl divergence --since 30d"]),
    (
        "log",
        &[
            "oraclectl log --follow",
            "oraclectl log --session cs_1 --since 2h",
            "oraclectl log --event message_failed -n 20",
            "oraclectl log --json --after 0",
            "oraclectl log prove --session cs_1",
            "oraclectl log export /srv/log",
            "oraclectl log checkpoint",
            "oraclectl log key",
        ],
    ),
    (
        "verify-log",
        &[
            "oraclectl verify-log bundle.json --key log-key --since checkpoint",
            "oraclectl verify-log /var/lib/oracled --key log-key --since checkpoint",
        ],
    ),
    ("backup", &["oraclectl backup /backup/oracled-2026-11-22"]),
    ("restore", &["oraclectl restore /backup/oracled-2026-11-22 --state-dir /var/lib/oracled --key log-key"]),
    ("session", &["oraclectl session cs_1", "oraclectl session shop/cs_1"]),
    ("session correct", &["oraclectl session correct cs_1 --customer-email a@example.org"]),
    ("export", &["oraclectl export --session cs_1"]),
    ("drain", &["oraclectl drain", "oraclectl drain --off"]),
    ("log-level", &["oraclectl log-level debug", "oraclectl log-level oracled=debug,info"]),
    ("doctor", &["sudo oraclectl doctor", "oraclectl doctor --config oracled.toml --json"]),
    ("health", &["oraclectl health", "oraclectl health open gemini"]),
    ("orders", &["oraclectl orders --state held"]),
    ("order show", &["oraclectl order show cs_1", "oraclectl order show cs_1 --text"]),
    ("order release", &["oraclectl order release cs_1 --reason 'the conflict is explained'"]),
    ("order retry", &["oraclectl order retry cs_1 --reason 'the model works again'"]),
    ("order fail", &["oraclectl order fail cs_1 --reason 'the model cannot answer this'"]),
    ("order cancel", &["oraclectl order cancel cs_1 --reason 'the customer has cancelled'"]),
    ("outbox", &["oraclectl outbox --dead", "oraclectl outbox requeue --all-dead"]),
    ("outbox requeue", &["oraclectl outbox requeue verdict:cs_1", "oraclectl outbox requeue --all-dead"]),
    ("prompt show", &["oraclectl prompt show oracled-default"]),
    ("prompt try", &["oraclectl prompt try ./house.yaml queries.ndjson"]),
    ("webhook list", &["oraclectl webhook list --dead"]),
    ("webhook test", &["oraclectl webhook test --application shop", "oraclectl webhook test --operator"]),
    ("calibrate", &["oraclectl calibrate corpus.ndjson"]),
    ("rules show", &["oraclectl rules show RULE-PREC-007"]),
    (
        "rules check",
        &[
            "oraclectl rules check text.txt --facts facts.txt",
            "oraclectl rules check text.txt --facts-from sources.json --rules RULE-PREC-007",
        ],
    ),
    ("rules eval", &["oraclectl rules eval cases.ndjson"]),
    (
        "new source",
        &["oraclectl new source heights.csv", "oraclectl new source API_SP.POP.TOTL.csv --id wdi-population"],
    ),
    ("try", &["oraclectl try heights.yaml heights.csv", "oraclectl try documents/ heights.csv -n 20 --json"]),
    ("apply", &["oraclectl apply -f sources/ -f workflow.yaml --dry-run", "oraclectl apply -f sources/"]),
    ("get", &["oraclectl get source", "oraclectl get ontology demography@1.0"]),
    ("describe", &["oraclectl describe source wb-population"]),
    ("schema", &["oraclectl schema pipeline"]),
    ("source approve", &["oraclectl source approve wb-population"]),
    ("source deprecate", &["oraclectl source deprecate wb-population --on 2027-03-01"]),
    (
        "source invalidate",
        &["oraclectl source invalidate wb-population --reason 'the publisher has withdrawn 2025'"],
    ),
    (
        "source confirm",
        &["oraclectl source confirm wb-population --reason 'the publisher has confirmed 2025'"],
    ),
    ("source prune", &["oraclectl source prune wb-population --before 2020-01-01"]),
    ("ingest run", &["oraclectl ingest run wb-population data.csv --version 2026 --released-at 2026-07-01"]),
    ("ingest list", &["oraclectl ingest list wb-population -n 10"]),
    ("ingest changes", &["oraclectl ingest changes 3f2a9c01"]),
    ("ingest show", &["oraclectl ingest show 3f2a9c01"]),
    ("ingest approve", &["oraclectl ingest approve 3f2a9c01 --reason 'the census has changed the counts'"]),
    ("rejects", &["oraclectl rejects 3f2a9c01 --rule check -n 20", "oraclectl rejects 3f2a9c01 --csv"]),
    (
        "query",
        &[
            "oraclectl query wb-population area=MDA 'year>=2010'",
            "oraclectl query wb-population 'area in MDA,ROU' --axes year,population --at 2015-06-30 --csv",
            "oraclectl query wb-population area=MDA --known-at 2026-01-31 --explain",
        ],
    ),
    (
        "verify",
        &[
            "oraclectl verify population area=MDA year=2015 --axes population --wait",
            "oraclectl verify population area=MDA year=2015 --axes population \\\n    \
             --claim population=2835978 --by census-office",
        ],
    ),
    (
        "review list",
        &[
            "oraclectl review list --workflow population",
            "oraclectl review list --all -n 20",
            "oraclectl review list --kind order",
        ],
    ),
    (
        "review resolve",
        &[
            "oraclectl review resolve v-0660d63c8093cc-02f36bb2b4 population=54208 --reason 'census report' --valid-for 90d",
        ],
    ),
    (
        "review dismiss",
        &["oraclectl review dismiss v-0660d63c8093cc-02f36bb2b4 --reason 'the sources agree again'"],
    ),
    ("console", &["oraclectl console", "oraclectl console --port 8080"]),
    ("man", &["oraclectl man /usr/local/share/man/man1"]),
];

/// Adds to each verb of `command` its examples, as the end of its help.
pub fn add_to(command: Command) -> Command {
    add_below(command, "")
}

fn add_below(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|verb| {
        let path = format!("{path} {}", verb.get_name());
        add_below(verb, path.trim_start())
    });
    match EXAMPLES.iter().find(|(verb, _)| *verb == path) {
        Some((_, examples)) => command.after_help(format!("Examples:\n  {}", examples.join("\n  "))),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::EXAMPLES;

    /// The words of a command line, as a shell splits them.
    fn split_words(line: &str) -> Vec<String> {
        let line = line.strip_prefix("sudo ").unwrap_or(line).replace("\\\n", " ");
        let parts = line.split('\'').enumerate();
        let marked =
            parts.map(|(number, part)| if number % 2 == 0 { part.replace(' ', "\n") } else { part.into() });
        let marked: String = marked.collect();
        marked.split('\n').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn examples_parse_as_commands_of_their_verb() {
        for (path, examples) in EXAMPLES {
            for example in examples {
                let matches = crate::command().try_get_matches_from(split_words(example));
                let mut matches = &matches.unwrap_or_else(|error| panic!("{example}: {error}"));
                for name in path.split(' ') {
                    let (found, below) = matches.subcommand().expect("the example has a verb");
                    assert_eq!(found, name, "{example}");
                    matches = below;
                }
            }
        }
    }

    #[test]
    fn every_path_of_examples_is_a_verb() {
        let command = crate::command();
        for (path, _) in EXAMPLES {
            let mut verb = &command;
            for name in path.split(' ') {
                verb = verb.find_subcommand(name).expect(path);
            }
            assert!(verb.get_after_help().is_some(), "{path}");
        }
    }
}
