mod actor_stats;

use super::*;
use crate::actor_handle::StartedActor;
use crate::actor_handle::{ActorCallError, ActorHandle};
use crate::clock::Clock;
use actix::{Handler, Message};
use tokio::sync::oneshot;

#[derive(Debug, Default)]
struct CountingActor {
    kept: u32,
    restarts: u32,
}

impl Actor for CountingActor {
    type Context = Context<Self>;
}

impl Supervised for CountingActor {
    fn restarting(&mut self, _: &mut Context<Self>) {
        self.restarts += 1;
        self.kept = 0;
    }
}

#[derive(Message)]
#[rtype(result = "(u32, u32)")]
struct AddNumber(u32);

crate::handle_actor_calls!(CountingActor);

impl Handler<AddNumber> for CountingActor {
    type Result = actix::MessageResult<AddNumber>;

    fn handle(&mut self, AddNumber(n): AddNumber, _: &mut Context<Self>) -> Self::Result {
        assert!(n != 13, "thirteen");
        self.kept += n;
        actix::MessageResult((self.kept, self.restarts))
    }
}

fn start_counting_actor(max_panics: usize) -> (ActorHandle<CountingActor>, oneshot::Receiver<String>) {
    let supervision = SupervisionLimits {
        max_panics,
        window: Duration::from_secs(60),
        max_pause: Duration::from_millis(1),
    };
    let stats = Arc::new(ActorStats::new("counter", Clock::system()));
    let (gave_up, reason) = oneshot::channel();
    let give_up = move |text| drop(gave_up.send(text));
    let here = actix_rt::Arbiter::current();
    let addr = start(&here, supervision, Arc::clone(&stats), give_up, CountingActor::default);
    (ActorHandle::new(addr, 10_000, stats), reason)
}

#[test]
fn panic_fails_only_the_message_that_caused_it() {
    actix_rt::System::new().block_on(async {
        let (handle, _reason) = start_counting_actor(10);
        let tasks: Vec<_> = [1, 2, 13, 4, 13, 8]
            .map(|n| {
                let handle = handle.clone();
                actix_rt::spawn(async move { handle.ask(AddNumber(n)).await })
            })
            .into();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.expect("the task does not panic"));
        }
        let failed = Err(ActorCallError::Failed { actor: "counter" });
        assert_eq!(answers, [Ok((1, 0)), Ok((3, 0)), failed, Ok((4, 1)), failed, Ok((8, 2))]);
        let report = handle.report();
        assert_eq!((report.restarts, report.handled, report.queue_depth), (2, 4, 0));
        assert_eq!(report.last_panic.map(|panic| panic.message).as_deref(), Some("thirteen"));
    });
}

#[test]
fn guardian_gives_up_with_a_reason_after_too_many_panics() {
    actix_rt::System::new().block_on(async {
        let (handle, reason) = start_counting_actor(2);
        for _ in 0..3 {
            assert_eq!(handle.ask(AddNumber(13)).await, Err(ActorCallError::Failed { actor: "counter" }));
        }
        let reason = reason.await.expect("the guardian gave up");
        assert!(["counter", " 3 ", "thirteen"].iter().all(|part| reason.contains(part)), "{reason}");
        assert_eq!(handle.ask(AddNumber(1)).await, Err(ActorCallError::Failed { actor: "counter" }));
    });
}

#[test]
fn full_actor_queue_rejects_a_message_at_once() {
    actix_rt::System::new().block_on(async {
        let (handle, _reason) = start_counting_actor(2);
        let narrow = ActorHandle::new(handle.addr(), 0, Arc::new(ActorStats::new("narrow", Clock::system())));
        assert_eq!(narrow.ask(AddNumber(1)).await, Err(ActorCallError::Full { actor: "narrow" }));
    });
}
