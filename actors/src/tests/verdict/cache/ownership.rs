//! Sessions that belong to a user id, because no applications are configured.

use super::*;
use actors_verdict::orders::{CancelOrder, OrderChangeError, PlaceOrder, PlacedOrder};
use domain_verdict::session::SessionRecord;

const OWNER: SessionCaller = SessionCaller::User(1000);
const OTHER: SessionCaller = SessionCaller::User(1001);

fn registration(caller: SessionCaller) -> RegisterSession {
    RegisterSession {
        session_id: id("cs_1"),
        caller,
        tier: ProductTier::Quick,
        query: CustomerQuery::new("Sell honey?".into()),
        customer_email: None,
        original_verdict: None,
        prompt: None,
        look_up: None,
    }
}

fn submission(caller: SessionCaller) -> Submission {
    Submission { caller, ..test_submission("cs_1", GOOD, GatePath::Submit) }
}

async fn ask_register(system: &ActorSystem, message: RegisterSession) -> RegisterSessionOutcome {
    system.cache.ask(message).await.expect("the actor answers").expect("the commit succeeds")
}

async fn ask_find(system: &ActorSystem, submission: Submission) -> FindSessionOutcome {
    let find = FindSession(Submission { payload: None, ..submission });
    system.cache.ask(find).await.expect("the actor answers").expect("the commit succeeds")
}

fn is_owner_mismatch(outcome: &RegisterSessionOutcome) -> bool {
    matches!(outcome, RegisterSessionOutcome::Mismatch(SessionMismatch::Owner))
}

fn session(system: &ActorSystem) -> SessionRecord {
    system.store.session(&id("cs_1")).expect("the session is readable").expect("the session exists").0
}

#[test]
fn session_is_changed_only_by_its_owner() {
    with_system(|TestSystem { system, .. }| async move {
        ask_register(&system, registration(OWNER)).await;
        let registered = session(&system);
        assert_eq!(registered.owner_uid, Some(1000));
        let same = ask_register(&system, registration(OTHER)).await;
        assert!(matches!(same, RegisterSessionOutcome::Updated(_)), "{same:?}");
        for changing in [
            RegisterSession { customer_email: address(), ..registration(OTHER) },
            RegisterSession { original_verdict: Some(VerdictLabel::Red), ..registration(OTHER) },
        ] {
            let refused = ask_register(&system, changing).await;
            assert!(is_owner_mismatch(&refused), "{refused:?}");
        }
        let found = ask_find(&system, submission(OTHER)).await;
        assert!(matches!(found, FindSessionOutcome::Mismatch(SessionMismatch::Owner)), "{found:?}");
        // the session was registered after the submission was looked up
        let judged = judge_submission(&system, submission(OTHER)).await;
        assert!(matches!(judged, SubmissionOutcome::Mismatch(SessionMismatch::Owner)), "{judged:?}");
        assert_eq!(session(&system), registered);
        assert!(system.store.verdict(&id("cs_1")).expect("readable").is_none());

        let with_address = Submission { customer_email: address(), ..submission(OWNER) };
        let stored = judge_submission(&system, with_address).await;
        assert!(matches!(stored, SubmissionOutcome::Stored(_)), "{stored:?}");
    });
}

#[test]
fn delivered_verdict_is_repeated_to_others_but_mailed_only_for_its_owner() {
    with_system(|TestSystem { system, .. }| async move {
        judge_submission(&system, submission(OWNER)).await;
        let replayed = ask_find(&system, submission(OTHER)).await;
        assert!(matches!(replayed, FindSessionOutcome::Cached(_)), "{replayed:?}");
        let mailed = Submission { customer_email: address(), ..submission(OTHER) };
        let refused = ask_find(&system, mailed.clone()).await;
        assert!(matches!(refused, FindSessionOutcome::Mismatch(SessionMismatch::Owner)), "{refused:?}");
        assert_eq!((session(&system).customer_email, queued_mails(&system)), (None, 0));
        ask_find(&system, Submission { caller: OWNER, ..mailed }).await;
        assert_eq!((session(&system).customer_email, queued_mails(&system)), (address(), 1));
    });
}

#[test]
fn verdict_that_was_read_is_delivered_only_for_its_owner() {
    with_system(|TestSystem { system, .. }| async move {
        ask_register(&system, registration(OWNER)).await;
        regenerated(&system, None, VerdictLabel::Red).await;
        let refused = ask_find(&system, submission(OTHER)).await;
        assert!(matches!(refused, FindSessionOutcome::Mismatch(SessionMismatch::Owner)), "{refused:?}");
        assert!(session(&system).original.is_none());
        let delivered = ask_find(&system, submission(OWNER)).await;
        assert!(matches!(delivered, FindSessionOutcome::Cached(_)), "{delivered:?}");
        assert!(session(&system).original.is_some());
    });
}

#[test]
fn looked_up_session_keeps_its_address_and_belongs_to_the_first_caller() {
    with_system(|TestSystem { system, .. }| async move {
        let found = RegisterSession { customer_email: address(), ..registration(SessionCaller::Daemon) };
        ask_register(&system, found).await;
        assert_eq!(session(&system).owner_uid, None);
        let elsewhere = Some("else@b".to_owned().try_into().expect("an address"));
        let moved = RegisterSession { customer_email: elsewhere, ..registration(OTHER) };
        let refused = ask_register(&system, moved).await;
        assert!(is_owner_mismatch(&refused), "{refused:?}");
        judge_submission(&system, submission(OWNER)).await;
        assert_eq!((session(&system).owner_uid, session(&system).customer_email), (Some(1000), address()));
    });
}

#[test]
fn operator_gives_a_session_to_another_user_id() {
    with_system(|TestSystem { system, .. }| async move {
        ask_register(&system, registration(OWNER)).await;
        let correct = CorrectSession {
            session_id: id("cs_1"),
            customer_email: None,
            original_verdict: None,
            owner_uid: Some(1001),
            peer: PEER,
        };
        let corrected = system.cache.ask(correct).await.expect("the actor answers");
        assert!(matches!(corrected, Ok(CorrectSessionOutcome::Done(_))), "{corrected:?}");
        let with_address = |caller| RegisterSession { customer_email: address(), ..registration(caller) };
        assert!(is_owner_mismatch(&ask_register(&system, with_address(OWNER)).await));
        ask_register(&system, with_address(OTHER)).await;
        assert_eq!(session(&system).customer_email, address());
    });
}

#[test]
fn order_of_another_user_id_is_shared_but_not_cancelled() {
    use crate::testing::model::{ScriptedModel, submission_of_query, with_model};
    with_model(ScriptedModel::with_answers([]), |world, _| async move {
        let system = &world.system;
        let order = |caller, customer_email| {
            PlaceOrder(Submission { caller, customer_email, ..submission_of_query("Sell honey?") })
        };
        let place = async |order: PlaceOrder| system.orders.ask(order).await.expect("the actor answers");
        ask_register(system, registration(OWNER)).await;
        let refused = place(order(OTHER, None)).await;
        assert!(matches!(refused, Ok(PlacedOrder::Mismatch(SessionMismatch::Owner))), "{refused:?}");
        assert!(matches!(place(order(OWNER, None)).await, Ok(PlacedOrder::Order { is_new: true, .. })));
        let shared = place(order(OTHER, None)).await;
        assert!(
            matches!(shared, Ok(PlacedOrder::Order { is_new: false, .. } | PlacedOrder::Replayed(_))),
            "{shared:?}"
        );
        let refused = place(order(OTHER, address())).await;
        assert!(matches!(refused, Ok(PlacedOrder::Mismatch(SessionMismatch::Owner))), "{refused:?}");
        let cancel = CancelOrder { session_id: id("cs_1"), caller: OTHER, peer: PEER };
        let cancelled = system.orders.ask(cancel).await.expect("the actor answers");
        assert!(matches!(cancelled, Err(OrderChangeError::OtherOwner(_))), "{cancelled:?}");
    });
}
