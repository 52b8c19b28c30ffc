//go:build race

package authz_test

// racing tells that the race detector is on, under which pools forget what they hold from time
// to time.
const racing = true
