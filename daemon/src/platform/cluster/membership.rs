//! The thread that holds the membership of this host, over a connection of its own.

use super::metrics::{MeasuredLog, SharedLogMetrics};
use super::{
    ClusterDigests, ClusterDurability, ClusterMember, ClusterSecrets, ClusterSection, ClusterView,
    MembershipCall,
};
use actors_audit::logger::{JournalReport, LogContact};
use actors_platform::clock::{Clock, monotonic};
use actors_platform::host_removals::{HostRemovals, MemberRemovals, OwnRemovals};
use actors_platform::shared_calls::{CallMeter, SharedCalls, TakeCall};
use actors_platform::work_turn::{LeaseCall, LeaseCalls, WorkTurn};
use anyhow::{Context, bail};
use domain_base::cluster::{
    CLOCK_OFFSET_NOTED_MS, ClusterHostReport, ClusterRights, ClusterStandbys, ConfigDifference,
    ConfigDigests, SILENT_MAX_MS,
};
use domain_base::digest::Sha256Hex;
use oracled_store::{
    ClusterMarker, FileIdentity, Journal, SCHEMA, SharedLogError, Store, StoreError, boot_id,
};
use secrecy::ExposeSecret;
use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{fs, io, mem, thread};
use store_postgres::{
    ClusterHost, ClusterIdentity, ClusterMembership, ClusterMeters, Heartbeat, HostRights, HostState,
    MeterLimit, PostgresLog, PostgresSettings, Renewal, SharedLogDurability,
};
use tokio::sync::{oneshot, watch};

/// The attempts to append a group, which share the time limit of a commit.
const ATTEMPTS: u32 = 4;
/// How long a start tries to enter the cluster. systemd does not give up a daemon whose starts take so long.
const ENTERED_WITHIN: Duration = Duration::from_secs(30);
/// The pause before the next try.
const ENTRY_PAUSE: Duration = Duration::from_secs(1);
/// The time between two heartbeats.
const BEAT: Duration = Duration::from_secs(2);
/// How long this host does the work that one host does at a time after it has asked for its turn. The lease is longer, so that no
/// other host begins before.
const TURN: Duration = Duration::from_secs(5);
/// The time between two removals of old groups.
const TRIMMED_EVERY: Duration = Duration::from_secs(60);
/// How long ago this host has read the shared log at most, to do that work.
const CONTACT_MAX: Duration = Duration::from_secs(10);
/// The lease of that work.
const WORK: &str = "work";
/// The difference to the clock of the server from which a host has no turn.
const OFFSET_MAX_MS: u64 = 5000;

/// Enters the cluster, and applies what the store lacks of the shared log, on a thread of its own: a stop does not wait for it.
///
/// # Errors
/// The server does not answer, or does not accept this host.
pub(crate) async fn enter(
    section: &ClusterSection,
    marker: ClusterMarker,
    secrets: Option<ClusterSecrets>,
    digests: ClusterDigests,
    (mut journal, store): (Journal, Store),
) -> anyhow::Result<(Journal, ClusterMember)> {
    let (section, (entered, is_entered)) = (section.clone(), oneshot::channel());
    let work = move || {
        let member = enter_now(&section, marker, secrets, digests, (&mut journal, &store));
        // a stop does not wait for it
        drop(entered.send(member.map(|member| (journal, member))));
    };
    thread::Builder::new().name("entering".to_owned()).spawn(work)?;
    is_entered.await.context("the thread that enters the cluster panicked")?
}

fn enter_now(
    section: &ClusterSection,
    marker: ClusterMarker,
    secrets: Option<ClusterSecrets>,
    digests: ClusterDigests,
    (journal, store): (&mut Journal, &Store),
) -> anyhow::Result<ClusterMember> {
    let (host, secrets) = section.host.clone().zip(secrets).context("this host is in no cluster")?;
    let ClusterDigests { log_key, held_key, config } = digests;
    let url = secrets.url.clone();
    let settings = settings(section, &host, secrets, ClusterIdentity { log_key, held_key }, store)?;
    let mut membership = ClusterMembership::new(settings.clone());
    let removed_up_to = removed_up_to(&marker, journal, store)?;
    let metrics = SharedLogMetrics::default();
    let log = || MeasuredLog {
        log: PostgresLog::new(settings.clone()),
        metrics: metrics.clone(),
        lacks_groups: false,
    };
    let began = monotonic();
    let mut last_error = String::new();
    while let Err(error) = catch_up(&mut membership, log, (&marker, &config, &host), (journal, store.dir())) {
        let can_pass = matches!(error.downcast_ref(), Some(SharedLogError::Unanswered(_)))
            || matches!(error.downcast_ref(), Some(StoreError::Unavailable { .. }));
        if !can_pass || began.elapsed() > ENTERED_WITHIN {
            return Err(error.context("this host cannot enter its cluster"));
        }
        let text = error.to_string();
        if text != mem::replace(&mut last_error, text.clone()) {
            tracing::warn!(%error, "this host cannot enter its cluster yet; trying again each second");
        }
        thread::sleep(ENTRY_PAUSE);
    }
    ClusterMarker::write(Some(&ClusterMarker::Member { host: host.clone(), removed_up_to }), store.dir())?;
    let ((until, turn), (view, seen), (calls, called)) =
        (watch::channel(None), watch::channel(ClusterView::default()), channel());
    let own = watch::Sender::new(OwnRemovals { up_to: removed_up_to, at: began });
    let (members, known) = watch::channel((None, Vec::new()));
    let (live, live_hosts) = watch::channel(1);
    let journal = Arc::default();
    let thread = MembershipThread {
        host: host.clone(),
        membership,
        store: store.clone(),
        config: serde_json::to_string(&config)?,
        live,
        until,
        view,
        called,
        removed: own.subscribe(),
        members,
        retained: Duration::from_secs(section.retain_h * 3600),
        trimmed_at: None,
        taken: HashMap::new(),
        offset_noted: false,
        is_stopping: false,
        journal: Arc::clone(&journal),
        has_offered: false,
    };
    thread::Builder::new().name("membership".to_owned()).spawn(move || thread.run())?;
    let (takes, taken) = channel();
    let keys = settings.keys.clone();
    let meters = ClusterMeters::new(settings);
    thread::Builder::new().name("meters".to_owned()).spawn(move || take_calls(meters, &taken))?;
    let shared_calls = SharedCalls { host: host.clone(), takes, live_hosts };
    let for_leases = calls.clone();
    let leases = LeaseCalls(Arc::new(move |call| for_leases.send(MembershipCall::Lease(call)).is_ok()));
    let turn = WorkTurn::Shared { host: host.as_str().into(), until: turn, leases };
    let removals = HostRemovals { turn: turn.clone(), own, members: known };
    Ok(ClusterMember { host, turn, view: seen, calls, removals, url, keys, shared_calls, metrics, journal })
}

/// Answers requests for calls, until all their senders are dropped.
fn take_calls(mut meters: ClusterMeters, requests: &Receiver<TakeCall>) {
    let limit = |CallMeter { name, every, burst }| MeterLimit { name, every, burst };
    while let Ok(TakeCall { meters: wanted, reply }) = requests.recv() {
        let limits: Vec<_> = wanted.into_iter().map(limit).collect();
        let taken = meters.take(&limits).map_err(|error| error.to_string());
        let failure = taken.as_ref().err().cloned();
        // the caller may no longer wait
        drop(reply.send(taken));
        // each attempt to connect takes long, so all that wait get the same answer
        while let Some(cause) = &failure
            && let Ok(waiting) = requests.try_recv()
        {
            drop(waiting.reply.send(Err(cause.clone())));
        }
    }
}

/// Enters the cluster if this host has not, and applies what its store lacks.
fn catch_up(
    membership: &mut ClusterMembership,
    log: impl Fn() -> MeasuredLog<PostgresLog>,
    (marker, config, host): (&ClusterMarker, &ConfigDigests, &str),
    (journal, dir): (&mut Journal, &Path),
) -> anyhow::Result<()> {
    if !journal.is_shared() {
        if let ClusterMarker::Init { resets, grant_to, .. } = marker {
            log().log.create(journal.groups_end(), *resets, grant_to.clone())?;
        }
        if matches!(marker, ClusterMarker::Join { allow_different_config: false, .. }) {
            compare_configs(membership, config)?;
        }
        if matches!(marker, ClusterMarker::Leaving { .. }) && !membership.has_cluster()? {
            ClusterMarker::write(None, dir)?;
            bail!(
                "this host has ended its cluster; remove the section `[cluster]`, and start the daemon again"
            );
        }
        if matches!(marker, ClusterMarker::Join { .. }) {
            compare_start(membership, journal.counts().entries)?;
        }
        membership.enter(matches!(marker, ClusterMarker::Join { .. }))?;
        journal.share(Box::new(log()), host.to_owned(), ATTEMPTS);
        let entries = journal.counts().entries;
        tracing::info!(entries, "the store is brought up to date with the shared log");
    }
    Ok(journal.follow()?)
}

/// The entry up to which the store has no data of removals.
fn removed_up_to(marker: &ClusterMarker, journal: &Journal, store: &Store) -> Result<u64, StoreError> {
    match marker {
        ClusterMarker::Member { removed_up_to, .. }
        | ClusterMarker::Leaving { removed_up_to, .. }
        | ClusterMarker::Join { removed_up_to, .. } => Ok(*removed_up_to),
        ClusterMarker::Init { removed_up_to: Some(removed_up_to), .. } => Ok(*removed_up_to),
        // the first host has completed all removals before; a start that is interrupted must not take those of other hosts for such
        ClusterMarker::Init { resets, removed_up_to: None, grant_to } => {
            let entries = journal.counts().entries;
            let (resets, grant_to) = (*resets, grant_to.clone());
            let noted = ClusterMarker::Init { resets, removed_up_to: Some(entries), grant_to };
            ClusterMarker::write(Some(&noted), store.dir())?;
            Ok(entries)
        }
        ClusterMarker::Left => Ok(journal.counts().entries),
    }
}

/// Checks that the store is not older than the shared log. A member that cannot follow would keep all its groups on the server.
fn compare_start(membership: &mut ClusterMembership, entries: u64) -> anyhow::Result<()> {
    match membership.first_entry()? {
        Some(first) if entries < first => bail!(
            "the backup ends at entry {entries}, and the shared log begins at entry {first}; move the state directory away, and join with a \
             newer backup"
        ),
        _ => Ok(()),
    }
}

/// Compares the configuration of this host with those of the others.
fn compare_configs(membership: &mut ClusterMembership, own: &ConfigDigests) -> anyhow::Result<()> {
    for (host, config) in membership.other_configs(env!("CARGO_PKG_VERSION"))? {
        let config = serde_json::from_str(&config).unwrap_or_default();
        if let Some(difference) = ConfigDifference::between(own, &host, &config) {
            bail!(
                "{difference}; give this host the same sections, or join again with `--allow-different-config`"
            );
        }
    }
    Ok(())
}

fn settings(
    section: &ClusterSection,
    host: &str,
    ClusterSecrets { url, keys }: ClusterSecrets,
    identity: ClusterIdentity,
    store: &Store,
) -> anyhow::Result<PostgresSettings> {
    Ok(PostgresSettings {
        url: url.expose_secret().to_owned(),
        host: host.to_owned(),
        instance: instance_of(store.dir())?,
        store_id: store.store_id()?,
        schema: SCHEMA,
        keys,
        identity,
        durability: match section.durability {
            ClusterDurability::SynchronousStandby => SharedLogDurability::SynchronousStandby,
            ClusterDurability::Storage => SharedLogDurability::Storage,
            ClusterDurability::Asynchronous => SharedLogDurability::Asynchronous,
        },
        answer_within: Duration::from_millis(section.deadline_ms) / ATTEMPTS,
    })
}

/// Identifies the process that uses this state directory, which only one does at a time. A copy of the directory, or of the machine, has
/// another identity, so that two processes with the name of one host are not taken for one. After a kill, a process has the same one, and need
/// not wait until its name is free.
fn instance_of(dir: &Path) -> io::Result<[u8; 16]> {
    let FileIdentity { inode, created_ns } = FileIdentity::of(&fs::metadata(dir)?);
    let digest = Sha256Hex::of(format!("{} {inode} {created_ns}", boot_id()).as_bytes());
    Ok(digest.as_str().as_bytes().first_chunk().copied().unwrap_or_default())
}

struct MembershipThread {
    host: String,
    membership: ClusterMembership,
    store: Store,
    /// The digests of the configuration, as JSON.
    config: String,
    /// The number of live hosts.
    live: watch::Sender<usize>,
    /// When the turn of this host ends.
    until: watch::Sender<Option<Instant>>,
    view: watch::Sender<ClusterView>,
    called: Receiver<MembershipCall>,
    /// The entry up to which this host has removed data from its files.
    removed: watch::Receiver<OwnRemovals>,
    members: watch::Sender<(Option<Instant>, Vec<MemberRemovals>)>,
    /// For how long the server keeps groups.
    retained: Duration,
    /// When this host last removed all older groups.
    trimmed_at: Option<Instant>,
    /// The leases of single pieces of work, and whether each is held.
    taken: HashMap<String, watch::Sender<bool>>,
    offset_noted: bool,
    is_stopping: bool,
    journal: Arc<OnceLock<(watch::Receiver<JournalReport>, LogContact)>>,
    /// Whether no other host has taken the work since this one is low on space.
    has_offered: bool,
}

impl MembershipThread {
    /// Runs until the membership is dropped, or ends.
    fn run(mut self) {
        let clock = Clock::system();
        while self.view.borrow().ended.is_none() {
            let began = monotonic();
            self.beat(began, &clock);
            self.trim(began);
            while self.view.borrow().ended.is_none() {
                match self.called.recv_timeout(BEAT.saturating_sub(monotonic().duration_since(began))) {
                    Ok(call) => self.answer(call),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        }
        self.until.send_replace(None);
    }

    /// Lets another host take the turn. This one does not take it again.
    fn release(&mut self) -> Result<(), SharedLogError> {
        self.is_stopping = true;
        self.until.send_replace(None);
        self.membership.release()
    }

    fn beat(&mut self, began: Instant, clock: &Clock) {
        let (applied, root) = self.store.log_head();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let removed = self.removed.borrow().up_to;
        let config = self.config.clone();
        let wants_work = self.wants_work();
        let taken = self.taken.keys().map(String::as_str);
        let wanted: Vec<_> = taken.chain(wants_work.then_some(WORK)).collect();
        // a new connection takes time, by which the clock would seem to be wrong
        let renewed = self.membership.connect().and_then(|()| {
            let heartbeat = Heartbeat { version, applied, root, removed, clock: clock.now(), config };
            self.membership.renew(&heartbeat, &wanted)
        });
        match renewed {
            Ok(Renewal { hosts, .. }) if hosts.iter().all(|host| host.host != self.host) => {
                self.enter_again();
            }
            Ok(renewal) => self.note(renewal, began),
            Err(error) => {
                let fault = error.to_string();
                if self.view.borrow().fault.is_none() {
                    tracing::warn!(fault, "the membership in the cluster cannot be renewed; trying again");
                }
                let rights = self.rights();
                self.view.send_modify(|view| (view.fault, view.rights) = (Some(fault), rights));
            }
        }
    }

    /// Whether this host requests the work that one host does at a time. If it cannot, another host must.
    fn wants_work(&mut self) -> bool {
        let Some((report, contact)) = self.journal.get() else { return !self.is_stopping };
        let report = report.borrow();
        if self.is_stopping || self.view.borrow().clock_fault.is_some() {
            return false;
        }
        // a disk that hangs reports nothing, and the log is not read either
        if report.failure.is_some() || contact.age() > CONTACT_MAX {
            return false;
        }
        if report.low_space.is_none() {
            self.has_offered = false;
            return true;
        }
        // it still can send what is queued, and does so if all hosts are low on space
        let view = self.view.borrow();
        let has_work = |host: &&ClusterHostReport| host.leases.iter().any(|lease| lease == WORK);
        let holder = view.hosts.iter().find(has_work).map(|host| &host.host);
        let was_offered = self.has_offered;
        self.has_offered |= holder.is_none();
        was_offered && holder.is_none_or(|holder| *holder == self.host)
    }

    /// Removes old groups from the server, if this host has the turn.
    fn trim(&mut self, now: Instant) {
        let is_due = self.trimmed_at.is_none_or(|at| now.duration_since(at) >= TRIMMED_EVERY);
        if !is_due || self.until.borrow().is_none_or(|until| until <= monotonic()) {
            return;
        }
        match self.membership.trim(self.retained) {
            Ok(groups @ 1..) => {
                return tracing::debug!(groups, "old groups were removed from the shared log");
            }
            Ok(0) => {}
            Err(error) => tracing::warn!(%error, "old groups are removed from the shared log in a minute"),
        }
        self.trimmed_at = Some(now);
    }

    /// Enters the cluster of a server that does not know this host: it was replaced by a copy from before this host has joined. A host that
    /// was removed is known.
    fn enter_again(&mut self) {
        self.until.send_replace(None);
        let entered = self.membership.enter(false);
        tracing::warn!(?entered, "the server does not know this host; it enters the cluster again");
        let fault = entered.err().map(|error| error.to_string());
        self.view.send_modify(|view| view.fault = fault);
    }

    fn note(&mut self, renewal: Renewal, began: Instant) {
        let Renewal { leases, hosts, clock_offset_ms, is_live, synchronous_standby_names, standbys } =
            renewal;
        let offset = clock_offset_ms.unsigned_abs();
        if (offset > CLOCK_OFFSET_NOTED_MS) != self.offset_noted {
            self.offset_noted = offset > CLOCK_OFFSET_NOTED_MS;
            tracing::warn!(
                clock_offset_ms,
                "the clock of this host and that of the server of the shared log differ, or agree again"
            );
        }
        let clock_fault = (offset > OFFSET_MAX_MS).then(|| {
            format!(
                "the clock of this host is {clock_offset_ms} ms ahead of the clock of the server; correct it"
            )
        });
        let has_work = clock_fault.is_none() && is_live && leases.iter().any(|lease| lease == WORK);
        self.until.send_replace(has_work.then(|| began + TURN));
        self.taken.retain(|name, is_held| {
            is_held.send_replace(is_live && leases.contains(name));
            *is_held.borrow()
        });
        let ended = (!is_live).then(|| {
            Err("this host was removed from its cluster, or another process has taken its name; join again with a backup of another host".to_owned())
        });
        let is_seen = |host: &&ClusterHost| host.state == HostState::Live && host.seen_ms_ago < SILENT_MAX_MS;
        self.live.send_replace(hosts.iter().filter(is_seen).count().max(1));
        let hosts: Vec<_> = hosts.into_iter().map(report_of).collect();
        let members = hosts.iter().filter(|host| host.is_live()).map(|host| MemberRemovals {
            host: host.host.clone(),
            up_to: host.removed,
            is_away: !host.was_seen_lately(),
        });
        let read_at = Some(began);
        self.members.send_replace((read_at, members.collect()));
        let standbys = Some(ClusterStandbys { synchronous_standby_names, connected: standbys });
        let rights = self.rights();
        let view = ClusterView { hosts, read_at, fault: None, clock_fault, ended, standbys, rights };
        self.view.send_replace(view);
    }

    fn rights(&self) -> ClusterRights {
        let HostRights { missing, excess } = self.membership.rights().clone();
        ClusterRights { missing: missing.into_iter().collect(), excess: excess.into_iter().collect() }
    }

    /// Takes a lease with a heartbeat. Answers `None` if another host has it.
    fn take_lease(&mut self, name: String) -> Result<Option<watch::Receiver<bool>>, String> {
        if self.is_stopping {
            return Err("this host is stopping".to_owned());
        }
        let (sender, is_held) = watch::channel(false);
        self.taken.insert(name.clone(), sender);
        self.beat(monotonic(), &Clock::system());
        if *is_held.borrow() {
            return Ok(Some(is_held));
        }
        // it is unknown after a fault whether the lease was taken; then it ends by itself
        self.taken.remove(&name);
        let fault = self.view.borrow().fault.clone();
        fault.map_or(Ok(None), Err)
    }

    fn end_lease(&mut self, name: &str) {
        if self.taken.remove(name).is_some()
            && let Err(error) = self.membership.end_lease(name)
        {
            tracing::debug!(%error, name, "a lease is not ended; it ends by itself");
        }
    }

    fn mark(&self, marker: impl FnOnce(String, u64) -> ClusterMarker) -> Result<(), SharedLogError> {
        let marker = marker(self.host.clone(), self.removed.borrow().up_to);
        let marked = ClusterMarker::write(Some(&marker), self.store.dir());
        marked.map_err(|error| SharedLogError::Unanswered(error.to_string()))
    }

    fn leave(&mut self, is_last: bool) -> Result<bool, SharedLogError> {
        if is_last {
            // if the answer is lost, the next start finds out whether the cluster has ended
            self.mark(|host, removed_up_to| ClusterMarker::Leaving { host, removed_up_to })?;
        }
        let has_left = self.membership.leave(is_last)?;
        if is_last && !has_left {
            self.mark(|host, removed_up_to| ClusterMarker::Member { host, removed_up_to })?;
        }
        if has_left {
            self.view.send_modify(|view| view.ended = Some(Ok(())));
        }
        Ok(has_left)
    }

    fn answer(&mut self, call: MembershipCall) {
        let (reply, answer) = match call {
            MembershipCall::Lease(LeaseCall::Take { name, reply }) => {
                // the caller may no longer wait
                return drop(reply.send(self.take_lease(name)));
            }
            MembershipCall::Lease(LeaseCall::End { name }) => return self.end_lease(&name),
            MembershipCall::Remove { host, reply } => (reply, self.membership.remove(&host)),
            MembershipCall::Leave { is_last, reply } => (reply, self.leave(is_last)),
            MembershipCall::Release { reply } => (reply, self.release().map(|()| true)),
        };
        // the caller may no longer wait
        drop(reply.send(answer.map_err(|error| error.to_string())));
    }
}

fn report_of(host: ClusterHost) -> ClusterHostReport {
    ClusterHostReport {
        // a host of another version may have another form
        config: serde_json::from_str(&host.config).unwrap_or_default(),
        state: host.state.into_str().to_owned(),
        host: host.host,
        version: host.version,
        schema: host.schema,
        applied: host.applied,
        removed: host.removed,
        clock_offset_ms: host.clock_offset_ms,
        seen_ms: host.seen_ms_ago,
        leases: host.leases,
    }
}
