package sqlite_test

import ()
