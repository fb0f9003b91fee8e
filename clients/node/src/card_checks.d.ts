/** The layout of a card, by which its page shows its data. */
export interface CardLayout {
  parts: { id: string }[];
}

/** The result for a part of a card. */
export interface PartResult {
  fault?: string;
  isChecked: boolean;
  html?: string;
  cosigned?: { name: string; at: string }[];
}

export function checkParts(blocks: Record<string, string>, layout: CardLayout): Promise<Record<string, PartResult>>;
