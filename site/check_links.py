"""Checks that each link within a built site leads to a file, and to an element of it. Usage: check_links.py FOLDER"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("id", "name"):
                self.ids.add(value)
            elif value and name in ("href", "src"):
                self.links.add(value)


# the table of contents, the page of errors and the printed book repeat the other pages with other addresses
REPEATED = {"404.html", "print.html", "toc.html"}
root = Path(sys.argv[1]).resolve()
pages = {path: Page(path.read_text()) for path in root.rglob("*.html")}
broken = []
for path, page in pages.items():
    if path.name in REPEATED:
        continue
    for link in sorted(page.links):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        found = target.exists() and target.is_relative_to(root)
        if found and parts.fragment and target in pages:
            found = unquote(parts.fragment) in pages[target].ids
        if not found:
            broken.append(f"{path.relative_to(root)}: {link}")
if broken:
    sys.exit("broken links:\n" + "\n".join(broken))
print(f"checked: the links of {len(pages)} pages")
