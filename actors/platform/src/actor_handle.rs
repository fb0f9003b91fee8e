//! The handle of an actor. It limits and counts the waiting messages, and every request gets an answer or an error.

use crate::caller::{self, CallerScope};
use crate::guardian::ActorStats;
use actix::dev::{MessageResponse, ToEnvelope};
use actix::{Actor, Addr, Handler, Message};
use domain_base::actor_report::ActorReport;
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// Why an actor gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ActorCallError {
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
pub struct ActorCall<A: Actor>(pub ActorWork<A, A::Context>);

/// Work on an actor and its context.
pub type ActorWork<A, C> = Box<dyn FnOnce(&mut A, &mut C) + Send>;

impl<A: Actor> Message for ActorCall<A> {
    type Result = ();
}

/// Makes an actor reachable through a [`ActorHandle`]. In debug builds the actor also handles
/// [`InjectPanic`](crate::guardian::InjectPanic).
#[macro_export]
macro_rules! handle_actor_calls {
    ($actor:ty $(, $generics:tt: $bound:path)?) => {
        impl$(<$generics: $bound>)? actix::Handler<$crate::actor_handle::ActorCall<Self>> for $actor {
            type Result = ();

            fn handle(
                &mut self,
                called: $crate::actor_handle::ActorCall<Self>,
                ctx: &mut actix::Context<Self>,
            ) {
                (called.0)(self, ctx);
            }
        }

        #[cfg(debug_assertions)]
        impl$(<$generics: $bound>)? actix::Handler<$crate::guardian::InjectPanic> for $actor {
            type Result = ();

            #[allow(clippy::panic)]
            fn handle(&mut self, _: $crate::guardian::InjectPanic, _: &mut actix::Context<Self>) {
                panic!("injected by a test");
            }
        }
    };
}

/// An actor's address with a limit for waiting messages. actix limits a mailbox only per clone of its address, which is
/// no limit at all. Here all clones share the places.
#[derive(Debug)]
pub struct ActorHandle<A: Actor> {
    addr: Addr<A>,
    queue_slots: Arc<Semaphore>,
    stats: Arc<ActorStats>,
}

impl<A: Actor> Clone for ActorHandle<A> {
    fn clone(&self) -> Self {
        Self {
            addr: self.addr.clone(),
            queue_slots: Arc::clone(&self.queue_slots),
            stats: Arc::clone(&self.stats),
        }
    }
}

impl<A: Actor> ActorHandle<A> {
    pub fn new(addr: Addr<A>, queue_slots: usize, stats: Arc<ActorStats>) -> Self {
        Self { addr, queue_slots: Arc::new(Semaphore::new(queue_slots)), stats }
    }

    /// Sends `message` and waits for the answer.
    ///
    /// If the future is dropped, the message may be skipped. Work that must finish is sent from its own task.
    ///
    /// # Errors
    /// `Full` if the message was not sent; `Failed` if no answer will come.
    pub async fn ask<M>(&self, message: M) -> Result<M::Result, ActorCallError>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Handler<M> + Handler<ActorCall<A>>,
        <A as Handler<M>>::Result: CallerScope,
        A::Context: ToEnvelope<A, ActorCall<A>>,
    {
        let actor = self.stats.name();
        let _slot = self.queue_slots.try_acquire().map_err(|_| ActorCallError::Full { actor })?;
        let waiting = self.stats.count_waiting_message();
        let (reply, answer) = oneshot::channel();
        self.addr.do_send(Self::wrap_message(message, reply));
        let answer = answer.await.map_err(|_| ActorCallError::Failed { actor })?;
        waiting.count_answered();
        Ok(answer)
    }

    /// `message` with the current caller, for code that has the actor's address. The actor skips the message if the
    /// requester no longer waits for the answer.
    pub fn wrap_message<M>(message: M, reply: oneshot::Sender<M::Result>) -> ActorCall<A>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Handler<M>,
        <A as Handler<M>>::Result: CallerScope,
    {
        let caller = caller::current_caller();
        ActorCall(Box::new(move |actor, ctx| {
            if !reply.is_closed() {
                let handle = || actor.handle(message, ctx);
                let response = caller::handle_as_caller(caller.clone(), handle).run_on_behalf_of(caller);
                MessageResponse::<A, M>::handle(response, ctx, Some(reply));
            }
        }))
    }

    pub fn addr(&self) -> Addr<A> {
        self.addr.clone()
    }

    /// The actor's restarts, queue and latencies.
    #[must_use]
    pub fn report(&self) -> ActorReport {
        self.stats.report()
    }
}
