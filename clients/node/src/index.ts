export * from "./card.js";
export * from "./client.js";
export { ConnectionError, OracledError, ProblemError, RejectedError, ResponseError, TemporaryError, TimeoutError } from "./errors.js";
export type { BatchResult, QueryResult, VerifyResult } from "./batch.js";
export type * from "./generated.js";
export type { Answer, CallOptions, ClientOptions, FakeRequest, FakeResponse } from "./transport.js";
export * from "./webhooks.js";
