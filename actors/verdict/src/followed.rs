//! Reports the changes that other hosts of the cluster have committed to the actors that remember rows.

use crate::cache::{CountRejectingCheck, ForgetVerdict, VerdictCache};
use crate::orders::{NoteForeignOrder, OrdersActor};
use crate::outbox_queue::OutboxQueue;
use actix::Addr;
use actors_audit::logger::handle::RecordAdditions;
use actors_ground::ingestion::{IngestionActor, NoteForeignFiles};
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::session::{RejectingCheck, SessionRecord};
use oracled_store::{JournalRecord, RowWrite};
use tokio::sync::mpsc::UnboundedReceiver;

/// Reports the changes by other hosts, for as long as the daemon runs.
pub async fn report_followed(
    mut followed: UnboundedReceiver<Vec<RowWrite>>,
    cache: Addr<VerdictCache>,
    orders: Addr<OrdersActor>,
    ingestion: Addr<IngestionActor>,
    outbox: OutboxQueue,
) {
    while let Some(writes) = followed.recv().await {
        if let Some(note) = NoteForeignFiles::of(&writes) {
            ingestion.do_send(note);
        }
        for write in &writes {
            if let Some(session_id) = write.row.key::<VerdictDelivery>() {
                cache.do_send(ForgetVerdict(session_id));
            }
            if let Some(session_id) = write.row.key::<RejectingCheck>() {
                cache.do_send(CountRejectingCheck(session_id));
            }
            if let Some(session_id) = write.row.key::<SessionRecord>() {
                orders.do_send(NoteForeignOrder(session_id));
            }
        }
        outbox.report_committed(&JournalRecord { writes, ..JournalRecord::default() });
    }
}
