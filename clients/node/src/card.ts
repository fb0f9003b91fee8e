import { createHash } from "node:crypto";
import { checkParts, type CardLayout } from "./card_checks.js";
import { invalidArgument, OracledError } from "./errors.js";

/** The SHA-256 of the page without data and shown text, of each version. `docs/card.md` lists them. */
const FRAMES: readonly string[] = ["6659664fb052db29819557251b5a779deacfa45bf8ae9afef3d54b3ba2c96200"];

const SLOT = /<dl>(.*?)<\/dl>\n<script type="application\/json">(.*?)<\/script>/gs;
const EMPTY_SLOT = '<dl></dl>\n<script type="application/json"></script>';
const LAYOUT = /<script type="application\/json" id="layout">(.*?)<\/script>/s;

/** The file is not an unchanged verdict card of this log. */
export class CardError extends OracledError {
  override readonly name = "CardError";
}

/** A card whose bytes are all consistent with the key of the log. It does not say that the verdict is true. */
export interface VerifiedCard {
  /** The session with its application, as in the log; null if its id was erased. */
  sessionId: string | null;
  /** The delivered text; null if it was erased. */
  verdict: string | null;
  /** The key of the log. */
  key: string;
  /** The number of entries of the log. */
  size: number;
  /** The witnesses that have cosigned the log. */
  cosigned: { name: string; at: string }[];
}

/**
 * Verifies every byte of a verdict card.
 *
 * @param card the file
 * @param key the key of the log, as `oraclectl log key` prints it, from a source that you trust; several if the log got a new key
 * @param options `witnesses` has keys of witnesses that must have cosigned the log
 * @throws {CardError} if the file was changed, or is of another log
 * @throws {TypeError} if a key is missing: the card is not at fault
 */
export async function verifyCard(
  card: string | Uint8Array,
  key: string | readonly string[],
  { witnesses = [] }: { witnesses?: readonly string[] } = {},
): Promise<VerifiedCard> {
  const keys = [key].flat().map((each) => checkedKey("key", each));
  if (keys.length === 0) throw invalidArgument("key", key, KEY_REQUIRED);
  const required = witnesses.map((witness) => checkedKey("witnesses", witness));
  const page = typeof card === "string" ? card : decode(card);
  const frame = page.replace(SLOT, EMPTY_SLOT);
  const layoutText = LAYOUT.exec(frame)?.[1];
  if (!FRAMES.includes(createHash("sha256").update(frame).digest("hex")) || layoutText === undefined) {
    throw new CardError("the file is no verdict card of a version that this client knows, or its page was changed");
  }
  const layout = JSON.parse(layoutText) as CardLayout;
  const slots = [...page.matchAll(SLOT)];
  const blocks = Object.fromEntries(layout.parts.map(({ id }, index) => [id, slots[index]?.[2] ?? ""]));
  const results = await checkParts(blocks, layout);
  for (const [index, { id }] of layout.parts.entries()) {
    const { fault, html } = results[id] ?? { fault: "it is missing" };
    const own = fault ?? (html === slots[index]?.[1] ? undefined : "the shown text is not that of its data");
    if (own !== undefined) throw new CardError(`the part \`${id}\` was changed: ${own}`);
  }
  if (!Object.values(results).every(({ isChecked }) => isChecked)) throw new CardError("this version of Node has no Ed25519");
  const proof = read(blocks["proof"]);
  const own = proof.texts[1] ?? "";
  if (!keys.includes(own)) throw new CardError(`the card is of the log key ${own}, which is not the expected one, ${keys.join(" or ")}`);
  const missing = required.find((witness) => !proof.more.includes(witness));
  if (missing !== undefined) throw new CardError(`the witness ${missing} has not cosigned the log`);
  const verdict = read(blocks["verdict"]);
  const { session_id: session } = JSON.parse(verdict.entries[0]?.line ?? "{}") as { session_id?: unknown };
  return {
    sessionId: typeof session === "string" ? session : null,
    verdict: verdict.texts[0] ?? null,
    key: own,
    size: Number(proof.texts[0]?.split("\n")[1]),
    cosigned: results["proof"]?.cosigned ?? [],
  };
}

const KEY_REQUIRED = "a key is required, as `oraclectl log key` prints it";

/** A key without the white space around it: a file with a key ends with a newline. */
function checkedKey(name: string, key: unknown): string {
  const trimmed = typeof key === "string" ? key.trim() : "";
  if (trimmed === "") throw invalidArgument(name, key, KEY_REQUIRED);
  return trimmed;
}

interface PartData {
  entries: { line: string }[];
  texts: string[];
  more: string[];
}

function read(block: string | undefined): PartData {
  return JSON.parse(block ?? "") as PartData;
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new CardError("the file is not UTF-8");
  }
}
