import type { VerifiedCard } from "./card.js";

/** What the card must be. */
export interface ExpectedCard {
  keys: readonly string[];
  witnesses?: readonly string[];
  allowTestMode?: boolean;
}

export function verifyPage(card: string | Uint8Array, expected: ExpectedCard): Promise<VerifiedCard | { fault: string }>;
