// Prints whether the Node client accepts each card in a file that `tests/tests/card_forgeries.rs` writes, one line each.
//
// Usage: node cards.mjs FILE.

import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { verifyPage } from "../../clients/node/src/card_page.js";

const EMPTY = '<dl></dl>\n<script type="application/json"></script>';
let head;
for await (const line of createInterface({ input: createReadStream(process.argv[2]), crlfDelay: Infinity })) {
  const card = JSON.parse(line);
  if (!head) {
    head = card;
    continue;
  }
  const pieces = head.frame.split(EMPTY);
  const slots = card.slots?.map(([shown, data]) => `<dl>${shown}</dl>\n<script type="application/json">${data}</script>`);
  const page = slots ? Buffer.from(pieces.map((piece, index) => piece + (slots[index] ?? "")).join("")) : Buffer.from(card.page, "base64");
  const { fault } = await verifyPage(page, { keys: [head.key], allowTestMode: card.allow_test_mode });
  console.log(fault === undefined ? "accepted" : `refused ${fault.replaceAll("\n", " ")}`);
}
