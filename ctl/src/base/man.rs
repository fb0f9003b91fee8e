//! Man pages of a command line.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::io;

/// The man pages in section 1 of `command` and of all its verbs, each with its file name.
///
/// # Errors
/// None occurs: the pages are in memory.
pub fn man_pages(command: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, "", command.get_version().unwrap_or_default(), &mut pages)?;
    Ok(pages)
}

fn add_pages(
    command: &Command,
    above: &str,
    version: &str,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> io::Result<()> {
    // clap_mangen writes an empty argument as none; the date stays empty so that the pages are reproducible
    let man = Man::new(command.clone()).date("\"\"").source(format!("oracled {version}")).manual("oracled");
    let page = &mut Vec::new();
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    render_after_help(command).to_writer(page)?;
    if !above.is_empty() {
        Roff::new().control("SH", ["SEE ALSO"]).text([roman(format!("{above}(1)"))]).to_writer(page)?;
    }
    pages.push((man.get_filename(), std::mem::take(page)));
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    command.get_subcommands().try_for_each(|verb| add_pages(verb, name, version, pages))
}

/// The blocks of text after the options, such as the examples. The first line of a block is its heading.
fn render_after_help(command: &Command) -> Roff {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut roff = Roff::new();
    for (heading, lines) in text.split("\n\n").filter_map(|block| block.split_once(":\n")) {
        roff.control("SH", [heading.to_uppercase().as_str()]).control("nf", []);
        for line in lines.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff
}
