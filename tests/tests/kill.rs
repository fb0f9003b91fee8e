//! `kill -9` at random moments under load: acknowledged verdicts are stored afterwards, and the store is intact.

use oracled_tests::DaemonWorld;
use oracled_tests::load::{AnswerLedger, LoadConfig, LogContent, check_served};
use std::time::Duration;
use tokio::sync::watch;

/// Number of sessions of earlier rounds that each round reads, in addition to all sessions of the last one.
const EARLIER: usize = 200;

async fn kill_under_load(rounds: usize) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = DaemonWorld::default();
    let mut ledger = AnswerLedger::default();
    let mut round = 0;
    // on a busy machine many rounds end before a verdict is acknowledged
    while round < rounds || ledger.acknowledged <= rounds {
        round += 1;
        assert!(round <= 10 * rounds, "some verdicts are acknowledged");
        let daemon = world.serve().await;
        let load = LoadConfig {
            routes: world.socket(),
            control: world.control_socket(),
            name: format!("k{round}"),
            callers: 6,
            seed: rng.u64(..),
        };
        let (_never, stop) = watch::channel(false);
        let calls = tokio::spawn(load.run(stop));
        let after = Duration::from_millis(rng.u64(20..500));
        tokio::time::sleep(after).await;
        daemon.kill();
        let (answered, lost) = calls.await.expect("every answer is valid");
        assert_eq!(
            (answered.failures, lost),
            (0, 6),
            "no failure before the kill, and no connection after it"
        );
        let mut sessions: Vec<_> = answered.sessions.keys().cloned().collect();
        let known: Vec<_> = ledger.sessions.keys().cloned().collect();
        sessions.extend((0..EARLIER).filter_map(|_| rng.choice(&known).cloned()));
        println!(
            "round {round}: killed after {} ms, {} answers, {} verdicts acknowledged",
            after.as_millis(),
            answered.answers,
            answered.acknowledged
        );
        ledger.add(answered);

        // an interrupted start must not block the next one
        let early = world.spawn();
        tokio::time::sleep(Duration::from_micros(rng.u64(0..60_000))).await;
        early.kill();

        let before = ledger.check_store(&world.state());
        let daemon = world.serve().await;
        let chronicle = check_served(&mut daemon.control().await, &world.state()).await;
        let without_reads = |log: &LogContent| log.entries - log.reads;
        assert_eq!(without_reads(&chronicle), without_reads(&before) + 1, "only the start is added");
        let sessions: Vec<_> = sessions.iter().collect();
        ledger.check_answers(&mut daemon.routes().await, &chronicle, &sessions).await;
        drop(daemon);
    }
    println!("{round} rounds, {} verdicts acknowledged, none lost", ledger.acknowledged);
}

#[tokio::test]
async fn acknowledged_verdicts_survive_kills_under_load() {
    kill_under_load(5).await;
}

#[tokio::test]
#[ignore = "60 kills take minutes; `just torture`"]
async fn acknowledged_verdicts_survive_60_kills_under_load() {
    kill_under_load(60).await;
}
