package observe_test

import (
	"testing"
	"time"

	"github.com/usher-dev/usher/cmd/usher/internal/observe"
)

// TestSince: past decisions are asked for by a duration or by a time.
func TestSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 12, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		text  string
		want  time.Duration
		shown string
	}{
		{"15m", 15 * time.Minute, ""},
		{"1h", time.Hour, ""},
		{"1d", 24 * time.Hour, "2030-01-31T12:30:00Z"},
		{"12:00", 30 * time.Minute, "2030-01-31T12:30:00Z"},
		{"23:30", 13 * time.Hour, "2030-01-31T12:30:00Z"},
		{"2030-01-31T12:30:00+01:00", time.Hour, "2030-01-31T12:30:00Z"},
		{"2030-01-31T12:31:00Z", -1, ""},
		{"yesterday", -1, ""},
		{"25:00", -1, ""},
	} {
		got, shown, err := observe.Since(c.text, now)
		if c.want < 0 {
			if err == nil {
				t.Errorf("%s is %s", c.text, got)
			}
			continue
		}
		if c.shown == "" {
			c.shown = now.Local().Format("15:04:05.000") //nolint:gosmopolitan // Lines are for the person at the terminal.
		}
		if err != nil || got != c.want || shown != c.shown {
			t.Errorf("%s: %s, %s, %v; want %s, %s", c.text, got, shown, err, c.want, c.shown)
		}
	}
}
