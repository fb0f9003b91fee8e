//! The way to an actor: bounded, counted, and with an answer in every case.

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
    /// So many messages are waiting already that this one was not taken.
    #[error("the {actor} is full")]
    Full {
        /// Which actor.
        actor: &'static str,
    },
    /// It panicked over the message, or is gone.
    #[error("the {actor} failed over the message")]
    Failed {
        /// Which actor.
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

/// Makes an actor reachable through a [`Door`], and in debug builds handle [`InjectPanic`](crate::InjectPanic).
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

/// An actor's address with the bound of what may wait for it. actix bounds mailboxes per clone of an address,
/// which bounds nothing; here the places are shared by all clones.
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
    /// Dropping the future may take the message back: what must happen is asked from a task of its own.
    ///
    /// # Errors
    /// `Full` without having sent it; `Failed` where the answer cannot come any more.
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

    /// `message` with the current caller, for code that has the actor's address. The actor skips it if the requester no
    /// longer waits for the answer.
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

    /// How the actor is doing.
    #[must_use]
    pub fn report(&self) -> ActorReport {
        self.vitals.report()
    }
}
