//! The client of the configured endpoints of webhooks.

use super::unusable_error;
use crate::platform::config::credentials::{ClientSetup, SecretDigests, read_secret_file};
use crate::platform::config::{ConfigError, Configuration, not_allowed_error};
use crate::verdict::config::applications::{ApplicationSections, processes};
use crate::verdict::config::{EndpointSection, WebhooksSection};
use actors_upstream::Reloadable;
use actors_upstream::web::webhook::{WebhookClient, WebhookEndpoint, WebhookEndpoints, WebhookSecrets};
use domain_base::session_id::ApplicationName;
use domain_ground::id::EndpointId;
use domain_verdict::webhook::{WebhookReceiver, WebhookType};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The configured endpoints of webhooks. No connection is opened yet.
///
/// # Errors
/// All addresses, secrets and lists of events that cannot be used.
pub(super) fn create_webhooks(
    all: &dyn Configuration,
    setup: &mut ClientSetup<'_>,
) -> Result<Reloadable<WebhookClient>, ConfigError> {
    let (section, applications) = (all.section::<WebhooksSection>(), all.section::<ApplicationSections>());
    let mut reader = EndpointReader { digests: &mut setup.digests, faults: Vec::new() };
    let operators = reader.read_operators(section);
    let mut endpoints =
        WebhookEndpoints::from_iter(operators.map(|endpoint| (WebhookReceiver::first_of(None), endpoint)));
    let common = reader.read_common(section);
    let names = processes(applications).names();
    for name in &names {
        let endpoint = reader.read_application(name, applications, common.as_ref());
        endpoints.extend(endpoint.map(|endpoint| (WebhookReceiver::first_of(Some(name.clone())), endpoint)));
    }
    for (id, section) in &section.endpoints {
        let receiver =
            WebhookReceiver { application: section.application.clone(), endpoint: Some(id.clone()) };
        endpoints.extend(reader.read_further(id, section, &names).map(|endpoint| (receiver, endpoint)));
    }
    let mut faults = reader.faults;
    let (allow_local, allow_cleartext) = (&setup.network.allow_local, setup.network.allow_cleartext);
    let hard_timeout = Duration::from_millis(section.hard_timeout_ms);
    let client = WebhookClient::new(endpoints, allow_local, hard_timeout, setup.clock.clone())
        .with_cleartext(allow_cleartext);
    // several applications can share one endpoint
    let mut unreachable = BTreeMap::new();
    for (receiver, error) in client.find_unreachable() {
        unreachable.insert(url_key(&receiver, applications), error);
    }
    faults.extend(unreachable.into_iter().map(|(key, error)| unusable_error(&key, error)));
    if !faults.is_empty() {
        return Err(ConfigError::Several(faults));
    }
    Ok(Reloadable::new(Arc::new(client)))
}

/// The key of the URL of an endpoint.
fn url_key(
    WebhookReceiver { application, endpoint }: &WebhookReceiver,
    applications: &ApplicationSections,
) -> String {
    if let Some(id) = endpoint {
        return format!("webhooks.endpoints.{id}.url");
    }
    let has_own = |name| applications.get(name).is_some_and(|section| section.webhook_url.is_some());
    match application {
        None => "webhooks.operator_url".to_owned(),
        Some(name) if has_own(name) => format!("applications.{name}.webhook_url"),
        Some(_) => "webhooks.url".to_owned(),
    }
}

/// Reads endpoints with their secrets, and collects their faults.
struct EndpointReader<'a> {
    digests: &'a mut SecretDigests,
    faults: Vec<ConfigError>,
}

impl EndpointReader<'_> {
    fn read_operators(&mut self, section: &WebhooksSection) -> Option<WebhookEndpoint> {
        let (url, secret_file) = (section.operator_url.as_deref(), section.operator_secret_file.as_deref());
        let endpoint = self.read("webhooks.operator_url", url, "webhooks.operator_secret_file", secret_file);
        self.with_events(endpoint, "webhooks.operator_events", section.operator_events.as_ref(), true)
    }

    /// The endpoint of applications without one of their own.
    fn read_common(&mut self, section: &WebhooksSection) -> Option<WebhookEndpoint> {
        let (url, secret_file) = (section.url.as_deref(), section.secret_file.as_deref());
        let endpoint = self.read("webhooks.url", url, "webhooks.secret_file", secret_file);
        self.with_events(endpoint, "webhooks.events", section.events.as_ref(), false)
    }

    fn read_application(
        &mut self,
        name: &ApplicationName,
        applications: &ApplicationSections,
        common: Option<&WebhookEndpoint>,
    ) -> Option<WebhookEndpoint> {
        let key = |key: &str| format!("applications.{name}.{key}");
        let section = applications.get(name);
        let url = section.and_then(|section| section.webhook_url.as_deref());
        let secret_file = section.and_then(|section| section.webhook_secret_file.as_deref());
        let events = section.and_then(|section| section.webhook_events.as_ref());
        let own = self.read(&key("webhook_url"), url, &key("webhook_secret_file"), secret_file);
        let common = common.filter(|_| url.is_none() && secret_file.is_none());
        self.with_events(own.or_else(|| common.cloned()), &key("webhook_events"), events, false)
    }

    fn read_further(
        &mut self,
        id: &EndpointId,
        section: &EndpointSection,
        applications: &[ApplicationName],
    ) -> Option<WebhookEndpoint> {
        let EndpointSection { application, url, secret_file, events } = section;
        let key = |key: &str| format!("webhooks.endpoints.{id}.{key}");
        if let Some(name) = application.as_ref().filter(|name| !applications.contains(name)) {
            let names: Vec<_> = applications.iter().map(ApplicationName::as_str).collect();
            let allowed =
                format!("a configured application: {}; or no value, for operators", names.join(", "));
            self.faults.push(not_allowed_error(key("application"), format_args!("`{name}`"), allowed));
        }
        let endpoint = self.read(&key("url"), Some(url), &key("secret_file"), Some(secret_file));
        self.with_events(endpoint, &key("events"), events.as_ref(), application.is_none())
    }

    /// The endpoint with the events that it gets; those of `endpoint` if `events` names none.
    fn with_events(
        &mut self,
        endpoint: Option<WebhookEndpoint>,
        key: &str,
        events: Option<&Vec<WebhookType>>,
        is_of_operators: bool,
    ) -> Option<WebhookEndpoint> {
        let why = events.and_then(|events| events_fault(events, is_of_operators, endpoint.is_some()));
        self.faults.extend(why.map(|why| unusable_error(key, why)));
        let endpoint = endpoint?;
        Some(WebhookEndpoint { events: events.cloned().or(endpoint.events), ..endpoint })
    }

    /// The endpoint at `url` with its secrets; `None` if neither is configured, or if there is a fault.
    fn read(
        &mut self,
        url_key: &str,
        url: Option<&str>,
        secret_key: &str,
        secret_file: Option<&Path>,
    ) -> Option<WebhookEndpoint> {
        let not_set = |key: &str, other: &str| {
            ConfigError::NotUnderstood(format!("`{key}` is not set, but `{other}` is; set both or neither"))
        };
        let read = match (url, secret_file) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(not_set(secret_key, url_key)),
            (None, Some(_)) => Err(not_set(url_key, secret_key)),
            (Some(url), Some(file)) => self
                .read_secrets(secret_key, file)
                .map(|secrets| Some(WebhookEndpoint { url: url.to_owned(), secrets, events: None })),
        };
        ConfigError::collect(read, &mut self.faults).flatten()
    }

    fn read_secrets(&mut self, key: &str, file: &Path) -> Result<WebhookSecrets, ConfigError> {
        let secret = read_secret_file(&format!("`{key}`"), file)?;
        self.digests.record(key, &secret);
        WebhookSecrets::parse(&secret).map_err(|error| unusable_error(key, error))
    }
}

/// Why a list of events has no effect.
fn events_fault(events: &[WebhookType], is_of_operators: bool, has_endpoint: bool) -> Option<String> {
    let is_other = |event: &&WebhookType| event.is_for_operators() != is_of_operators;
    let allowed = WebhookType::queued_for(is_of_operators).map(|event| event.into_str());
    let allowed = allowed.collect::<Vec<_>>().join(", ");
    match events.iter().find(is_other) {
        Some(event) => {
            Some(format!("{} is not sent to this receiver (allowed: {allowed})", event.into_str()))
        }
        None if events.is_empty() => {
            Some(format!("it is empty; omit it for all events, or name some of {allowed}"))
        }
        None if !has_endpoint => {
            Some("the receiver has no endpoint; set its URL and its secret, too".to_owned())
        }
        None => None,
    }
}
