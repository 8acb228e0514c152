// Sections under node-redlock: takes the options of the benches' workers, and prints what
// they print.

import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import Redis from "ioredis";
import Redlock from "redlock";

const text = { type: "string" };
const flag = { type: "boolean" };
const { values } = parseArgs({
  options: {
    url: text, clients: text, tasks: text, "run-ms": text, "hold-us": text,
    ping: flag, "own-keys": flag,
  },
});
const clients = Number(values.clients);
const tasks = Number(values.tasks);
const holdMs = Number(values["hold-us"]) / 1000;

const locks = [];
for (let n = 0; n < clients; n += 1) {
  const redis = new Redis(values.url);
  await redis.ping();
  // Its default pause, 200 ms and jitter; as many tries as it takes.
  locks.push(new Redlock([redis], { retryCount: -1 }));
}

async function comeAndGo(redlock, task, until, records) {
  const name = values["own-keys"] ? `node-${task}` : "node";
  for (;;) {
    const asked = process.hrtime.bigint();
    if (asked >= until) return;
    const lock = await redlock.acquire([name], 30_000);
    const start = process.hrtime.bigint();
    if (holdMs > 0) await sleep(holdMs);
    const end = process.hrtime.bigint();
    await lock.release();
    records.push(`[${task},${asked},${start},${end}]`);
  }
}

console.log('"ready"');
await once(process.stdin, "data");
const until = process.hrtime.bigint() + BigInt(values["run-ms"]) * 1_000_000n;
const records = [];
const running = [];
for (let task = 0; task < clients * tasks; task += 1) {
  running.push(comeAndGo(locks[Math.floor(task / tasks)], task, until, records));
}
// Tasks that still wait a second after the end stop waiting.
await Promise.race([Promise.all(running), sleep(Number(values["run-ms"]) + 1000)]);
process.stdout.write(records.map((record) => `${record}\n`).join(""), () => process.exit(0));
