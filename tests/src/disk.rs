//! A disk that is full, for one daemon alone: no file of its own may grow any more.

use crate::{Daemon, World};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Prepares `world` for [`fill`]; false where this machine has no program for it.
#[must_use]
pub fn can_be_filled(world: &mut World) -> bool {
    // the signal would end the daemon; what it is to see is the error
    world.wrapper = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"].map(String::from).into();
    let prlimit = Command::new("prlimit").arg("--version").stdout(Stdio::null()).status();
    prlimit.is_ok_and(|status| status.success())
}

/// Takes the room away from `daemon`, whose state is in `state`.
///
/// # Panics
/// Where the system does not let us.
pub fn fill(daemon: &Daemon<'_>, state: &Path) {
    let database = fs::metadata(state.join("store/db")).expect("there is a database");
    // the daemon wants more than this before it writes; the rest is for what sled does of its own accord
    bind(daemon, &(database.len() + (2 << 20)).to_string());
}

/// Gives it back.
///
/// # Panics
/// Where the system does not let us.
pub fn empty(daemon: &Daemon<'_>) {
    bind(daemon, "unlimited");
}

fn bind(daemon: &Daemon<'_>, bytes: &str) {
    let limit = format!("--fsize={bytes}:");
    let bound = Command::new("prlimit").args(["--pid", &daemon.pid().to_string(), &limit]).status();
    assert!(bound.expect("there is a prlimit").success(), "the files are bound");
}
