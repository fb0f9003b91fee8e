//! The handle of an actor. It limits and counts the waiting messages, and every request gets an answer or an error.

use crate::platform::caller::{self, Carry};
use crate::platform::vitals::Vitals;
use actix::dev::{MessageResponse, ToEnvelope};
use actix::{Actor, Addr, Handler, Message};
use oracled_domain::base::actor_report::ActorReport;
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// Why an actor gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The limit of waiting messages was reached, so this message was not sent.
    #[error("the queue of the {actor} is full")]
    Full {
        /// The name of the actor.
        actor: &'static str,
    },
    /// The actor panicked while it handled the message, or has stopped.
    #[error("the {actor} failed while handling the message")]
    Failed {
        /// The name of the actor.
        actor: &'static str,
    },
}

/// A message with its caller, as work for the actor.
pub struct Called<A: Actor>(pub(crate) Work<A, A::Context>);

/// Work on an actor and its context.
pub(crate) type Work<A, C> = Box<dyn FnOnce(&mut A, &mut C) + Send>;

impl<A: Actor> Message for Called<A> {
    type Result = ();
}

/// Makes an actor reachable through a [`Door`]. In debug builds the actor also handles
/// [`InjectPanic`](crate::InjectPanic).
macro_rules! asked_through_a_door {
    ($actor:ty) => {
        impl actix::Handler<$crate::platform::door::Called<Self>> for $actor {
            type Result = ();

            fn handle(
                &mut self,
                called: $crate::platform::door::Called<Self>,
                ctx: &mut actix::Context<Self>,
            ) {
                (called.0)(self, ctx);
            }
        }

        #[cfg(debug_assertions)]
        impl actix::Handler<$crate::InjectPanic> for $actor {
            type Result = ();

            #[allow(clippy::panic)]
            fn handle(&mut self, _: $crate::InjectPanic, _: &mut actix::Context<Self>) {
                panic!("injected by a test");
            }
        }
    };
}
pub(crate) use asked_through_a_door;

/// An actor's address with a limit for waiting messages. actix limits a mailbox only per clone of its address, which is
/// no limit at all. Here all clones share the places.
#[derive(Debug)]
pub struct Door<A: Actor> {
    addr: Addr<A>,
    places: Arc<Semaphore>,
    vitals: Arc<Vitals>,
}

impl<A: Actor> Clone for Door<A> {
    fn clone(&self) -> Self {
        Self { addr: self.addr.clone(), places: Arc::clone(&self.places), vitals: Arc::clone(&self.vitals) }
    }
}

impl<A: Actor> Door<A> {
    pub(crate) fn new(addr: Addr<A>, places: usize, vitals: Arc<Vitals>) -> Self {
        Self { addr, places: Arc::new(Semaphore::new(places)), vitals }
    }

    /// Sends `message` and waits for the answer.
    ///
    /// If the future is dropped, the message may be skipped. Work that must finish is sent from its own task.
    ///
    /// # Errors
    /// `Full` if the message was not sent; `Failed` if no answer will come.
    pub async fn ask<M>(&self, message: M) -> Result<M::Result, NoAnswer>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Handler<M> + Handler<Called<A>>,
        <A as Handler<M>>::Result: Carry,
        A::Context: ToEnvelope<A, Called<A>>,
    {
        let actor = self.vitals.name();
        let _place = self.places.try_acquire().map_err(|_| NoAnswer::Full { actor })?;
        let waiting = self.vitals.sent();
        let (reply, answer) = oneshot::channel();
        self.addr.do_send(Self::called(message, reply));
        let answer = answer.await.map_err(|_| NoAnswer::Failed { actor })?;
        waiting.answered();
        Ok(answer)
    }

    /// `message` with the current caller, for code that has the actor's address. The actor skips the message if the
    /// requester no longer waits for the answer.
    pub(crate) fn called<M>(message: M, reply: oneshot::Sender<M::Result>) -> Called<A>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Handler<M>,
        <A as Handler<M>>::Result: Carry,
    {
        let caller = caller::current();
        Called(Box::new(move |actor, ctx| {
            if !reply.is_closed() {
                let handle = || actor.handle(message, ctx);
                let response = caller::handled(caller.clone(), handle).carry(caller);
                MessageResponse::<A, M>::handle(response, ctx, Some(reply));
            }
        }))
    }

    #[cfg(test)]
    pub(crate) fn addr(&self) -> Addr<A> {
        self.addr.clone()
    }

    /// The actor's restarts, queue and latencies.
    #[must_use]
    pub fn report(&self) -> ActorReport {
        self.vitals.report()
    }
}
