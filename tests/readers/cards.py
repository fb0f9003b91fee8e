"""Prints whether the Python client accepts each card in a file that `tests/tests/card_forgeries.rs` writes, one line each.

Usage: python3 cards.py FILE. Exits with 3 if the package `cryptography` is missing.
"""

import base64
import json
import sys
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "clients/python/src"))
sys.dont_write_bytecode = True

try:
    import cryptography  # noqa: F401
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)

# the package imports its HTTP client, which is not needed here
package = types.ModuleType("oracled")
package.__path__ = [str(Path(__file__).parents[2] / "clients/python/src/oracled")]
sys.modules["oracled"] = package
from oracled.card import CardError, verify_card  # noqa: E402

EMPTY = '<dl></dl>\n<script type="application/json"></script>'
with open(sys.argv[1], encoding="utf-8") as file:
    head = json.loads(next(file))
    pieces = head["frame"].split(EMPTY)
    for line in file:
        card = json.loads(line)
        if "slots" in card:
            slots = [f'<dl>{shown}</dl>\n<script type="application/json">{data}</script>' for shown, data in card["slots"]]
            page = "".join(piece + slot for piece, slot in zip(pieces, [*slots, ""], strict=True)).encode()
        else:
            page = base64.b64decode(card["page"])
        try:
            verify_card(page, head["key"], allow_test_mode=card["allow_test_mode"])
            print("accepted")
        except CardError as error:
            print("refused", str(error).replace("\n", " "))
