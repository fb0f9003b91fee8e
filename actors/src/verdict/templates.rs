//! Registered templates by their names.

use oracled_domain::documents::RegistryDocument;
use oracled_domain::verdict::template_name::{TemplateName, TemplateRef};
use oracled_store::{Store, StoreError};

/// The registered template that `name` names.
pub(crate) fn find_registered_template<D: RegistryDocument>(
    store: &Store,
    name: &TemplateName,
) -> Result<Option<D>, StoreError> {
    if name.version.is_some() {
        return Ok(store.registered::<D>(&name.to_string())?.map(|(registered, _)| registered.document));
    }
    let versions = store.all_registered::<D>()?.into_iter().filter_map(|registered| {
        let reference: TemplateRef = registered.document.document_id().parse().ok()?;
        name.matches(&reference).then_some((reference.version, registered.document))
    });
    Ok(versions.max_by_key(|(version, _)| *version).map(|(_, template)| template))
}
