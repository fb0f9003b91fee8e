import { verifyPage } from "./card_page.js";
import { invalidArgument, OracledError } from "./errors.js";

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
  /** Whether the verdict is one of a daemon in test mode, which was never delivered to a customer. */
  testMode: boolean;
}

/**
 * Verifies every byte of a verdict card.
 *
 * @param card the file
 * @param key the key of the log, as `oraclectl log key` prints it, from a source that you trust; several if the log got a new key
 * @param options `witnesses` has keys of witnesses that must have cosigned the log; `allowTestMode` also accepts a card of a daemon in test mode
 * @throws {CardError} if the file was changed, is of another log, or is of a daemon in test mode
 * @throws {TypeError} if a key is missing: the card is not at fault
 */
export async function verifyCard(
  card: string | Uint8Array,
  key: string | readonly string[],
  { witnesses = [], allowTestMode = false }: { witnesses?: readonly string[]; allowTestMode?: boolean } = {},
): Promise<VerifiedCard> {
  const keys = [key].flat().map((each) => checkedKey("key", each));
  if (keys.length === 0) throw invalidArgument("key", key, KEY_REQUIRED);
  const required = witnesses.map((witness) => checkedKey("witnesses", witness));
  const verified = await verifyPage(card, { keys, witnesses: required, allowTestMode });
  if ("fault" in verified) throw new CardError(verified.fault);
  return verified;
}

const KEY_REQUIRED = "a key is required, as `oraclectl log key` prints it";

/** A key without the white space around it: a file with a key ends with a newline. */
function checkedKey(name: string, key: unknown): string {
  const trimmed = typeof key === "string" ? key.trim() : "";
  if (trimmed === "") throw invalidArgument(name, key, KEY_REQUIRED);
  return trimmed;
}
