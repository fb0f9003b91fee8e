use super::*;
use crate::platform::clock::Clock;
use crate::platform::door::{Door, NoAnswer};
use actix::{Handler, Message};
use tokio::sync::oneshot;

#[derive(Default)]
struct Counter {
    kept: u32,
    restarts: u32,
}

impl Actor for Counter {
    type Context = Context<Self>;
}

impl Supervised for Counter {
    fn restarting(&mut self, _: &mut Context<Self>) {
        self.restarts += 1;
        self.kept = 0;
    }
}

#[derive(Message)]
#[rtype(result = "(u32, u32)")]
struct Add(u32);

crate::platform::door::asked_through_a_door!(Counter);

impl Handler<Add> for Counter {
    type Result = actix::MessageResult<Add>;

    fn handle(&mut self, Add(n): Add, _: &mut Context<Self>) -> Self::Result {
        assert!(n != 13, "thirteen");
        self.kept += n;
        actix::MessageResult((self.kept, self.restarts))
    }
}

fn hire(max_panics: usize) -> (Door<Counter>, oneshot::Receiver<String>) {
    let supervision =
        Supervision { max_panics, window: Duration::from_secs(60), max_pause: Duration::from_millis(1) };
    let vitals = Arc::new(Vitals::new("counter", Clock::system()));
    let (gave_up, reason) = oneshot::channel();
    let give_up = move |text| drop(gave_up.send(text));
    let here = actix_rt::Arbiter::current();
    let addr = start(&here, supervision, Arc::clone(&vitals), give_up, Counter::default);
    (Door::new(addr, 10_000, vitals), reason)
}

#[test]
fn panic_fails_only_the_message_that_caused_it() {
    actix_rt::System::new().block_on(async {
        let (door, _reason) = hire(10);
        let asked: Vec<_> = [1, 2, 13, 4, 13, 8]
            .map(|n| {
                let door = door.clone();
                actix_rt::spawn(async move { door.ask(Add(n)).await })
            })
            .into();
        let mut answers = Vec::new();
        for asked in asked {
            answers.push(asked.await.expect("the task ends"));
        }
        let failed = Err(NoAnswer::Failed { actor: "counter" });
        assert_eq!(answers, [Ok((1, 0)), Ok((3, 0)), failed, Ok((4, 1)), failed, Ok((8, 2))]);
        let report = door.report();
        assert_eq!((report.restarts, report.handled, report.queue_depth), (2, 4, 0));
        assert_eq!(report.last_panic.map(|panic| panic.message).as_deref(), Some("thirteen"));
    });
}

#[test]
fn guardian_gives_up_with_a_reason_after_too_many_panics() {
    actix_rt::System::new().block_on(async {
        let (door, reason) = hire(2);
        for _ in 0..3 {
            assert_eq!(door.ask(Add(13)).await, Err(NoAnswer::Failed { actor: "counter" }));
        }
        let reason = reason.await.expect("it gave up");
        assert!(reason.contains("the counter panicked 3 times") && reason.contains("thirteen"), "{reason}");
        assert_eq!(door.ask(Add(1)).await, Err(NoAnswer::Failed { actor: "counter" }));
    });
}

#[test]
fn full_actor_queue_rejects_a_message_at_once() {
    actix_rt::System::new().block_on(async {
        let (door, _reason) = hire(2);
        let narrow = Door::new(door.addr(), 0, Arc::new(Vitals::new("narrow", Clock::system())));
        assert_eq!(narrow.ask(Add(1)).await, Err(NoAnswer::Full { actor: "narrow" }));
    });
}
