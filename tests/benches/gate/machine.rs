//! Describes the machine of the measurement.

use std::collections::BTreeMap;
use std::ffi::OsString;
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
    Ok(thread_times(pid)?.values().sum())
}

/// The processor time of each thread of process `pid`, in nanoseconds, by its id.
pub(crate) fn thread_times(pid: u32) -> io::Result<BTreeMap<OsString, u64>> {
    let mut times = BTreeMap::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?;
        // a thread can end meanwhile
        let spent = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let spent = spent.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default();
        times.insert(thread.file_name(), spent);
    }
    Ok(times)
}

/// The processor time of process `pid` since `before`, in nanoseconds, and the share of its busiest thread.
pub(crate) fn spent_since(pid: u32, before: &BTreeMap<OsString, u64>) -> io::Result<(f64, f64)> {
    let now = thread_times(pid)?;
    let spent = now.iter().map(|(thread, ns)| ns - before.get(thread).copied().unwrap_or_default());
    let spent: Vec<u64> = spent.collect();
    let (all, most) = (spent.iter().sum::<u64>() as f64, spent.iter().max().copied().unwrap_or_default());
    Ok((all, most as f64 / all))
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
