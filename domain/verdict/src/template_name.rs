//! The names of prompt templates and mail templates.

pub use domain_ground::version_name::{TemplateName, TemplateRef};
