"""redis-py's asyncio Lock: every worker's calls are tasks of one event loop, as in a program that uses asyncio.

`cancel` cancels the task of the worker's call that is under way.
Options: `retries` (of the driver), `no_ttl` (a lock without a lease).
"""
import asyncio
import threading

import fencepost

fencepost.use("redis_py", "8.1.0")
import redis
import redis.asyncio
import redis.exceptions
from redis.asyncio.lock import Lock
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff


class Adapter:
    shares_a_thread = True

    def init(self, init):
        self.settings, self.handles, self.calls = init, {}, {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.wait_for(self.connect())
        version = fencepost.version_of("redis")
        return {"library": "redis-py asyncio", "version": version, "driver": f"redis-py {version}",
                "retries": fencepost.retries(init)}

    async def connect(self):
        host, port = fencepost.addresses(self.settings)[0]
        seconds = self.settings["node_timeout_ms"] / 1000
        self.client = redis.asyncio.Redis(
            host=host, port=port, socket_timeout=seconds, socket_connect_timeout=seconds,
            retry=Retry(NoBackoff(), fencepost.retries(self.settings)))
        try:
            await self.client.ping()
        except redis.exceptions.RedisError as error:
            print(f"warm-up: {error}", file=fencepost.sys.stderr)

    def wait_for(self, coroutine, worker=None):
        self.calls[worker] = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        return self.calls[worker].result()

    def cancel(self, worker, key):
        if worker in self.calls:
            self.calls[worker].cancel()

    def code_of(self, error):
        return fencepost.code_of(error, resent=fencepost.retries(self.settings) > 0)

    def acquire(self, worker, key, wait):
        timeout = 0 if self.settings["options"].get("no_ttl") else self.settings["ttl_ms"] / 1000
        handle = Lock(self.client, self.settings["prefix"] + key, timeout=timeout, thread_local=False,
                      sleep=self.settings["retry_ms"] / 1000)
        self.handles[worker, key] = handle
        if not self.wait_for(handle.acquire(blocking=wait > 0, blocking_timeout=wait or None), worker):
            raise fencepost.Refused("held")
        return {"owner": handle.local.token.decode()}

    def ask(self, worker, key, call):
        if (worker, key) not in self.handles:
            raise fencepost.Refused("not-held")
        try:
            return self.wait_for(call(self.handles[worker, key]), worker)
        except redis.exceptions.LockNotOwnedError as error:
            raise fencepost.Refused("not-owner", str(error))
        except redis.exceptions.LockError as error:
            raise fencepost.Refused("not-held", str(error))

    def release(self, worker, key):
        self.ask(worker, key, lambda handle: handle.release())

    def extend(self, worker, key, ttl):
        same = ttl == self.settings["ttl_ms"]
        self.ask(worker, key, lambda h: h.reacquire() if same else h.extend(ttl / 1000, replace_ttl=True))

    def held(self, worker, key):
        return (worker, key) in self.handles and self.ask(worker, key, lambda handle: handle.owned())


if __name__ == "__main__":
    fencepost.serve(Adapter())
