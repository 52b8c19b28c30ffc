//go:build !race

package access_test

const racing = false
