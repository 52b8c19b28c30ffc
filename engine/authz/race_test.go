//go:build race

package authz_test

// racing tells that the race detector is on, under which pools forget what they hold now
// and then.
const racing = true
