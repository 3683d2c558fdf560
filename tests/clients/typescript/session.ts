import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./standings.js";

type Event = components["schemas"]["Event"];
type Problem = components["schemas"]["Problem"];
type TakenEvent = components["schemas"]["TakenEvent"];

const client = createClient<paths>({
  baseUrl: process.env.STANDINGS_URL ?? "http://127.0.0.1:8080",
  headers: { Authorization: `Bearer ${process.env.STANDINGS_API_KEY}` },
  // The service accepts lists as `ids=a,b`.
  querySerializer: { array: { style: "form", explode: false } },
});
const board = "clients-typescript";

/** Posts an event, and retries while that may help. With its id it counts once. */
async function post(event: Event & { id: string }): Promise<TakenEvent> {
  for (let pause = 200; ; pause = Math.min(pause * 2, 10_000)) {
    const sent = client.POST("/v1/boards/{board}/events", { params: { path: { board } }, body: event });
    const answer = await sent.catch(() => undefined); // no connection
    const data = answer?.data;
    if (data?.status === "queued") throw new Error(`${data.id} is queued`); // the board has `ingest: async`
    if (data) return data;
    const problem: Problem | undefined = answer?.error;
    if (problem && problem.status < 500 && problem.code !== "rate-limited" && problem.code !== "request-timeout") {
      throw new Error(`${problem.code}: ${problem.detail}`);
    }
    const retryAfter = Number(answer?.response.headers.get("Retry-After") ?? 0);
    await sleep(Math.max(retryAfter * 1000, pause * (0.5 + Math.random() / 2)));
  }
}

// Create a board. What the definition leaves out has a default.
const created = await client.PUT("/v1/boards/{board}", {
  params: { path: { board } },
  body: { windows: ["day", "all"], retention: { day: "90d" }, score_max: 100 },
});
assert(created.data, created.error?.detail);
assert.equal(created.data.timezone, "UTC");

// Post an event, and send it again as if the response had been lost.
const event = { id: "e-1", member: "ann", score: 30 };
const taken = await post(event);
assert.equal(taken.status, "applied");
assert.equal(taken.standings[0]?.score, 30);
assert.equal((await post(event)).status, "duplicate");

// Post a batch. Each event has its own result, with a `status`.
const batch = await client.POST("/v1/events", {
  body: {
    events: [
      { board, id: "e-2", member: "bob", score: 20 },
      { board, id: "e-3", member: "cid", score: 1000 },
    ],
  },
});
assert(batch.data, batch.error?.detail);
const refused = batch.data.results.flatMap((result) => (result.status === "rejected" ? [result.problem.code] : []));
assert.deepEqual(refused, ["score-out-of-range"]);

// Read a page, and again only if it has changed.
const path = { board, window: "day" };
const page = await client.GET("/v1/boards/{board}/standings/{window}", { params: { path, query: { size: 10 } } });
assert(page.data, page.error?.detail);
const lines = page.data.entries.map((entry) => `${entry.rank}. ${entry.member} ${entry.score}`);
assert.deepEqual(lines, ["1. ann 30", "2. bob 20"]);
const unchanged = await client.GET("/v1/boards/{board}/standings/{window}", {
  params: { path, query: { size: 10 }, header: { "If-None-Match": page.response.headers.get("ETag") ?? "" } },
});
assert.equal(unchanged.response.status, 304);

// Read a member with its neighbours, and some members.
const member = await client.GET("/v1/boards/{board}/standings/{window}/members/{member}", {
  params: { path: { ...path, member: "bob" }, query: { around: 1 } },
});
assert.equal(member.data?.rank, 2);
assert.equal(member.data?.ahead?.gap, 10);
const friends = await client.GET("/v1/boards/{board}/standings/{window}/members", {
  params: { path, query: { ids: ["ann", "zoe"] } },
});
assert.deepEqual(friends.data?.not_found, ["zoe"]);

// Branch on the code of a problem.
const stranger = await client.GET("/v1/boards/{board}/standings/{window}/members/{member}", {
  params: { path: { ...path, member: "zoe" } },
});
const problem = stranger.error;
assert(problem);
if (problem.code !== "member-not-found") throw new Error(problem.detail);

const deleted = await client.DELETE("/v1/boards/{board}", { params: { path: { board } } });
assert.equal(deleted.response.status, 204);
console.log("The TypeScript client has played its session.");
