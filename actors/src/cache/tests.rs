use super::*;
use crate::crosscheck::Outcome;
use crate::testing::{GOOD, World, id, judge, logged, with_world};

const PEER: Peer = Peer { uid: 7, gid: 8, pid: Some(9) };

#[test]
fn a_verdict_is_read_from_the_store_once_and_from_memory_then() {
    with_world(|World { system, .. }| async move {
        system
            .crosscheck
            .ask(judge("cs_1", GOOD, GatePath::Submit))
            .await
            .expect("it answers")
            .expect("it is judged");
        let read =
            || async { system.cache.ask(Read(id("cs_1"))).await.expect("it answers").expect("it reads") };
        let (first, second) = (read().await.expect("it is there"), read().await.expect("it is there"));
        assert!(Arc::ptr_eq(&first, &second), "the second comes from memory");
        assert!(system.cache.ask(Read(id("cs_2"))).await.expect("it answers").expect("it reads").is_none());
        let counted = |found| system.metrics.cache_reads.get_or_create(found).get();
        assert_eq!((counted(&HIT_STORE), counted(&HIT_MEMORY), counted(&MISS)), (1, 1, 1));
    });
}

#[test]
fn a_purged_verdict_is_gone_from_memory_and_store_and_the_log_says_by_whom() {
    with_world(|World { system, .. }| async move {
        system
            .crosscheck
            .ask(judge("cs_1", GOOD, GatePath::Submit))
            .await
            .expect("it answers")
            .expect("it is judged");
        system
            .cache
            .ask(Read(id("cs_1")))
            .await
            .expect("it answers")
            .expect("it reads")
            .expect("it is there");
        let purge = || system.cache.ask(Purge { session_id: id("cs_1"), peer: PEER });
        assert!(purge().await.expect("it answers").expect("it is committed"));
        assert!(!purge().await.expect("it answers").expect("nothing is left"));
        assert!(system.cache.ask(Read(id("cs_1"))).await.expect("it answers").expect("it reads").is_none());
        assert_eq!(logged(&system.store), ["tmm_crosscheck", "verdict_cached", "verdict_purged"]);
        // the session stays, and takes a verdict again
        let outcome = system.crosscheck.ask(judge("cs_1", GOOD, GatePath::Submit)).await.expect("it answers");
        assert!(matches!(outcome, Ok(Outcome::Delivered(_))), "{outcome:?}");
        let (session, revision) =
            system.store.session(&id("cs_1")).expect("it is read").expect("it is there");
        assert_eq!(
            (session.original.map(|first| first.verdict_label), revision),
            (Some(domain::Label::Green), 2),
            "as it first was"
        );
    });
}

#[test]
fn simultaneous_submissions_of_one_session_store_one_verdict() {
    with_world(|World { system, .. }| async move {
        let asked: Vec<_> = (0..20)
            .map(|n| {
                let door = system.crosscheck.clone();
                let verdict = format!(r#"{{"verdict":"AMBER","summary":"The plan in version {n:02}."}}"#);
                actix_rt::spawn(async move { door.ask(judge("cs_1", &verdict, GatePath::Submit)).await })
            })
            .collect();
        let (mut stored, mut bodies) = (0, std::collections::HashSet::new());
        for asked in asked {
            match asked.await.expect("the asker lives").expect("it answers").expect("it is judged") {
                Outcome::Delivered(cached) => {
                    stored += 1;
                    bodies.insert(cached.body.clone());
                }
                Outcome::Replayed(cached) => drop(bodies.insert(cached.body.clone())),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((stored, bodies.len()), (1, 1), "all get the one that was stored");
        let events = logged(&system.store);
        assert_eq!(events.iter().filter(|event| *event == "verdict_cached").count(), 1);
        assert_eq!(events.iter().filter(|event| *event == "tmm_crosscheck").count(), 20);
    });
}

#[test]
fn hot_verdicts_stay_within_their_memory() {
    let mut hot = empty(64 * 1024);
    let delivery = |n: usize| {
        let verdict = format!(r#"{{"verdict":"RED","summary":"{}"}}"#, "s".repeat(2000));
        let approved =
            domain::judge(Tier::Quick, domain::Payload::raw(&verdict)).outcome.expect("it is coherent");
        let cached_at = "2026-11-20T10:00:00Z".parse().expect("a time");
        Delivery {
            session_id: id(&format!("cs_{n}")),
            query: Query::new(String::new()),
            approved,
            cached_at,
            regen: None,
        }
    };
    for n in 0..1000 {
        let delivery = delivery(n);
        hot.insert(delivery.session_id.clone(), Arc::new(delivery.into()));
    }
    assert!(hot.weight() <= 64 * 1024 && hot.len() > 3, "{} in {} entries", hot.weight(), hot.len());
}
