//! Command lines: how they are run, the examples in their help, their man pages, and the verbs that another program runs:
//! few people use those, or they need libraries that `oraclectl` does not link.

use super::error::CtlError;
use super::options::GlobalOptions;
use super::output::{Output, StandardOutput};
use clap::error::{Error as UsageError, ErrorKind, Result as UsageResult};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use domain_base::text_form::visible_text;
use nix::sys::prctl::set_dumpable;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::ExitCode;
use std::{fs, process};

/// The folder of the packages for programs that another program starts.
const LIBEXEC: &str = "/usr/libexec/oracled";

/// The program with the verbs that few people use. It runs the one under whose name it is started.
pub const TOOLS: &str = "oraclectl-tools";

/// The command line of a verb that another program runs. `oraclectl` parses it, and starts the program.
pub trait ProgramArgs: Args {
    /// The name under which it is started: `oraclectl-A-B` for the verb `A B`.
    const PROGRAM: &'static str;

    /// The arguments without options, in their order.
    fn arguments(&self) -> Vec<&OsStr>;

    /// The options, each with its value in one text.
    fn options(&self) -> Vec<String> {
        Vec::new()
    }

    /// Starts the program in place of this one.
    ///
    /// # Errors
    /// It is not installed, or cannot be started.
    fn start(&self, options: &GlobalOptions) -> Result<(), CtlError> {
        let GlobalOptions { socket, control_socket, json } = options;
        let mut command = tool(Self::PROGRAM)?;
        for (name, path) in [("--socket", socket), ("--control-socket", control_socket)] {
            if let Some(path) = path {
                command.arg(name).arg(path);
            }
        }
        if *json {
            command.arg("--json");
        }
        let command = command.args(self.options()).arg("--").args(self.arguments());
        Err(start_error(Self::PROGRAM, &command.exec()))
    }
}

/// The command that starts [`TOOLS`] under this name. The file is beside this program, or in the folder of the packages; `PATH` could
/// name a foreign one.
///
/// # Errors
/// It is not installed.
pub fn tool(name: &str) -> Result<process::Command, CtlError> {
    // after an upgrade, the name of the file has a suffix, but the folder is right
    let this = fs::read_link("/proc/self/exe").map_err(|error| start_error(name, &error))?;
    let beside = this.parent().unwrap_or(Path::new("/"));
    let found =
        [beside, Path::new(LIBEXEC)].map(|folder| folder.join(TOOLS)).into_iter().find(|file| file.is_file());
    let file = found.ok_or_else(|| failure(format!(
        "the program {TOOLS} is not installed: it is neither in {} nor in {LIBEXEC}; the packages of oracled and `just install` \
         install it, and `cargo build -p oracled-tools` builds it",
        beside.display()
    )))?;
    let mut command = process::Command::new(file);
    command.arg0(name);
    Ok(command)
}

/// The error of a program that cannot be started.
pub fn start_error(name: &str, error: &io::Error) -> CtlError {
    failure(format!("cannot start {name}: {error}"))
}

fn failure(message: String) -> CtlError {
    CtlError::Verb { message, exit_code: 5, was_printed: false }
}

/// Runs a tool with its command line.
#[must_use]
pub fn run_program<A: ProgramArgs>(
    run: impl FnOnce(&A, &GlobalOptions, &mut dyn Output) -> Result<(), CtlError>,
) -> ExitCode {
    let command = GlobalOptions::augment_args(Command::new(A::PROGRAM).version(env!("CARGO_PKG_VERSION")));
    run_command_line(A::augment_args(command), |args: &A, options, out| run(args, options, out))
}

/// Parses the command line of this process, runs it, and prints its error.
#[must_use]
pub fn run_command_line<A: FromArgMatches>(
    command: Command,
    run: impl FnOnce(&A, &GlobalOptions, &mut dyn Output) -> Result<(), CtlError>,
) -> ExitCode {
    let name = command.get_name().to_owned();
    // a core dump would contain keys, queries and addresses
    if let Err(error) = set_dumpable(false) {
        drop(writeln!(io::stderr(), "{name}: cannot turn core dumps off: {error}"));
        return ExitCode::FAILURE;
    }
    let parsed: UsageResult<(GlobalOptions, A)> = command.try_get_matches().and_then(|matches| {
        check_formats(&matches)?;
        Ok((GlobalOptions::from_arg_matches(&matches)?, A::from_arg_matches(&matches)?))
    });
    let (options, args) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return print_usage_error(&error),
    };
    let out = &mut StandardOutput::new();
    let done = run(&args, &options, out).and_then(|()| Ok(out.flush()?));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            super::output::print_error(&error, options.json, out);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Refuses `--json` with `--csv`. A verb does not see a `--json` before its name as a conflict.
fn check_formats(matches: &ArgMatches) -> UsageResult<()> {
    let is_set = |matches: &ArgMatches, name: &str| {
        matches.try_get_one::<bool>(name).ok().flatten().copied().unwrap_or_default()
    };
    let (mut csv, mut json) = (is_set(matches, "csv"), is_set(matches, "json"));
    let mut verb = matches.subcommand();
    while let Some((_, matches)) = verb {
        csv |= is_set(matches, "csv");
        json |= is_set(matches, "json");
        verb = matches.subcommand();
    }
    if csv && json {
        let fault = "the argument '--csv' cannot be used with '--json'\n";
        return Err(UsageError::raw(ErrorKind::ArgumentConflict, fault));
    }
    Ok(())
}

/// Prints an error of the command line, or its help. The error quotes the arguments, which may be foreign text.
fn print_usage_error(error: &UsageError) -> ExitCode {
    let text = error.to_string();
    // a reader that closed the pipe has seen enough
    if !error.use_stderr() || visible_text(&text) == text {
        drop(error.print());
    } else {
        drop(write!(io::stderr(), "{}", visible_text(&text)));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Runs a verb that sends requests to the daemon.
///
/// # Errors
/// That of the verb.
pub fn block_on(verb: impl Future<Output = Result<(), CtlError>>) -> Result<(), CtlError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(CtlError::Output)?.block_on(verb)
}

/// The end of a verb's help: these command lines.
pub fn examples(lines: &[&str]) -> String {
    format!("Examples:\n  {}", lines.join("\n  "))
}

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

#[cfg(test)]
mod tests {
    use super::check_formats;
    use crate::base::options::GlobalOptions;
    use clap::{Arg, ArgAction, Args, Command};

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

    #[test]
    fn csv_and_json_are_refused_together_in_any_order() {
        let exit_code = |line: &str| {
            let csv = Arg::new("csv").long("csv").action(ArgAction::SetTrue);
            let program = GlobalOptions::augment_args(Command::new("oraclectl"));
            let program = program.subcommand(Command::new("query").arg(csv)).subcommand(Command::new("log"));
            let matches = program.try_get_matches_from(line.split(' '));
            matches.and_then(|matches| check_formats(&matches)).err().map(|error| error.exit_code())
        };
        for (line, expected) in [
            ("oraclectl --json query --csv", Some(2)),
            ("oraclectl query --csv --json", Some(2)),
            ("oraclectl query --csv", None),
            ("oraclectl --json query", None),
            ("oraclectl --json log", None),
        ] {
            assert_eq!(exit_code(line), expected, "{line}");
        }
    }
}
