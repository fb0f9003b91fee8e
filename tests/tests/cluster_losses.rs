//! Hosts of a cluster whose shared log loses its last groups, or gets other ones, while no connection ends.

use crate::cluster::{start_cluster, stop_and_check};
use oracled_tests::cluster::TestCluster;
use oracled_tests::generation::read_metric;
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, eventually, get, post, submission};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const HOSTS: [&str; 3] = ["a", "b", "c"];

/// Three hosts, whose sessions `cs_1` and `cs_2` all have read.
async fn three_hosts<'w>(cluster: &TestCluster, worlds: &'w [DaemonWorld; 3]) -> [DaemonProcess<'w>; 3] {
    let a = cluster.init(&worlds[0]).await;
    let b = cluster.join(&worlds[1], &worlds[0]).await;
    let c = cluster.join(&worlds[2], &worlds[0]).await;
    let hosts = [a, b, c];
    for (host, session) in hosts.iter().zip(["cs_1", "cs_2"]) {
        eventually("it writes", async || matches!(submit(host, session).await, 200 | 201)).await;
    }
    for host in &hosts {
        for session in ["cs_1", "cs_2"] {
            eventually("it reads", async || read(host, session).await == 200).await;
        }
    }
    hosts
}

async fn submit(host: &DaemonProcess<'_>, session: &str) -> u16 {
    let path = format!("/v1/verdicts/{session}");
    post(&mut host.routes().await, &path, &submission(GOOD)).await.status.as_u16()
}

async fn read(host: &DaemonProcess<'_>, session: &str) -> u16 {
    get(&mut host.routes().await, &format!("/cache/{session}")).await.status.as_u16()
}

/// Runs a statement with this number. Returns the number of its rows.
fn execute(cluster: &TestCluster, statement: &str, number: i64) -> u64 {
    let server = cluster.server.as_ref().expect("it runs");
    server.call(|client| client.execute(statement, &[&number])).expect("the table exists")
}

fn end(cluster: &TestCluster) -> i64 {
    let server = cluster.server.as_ref().expect("it runs");
    let end = server.call(|client| client.query_one("SELECT max(after) FROM oracled_group", &[]));
    end.expect("the table exists").get(0)
}

/// Three hosts, whose log has lost the sessions `cs_3` and `cs_4`. The first two hosts have them, and are stopped. The last one had not read
/// them. Also returns the end of the log.
async fn lose_the_tail<'w>(
    cluster: &TestCluster,
    worlds: &'w [DaemonWorld; 3],
) -> ([DaemonProcess<'w>; 3], i64) {
    let [a, b, c] = three_hosts(cluster, worlds).await;
    let before = end(cluster);
    // the idle host has not read what the others acknowledge
    c.signal("STOP");
    assert_eq!((submit(&a, "cs_3").await, submit(&b, "cs_4").await), (201, 201));
    [&a, &b].into_iter().for_each(|host| host.signal("STOP"));
    // the server answers the requests that they have sent
    sleep(Duration::from_secs(1)).await;
    assert!(execute(cluster, "DELETE FROM oracled_group WHERE after > $1", before) >= 2);
    ([a, b, c], before)
}

/// The idle host reads a session that the log has lost. In the end, all hosts have it again.
async fn read_after_a_loss(durability: &'static str) {
    let Some(cluster) = start_cluster() else { return };
    let cluster = cluster.with_durability(durability);
    let worlds = HOSTS.map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let ([a, b, c], _) = lose_the_tail(&cluster, &worlds).await;
    c.signal("CONT");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        let found = (read(&c, "cs_3").await, read(&c, "cs_4").await);
        assert_eq!(found, (503, 503), "the other hosts may have what the log has lost");
        assert_eq!(read(&c, "cs_1").await, 200);
    }
    [&a, &b].into_iter().for_each(|host| host.signal("CONT"));
    for (host, sessions) in [(&c, ["cs_3", "cs_4"]), (&a, ["cs_4", "cs_3"]), (&b, ["cs_3", "cs_4"])] {
        for session in sessions {
            eventually("the verdict is read", async || {
                let found = read(host, session).await;
                assert!(matches!(found, 200 | 503), "{session}: {found}");
                found == 200
            })
            .await;
        }
    }
    let mut appended_again = 0.0;
    for (host, session) in [(&a, "cs_6"), (&b, "cs_7"), (&c, "cs_8")] {
        eventually("it writes", async || matches!(submit(host, session).await, 200 | 201)).await;
        appended_again += read_metric(&mut host.routes().await, "oracled_cluster_appended_again_total").await;
    }
    assert!(appended_again >= 2.0, "{appended_again}");
    for host in [&a, &b, &c] {
        for session in ["cs_1", "cs_2", "cs_3", "cs_4", "cs_6", "cs_7", "cs_8"] {
            eventually("it has all", async || read(host, session).await == 200).await;
        }
    }
    stop_and_check([a, b, c], &worlds).await;
}

#[tokio::test]
async fn verdict_is_not_missed_by_an_idle_host_if_the_tail_is_removed() {
    read_after_a_loss("asynchronous").await;
}

#[tokio::test]
async fn verdict_is_not_missed_if_the_tail_of_a_replicated_storage_is_removed() {
    read_after_a_loss("storage").await;
}

#[tokio::test]
async fn verdict_is_missed_by_an_idle_host_without_the_mark_of_the_last_append() {
    let Some(cluster) = start_cluster() else { return };
    let worlds = HOSTS.map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let (hosts, before) = lose_the_tail(&cluster, &worlds).await;
    assert_eq!(execute(&cluster, "UPDATE oracled_cluster SET mark = $1", before), 1);
    hosts[2].signal("CONT");
    eventually("the other tests would report it", async || read(&hosts[2], "cs_3").await == 404).await;
}

#[tokio::test]
async fn host_that_was_away_longer_than_the_others_wait_finds_the_fork() {
    let Some(cluster) = start_cluster() else { return };
    let worlds = HOSTS.map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let [a, b, c] = three_hosts(&cluster, &worlds).await;
    let before = end(&cluster);
    [&b, &c].into_iter().for_each(|host| host.signal("STOP"));
    assert_eq!(submit(&a, "cs_3").await, 201);
    a.signal("STOP");
    sleep(Duration::from_secs(1)).await;
    assert!(execute(&cluster, "DELETE FROM oracled_group WHERE after > $1", before) >= 1);
    [&b, &c].into_iter().for_each(|host| host.signal("CONT"));
    // they wait for 10 s for the host with the lost group
    eventually("the others write", async || matches!(submit(&b, "cs_4").await, 200 | 201)).await;
    eventually("it is read", async || read(&c, "cs_4").await == 200).await;
    a.signal("CONT");
    assert_eq!(a.wait().code(), Some(3), "{}", worlds[0].service_log());
    stop_and_check([b, c], &worlds[1..]).await;
}

#[tokio::test]
async fn each_host_ends_with_the_code_of_a_fork_if_the_end_has_another_root() {
    let Some(cluster) = start_cluster() else { return };
    let worlds = HOSTS.map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let hosts = three_hosts(&cluster, &worlds).await;
    let other_root = "
        UPDATE oracled_group SET root = sha256(root) WHERE after = (SELECT max(after) FROM oracled_group) RETURNING after";
    let server = cluster.server.as_ref().expect("it runs");
    let changed = server.call(|client| client.query_one(other_root, &[])).expect("the table exists");
    let place: i64 = changed.get(0);
    // no request: each one reads the log by itself
    for ((host, world), name) in hosts.into_iter().zip(&worlds).zip(HOSTS) {
        assert_eq!(host.wait().code(), Some(3), "{}", world.service_log());
        let log = world.service_log();
        for part in
            [format!("this host ({name}) ends at entry {place}"), format!("at entry {place}, by host ")]
        {
            assert!(log.contains(&part), "{part}: {log}");
        }
    }
}

#[tokio::test]
async fn writes_by_someone_without_the_keys_can_be_undone() {
    let Some(cluster) = start_cluster() else { return };
    let worlds = HOSTS.map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let [a, b, c] = three_hosts(&cluster, &worlds).await;
    let place = end(&cluster);
    let copied = "
        INSERT INTO oracled_group (before, after, root, host, key_id, bytes, schema)
        SELECT after, after + 1, root, host, key_id, bytes, schema FROM oracled_group WHERE after = $1";
    assert_eq!(execute(&cluster, copied, place), 1);
    for host in [&a, &b, &c] {
        assert_eq!((read(host, "cs_3").await, read(host, "cs_1").await), (503, 200));
    }
    assert_eq!(execute(&cluster, "DELETE FROM oracled_group WHERE after > $1", place), 1);
    eventually("it writes", async || matches!(submit(&a, "cs_3").await, 200 | 201)).await;
    let state = "UPDATE oracled_host SET state = CASE WHEN $1 = 1::bigint THEN 'live' ELSE 'removed' END WHERE host = 'b'";
    execute(&cluster, state, 0);
    assert!(!b.wait().success());
    assert!(!worlds[1].run_until_exit().status.success());
    execute(&cluster, state, 1);
    let b = worlds[1].serve().await;
    execute(&cluster, "UPDATE oracled_cluster SET mark = $1", i64::MAX);
    execute(
        &cluster,
        "UPDATE oracled_cluster SET epoch = 'other', epoch_since = 'infinity' WHERE one OR $1 = 1::bigint",
        1,
    );
    for (host, session) in [(&a, "cs_4"), (&b, "cs_5"), (&c, "cs_6")] {
        eventually("it writes", async || matches!(submit(host, session).await, 200 | 201)).await;
    }
    stop_and_check([a, b, c], &worlds).await;
}
