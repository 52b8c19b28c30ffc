package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// A Version says what the binary was built from, and with what.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// String is the version on one line.
func (v Version) String() string { return fmt.Sprintf("%s (%s, %s)", v.Version, v.Go, v.Platform) }

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
