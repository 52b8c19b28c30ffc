package enforce

import (
	"os"
	"runtime"
	"strconv"
)

// limitProcessors heeds the original's variable, unless Go's own says otherwise.
func limitProcessors() {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	if n, err := strconv.ParseFloat(os.Getenv("CPUS"), 64); err == nil && n >= 1 {
		runtime.GOMAXPROCS(int(n))
	}
}
