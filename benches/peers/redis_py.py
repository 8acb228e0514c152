"""Sections under redis-py's asyncio Lock: takes the options of the benches' workers, and
prints what they print."""

import argparse
import asyncio
import json
import os
import sys
import time

import redis.asyncio


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    for name in ("clients", "tasks", "run-ms", "hold-us"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("ping", "own-keys"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args()


async def come_and_go(client, options, task, until, records):
    name = f"py-{task}" if options.own_keys else "py"
    while (asked := time.monotonic_ns()) < until:
        # Its defaults: a pause of 100 ms between two tries.
        lock = client.lock(name, timeout=30)
        await lock.acquire()
        start = time.monotonic_ns()
        if options.hold_us:
            await asyncio.sleep(options.hold_us / 1e6)
        end = time.monotonic_ns()
        await lock.release()
        records.append((task, asked, start, end))


async def main():
    options = arguments()
    clients = [redis.asyncio.from_url(options.url) for _ in range(options.clients)]
    for client in clients:
        await client.ping()
    print('"ready"', flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    until = time.monotonic_ns() + options.run_ms * 1_000_000
    records = []
    tasks = [
        asyncio.create_task(
            come_and_go(clients[task // options.tasks], options, task, until, records)
        )
        for task in range(options.clients * options.tasks)
    ]
    # Those who still wait a second after the end, wait no more.
    done, _ = await asyncio.wait(tasks, timeout=options.run_ms / 1000 + 1)
    for task in done:
        task.result()
    for record in records:
        print(json.dumps(record))
    sys.stdout.flush()
    os._exit(0)


asyncio.run(main())
