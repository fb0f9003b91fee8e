//! The programs that `oracled dev` starts: `oraclectl console`, and the script of `--seed`.

use anyhow::{Context, bail};
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::path::{self, Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;

/// `oraclectl` with the sockets of the daemon.
#[derive(Debug, Clone)]
pub(super) struct DevTools {
    pub(super) oraclectl: PathBuf,
    pub(super) socket: PathBuf,
    pub(super) control_socket: PathBuf,
}

impl DevTools {
    /// Creates `oraclectl` in `dir`: the program is `oraclectl` when it is started under that name.
    pub(super) fn new(dir: &Path, socket: &Path, control_socket: &Path) -> io::Result<Self> {
        let oraclectl = dir.join("oraclectl");
        symlink(env::current_exe()?, &oraclectl)?;
        Ok(Self { oraclectl, socket: socket.to_owned(), control_socket: control_socket.to_owned() })
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("ORACLED_SOCKET", &self.socket).env("ORACLED_CONTROL_SOCKET", &self.control_socket);
        command
    }

    /// Fails if the script `file` of `--seed` cannot be read.
    pub(super) fn check_seed(file: &Path) -> anyhow::Result<()> {
        let shown = path::absolute(file)?;
        let opened = File::open(file).and_then(|file| file.metadata());
        let metadata =
            opened.with_context(|| format!("cannot read the script {} of --seed", shown.display()))?;
        if metadata.is_dir() {
            bail!("{} is a directory (--seed requires a script)", shown.display());
        }
        Ok(())
    }

    /// Runs the script `file` in its folder, with `oraclectl` in its `PATH`. Blocks until it ends.
    ///
    /// # Errors
    /// The script cannot be started, or fails.
    pub(super) fn run_seed(&self, file: &Path) -> anyhow::Result<()> {
        let shown = file.display();
        let file = path::absolute(file)?;
        let dir = file.parent().context("the script has no folder")?;
        let own = self.oraclectl.parent().map(Path::to_owned);
        let others = env::var_os("PATH").unwrap_or_default();
        let paths: OsString = env::join_paths(own.into_iter().chain(env::split_paths(&others)))?;
        let (program, argument) =
            read_interpreter(&file).with_context(|| format!("cannot read the script {shown} of --seed"))?;
        let mut script = self.command(Path::new(&program));
        script.args(argument).arg(&file).current_dir(dir).env("PATH", paths).stdin(Stdio::null());
        let status = script.status().with_context(|| format!("cannot start `{program}`"))?;
        if !status.success() {
            bail!("the script {shown} of --seed failed: {status}; its output is above");
        }
        Ok(())
    }

    /// Starts `oraclectl console` on a free port. Prints its link, and a new one whenever Enter is pressed. Blocks until the
    /// first link is printed.
    pub(super) fn start_console(&self) -> io::Result<ConsoleProcess> {
        let mut console = self.command(&self.oraclectl);
        console.args(["console", "--port", "0", "--until-eof"]);
        console.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = console.spawn()?;
        if let Some(input) = child.stdin.take() {
            thread::spawn(move || forward_lines(input));
        }
        let mut lines = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
        match lines.next() {
            Some(link) => writeln!(io::stdout(), "console  {}", link?)?,
            None => {
                let mut fault = String::new();
                child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut fault)).transpose()?;
                writeln!(io::stdout(), "console  none: {}", fault.trim_end())?;
            }
        }
        thread::spawn(move || {
            for link in lines.map_while(Result::ok) {
                drop(writeln!(io::stdout(), "console  {link}"));
            }
        });
        Ok(ConsoleProcess(child))
    }
}

/// Passes the lines of standard input to the console. Its input stays open until this process ends, in whatever way; the console ends
/// then, too.
fn forward_lines(mut console: ChildStdin) {
    for _ in io::stdin().lines().map_while(Result::ok) {
        // the console has ended
        if writeln!(console).is_err() {
            return;
        }
    }
    loop {
        thread::park();
    }
}

/// The longest first line that can name an interpreter, in bytes.
const INTERPRETER_MAX_BYTES: u64 = 256;

/// The program that runs the script `file`, and its argument: those of the `#!` line, which the kernel reads in the same way, else
/// `sh -eu`.
fn read_interpreter(file: &Path) -> io::Result<(String, Option<String>)> {
    let mut line = Vec::new();
    BufReader::new(File::open(file)?).take(INTERPRETER_MAX_BYTES).read_until(b'\n', &mut line)?;
    let line = String::from_utf8_lossy(&line);
    let Some(line) = line.strip_prefix("#!").map(str::trim).filter(|line| !line.is_empty()) else {
        return Ok(("sh".to_owned(), Some("-eu".to_owned())));
    };
    Ok(match line.split_once([' ', '\t']) {
        Some((program, argument)) => (program.to_owned(), Some(argument.trim().to_owned())),
        None => (line.to_owned(), None),
    })
}

/// A running console. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct ConsoleProcess(Child);

impl Drop for ConsoleProcess {
    fn drop(&mut self) {
        // an error means that it has ended
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn script_runs_by_the_interpreter_of_its_first_line_else_by_sh() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("seed");
        for (content, program, argument) in [
            ("#!/usr/bin/env bash\nset -o pipefail\n", "/usr/bin/env", Some("bash")),
            ("#! /bin/sh\r\n", "/bin/sh", None),
            ("#!/usr/bin/env -S bash -e", "/usr/bin/env", Some("-S bash -e")),
            ("oraclectl apply -f sources/\n", "sh", Some("-eu")),
            ("", "sh", Some("-eu")),
        ] {
            fs::write(&file, content).expect("the file is written");
            let found = read_interpreter(&file).expect("the file is read");
            assert_eq!((found.0.as_str(), found.1.as_deref()), (program, argument), "{content}");
        }
    }
}
