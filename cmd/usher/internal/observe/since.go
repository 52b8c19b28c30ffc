package observe

import (
	"errors"
	"time"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

// dated is from what age on times of decisions are printed with their date.
const dated = cli.Duration(time.Hour)

// A since is a flag with a duration before now: as one, or as the time at which it begins.
type since struct {
	cli.Duration

	// timed says that it was a time.
	timed bool
}

// Set implements pflag.Value.
func (s *since) Set(text string) error { return s.set(text, time.Now().UTC()) }

func (s *since) set(text string, now time.Time) error {
	if s.timed = false; s.Duration.Set(text) == nil {
		return nil
	}
	from, err := time.Parse(time.RFC3339, text)
	if err != nil {
		if from, err = time.Parse("15:04", text); err != nil {
			return errors.New("expected a duration such as 15m or 1d, or a time such as 2030-01-31T12:00:00Z, or 12:00 in UTC")
		}
		from = time.Date(now.Year(), now.Month(), now.Day(), from.Hour(), from.Minute(), 0, 0, time.UTC)
		if from.After(now) {
			from = from.AddDate(0, 0, -1)
		}
	}
	if !from.Before(now) {
		return errors.New("the time is not past")
	}
	s.Duration, s.timed = cli.Duration(now.Sub(from).Round(time.Second)), true
	return nil
}

// clock returns a time: of the day for the person at this terminal or, if the decisions to show go back further, with
// the date in UTC, as status and logs have it.
func (s *since) clock(t time.Time) string {
	if s.timed || s.Duration > dated {
		return t.UTC().Format(time.RFC3339)
	}
	return t.Local().Format("15:04:05.000") //nolint:gosmopolitan // It is for the person at this terminal.
}
