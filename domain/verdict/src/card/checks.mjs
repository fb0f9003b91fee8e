// The checks of a verdict card: SHA-256 and Ed25519 by WebCrypto, and nothing else. The page runs them in a browser, and the client
// for Node runs the same file. `docs/card.md` says what they check. Each is linear in the size of the card.

const utf8 = new TextEncoder();
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const join = (...parts) => Uint8Array.from(parts.flatMap((part) => Array.from(part)));
const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
const sha256Hex = async (text) => hex(await sha256(utf8.encode(text)));
const isEqual = (left, right) => left.length === right.length && left.every((byte, index) => byte === right[index]);
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** The levels of the data of a part. */
const DATA_DEPTH = 5;
/** The most levels and members of an entry. The log writes fewer. */
const [ENTRY_DEPTH, ENTRY_MEMBERS] = [32, 256];
/** The most levels, and characters of a path, of a text that is shown by its values. Any other is shown as it is. */
const [SHOWN_DEPTH, SHOWN_PATH] = [32, 256];
/** The most values of the entries and the document of a part. A text with more than are left is shown as it is. */
const SHOWN_VALUES = 10_000;

/** A fault of the data of a card. */
class Fault extends Error {}

function require(holds, fault) {
  if (!holds) throw new Fault(fault);
}

/** Base64 has one form for each value. */
function fromBase64(text) {
  let binary;
  try {
    binary = atob(text);
  } catch {
    throw new Fault("a text is not Base64");
  }
  require(btoa(binary) === text, "a text is not Base64");
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

/** The end of the quoted text at `start`. One without an end ends with the input. */
function endOfText(text, start) {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let first = at;
    while (text[first - 1] === "\\") first -= 1;
    if ((at - first) % 2 === 0) return at + 1;
  }
  return text.length;
}

/** The tokens of a JSON text, each with its place. Any text has them. */
function* tokens(text) {
  const other = /[^ \t\n\r{}[\],:"]+/y;
  for (let at = 0; at < text.length; ) {
    const [start, first] = [at, text[at]];
    if (first === '"') at = endOfText(text, start);
    else if ("{}[],: \t\n\r".includes(first)) at += 1;
    else {
      other.lastIndex = start;
      at += other.exec(text)[0].length;
    }
    if (!" \t\n\r".includes(first)) yield [text.slice(start, at), start];
  }
}

/** The change of the depth by a token. */
const step = (token) => (token === "{" || token === "[" ? 1 : token === "}" || token === "]" ? -1 : 0);

/** Whether a JSON text has more than so many levels. The check comes before the parser, which could need much memory for them. */
function isDeeper(text, most) {
  let depth = 0;
  for (const [token] of tokens(text)) {
    depth += step(token);
    if (depth > most) return true;
  }
  return false;
}

/** The text that a token of JSON quotes; undefined if it is no text of Unicode. */
function textOf(token) {
  if (!token?.startsWith('"')) return undefined;
  try {
    const text = JSON.parse(token);
    return /\p{Surrogate}/u.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

/** The text of a token of JSON. A token that is no text of Unicode stays as it is. */
const decode = (token) => textOf(token) ?? token;

/**
 * The values of a JSON text, each with its path, in their order. Numbers keep their digits; null is left out. A text with too many
 * levels, more than `most` values or a too long path is one value.
 */
function flatten(text, prefix, most) {
  const [leaves, path, levels] = [[], [prefix], []];
  let length = 0;
  const lengthOf = (name) => Array.from(name).length + 1;
  const rename = (name) => {
    length += lengthOf(name) - lengthOf(path.at(-1));
    path[path.length - 1] = name;
  };
  for (const [token] of tokens(text)) {
    const level = levels.at(-1);
    if (token === "{" || token === "[") {
      levels.push(token === "[" ? { index: 0 } : { index: -1, isName: true });
      path.push(token === "[" ? "0" : "");
      length += lengthOf(path.at(-1));
    } else if (token === "}" || token === "]") {
      levels.pop();
      if (path.length > 1) length -= lengthOf(path.pop());
    } else if (token === ",") {
      if (level?.index >= 0) rename(String(++level.index));
      else if (level) level.isName = true;
    } else if (level?.isName) {
      rename(decode(token));
      level.isName = false;
    } else if (token !== ":" && token !== "null") {
      leaves.push([path.join("."), decode(token)]);
    }
    if (levels.length > SHOWN_DEPTH || leaves.length > most || length > SHOWN_PATH) return [[prefix, text]];
  }
  return leaves;
}

/** The members of a JSON object as pairs of a name and the text of its value. The object has no space around them, and each text in it is one of Unicode. */
function members(json) {
  const found = new Map();
  let [depth, name, start, end] = [0, undefined, 0, 0];
  for (const [token, at] of tokens(json)) {
    require(!token.startsWith('"') || textOf(token) !== undefined, "a text of an entry is not one of Unicode");
    require(!/^[-0-9]/.test(token) || Number.isFinite(Number(token)), "a number of an entry is too large");
    const isSeparator = depth === 1 && (token === "," || token === "}");
    if (isSeparator && name !== undefined) found.set(name, json.slice(start, end));
    if (isSeparator) name = undefined;
    else if (depth === 1 && name === undefined) name = decode(token);
    else if (depth === 1 && token === ":") start = at + 1;
    depth += step(token);
    end = at + token.length;
    require(depth <= ENTRY_DEPTH && found.size <= ENTRY_MEMBERS, "an entry has too many levels or members");
  }
  // a repeated name leaves a gap here
  require(object([...found]) === json, "the line is not one that the log writes");
  return found;
}

const object = (pairs) => `{${pairs.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;

/** An entry as the entry that names it has it. */
const link = (seq, leaf) => `{"seq":${seq},"leaf_sha256":"${leaf}"}`;
const LINK = /\{"seq":[1-9][0-9]{0,14},"leaf_sha256":"[0-9a-f]{64}"\}/g;

/** The entries that an entry names; undefined if it names none, or if its value was erased or withheld. */
function linksOf(value) {
  const found = value?.match(LINK);
  return found && `[${found.join(",")}]` === value ? new Set(found) : undefined;
}

/** An entry. Its line must be one that the log writes: then it has one reading. */
async function readEntry({ line, proof: { hashes } }) {
  const all = members(line);
  const pairs = [...all];
  const [first, second, last] = [pairs[0], pairs[1], pairs.at(-1)];
  require(first?.[0] === "seq" && /^[1-9][0-9]{0,14}$/.test(first[1]), "an entry has no number");
  require(second?.[0] === "event" && /^"[a-z_]+"$/.test(second[1]), "an entry has no event");
  const isSalted = last[0] === "salts";
  require(isSalted || !all.has("salts"), "the salts of an entry are not its last member");
  const salts = isSalted ? members(last[1]) : new Map();
  const own = isSalted ? pairs.slice(0, -1) : pairs;
  require(!isSalted || salts.size > 0, "an entry has no salts");
  let at = -1;
  for (const [name, salt] of salts) {
    at = own.findIndex(([member], index) => index > at && member === name);
    // with any other salt, the beginning of the value could be moved into it: the hash has no border between them
    require(at >= 0 && /^"[0-9a-f]{32}"$/.test(salt), "the salts of an entry are not those of its members");
  }
  const hidden = async (name, value) => `{"sha256":"${await sha256Hex(textOf(salts.get(name)) + value)}"}`;
  const leaf = own.map(async ([name, value]) => [name, salts.has(name) ? await hidden(name, value) : value]);
  const hash = await sha256(join([0], utf8.encode(object(await Promise.all(leaf)))));
  const [seq, event] = [Number(first[1]), textOf(second[1])];
  const isTest = all.get("test_mode") === "true";
  const itself = link(seq, hex(hash));
  return { seq, event, isTest, line, hash, hashes, all, itself, links: linksOf(all.get("links")), parsed: JSON.parse(line) };
}

/** Whether the leaf number `index` is in the tree of `size` leaves with this root (RFC 9162, 2.1.3.2). */
async function isIncluded(hash, index, size, hashes, root) {
  if (index >= size) return false;
  let [node, last] = [index, size - 1];
  for (const text of hashes) {
    const sibling = fromBase64(text);
    if (last === 0 || sibling.length !== 32) return false;
    if (node % 2 === 1 || node === last) {
      hash = await sha256(join([1], sibling, hash));
      while (node % 2 === 0 && node !== 0) [node, last] = [node / 2, Math.floor(last / 2)];
    } else {
      hash = await sha256(join([1], hash, sibling));
    }
    [node, last] = [Math.floor(node / 2), Math.floor(last / 2)];
  }
  return last === 0 && isEqual(hash, root);
}

const KEY = /^([^+\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+)\+([0-9a-f]{8})\+(.+)$/s;
const SIGNATURE = /^— ([^+\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+) (.+)$/s;
/** The most witnesses of a checkpoint. */
const WITNESSES_MAX = 100;
/** The latest time of a cosignature, in seconds: the year 9999. */
const TIME_MAX = 253_402_207_200n;

/** Reads a public key in the form NAME+ID+KEY (C2SP signed-note). */
async function readKey(text, type) {
  const [, name, id, encoded] = KEY.exec(text) ?? [];
  require(encoded, "a key is not NAME+ID+KEY");
  const bytes = fromBase64(encoded);
  require(bytes.length === 33 && bytes[0] === type, "a key is not an Ed25519 key");
  const own = (await sha256(join(utf8.encode(`${name}\n`), bytes))).slice(0, 4);
  require(hex(own) === id, "the id of a key is not its own");
  return { name, id: own, bytes: bytes.slice(1) };
}

async function isSigned(key, signature, message) {
  const imported = await crypto.subtle.importKey("raw", key.bytes, { name: "Ed25519" }, false, ["verify"]);
  return crypto.subtle.verify({ name: "Ed25519" }, imported, signature, utf8.encode(message));
}

/** Checks the checkpoint, its signature and its cosignatures. `isChecked` is false if there is no Ed25519 here. */
async function checkCheckpoint([note, keyText, ...rest], witnessTexts) {
  require(keyText !== undefined && rest.length === 0, "the checkpoint or the key is missing");
  const end = note.lastIndexOf("\n\n");
  const lines = note.slice(end + 2).split("\n");
  require(end > 0 && lines.pop() === "", "the checkpoint is not a signed note");
  const text = note.slice(0, end + 1);
  const [origin, size, root, ...more] = text.split("\n");
  require(/^[1-9][0-9]{0,14}$/.test(size) && more.join() === "", "the checkpoint is not that of a log");
  const checkpoint = { size: Number(size), root: fromBase64(root), cosigned: [], isChecked: true };
  require(witnessTexts.length <= WITNESSES_MAX && lines.length === witnessTexts.length + 1, "a key or a signature is missing, or there are too many");
  const key = await readKey(keyText, 1);
  const witnesses = await Promise.all(witnessTexts.map((witness) => readKey(witness, 4)));
  require(origin === key.name, "the checkpoint is of another log than the key");
  require(new Set(witnessTexts).size === witnesses.length, "a key of a witness is repeated");
  const open = new Set([key, ...witnesses]);
  for (const line of lines) {
    const [, name, encoded] = SIGNATURE.exec(line) ?? [];
    require(encoded, "the checkpoint has a line that is no signature");
    const bytes = fromBase64(encoded);
    const signer = [...open].find((each) => each.name === name && isEqual(each.id, bytes.slice(0, 4)));
    require(signer, "a signature is not of one of the keys");
    open.delete(signer);
    let [signature, message] = [bytes.slice(4), text];
    if (signer !== key) {
      require(signature.length === 72, "a cosignature is not complete");
      const seconds = new DataView(signature.buffer, signature.byteOffset).getBigUint64(0);
      require(seconds > 0n && seconds <= TIME_MAX, "the time of a cosignature is not valid");
      checkpoint.cosigned.push({ name, at: new Date(Number(seconds) * 1000).toISOString() });
      [signature, message] = [signature.slice(8), `cosignature/v1\ntime ${seconds}\n${text}`];
    }
    try {
      require(await isSigned(signer, signature, message), "a signature is not valid");
    } catch (error) {
      if (error instanceof Fault) throw error;
      checkpoint.isChecked = false;
    }
  }
  require(open.size === 0, "a signature is missing");
  return checkpoint;
}

/** The data of a part. They have one form, so that no byte of them is free. */
export function readData(text) {
  try {
    require(!isDeeper(text, DATA_DEPTH), "the data are not in their form");
    const { entries, texts, more } = JSON.parse(text);
    const proved = entries.map(({ line, proof: { hashes } }) => ({ line: String(line), proof: { hashes: hashes.map(String) } }));
    const data = { entries: proved, texts: texts.map(String), more: more.map(String) };
    // a surrogate alone has the bytes of U+FFFD where it is hashed
    const isText = (each) => !/\p{Surrogate}/u.test(each);
    require([...proved.map(({ line }) => line), ...data.texts, ...data.more].every(isText), "a text is not one of Unicode");
    require(JSON.stringify(data).replaceAll("<", "\\u003c") === text, "the data are not in their form");
    return data;
  } catch (error) {
    throw error instanceof Fault ? error : new Fault("the data cannot be read");
  }
}

/** The leaves by each path at or above them, as far as a layout has paths. */
function indexOf(leaves) {
  const found = new Map();
  const add = (path, leaf) => (found.has(path) ? found.get(path).push(leaf) : found.set(path, [leaf]));
  for (const leaf of leaves) {
    const [path] = leaf;
    add("", leaf);
    let end = -1;
    for (let names = 0; names < 6 && end < path.length; names += 1) {
      const next = path.indexOf(".", end + 1);
      end = next < 0 ? path.length : next;
      add(path.slice(0, end), leaf);
    }
  }
  return (path) => found.get(path) ?? [];
}

/** The rows of a part as pairs of a label and a text, by the layout of the page. */
function rowsOf(rows, under, layout, index) {
  return rows.flatMap((row) => {
    const at = (path) => path.replaceAll("#", index);
    if (row.unless?.some((path) => under(at(path)).length > 0)) return [];
    if (row.text !== undefined) return [[row.label, row.text]];
    if (row.each !== undefined) {
      const shown = [];
      for (let number = 0; under(`${row.each}.${number}`).length > 0; number += 1) {
        shown.push(...rowsOf(row.rows, under, layout, String(number)));
      }
      return shown;
    }
    const path = at(row.path);
    const found = under(path).filter(([, text]) => text !== "");
    const isHidden = found.length === 1 && found[0][0] === `${path}.sha256`;
    if (isHidden) return [[row.label, layout.withheld + found[0][1]]];
    if (row.hidden) return [];
    return found.map(([leaf, text]) => {
      const names = leaf.slice(path.length).split(".").filter((name) => name !== "" && !/^[0-9]+$/.test(name));
      const own = row.words && Object.hasOwn(row.words, text) ? row.words[text] : text;
      return [[row.label ?? "", ...names].filter((name) => name !== "").join(" › "), own];
    });
  });
}

const escapeOf = (code) => `\\u{${code.toString(16)}}`;

/** A text as HTML. Characters that hide something are shown as escapes. */
function toHtml(text, hiding) {
  const shown = text.replaceAll("\r\n", "\n").replace(hiding, (character) => escapeOf(character.codePointAt(0)));
  return shown.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The shown text of a part, from its data. */
function render(part, { texts, more }, entries, layout) {
  const list = (name, texts) => texts.map((text, index) => [`${name}.${index}`, text]);
  const documents = entries.map(({ line, event }) => [line, event]);
  if (part.document && texts.length > 0) documents.push([texts[0], "document"]);
  const leaves = [];
  for (const [text, prefix] of documents) {
    leaves.push(...flatten(text, prefix, Math.max(0, SHOWN_VALUES - leaves.length)));
  }
  const all = [...leaves, ...list("texts", texts), ...list("more", more)];
  const rows = rowsOf(part.rows, indexOf(all), layout, "");
  const hiding = new RegExp(`[${layout.hiding.map((range) => range.map(escapeOf).join("-")).join("")}]`, "gu");
  return rows.map(([label, text]) => `<dt>${toHtml(label, hiding)}</dt><dd>${toHtml(text, hiding)}</dd>`).join("");
}

/** A list in an entry, of objects; empty if there is none. */
function listOf(value) {
  require(value === undefined || (Array.isArray(value) && value.every(isObject)), "an entry has no list where the log writes one");
  return value ?? [];
}

const NO_TEXTS = "a text belongs to no entry";

/** The checks of the texts of a part against its first entry, by the name in the layout. A text is the one with a digest in the entry. */
const TEXT_CHECKS = {
  async verdict(entry, { texts, more }) {
    require(entry, "the entry of the delivery is missing");
    require(texts.length <= 1 && more.length === 0, NO_TEXTS);
    const isOwn = texts.length === 0 || (await sha256Hex(texts[0])) === entry.parsed.verdict_sha256;
    require(isOwn, "the text is not the delivered one");
  },
  /** The facts of an evaluation and their raw records; "" is left out. */
  async facts(entry, { texts, more }) {
    const sources = entry?.parsed.facts_from;
    if (sources === undefined) {
      const isOwn = texts.length === 0 || (await sha256Hex(JSON.stringify(texts))) === entry?.parsed.facts_sha256;
      require(isOwn && more.length === 0, "the facts are not those of the entry");
      return;
    }
    require(isObject(sources), "the facts are not those of the entry");
    const statements = listOf(sources.relied_on);
    require(texts.length === statements.length && more.length === statements.length, "the facts are not those of the entry");
    const records = new Map();
    for (const { record } of listOf(sources.origins)) {
      if (typeof record?.record_id === "string" && !records.has(record.record_id)) records.set(record.record_id, record.raw_hash);
    }
    for (const [index, { fact_sha256, record_id }] of statements.entries()) {
      const isFact = texts[index] === "" || (await sha256Hex(texts[index])) === fact_sha256;
      require(isFact, "a fact is not that of the entry");
      const isRaw = more[index] === "" || (await sha256Hex(more[index])) === records.get(record_id);
      require(isRaw, "a raw record is not that of the entry");
    }
  },
  /** Texts whose digests are anywhere in the entry. */
  async digests(entry, { texts, more }) {
    const digests = new Set(entry?.line.match(/(?<=")[0-9a-f]{64}(?=")/g));
    for (const text of texts) require(digests.has(await sha256Hex(text)), NO_TEXTS);
    require(more.length === 0, NO_TEXTS);
  },
  none(_, { texts, more }) {
    require(texts.length + more.length === 0, NO_TEXTS);
  },
};

/** Why an entry is not shown as one of the delivery; undefined if one of them names the other. */
function notNamed(entry, delivery) {
  if (delivery.links?.has(entry.itself) || entry.links?.has(delivery.itself)) return undefined;
  require(!(entry.seq < delivery.seq ? delivery : entry).links, `entry ${entry.seq} is not of this delivery`);
  return `the log does not say that entry ${entry.seq} is of this delivery`;
}

/**
 * Checks the parts of a card. `blocks` has the data of each part as text, by its id. Each result has `fault` if the part was changed;
 * `doubt`, the reason, if it cannot be checked; `isEmpty` if it has no entry; `isTest` if an entry is of a daemon in test mode; and `html`,
 * the text that the part must show, unless it has a fault or the proof has one.
 */
export async function checkParts(blocks, layout) {
  const [results, numbers] = [{}, new Set()];
  const declared = new Set(layout.parts.flatMap(({ events }) => events));
  let checkpoint, delivery;
  const checkEntries = async (part, data) => {
    const entries = [];
    // each event once: more entries are those of other deliveries
    const events = new Set();
    for (const proved of data.entries) {
      const entry = await readEntry(proved);
      const isOwn = part.others ? !declared.has(entry.event) : part.events.includes(entry.event);
      require(isOwn && (part.others || !events.has(entry.event)), "an entry belongs to another part");
      require(!numbers.has(entry.seq) && !(entries.at(-1)?.seq > entry.seq), "an entry is repeated, or not in its place");
      events.add(entry.event);
      numbers.add(entry.seq);
      entries.push(entry);
      const isIn = await isIncluded(entry.hash, entry.seq - 1, checkpoint.size, entry.hashes, checkpoint.root);
      require(isIn, `entry ${entry.seq} is not in the log`);
    }
    return entries;
  };
  const check = async (part, result) => {
    const data = readData(blocks[part.id]);
    let entries = [];
    if (part.check !== "proof" && !checkpoint) {
      // nothing is shown before it is verified
      result.doubt = "the checkpoint of the proof was changed";
      return;
    }
    if (part.check === "proof") {
      require(data.entries.length === 0, "the proof has no entries");
      checkpoint = await checkCheckpoint(data.texts, data.more);
      Object.assign(result, { cosigned: checkpoint.cosigned, key: data.texts[1], witnesses: data.more, size: checkpoint.size });
    } else {
      entries = await checkEntries(part, data);
      await TEXT_CHECKS[part.check ?? "none"](entries[0], data);
      const isDelivery = part.check === "verdict";
      const doubts = entries.map((entry) => (isDelivery ? undefined : delivery ? notNamed(entry, delivery) : "the part of the verdict was changed"));
      result.doubt = doubts.find((doubt) => doubt !== undefined);
      for (const [name, value] of Object.entries(part.needed ?? {})) {
        const isMissing = entries.length === 0 && delivery?.parsed[name] === value;
        require(!isMissing, "the card must have an entry here, and has none");
      }
      // only now: what was changed in the verdict is no fault of the other parts
      if (isDelivery) {
        [delivery] = entries;
        const { session_id } = delivery.parsed;
        Object.assign(result, { sessionId: typeof session_id === "string" ? session_id : undefined, text: data.texts[0] });
      }
    }
    Object.assign(result, { isEmpty: part.check !== "proof" && entries.length === 0, isTest: entries.some(({ isTest }) => isTest) });
    result.html = render(part, data, entries, layout);
    if (!checkpoint.isChecked) result.doubt ??= "no Ed25519 here";
  };
  // the proof first: the others need its checkpoint; then the verdict, which names the entries of the others
  const rank = ({ check }) => ["verdict", "proof"].indexOf(check);
  for (const part of [...layout.parts].sort((one, other) => rank(other) - rank(one))) {
    const result = (results[part.id] = {});
    try {
      await check(part, result);
    } catch (error) {
      result.fault = error instanceof Fault ? error.message : "the data cannot be read";
    }
  }
  return results;
}
