//! The links between the pages: each leads to a file, and to a heading or an anchor of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The Markdown files of a folder and of the folders below it.
pub(crate) fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the entry can be read").path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            let is_built =
                name == "target" || name == "node_modules" || name.as_encoded_bytes().starts_with(b".");
            if !is_built {
                pages(&path, found);
            }
        } else if path.extension() == Some(OsStr::new("md")) {
            found.push(path);
        }
    }
}

/// The lines of a page that are no code.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let mut parts = heading.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    let text =
        first + &parts.filter_map(|part| part.split_once(')')).map(|(_, rest)| rest).collect::<String>();
    let kept = text.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// All anchors of a page. A repeated heading gets a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut count: BTreeMap<String, u32> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for line in lines(text) {
        found.extend(
            line.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned),
        );
        let heading = line.trim_start_matches('#');
        if heading.len() < line.len() && heading.starts_with(' ') {
            let name = anchor(heading);
            let before = count.entry(name.clone()).or_default();
            found.insert(if *before == 0 { name } else { format!("{name}-{before}") });
            *before += 1;
        }
    }
    found
}

/// The targets of the links in a text, without those of other hosts.
fn targets(text: &str) -> Vec<String> {
    let prose = lines(text).collect::<Vec<_>>().join("\n");
    // text in backticks is code
    let prose: String = prose.split('`').step_by(2).collect();
    let target = |rest: &str| rest.split(')').next().unwrap_or_default().to_owned();
    let all = prose.split("](").skip(1).map(target);
    all.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).collect()
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn links_of_all_pages_lead_to_files_and_headings() {
    let root = plain(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    let mut found = Vec::new();
    pages(&root, &mut found);
    let texts: BTreeMap<_, _> = found
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("the page can be read");
            (path, text)
        })
        .collect();
    let anchors: BTreeMap<_, _> = texts.iter().map(|(path, text)| (path, anchors(text))).collect();
    let mut broken = Vec::new();
    for (page, text) in &texts {
        for target in targets(text) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let folder = page.parent().expect("a page is in a folder");
            let path = if file.is_empty() { page.clone() } else { plain(&folder.join(file)) };
            let has_anchor = anchor.is_empty() || anchors.get(&path).is_some_and(|all| all.contains(anchor));
            if !path.exists() || !has_anchor {
                broken.push(format!("{}: {target}", page.strip_prefix(&root).unwrap_or(page).display()));
            }
        }
    }
    assert!(texts.len() > 20, "{} pages", texts.len());
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn summary_of_the_book_lists_every_page() {
    let docs = plain(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs"));
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("the summary can be read");
    let listed: BTreeSet<_> = targets(&summary).into_iter().map(|target| docs.join(target)).collect();
    let mut found = Vec::new();
    pages(&docs, &mut found);
    let missing: Vec<_> =
        found.iter().filter(|page| !listed.contains(*page) && !page.ends_with("SUMMARY.md")).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
