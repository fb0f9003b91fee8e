//! The codes of errors of ground truth.

use domain_base::problem_codes;

problem_codes! {
    /// The payload is not compressed or encoded as the pipeline names it.
    PAYLOAD_UNDECODABLE = 400: "Correct `retrieval.compression` or `retrieval.encoding` of the pipeline, or send the payload that it names.",
    /// The query is invalid.
    INVALID_QUERY = 400: "Correct the filter, axis or cursor that `detail` names.",
    /// `known_at`, or the `point_in_time` of a verification, is more than 60 s in the future.
    TIME_IN_FUTURE = 400: "Send an earlier time.",
    /// The freshness policy has a `secret_file`, and `X-Hub-Signature-256` is not the body's HMAC under it.
    SIGNAL_FORBIDDEN = 403: "Sign the body with the shared secret.",
    /// The ontology is not registered.
    ONTOLOGY_UNKNOWN = 404: "Register it first.",
    /// The source is not registered.
    SOURCE_UNKNOWN = 404: "Register it first.",
    /// The pipeline is not registered.
    PIPELINE_UNKNOWN = 404: "Register it first.",
    /// The run does not exist.
    RUN_UNKNOWN = 404: "Use an id from `oraclectl ingest list`.",
    /// The record does not exist.
    RECORD_UNKNOWN = 404: "Use the id of a record that a query returned.",
    /// No freshness policy names the path.
    SIGNAL_UNKNOWN = 404: "Register a freshness policy with this path.",
    /// The source cannot be deprecated in its current state.
    REVIEW_REFUSED = 409: "Change the state that `detail` names first.",
    /// The source is not marked stale.
    NOT_INVALIDATED = 409: "None: there is nothing to confirm.",
    /// Another run of the source is in progress, here or on another host of the cluster, or the source is being pruned or rebuilt.
    RUN_BUSY = 409 retry After(5): "Wait until it has ended.",
    /// The version was read from another payload, or with another release date.
    VERSION_KNOWN = 409: "Send a new version, or `replace=true` to replace it.",
    /// The run is not in progress.
    RUN_NOT_RUNNING = 409: "None: the run has ended.",
    /// The run is not held; only a held run can be approved or discarded.
    RUN_NOT_HELD = 409: "Undo the run if it is completed and was not undone.",
    /// The data in force has changed since the held run was read, so its changes are not those that were shown.
    RUN_OUTDATED = 409: "Look at the run again, and send the run in `outdated_by` with the decision.",
    /// 16 runs of the source are held. `detail` names them.
    RUNS_HELD = 409: "Approve or discard one first.",
    /// The run is not completed, was undone, or was replaced by a later reading of its version.
    RUN_NOT_IN_FORCE = 409: "Undo the run that `detail` names, or discard a held run.",
    /// The undo would bring back records whose content was pruned.
    CONTENT_PRUNED = 409: "Submit the correct release as a new version.",
    /// Another pull of the pipeline is in progress.
    PULL_BUSY = 409 retry After(5): "Wait until it has ended.",
    /// The source is live: it has an adapter, and no stored records and no pipeline.
    SOURCE_LIVE = 409: "Use `POST /v1/verify`.",
    /// The source does not answer: it is not approved, or its deprecation date has passed.
    SOURCE_SILENT = 409: "Read the status of the source: approve it if it is pending, or query another one.",
    /// Damaged files cannot be rebuilt: the payload of a run, which `detail` names, cannot be read, or the rebuild was
    /// cancelled. The source is unchanged.
    NOT_REBUILT = 409: "Restore the payload from a backup, or ingest it again.",
    /// The query exceeds the work limit.
    QUERY_TOO_COSTLY = 422: "Fix identity axes or an indexed axis, or use fewer filters.",
    /// More than 10 signals a minute arrive at the path.
    SIGNAL_RATE_LIMITED = 429 retry Sometimes: "Wait for `Retry-After`.",
    /// The payload could not be pulled. `detail` has the cause.
    PULL_FAILED = 502: "Correct the pipeline or its credential, or pull again later.",
    /// The scan took longer than 5 s.
    QUERY_STOPPED = 503 retry After(5): "Send the request again after `Retry-After`, or use fewer filters.",
    /// The source's data is older than its freshness policy allows.
    SOURCE_STALE = 503: "Ingest a newer version, or confirm that the data is still valid.",
}
