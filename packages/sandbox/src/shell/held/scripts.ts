/** Scripts of a held shell, for a busybox whose path is `$0`. held-commands.md explains them. */

/** Servers that can use a shell after its first one. */
const maxJoins = 200;
/** Bytes of one read of the terminal, and reads until the size of the file is looked at. */
const readBytes = 4_096;
const readsPerLook = 1_024;
/** A file of output that is as large is followed by another one, bytes. */
const partBytes = 4 * 2 ** 20;
/** Parts at which the terminal is not read any more until somebody reads them. */
export const maxParts = 8;

/** The first process of a client is alive when its working folder is the state folder. */
const isOurs = (pid: string) => `[ "/proc/${pid}/cwd" -ef . ]`;

/**
 * `born` sets the variable of that name to the start time of a process. `holds` sets `holder` to
 * the id of the process that holds the terminal, and fails when it is gone. After a restart of the
 * sandbox another process has its id, possibly the one that asks: the start time tells.
 */
const findHolder = `
born() {
  read -r line </proc/$1/stat || return
  set -- \${line##*) }
  born=\${20}
}
holds() {
  holder=0
  [ -e holder ] && read -r holder since <holder && born $holder && [ "$born" = "$since" ] && ${isOurs("$holder")} ||
    { holder=0; return 1; }
} 2>/dev/null
`;

/**
 * Reads the terminal, and writes what it reads to the client and then to the parts. Parts are named
 * by the offset of their first byte.
 */
const pump = `
# Nobody may read what tee writes first; what it writes to the part must not end with that.
trap "" PIPE
part=0 before=-1
while :; do
  over=; [ -e exit ] && over=1
  name=part.$(printf %012d $part)
  "$b" dd bs=${readBytes} count=${readsPerLook} <&9 2>/dev/null | "$b" tee -a $name >&8 2>/dev/null
  size=$("$b" stat -c %s $name 2>/dev/null) || size=0
  if [ $size = $before ]; then
    [ -z "$over" ] || break
    "$b" usleep 20000
  fi
  before=$size
  [ $size -ge ${partBytes} ] || continue
  part=$((part + size)) before=-1
  set -- part.*
  while [ $# -ge ${maxParts} ] && [ ! -e joining ]; do "$b" usleep 100000; set -- part.*; done
done`;

/**
 * Ends other clients. Each first shows itself and its epoch and then looks: of two at once, one
 * sees the other.
 */
const takeOver = `
: >client.$$
[ -e epoch.$epoch ] || : >epoch.$epoch
for file in epoch.*; do
  [ "\${file#epoch.}" -le $epoch ] || { "$b" rm -f client.$$; echo f; exit 1; }
done
holds
for file in client.*; do
  pid=\${file#client.}
  [ $pid != $$ ] && [ $pid != $holder ] || continue
  while ${isOurs("$pid")} && kill -9 $pid; do "$b" usleep 1000; done 2>/dev/null
  "$b" rm -f $file
done`;

/** Joins the shell that `holder` holds. */
const join = `
  read -r nonce <nonce
  read -r tty <tty
  : >joining
  exec 3<>out 4<out 3>&-
  "$b" cat <&4 & : >client.$!
  echo "o $nonce"
  ( printf '\\033_%s\\033\\\\' $barrier >"$tty" ) 2>/dev/null &
  exec "$b" cat >in`;

/**
 * Opens a held shell, or joins one. $1: state folder, $2: epoch, $3: nonce for a new shell, $4:
 * barrier, $5: processes of the sandbox above which it gets no new one, rest: argv of a new shell.
 * stdin is typed into the terminal, stdout is a line and then the output of the terminal. Lines:
 * `f`: fenced off; `x`: no terminal; `o NONCE`: an old shell, with its output from the barrier on;
 * `n`: a new one, whose terminal has to be unlocked (descriptor 9) and answered by a line with its
 * path, or with `!` and a command of plain words that unlocks it and prints the path. The process
 * of a new one holds its terminal.
 */
export const openScript = `
b=$0 folder=$1 epoch=$2 nonce=$3 barrier=$4 room=$5
shift 5
umask 077
[ -d "$folder" ] || "$b" mkdir -p "$folder"
cd -- "$folder" || { echo x; exit 1; }
${findHolder}
${takeOver}
if [ ! -e exit ] && [ $holder != 0 ]; then
  ${join}
fi
isFull() { set -- /proc/[0-9]*; [ $# -gt $room ]; }
! isFull || { echo x; exit 1; }
[ ! -e in ] || "$b" rm -f in out part.* exit holder call begun left joining
"$b" mkfifo in out && exec 9<>/dev/ptmx || { echo x; exit 1; }
echo n
read -r tty && [ -n "$tty" ] || exit 1
case $tty in !*) tty=$(\${tty#!}) && [ -c "$tty" ] || exit 1 ;; esac
# 8 is opened for writing alone: without a reader, output is only kept.
exec 3<>out 4<out 8>out 3>&- 5<&0
"$b" cat <&4 8>&- 9>&- & : >client.$!
# After the input of this client, which ends with the client that joins next, comes that of each that
# joins; opening waits for it.
(
  "$b" cat <&5 4<&- 8>&- & : >client.$!
  wait $! 2>/dev/null
  exec "$b" cat ${Array(maxJoins).fill("in").join(" ")} 5<&-
) >&9 4<&- 8>&- &
input=$!
exec 4<&- 5<&- </dev/null >/dev/null 2>&1
echo $nonce >nonce
echo "$tty" >tty
( ${pump} ) &
pump=$!
born $$
echo $$ $born >holder
# A process of its own opens the terminal, or it would become that of this session. It is not an
# asynchronous one, whose programs would all ignore SIGINT.
( exec 8>&- 9>&- <>"$tty" >&0 2>&0; umask 022; exec "$b" setsid -c "$@" )
echo $? >exit
exec 8>&- 9>&-
kill $input
wait $pump`;

/** Prints all kept output of the folder $1, oldest first. */
export const historyScript = 'cd -- "$1" && "$0" cat part.*';

/** Removes the parts that are read, but for the first $2 and the last. */
export const forgetScript = `
cd -- "$1" || exit
keep=$2
set -- part.*
while [ $# -gt 1 ]; do
  if [ $keep -gt 0 ]; then keep=$((keep - 1)); else "$0" rm -f "$1"; fi
  shift
done`;

/** Prints the exit code of a held shell that has ended. */
export const exitScript = 'cd -- "$1" && read -r code <exit && echo $code';

/**
 * Prints the age of the last command in seconds, the id of the last one that was left running, and
 * the last command's number, id and text.
 */
export const callScript = `
cd -- "$1" && [ -e call ] || exit
[ ! -e left ] || read -r left <left
echo $(($("$0" date +%s) - $("$0" stat -c %Y call))) $left
"$0" cat call`;

/** Notes that a call has left the command with the id $2 running. */
export const leftScript = 'echo "$2" >"$1/left"';

/** Succeeds when the shell has begun the command with the id $2. */
export const begunScript = '"$0" grep -qxF -- "$2" "$1/begun"';

/** Prints the nonce of a held shell that has ended; nothing when it lives or never was. */
export const deadScript = `
cd -- "$1" || exit
${findHolder}
[ -e exit ] || ! holds || exit 0
read -r nonce <nonce && echo $nonce`;

/** Lets the output be bounded again: the joined client has read the history. */
export const joinedScript = 'cd -- "$1" && "$0" rm -f joining';

/** Ends the shell of the folder $1 with the program on its terminal, and removes the folder. */
export const endScript = `
cd -- "$1" || exit
${findHolder}
if holds; then
  # Of its children, only the shell leads a process group.
  read -r children </proc/$holder/task/$holder/children
  for child in $children; do kill -9 -$child $child; done 2>/dev/null
  kill -9 $holder
fi
# A program in the background keeps the terminal open, and so the processes that read it.
for process in /proc/[0-9]*; do
  pid=\${process#/proc/}
  [ $pid = $$ ] || ! ${isOurs("$pid")} || kill -9 $pid
done 2>/dev/null
cd / && "$0" rm -rf "$1"`;
