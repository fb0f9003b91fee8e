
/** Shows the result for each part of a card. */
async function showResults(card) {
  const layout = JSON.parse(card.getElementById("layout").textContent);
  const sections = layout.parts.map(({ id }) => card.getElementById(id));
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
    const { fault, doubt, isTest, isEmpty, html } = results[section.id];
    const expected = card.createElement("dl");
    expected.innerHTML = html ?? "";
    if (fault) show(section, "changed", `changed: ${fault}`);
    else if (html === undefined) show(section, "unchecked", `not checked: ${doubt}`);
    else if (!expected.isEqualNode(section.querySelector("dl"))) show(section, "changed", "changed: the shown text is not that of its data");
    else if (doubt) show(section, "unchecked", `not checked: ${doubt}`);
    else if (isTest) show(section, "test", "test mode: this is consistent with the log of a test, and no verdict for a customer");
    else if (isEmpty) show(section, "empty", "nothing to check: the card has no entry for this part");
    else if (section.id !== "proof") show(section, "consistent", "consistent with the log");
    else {
      const cosigned = results.proof.cosigned.map(({ name, at }) => `; cosigned by ${name} at ${at}`).join("");
      show(section, "consistent", `consistent with the log key ${results.proof.key}; compare it with the one you were given${cosigned}`);
    }
  }
}

if (globalThis.document) {
  await showResults(document);
  document.documentElement.dataset.checked = "true";
}
