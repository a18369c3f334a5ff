/** Scripts of a held shell, for a busybox whose path is `$0`. held-commands.md explains them. */

/** Size of one read of the terminal, bytes. */
const readBytes = 4_096;
/** Maximum size of a copied piece of input or output, bytes. */
const copyBytes = 65_536;
/** Number of reads after which the holder looks at the size of the part. */
const readsPerLook = 1_024;
/** Size at which the holder ends a part and begins the next one, bytes. */
const partBytes = 4 * 2 ** 20;
/** Number of parts at which the holder stops reading the terminal until a client removes some. */
export const maxParts = 8;

/** Program that copies its input. Unlike cat, busybox runs it without the execution of a file. */
const copy = `dd bs=${copyBytes}`;

/** Shell text that succeeds when the process `pid` lives and works in the state folder. */
const isOurs = (pid: string) => `[ "/proc/${pid}/cwd" -ef . ]`;

/**
 * Sets the variable `b` to what precedes the name of a program. A busybox that prefers its own
 * programs runs them in a copy of the process, which costs less than the execution of a file.
 */
const ownPrograms = `
b=$0
PATH= command -v dd >/dev/null && b=`;

/**
 * `born` sets the variable `born` to the start time of the process $1. `holds` reads what the file
 * `holder` says, and fails, with the process id 0, when the holder has ended. After a restart of
 * the sandbox another process may have that id, so `holds` compares the start time too.
 */
const findHolder = `
born() {
  read -r line </proc/$1/stat || return
  set -- \${line##*) }
  born=\${20}
}
holds() {
  holder=0 pump=0
  [ -e holder ] && read -r holder since pump mark tty <holder && born $holder && [ "$born" = "$since" ] && ${isOurs("$holder")} ||
    { holder=0; return 1; }
} 2>/dev/null
`;

/**
 * Passes output and input until the shell has ended. The output goes to the client and then to a
 * part. The name of a part contains the offset of its first byte. The input comes from the first
 * client (descriptor 5), and from the pipe `in` once the process that reads this client has ended.
 */
const pump = `
# tee writes to the client first. Without a client that write fails, and tee must go on to the part.
trap "" PIPE
# Because of the trap, waiting ends when any process of the pump ends.
trap : CHLD
$b ${copy} <&5 >&9 8>&- 2>/dev/null &
input=$!
: >client.$input
exec 5<&-
part=0 name=part.000000000000 before=-1
while :; do
  over=; [ -e exit ] && over=1
  $b dd bs=${readBytes} count=${readsPerLook} <&9 2>/dev/null | $b tee -a $name >&8 2>/dev/null &
  output=$!
  while kill -0 $output; do
    # Opening the pipe waits for the next client.
    kill -0 $input || { $b ${copy} if=in >&9 8>&- 2>/dev/null & input=$!; }
    wait $output
  done
  size=$($b stat -c %s $name 2>/dev/null) || size=0
  if [ $size = $before ]; then
    [ -z "$over" ] || break
    $b usleep 20000
  fi
  before=$size
  [ $size -ge ${partBytes} ] || continue
  part=$((part + size)) before=-1
  name=part.$(printf %012d $part)
  set -- part.*
  while [ $# -ge ${maxParts} ] && [ ! -e joining ]; do $b usleep 100000; set -- part.*; done
done
kill $input`;

/**
 * Ends the other clients. A client first writes its own files, and then looks for the files of the
 * others. So of two clients that come at the same time, at least one sees the other.
 */
const takeOver = `
: >client.$$
[ -e epoch.$epoch ] || : >epoch.$epoch
for file in epoch.*; do
  [ "\${file#epoch.}" -le $epoch ] || { $b rm -f client.$$; echo f; exit 1; }
done
holds
for file in client.*; do
  pid=\${file#client.}
  [ $pid != $$ ] && [ $pid != $holder ] || continue
  while ${isOurs("$pid")} && kill -9 $pid; do $b usleep 1000; done 2>/dev/null
  $b rm -f $file
done`;

/** Joins the held shell of the process `holder`. */
const join = `
  : >joining
  exec 3<>out 4<out 3>&-
  $b ${copy} <&4 2>/dev/null & : >client.$!
  echo "o $mark"
  ( printf '\\033_%s\\033\\\\' $barrier >"$tty" ) 2>/dev/null &
  exec $b ${copy} >in 2>/dev/null`;

/**
 * Opens a new held shell, or joins the existing one. $1: state folder, $2: epoch, $3: nonce for a
 * new shell, $4: barrier, $5: text that executes a new shell, with the words of
 * `_sandpiper_session` before it, and the other arguments: words of this text. The client types
 * its stdin into the terminal. Its stdout is one line and then the output of the terminal. The
 * line `f` says that the sandbox has seen a higher epoch. The line `x` says that the sandbox
 * cannot hold a terminal. The line `o NONCE` says that the client joins an existing shell, and the
 * output from the barrier on follows. The line `n` says that the client opens a new shell, becomes
 * its holder, and waits for a line on stdin: the caller unlocks the terminal of descriptor 9 and
 * writes its path, or writes `!` and a command of plain words that unlocks the terminal and prints
 * its path.
 */
export const openScript = `
${ownPrograms}
folder=$1 epoch=$2 nonce=$3 barrier=$4
shift 4
umask 077
[ -d "$folder" ] || $b mkdir -p "$folder"
cd -- "$folder" || { echo x; exit 1; }
${findHolder}
${takeOver}
if [ ! -e exit ] && [ $holder != 0 ]; then
  ${join}
fi
[ ! -e in ] || $b rm -f in out part.* exit holder call begun left joining
$b mkfifo in out && exec 9<>/dev/ptmx || { echo x; exit 1; }
echo n
read -r tty && [ -n "$tty" ] || exit 1
case $tty in !*) tty=$(\${tty#!}) && [ -c "$tty" ] || exit 1 ;; esac
# Descriptor 8 is open for writing only, so without a client the output goes to the parts only.
exec 3<>out 4<out 8>out 3>&- 5<&0
$b ${copy} <&4 8>&- 9>&- 2>/dev/null & : >client.$!
exec 4<&- </dev/null >/dev/null 2>&1
born $$
( ${pump} ) &
pump=$!
exec 5<&-
echo $$ $born $pump $nonce "$tty" >holder
# A subshell opens the terminal, because the terminal would otherwise become that of this session.
# The subshell runs in the foreground, because the programs of a background one ignore SIGINT.
( exec 8>&- 9>&- <>"$tty" >&0 2>&0; umask 022; _sandpiper_session="$b setsid -c"; eval "shift; $1" )
echo $? >exit
exec 8>&- 9>&-
wait $pump`;

/** Prints all parts of the folder $1, the oldest first. */
export const historyScript = 'cd -- "$1" && "$0" cat part.*';

/** Removes all parts of the folder $1 except for the first $2 parts and the last part. */
export const forgetScript = `
cd -- "$1" || exit
keep=$2
set -- part.*
while [ $# -gt 1 ]; do
  if [ $keep -gt 0 ]; then keep=$((keep - 1)); else "$0" rm -f "$1"; fi
  shift
done`;

/** Prints the exit code of the held shell of the folder $1; nothing while the shell lives. */
export const exitScript = 'cd -- "$1" && read -r code <exit && echo $code';

/**
 * Prints the age of the last command in seconds, the id of the last command that a call left
 * running, and the number, id and text of the last command.
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

/** Prints the nonce of a held shell that has ended; nothing for a living or unknown shell. */
export const deadScript = `
cd -- "$1" || exit
${findHolder}
[ -e exit ] || ! holds || exit 0
read -r holder since pump mark tty <holder && echo $mark`;

/**
 * Prints the names of the folders of the folder $1 whose held shells live and have begun a command.
 * The folder whose last command began first comes first.
 */
export const livingScript = `
${findHolder}
cd -- "$1" || exit
for call in $("$0" ls -tr -- held_*/call 2>/dev/null); do
  cd -- "$1/\${call%/call}" && [ ! -e exit ] && holds && echo "\${call%/call}"
done 2>/dev/null`;

/** Notes that the joined client has read the history, so that the holder bounds the parts again. */
export const joinedScript = 'cd -- "$1" && "$0" rm -f joining';

/** Ends the held shell of the folder $1 and its running command, and removes the folder. */
export const endScript = `
cd -- "$1" || exit
${findHolder}
# Kills a process of the held shell with its children.
end() {
  [ $1 != 0 ] && [ $1 != $$ ] && ${isOurs("$1")} || return
  read -r children </proc/$1/task/$1/children
  kill -9 $1
  # Only the shell leads a process group.
  for child in $children; do kill -9 -$child $child; done
}
{
  holds
  # A program in the background keeps the terminal open, so the processes that read it must be killed.
  end $pump
  for client in client.*; do [ ! -e $client ] || end \${client#client.}; done
  end $holder
} 2>/dev/null
cd / && "$0" rm -rf "$1"`;
