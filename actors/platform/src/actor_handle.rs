//! The handle of an actor. It limits and counts the waiting messages, and every request gets an answer or an error.

use crate::caller::{self, CallerScope};
use crate::guardian::ActorStats;
use actix::dev::{MessageResponse, ToEnvelope};
use actix::{Actor, Addr, Handler, Message};
use domain_base::service::ActorReport;
use std::fmt;
#[cfg(debug_assertions)]
use std::pin::Pin;
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

/// Makes an actor reachable through a [`ActorHandle`].
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
    };
}

/// A started actor of any type.
pub trait StartedActor: fmt::Debug + Send + Sync {
    /// The actor's restarts, queue and latencies.
    fn report(&self) -> ActorReport;

    /// Makes the actor panic, for tests of supervision, and waits until it has. Release builds cannot.
    #[cfg(debug_assertions)]
    fn inject_panic(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

impl<A> StartedActor for ActorHandle<A>
where
    A: Actor + Handler<ActorCall<A>> + fmt::Debug,
    A::Context: ToEnvelope<A, ActorCall<A>>,
{
    fn report(&self) -> ActorReport {
        self.stats.report()
    }

    #[cfg(debug_assertions)]
    #[expect(clippy::panic, reason = "the panic is what a test asks for")]
    fn inject_panic(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (reply, answer) = oneshot::channel::<()>();
        self.addr.do_send(ActorCall(Box::new(move |_, _| {
            let _reply = reply;
            panic!("injected by a test");
        })));
        // the panic drops `reply`
        Box::pin(async move { drop(answer.await) })
    }
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
        let scope = caller::current_scope();
        ActorCall(Box::new(move |actor, ctx| {
            if !reply.is_closed() {
                let handle = || actor.handle(message, ctx);
                let response = caller::handle_in_scope(scope.clone(), handle).run_in_scope(scope);
                MessageResponse::<A, M>::handle(response, ctx, Some(reply));
            }
        }))
    }

    pub fn addr(&self) -> Addr<A> {
        self.addr.clone()
    }
}
