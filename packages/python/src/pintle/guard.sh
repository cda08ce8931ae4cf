# Runs a server until a line, or the end, of standard input. Then it removes the server's folder.
#
#   sh -c "$(cat guard.sh)" guard FOLDER PROGRAM ARGUMENT...
#
# The test process holds the other end of standard input. The system closes it when that process dies, whatever the
# cause, so neither the server nor its folder outlives the tests. The output ends when everything is cleaned up.

# Signals to the process group must not stop the cleanup. The server sets its own handlers.
trap '' HUP INT TERM
folder=$1
shift
exec 3<&0 </dev/null
"$@" 3<&- &
server=$!
(
    read -r _ <&3
    # A graceful shutdown is not needed: the objects are in memory.
    kill -KILL "$server"
) >/dev/null 2>&1 &
watcher=$!
wait "$server" 2>/dev/null
status=$?
kill -KILL "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null
rm -rf "$folder"
exit "$status"
