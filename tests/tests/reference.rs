//! The generated reference pages and man pages.

use oracled_tests::reference::{COMMAND, pages};
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn generated_pages_equal_the_committed_ones() {
    for page in pages() {
        let committed = fs::read_to_string(page.file()).unwrap_or_default();
        assert!(committed == page.text, "{} is out of date; run `{COMMAND}` and commit the pages", page.path);
    }
}

/// Needs groff; without it nothing is checked.
#[test]
fn man_pages_render_without_warnings() {
    if Command::new("groff").arg("--version").stdout(Stdio::null()).status().is_err() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, page) in oracled_ctl::man_pages(oracled_ctl::command()).unwrap() {
        fs::write(folder.path().join(name), page).unwrap();
    }
    let verbs = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let ours =
        pages().into_iter().map(|page| page.file()).filter(|file| file.extension() != Some("md".as_ref()));
    for file in verbs.chain(ours) {
        let output = Command::new("groff")
            .args(["-man", "-Kutf8", "-Tutf8", "-ww", "-z"])
            .arg(&file)
            .output()
            .unwrap();
        let stderr_text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr_text.is_empty(), "{}: {stderr_text}", file.display());
    }
}
