//! A full disk for a single daemon.

use crate::{DaemonProcess, DaemonWorld};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Prepares `world` for [`fill`]. Returns false if this machine has no `prlimit`.
#[must_use]
pub fn can_be_filled(world: &mut DaemonWorld) -> bool {
    // SIGXFSZ would end the daemon; ignored, the write fails with an error instead
    world.wrapper = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"].map(String::from).into();
    let prlimit = Command::new("prlimit").arg("--version").stdout(Stdio::null()).status();
    prlimit.is_ok_and(|status| status.success())
}

/// Leaves `daemon`, whose state is in `state`, no space for its files to grow.
///
/// # Panics
/// Panics if the system does not permit it.
pub fn fill(daemon: &DaemonProcess<'_>, state: &Path) {
    let database = fs::metadata(state.join("store/db")).expect("the database exists");
    // the daemon requires more free space than this before it writes; the rest is for sled's own writes
    bind(daemon, &(database.len() + (2 << 20)).to_string());
}

/// Removes the limit that [`fill`] has set.
///
/// # Panics
/// Panics if the system does not permit it.
pub fn empty(daemon: &DaemonProcess<'_>) {
    bind(daemon, "unlimited");
}

fn bind(daemon: &DaemonProcess<'_>, bytes: &str) {
    let limit = format!("--fsize={bytes}:");
    let bound = Command::new("prlimit").args(["--pid", &daemon.pid().to_string(), &limit]).status();
    assert!(bound.expect("prlimit exists").success(), "the limit is set");
}

/// A disk that a test can fill and empty.
pub trait TestDisk {
    /// Path at which processes other than the daemon reach the state directory.
    fn state(&self) -> PathBuf;
    /// Fills the disk.
    fn fill(&self, daemon: &DaemonProcess<'_>);
    /// Takes the space that was freed since the disk was filled: the daemon compresses full segments.
    fn take_freed_space(&self) {}
    /// Makes the space available again.
    fn empty(&self, daemon: &DaemonProcess<'_>);
}

/// The disk of the state directory, with a limit on file sizes (`prlimit --fsize`) for the daemon only.
#[derive(Debug)]
pub struct SizeLimitedDisk(pub PathBuf);

impl TestDisk for SizeLimitedDisk {
    fn state(&self) -> PathBuf {
        self.0.clone()
    }

    fn fill(&self, daemon: &DaemonProcess<'_>) {
        fill(daemon, &self.0);
    }

    fn empty(&self, daemon: &DaemonProcess<'_>) {
        empty(daemon);
    }
}

/// A separate tmpfs in a mount namespace that ends with the process `keeper`.
#[derive(Debug)]
pub struct TmpfsDisk {
    keeper: Child,
    state: PathBuf,
}

impl TmpfsDisk {
    /// Mounts a tmpfs at the state directory of `world`. Returns `None` if this machine does not permit it.
    ///
    /// # Panics
    /// Panics if the state directory exists already.
    #[must_use]
    pub fn mount(world: &DaemonWorld) -> Option<Self> {
        fs::create_dir(world.state()).expect("the directory is created");
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
        let below = world.state().strip_prefix("/").expect("an absolute path").to_owned();
        tmpfs.state = Path::new(&root).join(below);
        Some(tmpfs)
    }

    /// Fills the tmpfs up to the last `left` bytes.
    ///
    /// # Panics
    /// Panics if the file that fills it cannot be written.
    pub fn put_ballast(&self, left: u64) {
        let mut ballast = File::create(self.state.join("ballast")).expect("the file is created");
        write_until_full(&mut ballast);
        let full = ballast.metadata().expect("the system reports it").len();
        ballast.set_len(full - left).expect("the file is truncated");
    }

    /// Removes the file that fills the tmpfs.
    ///
    /// # Panics
    /// Panics if there is no such file.
    pub fn remove_ballast(&self) {
        fs::remove_file(self.state.join("ballast")).expect("the file is removed");
    }

    /// Command prefix that runs a command in the mount namespace.
    #[must_use]
    pub fn wrapper(&self) -> Vec<String> {
        vec!["nsenter".into(), format!("--mount=/proc/{}/ns/mnt", self.keeper.id()), "--".into()]
    }
}

fn write_until_full(file: &mut File) {
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

impl Drop for TmpfsDisk {
    fn drop(&mut self) {
        self.keeper.kill().expect("the child process exists");
        self.keeper.wait().expect("the child process exists");
    }
}

impl TestDisk for TmpfsDisk {
    fn state(&self) -> PathBuf {
        self.state.clone()
    }

    fn fill(&self, _: &DaemonProcess<'_>) {
        self.put_ballast(0);
    }

    fn take_freed_space(&self) {
        let ballast = File::options().append(true).open(self.state.join("ballast"));
        write_until_full(&mut ballast.expect("the disk was filled"));
    }

    fn empty(&self, _: &DaemonProcess<'_>) {
        self.remove_ballast();
    }
}
