#!/usr/bin/env bash
# Makes a Docker engine answer on a Debian machine, as root: installs what is missing and starts dockerd if none runs.
#   scripts/start_docker.sh          log and pid file under .cache/docker
#   scripts/start_docker.sh stop     ends the dockerd that this script started
# Where gVisor (the package `runsc`) can be installed, the engine gets it as the runtime `runsc`.
# Without root it changes nothing: the tests that need an engine then skip and say why.
set -euo pipefail
cd "$(dirname "$0")/.."
state=.cache/docker
mkdir -p "$state"

if [[ "${1:-}" == stop ]]; then
    if [[ -f "$state/pid" ]] && [[ "$(cat "/proc/$(cat "$state/pid")/comm" 2>/dev/null)" == dockerd ]]; then
        kill "$(cat "$state/pid")"
    fi
    rm -f "$state/pid"
    exit 0
fi

if [[ "$(id -u)" != 0 ]]; then
    docker info >/dev/null 2>&1 || echo "no Docker engine answers, and only root can start one: its tests will skip"
    exit 0
fi

packages=()
command -v dockerd >/dev/null || packages+=(docker.io)
command -v iptables >/dev/null || packages+=(iptables)
command -v debootstrap >/dev/null || packages+=(debootstrap)
command -v bwrap >/dev/null || packages+=(bubblewrap)
if ((${#packages[@]})) && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=300 update -qq
    apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${packages[@]}" >"$state/apt.log" 2>&1 ||
        { tail -5 "$state/apt.log"; exit 1; }
    # optional: not every release of Debian has it
    apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends runsc >>"$state/apt.log" 2>&1 || true
fi

docker info >/dev/null 2>&1 && exit 0
# pid files of an engine that was killed: once another process has the number, a new engine would wait for it
for pidfile in /var/run/docker.pid /var/run/docker/containerd/containerd.pid; do
    if [[ -f "$pidfile" ]]; then
        case "$(cat "/proc/$(cat "$pidfile")/comm" 2>/dev/null)" in
            dockerd | containerd) ;;
            *) rm -f "$pidfile" ;;
        esac
    fi
done
config=()
if command -v runsc >/dev/null && [[ ! -e /etc/docker/daemon.json ]]; then
    # ptrace works everywhere, KVM only on bare metal; containers without a network need none of gVisor's
    printf '{"runtimes": {"runsc": {"path": "%s", "runtimeArgs": ["--platform=ptrace", "--network=none"]}}}\n' \
        "$(command -v runsc)" >"$state/daemon.json"
    config=(--config-file "$PWD/$state/daemon.json")
fi
setsid nohup dockerd "${config[@]}" >"$state/log" 2>&1 </dev/null &
echo $! >"$state/pid"
for _ in $(seq 120); do
    docker info >/dev/null 2>&1 && exit 0
    kill -0 "$(cat "$state/pid")" 2>/dev/null || break
    sleep 0.25
done
echo "dockerd did not start; the end of $state/log:"
tail -5 "$state/log"
exit 1
