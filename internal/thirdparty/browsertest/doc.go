// Package browsertest tests the console, and a page before package proxy, in a browser: Debian's
// chromium-headless-shell, or the program that ONCEWARD_BROWSER names. Without a browser its tests skip. With
// ONCEWARD_BROWSER=required they fail.
package browsertest
