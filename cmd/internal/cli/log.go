package cli

import (
	"fmt"
	"log/slog"
	"strings"
)

// NewLog returns a log to s.Err: format is text or json, level debug, info, warn or error.
func NewLog(s Streams, format, level string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{}
	var threshold slog.Level
	if err := threshold.UnmarshalText([]byte(strings.ToUpper(level))); err != nil {
		return nil, fmt.Errorf("--log-level %s: use debug, info, warn or error", level)
	}
	options.Level = threshold
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(s.Err, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(s.Err, options)), nil
	}
	return nil, fmt.Errorf("--log-format %s: use text or json", format)
}
