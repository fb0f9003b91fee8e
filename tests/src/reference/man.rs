//! `oracled(8)` and `oracled.toml(5)`, from the sources of the reference pages.

use super::configuration::{ConfigKey, ConfigReference, ConfigTable};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

/// The man page of the daemon.
pub(super) fn oracled() -> String {
    let mut command = oracled::cli::command().disable_help_subcommand(true);
    command.build();
    let man = Man::new(command.clone()).section("8").date("\"\"").manual("oracled");
    let mut page = Vec::new();
    let rendered = man.render_title(&mut page).and_then(|()| man.render_name_section(&mut page));
    rendered.and_then(|()| man.render_synopsis_section(&mut page)).expect("memory takes the page");
    for verb in command.get_subcommands() {
        let mut roff = Roff::new();
        roff.control("SH", [verb.get_name().to_uppercase().as_str()]);
        prose(&mut roff, &verb.get_about().map(ToString::to_string).unwrap_or_default(), "PP");
        roff.to_writer(&mut page).expect("memory takes the page");
        Man::new(verb.clone()).render_options_section(&mut page).expect("memory takes the page");
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("oracled.toml"), roman("(5), "), bold("oraclectl"), roman("(1)")]);
    // the options of a verb are below its section
    String::from_utf8_lossy(&page).replace(".SH OPTIONS", ".SS Options") + &roff.to_roff()
}

/// The man page of the configuration file.
pub(super) fn oracled_toml() -> String {
    let reference = ConfigReference::new();
    let mut roff = Roff::new();
    let source = concat!("oracled ", env!("CARGO_PKG_VERSION"));
    roff.control("TH", ["oracled.toml", "5", "\"\"", source, "oracled"]);
    roff.control("SH", ["NAME"]).text([roman("oracled.toml - configuration of oracled")]);
    roff.control("SH", ["DESCRIPTION"]);
    prose(&mut roff, reference.description(), "PP");
    for ConfigTable { name, description, keys } in reference.tables() {
        let heading = if name.is_empty() { "KEYS".into() } else { format!("[{name}]") };
        roff.control("SH", [heading.as_str()]);
        prose(&mut roff, &description, "PP");
        for ConfigKey { name, description, facts } in keys {
            roff.control("TP", []).text([bold(name)]);
            prose(&mut roff, &description, "IP");
            let facts: Vec<_> = facts.iter().map(|(label, fact)| format!("{label}: {fact}.")).collect();
            roff.control("IP", []);
            roff.text(inlines(&facts.join(" ")));
        }
    }
    let (description, keys) = reference.credential();
    roff.control("SH", ["CREDENTIALS"]);
    prose(&mut roff, description, "PP");
    let flags = reference.flags();
    let keys = keys.into_iter().map(|(name, meaning)| (name.to_owned(), meaning.to_owned()));
    entries(&mut roff, keys);
    roff.control("SH", ["FLAGS THAT ARE NOT KEYS"]);
    entries(&mut roff, flags);
    roff.control("SH", ["SEE ALSO"]).text([bold("oracled"), roman("(8)")]);
    roff.render()
}

fn entries(roff: &mut Roff, entries: impl IntoIterator<Item = (String, String)>) {
    for (name, meaning) in entries {
        roff.control("TP", []).text([bold(name)]);
        prose(roff, &meaning, "IP");
    }
}

/// Adds the paragraphs and code blocks of a Markdown text. `separator` begins each paragraph after the first.
fn prose(roff: &mut Roff, markdown: &str, separator: &str) {
    for (number, part) in markdown.split("```").enumerate() {
        if number % 2 == 1 {
            roff.control(separator, []).control("nf", []);
            for line in part.lines().skip(1) {
                roff.text([roman(line)]);
            }
            roff.control("fi", []);
            continue;
        }
        for (place, paragraph) in
            part.split("\n\n").map(str::trim).filter(|text| !text.is_empty()).enumerate()
        {
            if number + place > 0 {
                roff.control(separator, []);
            }
            roff.text(inlines(paragraph));
        }
    }
}

/// A paragraph with its code in bold. Links keep only their text.
fn inlines(paragraph: &str) -> Vec<Inline> {
    let plain = paragraph.replace('\n', " ").replace("[credential](#credentials)", "credential");
    let parts = plain.split('`').enumerate().filter(|(_, part)| !part.is_empty());
    parts.map(|(number, part)| if number % 2 == 1 { bold(part) } else { roman(part) }).collect()
}
