//go:build !race

package authz_test

const racing = false
