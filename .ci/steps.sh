# shellcheck shell=bash
# What .ci/run and .ci/nightly share: steps that are counted, one after another or beside each other, and their last line.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# Of a lane: its name, its present step, and how many it has.
lane="" n=0 m=0

work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
: >"$work/counts"
mkdir "$work/failures"

# The registry may be slow, or fail now and again.
export npm_config_fetch_retries=5 npm_config_fetch_timeout=600000
# With a larger heap the compiler of Go takes a quarter less CPU.
export GOGC=400

# Runs a step, and notes what it counted. A step that failed without counting is one failure.
step() {
  local output status line p f k start=$SECONDS
  output=$(mktemp "$work/output.XXXXXX")
  n=$((n + 1))
  if [ -n "$lane" ]; then
    { flock 9; echo "── $lane: step $n of $m: $*"; } 9>"$work/shown"
    "$@" >"$output" 2>&1
    status=$?
    # Shown at its end, in one piece.
    { flock 9; echo "── $*"; cat "$output"; } 9>"$work/shown"
  else
    echo "── $*"
    "$@" 2>&1 | tee "$output"
    status=${PIPESTATUS[0]}
  fi
  line=$(grep -E '^(Tests: |[0-9]+ passed, [0-9]+ failed)' "$output" | tail -n 1)
  p=$(grep -oE '[0-9]+ passed' <<<"$line" | grep -oE '[0-9]+' || echo 0)
  f=$(grep -oE '[0-9]+ failed' <<<"$line" | grep -oE '[0-9]+' || echo 0)
  k=$(grep -oE '[0-9]+ skipped' <<<"$line" | grep -oE '[0-9]+' || echo 0)
  if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
  echo "$p 0 $k" >>"$work/counts"
  if [ "$f" -gt 0 ]; then { echo "$f"; echo "$*"; cat "$output"; } >"$work/failures/${output##*/}"; fi
  echo "── $*: $p passed, $f failed, $k skipped, $((SECONDS - start)) s"
}

# Runs functions beside each other. One that ends early is a failure.
beside() {
  local name pid pids=()
  for name in "$@"; do
    (lane=$name n=0 m=$(declare -f "$name" | grep -cE '^ +step ') && "$name") &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || echo '0 1' >>"$work/counts"; done
}

# Runs functions and npm scripts in a number of lanes. A lane that is free takes the next one, so the lanes end at about
# the same time when the longest stand first.
in_lanes() {
  local lanes=$1 i pid pids=()
  shift
  printf '%s\n' "$@" >"$work/waiting"
  for ((i = 0; i < lanes; i++)); do
    run_waiting &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || echo '0 1' >>"$work/counts"; done
}

# The work of a lane.
run_waiting() {
  local name
  while name=$(take_waiting); do
    if declare -F "$name" >/dev/null; then
      beside "$name"
    else
      (lane=$name n=0 m=1 && step npm run "$name") || echo '0 1' >>"$work/counts"
    fi
  done
}

take_waiting() {
  (
    flock 9
    head -n 1 "$work/waiting" | grep . && sed -i 1d "$work/waiting"
  ) 9>"$work/taken"
}

# Programs that the steps need, and the packages of Debian that have them.
PROGRAMS="buildah runc chromium curl haproxy faketime openssl pgbouncer prometheus promtool ps nginx caddy etcd patroni unshare setpriv"
PACKAGES="buildah runc chromium curl haproxy faketime openssl pgbouncer procps prometheus nginx-light caddy python3-venv etcd-server patroni postgresql util-linux"
# What Debian starts when it installs them: program and service.
SERVERS="nginx:nginx caddy:caddy haproxy:haproxy pgbouncer:pgbouncer prometheus:prometheus etcd:etcd patroni:patroni pg_lsclusters:postgresql"

has_packages() {
  local program
  compgen -G '/usr/lib/postgresql/*/bin/pg_rewind' >/dev/null || return
  for program in $PROGRAMS; do command -v "$program" >/dev/null || return; done
  python3 -c 'import ensurepip, venv' 2>/dev/null
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo --preserve-env=PATH "$@"; fi
}

install_packages() {
  has_packages && return
  local server new=()
  for server in $SERVERS; do command -v "${server%:*}" >/dev/null || new+=("${server#*:}"); done
  # shellcheck disable=SC2086 # A list of words.
  as_root apt-get update -qq -o Acquire::Retries=5 &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Acquire::Retries=5 $PACKAGES >/dev/null
  local status=$?
  # Optional: without it the tests use chromium, which takes more CPU.
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium-headless-shell >/dev/null 2>&1
  # Debian starts what it installs, unless a policy forbids it. What ran before goes on.
  for server in ${new[@]+"${new[@]}"}; do as_root service "$server" stop >/dev/null 2>&1; done
  return $status
}

# Runs again, alone, each step that failed; of Jest the files that failed, of chaos the scenarios. On two busy cores a wait
# may end too early once, while a fault fails twice. Both runs are shown; only the failures of the second one count. A step
# that passes then is named as flaky in the last lines. .ci/nightly repeats nothing.
repeat_failed() {
  local failure command files scenarios again remaining
  for failure in "$work"/failures/*; do
    [ -e "$failure" ] || return 0
    command=$(sed -n 2p "$failure")
    files=$(grep -oE '^FAIL [^ ]+' "$failure" | cut -d ' ' -f 2 | sort -u)
    scenarios=$(grep -F '**broken**' "$failure" | sed -nE 's/^\| ([a-z0-9-]+):.*/--only \1/p')
    rm "$failure"
    remaining=$(count_failures)
    again=$(tr '\n' ' ' <<<"$command $files $scenarios")
    echo "── Again, alone, because it failed: $again"
    # shellcheck disable=SC2086 # Lists of words.
    if [ -n "$scenarios" ]; then
      step ${command%% --only *} $scenarios
    elif [ -z "$files" ]; then
      step $command
    elif [ "$command" = 'npm test' ]; then
      step npm run lint
      step npm run test:jest -- --maxWorkers=1 $files
    else
      step $command -- --maxWorkers=1 $files
    fi
    [ "$(count_failures)" -gt "$remaining" ] || echo "flaky: $again" >>"$work/flaky"
  done
}

count_failures() { find "$work/failures" -type f | wc -l; }

# Prints the flaky steps and the last line. Fails unless something passed and nothing failed.
finish() {
  local failure
  for failure in "$work"/failures/*; do
    [ -e "$failure" ] && echo "0 $(head -n 1 "$failure")" >>"$work/counts"
  done
  if [ -e "$work/flaky" ]; then
    cat "$work/flaky"
    echo "$(wc -l <"$work/flaky") flaky: failed beside other steps, and passed alone"
  fi
  awk '{ p += $1; f += $2; k += $3 } END { printf "%d skipped\n%d passed, %d failed\n", k, p, f; exit !(p > 0 && f == 0) }' "$work/counts"
}
