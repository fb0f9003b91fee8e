//! `oraclectl.md`: every verb of `oraclectl`.

use super::markdown::{anchor, code, codes, table};
use clap::{Arg, ArgAction, Command};

/// The page.
pub(super) fn page() -> String {
    let mut command = oracled_ctl::command().disable_help_subcommand(true);
    command.build();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut out = format!(
        "# oraclectl\n\n{}\n{about}. The verbs send requests to the daemon's sockets; `calibrate`, `schema`, `completions` and \
         `man` work without a daemon. `oraclectl VERB --help` shows one verb.\n\n",
        super::GENERATED
    );
    let global: Vec<_> =
        command.get_arguments().filter(|argument| argument.is_global_set()).map(row).collect();
    out += &format!("## Global options\n\n{}", table(["option", "meaning"], &global));
    let codes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    out += &format!("## Exit codes\n\n```text\n{}\n```\n\n", codes.split_once('\n').unwrap_or_default().1);
    let verbs: Vec<_> = command.get_subcommands().map(verb_row).collect();
    out += &format!("## Verbs\n\n{}", table(["verb", "purpose"], &verbs));
    for verb in command.get_subcommands() {
        out += &section(verb, 2);
    }
    out.trim_end().to_owned() + "\n"
}

/// The row of a verb, with a link to its section.
fn verb_row(verb: &Command) -> [String; 2] {
    let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
    let heading = verb.get_bin_name().unwrap_or_else(|| verb.get_name());
    [format!("[{}](#{})", code(verb.get_name()), anchor(heading)), about]
}

/// The section of a verb, with sections of the verbs below it.
fn section(verb: &Command, level: usize) -> String {
    let name = verb.get_bin_name().unwrap_or_else(|| verb.get_name());
    let about = verb.get_long_about().or(verb.get_about()).map(ToString::to_string).unwrap_or_default();
    let mut out = format!(
        "{} {name}\n\n{}.\n\n",
        "#".repeat(level),
        about.trim_end_matches('.').replacen("\n\n", ".\n\n", 1)
    );
    let below: Vec<&Command> = verb.get_subcommands().collect();
    let usage = verb.clone().render_usage().to_string();
    out += &format!("```text\n{}\n```\n\n", usage.trim_start_matches("Usage: ").replace("\n       ", "\n"));
    // clap adds --help and --version to every command
    let is_built_in =
        |action: &ArgAction| matches!(action, ArgAction::Help | ArgAction::HelpLong | ArgAction::Version);
    let own = verb
        .get_arguments()
        .filter(|argument| !argument.is_global_set() && !is_built_in(argument.get_action()));
    out += &table(["argument", "meaning"], &own.map(row).collect::<Vec<_>>());
    let examples = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
    if let Some((_, examples)) = examples.split_once(":\n") {
        let lines: Vec<_> = examples.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
        out += &format!("Examples:\n\n```sh\n{}\n```\n\n", lines.join("\n"));
    }
    below.into_iter().fold(out, |out, verb| out + &section(verb, level + 1))
}

/// The row of an argument: its form and its meaning.
fn row(argument: &Arg) -> [String; 2] {
    let meaning =
        argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let values = argument.get_possible_values();
    let takes_values = argument.get_action().takes_values();
    let mut meaning = vec![meaning];
    if takes_values && !values.is_empty() {
        meaning.push(format!("One of {}", codes(values.iter().map(|value| value.get_name()))));
    }
    let default: Vec<_> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .filter(|value| !value.is_empty())
        .collect();
    if takes_values && !default.is_empty() {
        meaning.push(format!("Default: {}", codes(default)));
    }
    let required = if argument.is_required_set() && !argument.is_positional() { " (required)" } else { "" };
    [format!("{}{required}", code(form(argument))), meaning.join(". ")]
}

/// An argument as it is written: `FILE`, or `-n, --limit <N>`.
fn form(argument: &Arg) -> String {
    let value = argument.get_value_names().map(|names| names.join(" "));
    let value = value.unwrap_or_else(|| argument.get_id().as_str().to_uppercase());
    if argument.is_positional() {
        return value;
    }
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let value = if argument.get_action().takes_values() { format!(" <{value}>") } else { String::new() };
    names.join(", ") + &value
}
