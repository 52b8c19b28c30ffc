package report_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestEnforcedMeansThatItCanBeAskedFor: a policy about requests to authorize is enforced only if a live replica answers
// authorization webhooks, whichever that is.
func TestEnforcedMeansThatItCanBeAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		one := c.replica("one")
		unserved := good(1)
		unserved.Policies[0].Unserved = "it has no such flag"
		one.Observe(unserved)
		time.Sleep(2 * time.Second)
		c.wantEnforced("a", "False NotServed 1")
		const message = "every replica enforces this version, but it decides nothing: it has no such flag"
		if got := c.read("a"); got.LastError != message || !strings.Contains(strings.Join(c.status("a"), "\n"), message) {
			t.Errorf("last error %q, status %q, want %q", got.LastError, c.status("a"), message)
		}

		two, crash := c.mortal("two")
		two.Registry().Serves("authorization", "authorizes")
		two.Observe(good(1))
		time.Sleep(time.Minute)
		c.wantEnforced("a", "True Enforced 1")
		if got := c.read("a").LastError; got != "" {
			t.Errorf("last error %q though another replica authorizes", got)
		}
		crash()
		time.Sleep(2 * time.Minute)
		c.wantEnforced("a", "False NotServed 1")
	})
}
