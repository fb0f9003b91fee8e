import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { OracledClient, type OracleQuery } from "oracled-client";
import { TestDaemon } from "./daemon.js";

// `oracled dev` registers two sources and a workflow
let daemon: TestDaemon;
let oracled: OracledClient;

before(async () => {
  daemon = await TestDaemon.start();
  oracled = new OracledClient({ socketPath: daemon.socketPath });
});

after(async () => {
  oracled.close();
  await daemon.stop();
});

test("query_returns_numbers_as_strings_and_leads_to_the_record", async () => {
  const sources = await oracled.listSources();
  assert.ok(sources.body.some((source) => source.oracle_id === "dev-1-world-bank"));
  const { body } = await oracled.querySource({
    oracle_id: "dev-1-world-bank",
    request: {
      axes_requested: ["population"],
      filters: [
        { axis: "area", operator: "eq", value: "MDA" },
        { axis: "year", operator: "eq", value: 2015 },
      ],
    },
  });
  const [record] = body.response.records;
  assert.equal(record?.axes.population, "2835978");
  const read = await oracled.readRecord(record.record_id);
  assert.equal(read.body.axes.population, "2835978");
  const provenance = await oracled.readProvenance(record.record_id);
  assert.equal(provenance.body.record_id, record.record_id);
});

test("query_of_an_unknown_source_is_a_problem", async () => {
  const query = oracled.querySource({ oracle_id: "none", request: { axes_requested: ["population"] } });
  await assert.rejects(query, { name: "ProblemError", code: "source_unknown", status: 404 });
});

test("verification_has_a_value_only_if_it_is_authoritative", async () => {
  const question = { workflow: "dev-1-census", where: { area: "SRB", year: 2015 }, axes: ["population"] };
  const { body, text } = await oracled.verifyValues(question);
  assert.equal(body.kind, "authoritative");
  assert.equal(body.axes.population?.value, "7095383");
  const again = await oracled.readVerification(body.execution_id);
  assert.equal(again.text, text);
});

test("batches_of_queries_and_questions_return_results_in_order", async () => {
  const areaOf = (number: number): string => (number % 2 === 0 ? "MDA" : "SRB");
  async function* queries(): AsyncGenerator<OracleQuery> {
    for (let number = 0; number < 300; number += 1) {
      const filters: NonNullable<OracleQuery["request"]["filters"]> = [
        { axis: "area", operator: "eq", value: areaOf(number) },
        { axis: "year", operator: "eq", value: 2015 },
      ];
      yield { oracle_id: "dev-1-world-bank", request: { axes_requested: ["population"], filters } };
    }
    yield { oracle_id: "none", request: { axes_requested: ["population"] } };
  }
  let line = 0;
  for await (const result of oracled.querySources(queries())) {
    line += 1;
    assert.equal(result.line, line);
    if (line <= 300) {
      assert.deepEqual(result.answer?.response.records.map(({ axes }) => axes.area), [areaOf(line - 1)]);
    } else {
      assert.equal(result.problem?.code, "source_unknown");
    }
  }
  assert.equal(line, 301);
  const question = { workflow: "dev-1-census", where: { area: "SRB", year: 2015 }, axes: ["population"] };
  const results = [];
  for await (const { line, envelope, problem } of oracled.verifyValuesInBatch([question, { ...question, workflow: "none" }])) {
    results.push([line, envelope?.axes.population?.value, problem?.code]);
  }
  assert.deepEqual(results, [
    [1, "7095383", undefined],
    [2, undefined, "workflow_unknown"],
  ]);
});
