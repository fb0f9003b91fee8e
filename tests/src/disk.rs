//! A disk that is full, for one daemon alone.

use crate::{Daemon, World};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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

/// A disk whose room can be taken away.
pub trait Disk {
    /// Where the state is, for whoever is not the daemon.
    fn state(&self) -> PathBuf;
    /// Takes the room away.
    fn fill(&self, daemon: &Daemon<'_>);
    /// Gives it back.
    fn empty(&self, daemon: &Daemon<'_>);
}

/// The disk that is there, on which no file may grow any more: its size is bound for the daemon alone.
#[derive(Debug)]
pub struct Bounded(pub PathBuf);

impl Disk for Bounded {
    fn state(&self) -> PathBuf {
        self.0.clone()
    }

    fn fill(&self, daemon: &Daemon<'_>) {
        fill(daemon, &self.0);
    }

    fn empty(&self, daemon: &Daemon<'_>) {
        empty(daemon);
    }
}

/// A tmpfs of its own, in a mount namespace that goes with the process that keeps it.
#[derive(Debug)]
pub struct Tmpfs {
    keeper: Child,
    state: PathBuf,
}

impl Tmpfs {
    /// Mounts it where the state of `world` is to be; nothing where this machine does not let us.
    ///
    /// # Panics
    /// Where the folder is there already.
    #[must_use]
    pub fn mount(world: &World) -> Option<Self> {
        fs::create_dir(world.state()).expect("it is made");
        let script = format!(
            "mount -t tmpfs -o size=64m,mode=0700 none '{}' && echo && exec cat",
            world.state().display()
        );
        let keeper = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut tmpfs = Self { keeper: keeper.ok()?, state: PathBuf::new() };
        let mut line = [0];
        tmpfs.keeper.stdout.as_mut()?.read_exact(&mut line).ok()?;
        let root = format!("/proc/{}/root", tmpfs.keeper.id());
        let below = world.state().strip_prefix("/").expect("it is absolute").to_owned();
        tmpfs.state = Path::new(&root).join(below);
        Some(tmpfs)
    }

    /// Fills it up but for so many bytes.
    ///
    /// # Panics
    /// Where that cannot be done.
    pub fn put_ballast(&self, left: u64) {
        let mut ballast = File::create(self.state.join("ballast")).expect("it is made");
        for size in [1 << 20, 4096, 1] {
            while ballast.write_all(&vec![0; size]).is_ok() {}
        }
        let full = ballast.metadata().expect("the system tells").len();
        ballast.set_len(full - left).expect("it is cut");
    }

    /// Makes it empty again.
    ///
    /// # Panics
    /// Where it was not filled.
    pub fn remove_ballast(&self) {
        fs::remove_file(self.state.join("ballast")).expect("it is removed");
    }

    /// What brings a command into its namespace.
    #[must_use]
    pub fn wrapper(&self) -> Vec<String> {
        vec!["nsenter".into(), format!("--mount=/proc/{}/ns/mnt", self.keeper.id()), "--".into()]
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        self.keeper.kill().expect("it is our child");
        self.keeper.wait().expect("it is our child");
    }
}

impl Disk for Tmpfs {
    fn state(&self) -> PathBuf {
        self.state.clone()
    }

    fn fill(&self, _: &Daemon<'_>) {
        self.put_ballast(0);
    }

    fn empty(&self, _: &Daemon<'_>) {
        self.remove_ballast();
    }
}
