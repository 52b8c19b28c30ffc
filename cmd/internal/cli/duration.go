package cli

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"
)

// A Duration is a flag with a duration that may have weeks, of 7 days each, and days, of 24 hours each: 1w, or 1d12h.
type Duration time.Duration

const day = 24 * time.Hour

// units are those that the Go library does not have, the largest first; of each there are no more than have so many bits.
var units = []struct {
	name   string
	length time.Duration
	bits   int
}{{"w", 7 * day, 12}, {"d", day, 16}}

var errDuration = errors.New("expected a duration with units (w, d, h, m, s, ms), such as 100ms, 36h, 7d, 2w or 1d12h")

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
	rest, whole := text, time.Duration(0)
	for _, unit := range units {
		before, after, ok := strings.Cut(rest, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(before, 10, unit.bits)
		if err != nil {
			return errDuration
		}
		whole += time.Duration(n) * unit.length
		rest = cmp.Or(after, "0s")
	}
	hours, err := time.ParseDuration(rest)
	if err != nil {
		return errDuration
	}
	*d = Duration(whole + hours)
	return nil
}

// Type implements pflag.Value.
func (d *Duration) Type() string { return "duration" }
