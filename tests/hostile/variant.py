"""adapters/example.py with the changes that its arguments name: wrong in one thing, and right in all others."""
import sys

TAKES_BACK = """
TAKE = "local v = redis.call('get',KEYS[1]) if v and v ~= ARGV[1] then return 0 end " \\
    "redis.call('set',KEYS[1],ARGV[1],'PX',ARGV[2]) return 1"

def extend(me, key, ttl):
    if me not in held:
        return {"type": "fail", "error": "not-held"}
    answer = call("EVAL", TAKE, "1", key, held[me], str(ttl))
    return {"type": "ok"} if answer[:2] == ":1" else {"type": "fail", "error": "not-owner"}

"""
LOOP = "for line in sys.stdin:"
CHANGES = {
    # Its lock keys have a name of their own.
    "elsewhere": [('init["prefix"] + r["key"])', '"mine:" + init["prefix"] + r["key"])')],
    # It neither answers `close` nor ends.
    "ignores-close": [(LOOP, LOOP + "\n    if '\"close\"' in line: continue")],
    # Its extension is right where it holds the lock, and takes a lock that nobody holds.
    "takes-back": [(LOOP, TAKES_BACK + LOOP), (
        'elif r["op"] == "work":',
        'elif r["op"] == "extend":\n            '
        'answer = extend((r["worker"], r["key"]), init["prefix"] + r["key"], r["ttl_ms"])\n        '
        'elif r["op"] == "work":',
    )],
    # It asks the server for less than the lease that was asked of it, and claims all of it.
    "short-lease": [('"PX", str(init["ttl_ms"])', '"PX", str(init["ttl_ms"] - 1500)')],
    # Each grant has the same token.
    "one-token": [('{"owner": owner,', '{"token": 7, "owner": owner,')],
}

with open("adapters/example.py") as file:
    text = file.read()
for mode in sys.argv[1:]:
    for old, new in CHANGES[mode]:
        assert old in text, (mode, old)
        text = text.replace(old, new)
exec(compile(text, "variant", "exec"))
