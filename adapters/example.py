"""The smallest honest adapter: SET NX PX and compare-and-delete over a plain socket. Serves one worker at a time."""
import json, secrets, socket, sys, time

UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"
held, link = {}, None                       # (worker, key) -> owner value; the connection

def call(*args):                            # one command, one answer
    global link
    if not link:                            # ConnectionRefusedError: nothing was sent
        host, port = init["nodes"][0].rsplit(":", 1)
        link = socket.create_connection((host, int(port)), init["node_timeout_ms"] / 1000).makefile("rwb")
    link.write(b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in map(str.encode, args)))
    link.flush()
    return link.readline().decode()

def acquire(me, key):
    owner, start = secrets.token_hex(16), time.monotonic()      # a fresh value for every attempt
    held[me] = owner                        # noted first: the answer may never come
    answer = call("SET", key, owner, "NX", "PX", str(init["ttl_ms"]))
    if answer.startswith("+OK"):
        left = init["ttl_ms"] * 0.99 - 2 - (time.monotonic() - start) * 1000
        return {"type": "ok", "value": {"owner": owner, "validity_ms": left}}
    if answer.startswith("$-1"):
        return {"type": "fail", "error": "held"}                # definite: certainly not granted
    raise OSError(answer or "closed")

def release(me, key):
    if me not in held:
        return {"type": "fail", "error": "not-held"}
    answer = call("EVAL", UNLOCK, "1", key, held[me])
    if answer[:2] not in (":0", ":1"):
        raise OSError(answer or "closed")
    del held[me]
    return {"type": "ok"} if answer[1] == "1" else {"type": "fail", "error": "not-owner"}

for line in sys.stdin:
    r = json.loads(line)
    try:
        if r["op"] == "init":
            init, answer = r, {"type": "ok", "value": {"library": "example", "version": "1", "retries": 0}}
        elif r["op"] in ("acquire", "release"):
            do = acquire if r["op"] == "acquire" else release
            answer = do((r["worker"], r["key"]), init["prefix"] + r["key"])
        elif r["op"] == "work":
            answer = time.sleep(r["ms"] / 1000) or {"type": "ok"}
        else:
            answer = {"type": "ok"} if r["op"] in ("tick", "close") else {"type": "fail", "error": "unsupported"}
    except ConnectionRefusedError:          # a release that was never sent is in doubt all the same
        answer = {"type": "fail" if r["op"] == "acquire" else "info", "error": "connection-refused"}
    except OSError as error:                # timeout, reset: it may have happened, so never `fail`
        link, answer = None, {"type": "info", "error": "timeout", "message": str(error)}
    print(json.dumps({"id": r["id"], **answer}), flush=True)
    if r["op"] == "close":
        break
