//! The folders of each crate: imports point one way, and no two modules of a folder import each other.

use crate::architecture::{crates, rust_files};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

/// Top folders of each crate. Each imports only earlier ones; the folders of one group do not import each other.
const ORDER: [(&str, &[&[&str]]); 6] = [
    ("domain", &[&["documents"], &["tables"], &["events"], &["problems"], &["status"]]),
    ("store/log", &[&["shared_log"], &["base"], &["segments"], &["audit"], &["journal"]]),
    ("store", &[&["ground"], &["verdict", "verification"], &["state_files"]]),
    ("actors", &[&["system"]]),
    (
        "daemon",
        &[
            &["platform"],
            &["audit"],
            &["upstream"],
            &["ground"],
            &["verification"],
            &["rules"],
            &["verdict"],
            &["config"],
            &["upstreams"],
            &["api", "control", "review"],
            &["run"],
            &["dev"],
            &["cli"],
        ],
    ),
    (
        "ctl",
        &[
            &["base"],
            &["audit"],
            &["ground", "rules", "upstream", "verification"],
            &["verdict"],
            &["platform"],
            &["console"],
        ],
    ),
];

/// The path of a module or of an item in it, from the crate's root.
type ModulePath = Vec<String>;

/// The modules of a crate by their paths, without tests.
struct CrateModules {
    files: BTreeMap<ModulePath, syn::File>,
    /// Re-exports: the public path, and the path of the definition.
    re_exports: BTreeMap<ModulePath, ModulePath>,
}

impl CrateModules {
    fn of(folder: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("src");
        let mut files = BTreeMap::new();
        for file in rust_files(&root) {
            let relative = file.strip_prefix(&root).expect("the path is below the root").with_extension("");
            let mut path: ModulePath =
                relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if path.first().is_some_and(|first| first == "bin")
                || path.iter().any(|part| part == "tests" || part == "testing")
            {
                continue;
            }
            if path == ["lib"] {
                path.clear();
            }
            let source = fs::read_to_string(&file).expect("the read succeeds");
            files.insert(path, syn::parse_file(&source).expect("valid Rust"));
        }
        assert!(!files.is_empty(), "{folder} has sources");
        let mut modules = Self { files, re_exports: BTreeMap::new() };
        for (path, file) in &modules.files {
            for item in &file.items {
                let Item::Use(item) = item else { continue };
                if matches!(item.vis, Visibility::Inherited) {
                    continue;
                }
                for (names, alias) in leaves(&item.tree) {
                    let Some(target) = modules.resolve(path, &names) else { continue };
                    let known_as = [path.as_slice(), &[alias]].concat();
                    if known_as != target {
                        modules.re_exports.insert(known_as, target);
                    }
                }
            }
        }
        modules
    }

    /// Resolves `names`, used in `module`, to a path from the crate's root. `None` for another crate.
    fn resolve(&self, module: &[String], names: &[String]) -> Option<ModulePath> {
        let (first, mut rest) = names.split_first()?;
        let mut base = module.to_vec();
        match first.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                base.pop()?;
                while rest.first().is_some_and(|name| name == "super") {
                    base.pop()?;
                    rest = rest.get(1..)?;
                }
            }
            child => {
                base.push(child.to_owned());
                self.files.contains_key(&base).then_some(())?;
            }
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    /// The module in which the item at `path` is defined.
    fn defining_module(&self, path: ModulePath) -> ModulePath {
        let mut path = path;
        // a chain of `pub use` has a few links
        for _ in 0..8 {
            let module = self.deepest(&path);
            let Some(target) = path.get(..=module.len()).and_then(|known_as| self.re_exports.get(known_as))
            else {
                return module;
            };
            path = [target.as_slice(), path.get(module.len() + 1..).unwrap_or_default()].concat();
        }
        self.deepest(&path)
    }

    fn deepest(&self, path: &[String]) -> ModulePath {
        let lengths = (0..=path.len()).rev();
        let mut prefixes = lengths.filter_map(|length| path.get(..length));
        prefixes.find(|prefix| self.files.contains_key(*prefix)).unwrap_or_default().to_vec()
    }

    /// All pairs of a module and a module that it imports.
    fn imports(&self) -> BTreeSet<(ModulePath, ModulePath)> {
        let mut imports = BTreeSet::new();
        for (module, file) in &self.files {
            let mut names = UsedPaths { found: Vec::new() };
            names.visit_file(file);
            for path in names.found.iter().filter_map(|names| self.resolve(module, names)) {
                let defining_module = self.defining_module(path);
                if defining_module != *module {
                    imports.insert((module.clone(), defining_module));
                }
            }
        }
        imports
    }
}

/// All paths that a file uses, without its tests.
struct UsedPaths {
    found: Vec<Vec<String>>,
}

impl<'ast> Visit<'ast> for UsedPaths {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !item.attrs.iter().any(is_for_tests) {
            self.found.extend(leaves(&item.tree).into_iter().map(|(names, _)| names));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.found.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        // the arguments of a macro are tokens, not paths
        let tokens = mac.tokens.to_string().replace(" :: ", "::");
        let is_of_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
        let words = tokens.split(|letter| !is_of_path(letter));
        let paths =
            words.filter(|word| ["crate::", "super::", "self::"].iter().any(|start| word.starts_with(start)));
        self.found.extend(paths.map(|path| path.split("::").map(str::to_owned).collect()));
        visit::visit_macro(self, mac);
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
}

/// The paths in a `use`, each with its local name.
fn leaves(tree: &UseTree) -> Vec<(Vec<String>, String)> {
    match tree {
        UseTree::Path(path) => {
            let first = path.ident.to_string();
            let below = leaves(&path.tree).into_iter();
            below
                .map(|(mut names, alias)| {
                    if names == ["self"] {
                        return (vec![first.clone()], first.clone());
                    }
                    names.insert(0, first.clone());
                    (names, alias)
                })
                .collect()
        }
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
        UseTree::Name(name) => vec![(vec![name.ident.to_string()], name.ident.to_string())],
        UseTree::Rename(rename) => vec![(vec![rename.ident.to_string()], rename.rename.to_string())],
        UseTree::Glob(_) => vec![(Vec::new(), String::new())],
    }
}

/// An import of a later feature would make the earlier one depend on it.
#[test]
fn features_import_only_earlier_features() {
    for (folder, order) in ORDER {
        let modules = CrateModules::of(folder);
        let position = |module: &[String]| {
            let first = module.first()?;
            let found = order.iter().position(|group| group.contains(&first.as_str()));
            Some(found.unwrap_or_else(|| panic!("{folder}: {first} has no place in the order")))
        };
        for (module, imported) in modules.imports() {
            let (Some(from), Some(to)) = (position(&module), position(&imported)) else { continue };
            let is_within = module.first() == imported.first();
            assert!(
                is_within || to < from,
                "{folder}: {} imports {}",
                module.join("::"),
                imported.join("::")
            );
        }
    }
}

/// Two modules that import each other are one module in two files.
#[test]
fn modules_of_a_folder_do_not_import_each_other() {
    for folder in crates() {
        let modules = CrateModules::of(folder);
        let imports = modules.imports();
        for parent in modules.files.keys() {
            let child = |module: &ModulePath| {
                module.strip_prefix(parent.as_slice()).and_then(|rest| rest.first()).cloned()
            };
            let siblings: BTreeSet<_> = imports
                .iter()
                .filter_map(|(module, imported)| Some((child(module)?, child(imported)?)))
                .filter(|(module, imported)| module != imported)
                .collect();
            let in_cycles = in_cycles(siblings);
            let parent = parent.join("::");
            assert!(in_cycles.is_empty(), "{folder}: modules of `{parent}` import each other: {in_cycles:?}");
        }
    }
}

/// The imports that are in a cycle or lead to one: drops imports of modules that import nothing, until none is left.
fn in_cycles(mut arrows: BTreeSet<(String, String)>) -> BTreeSet<(String, String)> {
    loop {
        let from: BTreeSet<_> = arrows.iter().map(|(from, _)| from.clone()).collect();
        let before = arrows.len();
        arrows.retain(|(_, to)| from.contains(to));
        if arrows.len() == before {
            return arrows;
        }
    }
}

/// Cargo compiles only the files that `main.rs` names.
#[test]
fn every_test_file_is_named_in_main_rs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let main = fs::read_to_string(folder.join("main.rs")).expect("the read succeeds");
    let named: BTreeSet<_> = main
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .map(str::to_owned)
        .collect();
    let files = rust_files(&folder).into_iter();
    let files: BTreeSet<_> =
        files.filter_map(|file| Some(file.file_stem()?.to_string_lossy().into_owned())).collect();
    assert_eq!(named, files.into_iter().filter(|file| file != "main").collect());
}

/// The folders that all features share.
const SHARED: [&str; 10] = [
    "actors/platform/src",
    "actors/audit/src",
    "api/src",
    "ctl/src/base",
    "daemon/src/audit",
    "daemon/src/platform",
    "domain/audit/src",
    "domain/base/src",
    "store/base/src",
    "store/log/src",
];
const FEATURES: [&str; 4] = ["ground", "rules", "verdict", "verification"];

#[test]
fn shared_folders_name_no_feature() {
    let mut named = Vec::new();
    for folder in SHARED {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
        for path in rust_files(&root) {
            let inside = path.strip_prefix(&root).expect("the path is below the root");
            if is_of_tests(inside) {
                continue;
            }
            let source = fs::read_to_string(&path).expect("the read succeeds");
            let mut names = UsedPaths { found: Vec::new() };
            names.visit_file(&syn::parse_file(&source).expect("valid Rust"));
            let is_feature = |names: &Vec<String>| {
                let is = |name: &str| FEATURES.contains(&name);
                let [first, second] = [0, 1].map(|at| names.get(at).map_or("", String::as_str));
                ["domain_", "actors_"].iter().any(|layer| first.strip_prefix(layer).is_some_and(is))
                    || (first == "crate" && is(second))
            };
            named.extend(
                names.found.into_iter().filter(is_feature).map(|names| (path.clone(), names.join("::"))),
            );
        }
    }
    assert!(named.is_empty(), "{named:#?}");
}

fn is_of_tests(path: &Path) -> bool {
    let is = |part: &str| part == "tests" || part == "testing" || part == "tests.rs" || part == "testing.rs";
    path.components().any(|part| part.as_os_str().to_str().is_some_and(is))
}

#[test]
fn every_source_file_is_a_module() {
    let mut orphans = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for crates in ["domain", "store", "actors", "api", "daemon", "ctl", "tools", "tests"] {
        for path in rust_files(&root.join(crates)) {
            let folder = path.parent().expect("a file has a folder");
            let name = path.file_stem().and_then(|name| name.to_str()).expect("names are UTF-8");
            let is_root = ["lib", "main", "mod"].contains(&name)
                || ["bin", "benches", "examples"].iter().any(|of| folder.ends_with(of));
            if is_root || !path.components().any(|part| part.as_os_str() == "src") {
                continue;
            }
            let parents = [folder.with_extension("rs"), folder.join("lib.rs"), folder.join("main.rs")];
            let declaration = format!("mod {name};");
            let declares = |parent: &PathBuf| {
                fs::read_to_string(parent).is_ok_and(|source| source.contains(&declaration))
            };
            if !parents.iter().any(declares) {
                orphans.push(path);
            }
        }
    }
    assert!(orphans.is_empty(), "no module names these files, so nothing compiles them: {orphans:#?}");
}
