//! `configuration.md`: every key of the configuration.

use super::markdown::{code, codes, grouped, table};
use super::types::{self, SchemaTypes, text};
use domain_base::document::json_schema;
use oracled::config::DaemonConfig;
use serde_json::{Map, Value};

/// Members that the JSON Schema of a registered document has, and the configuration does not.
const NOT_KEYS: [&str; 2] = ["$schema", "kind"];
/// The type of a credential.
const CREDENTIAL: &str = "CredentialKeys";

/// The configuration, as its types describe it.
#[derive(Debug)]
pub(super) struct ConfigReference {
    schema: Value,
    defaults: Value,
}

/// A table of the configuration; the keys outside of tables form one without a name.
#[derive(Debug)]
pub(super) struct ConfigTable {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) keys: Vec<ConfigKey>,
}

/// A key of the configuration.
#[derive(Debug)]
pub(super) struct ConfigKey {
    /// The name with its table: `limits.idle_s`.
    pub(super) name: String,
    pub(super) description: String,
    /// Type, unit, range, default, variable and flag, each with its label.
    pub(super) facts: Vec<(&'static str, String)>,
}

impl ConfigReference {
    pub(super) fn new() -> Self {
        let defaults = serde_json::to_value(DaemonConfig::default()).expect("a configuration is plain data");
        Self { schema: json_schema::<DaemonConfig>(), defaults }
    }

    fn schemas(&self) -> &Map<String, Value> {
        self.schema.get("$defs").and_then(Value::as_object).expect("the configuration has tables")
    }

    pub(super) fn description(&self) -> &str {
        text(&self.schema, "description")
    }

    /// The keys outside of tables, then each table.
    pub(super) fn tables(&self) -> Vec<ConfigTable> {
        let types = SchemaTypes::new(self.schemas(), "");
        let mut outside = ConfigTable { name: String::new(), description: String::new(), keys: Vec::new() };
        let mut tables = Vec::new();
        for field in types.fields(&self.schema) {
            let schema = types.resolve(field.schema);
            let default = self.defaults.get(field.name).unwrap_or(&Value::Null);
            if NOT_KEYS.contains(&field.name) {
                continue;
            }
            if !default.is_object() {
                outside.keys.push(ConfigKey::new(types, "", field.name, field.schema, default));
                continue;
            }
            // a table of tables, whose names the operator chooses
            let named = schema.get("additionalProperties").filter(|below| below.is_object());
            let name = named.map_or_else(|| field.name.to_owned(), |_| format!("{}.NAME", field.name));
            let fields = types.fields(types.resolve(named.unwrap_or(schema)));
            let key = |below: &types::SchemaField<'_>| {
                let default = default.get(below.name).unwrap_or(&Value::Null);
                ConfigKey::new(types, &name, below.name, below.schema, default)
            };
            let description = types.meaning(field.schema).to_owned();
            tables.push(ConfigTable {
                name: name.clone(),
                description,
                keys: fields.iter().map(key).collect(),
            });
        }
        tables.insert(0, outside);
        tables
    }

    /// The description of a credential, and its keys with their meanings.
    pub(super) fn credential(&self) -> (&str, Vec<(&str, &str)>) {
        let schema = self.schemas().get(CREDENTIAL).expect("credentials have a type");
        let types = SchemaTypes::new(self.schemas(), "");
        let keys = types.fields(schema).into_iter().map(|field| (field.name, types.meaning(field.schema)));
        (text(schema, "description"), keys.collect())
    }

    /// The flags that are not keys, with their help.
    pub(super) fn flags(&self) -> Vec<(String, String)> {
        let command = oracled::cli::command();
        let serve = command.find_subcommand("serve").expect("the daemon serves");
        let is_key = |id: &str| self.defaults.get(id).is_some();
        let flags = serve.get_arguments().filter(|flag| !is_key(flag.get_id().as_str()));
        let flags = flags.filter_map(|flag| {
            let help = flag.get_long_help().or(flag.get_help()).map(ToString::to_string);
            let variable = flag.get_env().map(|name| format!("\n\nVariable: `{}`", name.display()));
            Some((
                format!("--{}", flag.get_long()?),
                help.unwrap_or_default() + &variable.unwrap_or_default(),
            ))
        });
        flags.collect()
    }
}

impl ConfigKey {
    fn new(types: SchemaTypes<'_>, table: &str, name: &str, schema: &Value, default: &Value) -> Self {
        let levels: Vec<&str> = [table, name].into_iter().filter(|level| !level.is_empty()).collect();
        let mut variable = format!("ORACLED_{}", levels.join("__").replace('.', "__").to_uppercase());
        let mut name_shown = levels.join(".");
        let description = types.meaning(schema).to_owned();
        let resolved = types.resolve(schema);
        let unit = unit(name);
        let mut facts = Vec::new();
        if let Some(below) = resolved.get("additionalProperties").filter(|below| below.is_object()) {
            name_shown += ".<id>";
            variable += "__<ID>__<KEY>";
            let is_credential = text(below, "$ref").ends_with(CREDENTIAL);
            let keys = || codes(types.fields(below).into_iter().map(|key| key.name));
            let kind = if is_credential { "[credential](#credentials)".into() } else { table_of(&keys()) };
            facts.push(("Type", kind));
        } else if resolved.get("properties").is_some() {
            variable += "__<KEY>";
            let keys = types.fields(resolved).into_iter().map(|below| below.name);
            facts.push(("Type", table_of(&codes(keys))));
        } else {
            let kind = match resolved.get("enum") {
                Some(_) => types::names(resolved),
                None => plain_type(resolved),
            };
            facts.push(("Type", kind));
        }
        facts.extend(unit.map(|unit| ("Unit", unit.to_owned())));
        facts.extend(types::range(resolved).map(|range| ("Range", range)));
        // the description has a default that depends on the environment
        if !description.contains("The default is") {
            facts.extend(shown(default, unit).map(|default| ("Default", default)));
        }
        facts.push(("Variable", code(variable)));
        facts.extend(flag(name, table).map(|flag| ("Flag", code(flag))));
        Self { name: name_shown, description, facts }
    }
}

fn table_of(keys: &str) -> String {
    format!("table with the keys {keys}")
}

/// The type of a value, without its range and without null.
fn plain_type(schema: &Value) -> String {
    let kinds = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        Some(Value::String(kind)) => Some(kind.as_str()),
        _ => None,
    };
    match kinds {
        Some("array") => match schema.pointer("/items/type").and_then(Value::as_str) {
            Some(kind @ ("integer" | "number")) => format!("list of {kind}s"),
            _ => "list of strings".into(),
        },
        kind => kind.unwrap_or("string").into(),
    }
}

/// The unit of a key, which its name ends with.
fn unit(name: &str) -> Option<&'static str> {
    let units = [
        ("bytes", "bytes"),
        ("chars", "characters"),
        ("s", "seconds"),
        ("seconds", "seconds"),
        ("ms", "milliseconds"),
    ];
    let end = name.rsplit('_').next()?;
    units.into_iter().find(|(suffix, _)| *suffix == end).map(|(_, unit)| unit)
}

/// A default as it is written, and a number of bytes also with a prefix.
fn shown(default: &Value, unit: Option<&str>) -> Option<String> {
    match default {
        Value::Null => None,
        Value::String(text) => Some(code(text)),
        Value::Array(items) if items.is_empty() => Some("none".into()),
        Value::Array(items) => {
            let items =
                items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
            Some(codes(items))
        }
        other => match other.as_u64() {
            Some(number) if unit == Some("bytes") => {
                Some(format!("{}{}", grouped(number), with_prefix(number)))
            }
            Some(number) => Some(grouped(number)),
            None => Some(code(other)),
        },
    }
}

fn with_prefix(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(bits, _)| bytes >= 1 << bits && bytes.is_multiple_of(1 << bits));
    unit.map(|(bits, unit)| format!(" ({} {unit})", bytes >> bits)).unwrap_or_default()
}

/// The flag that sets a key.
fn flag(name: &str, table: &str) -> Option<String> {
    let command = oracled::cli::command();
    let serve = command.find_subcommand("serve")?;
    let flag = serve.get_arguments().find(|flag| table.is_empty() && flag.get_id() == name)?;
    Some(format!("--{}", flag.get_long()?))
}

/// The page.
pub(super) fn page() -> String {
    let reference = ConfigReference::new();
    let mut out = format!("# Configuration\n\n{}\n{}\n\n", super::GENERATED, reference.description());
    for ConfigTable { name, description, keys } in reference.tables() {
        out +=
            &if name.is_empty() { "## Keys\n\n".into() } else { format!("## [{name}]\n\n{description}\n\n") };
        for ConfigKey { name, description, facts } in keys {
            let facts: Vec<_> = facts.iter().map(|(label, fact)| format!("{label}: {fact}")).collect();
            out += &format!("### `{name}`\n\n{description}\n\n{}\n\n", facts.join("  \n"));
        }
    }
    let (description, keys) = reference.credential();
    let rows: Vec<_> = keys.into_iter().map(|(name, meaning)| [code(name), meaning.to_owned()]).collect();
    out += &format!("## Credentials\n\n{description}\n\n{}", table(["key", "meaning"], &rows));
    let rows: Vec<_> = reference.flags().into_iter().map(|(flag, help)| [code(flag), help]).collect();
    out += &format!("## Flags that are not keys\n\n{}", table(["flag", "meaning"], &rows));
    out.trim_end().to_owned() + "\n"
}
