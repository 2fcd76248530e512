#!/usr/bin/env python3
"""Measures report.html in headless Chromium, and takes pictures of it.

  tests/page/measure.py                     a made run of 100,000 operations: size, first paint, zoom steps, requests
  tests/page/measure.py --shots OUT DIR...  pictures of results folders, 1280 and 390 wide, light and dark, and print

Not part of `make test`: without Chromium it says so and ends with 0. It talks to the browser over a pipe, so it needs
nothing but Python. Exit code 1 when a limit is passed.
"""
import base64
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCEPOST = os.environ.get("FENCEPOST", str(ROOT / "target/debug/fencepost"))
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]
SIZE_MAX, PAINT_MAX_MS, ZOOM_MAX_MS = 5_000_000, 2_000, 50


class Browser:
    """A headless Chromium with one page, spoken to in its own protocol over two pipes."""

    def __init__(self, chromium):
        self.profile = tempfile.TemporaryDirectory(prefix="fencepost-page-", ignore_cleanup_errors=True)
        to_child, self.out = os.pipe()
        self.back, from_child = os.pipe()

        def wire():
            # 3 and 4 may be among the ends themselves: move them away first.
            a, b = os.dup(to_child), os.dup(from_child)
            a, b = (os.dup(a), os.dup(b)) if {a, b} & {3, 4} else (a, b)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.child = subprocess.Popen(
            [chromium, *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"],
            preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.buffer, self.number, self.events, self.session = b"", 0, [], None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(domain + ".enable")

    def read(self):
        while b"\0" not in self.buffer:
            chunk = os.read(self.back, 1 << 20)
            if not chunk:
                sys.exit("error: Chromium went away")
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.out, json.dumps(request).encode() + b"\0")
        while True:
            message = self.read()
            if message.get("id") == self.number:
                if "error" in message:
                    sys.exit(f"error: {method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def open(self, path, wide, high, dark):
        self.call("Emulation.setDeviceMetricsOverride", width=wide, height=high, deviceScaleFactor=1,
                  mobile=wide < 600)
        self.call("Emulation.setEmulatedMedia", media="",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.read())

    def eval(self, code):
        answer = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            sys.exit(f"error: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def shot(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12_000), "scale": 1}
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self):
        self.session = None
        self.call("Browser.close")
        try:
            self.child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.profile.cleanup()


def made_run(folder, operations):
    """A history of eight workers on one lock, with a pause, an overrun and a delete of another's key."""
    folder.mkdir(parents=True)
    rng = random.Random(7)
    head = {"fencepost": 1, "workload": "made", "seed": 7,
            "model": {"ttl_ms": 1000, "observed": True}, "versions": {"fencepost": "made"}}
    lines, at = [head], 0

    def event(us, process, kind, f, **rest):
        nonlocal at
        at = max(at, us)
        lines.append({"index": len(lines) - 1, "time": at * 1000, "process": process, "type": kind, "f": f, **rest})

    def op(us, worker, kind, f, **rest):
        event(us, worker, kind, f, client=f"c{worker // 2 + 1}", worker=worker % 2, key="lock:0", **rest)

    def seen(us, f, **value):
        event(us, "observer", "info", f, key="lock:0", value={"node": "n1", "not_before": (us - 50) * 1000, **value})

    event(0, "driver", "info", "phase", value={"phase": "load"})
    us, count, section = 1000, 0, 0
    while count < operations:
        worker, section = rng.randrange(8), section + 1
        owner = f"{section:032x}"
        op(us, worker, "invoke", "acquire")
        seen(us + 90, "set", owner=owner, pttl_ms=1000)
        op(us + 200 + rng.randrange(300), worker, "ok", "acquire", value={"owner": owner, "validity_ms": 988.0})
        us += 600
        long = section % 900 == 450
        if long:
            event(us, "nemesis", "info", "client-pause", client=f"c{worker // 2 + 1}",
                  value={"fault": 0, "phase": "inject", "target": f"c{worker // 2 + 1}"})
            seen(us + 1_001_000, "expired")
            us += 1_002_000
            other = (worker + 3) % 8
            op(us, other, "invoke", "acquire")
            seen(us + 90, "set", owner=owner + "b", pttl_ms=1000)
            op(us + 300, other, "ok", "acquire", value={"owner": owner + "b", "validity_ms": 988.0})
            event(us + 5000, "nemesis", "info", "client-pause", client=f"c{worker // 2 + 1}",
                  value={"fault": 0, "phase": "healed", "target": f"c{worker // 2 + 1}"})
            us += 6000
        for _ in range(rng.randrange(2, 8)):
            loser = rng.choice([w for w in range(8) if w != worker and not (long and w == other)])
            op(us, loser, "invoke", "acquire")
            op(us + 150 + rng.randrange(200), loser, "fail", "acquire", error="held")
            us += 400
            count += 1
        op(us, worker, "invoke", "release")
        seen(us + 90, "del")
        op(us + 250, worker, "ok", "release")
        us += 400
        if long:
            op(us, other, "invoke", "release")
            op(us + 250, other, "ok", "release")
            us += 400
            count += 2
        count += 2
    event(us, "driver", "info", "phase", value={"phase": "end"})
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (folder / "history.jsonl").write_text(text)
    checked = subprocess.run([FENCEPOST, "check", "--json", folder / "history.jsonl"], stdout=subprocess.PIPE)
    (folder / "verdict.json").write_bytes(checked.stdout)


def report(folder):
    subprocess.run([FENCEPOST, "report", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / "report.html"


ZOOM = """(async () => {
  const canvas = document.getElementById('canvas');
  canvas.scrollIntoView();
  const frame = () => new Promise(done => requestAnimationFrame(done));
  const times = [];
  for (const key of [...'++++++++++++', ...'------------', ...'nnnnn', '0', ...'+-+-+-']) {
    await frame();
    const start = performance.now();
    canvas.dispatchEvent(new KeyboardEvent('keydown', {key}));
    await frame();
    times.push(performance.now() - start);
  }
  return times;
})()"""
PAINT = """performance.getEntriesByType('paint').find(e => e.name === 'first-contentful-paint')?.startTime"""


def measure(browser, folder):
    made_run(folder, 100_000)
    page = report(folder)
    failed = False

    def check(name, value, limit, unit):
        nonlocal failed
        failed |= value > limit
        print(f"{'ok  ' if value <= limit else 'FAIL'} {name}: {value:,.0f} {unit} (at most {limit:,} {unit})")

    check("size", page.stat().st_size, SIZE_MAX, "bytes")
    browser.open(page, 1280, 900, False)
    paint = None
    while paint is None:
        paint = browser.eval("new Promise(done => requestAnimationFrame(() => done(" + PAINT + ")))")
    check("first paint", paint, PAINT_MAX_MS, "ms")
    times = sorted(browser.eval(ZOOM))
    check("zoom step, median", statistics.median(times), ZOOM_MAX_MS, "ms")
    check("zoom step, 90th percentile", times[len(times) * 9 // 10], ZOOM_MAX_MS, "ms")
    print(f"     zoom step, longest: {times[-1]:.0f} ms of {len(times)}")
    asked = [e["params"]["request"]["url"] for e in browser.events if e.get("method") == "Network.requestWillBeSent"]
    check("requests beside the file", len([u for u in asked if not u.startswith("file:")]) + len(asked) - 1, 0, "")
    said = [e["params"] for e in browser.events if e.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown")]
    check("complaints of the browser", len(said), 0, "")
    for complaint in said:
        print("    ", json.dumps(complaint)[:300])
    return failed


def shots(browser, out, folders):
    out.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        page = report(folder)
        name = folder.parent.name if folder.name == "latest" else folder.name
        for wide in (1280, 390):
            for dark in (False, True):
                browser.open(page, wide, 900, dark)
                browser.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                browser.shot(out / f"{name}-{wide}-{'dark' if dark else 'light'}.png")
        pdf = browser.call("Page.printToPDF", printBackground=True)["data"]
        (out / f"{name}.pdf").write_bytes(base64.b64decode(pdf))
    print(f"pictures are in {out}")


def main():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        print("skipped: there is no Chromium here (apt-get install chromium)")
        return 0
    if not os.path.exists(FENCEPOST):
        sys.exit(f"error: no {FENCEPOST}: cargo build first, or set FENCEPOST")
    browser = Browser(chromium)
    try:
        if sys.argv[1:2] == ["--shots"]:
            shots(browser, pathlib.Path(sys.argv[2]), [pathlib.Path(d) for d in sys.argv[3:]])
            return 0
        with tempfile.TemporaryDirectory(prefix="fencepost-page-") as folder:
            return int(measure(browser, pathlib.Path(folder) / "made"))
    finally:
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
