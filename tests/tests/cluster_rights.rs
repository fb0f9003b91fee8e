//! Hosts of a cluster whose user of PostgreSQL has only the rights of a host. Without PostgreSQL, these tests do nothing.

use crate::cluster::{coherent_model, start_cluster};
use crate::shared_log::{OWN, cluster, end, group, settings};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use oracled_tests::cluster::TestCluster;
use oracled_tests::generation::{read_verdict, register_session};
use oracled_tests::postgres::PostgresServer;
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, eventually, get, post, submission};
use postgres::{Client, NoTls};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;
use store_log::{SharedLog, SharedLogError};
use store_postgres::{
    ClusterMembership, ClusterMeters, Heartbeat, HostRights, MeterLimit, PostgresLog, PostgresSettings,
};

/// The user that owns the tables, and that of the hosts.
const USERS: &str = "CREATE ROLE owner LOGIN; CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO owner";
/// The code of PostgreSQL for a missing right.
const DENIED: &str = "(42501)";

/// The settings of a host that connects as this user.
fn settings_of(server: &PostgresServer, user: &str, host: usize) -> PostgresSettings {
    PostgresSettings { url: server.url_as(user), ..settings(server, host) }
}

/// Creates the cluster again, with fresh rights of the hosts.
fn create(server: &PostgresServer) {
    let granted = Some("app".to_owned());
    let mut owner = PostgresLog::new(settings_of(server, "owner", 0));
    owner.create(OWN, true, granted).expect("the owner creates the tables");
}

fn client_of(server: &PostgresServer, user: &str) -> Client {
    Client::connect(&server.url_as(user), NoTls).expect("the server runs")
}

/// A server with a cluster whose tables have an owner of their own; `None` without PostgreSQL.
fn start() -> Option<(tempfile::TempDir, PostgresServer)> {
    let (dir, server) = cluster(OWN)?;
    let mut client = Client::connect(&server.url(), NoTls).expect("the server runs");
    let tables = ["key", "meter", "lease", "host", "group", "cluster"].map(|name| format!("oracled_{name}"));
    client.batch_execute(&format!("DROP TABLE {}; {USERS}", tables.join(", "))).expect("they are made");
    create(&server);
    Some((dir, server))
}

/// Runs each statement of two hosts. Returns the errors.
fn run_all_statements(server: &PostgresServer) -> Vec<String> {
    let mut errors = Vec::new();
    let mut note = |failed: Option<SharedLogError>| errors.extend(failed.map(|error| error.to_string()));
    let mut one = ClusterMembership::new(settings_of(server, "app", 1));
    // a second time, a host takes its name over
    for joins in [false, false, true] {
        note(one.enter(joins).err());
    }
    let heartbeat = Heartbeat {
        version: "1.2.3".to_owned(),
        applied: 5,
        root: [5; 32],
        removed: 4,
        clock: Timestamp::now(),
        config: "{}".to_owned(),
    };
    for leases in [&["work", "source/a"][..], &["work"]] {
        note(one.renew(&heartbeat, leases).err());
    }
    note(one.first_entry().err());
    note(one.other_configs("1.2.3").err());
    note(one.trim(Duration::ZERO).err());
    note(one.end_lease("work").err());
    note(one.release().err());
    note(one.remove("host-0").err());
    let mut log = PostgresLog::new(settings_of(server, "app", 1));
    note(log.connect(OWN).err());
    note(log.settle().err());
    note(log.append(OWN, &group(5, 7)).err());
    note(log.tail().err());
    note(log.ends(u64::MAX).err());
    note(log.read(5, usize::MAX).err());
    note(log.set_waiting(true).err());
    Client::connect(&server.url(), NoTls)
        .and_then(|mut client| client.execute("DELETE FROM oracled_group WHERE after = 7", &[]))
        .expect("the table exists");
    // it raises the epoch
    note(log.connect(end(7)).err());
    let limit = MeterLimit { name: "model".to_owned(), every: Duration::from_millis(1), burst: 1 };
    note(ClusterMeters::new(settings_of(server, "app", 1)).take(&[limit]).err());
    note(ClusterMembership::new(settings_of(server, "app", 2)).enter(false).err());
    note(one.leave(false).err());
    errors
}

#[test]
fn host_has_the_rights_of_its_statements_and_no_others() {
    let Some((_dir, server)) = start() else { return };
    assert_eq!(run_all_statements(&server), [""; 0]);
    let mut client = Client::connect(&server.url(), NoTls).expect("the server runs");
    let granted = "
        SELECT privilege_type::text, '', table_name::text FROM information_schema.table_privileges WHERE grantee = 'app'
        UNION ALL SELECT privilege_type, column_name, table_name FROM information_schema.column_privileges
        WHERE grantee = 'app' AND privilege_type IN ('INSERT', 'UPDATE')";
    let rights = client.query(granted, &[]).expect("the server has it");
    assert!(rights.len() > 40, "{} rights", rights.len());
    for right in rights {
        let (privilege, column, table): (String, String, String) = (right.get(0), right.get(1), right.get(2));
        let of = if column.is_empty() { String::new() } else { format!(" ({column})") };
        create(&server);
        let revoked = format!("REVOKE {privilege}{of} ON {table} FROM app");
        client.batch_execute(&revoked).expect("it is revoked");
        let errors = run_all_statements(&server);
        assert!(
            errors.iter().any(|error| error.contains(DENIED)),
            "no statement needs it: {revoked}: {errors:?}"
        );
        let mut member = ClusterMembership::new(settings_of(&server, "app", 1));
        drop(member.connect());
        let HostRights { missing, excess } = member.rights().clone();
        assert_eq!((missing.len(), excess.len()), (1, 0), "{revoked}: {missing:?} {excess:?}");
        let grants = missing.into_iter().collect::<Vec<_>>().join("; ");
        client_of(&server, "owner").batch_execute(&grants).expect("the owner can grant it");
        let mut member = ClusterMembership::new(settings_of(&server, "app", 1));
        member.connect().expect("it has all rights");
        assert_eq!(*member.rights(), HostRights::default(), "{grants}");
    }
}

#[test]
fn user_of_a_host_cannot_change_groups_or_remove_tables() {
    let Some((_dir, server)) = start() else { return };
    assert_eq!(run_all_statements(&server), [""; 0]);
    let mut app = client_of(&server, "app");
    for statement in [
        "TRUNCATE oracled_group",
        "ALTER TABLE oracled_group ADD other integer",
        "DROP TABLE oracled_lease",
        "CREATE TABLE oracled_other (id integer)",
        "CREATE TRIGGER other BEFORE INSERT ON oracled_group EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "UPDATE oracled_group SET bytes = ''",
        "UPDATE oracled_group SET root = ''",
        "UPDATE oracled_group SET appended = clock_timestamp()",
        "INSERT INTO oracled_group VALUES (1, 2, '', '', '', '', 1, clock_timestamp())",
        "UPDATE oracled_host SET host = 'other'",
        "DELETE FROM oracled_host",
        "INSERT INTO oracled_cluster (store_id, protocol, log_key, held_key, mark) VALUES (1, 1, '', '', 0)",
        "UPDATE oracled_cluster SET store_id = 1",
        "UPDATE oracled_cluster SET log_key = ''",
        "DELETE FROM oracled_cluster",
        "UPDATE oracled_key SET digest = ''",
        "DELETE FROM oracled_key",
        "UPDATE oracled_lease SET name = 'other'",
        "UPDATE oracled_meter SET name = 'other'",
        "DELETE FROM oracled_meter",
    ] {
        let refused = app.batch_execute(statement).expect_err(statement);
        assert_eq!(refused.code().map(|code| code.code()), Some("42501"), "{statement}: {refused}");
    }
    let mut log = PostgresLog::new(settings_of(&server, "app", 2));
    let error = log.create(OWN, true, None).expect_err("it is not the owner");
    assert!(matches!(&error, SharedLogError::Refused(text) if text.contains(DENIED)), "{error}");
    for (user, excess) in [("owner", true), ("oracled", true), ("app", false)] {
        let mut member = ClusterMembership::new(settings_of(&server, user, 2));
        member.connect().expect("it answers");
        let HostRights { missing, excess: found } = member.rights();
        assert!(
            missing.is_empty() && found.contains("OWNER on oracled_group") == excess,
            "{user}: {found:?}"
        );
    }
    client_of(&server, "owner")
        .batch_execute("GRANT TRUNCATE ON oracled_group TO app")
        .expect("it is granted");
    let mut member = ClusterMembership::new(settings_of(&server, "app", 2));
    member.connect().expect("it answers");
    assert!(member.rights().excess.iter().eq(["TRUNCATE on oracled_group"]), "{:?}", member.rights());
}

async fn submit(host: &DaemonProcess<'_>, session: &str) -> u16 {
    let path = format!("/v1/verdicts/{session}");
    post(&mut host.routes().await, &path, &submission(GOOD)).await.status.as_u16()
}

async fn status(world: &DaemonWorld) -> Value {
    let output = world.ctl_in_thread(&["cluster", "status", "--json"]).await;
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The results of the doctor on the cluster: their levels and values.
async fn doctor(world: &DaemonWorld) -> Vec<(String, String)> {
    let config = world.config_file();
    let output = world.ctl_in_thread(&["doctor", "--json", "--config", &config.to_string_lossy()]).await;
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks =
        report["checks"].as_array().expect("a list").iter().filter(|check| check["check"] == "cluster");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    checks.map(|check| (text(&check["level"]), text(&check["value"]) + &text(&check["remedy"]))).collect()
}

fn execute(cluster: &TestCluster, statement: &str) {
    let server = cluster.server.as_ref().expect("it runs");
    server.call(|client| client.batch_execute(statement)).expect("the server accepts it");
}

fn first_entry(cluster: &TestCluster) -> i64 {
    let server = cluster.server.as_ref().expect("it runs");
    let first = server.call(|client| client.query_one("SELECT min(after) FROM oracled_group", &[]));
    first.expect("the table exists").get(0)
}

#[tokio::test]
async fn cluster_lives_with_only_the_rights_of_a_host() {
    let Some(cluster) = start_cluster() else { return };
    execute(&cluster, USERS);
    let model = coherent_model(Duration::ZERO).await;
    let [a, b, c] = ["a", "b", "c"].map(|host| cluster.world(host, &model.url(), "calls_per_minute = 600"));
    cluster.set_user("owner");
    let first = cluster.init_with(&a, &["--grant-to", "app"]).await;
    eventually("doctor names the owner", async || {
        doctor(&a)
            .await
            .iter()
            .any(|(level, value)| level == "warning" && value.contains("OWNER on oracled_group"))
    })
    .await;
    assert!(first.stop().success());
    cluster.set_user("app");
    let first = a.serve().await;
    let second = cluster.join(&b, &a).await;
    let third = cluster.join(&c, &a).await;
    for (host, session) in [(&first, "cs_1"), (&second, "cs_2"), (&third, "cs_3")] {
        eventually("it writes", async || matches!(submit(host, session).await, 200 | 201)).await;
    }
    register_session(&mut second.routes().await, "cs_4", None).await;
    assert_eq!(read_verdict(&mut third.routes().await, "cs_4").await.status, 200, "its call is metered");
    eventually("one has the work", async || {
        let hosts = status(&a).await["hosts"].as_array().cloned().unwrap_or_default();
        hosts.iter().any(|host| host["leases"] == json!(["work"]))
    })
    .await;
    let keys = format!("2026-12 {}\n{}", BASE64_STANDARD.encode([8; 32]), cluster.keys());
    cluster.set_keys(&keys);
    for world in [&a, &b, &c] {
        assert!(world.ctl_in_thread(&["reload"]).await.status.success());
    }
    // the first host can use the new key before this one has it
    eventually("it writes", async || matches!(submit(&second, "cs_5").await, 200 | 201)).await;
    for host in [&first, &third] {
        eventually("it reads", async || get(&mut host.routes().await, "/cache/cs_5").await.status == 200)
            .await;
    }
    eventually(
        "doctor finds no fault",
        async || matches!(doctor(&b).await.as_slice(), [(level, _)] if level == "pass"),
    )
    .await;
    // each host that gets the work removes old groups at once
    execute(&cluster, "UPDATE oracled_group SET appended = appended - interval '25 h'");
    let before = first_entry(&cluster);
    assert!(first.stop().success());
    let first = a.serve().await;
    assert!(second.stop().success());
    let second = b.serve().await;
    eventually("old groups are removed", async || first_entry(&cluster) > before).await;
    assert!(b.ctl_in_thread(&["cluster", "remove", "c"]).await.status.success());
    assert!(!third.wait().success());
    execute(
        &cluster,
        "REVOKE INSERT ON oracled_lease FROM app; REVOKE INSERT (until) ON oracled_lease FROM app",
    );
    eventually("doctor names the missing right", async || {
        let found = doctor(&b).await;
        found.iter().any(|(level, value)| {
            level == "fault" && value.contains("GRANT INSERT") && value.contains("oracled_lease")
        })
    })
    .await;
    execute(&cluster, "GRANT INSERT (name, instance, host, until) ON oracled_lease TO app");
    eventually(
        "it works again",
        async || matches!(doctor(&b).await.as_slice(), [(level, _)] if level == "pass"),
    )
    .await;
    end_cluster([(first, &a), (second, &b)], &cluster).await;
}

/// The hosts leave, the last one after it has set the cluster up again.
async fn end_cluster(
    [(first, a), (second, b)]: [(DaemonProcess<'_>, &DaemonWorld); 2],
    cluster: &TestCluster,
) {
    assert!(a.ctl_in_thread(&["cluster", "leave"]).await.status.success());
    assert!(first.wait().success());
    let last = b.ctl_in_thread(&["cluster", "leave", "--last"]).await;
    assert!(!last.status.success(), "only the owner can remove the tables: {last:?}");
    assert_eq!(get(&mut second.routes().await, "/cache/cs_5").await.status, 200);
    assert!(second.stop().success());
    // an operator chooses the history of b
    cluster.set_user("owner");
    let second = cluster.init_with(b, &["--reset", "--grant-to", "app"]).await;
    assert!(second.stop().success());
    cluster.set_user("app");
    let second = b.serve().await;
    fs::remove_dir_all(a.state()).expect("it is removed");
    let first = cluster.join(a, b).await;
    eventually("it writes", async || matches!(submit(&first, "cs_6").await, 200 | 201)).await;
    assert!(a.ctl_in_thread(&["cluster", "leave"]).await.status.success());
    assert!(first.wait().success() && second.stop().success());
    cluster.set_user("owner");
    let second = b.serve().await;
    let last = b.ctl_in_thread(&["cluster", "leave", "--last"]).await;
    assert!(last.status.success(), "{last:?}");
    assert!(second.wait().success());
}
