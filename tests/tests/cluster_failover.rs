//! Hosts of a cluster whose PostgreSQL server was replaced by its standby, or by an older copy, and hosts that were away for long.

use crate::cluster::{self, start_cluster};
use oracled_tests::cluster::TestCluster;
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, document, eventually, get, post, submission};
use std::fs;
use std::time::Duration;
use tokio::time::sleep;

async fn submit(host: &DaemonProcess<'_>, session: &str) -> u16 {
    let answer = post(&mut host.routes().await, &format!("/v1/verdicts/{session}"), &submission(GOOD)).await;
    answer.status.as_u16()
}

async fn eventually_submit(host: &DaemonProcess<'_>, session: &str) {
    eventually("the host writes again", async || matches!(submit(host, session).await, 200 | 201)).await;
}

/// Stops the process, and waits until the server has answered what it has asked.
async fn stop_reading(host: &DaemonProcess<'_>) {
    host.signal("STOP");
    sleep(Duration::from_secs(1)).await;
}

/// Checks that both hosts have these sessions, and one log.
async fn stop_and_check(hosts: [(DaemonProcess<'_>, &DaemonWorld); 2], sessions: &[&str]) {
    for (host, _) in &hosts {
        for session in sessions {
            let read = get(&mut host.routes().await, &format!("/cache/{session}")).await;
            assert_eq!(read.status, 200, "{session}: {}", document(&read));
        }
    }
    let worlds = hosts.each_ref().map(|(_, world)| *world);
    cluster::stop_and_check(hosts.map(|(host, _)| host), &worlds).await;
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_if_a_synchronous_standby_is_promoted() {
    if start_cluster().is_none() {
        return;
    }
    let mut cluster = TestCluster::start_with_standby().expect("PostgreSQL is there");
    let worlds = ["a", "b"].map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let (a, b) = (cluster.init(&worlds[0]).await, cluster.join(&worlds[1], &worlds[0]).await);
    assert_eq!((submit(&a, "cs_1").await, submit(&b, "cs_2").await), (201, 201));
    let report = document(&get(&mut a.control().await, "/v1/cluster").await);
    assert_eq!(report["standbys"]["connected"], 1);
    assert_ne!(report["standbys"]["synchronous_standby_names"], "");
    cluster.fail_over();
    // the new primary has no standby
    assert_eq!(submit(&a, "cs_3").await, 503);
    cluster.add_standby();
    eventually_submit(&a, "cs_3").await;
    eventually_submit(&b, "cs_4").await;
    stop_and_check([(a, &worlds[0]), (b, &worlds[1])], &["cs_1", "cs_2", "cs_3", "cs_4"]).await;
}

#[tokio::test]
async fn entries_that_a_restored_server_lacks_are_appended_again_by_the_host_that_has_them() {
    let Some(mut cluster) = start_cluster() else { return };
    let worlds = ["a", "b"].map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let (a, b) = (cluster.init(&worlds[0]).await, cluster.join(&worlds[1], &worlds[0]).await);
    assert_eq!(submit(&a, "cs_1").await, 201);
    cluster.server.as_ref().expect("it runs").save().expect("it is copied");
    stop_reading(&b).await;
    for session in ["cs_2", "cs_3"] {
        assert_eq!(submit(&a, session).await, 201);
    }
    cluster.stop_server();
    // only a has them, and it compares last
    a.signal("STOP");
    b.signal("CONT");
    cluster.restore_server();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(submit(&b, "cs_4").await, 503, "it waits for the other host");
    a.signal("CONT");
    eventually_submit(&b, "cs_4").await;
    stop_and_check([(a, &worlds[0]), (b, &worlds[1])], &["cs_1", "cs_2", "cs_3", "cs_4"]).await;
}

#[tokio::test]
async fn host_that_joined_after_the_copy_enters_again_with_its_entries() {
    let Some(mut cluster) = start_cluster() else { return };
    let worlds = ["a", "b"].map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let a = cluster.init(&worlds[0]).await;
    assert_eq!(submit(&a, "cs_1").await, 201);
    cluster.server.as_ref().expect("it runs").save().expect("it is copied");
    let b = cluster.join(&worlds[1], &worlds[0]).await;
    for session in ["cs_2", "cs_3"] {
        assert_eq!(submit(&b, session).await, 201);
        assert_eq!(get(&mut a.routes().await, &format!("/cache/{session}")).await.status, 200);
    }
    cluster.restore_server();
    eventually_submit(&b, "cs_4").await;
    eventually_submit(&a, "cs_5").await;
    stop_and_check([(a, &worlds[0]), (b, &worlds[1])], &["cs_1", "cs_2", "cs_3", "cs_4", "cs_5"]).await;
}

#[tokio::test]
async fn host_with_entries_that_the_others_have_replaced_ends_with_a_code_of_its_own() {
    let Some(mut cluster) = start_cluster() else { return };
    let worlds = ["a", "b"].map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let (a, b) = (cluster.init(&worlds[0]).await, cluster.join(&worlds[1], &worlds[0]).await);
    assert_eq!(submit(&a, "cs_1").await, 201);
    cluster.server.as_ref().expect("it runs").save().expect("it is copied");
    stop_reading(&b).await;
    assert_eq!(submit(&a, "cs_2").await, 201);
    a.kill();
    cluster.stop_server();
    b.signal("CONT");
    cluster.restore_server();
    // the others do not wait forever for a host that is gone
    eventually_submit(&b, "cs_3").await;
    let ended = worlds[0].run_until_exit();
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    // an operator chooses the history of a, and b joins again
    let state = worlds[0].state();
    let init = ["cluster", "init", "--state-dir", state.to_str().expect("valid UTF-8")];
    assert_eq!(worlds[0].ctl(&init).status.code(), Some(5));
    assert!(worlds[0].ctl(&[&init[..], &["--reset"]].concat()).status.success());
    let a = worlds[0].serve().await;
    assert_eq!(b.wait().code(), Some(3), "its next start would end so, too");
    fs::remove_dir_all(worlds[1].state()).expect("it is removed");
    // no group is removed between the backup and the join
    set_appended(&cluster, "clock_timestamp()");
    let b = cluster.join(&worlds[1], &worlds[0]).await;
    assert_eq!(submit(&b, "cs_4").await, 201);
    let lost = get(&mut b.routes().await, "/cache/cs_3").await;
    assert_eq!(lost.status, 404);
    stop_and_check([(a, &worlds[0]), (b, &worlds[1])], &["cs_1", "cs_2", "cs_4"]).await;
}

/// Two hosts of a cluster whose standby lacks the session `cs_2`, as does the second host, which is stopped.
async fn write_without_replication<'w>(
    cluster: &TestCluster,
    worlds: &'w [DaemonWorld; 2],
) -> (DaemonProcess<'w>, DaemonProcess<'w>) {
    let (a, b) = (cluster.init(&worlds[0]).await, cluster.join(&worlds[1], &worlds[0]).await);
    assert_eq!(submit(&a, "cs_1").await, 201);
    cluster.stop_replication();
    stop_reading(&b).await;
    assert_eq!(submit(&a, "cs_2").await, 201);
    (a, b)
}

#[tokio::test]
async fn entries_that_an_asynchronous_standby_lacks_are_appended_again_by_a_host_that_is_there() {
    if start_cluster().is_none() {
        return;
    }
    let mut cluster = TestCluster::start_with_asynchronous_standby().expect("PostgreSQL is there");
    let worlds = ["a", "b"].map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let (a, b) = write_without_replication(&cluster, &worlds).await;
    cluster.fail_over();
    b.signal("CONT");
    eventually_submit(&b, "cs_3").await;
    eventually_submit(&a, "cs_4").await;
    stop_and_check([(a, &worlds[0]), (b, &worlds[1])], &["cs_1", "cs_2", "cs_3", "cs_4"]).await;
}

#[tokio::test]
async fn host_that_was_away_when_an_asynchronous_standby_was_promoted_finds_the_fork() {
    if start_cluster().is_none() {
        return;
    }
    let mut cluster = TestCluster::start_with_asynchronous_standby().expect("PostgreSQL is there");
    let worlds = ["a", "b"].map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let (a, b) = write_without_replication(&cluster, &worlds).await;
    a.kill();
    cluster.fail_over();
    // the other host would wait for 10 s for a host that was seen just before
    let was_away = "UPDATE oracled_host SET seen = seen - interval '1 min' WHERE host = 'a'";
    let server = cluster.server.as_ref().expect("it runs");
    assert_eq!(server.call(|client| client.execute(was_away, &[])).expect("the server runs"), 1);
    b.signal("CONT");
    eventually_submit(&b, "cs_3").await;
    let ended = worlds[0].run_until_exit();
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    let mut routes = b.routes().await;
    assert_eq!(get(&mut routes, "/cache/cs_2").await.status, 404, "it is in the log of the other host");
    assert_eq!(get(&mut routes, "/cache/cs_3").await.status, 200);
    assert!(b.stop().success());
}

/// Lets a day pass for all groups of the server. Returns the number of its groups.
fn age_groups(cluster: &TestCluster) -> i64 {
    set_appended(cluster, "appended - interval '25 h'")
}

fn set_appended(cluster: &TestCluster, time: &'static str) -> i64 {
    let aged = cluster.server.as_ref().expect("it runs").call(move |client| {
        client.execute(&format!("UPDATE oracled_group SET appended = {time}"), &[])?;
        client.query_one("SELECT count(*) FROM oracled_group", &[])?.try_get(0)
    });
    aged.expect("the server has the table")
}

#[tokio::test]
async fn host_that_was_away_for_a_day_finds_its_groups_and_a_removed_one_joins_with_a_backup() {
    let Some(cluster) = start_cluster() else { return };
    let worlds = ["a", "b"].map(|host| DaemonWorld::with_config(&cluster.config(host)));
    let (a, b) = (cluster.init(&worlds[0]).await, cluster.join(&worlds[1], &worlds[0]).await);
    assert!(b.stop().success());
    for session in ["cs_1", "cs_2"] {
        assert_eq!(submit(&a, session).await, 201);
    }
    let groups = age_groups(&cluster);
    assert!(a.stop().success());
    // it removes old groups when it has its turn
    let a = worlds[0].serve().await;
    assert_eq!(submit(&a, "cs_3").await, 201);
    assert!(age_groups(&cluster) > groups, "the host that is away has not applied them");
    let b = worlds[1].serve().await;
    assert_eq!(submit(&b, "cs_4").await, 201);
    assert!(b.stop().success());
    let removed = worlds[0].ctl_in_thread(&["cluster", "remove", "b"]).await;
    assert!(removed.status.success(), "{removed:?}");
    assert_eq!(submit(&a, "cs_5").await, 201);
    let groups = age_groups(&cluster);
    assert!(a.stop().success());
    let a = worlds[0].serve().await;
    eventually("old groups are removed", async || age_groups(&cluster) < groups).await;
    let ended = worlds[1].run_until_exit();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    fs::remove_dir_all(worlds[1].state()).expect("it is removed");
    let b = cluster.join(&worlds[1], &worlds[0]).await;
    assert_eq!(submit(&b, "cs_6").await, 201);
    let sessions = ["cs_1", "cs_2", "cs_3", "cs_4", "cs_5", "cs_6"];
    stop_and_check([(a, &worlds[0]), (b, &worlds[1])], &sessions).await;
}
