//go:build !linux

package memory

func DropPages() {}
