//! `oraclectl ontology`.

use crate::base::document::{Document, how};
use crate::base::error::CtlError;
use crate::base::options::{Options, segment};
use crate::base::output::{json, table};
use hyper::Method;
use oracled_api::base::service::RegisteredDocument;
use oracled_api::ground::OntologySummary;
use oracled_domain::base::moment::span;
use oracled_domain::ground::axis::{Axis, AxisClass, Conservative};
use oracled_domain::ground::id::OntologyId;
use oracled_domain::ground::ontology;
use oracled_domain::ground::ontology::{FactTemplate, OntologyRef};
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

/// Ontologies: which axes there are, and what their values are.
#[derive(Debug, clap::Args)]
pub(crate) struct Ontology {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Registers a version of one, which then stays as it is
    Register {
        /// The document; `-` reads standard input
        file: PathBuf,
    },
    /// Shows which there are
    List,
    /// Shows the axes of one
    Show {
        /// Which one; the version may be left out where there is one alone
        #[arg(value_name = "ID[@VERSION]")]
        ontology: Named,
    },
}

/// Of the words of an axis so many are shown.
const WORDS_MAX: usize = 12;

/// An ontology as it is named on the command line.
#[derive(Debug, Clone)]
struct Named {
    ontology_id: OntologyId,
    version: Option<String>,
}

impl FromStr for Named {
    type Err = oracled_domain::ground::id::BadId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (id, version) = text.split_once('@').map_or((text, None), |(id, version)| (id, Some(version)));
        Ok(Self { ontology_id: id.parse()?, version: version.map(str::to_owned) })
    }
}

impl Ontology {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.action {
            Action::Register { file } => {
                let document = Document::read(file, "an ontology")?;
                let path = path(document.text_at("ontology_id")?, document.text_at("version")?);
                let registered: RegisteredDocument<ontology::Ontology> = document.put(options, &path).await?;
                if options.json {
                    return json(out, &registered);
                }
                let (reference, how) = (registered.document.reference(), how(registered.unchanged));
                Ok(writeln!(out, "ontology {reference} {how}")?)
            }
            Action::List => {
                let listed = listed(options).await?;
                if options.json { json(out, &listed) } else { Ok(writeln!(out, "{}", page(listed))?) }
            }
            Action::Show { ontology } => {
                let OntologyRef { ontology_id, version } = ontology.resolved(options).await?;
                let path = path(ontology_id.as_str(), &version);
                let shown: ontology::Ontology = options.on_control(Method::GET, &path, None).await?.json()?;
                if options.json { json(out, &shown) } else { show(out, &shown) }
            }
        }
    }
}

impl Named {
    /// Which version it is.
    async fn resolved(&self, options: &Options) -> Result<OntologyRef, CtlError> {
        let Self { ontology_id, version } = self.clone();
        if let Some(version) = version {
            return Ok(OntologyRef { ontology_id, version });
        }
        let mut known: Vec<_> = listed(options).await?.into_iter().map(|listed| listed.ontology).collect();
        known.retain(|known| known.ontology_id == ontology_id);
        match (known.pop(), known.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => Err(CtlError::NotOne(format!("no ontology {ontology_id} is registered"))),
            (Some(last), false) => {
                let known: Vec<_> = known.into_iter().chain([last]).map(|known| known.to_string()).collect();
                Err(CtlError::NotOne(format!("there are several versions; name one of {}", known.join(", "))))
            }
        }
    }
}

fn path(ontology_id: &str, version: &str) -> String {
    format!("/v1/ontologies/{}/{}", segment(ontology_id), segment(version))
}

async fn listed(options: &Options) -> Result<Vec<OntologySummary>, CtlError> {
    Ok(options.on_control(Method::GET, "/v1/ontologies", None).await?.json()?)
}

fn page(listed: Vec<OntologySummary>) -> String {
    if listed.is_empty() {
        return "no ontologies: `oraclectl ontology register FILE`".into();
    }
    let row = |OntologySummary { ontology, axes }: OntologySummary| {
        [ontology.ontology_id.to_string(), ontology.version, axes.to_string()]
    };
    table(["ontology", "version", "axes"], listed.into_iter().map(row).collect())
}

fn show(out: &mut dyn Write, ontology: &ontology::Ontology) -> Result<(), CtlError> {
    let row = |axis: &Axis| {
        [
            axis.axis.clone(),
            axis.kind.into_str().to_owned(),
            axis.unit.clone().unwrap_or_default(),
            marks(axis).join(", "),
            axis.description.clone(),
        ]
    };
    let rows = ontology.axes.iter().map(row).collect();
    writeln!(out, "{}\n", ontology.reference())?;
    writeln!(out, "{}", table(["axis", "type", "unit", "marks", "description"], rows))?;
    if ontology.fact_templates.is_empty() {
        return Ok(());
    }
    let row = |written: &FactTemplate| [written.template_id.to_string(), written.template.clone()];
    let rows = ontology.fact_templates.iter().map(row).collect();
    Ok(writeln!(out, "\n{}", table(["template", "of facts"], rows))?)
}

/// What else an axis says of itself.
fn marks(axis: &Axis) -> Vec<String> {
    let mark = |holds: bool, mark: &str| holds.then(|| mark.to_owned());
    let careful = |way| match way {
        Conservative::Lower => "the lower is careful".to_owned(),
        Conservative::Higher => "the higher is careful".to_owned(),
    };
    let more = axis.values.len().saturating_sub(WORDS_MAX);
    let mut words = axis.values.iter().take(WORDS_MAX).cloned().collect::<Vec<_>>().join(" | ");
    if more > 0 {
        words += &format!(" and {more} more");
    }
    let marks = [
        mark(axis.identity, "identity"),
        mark(axis.indexed, "indexed"),
        mark(axis.class == AxisClass::SelfReported, "self-reported"),
        (!words.is_empty()).then_some(words),
        axis.precision.map(|digits| format!("the same up to {digits} digits behind the point")),
        axis.relative_tolerance
            .as_ref()
            .map(|part| format!("the same within {part} of the larger magnitude")),
        axis.conservative.map(careful),
        mark(axis.state_sensitive, "state sensitive"),
        axis.max_ttl_seconds.map(|ttl_s| format!("at most {} old", span(ttl_s))),
    ];
    marks.into_iter().flatten().collect()
}
