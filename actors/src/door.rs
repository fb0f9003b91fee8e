//! The way to an actor: bounded, counted, and with an answer in every case.

use crate::vitals::{ActorReport, Vitals};
use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, Message};
use std::sync::Arc;
use tokio::sync::Semaphore;

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
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
    {
        let actor = self.vitals.name();
        let _place = self.places.try_acquire().map_err(|_| NoAnswer::Full { actor })?;
        let waiting = self.vitals.sent();
        let answer = self.addr.send(message).await.map_err(|_| NoAnswer::Failed { actor })?;
        waiting.answered();
        Ok(answer)
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
