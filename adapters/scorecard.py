#!/usr/bin/env python3
"""The scorecard: fifteen named checks on a lock library, from ten schedules under workloads/scorecard/, one after another.

    adapters/scorecard.py                                  every library of LIBRARIES, and docs/libraries.md
    adapters/scorecard.py --library redsync --library redlock
    adapters/scorecard.py --servers any -- python3 my_adapter.py --version 2
    adapters/scorecard.py --page                           only docs/libraries.md, from the runs that stand in results/

Each cell comes from the verdict of a run (`minority`: from its history); what is not seen is `unknown`, never `ok`. The
runs stand in results/scorecard/, a card a library in results/scorecard/cards/. Exit: 0 nothing broken; 1 something is;
64 what the user gave.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCEPOST = os.environ.get("FENCEPOST", str(ROOT / "target/debug/fencepost"))
RESULTS = ROOT / "results" / "scorecard"
PAGE = ROOT / "docs" / "libraries.md"
SEEDS = (7, 8, 9)

PYTHON, NODE, GO, JAVA = (["python3"], ["node"], ["adapters/go/run"], ["adapters/java/run"])
# Name, servers ("one": it knows a single server), command.
LIBRARIES = [
    ("redis-py", "one", [*PYTHON, "adapters/python/redis_py.py"]),
    ("redis-py-asyncio", "one", [*PYTHON, "adapters/python/redis_py_asyncio.py"]),
    ("python-redis-lock", "one", [*PYTHON, "adapters/python/python_redis_lock.py"]),
    ("redlock-py", "any", [*PYTHON, "adapters/python/redlock_py.py"]),
    ("pottery", "any", [*PYTHON, "adapters/python/pottery.py"]),
    ("redlock", "any", [*NODE, "adapters/node/redlock.js"]),
    ("redlock-4", "any", [*NODE, "adapters/node/redlock.js", "--version", "4.2.0"]),
    ("sesamecare-redlock", "any", [*NODE, "adapters/node/sesamecare_redlock.js"]),
    ("redlock-universal", "any", [*NODE, "adapters/node/redlock_universal.js"]),
    ("redsync", "any", [*GO, "redsync"]),
    ("redsync-4.0.3", "any", [*GO, "redsync", "--version", "4.0.3"]),
    ("bsm-redislock", "one", [*GO, "bsm_redislock"]),
    ("redisson", "one", [*JAVA, "redisson"]),
    ("spring-registry", "one", [*JAVA, "spring_registry"]),
    ("shedlock", "one", [*JAVA, "shedlock"]),
]

# Name, schedule, what must not be violated there, what it means.
CHECKS = [
    ("exclusion", "plain", ["service", "overrun", "effects"], "no fault: one holder at a time"),
    ("honest", "plain", ["ownership", "truthful", "leak", "deadlock"], "no fault: what it says is so"),
    ("claim", "plain", ["validity"], "no fault: the validity that it claims is in the lease"),
    ("tokens", "plain", ["fencing"], "no fault: its tokens rise"),
    ("late-claim", "late-replies", ["late"], "a grant that is told after its lease is none"),
    ("late-release", "pause", ["ownership", "service"], "a release after the lease leaves another's key"),
    ("slow-release", "slow-release", ["ownership", "service"], "a slow release leaves another's key"),
    ("extension", "renew-lost", ["continuity", "ownership"], "a lost lock is not extended"),
    ("unheard-answers", "lost-replies", ["leak", "truthful"], "answers lost: nothing outlives its lease"),
    ("after-answers", "lost-replies", ["deadlock"], "answers lost: it locks again"),
    ("unheard-requests", "lost-requests", ["leak", "truthful"], "requests lost: what it says is so"),
    ("lease", "crash", ["leak"], "the holder dies: its key has a lease"),
    ("crash", "crash", ["deadlock"], "the holder dies: another gets the lock"),
    ("one-dead", "one-node-dead", ["minority"], "one of three servers dead: it goes on"),
    ("one-hung", "one-node-hung", ["minority"], "one of three servers hangs: it goes on"),
]
SCHEDULES = list(dict.fromkeys(check[1] for check in CHECKS))

# What the checker says where the library offers nothing to judge.
NOT_ASKED = re.compile(r"not asked|claims no validity|nothing was extended|no extend of \d+ succeeded|tells? no owner")

# Findings that stand in public: (part of the library's name, its version or "", check) -> where.
KNOWN = [
    ("redlock", "5.0.0", "late-claim", "mike-marcacci/node-redlock PR 369"),
    ("@sesamecare-oss/redlock", "", "late-claim", "mike-marcacci/node-redlock PR 369 (the same code)"),
    ("redsync", "4.0.3", "extension", "go-redsync/redsync PR 38, PR 61"),
    ("ShedLock", "6.3.1", "slow-release", "lukas-krecan/ShedLock issue 2583"),
    ("ShedLock", "6.3.1", "late-release", "lukas-krecan/ShedLock issue 2583"),
    ("redlock-py", "1.0.8", "one-dead", "SPSCommerce/redlock-py PR 27"),
    ("redlock-py", "1.0.8", "one-hung", "SPSCommerce/redlock-py PR 27 (the same exception)"),
]


def flags(schedule, command):
    value = "[" + ", ".join(json.dumps(word) for word in command) + "]"
    return [f"workloads/scorecard/{schedule}.toml", "--set", f"lock.command={value}"]


def run(schedule, command):
    """The verdict, the history's facts and the folder of one run; another seed only where a run says `unknown`."""
    for seed in SEEDS:
        base = [FENCEPOST, "run", *flags(schedule, command), "--seed", str(seed)]
        argv = [*base, "--backend", os.environ.get("BACKEND", "local"), "--results", str(RESULTS)]
        out = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
        if out.returncode not in (0, 1, 2):
            # Set-up, not the lock: a machine that is too slow to shake hands is asked once more.
            why = next((l for l in out.stderr.splitlines() if l.startswith("error")), out.stderr[-300:])
            # The page needs no path of this machine.
            found = {"seed": seed, "outcome": "not run", "why": why.split("; ")[0], "checks": {}}
            continue
        folder = max((RESULTS / schedule).glob(f"2*-{seed}"), key=lambda p: p.stat().st_mtime)
        found = facts(folder, seed)
        if out.returncode != 2:
            break
    return found


def facts(folder, seed):
    verdict = json.loads((folder / "verdict.json").read_text())
    checks = {}
    for check in verdict["checks"]:
        sentence = check["findings"][0]["sentence"] if check["findings"] else check["note"] or ""
        checks[check["name"]] = {"outcome": check["outcome"], "count": check["count"], "why": sentence}
    checks["minority"] = minority(folder / "history.jsonl")
    checks["late"] = late(verdict)
    return {"seed": seed, "outcome": verdict["outcome"], "why": "; ".join(verdict["reasons"]), "checks": checks,
            "folder": str(folder.relative_to(ROOT))}


def late(verdict):
    """`validity` without claims that are too long by what the formula keeps for drift: those are the check `claim`."""
    validity = next(check for check in verdict["checks"] if check["name"] == "validity")
    told = [f["sentence"] for f in validity["findings"] if "is good for" not in f["sentence"]]
    if told:
        return {"outcome": "violated", "count": len(told), "why": told[0]}
    outcome = "valid" if validity["outcome"] == "violated" else validity["outcome"]
    return {"outcome": outcome, "count": 0, "why": validity["note"] or ""}


def minority(history):
    """Whether anybody was granted the lock while the minority was gone: from the bite of the fault to its healing."""
    inside, grants, tries, bit = False, 0, 0, False
    for line in history.read_text().splitlines():
        event = json.loads(line)
        if event.get("process") == "nemesis":
            phase = event["value"].get("phase")
            bit = bit or phase == "bit"
            inside = phase == "bit" or (inside and phase not in ("heal", "healed"))
        elif inside and event.get("f") == "acquire" and event["type"] != "invoke":
            tries += 1
            grants += event["type"] == "ok"
    if not bit or not tries:
        return {"outcome": "unknown", "count": 0, "why": "nobody tried meanwhile"}
    why = f"{grants} of {tries} tries were granted meanwhile"
    return {"outcome": "valid" if grants else "violated", "count": 0 if grants else 1, "why": why}


def about(command):
    """What the adapter says of itself, in a handshake without a server to speak of."""
    line = {"id": 1, "op": "init", "nodes": ["127.0.0.1:1"], "ttl_ms": 2000, "prefix": "fp:", "retry_ms": 20,
            "node_timeout_ms": 100, "workers": 1, "options": {}}
    try:
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as adapter:
            adapter.stdin.write(json.dumps(line) + "\n")
            adapter.stdin.flush()
            # It ends when its standard input does; one that says nothing is ended.
            timer = threading.Timer(60, adapter.kill)
            timer.start()
            answer = adapter.stdout.readline()
            adapter.stdin.close()
            timer.cancel()
        return json.loads(answer).get("value", {})
    except (OSError, ValueError):
        return {}


def cell(check, runs):
    """`ok`, `broken`, `unknown`, or `–` where the library offers nothing to judge; and why."""
    _, schedule, names, _ = check
    if schedule not in runs:
        return "–", "needs several servers"
    found = runs[schedule]
    if not found["checks"]:
        return "unknown", found["why"]
    seen = [(name, found["checks"].get(name, {"outcome": "unknown", "why": "no such check"})) for name in names]
    for name, result in seen:
        if result["outcome"] == "violated":
            return "broken", f"`{name}`: {result['why']}"
    valid = [name for name, result in seen if result["outcome"] == "valid"]
    if not valid and all(NOT_ASKED.search(result["why"]) for _, result in seen):
        return "–", "; ".join(result["why"] for _, result in seen)
    if NOT_ASKED.search(found["why"]):
        return "–", found["why"]
    # A run in which the fault did not bite, or the machine stood still, proves nothing good.
    if not valid or found["outcome"] == "unknown":
        return "unknown", found["why"] or "; ".join(f"`{n}`: {r['why']}" for n, r in seen if r["why"])
    return "ok", ", ".join(valid)


def card(name, servers, command, fill):
    """All schedules; with `fill` only those that an earlier card could not run."""
    before, began = RESULTS / "cards" / f"{name}.json", time.monotonic()
    runs = json.loads(before.read_text())["runs"] if fill and before.exists() else {}
    for schedule in SCHEDULES:
        if servers == "one" and schedule.startswith("one-node"):
            continue
        if schedule not in runs or not runs[schedule]["checks"]:
            runs[schedule] = run(schedule, command)
    done = {"name": name, "servers": servers, "command": command, "about": about(command), "runs": runs,
            "seconds": round(time.monotonic() - began)}
    folder = RESULTS / "cards"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(done, indent=1))
    return done


def public(done, check):
    library, version = done["about"].get("library", done["name"]), done["about"].get("version", "")
    for part, of, name, where in KNOWN:
        if library.startswith(part) and version.startswith(of) and name == check:
            return where
    return None


def show(done):
    print(f"\n{title(done)}  ({done['seconds']} s)")
    for check in CHECKS:
        grade, why = cell(check, done["runs"])
        print(f"  {grade:<8} {check[0]:<17} {why}")
        if grade == "broken":
            where = public(done, check[0])
            print(f"           public: {where or 'no report is known'}")
            print(f"           replay: {replay(done, check[1])}")
    return any(cell(check, done["runs"])[0] == "broken" for check in CHECKS)


def title(done):
    about_ = done["about"]
    if not about_:
        return done["name"]
    return f"{about_.get('library')} {about_.get('version')} on {about_.get('driver', 'no driver named')}"


def replay(done, schedule):
    words = ["fencepost", "run", *flags(schedule, done["command"]), "--seed", str(done["runs"][schedule]["seed"])]
    return " ".join(f"'{word}'" if re.search(r"[^\w./=:-]", word) else word for word in words)


def page(cards):
    """docs/libraries.md: a table over all, then a part a library. A finding without public report has no recipe."""
    mark = {"ok": "ok", "broken": "**broken**", "unknown": "?", "–": "–"}
    lines = ["# Lock libraries under the harness", "",
             "Made by `adapters/scorecard.py --page`; do not edit. Each cell is one named check on the library as it is "
             "published, from the schedules in [workloads/scorecard/](../workloads/scorecard). `ok`: nothing was found "
             "under this schedule, which is no proof. `?`: it could not be judged; why stands below. `–`: the library offers nothing to judge (it claims no validity, cannot extend, gives out no tokens, knows one server). A finding that no "
             "public report is known for is marked so, and its recipe is left to the command line.", "",
             "| library | version | " + " | ".join(check[0] for check in CHECKS) + " |",
             "|---|---|" + "---|" * len(CHECKS)]
    for done in cards:
        cells = [mark[cell(check, done["runs"])[0]] for check in CHECKS]
        name, version = done["about"].get("library", done["name"]), done["about"].get("version", "")
        lines.append(f"| {name} | {version} | " + " | ".join(cells) + " |")
    lines += ["", "| check | schedule | what it means |", "|---|---|---|"]
    for name, schedule, _, means in CHECKS:
        lines.append(f"| {name} | [{schedule}](../workloads/scorecard/{schedule}.toml) | {means} |")
    for done in cards:
        lines += ["", f"## {title(done)}", ""]
        for check in CHECKS:
            grade, why = cell(check, done["runs"])
            if grade == "broken":
                where = public(done, check[0])
                lines.append(f"- **{check[0]}** is broken. {clean(why)}")
                if where:
                    lines.append(f"  Known: {where}. Replay: `{replay(done, check[1])}`")
                else:
                    lines.append("  No public report is known; the recipe is on the command line.")
            elif grade == "unknown":
                lines.append(f"- {check[0]} is unknown: {clean(why)}")
        good = [check[0] for check in CHECKS if cell(check, done["runs"])[0] == "ok"]
        lines.append(f"- ok: {', '.join(good) or 'none'}")
    return "\n".join(lines) + "\n"


def clean(text):
    text = re.sub(r"; its standard error.*", "", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", text.replace("|", "/")).strip().rstrip(".") + "."


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", action="append", choices=[name for name, _, _ in LIBRARIES], metavar="NAME")
    parser.add_argument("--servers", choices=["one", "any"], default="one", help="of CMD: does it take several?")
    parser.add_argument("--fill", action="store_true", help="run only what earlier cards could not run")
    parser.add_argument("--page", action="store_true", help="only write docs/libraries.md from earlier runs")
    parser.add_argument("command", nargs="*", metavar="CMD")
    return parser.parse_args()


def main():
    args = arguments()
    chosen = [entry for entry in LIBRARIES if not args.library or entry[0] in args.library]
    if args.command:
        chosen = [("own", args.servers, args.command)]
    broken = False
    if not args.page:
        for name, servers, command in chosen:
            broken |= show(card(name, servers, command, args.fill))
    if not args.command and (args.page or not args.library):
        files = [RESULTS / "cards" / f"{name}.json" for name, _, _ in LIBRARIES]
        cards = [json.loads(file.read_text()) for file in files if file.exists()]
        # One that could not even be run without a fault has no row.
        cards = [done for done in cards if done["runs"]["plain"]["checks"]]
        for done in cards:
            # Judged by this file as it is now, from what the runs left.
            for schedule, found in done["runs"].items():
                if (ROOT / found.get("folder", "gone") / "verdict.json").exists():
                    done["runs"][schedule] = facts(ROOT / found["folder"], found["seed"])
            done["about"] = done["about"] or about(done["command"])
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page(cards))
        print(f"\n{len(cards)} libraries: {PAGE.relative_to(ROOT)}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
