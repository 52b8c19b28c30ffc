package cli

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"
)

// A Duration is a flag with a duration that may have days, of 24 hours each: 7d, or 1d12h.
type Duration time.Duration

const day = 24 * time.Hour

// String implements pflag.Value.
func (d *Duration) String() string {
	whole := time.Duration(*d)
	if whole >= day && whole%day == 0 {
		return strconv.Itoa(int(whole/day)) + "d"
	}
	return whole.String()
}

// Set implements pflag.Value.
func (d *Duration) Set(text string) error {
	rest, days := text, uint64(0)
	var err error
	if before, after, ok := strings.Cut(text, "d"); ok {
		days, err = strconv.ParseUint(before, 10, 16)
		rest = cmp.Or(after, "0s")
	}
	hours, errHours := time.ParseDuration(rest)
	if err != nil || errHours != nil {
		return errors.New("expected a duration with units, such as 100ms, 36h, 7d or 1d12h")
	}
	*d = Duration(time.Duration(days)*day + hours)
	return nil
}

// Type implements pflag.Value.
func (d *Duration) Type() string { return "duration" }
