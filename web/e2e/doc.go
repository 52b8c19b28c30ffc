// Package e2e tests the page of usher console in headless Chromium. USHER_BIN is the binary that serves it;
// the tests are skipped where there is no chromium-headless-shell.
package e2e
