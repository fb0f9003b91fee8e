//! Writes the reference pages and the man pages that are generated from the types.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    for page in oracled_tests::reference::pages() {
        page.write()?;
        writeln!(io::stdout(), "{}", page.path)?;
    }
    Ok(())
}
