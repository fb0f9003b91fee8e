//! The folders of each crate: imports run one way, and no two modules of a folder import each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

/// The modules below the root of each crate. Each imports only from those before it; those of one group are independent.
const ORDER: [(&str, &[&[&str]]); 4] = [
    ("domain", &[&["base"], &["ground"], &["verification"], &["rules"], &["verdict"], &["audit"]]),
    ("store", &[&["base"], &["audit"], &["ground", "verdict", "verification"], &["journal"]]),
    (
        "actors",
        &[
            &["platform"],
            &["audit"],
            &["upstream"],
            &["ground"],
            &["verification"],
            &["rules"],
            &["verdict"],
            &["system"],
        ],
    ),
    (
        "daemon",
        &[
            &["pieces"],
            &["client", "platform"],
            &["audit", "ground", "rules", "verdict", "verification"],
            &["api", "control"],
            &["ctl", "run"],
            &["dev"],
            &["cli"],
        ],
    ),
];

/// The path of a module or of an item in it, from the crate's root.
type ModulePath = Vec<String>;

/// The modules of a crate by their paths, without tests.
struct Modules {
    files: BTreeMap<ModulePath, syn::File>,
    /// What a module hands on by `pub use`: the path under which it is known, and where it is.
    handed_on: BTreeMap<ModulePath, ModulePath>,
}

impl Modules {
    fn of(folder: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("src");
        let mut files = BTreeMap::new();
        for file in rust_files(&root) {
            let relative = file.strip_prefix(&root).expect("it lies below").with_extension("");
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
            let source = fs::read_to_string(&file).expect("it is read");
            files.insert(path, syn::parse_file(&source).expect("it is Rust"));
        }
        assert!(files.len() > 10, "{folder} has sources");
        let mut modules = Self { files, handed_on: BTreeMap::new() };
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
                        modules.handed_on.insert(known_as, target);
                    }
                }
            }
        }
        modules
    }

    /// The path from the crate's root of what `names` means in `module`. `None` if it is of another crate.
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
    fn home(&self, path: ModulePath) -> ModulePath {
        let mut path = path;
        // a chain of `pub use` has a few links
        for _ in 0..8 {
            let module = self.deepest(&path);
            let Some(target) = path.get(..=module.len()).and_then(|known_as| self.handed_on.get(known_as))
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

    /// Each pair of a module and one that it needs.
    fn needs(&self) -> BTreeSet<(ModulePath, ModulePath)> {
        let mut needs = BTreeSet::new();
        for (module, file) in &self.files {
            let mut names = Names { found: Vec::new() };
            names.visit_file(file);
            for path in names.found.iter().filter_map(|names| self.resolve(module, names)) {
                let home = self.home(path);
                if home != *module {
                    needs.insert((module.clone(), home));
                }
            }
        }
        needs
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Every path that a file names, apart from its tests and from what it only hands on.
struct Names {
    found: Vec<Vec<String>>,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if matches!(item.vis, Visibility::Inherited) && !item.attrs.iter().any(is_for_tests) {
            self.found.extend(leaves(&item.tree).into_iter().map(|(names, _)| names));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.found.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
}

/// The paths that a `use` names, each with the name under which it is known then.
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

/// A feature that needs one after it could not be understood without it.
#[test]
fn features_import_only_those_before_them() {
    for (folder, order) in ORDER {
        let modules = Modules::of(folder);
        let position = |module: &[String]| {
            let first = module.first()?;
            let found = order.iter().position(|group| group.contains(&first.as_str()));
            Some(found.unwrap_or_else(|| panic!("{folder}: {first} has no place in the order")))
        };
        for (module, needed) in modules.needs() {
            let (Some(from), Some(to)) = (position(&module), position(&needed)) else { continue };
            let is_within = module.first() == needed.first();
            assert!(is_within || to < from, "{folder}: {} imports {}", module.join("::"), needed.join("::"));
        }
    }
}

/// Two modules that import each other are one that is spread over two files.
#[test]
fn modules_of_a_folder_do_not_import_each_other() {
    for (folder, _) in ORDER {
        let modules = Modules::of(folder);
        let needs = modules.needs();
        for parent in modules.files.keys() {
            let child = |module: &ModulePath| {
                module.strip_prefix(parent.as_slice()).and_then(|rest| rest.first()).cloned()
            };
            let siblings: BTreeSet<_> = needs
                .iter()
                .filter_map(|(module, needed)| Some((child(module)?, child(needed)?)))
                .filter(|(module, needed)| module != needed)
                .collect();
            let in_cycles = in_cycles(siblings);
            let parent = parent.join("::");
            assert!(in_cycles.is_empty(), "{folder}: modules of `{parent}` import each other: {in_cycles:?}");
        }
    }
}

/// What is left of `arrows` once those to modules that need nothing are taken away again and again.
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
