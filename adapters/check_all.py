#!/usr/bin/env python3
"""`fencepost adapter check` on every variant of workloads/adapters/*.toml: a line each, exit 1 if anything is wrong.

Arguments: parts of names (`redisson quorum`), to check only those.
"""
import json
import os
import pathlib
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCEPOST = os.environ.get("FENCEPOST", str(ROOT / "target/debug/fencepost"))


def check(command, cluster):
    topology, nodes = cluster["topology"], cluster.get("nodes")
    # Only Redis runs as local processes, too.
    members = topology in ("etcd", "zookeeper")
    flags = ["--json", "--backend", "docker" if members else os.environ.get("BACKEND", "local")]
    flags += ["--topology", topology] if members else []
    flags += ["--nodes", str(nodes)] if nodes else []
    flags += ["--env", "XDG_CACHE_HOME", "--env", "FENCEPOST_ADAPTERS"]
    argv = [FENCEPOST, "adapter", "check", *flags, "--", *command]
    out = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    return out.returncode, [json.loads(line) for line in out.stdout.splitlines()], out.stderr


def main():
    failed = 0
    for name in ("load", "load-quorum", "load-etcd", "load-zookeeper"):
        plan = tomllib.loads((ROOT / f"workloads/adapters/{name}.toml").read_text())
        for variant, keys in plan["variant"].items():
            label = f"{name}/{variant}"
            if len(sys.argv) > 1 and not any(part in label for part in sys.argv[1:]):
                continue
            began = time.monotonic()
            code, rules, words = check(keys["lock"]["command"], plan["cluster"])
            grades = [rule["grade"] for rule in rules]
            counts = ", ".join(f"{grades.count(g)} {g}" for g in ("ok", "note", "wrong", "not tried"))
            print(f"{label}: exit {code}; {counts}; {time.monotonic() - began:.0f} s", flush=True)
            for rule in rules:
                if rule["grade"] in ("wrong", "not tried"):
                    print(f"    {rule['grade']} {rule['rule']}: {rule['seen']}", flush=True)
            if not rules:
                print(words, file=sys.stderr)
            failed += code != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
