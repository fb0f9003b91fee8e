//! Verdicts: the crosscheck, the cache, orders, regeneration, the limits of both, mail and webhooks.

pub mod cache;
pub mod crosscheck;
pub mod documents;
pub mod erasure;
mod evidence;
pub mod followed;
pub mod generation;
pub mod held_key;
pub mod lookup;
pub mod mail_content;
pub mod notifier;
pub mod order_metrics;
pub mod orders;
pub mod outbox_queue;
pub mod rate_limiter;
pub mod recall;
pub mod regen;
pub mod submission;
pub mod what_if;
