package meter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// TestFindAll estimates what it takes to find all matches.
func TestFindAll(t *testing.T) {
	t.Parallel()
	long, words := strings.Repeat("a", 200_000), strings.Repeat("some word ", 2000)
	for _, row := range []struct {
		reason, pattern, text string
		limit                 int64
		// atMost is the most that may be estimated; 0 says that it is too long for a call.
		atMost time.Duration
	}{
		{"each match reads to the end", "a*b|a", long, -1, 0},
		{"each match that is empty reads to the end", "(x{1000}a*)*b|", long, -1, 0},
		{"each match reads to the end, but there are few", "a*b|a", long, 2, 200 * time.Millisecond},
		{"each match reads to the end, at the beginning of a word", `(?:\ba*)b|a`, long, -1, 0},
		{"each match reads a character too many", "[a-z]+", words, -1, 100 * time.Millisecond},
		{"words", `\b[a-z]+\b`, words, -1, 100 * time.Millisecond},
		{"lines", `(?m)^.*$`, strings.Repeat("a line\n", 2000), -1, 100 * time.Millisecond},
		{"the beginning alone", `^some`, words, -1, 100 * time.Millisecond},
		{"every character", "", words, -1, 200 * time.Millisecond},
		{"a short text", "a*b|a", "aaaa", -1, time.Millisecond},
		{"characters that are none", `\b.`, strings.Repeat("\xff", 10_000), -1, 200 * time.Millisecond},
		{"not a pattern", "(", long, -1, time.Millisecond},
	} {
		m := meter.Meter{Allowance: allowance.New(time.Hour, 1<<30)}
		var took time.Duration
		err := m.Try(func() {
			took, _ = m.Within(time.Hour, func() { m.FindAll(meter.NewPatternForAll(row.pattern), row.text, row.limit) })
		})
		if (row.atMost == 0) != meter.IsStopped(err) || took > row.atMost {
			t.Errorf("%s: %v, %v, expected at most %v", row.reason, took, err, row.atMost)
		}
	}
}
