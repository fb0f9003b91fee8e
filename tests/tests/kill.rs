//! `kill -9` at random moments under load: what was acknowledged is there afterwards, and the rest is whole.

use oracled_tests::World;
use oracled_tests::load::{Ledger, Load, check_served};
use std::time::Duration;
use tokio::sync::watch;

/// In every round so many sessions of earlier rounds are asked for, beside all of the last one.
const EARLIER: usize = 200;

async fn kill_under_load(rounds: usize) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = World::default();
    let mut ledger = Ledger::default();
    for round in 1..=rounds {
        let daemon = world.serve().await;
        let load = Load {
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
        let (told, lost) = calls.await.expect("every answer is as it must be");
        assert_eq!(
            (told.failures, lost),
            (0, 6),
            "nothing fails before the kill, and nobody is left after it"
        );
        let mut asked: Vec<_> = told.sessions.keys().cloned().collect();
        let known: Vec<_> = ledger.sessions.keys().cloned().collect();
        asked.extend((0..EARLIER).filter_map(|_| rng.choice(&known).cloned()));
        println!(
            "round {round}: killed after {} ms, {} answers, {} verdicts acknowledged",
            after.as_millis(),
            told.answers,
            told.acknowledged
        );
        ledger.add(told);

        // an opening that is cut short must not be in the way of the next
        let early = world.spawn();
        tokio::time::sleep(Duration::from_micros(rng.u64(0..60_000))).await;
        early.kill();

        let before = ledger.check_store(&world.state());
        let daemon = world.serve().await;
        let chronicle = check_served(&mut daemon.control().await, &world.state()).await;
        assert_eq!(chronicle.entries, before.entries + 1, "the start, and nothing else");
        let asked: Vec<_> = asked.iter().collect();
        ledger.check_answers(&mut daemon.routes().await, &chronicle, &asked).await;
        drop(daemon);
    }
    println!("{rounds} rounds, {} verdicts acknowledged, none lost", ledger.acknowledged);
    assert!(ledger.acknowledged > rounds, "there was load");
}

#[tokio::test]
async fn what_was_acknowledged_survives_kills_under_load() {
    kill_under_load(5).await;
}

#[tokio::test]
#[ignore = "60 kills take minutes; `just torture`"]
async fn what_was_acknowledged_survives_sixty_kills_under_load() {
    kill_under_load(60).await;
}
