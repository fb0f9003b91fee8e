//! `oraclectl cluster`.

use crate::audit::restore::BackupRestore;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::base::output::{Output, format_table, print_json};
use crate::base::program::{block_on, examples};
use domain_base::cluster::{ClusterHostRemoved, ClusterLeaveRequest, ClusterReport};
use domain_base::text_form::visible_line;
use domain_base::wording::format_count;
use hyper::Method;
use oracled_store::ClusterMarker;
use serde_json::json;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Let several hosts share one log in PostgreSQL
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&[
    "oraclectl cluster init --state-dir /var/lib/oracled",
    "oraclectl cluster join /backup/oracled-2026-11-28 --state-dir /var/lib/oracled --key log-key --log-key log.key --held-key held.key",
    "oraclectl cluster status",
]))]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    verb: ClusterVerb,
}

#[derive(Debug, clap::Subcommand)]
enum ClusterVerb {
    /// Make a store the first of a new cluster, at the next start of its daemon
    Init {
        /// The state directory
        #[arg(long, value_name = "STATE")]
        state_dir: PathBuf,
        /// Replace the cluster that the server has: the store of this host is the whole log from then on, and each other host joins again
        #[arg(long)]
        reset: bool,
        /// User of PostgreSQL that gets the rights of a host. The URL of the daemon has the owner of the tables for this start, and then this user
        #[arg(long, value_name = "USER")]
        grant_to: Option<String>,
    },
    /// Restore a backup of another host to a new state directory, whose daemon joins the cluster at its start
    Join {
        #[command(flatten)]
        restore: BackupRestore,
        /// Join also if the configuration differs from that of the other hosts in a section that all hosts need alike
        #[arg(long)]
        allow_different_config: bool,
    },
    /// Show the hosts of the cluster
    Status,
    /// Remove another host, which cannot write to the shared log from then on
    ///
    /// Its daemon ends. It can join again with a backup of another host.
    Remove {
        /// The name of the host, as `oraclectl cluster status` shows it
        host: String,
    },
    /// End the membership of this host, and its daemon
    Leave {
        /// This is the last host: its store continues without a cluster. Then remove `cluster` from the configuration
        #[arg(long)]
        last: bool,
    },
}

impl ClusterArgs {
    pub(crate) fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        match &self.verb {
            ClusterVerb::Init { state_dir, reset, grant_to } => {
                init(state_dir, *reset, grant_to.clone(), options.json, out)
            }
            ClusterVerb::Join { restore, allow_different_config } => {
                let removed_up_to = restore.run_for_cluster(options.json, out)?;
                let allow_different_config = *allow_different_config;
                mark(restore.state_dir(), &ClusterMarker::Join { allow_different_config, removed_up_to })
            }
            ClusterVerb::Status => block_on(show(options, out)),
            ClusterVerb::Remove { host } => block_on(remove(host, options, out)),
            ClusterVerb::Leave { last } => block_on(leave(*last, options, out)),
        }
    }
}

fn init(
    state_dir: &Path,
    resets: bool,
    grant_to: Option<String>,
    is_json: bool,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let refused = |message: String| CtlError::Verb { message, exit_code: 5, was_printed: false };
    if !state_dir.is_dir() {
        return Err(refused(format!(
            "{} is not a folder; name the state directory of the daemon",
            state_dir.display()
        )));
    }
    let marker = ClusterMarker::read(state_dir).map_err(|error| refused(error.to_string()))?;
    // removals after this entry are still due in the files of this host
    let removed_up_to = match marker {
        Some(
            ClusterMarker::Member { removed_up_to, .. }
            | ClusterMarker::Leaving { removed_up_to, .. }
            | ClusterMarker::Join { removed_up_to, .. },
        ) => Some(removed_up_to),
        Some(ClusterMarker::Init { removed_up_to, .. }) => removed_up_to,
        None | Some(ClusterMarker::Left) => None,
    };
    if !resets && marker.is_some_and(|marker| !matches!(marker, ClusterMarker::Init { .. })) {
        return Err(refused(format!(
            "the store in {} belongs to a cluster already; `oraclectl cluster status` shows it. `--reset` replaces that cluster",
            state_dir.display()
        )));
    }
    mark(state_dir, &ClusterMarker::Init { resets, removed_up_to, grant_to })?;
    if is_json {
        return print_json(out, &json!({"state_dir": state_dir}));
    }
    Ok(writeln!(
        out,
        "next: configure `cluster.host`, `cluster.url_file` and `cluster.keys_file`, and restart the daemon, which creates the cluster"
    )?)
}

/// Writes the marker for the user of the state directory.
fn mark(state_dir: &Path, marker: &ClusterMarker) -> Result<(), CtlError> {
    let refused = |message: String| CtlError::Verb { message, exit_code: 5, was_printed: false };
    ClusterMarker::write(Some(marker), state_dir).map_err(|error| refused(error.to_string()))?;
    // the administrator may be another user than the daemon
    let owned = fs::metadata(state_dir).and_then(|found| {
        let file = ClusterMarker::path(state_dir);
        fs::set_permissions(&file, Permissions::from_mode(0o600))?;
        if fs::metadata(&file)?.uid() == found.uid() {
            Ok(())
        } else {
            chown(file, Some(found.uid()), Some(found.gid()))
        }
    });
    owned.map_err(|error: io::Error| {
        refused(format!("cannot give the file `cluster` to the owner of {}: {error}", state_dir.display()))
    })
}

async fn show(options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let report: ClusterReport = options.call_control(Method::GET, "/v1/cluster", None).await?.json()?;
    if options.json {
        print_json(out, &report)?;
    } else {
        print_report(out, &report)?;
    }
    match report.failure {
        Some(message) => Err(CtlError::Verb { message, exit_code: 4, was_printed: true }),
        None => Ok(()),
    }
}

fn print_report(out: &mut dyn Write, report: &ClusterReport) -> Result<(), CtlError> {
    let last = report.hosts.iter().map(|host| host.applied).max().unwrap_or_default();
    let rows = report.hosts.iter().map(|host| {
        let name =
            if host.host == report.host { format!("{} (this host)", host.host) } else { host.host.clone() };
        [
            name,
            if host.is_away(report) { "away".to_owned() } else { host.state.clone() },
            format!("{} ms ago", host.silent_ms(report)),
            host.applied.to_string(),
            last.saturating_sub(host.applied).to_string(),
            format!("{} ms", host.clock_offset_ms),
            host.version.clone(),
            host.schema.to_string(),
            if host.leases.is_empty() { "none".to_owned() } else { host.leases.join(", ") },
        ]
    });
    let heading =
        ["host", "state", "seen", "entries", "behind", "clock ahead", "version", "schema", "leases"];
    if let (Some(_), Some(read_ms)) = (&report.failure, report.hosts_read_ms) {
        writeln!(out, "hosts and standbys as they were {read_ms} ms ago, when they could last be read:")?;
    }
    writeln!(out, "{}", format_table(heading, rows.collect()))?;
    let standbys = report.standbys.as_ref().map(|standbys| {
        let names = visible_line(&standbys.synchronous_standby_names);
        let waits = if names.is_empty() {
            "commits wait for none".to_owned()
        } else {
            format!("commits wait for {names}")
        };
        format!("{}; {waits}", standbys.connected)
    });
    writeln!(out, "connected standbys: {}", standbys.as_deref().unwrap_or("not read yet"))?;
    writeln!(out, "keys of this host, the first one encrypts: {}", report.keys.join(", "))?;
    for difference in &report.config_differences {
        writeln!(out, "{}", visible_line(&difference.to_string()))?;
    }
    if let Some(failure) = &report.failure {
        writeln!(
            out,
            "{}; the shared log was last read {} ms ago",
            visible_line(failure),
            report.contact_ms
        )?;
    }
    if report.missing_files > 0 {
        let ClusterReport { missing_files, missing_bytes, .. } = report;
        let files = format_count(missing_files, "file of sources", "files of sources");
        let are = if *missing_files == 1 { "is" } else { "are" };
        let failure = report.fetch_failure.as_deref().unwrap_or("they are being fetched");
        writeln!(
            out,
            "{files} ({missing_bytes} bytes) {are} not on this host yet: {}",
            visible_line(failure)
        )?;
    }
    Ok(())
}

async fn remove(host: &str, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let path = format!("/v1/cluster/hosts/{}", encode_segment(host));
    let removed: ClusterHostRemoved = options.call_control(Method::DELETE, &path, None).await?.json()?;
    if options.json {
        return print_json(out, &removed);
    }
    Ok(writeln!(out, "{} is removed, and cannot write to the shared log", removed.host)?)
}

async fn leave(last: bool, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let body = serde_json::to_vec(&ClusterLeaveRequest { last }).map_err(io::Error::from)?;
    let report: ClusterReport =
        options.call_control(Method::POST, "/v1/cluster/leave", Some(body.into())).await?.json()?;
    if options.json {
        return print_json(out, &report);
    }
    let next = if last {
        "remove `cluster` from the configuration, and start the daemon"
    } else {
        "its store is not started again; join with a backup of another host, in a new state directory"
    };
    Ok(writeln!(out, "{} has left the cluster, and its daemon ends; {next}", report.host)?)
}
