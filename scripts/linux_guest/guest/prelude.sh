# What every scenario begins with: where it is, and what it says by topics. Runs the scenario in the file $1, if there is one.
cd /tmp

# One line a topic, so that a reader finds what belongs to it.
section() {
    echo "=== $*"
}

# Print a file so that it survives the console.
send() {
    section "file $1"
    gzip -c "$1" | base64
    section "end of file"
}

if [ -n "$1" ]; then
    . "$1"
    status=$?
    section end
    exit $status
fi
