"""The client protocol (PROTOCOL.md) for adapters in Python: lines in, lines out, and the published error codes.

Owns standard input and output, threads and codes. Must not know any lock library. An adapter is a class with `init`,
`acquire`, `release` and what else its library has, given to `serve`.

Each worker has two threads of its own: one makes every lock call, so that a library's thread-local state is right,
the other spends `work`, so that `extend` can come meanwhile. What disturbs a worker (`cancel`, `drop` and the like) has a
thread for itself, since it comes while the worker's own is in a call. `kill-thread` ends the thread that makes the lock
calls, whatever it holds; the worker's next call is made by a new one. Python ends no thread inside of a call.
"""
import importlib.metadata
import json
import os
import queue
import sys
import threading
import time

# Codes that say, by operation, that it certainly had no effect (the error table of PROTOCOL.md). All others are doubt.
REFUSED = {
    "connection-refused", "not-sent", "moved", "readonly", "noreplicas", "oom", "misconf", "loading", "clusterdown",
    "masterdown", "noscript", "busy", "noauth",
}
NOTHING_SENT = {"unsupported", "bad-request", "not-initialised"}
DISTURB = {"cancel": "cancel", "interrupt": "interrupt", "drop": "drop"}
DEFINITE = {
    "acquire": REFUSED | NOTHING_SENT | {"held", "too-late", "no-quorum"},
    "release": NOTHING_SENT | {"not-owner", "not-held"},
    "extend": NOTHING_SENT | {"not-owner", "not-held", "lease-over"},
}
SERVER_ERRORS = {
    "MOVED": "moved", "ASK": "moved", "READONLY": "readonly", "NOREPLICAS": "noreplicas", "OOM": "oom",
    "MISCONF": "misconf", "LOADING": "loading", "CLUSTERDOWN": "clusterdown", "TRYAGAIN": "clusterdown",
    "MASTERDOWN": "masterdown", "NOSCRIPT": "noscript", "BUSY": "busy", "NOAUTH": "noauth", "WRONGPASS": "noauth",
    "NOPERM": "noauth",
}


class Refused(Exception):
    """An operation that is not ok, with a code of the error table."""

    def __init__(self, code, message=""):
        super().__init__(message or code)
        self.code = code


class Missing(Exception):
    """The library is not installed in the cache."""


def use(adapter, default):
    """Put the cache's folder of `--version X` (or the default) in front of the import path; the version."""
    args = sys.argv[1:]
    version = args[args.index("--version") + 1] if "--version" in args[:-1] else default
    cache = os.environ.get("FENCEPOST_ADAPTERS")
    if not cache:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        cache = os.path.join(base, "fencepost", "adapters")
    folder = os.path.join(cache, "python", f"{adapter}-{version}")
    if not os.path.isfile(os.path.join(folder, ".installed")):
        serve(NotThere(f"{adapter} {version} is not in {folder}: adapters/setup python installs it"))
        sys.exit(1)
    sys.path.insert(0, folder)
    return version


class NotThere:
    """Refuses `init` and says why."""

    def __init__(self, why):
        self.why = why

    def init(self, init):
        raise Refused("unsupported", self.why)


def version_of(distribution):
    return importlib.metadata.version(distribution)


def code_of(error, resent=False):
    """The code of a redis-py exception, by its name and first word; `resent`: the driver may have sent it before."""
    if isinstance(error, Refused):
        return error.code
    words = str(error).split()
    named = {type_.__name__ for type_ in type(error).__mro__}
    if words and words[0] in SERVER_ERRORS:
        return SERVER_ERRORS[words[0]]
    for name, code in (("BusyLoadingError", "loading"), ("ReadOnlyError", "readonly"), ("NoScriptError", "noscript"),
                       ("OutOfMemoryError", "oom"), ("AuthenticationError", "noauth"), ("NoPermissionError", "noauth"),
                       ("ResponseError", "server-error"), ("TimeoutError", "timeout"), ("CancelledError", "interrupted"),
                       ("InvalidResponse", "garbled")):
        if name in named:
            return code
    if named & {"ConnectionError", "ConnectionRefusedError", "OSError"}:
        # Refused while connecting: no byte of this command left, unless an earlier try of the driver sent it.
        refused = "ConnectionRefusedError" in named or ("111" in str(error) and "connecting to" in str(error))
        return "connection-refused" if refused and not resent else "connection-reset"
    return "crash"


def quorum_code(errors, answered, nodes):
    """The code of a failed try on several nodes, from the driver's exceptions: doubt as soon as one may have acted."""
    if any(code not in REFUSED for code in map(code_of, errors)):
        return "no-quorum-unclean"
    return "held" if nodes == 1 and answered else "no-quorum"


class Seen:
    """What the driver raised, by key, also where the library swallows it; see `watched`."""

    def __init__(self):
        self.lock = threading.Lock()
        self.errors = {}

    def note(self, args, error):
        for key in (a for a in args if isinstance(a, str)):
            with self.lock:
                if key in self.errors:
                    self.errors[key].append(error)

    def begin(self, key):
        with self.lock:
            self.errors[key] = []

    def of(self, key):
        with self.lock:
            return list(self.errors.get(key, []))


def watched(client_class, seen):
    """A redis-py client that notes its exceptions and changes nothing else."""

    class Watched(client_class):
        def execute_command(self, *args, **options):
            try:
                return super().execute_command(*args, **options)
            except Exception as error:
                # The driver answers this one itself, by sending the script's text.
                if type(error).__name__ != "NoScriptError":
                    seen.note(args, error)
                raise

    return Watched


def addresses(init):
    """`[(host, port)]` of the nodes."""
    pairs = (node.rsplit(":", 1) for node in init["nodes"])
    return [(host.strip("[]"), int(port)) for host, port in pairs]


def redis_client(module, init, node=0, client_class=None):
    """A redis-py client of one node: one try a command unless `options.retries` says otherwise, warmed up."""
    host, port = addresses(init)[node]
    seconds = init["node_timeout_ms"] / 1000
    settings = {"host": host, "port": port, "socket_timeout": seconds, "socket_connect_timeout": seconds}
    try:
        from redis.backoff import NoBackoff
        from redis.retry import Retry
        settings["retry"] = Retry(NoBackoff(), retries(init))
    except ImportError:  # before 4: nothing is sent again unless asked for
        pass
    return (client_class or module.Redis)(**settings)


def warm_up(clients):
    """Connect; a node that is down now may be up later."""
    for client in clients:
        try:
            client.ping()
        except Exception as error:
            print(f"warm-up: {error}", file=sys.stderr)


def retries(init):
    return int(init["options"].get("retries", 0))


class Lines:
    """Standard output: a line an answer, whole, whoever writes."""

    def __init__(self):
        self.lock = threading.Lock()

    def write(self, line):
        data = (json.dumps(line) + "\n").encode()
        with self.lock:
            while data:
                data = data[os.write(1, data):]


LINES = Lines()


def lost(worker, key):
    """The library told its user that the lock is gone."""
    LINES.write({"type": "lost", "worker": worker, "key": key})


def serve(adapter):
    """Serve until `close` or the end of standard input."""
    workers, ready = {}, False
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        try:
            request = json.loads(line)
            number, op = request["id"], request["op"]
        except (ValueError, KeyError, TypeError) as error:
            LINES.write({"type": "fail", "error": "bad-request", "message": str(error)})
            continue
        if op in ("init", "tick", "close"):
            answer = attempt(adapter, op, request) if op != "tick" else {"type": "ok"}
            ready = ready or (op == "init" and answer["type"] == "ok")
            LINES.write({"id": number, **answer})
            if op == "close":
                break
        elif not ready:
            LINES.write({"id": number, "type": "fail", "error": "not-initialised"})
        elif op in ("acquire", "release", "extend", "held", "work"):
            place = (request.get("worker", 0), op == "work")
            if place not in workers:
                workers[place] = Worker(adapter)
            workers[place].put(request)
        elif op == "kill-thread":
            LINES.write({"id": number, **kill_thread(adapter, workers, request.get("worker", 0))})
        elif op in DISTURB:
            threading.Thread(target=say, args=(adapter, request), daemon=True).start()
        else:
            LINES.write({"id": number, "type": "fail", "error": "unsupported"})
    # Threads of the library and calls that hang keep no process.
    sys.stderr.flush()
    os._exit(0)


class Worker:
    """A thread that makes one call after the other. Only the thread that reads standard input puts and ends."""

    def __init__(self, adapter):
        self.requests, self.lock, self.open = queue.SimpleQueue(), threading.Lock(), 0
        self.thread = threading.Thread(target=self.work_off, args=(adapter,), daemon=True)
        self.thread.start()

    def put(self, request):
        with self.lock:
            self.open += 1
        self.requests.put(request)

    def work_off(self, adapter):
        while (request := self.requests.get()) is not None:
            # Before it is told: whoever was answered finds the worker at rest.
            answer = answered(adapter, request)
            with self.lock:
                self.open -= 1
            LINES.write(answer)

    def end(self):
        """False: it is in a call, or one waits for it."""
        with self.lock:
            if self.open:
                return False
        self.requests.put(None)
        self.thread.join()
        return True


def kill_thread(adapter, workers, number):
    """Where the library's calls are made by a thread that all workers share, `adapter.shares_a_thread` is true."""
    if getattr(adapter, "shares_a_thread", False):
        message = "the library's calls are made by one thread for all workers"
        return {"type": "fail", "error": "unsupported", "message": message}
    worker = workers.get((number, False))
    if worker is not None and not worker.end():
        return {"type": "fail", "error": "unsupported", "message": "Python ends no thread inside of a call"}
    workers.pop((number, False), None)
    return {"type": "ok"}


def say(adapter, request):
    LINES.write(answered(adapter, request))


def answered(adapter, request):
    called = time.monotonic()
    answer = attempt(adapter, request["op"], request)
    took = round((time.monotonic() - called) * 1000, 3)
    return {"id": request["id"], **answer, "took_ms": took}


def attempt(adapter, op, request):
    try:
        return {"type": "ok", **call(adapter, op, request)}
    except Refused as refused:
        code, message = refused.code, str(refused)
    except Exception as error:
        code, message = getattr(adapter, "code_of", code_of)(error), f"{type(error).__name__}: {error}"
    definite = op not in DEFINITE or code in DEFINITE[op]
    return {"type": "fail" if definite else "info", "error": code, "message": message}


def call(adapter, op, request):
    if op == "init":
        return {"value": adapter.init(request)}
    if op == "close":
        getattr(adapter, "close", lambda: None)()
        return {}
    worker = request.get("worker", 0)
    if op == "work":
        time.sleep(request.get("ms", 0) / 1000)
        return {}
    if not hasattr(adapter, DISTURB.get(op, op)):
        raise Refused("unsupported", f"this library has no `{op}`")
    key = request["key"]
    if op in DISTURB:
        getattr(adapter, DISTURB[op])(worker, key)
        return {}
    if op == "acquire":
        return {"value": adapter.acquire(worker, key, request.get("wait_ms", 0) / 1000)}
    if op == "extend":
        return {"value": adapter.extend(worker, key, request["ttl_ms"]) or {}}
    if op == "held":
        return {"value": {"held": bool(adapter.held(worker, key))}}
    adapter.release(worker, key)
    return {}
