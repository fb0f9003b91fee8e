//! The metrics of the process, under the names that Prometheus' own clients use.

use jiff::Timestamp;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use std::fmt::{self, Display, Write};
use std::fs;
use std::sync::OnceLock;

/// Units of the times in `/proc`: the kernel reports them in hundredths of a second on all supported architectures.
const TICKS_PER_S: f64 = 100.0;

/// Writes the metrics at the time `now`. A value that the system does not report is left out.
pub(super) fn write_process_metrics(body: &mut String, now: Timestamp) -> fmt::Result {
    // computed once, since the difference of the two clocks varies a little
    static STARTED_AT: OnceLock<Option<f64>> = OnceLock::new();
    let started_at = *STARTED_AT.get_or_init(|| read_start_time(now));
    let build = concat!("oracled_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1");
    writeln!(
        body,
        "# HELP oracled_build_info version of oracled.\n# TYPE oracled_build_info gauge\n{build}"
    )?;
    let name = "process_cpu_seconds";
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        let used = usage.user_time() + usage.system_time();
        writeln!(body, "# HELP {name} CPU time of the process.\n# TYPE {name} counter")?;
        writeln!(body, "{name}_total {:.6}", used.num_microseconds() as f64 / 1e6)?;
    }
    let files = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft as f64);
    for (name, help, value) in [
        ("process_resident_memory_bytes", "resident memory of the process", status_bytes("VmRSS:")),
        ("process_virtual_memory_bytes", "virtual memory of the process", status_bytes("VmSize:")),
        ("process_open_fds", "open file descriptors", count_open_files()),
        ("process_max_fds", "limit of open file descriptors", files),
        ("process_start_time_seconds", "when the process started, since 1970", started_at),
    ] {
        if let Some(value) = value {
            write_process_gauge(body, name, help, value)?;
        }
    }
    Ok(())
}

fn write_process_gauge(body: &mut String, name: &str, help: &str, value: impl Display) -> fmt::Result {
    write!(body, "# HELP {name} {help}.\n# TYPE {name} gauge\n{name} {value}\n")
}

/// A value of `/proc/self/status`, which has KiB.
fn status_bytes(name: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    Some(kib?.parse::<f64>().ok()? * 1024.0)
}

fn count_open_files() -> Option<f64> {
    // one of them is that of the read itself
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

/// When the process started, in seconds since 1970.
fn read_start_time(now: Timestamp) -> Option<f64> {
    // `/proc/stat` has the time of the boot, but systemd's `ProcSubset=pid` hides it
    let since_boot = clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?;
    let booted_at = now.as_duration().as_secs_f64() - since_boot.num_nanoseconds() as f64 / 1e9;
    let process = fs::read_to_string("/proc/self/stat").ok()?;
    // the name of the program, in parentheses, may have spaces
    let after_name = process.rsplit_once(") ")?.1;
    let ticks: f64 = after_name.split(' ').nth(19)?.parse().ok()?;
    Some(booted_at + ticks / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oracled_actors::Clock;

    #[test]
    fn process_metrics_have_the_values_of_this_process() {
        let mut body = String::new();
        let now = Clock::system().now();
        write_process_metrics(&mut body, now).expect("a write to memory succeeds");
        let value = |name: &str| {
            let line = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name}: {body}"))
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(value("process_open_fds") >= 3.0 && value("process_max_fds") > value("process_open_fds"));
        // this test process is at most hours old
        let age_s = now.as_second() as f64 - value("process_start_time_seconds");
        assert!((-1.0..1e5).contains(&age_s), "{body}");
        assert!(body.contains(concat!("oracled_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1")));
    }
}
