//go:build race

package worker

// raceEnabled says that the race detector needs more memory than any limit allows.
const raceEnabled = true
