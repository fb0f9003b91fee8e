"""Runs a command, and prints its exit code, its processor time in seconds and its largest resident memory in KiB.

Usage: python3 measure.py COMMAND [ARGUMENT ...]
"""

import os
import subprocess
import sys

process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss)
