//go:build !linux

package serve

func dropPages() {}
