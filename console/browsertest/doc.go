// Package browsertest tests the console in a browser: Debian's chromium-headless-shell, or what
// ONCEWARD_BROWSER names. Where there is none its tests skip; with ONCEWARD_BROWSER=required they fail.
package browsertest
