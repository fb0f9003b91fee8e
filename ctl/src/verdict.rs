//! Verbs for verdicts and sessions.

pub(crate) mod card;
pub(crate) mod costs;
pub(crate) mod divergence;
pub(crate) mod erasure;
pub(crate) mod explanation;
pub(crate) mod legal_hold;
pub(crate) mod notice;
pub(crate) mod orders;
pub(crate) mod outbox;
pub mod programs;
pub(crate) mod recall;
pub(crate) mod session;
pub(crate) mod submit;
pub(crate) mod webhook;
pub(crate) mod what_if;

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::Output;
use crate::base::program::{ProgramArgs, block_on};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum VerdictVerb {
    /// Check a verdict without delivering it; the check is logged
    Crosscheck(submit::CrosscheckArgs),
    /// Submit a verdict for delivery, or let the model generate one
    Submit(submit::SubmitArgs),
    /// Register a session so that a lost verdict can be regenerated
    Register(session::RegisterArgs),
    Verdict(submit::VerdictArgs),
    Card(card::CardArgs),
    Explain(explanation::ExplainArgs),
    Orders(orders::OrdersArgs),
    Order(orders::OrderArgs),
    Outbox(outbox::OutboxArgs),
    Prompt(programs::PromptArgs),
    Webhook(webhook::WebhookArgs),
    /// Show how often regenerated verdicts differ from the delivered ones
    Divergence(divergence::DivergenceArgs),
    /// List the delivered verdicts that relied on statements of a source that differ now
    Recall(recall::RecallArgs),
    Notice(notice::NoticeArgs),
    /// Show which decisions of the log would change with another policy, other rules or another day's facts
    WhatIf(what_if::WhatIfArgs),
    /// Show the costs of the models by UTC day, model and tier
    Costs(costs::CostsArgs),
    /// Remove the cached verdict of a session
    Purge(session::PurgeArgs),
    Session(session::SessionArgs),
    Export(session::ExportArgs),
    Erase(erasure::EraseArgs),
    Retention(erasure::RetentionArgs),
    Hold(legal_hold::HoldArgs),
    Calibrate(programs::CalibrateArgs),
}

impl VerdictVerb {
    pub(crate) fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        match self {
            Self::Crosscheck(verb) => block_on(verb.run(options, out)),
            Self::Submit(verb) => block_on(verb.run(options, out)),
            Self::Register(verb) => block_on(verb.run(options, out)),
            Self::Verdict(verb) => block_on(verb.run(options, out)),
            Self::Card(verb) => block_on(verb.run(options, out)),
            Self::Explain(verb) => block_on(verb.run(options, out)),
            Self::Orders(verb) => block_on(verb.run(options, out)),
            Self::Order(verb) => block_on(verb.run(options, out)),
            Self::Outbox(verb) => block_on(verb.run(options, out)),
            Self::Prompt(verb) => block_on(verb.run(options, out)),
            Self::Webhook(verb) => block_on(verb.run(options, out)),
            Self::Divergence(verb) => block_on(verb.run(options, out)),
            Self::Recall(verb) => block_on(verb.run(options, out)),
            Self::Notice(verb) => block_on(verb.run(options, out)),
            Self::WhatIf(verb) => block_on(verb.run(options, out)),
            Self::Costs(verb) => block_on(verb.run(options, out)),
            Self::Purge(verb) => block_on(verb.run(options, out)),
            Self::Session(verb) => block_on(verb.run(options, out)),
            Self::Export(verb) => block_on(verb.run(options, out)),
            Self::Erase(verb) => block_on(verb.run(options, out)),
            Self::Retention(verb) => block_on(verb.run(options, out)),
            Self::Hold(verb) => block_on(verb.run(options, out)),
            Self::Calibrate(verb) => verb.start(options),
        }
    }
}
