package webhook

import "testing"

// TakeAnySecret lets vectors that others published keep their short secrets.
func TakeAnySecret(t *testing.T) {
	minSecret = 0
	t.Cleanup(func() { minSecret = MinSecret })
}
