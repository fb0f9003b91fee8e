//! The export of traces: where the spans of this daemon go.

#[cfg(feature = "otel")]
mod export;

use super::config::credentials::read_configured_secret;
use super::config::{
    ConfigError, Configuration, Section, check_url, is_cleartext, not_allowed_error, redact_url,
};
use actors_platform::clock::Clock;
use actors_upstream::{HeaderKey, UpstreamEndpoint};
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use utoipa::ToSchema;

/// The collector of traces, which gets spans by OTLP over HTTP. [Traces](../monitor.md#traces) has their names and attributes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TracesSection {
    /// The address of the collector, such as `http://127.0.0.1:4318`. Spans go to the path `/v1/traces` there. Without this key, no span is
    /// exported.
    pub base_url: Option<String>,
    /// The part of the traces that begin here and are recorded. A trace that the `traceparent` of a request names is recorded if its flag
    /// `sampled` is set.
    #[schema(minimum = 0, maximum = 1)]
    pub sample_ratio: f64,
    /// File with a header for the collector, such as `Authorization: Bearer TOKEN`. systemd's credential `oracled_traces-header` overrides this
    /// file.
    #[schema(value_type = Option<String>)]
    pub header_file: Option<PathBuf>,
}

impl Default for TracesSection {
    fn default() -> Self {
        Self { base_url: None, sample_ratio: 1.0, header_file: None }
    }
}

impl Section for TracesSection {
    fn key(&self) -> &'static str {
        "traces"
    }

    fn check(&self, _: &dyn Configuration) -> Vec<ConfigError> {
        let Some(endpoint) = &self.base_url else {
            let allowed = "the address of a collector, or no key of `traces`";
            let fault = || not_allowed_error("traces.base_url", "not set", allowed);
            return (*self != Self::default()).then(fault).into_iter().collect();
        };
        if cfg!(not(feature = "otel")) {
            let allowed = "no key of `traces`: this oracled was built without it; install the package, or build with `--features otel`";
            let given = format!("`{}`", redact_url(endpoint));
            return vec![not_allowed_error("traces.base_url", given, allowed)];
        }
        check_url("traces.base_url", endpoint).err().into_iter().collect()
    }
}

/// The collector of traces.
#[derive(Debug)]
#[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "the export uses it"))]
pub(crate) struct TraceCollector {
    endpoint: UpstreamEndpoint,
    sample_ratio: f64,
}

impl TracesSection {
    /// The configured collector; `None` without one. No connection is opened yet.
    ///
    /// # Errors
    /// The header cannot be read, or would cross a network in clear text, or the address cannot be used.
    pub(crate) fn collector(
        &self,
        clock: &Clock,
        allow_cleartext: bool,
    ) -> Result<Option<TraceCollector>, ConfigError> {
        let Some(address) = &self.base_url else { return Ok(None) };
        let unusable =
            |key: &str, error: &dyn Display| ConfigError::NotUnderstood(format!("`{key}`: {error}"));
        let header =
            read_configured_secret("traces-header", "traces.header_file", self.header_file.as_deref())?;
        if header.is_some() && !allow_cleartext && is_cleartext(address, |_| false) {
            return Err(ConfigError::Cleartext {
                key: "traces.base_url".to_owned(),
                given: redact_url(address),
                what: "the header for the collector",
                remedy: "use https://",
            });
        }
        let header = header.as_ref().map(HeaderKey::from_line).transpose();
        let header = header.map_err(|error| unusable("traces.header_file", &error))?;
        let endpoint = UpstreamEndpoint::new(address, header, clock.clone());
        let endpoint = endpoint.map_err(|error| unusable("traces.base_url", &error))?;
        Ok(Some(TraceCollector { endpoint, sample_ratio: self.sample_ratio }))
    }
}

/// The export of spans, while the daemon runs.
#[derive(Debug, Default)]
pub(crate) struct TraceExport {
    #[cfg(feature = "otel")]
    thread: Option<export::ExportThread>,
}

/// The attributes of this daemon for the collector.
#[derive(Debug)]
#[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "the export sends it"))]
pub(crate) struct TracedDaemon {
    /// The name of this host in its cluster.
    pub(crate) host: Option<String>,
    pub(crate) is_test: bool,
}

impl TraceExport {
    /// Records spans from now on, and sends them to `collector`. Without one, nothing is recorded.
    ///
    /// # Errors
    /// The thread of the export cannot be started.
    #[cfg(feature = "otel")]
    pub(crate) fn start(
        collector: Option<TraceCollector>,
        daemon: &TracedDaemon,
        registry: &mut Registry,
    ) -> io::Result<Self> {
        let Some(collector) = collector else { return Ok(Self::default()) };
        Ok(Self { thread: Some(export::ExportThread::start(collector, daemon, registry)?) })
    }

    #[cfg(not(feature = "otel"))]
    pub(crate) fn start(_: Option<TraceCollector>, _: &TracedDaemon, _: &mut Registry) -> io::Result<Self> {
        Ok(Self::default())
    }

    /// Sends the spans that still wait, within a few seconds.
    pub(crate) async fn stop(self) {
        #[cfg(feature = "otel")]
        if let Some(thread) = self.thread {
            thread.stop().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DaemonConfig;
    use std::fs;

    fn section(endpoint: Option<&str>) -> TracesSection {
        TracesSection { base_url: endpoint.map(ToOwned::to_owned), ..TracesSection::default() }
    }

    #[test]
    fn base_url_is_refused_without_the_feature_and_required_by_other_keys() {
        let all = DaemonConfig::default();
        let is_refused = |section: &TracesSection| !section.check(&all).is_empty();
        assert!(!is_refused(&section(None)));
        assert_eq!(is_refused(&section(Some("http://127.0.0.1:4318"))), cfg!(not(feature = "otel")));
        assert!(is_refused(&section(Some("127.0.0.1:4318"))));
        assert!(is_refused(&TracesSection { sample_ratio: 0.5, ..section(None) }));
    }

    #[test]
    fn header_does_not_cross_a_network_in_clear_text() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("header");
        fs::write(&file, "x-key: made-up\n").expect("the file is written");
        let with_header =
            |endpoint: &str| TracesSection { header_file: Some(file.clone()), ..section(Some(endpoint)) };
        let collector = |endpoint: &str, allow| with_header(endpoint).collector(&Clock::system(), allow);
        let refused = collector("http://collector.example:4318", false).expect_err("it is not encrypted");
        assert!(
            matches!(&refused, ConfigError::Cleartext { key, .. } if key == "traces.base_url"),
            "{refused}"
        );
        assert!(collector("http://collector.example:4318", true).is_ok_and(|found| found.is_some()));
        assert!(collector("http://127.0.0.1:4318", false).is_ok_and(|found| found.is_some()));
        for text in ["made-up", "x key: made-up", "x-key:"] {
            fs::write(&file, text).expect("the file is written");
            let refused = collector("http://127.0.0.1:4318", false).expect_err("not a header").to_string();
            assert!(refused.contains("traces.header_file") && !refused.contains("made-up"), "{refused}");
        }
    }
}
