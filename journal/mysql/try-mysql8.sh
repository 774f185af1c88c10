#!/bin/sh
# Runs the tests of journal/mysql on a MySQL 8 server of yours. No session of the project has run them on MySQL.
#
#   sh journal/mysql/try-mysql8.sh 'user:password@tcp(127.0.0.1:3306)/'
#
# The account needs all privileges: each test makes a database t_… and drops it. Tests that start, stop or reconfigure a
# server run on MariaDB, if it is installed, and skip otherwise.
set -eu
if [ $# -ne 1 ]; then
	sed -n 's/^# \{0,1\}//p' "$0"
	exit 2
fi
cd "$(dirname "$0")"
ONCEWARD_MYSQL_DSN=$1 go test -count=1 -timeout 30m ./internal/rows .
