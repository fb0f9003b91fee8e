// Reads the page of a verdict card. It has no types, so that Node can run it without a build.

import { createHash } from "node:crypto";
import { checkParts, readData } from "./card_checks.mjs";

/** The SHA-256 of the page without data and shown text, of each version. `docs/card.md` lists them. */
const FRAMES = ["c87eabb1757a77c68627032e338e6597bb30caad97bd8c1cb23953ce531279e5"];
/** The first page, whose cards could be forged. It was never released. */
const WITHDRAWN_FRAME = "6659664fb052db29819557251b5a779deacfa45bf8ae9afef3d54b3ba2c96200";

const CARD_BYTES_MAX = 16 * 1024 * 1024;
const [SHOWN_START, DATA_START, DATA_END] = ["<dl>", '</dl>\n<script type="application/json">', "</script>"];
const LAYOUT = /<script type="application\/json" id="layout">(.*?)<\/script>/s;

/** The page of a file; undefined if it is not UTF-8. */
function decode(card) {
  try {
    const page = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(typeof card === "string" ? new TextEncoder().encode(card) : card);
    // a surrogate alone is no text
    return typeof card === "string" && card !== page ? undefined : page;
  } catch {
    return undefined;
  }
}

/** The page without data and shown text, and the shown text and the data of each part; undefined if a slot has no end. */
function split(page) {
  const [slots, frame] = [[], []];
  let at = 0;
  for (let start = page.indexOf(SHOWN_START); start >= 0; start = page.indexOf(SHOWN_START, at)) {
    const shown = start + SHOWN_START.length;
    const middle = page.indexOf(DATA_START, shown);
    const end = middle < 0 ? -1 : page.indexOf(DATA_END, middle + DATA_START.length);
    if (end < 0) return undefined;
    frame.push(page.slice(at, shown), DATA_START, DATA_END);
    slots.push({ shown: page.slice(shown, middle), data: page.slice(middle + DATA_START.length, end) });
    at = end + DATA_END.length;
  }
  return { frame: frame.join("") + page.slice(at), slots };
}

/** The key of the log in the data of the proof. */
function keyOf(block) {
  try {
    return readData(block).texts[1] ?? "";
  } catch {
    return "";
  }
}

/**
 * Verifies a card, a text or bytes. `keys` has the expected keys of the log, and `witnesses` those of witnesses that must have cosigned it.
 * The result has `fault` if the card is refused, else its content.
 */
export async function verifyPage(card, { keys, witnesses = [], allowTestMode = false }) {
  if (Buffer.byteLength(card) > CARD_BYTES_MAX) return { fault: `the file has more than ${CARD_BYTES_MAX} bytes; a verdict card has fewer` };
  const page = decode(card);
  if (page === undefined) return { fault: "the file is not UTF-8" };
  const { frame, slots } = split(page) ?? { frame: "", slots: [] };
  const sha256 = createHash("sha256").update(frame).digest("hex");
  if (sha256 === WITHDRAWN_FRAME) {
    return { fault: "the card is of version 1, whose cards can be forged; ask the sender for a card of version 2 (`oraclectl card`)" };
  }
  if (!FRAMES.includes(sha256)) return { fault: "the file is no verdict card of a version that this client knows, or its page was changed" };
  const layout = JSON.parse(LAYOUT.exec(frame)[1]);
  const blocks = Object.fromEntries(layout.parts.map(({ id }, index) => [id, slots[index].data]));
  // the key first: nothing else of a card of another log is checked
  const key = keyOf(blocks.proof);
  if (!keys.includes(key)) return { fault: `the card is of the log key ${key}, which is not the expected one, ${keys.join(" or ")}` };
  const results = await checkParts(blocks, layout);
  const changes = layout.parts.map(({ id }, index) => {
    const { fault, html = slots[index].shown } = results[id];
    const change = fault ?? (html === slots[index].shown ? undefined : "the shown text is not that of its data");
    return change && `the part \`${id}\` was changed: ${change}`;
  });
  const doubts = layout.parts.map(({ id }) => results[id].doubt && `the part \`${id}\` cannot be checked: ${results[id].doubt}`);
  const fault = [...changes, ...doubts].find((each) => each !== undefined);
  if (fault !== undefined) return { fault };
  const missing = witnesses.find((witness) => !results.proof.witnesses.includes(witness));
  if (missing !== undefined) return { fault: `the witness ${missing} has not cosigned the log` };
  const testMode = Object.values(results).some(({ isTest }) => isTest);
  if (testMode && !allowTestMode) {
    return { fault: "the card is of a daemon in test mode: it is no verdict for a customer (`allowTestMode: true` accepts it)" };
  }
  const { sessionId = null, text: verdict = null } = results.verdict;
  const { cosigned, size } = results.proof;
  return { sessionId, verdict, key, size, cosigned, testMode };
}
