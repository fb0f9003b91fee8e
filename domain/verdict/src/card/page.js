
/** Shows the result for each part. */
async function showResults() {
  const layout = JSON.parse(document.getElementById("layout").textContent);
  const sections = layout.parts.map(({ id }) => document.getElementById(id));
  const show = (section, kind, text) => {
    section.dataset.state = kind;
    section.querySelector(".state").textContent = text;
  };
  if (!globalThis.crypto?.subtle) {
    sections.forEach((section) => show(section, "unchecked", "not checked: this browser gives the page no cryptography"));
    return;
  }
  const blocks = Object.fromEntries(sections.map((section) => [section.id, section.querySelector("script").textContent]));
  const results = await checkParts(blocks, layout);
  for (const section of sections) {
    const { fault, isChecked, isEmpty, html } = results[section.id];
    const expected = document.createElement("dl");
    expected.innerHTML = html ?? "";
    if (fault) show(section, "changed", `changed: ${fault}`);
    else if (!expected.isEqualNode(section.querySelector("dl"))) show(section, "changed", "changed: the shown text is not that of its data");
    else if (results.proof.fault) show(section, "unchecked", "not checked: the checkpoint of the proof was changed");
    else if (!isChecked) show(section, "unchecked", "not checked: this browser has no Ed25519");
    else if (isEmpty) show(section, "empty", "nothing to check: the card has no entry for this part");
    else if (section.id !== "proof") show(section, "consistent", "consistent with the log");
    else {
      const cosigned = results.proof.cosigned.map(({ name, at }) => `; cosigned by ${name} at ${at}`).join("");
      show(section, "consistent", `consistent with the log key ${results.proof.key}; compare it with the one you were given${cosigned}`);
    }
  }
}

if (globalThis.document) {
  await showResults();
  document.documentElement.dataset.checked = "true";
}
