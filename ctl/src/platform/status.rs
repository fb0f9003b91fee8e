//! `oraclectl status` and `actors`.

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::{format_known, format_pairs, format_table, print_json};
use crate::verdict::divergence::format_variance;
use domain_audit::event::LostRow;
use domain_base::cluster::ClusterReport;
use domain_base::service::ActorReport;
use domain_base::text_form::visible_line;
use domain_base::wording::format_count;
use domain_verdict::cost::DailyBudget;
use domain_verdict::outbox::MessagesReport;
use hyper::Method;
use oracled_domain::status::{HeldRun, StatusReport, WaitingOrders, WitnessReport};
use std::io::Write;

/// Prints the state of the daemon.
pub(crate) async fn run(options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let answer = options.call_control(Method::GET, "/v1/status", None).await?;
    let status: StatusReport = answer.json()?;
    if options.json {
        return print_json(out, &status);
    }
    let verdicts = format_count(status.verdicts, "verdict", "verdicts");
    let sessions = format_count(status.sessions, "session", "sessions");
    let mut shown = vec![
        ("oracled", format!("{} (pid {})", status.version, status.pid)),
        ("serves since", format!("{} ({} s)", status.started_at, status.uptime_s)),
        ("ready", format_readiness(&status)),
        ("configuration", status.config_file.unwrap_or_else(|| "no file".into())),
        ("state", status.state_dir),
        ("log", format_count(status.entries, "entry", "entries")),
        ("witnesses", format_witnesses(&status.witnesses)),
        ("store", format!("{verdicts}, {sessions}")),
        ("model", status.model),
        ("prompt", status.prompt),
        (
            "orders",
            match status.orders {
                Some(WaitingOrders { queued, generating, held }) => {
                    format!("{queued} queued, {generating} generating, {held} held")
                }
                None => "unknown: they cannot be read".into(),
            },
        ),
        (
            "budgets",
            status.budgets.map_or_else(|| "unknown: they cannot be read".into(), |all| format_budgets(&all)),
        ),
        (
            "mail",
            format!("{}; {}", status.mail, format_messages(status.mails, status.outbox.map(|all| all.mails))),
        ),
        ("webhooks", format_messages(status.webhooks, status.outbox.map(|all| all.webhooks))),
        ("reviews", format!("{} open", status.open_reviews)),
        ("held runs", format_held_runs(status.held_runs.as_deref())),
        ("oracles", if status.oracles.is_empty() { "none".into() } else { status.oracles.join(", ") }),
        ("divergence", format_variance(&status.variance)),
        ("in flight", status.in_flight.to_string()),
        (
            "connections",
            format!("{} on routes, {} on control", status.connections, status.control_connections),
        ),
    ];
    if status.test_mode {
        shown.insert(3, ("test mode", "yes: verdicts can be canned, and mails go to files".into()));
    }
    if let Some(report) = &status.cluster {
        shown.push(("cluster", format_cluster(report)));
    }
    if let Some(failure) = status.journal_failure {
        shown.push((
            "journal",
            format!("rejects entries: {failure}; {} in the service log", status.fallback_entries),
        ));
    }
    let damaged = |damage| ("segments", format!("damaged, and written again from their copies: {damage}"));
    shown.extend(status.segment_damage.map(damaged));
    shown.extend(status.copies_missing.map(|missing| ("copies", missing)));
    if !status.lost_rows.is_empty() {
        shown.push(("lost", list_lost_rows(&status.lost_rows)));
    }
    shown.extend(status.mirror_lag.map(|lag| ("oracle_log.jsonl", format!("lags behind the log: {lag}"))));
    Ok(out.write_all(format_pairs(&shown).as_bytes())?)
}

fn format_readiness(status: &StatusReport) -> String {
    match () {
        () if !status.ready => format!("no: {}", status.reasons.join("; ")),
        () if status.degraded.is_empty() => "yes".to_owned(),
        () => format!("degraded: it accepts verdicts and orders, but {}", status.degraded.join("; ")),
    }
}

/// This host, the live hosts, and the contact with the shared log.
fn format_cluster(report: &ClusterReport) -> String {
    let ClusterReport { host, contact_ms, failure, .. } = report;
    let members: Vec<_> = report.hosts.iter().filter(|host| host.state == "live").collect();
    let live = members.iter().filter(|host| !host.is_away(report)).count();
    let differences = report.config_differences.iter().map(ToString::to_string);
    let faults = failure.iter().cloned().chain(differences);
    let faults: String = faults.map(|fault| format!("; {}", visible_line(&fault))).collect();
    format!(
        "{host}; {live} of {} live; the shared log was read {contact_ms} ms ago{faults}",
        format_count(members.len() as u64, "host", "hosts")
    )
}

/// The first lost rows, with their number.
pub(crate) fn list_lost_rows(lost: &[LostRow]) -> String {
    const LISTED: usize = 10;
    let row = |LostRow { row, entry, .. }: &LostRow| format!("{row} (entry {entry})");
    let listed = lost.iter().take(LISTED).map(row).collect::<Vec<_>>().join(", ");
    let count = format_count(lost.len() as u64, "row", "rows");
    if lost.len() > LISTED { format!("{count}: {listed}, …") } else { format!("{count}: {listed}") }
}

/// The number of messages in an outbox, and what is known of them.
pub(crate) fn format_messages(number: Option<u64>, report: Option<MessagesReport>) -> String {
    let dead = report.map(|report| report.dead).filter(|dead| *dead > 0);
    let dead = dead.map(|dead| format!(", {dead} of them dead")).unwrap_or_default();
    let since = report.and_then(|report| report.waiting_since);
    let since = since.map(|since| format!(", the oldest since {since:.0}")).unwrap_or_default();
    format!("{} in the outbox{dead}{since}", format_known(number))
}

fn format_held_runs(runs: Option<&[HeldRun]>) -> String {
    let run = |HeldRun { run_id, oracle_id, cause }: &HeldRun| format!("{oracle_id}: {run_id} ({cause})");
    match runs {
        None => "unknown: they cannot be read".into(),
        Some([]) => "none".into(),
        Some(runs) => runs.iter().map(run).collect::<Vec<_>>().join("; "),
    }
}

pub(crate) fn format_witnesses(witnesses: &[WitnessReport]) -> String {
    let witness = |witness: &WitnessReport| {
        let WitnessReport { name, cosigned_entries, cosigned_at, failure } = witness;
        let cosigned = match cosigned_entries.zip(*cosigned_at) {
            Some((entries, at)) => {
                format!("{name}: cosigned {} at {at}", format_count(entries, "entry", "entries"))
            }
            None => format!("{name}: cosigned nothing since the start"),
        };
        failure.iter().fold(cosigned, |cosigned, failure| format!("{cosigned} ({failure})"))
    };
    let witnesses: Vec<_> = witnesses.iter().map(witness).collect();
    if witnesses.is_empty() { "none".into() } else { witnesses.join("; ") }
}

pub(crate) fn format_budgets(budgets: &[DailyBudget]) -> String {
    let budget = |budget: &DailyBudget| {
        let DailyBudget { application, daily, currency, costs_of_today, resets_at } = budget;
        let of = application.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        let used_up = resets_at.map(|at| format!(" (used up until {at})")).unwrap_or_default();
        format!("{of}{costs_of_today} of {daily} {currency} today{used_up}")
    };
    let budgets: Vec<_> = budgets.iter().map(budget).collect();
    if budgets.is_empty() { "none".into() } else { budgets.join("; ") }
}

/// Prints the state of each actor.
pub(crate) async fn list_actors(options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let answer = options.call_control(Method::GET, "/v1/actors", None).await?;
    let reports: Vec<ActorReport> = answer.json()?;
    if options.json {
        return print_json(out, &reports);
    }
    let rows = reports.into_iter().map(|report| {
        let panic = report
            .last_panic
            .map_or_else(|| "none".into(), |panic| format!("{}: {}", panic.at, panic.message));
        let ms = |us: u64| format!("{}.{:03} ms", us / 1000, us % 1000);
        [
            report.name,
            report.handled.to_string(),
            report.queue_depth.to_string(),
            ms(report.latency_p50_us),
            ms(report.latency_p99_us),
            report.restarts.to_string(),
            panic,
        ]
    });
    let heading = ["actor", "handled", "waiting", "p50", "p99", "restarts", "last panic"];
    Ok(writeln!(out, "{}", format_table(heading, rows.collect()))?)
}
