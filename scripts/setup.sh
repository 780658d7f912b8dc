#!/bin/sh
# Installs what building lj needs beside Go: a C and a C++ compiler, git, make. As root on
# Debian or Ubuntu it installs what is missing and says so; otherwise it prints the one
# command that does.
set -eu
min=1.26
missing=
command -v git >/dev/null 2>&1 || missing="$missing git"
command -v "${CC:-gcc}" >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
command -v "${CXX:-g++}" >/dev/null 2>&1 || missing="$missing g++"
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing="$missing ca-certificates"
if [ -n "$missing" ]; then
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "lj needs:$missing. Install them with your system's package manager, then run make again." >&2
		exit 1
	fi
	if [ "$(id -u)" != 0 ]; then
		echo "lj needs:$missing. This installs them:" >&2
		echo "  sudo apt-get update && sudo apt-get install -y$missing" >&2
		exit 1
	fi
	echo "installing:$missing"
	DEBIAN_FRONTEND=noninteractive apt-get update -qq
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
if ! command -v go >/dev/null 2>&1; then
	echo "lj needs Go $min or newer: https://go.dev/dl" >&2
	exit 1
fi
have=$(go env GOVERSION | sed 's/^go//; s/[^0-9.].*//')
lowest=$(printf '%s\n%s\n' "$min" "$have" | sort -V | head -n 1)
if [ "$lowest" != "$min" ]; then
	echo "lj needs Go $min or newer, this is Go $have. A Go from 1.21 on fetches it by itself unless GOTOOLCHAIN=local is set." >&2
	[ "$(go env GOTOOLCHAIN)" = local ] && exit 1
fi
exit 0
