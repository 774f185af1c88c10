package postgrestest

import "os"

func init() {
	if os.Getenv("ONCEWARD_TEST_NOWHERE") != "" {
		places = nil
	}
}
