//! Verdicts: the crosscheck, sessions, delivery, regeneration, divergence and mail.

pub mod card;
pub mod cost;
pub mod counterfactual;
pub mod crosscheck;
pub mod delivery;
pub mod divergence;
pub mod event;
pub mod explanation;
pub mod flag;
pub mod generation;
pub mod interaction;
pub mod label;
pub mod legal_hold;
pub mod lookup;
pub mod mail;
pub mod mail_template;
pub mod opinion;
pub mod order;
pub mod outbox;
pub mod policy;
pub mod problem;
pub mod prompt;
pub mod query;
pub mod recall;
pub mod recall_notice;
pub mod regen;
pub mod rejection;
pub mod replay;
pub mod rules_gate;
pub mod session;
pub mod tmm;
pub mod webhook;
pub mod what_if;
pub mod wire;

use crate::policy::HeldVerdict;
use delivery::VerdictDelivery;
use domain_base::row::{Row, SumTable, Table};
use legal_hold::LegalHold;
use mail_template::MailTemplate;
use outbox::OutboxMessage;
use prompt::PromptTemplate;
use recall::RecallProgress;
use recall_notice::RecallNotice;
use regen::RegenAttempt;
use session::{RejectingCheck, SessionRecord};
use webhook::WebhookOutage;

/// The tables of the feature.
pub const TABLES: &[&Table] = &[
    SessionRecord::TABLE,
    VerdictDelivery::TABLE,
    HeldVerdict::TABLE,
    RejectingCheck::TABLE,
    RegenAttempt::TABLE,
    RecallProgress::TABLE,
    RecallNotice::TABLE,
    OutboxMessage::TABLE,
    LegalHold::TABLE,
    WebhookOutage::TABLE,
];
/// The sums of the feature.
pub const SUMS: &[&SumTable] = &[&cost::COSTS];
/// The kinds of documents of the feature.
pub type Documents = (PromptTemplate, MailTemplate);
