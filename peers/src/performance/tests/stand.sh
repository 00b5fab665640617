#!/bin/sh
# Stands in for `peers` in tests: notes what it is called with in the directory of stores, prints a contest
# of that command, and fails where a file there says so.
for argument; do
    [ "$before" = --directory ] && place=$argument
    before=$argument
done
echo "$*" >>"$place/calls"
[ -e "$place/garbled" ] && echo '{' && exit 0
[ -e "$place/failing" ] && failures='{"store":"rocksdb","repeat":0,"label":"","error":"lost a row"}'
machine='{"processor":"","processors":1,"memory_bytes":1,"kernel":"","file_system":""}'
cat <<END
{"command":"peers $*","title":"","conditions":[],"machine":$machine,"runs":[],"failures":[$failures]}
END
[ -z "$failures" ]
