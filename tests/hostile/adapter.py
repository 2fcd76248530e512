"""An adapter that breaks the client protocol in the way named by its argument; until then it is a good one."""
import json
import os
import signal
import subprocess
import sys
import time

MODE = sys.argv[1]


def raw(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def say(**line):
    raw(json.dumps(line) + "\n")


def grant(request, **more):
    say(id=request["id"], type="ok", value={"owner": "o", "validity_ms": 900, **more})


def forever():
    while True:
        time.sleep(1000)


def act(request):
    """Misbehave on an acquire."""
    number = request["id"]
    if MODE == "silent":
        pass
    elif MODE == "slow":
        time.sleep(0.3)
        grant(request)
    elif MODE == "not-json":
        raw("Connected to server\x1b[31m\n")
        raw("[1,2,3]\n")
        raw('{"id":"one","type":"ok"}\n')
        raw("\xff\xfe{\n\n")
        grant(request)
    elif MODE == "wrong-id":
        say(id=number + 1000, type="ok")
        grant(request)
        grant(request)
    elif MODE == "wrong-shape":
        say(id=number, type="ok", value={"owner": 42})
    elif MODE == "wrong-type":
        say(id=number, type="maybe")
    elif MODE == "deep":
        raw('{"id":%d,"type":"ok","value":%s%s}\n' % (number, "[" * 100000, "]" * 100000))
    elif MODE == "huge-number":
        raw('{"id":%d,"type":"ok","value":{"owner":"o","validity_ms":1e999}}\n' % number)
    elif MODE == "false-fail":
        say(id=number, type="fail", error="timeout")
    elif MODE == "own-code":
        say(id=number, type="fail", error="x\ny" * 100)
    elif MODE == "die":
        sys.exit(3)
    elif MODE == "last-words":
        grant(request)
        os.kill(os.getpid(), signal.SIGKILL)
    elif MODE == "half-a-line":
        raw('{"id":%d,"type":' % number)
        os._exit(0)
    elif MODE == "babble":
        while True:
            raw("x" * 65536)
    elif MODE == "babble-lines":
        while True:
            raw("x\n" * 8192)
    elif MODE == "blank-lines":
        raw("\n" * 100000)
        grant(request)
    elif MODE == "lost-flood":
        for _ in range(2000):
            say(type="lost", worker=request["worker"], key=request["key"])
        grant(request)
    elif MODE == "long-line":
        raw("y" * (3 << 20) + "\n")
        grant(request)
    elif MODE == "stderr":
        for _ in range(100):
            sys.stderr.write("e" * 100000 + "\n")
        grant(request)
    elif MODE == "close-stdout":
        os.close(1)
        forever()
    elif MODE == "close-stdin":
        os.close(0)
        grant(request)
        forever()
    elif MODE == "fork":
        # A grandchild in the same group that keeps all pipes open.
        child = subprocess.Popen(["sleep", "1000"])
        grant(request, token=child.pid)
        os._exit(0)
    elif MODE == "lost":
        say(type="lost", worker=request["worker"], key=request["key"])
        say(type="lost")
        say(type="lost", worker=request["worker"], key="\x1b]0;hm\x07")
        grant(request)
    elif MODE == "environment":
        say(id=number, type="ok", value={"owner": ",".join(sorted(os.environ))})
    elif MODE == "ignore-term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        grant(request)
    else:
        raise SystemExit(f"no mode {MODE}")


for line in iter(sys.stdin.readline, ""):
    request = json.loads(line)
    if request["op"] == "init":
        if MODE == "refuse":
            say(id=request["id"], type="fail", error="unsupported", message="no\nservers\x07")
        elif MODE == "no-handshake":
            forever()
        elif MODE == "bad-handshake":
            say(id=request["id"], type="ok", value="hello")
        elif MODE == "die-early":
            sys.exit(7)
        elif MODE == "deaf":
            say(id=request["id"], type="ok", value={})
            forever()
        else:
            say(id=request["id"], type="ok", value={"library": "hostile", "version": "1"})
    elif request["op"] == "acquire":
        act(request)
    elif MODE != "ignore-term":
        say(id=request["id"], type="ok")
