#!/usr/bin/env bash
# Stands for rustc where `coverage.sh` builds: the same with counters in the code.
exec "$@" -C instrument-coverage
