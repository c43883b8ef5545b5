# Waits for a scenario to be typed, in base64 up to Ctrl-D, and runs it: snapshots are taken where it waits.
stty -echo
section ready
base64 -d >/typed
stty echo
. /typed
