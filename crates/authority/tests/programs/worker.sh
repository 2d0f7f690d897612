#!/bin/sh
# A worker that does what the script in its home directory says. It knows how to say who it is, how to wait for a frame,
# and how to take a turn.

pid=$$
# The name of the program is in parentheses and has no space.
set -- $(cat "/proc/$$/stat")
birth=${22}

say() { printf '{"v":1,"type":%s}\n' "$1"; }

hello() { say "\"hello\",\"pid\":$pid,\"birth\":$birth,\"version\":2"; }

# Reads until a frame of this type has come; it is in $frame then.
await() {
    while read -r frame; do
        case "$frame" in *"\"type\":\"$1\""*) return 0 ;; esac
    done
    exit 9
}

ready() {
    hello
    await bootstrap
    say '"ready","servers":[]'
}

# Waits for a turn: its execution is in $execution then, and its secret in $secret.
turn() {
    await turn
    execution=$(printf '%s' "$frame" | sed 's/.*"execution_id":"\([^"]*\)".*/\1/')
    secret=$(printf '%s' "$frame" | sed 's/.*"secret":"\([^"]*\)".*/\1/')
}

adopt() {
    turn
    say "\"adopt\",\"execution_id\":\"$execution\",\"secret\":\"$secret\""
    await adopted
}

result() { say "\"result\",\"execution_id\":\"$execution\",\"outcome\":\"completed\",\"result\":{\"n\":1.0}"; }

finish() {
    result
    await finish
    say "\"finished\",\"execution_id\":\"$execution\""
}

. "$HOME/script"
