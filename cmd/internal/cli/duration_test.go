package cli_test

import (
	"testing"
	"time"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, row := range []struct {
		reason, text string
		want         time.Duration
		shown        string
	}{
		{"days", "7d", 7 * day, "7d"},
		{"days and hours", "1d12h", 36 * time.Hour, "36h0m0s"},
		{"weeks", "2w", 14 * day, "14d"},
		{"weeks, days and hours", "1w1d12h", 204 * time.Hour, "204h0m0s"},
		{"weeks after days", "1d1w", 0, ""},
		{"parts of weeks", "0.5w", 0, ""},
		{"more weeks than a duration has", "9999w", 0, ""},
		{"as the Go library has it", "168h", 7 * day, "7d"},
		{"minutes", "90m", 90 * time.Minute, "1h30m0s"},
		{"what is past is for the command to judge", "-1h", -time.Hour, "-1h0m0s"},
		{"nothing", "", 0, ""},
		{"no unit", "7", 0, ""},
		{"no number", "d", 0, ""},
		{"days after hours", "12h1d", 0, ""},
		{"negative days", "-1d", 0, ""},
		{"parts of days", "1.5d", 0, ""},
		{"more days than a duration has", "999999d", 0, ""},
	} {
		var d cli.Duration
		err := d.Set(row.text)
		switch {
		case row.shown == "" && (err == nil || err.Error() != "expected a duration with units (w, d, h, m, s, ms), such as 100ms, 36h, 7d, 2w or 1d12h"):
			t.Errorf("%s: %v", row.reason, err)
		case row.shown != "" && (err != nil || time.Duration(d) != row.want || d.String() != row.shown):
			t.Errorf("%s: %v, %v, shown as %s", row.reason, time.Duration(d), err, d.String())
		}
	}
}
