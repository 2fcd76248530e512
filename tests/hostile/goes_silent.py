"""The adapter of PROTOCOL.md, but the first of its processes to read 40 requests says a word that is
no line of the protocol and answers no more, without exiting."""
import os
import subprocess
import sys
import time

adapter, flag = sys.argv[1:]
child = subprocess.Popen([sys.executable, adapter], stdin=subprocess.PIPE)
for number, line in enumerate(sys.stdin.buffer):
    if number == 40:
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            print("what?", flush=True)
            time.sleep(1000)
        except FileExistsError:
            pass
    child.stdin.write(line)
    child.stdin.flush()
