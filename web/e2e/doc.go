// Package e2e tests the page of usher console in headless Chromium, and the web site of the documents. USHER_BIN is
// the binary that serves the page, and SITE the folder of the site;
// the tests are skipped where there is no chromium-headless-shell.
package e2e
