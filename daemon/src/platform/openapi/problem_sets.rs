//! Problem codes that several operations have in common.

use oracled_api::base::problem::ProblemCode::{self, *};

/// A read from the store, or a commit to the log.
pub(crate) const STORE: &[ProblemCode] = &[RecordDamaged, StorageUnavailable, Draining];
pub(crate) const JSON_BODY: &[ProblemCode] = &[InvalidJson, BodyBroken, BodyTooLarge, UnsupportedMediaType];
pub(crate) const DOCUMENT_BODY: &[ProblemCode] =
    &[InvalidJson, InvalidDocument, BodyBroken, BodyTooLarge, UnsupportedMediaType];
/// A session id in the path.
pub(crate) const SESSION: &[ProblemCode] = &[InvalidSessionId];
/// A request that changes a session. Another caller may have the same status by `application_unknown`.
pub(crate) const OWNER: &[ProblemCode] = &[ApplicationUnknown, SessionNotOwned];
/// The data of a submitted verdict.
pub(crate) const SUBMISSION: &[ProblemCode] = &[InvalidSessionId, UnknownTier, QueryTooLong];
/// A query of a source.
pub(crate) const QUERY: &[ProblemCode] = &[
    InvalidQuery,
    TimeInFuture,
    SourceUnknown,
    SourceLive,
    SourceSilent,
    QueryTooCostly,
    SourceDamaged,
    QueryStopped,
    SourceStale,
    StorageUnavailable,
    Draining,
];
/// A verification.
pub(crate) const VERIFY: &[ProblemCode] = &[
    InvalidVerification,
    TimeInFuture,
    WorkflowUnknown,
    OntologyUnknown,
    SourceDamaged,
    StorageUnavailable,
    Draining,
];
/// Facts from sources, in addition to those of a query and a verification.
pub(crate) const FACTS: &[ProblemCode] = &[FactsUnavailable];
/// A call of the model.
pub(crate) const MODEL: &[ProblemCode] =
    &[ModelRefused, ModelRefusedRequest, ModelBusy, ModelUnavailable, PromptUnavailable, ModelTimeout];
/// A change of an order by an operator.
pub(crate) const ORDER_CHANGE: &[ProblemCode] =
    &[OrderUnknown, OrderStateRefused, PolicyRejected, HeldVerdictUnreadable, ModelUnavailable];
/// A read of a held verdict by an operator.
pub(crate) const HELD: &[ProblemCode] = &[OrderUnknown, OrderStateRefused, HeldVerdictUnreadable];
/// A change to a review.
pub(crate) const REVIEW: &[ProblemCode] =
    &[InvalidResolution, ReviewUnknown, ReviewResolved, ReviewDismissed];
/// A record by its id.
pub(crate) const RECORD: &[ProblemCode] = &[RecordUnknown, SourceDamaged];
/// A run by its id.
pub(crate) const RUN: &[ProblemCode] = &[RunUnknown];
