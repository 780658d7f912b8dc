#!/bin/bash
set -e
NAME=value
readonly DIR=/tmp
greet() {
  local x=1
  echo "hi $x"
}
function stop { exit 0; }
if [ -n "$X" ]; then
  extra() { :; }
fi
