//! Describes the machine of the measurement.

use std::path::Path;
use std::thread::available_parallelism;
use std::{fs, io};

/// One line: cores, processor, kernel, file system, profile, and the load of the machine.
pub(crate) fn describe(scratch: &Path) -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cores = available_parallelism().map_or(0, usize::from);
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unnamed processor", |(_, name)| name);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let (disk, kind) = file_system(&read("/proc/self/mounts"), scratch);
    format!(
        "{cores} cores of {model}, Linux {}, {kind} on {disk}, {profile} build, load average {load} at the end",
        kernel.trim()
    )
}

/// The processor time of the threads of process `pid`, in nanoseconds. Other processes hardly affect it.
pub(crate) fn cpu_ns(pid: u32) -> io::Result<u64> {
    let mut all = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let spent = fs::read_to_string(thread?.path().join("schedstat"))?;
        all += spent.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or_default();
    }
    Ok(all)
}

/// The device and the type of the file system of `path`.
fn file_system(mounts: &str, path: &Path) -> (String, String) {
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.next()?, words.next()?))
    });
    let holds = mounted.filter(|(_, point, _)| path.starts_with(point));
    let deepest = holds.max_by_key(|(_, point, _)| point.len());
    deepest.map_or_else(Default::default, |(disk, _, kind)| (disk.to_owned(), kind.to_owned()))
}
