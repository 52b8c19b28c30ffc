package meter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// TestFind estimates what it takes to find a pattern.
func TestFind(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 200_000)
	for _, row := range []struct {
		reason, pattern, text string
		// atMost is the most that may be estimated; 0 says that it is too long for a call.
		atMost time.Duration
	}{
		{"a text that is not there", strings.Repeat("b", 5000), long, 5 * time.Millisecond},
		{"each character may be the first", strings.Repeat("a", 5000) + "b", long, 0},
		{"each other character may be the first", strings.Repeat("ab", 2500) + "c", strings.Repeat("ab", 100_000), 0},
		{"a text that repeats itself, in one that does not", strings.Repeat("ab", 2500), strings.Repeat("aab", 60_000), 10 * time.Millisecond},
		{"a text that is there", strings.Repeat("a", 100), long, 4 * time.Millisecond},
		{"a short text", "foo", long, 15 * time.Millisecond},
		{"a pattern", "[a-z]+x", long, 30 * time.Millisecond},
		{"upper or lower case", "(?i)" + strings.Repeat("a", 500), long, 0},
	} {
		m := meter.Meter{Allowance: allowance.New(time.Hour, 1<<30)}
		var took time.Duration
		err := m.Try(func() {
			took, _ = m.Within(time.Hour, func() { m.Find(meter.NewPattern(row.pattern), row.text) })
		})
		if (row.atMost == 0) != meter.IsStopped(err) || took > row.atMost {
			t.Errorf("%s: %v, %v, expected at most %v", row.reason, took, err, row.atMost)
		}
	}
}

// TestCallsOfTenantsAreShort: a call cannot be stopped, and others wait for the processor.
func TestCallsOfTenantsAreShort(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason    string
		allowance *allowance.Allowance
		refused   bool
	}{
		{"a policy of the cluster", allowance.New(allowance.PolicyTime, allowance.PolicyMemory), false},
		{"one that has no allowance yet", nil, false},
		{"a policy of a namespace", allowance.Namespace(nil), true},
	} {
		m := meter.Meter{Allowance: row.allowance}
		if err := m.Try(func() { m.Call(int64(2*allowance.NamespaceCall), 0) }); meter.IsStopped(err) != row.refused {
			t.Errorf("%s: a call of %v: %v", row.reason, 2*allowance.NamespaceCall, err)
		}
		if err := m.Try(func() { m.Call(int64(allowance.NamespaceCall), 0) }); !row.refused && err != nil {
			t.Errorf("%s: a call of %v: %v", row.reason, allowance.NamespaceCall, err)
		}
	}
}

// TestPatternsOfTenants: a pattern gives way as it reads, so that it has the time of other policies, and its error says so.
func TestPatternsOfTenants(t *testing.T) {
	t.Parallel()
	m := meter.Meter{Allowance: allowance.Namespace(nil)}
	err := m.Try(func() { m.FindAll(meter.NewPatternForAll("(a|aa)*b"), strings.Repeat("a", 2_000_000), -1) })
	if err == nil || !strings.HasSuffix(err.Error(), "one call may use 250ms") {
		t.Errorf("%v", err)
	}
}
