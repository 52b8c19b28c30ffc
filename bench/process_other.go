//go:build !linux

package main

import (
	"errors"
	"time"
)

func cpuOf(int) (time.Duration, error) { return 0, errors.New("CPU time is measured on Linux only") }

func cpuOfChildren(int) (time.Duration, error) {
	return 0, errors.New("CPU time is measured on Linux only")
}

func memoryOf(int) (int64, error) { return 0, errors.New("memory is measured on Linux only") }

// start is when the process started.
var start = time.Now()

// ownCPU returns how long the process runs, since its CPU time is unknown.
func ownCPU() time.Duration { return time.Since(start) }
