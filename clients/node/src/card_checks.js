// The checks of a verdict card: SHA-256 and Ed25519 by WebCrypto, and nothing else. The page runs them in a browser, and the client
// for Node runs the same file. `docs/card.md` says what they check.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^ \t\n\r{}[\],:"]+/gs;
const utf8 = new TextEncoder();
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const join = (...parts) => Uint8Array.from(parts.flatMap((part) => Array.from(part)));
const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
const sha256Hex = async (text) => hex(await sha256(utf8.encode(text)));
const isEqual = (left, right) => left.length === right.length && left.every((byte, index) => byte === right[index]);

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

/** The text of a token of JSON. A token that is no text of Unicode stays as it is. */
function decode(token) {
  if (!token.startsWith('"')) return token;
  try {
    const text = JSON.parse(token);
    return /\p{Surrogate}/u.test(text) ? token : text;
  } catch {
    return token;
  }
}

/** The values of a JSON text, each with its path, in their order. Numbers keep their digits; null is left out. */
function flatten(text, prefix) {
  const [leaves, path, levels] = [[], [prefix], []];
  for (const [token] of text.matchAll(TOKEN)) {
    const level = levels.at(-1);
    if (token === "{" || token === "[") {
      levels.push(token === "[" ? { index: 0 } : { index: -1, isName: true });
      path.push(token === "[" ? "0" : "");
    } else if (token === "}" || token === "]") {
      levels.pop();
      if (path.length > 1) path.pop();
    } else if (token === ",") {
      if (level?.index >= 0) path[path.length - 1] = String(++level.index);
      else if (level) level.isName = true;
    } else if (level?.isName) {
      path[path.length - 1] = decode(token);
      level.isName = false;
    } else if (token !== ":" && token !== "null") {
      leaves.push([path.join("."), decode(token)]);
    }
  }
  return leaves;
}

/** The members of a JSON object as pairs of a name and the text of its value. */
function members(line) {
  const [found, depth] = [[], { now: 0 }];
  let [name, start, end] = [undefined, 0, 0];
  for (const match of line.matchAll(TOKEN)) {
    const [token] = match;
    const isSeparator = depth.now === 1 && (token === "," || token === "}");
    if (isSeparator && name !== undefined) found.push([name, line.slice(start, end)]);
    if (isSeparator) name = undefined;
    else if (depth.now === 1 && name === undefined) name = decode(token);
    else if (depth.now === 1 && token === ":") start = match.index + 1;
    if (token === "{" || token === "[") depth.now += 1;
    if (token === "}" || token === "]") depth.now -= 1;
    end = match.index + token.length;
  }
  return found;
}

const object = (pairs) => `{${pairs.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;

/** The leaf of an entry in the tree: a hash of the salt and the value in place of each value with a salt. */
async function leafOf(line) {
  const all = members(line);
  const salts = all.find(([name]) => name === "salts");
  if (!salts) return line;
  const salt = Object.fromEntries(members(salts[1]).map(([name, value]) => [name, decode(value)]));
  const own = [...all.filter(([name]) => name !== "salts"), ["salts", JSON.stringify(salt)]];
  require(object(own) === line, "the line is not one that the log writes");
  const leaf = own.slice(0, -1).map(async ([name, value]) => {
    return Object.hasOwn(salt, name) ? [name, `{"sha256":"${await sha256Hex(salt[name] + value)}"}`] : [name, value];
  });
  return object(await Promise.all(leaf));
}

/** Whether the leaf number `index` is in the tree of `size` leaves with this root (RFC 9162, 2.1.3.2). */
async function isIncluded(leaf, index, size, hashes, root) {
  if (!(index >= 0 && index < size)) return false;
  let [node, last, hash] = [index, size - 1, await sha256(join([0], utf8.encode(leaf)))];
  for (const sibling of hashes.map(fromBase64)) {
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

/** Reads a public key in the form NAME+ID+KEY (C2SP signed-note). */
async function readKey(text, type) {
  const [, name, id, encoded] = /^([^+\s]+)\+([0-9a-f]{8})\+(.+)$/s.exec(text) ?? [];
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
  require(/^[1-9]\d{0,15}$/.test(size) && more.join() === "", "the checkpoint is not that of a log");
  const checkpoint = { size: Number(size), root: fromBase64(root), cosigned: [], isChecked: true };
  const key = await readKey(keyText, 1);
  const witnesses = await Promise.all(witnessTexts.map((witness) => readKey(witness, 4)));
  require(origin === key.name, "the checkpoint is of another log than the key");
  const open = new Set([key, ...witnesses]);
  for (const line of lines) {
    const [, name, encoded] = /^— ([^+\s]+) (.+)$/s.exec(line) ?? [];
    require(encoded, "the checkpoint has a line that is no signature");
    const bytes = fromBase64(encoded);
    const signer = [...open].find((each) => each.name === name && isEqual(each.id, bytes.slice(0, 4)));
    require(signer, "a signature is not of one of the keys");
    open.delete(signer);
    let [signature, message] = [bytes.slice(4), text];
    if (signer !== key) {
      require(signature.length === 72, "a cosignature is not complete");
      const seconds = new DataView(signature.buffer, signature.byteOffset).getBigUint64(0);
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
function readData(text) {
  try {
    const { entries, texts, more } = JSON.parse(text);
    const proved = entries.map(({ line, proof: { hashes } }) => ({ line: String(line), proof: { hashes: hashes.map(String) } }));
    const data = { entries: proved, texts: texts.map(String), more: more.map(String) };
    require(JSON.stringify(data).replaceAll("<", "\\u003c") === text, "the data are not in their form");
    return { ...data, lines: proved.map(({ line }) => JSON.parse(line)) };
  } catch (error) {
    throw error instanceof Fault ? error : new Fault("the data cannot be read");
  }
}

const isUnder = (path, above) => path === above || path.startsWith(`${above}.`);

/** The rows of a part as pairs of a label and a text, by the layout of the page. */
function rowsOf(rows, leaves, layout, index) {
  return rows.flatMap((row) => {
    const at = (path) => path.replaceAll("#", index);
    if (row.unless?.some((path) => leaves.some(([leaf]) => isUnder(leaf, at(path))))) return [];
    if (row.text !== undefined) return [[row.label, row.text]];
    if (row.each !== undefined) {
      const shown = [];
      for (let number = 0; leaves.some(([leaf]) => isUnder(leaf, `${row.each}.${number}`)); number += 1) {
        shown.push(...rowsOf(row.rows, leaves, layout, String(number)));
      }
      return shown;
    }
    const path = at(row.path);
    const found = leaves.filter(([leaf, text]) => isUnder(leaf, path) && text !== "");
    const isHidden = found.length === 1 && found[0][0] === `${path}.sha256`;
    if (isHidden) return [[row.label, layout.withheld + found[0][1]]];
    if (row.hidden) return [];
    return found.map(([leaf, text]) => {
      const names = leaf.slice(path.length).split(".").filter((name) => name !== "" && !/^\d+$/.test(name));
      return [[row.label ?? "", ...names].filter((name) => name !== "").join(" › "), row.words?.[text] ?? text];
    });
  });
}

/** A text as HTML. Characters that hide something are shown as escapes. */
function toHtml(text, { hiding }) {
  const isHiding = (code) => hiding.some(([first, last]) => first <= code && code <= last);
  const shown = Array.from(text.replaceAll("\r\n", "\n"), (character) => {
    const code = character.codePointAt(0);
    return isHiding(code) ? `\\u{${code.toString(16)}}` : character;
  });
  return shown.join("").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The shown text of a part, from its data. */
function render(part, data, layout) {
  const list = (name, texts) => texts.map((text, index) => [`${name}.${index}`, text]);
  const leaves = [
    ...data.entries.flatMap(({ line }, index) => flatten(line, String(data.lines[index].event))),
    ...list("texts", data.texts),
    ...list("more", data.more),
    ...(part.document ? flatten(data.texts[0] ?? "", "document") : []),
  ];
  const rows = rowsOf(part.rows, leaves, layout, "");
  return rows.map(([label, text]) => `<dt>${toHtml(label, layout)}</dt><dd>${toHtml(text, layout)}</dd>`).join("");
}

/** Checks the facts of an evaluation and their raw records. Each text is the one with the digest in the entry; "" is left out. */
async function checkFacts([entry], { texts, more }) {
  const statements = entry?.facts_from?.relied_on ?? [];
  if (entry?.facts_from === undefined && texts.length > 0) {
    require((await sha256Hex(JSON.stringify(texts))) === entry?.facts_sha256, "the facts are not those of the entry");
    require(more.length === 0, "the entry has no raw records");
    return;
  }
  require(texts.length === statements.length && more.length === statements.length, "the facts are not those of the entry");
  for (const [index, statement] of statements.entries()) {
    const isFact = texts[index] === "" || (await sha256Hex(texts[index])) === statement.fact_sha256;
    require(isFact, "a fact is not that of the entry");
    const origins = entry.facts_from.origins.map(({ record }) => record);
    const record = origins.find((each) => each?.record_id === statement.record_id);
    require(more[index] === "" || (await sha256Hex(more[index])) === record?.raw_hash, "a raw record is not that of the entry");
  }
}

/** Checks the texts of a part against its entries. */
async function checkTexts(id, data) {
  if (id === "facts") return checkFacts(data.lines, data);
  const [entry] = data.lines;
  const isVerdict = id === "verdict";
  require(!isVerdict || entry?.event === "verdict_cached", "the entry of the delivery is missing");
  const texts = isVerdict ? data.texts.slice(1) : data.texts;
  require(texts.length + data.more.length === 0, "a text belongs to no entry");
  if (isVerdict && data.texts.length > 0) {
    require((await sha256Hex(data.texts[0])) === entry.verdict_sha256, "the text is not the delivered one");
  }
}

/** Whether an entry can be about the delivery of another entry. Erased members are unknown. */
function isAbout(entry, delivered) {
  const isOther = (one, other) => typeof one === "string" && typeof other === "string" && one !== other;
  return !["session_id", "verdict_sha256", "evaluation_sha256"].some((name) => isOther(entry[name], delivered[name]));
}

/**
 * Checks the parts of a card. `blocks` has the data of each part as text, by its id. Each result has `fault` if the part was changed,
 * `isChecked`, `isEmpty` if it has no entry, and `html`, the text that the part must show.
 */
export async function checkParts(blocks, layout) {
  const results = {};
  let checkpoint, delivered;
  const check = async (part) => {
    const data = readData(blocks[part.id]);
    Object.assign(results[part.id], { html: render(part, data, layout), isEmpty: part.id !== "proof" && data.entries.length === 0 });
    if (part.id === "proof") {
      require(data.entries.length === 0, "the proof has no entries");
      checkpoint = await checkCheckpoint(data.texts, data.more);
      results.proof.cosigned = checkpoint.cosigned;
      results.proof.key = data.texts[1];
    } else {
      require(data.lines.every(({ event }) => part.events.includes(event)), "an entry belongs to another part");
      await checkTexts(part.id, data);
      const subject = part.id === "verdict" ? data.lines[0] : delivered;
      for (const [index, { line, proof }] of data.entries.entries()) {
        const leaf = await leafOf(line);
        if (!checkpoint) continue;
        const { seq } = data.lines[index];
        const isIn = await isIncluded(leaf, seq - 1, checkpoint.size, proof.hashes, checkpoint.root);
        require(isIn, `entry ${seq} is not in the log`);
        require(!subject || isAbout(data.lines[index], subject), `entry ${seq} is about another verdict or its facts`);
        const hasFacts = subject?.evaluation_sha256 !== undefined || data.lines[index].evaluation_sha256 === undefined;
        require(!subject || hasFacts, "the verdict was delivered without facts");
      }
      const isComplete = part.id !== "divergence" || delivered?.path !== "regen" || data.lines.length > 0;
      require(isComplete, "the comparison with the first verdict is missing");
      // only now: what was changed in the verdict is no fault of the other parts
      if (part.id === "verdict") [delivered] = data.lines;
    }
    results[part.id].isChecked = checkpoint?.isChecked === true;
  };
  // the proof first: the others need its checkpoint; then the verdict, which names the session
  const rank = ({ id }) => ["verdict", "proof"].indexOf(id);
  for (const part of [...layout.parts].sort((one, other) => rank(other) - rank(one))) {
    results[part.id] = { isChecked: false };
    try {
      await check(part);
    } catch (error) {
      results[part.id].fault = error instanceof Fault ? error.message : "the data cannot be read";
    }
  }
  return results;
}
