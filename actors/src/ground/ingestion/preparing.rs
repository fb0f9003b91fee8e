//! Prepares the pipeline of a payload or of a run.

use super::{IngestContext, IngestionError, StartRun};
use crate::ground::registry::{PreparedPipeline, RegistryError};
use oracled_domain::ground::id::PipelineId;
use oracled_domain::ground::run::IngestionRun;
use tokio::task::spawn_blocking;

impl IngestContext {
    /// The current definition of a pipeline. The words of its tables are read on a thread of their own.
    pub(super) async fn prepare_pipeline(
        &self,
        pipeline_id: &PipelineId,
    ) -> Result<PreparedPipeline, IngestionError> {
        let (commit_context, pipeline_id) = (self.commit_context(), pipeline_id.clone());
        let prepared = spawn_blocking(move || commit_context.pipeline(&pipeline_id)).await;
        Ok(prepared.map_err(|error| IngestionError::Inside(error.to_string()))??)
    }

    /// The current definition of a pipeline, if the payload was decoded by it.
    pub(super) async fn prepare_pipeline_of_payload(
        &self,
        message: &StartRun,
    ) -> Result<PreparedPipeline, IngestionError> {
        let commit_context = self.commit_context();
        let check = || match commit_context.registered_pipeline(&message.pipeline_id)? {
            (known, _) if known.pipeline_sha256 == message.pipeline_sha256 => Ok(()),
            (known, _) => Err(IngestionError::Amended(known.oracle_id)),
        };
        check()?;
        let ready = self.prepare_pipeline(&message.pipeline_id).await?;
        // it may have been registered again meanwhile
        check()?;
        Ok(ready)
    }

    /// The pipeline as of the run's beginning.
    pub(super) fn prepare_pipeline_of_run(
        &self,
        run: &IngestionRun,
    ) -> Result<PreparedPipeline, IngestionError> {
        let definition = self.store.definition(&run.input.pipeline_sha256)?;
        let unknown = || RegistryError::PipelineUnknown(run.pipeline_id.clone());
        Ok(self
            .commit_context()
            .prepare_accepted_pipeline(definition.ok_or_else(unknown)?, &run.input.ontology)?)
    }
}
