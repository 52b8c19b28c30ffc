package enforce

import (
	"os"
	"runtime"
	"strconv"
)

// limitProcessors applies the environment variable of kinitiras, unless GOMAXPROCS is set.
func limitProcessors() {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	if n, err := strconv.ParseFloat(os.Getenv("CPUS"), 64); err == nil && n >= 1 {
		runtime.GOMAXPROCS(int(n))
	}
}
