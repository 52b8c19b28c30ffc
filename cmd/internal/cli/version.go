package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// A Version says what the binary was built from, and with what.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// String is the version on one line, with the commit unless the version has it.
func (v Version) String() string {
	commit := v.Revision[:min(len(v.Revision), 12)]
	if commit == "" || strings.Contains(v.Version, commit) {
		return fmt.Sprintf("%s (%s, %s)", v.Version, v.Go, v.Platform)
	}
	return fmt.Sprintf("%s (commit %s, %s, %s)", v.Version, commit, v.Go, v.Platform)
}

// BuildVersion is what the Go tool wrote into the binary.
func BuildVersion() Version {
	v := Version{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			v.Revision = setting.Value
		}
	}
	return v
}
