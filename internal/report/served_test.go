package report_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/report"
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

// authorizing returns a cluster with the policy a, which is about requests to authorize, and what a replica has of it.
func authorizing(t *testing.T) (*cluster, report.Snapshot) {
	t.Helper()
	c := newCluster(t)
	c.resource = usherv1alpha1.GroupVersion.WithResource("clusterauthorizationpolicies")
	c.create("a", "u", 1)
	access := good(1)
	access.Policies[0].Policy.Kind = "ClusterAuthorizationPolicy"
	return c, access
}

// TestEnforcedMeansThatSomebodyAsks: a policy about requests to authorize is not said to be enforced while no API server has
// asked any live replica.
func TestEnforcedMeansThatSomebodyAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, access := authorizing(t)
		one := c.replica("one")
		one.Observe(access)
		time.Sleep(30 * time.Second)
		if c.read("a").Conditions != nil {
			t.Errorf("it is too early to tell, and the status is %v", c.status("a"))
		}
		time.Sleep(time.Minute)
		c.wantEnforced("a", "Unknown NotVerified 1")
		if got, want := c.status("a"), "every replica enforces this version; whether API servers ask them is not known: none has asked to authorize anything since "; !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("status %q, want %q", got, want)
		}

		two, crash := c.mortal("two")
		two.Registry().Serves("asked", "asked")
		two.Observe(access)
		time.Sleep(2 * time.Minute)
		c.wantEnforced("a", "True Enforced 1")
		crash()
		time.Sleep(2 * time.Minute)
		c.wantEnforced("a", "Unknown NotVerified 1")
		one.Registry().Serves("asked", "asked")
		time.Sleep(2 * time.Minute)
		c.wantEnforced("a", "True Enforced 1")
	})
}

// TestARestartIsNotAnOutage: when a replica runs again, policies about requests to authorize are not said to have no
// server until somebody asks it.
func TestARestartIsNotAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, access := authorizing(t)
		one, stop := c.stoppable("one")
		one.Registry().Serves("asked", "asked")
		one.Observe(access)
		time.Sleep(10 * time.Second)
		c.wantEnforced("a", "True Enforced 1")
		stop()
		c.wantEnforced("a", "False NoServer 1")

		two := c.replica("two")
		two.Observe(access)
		time.Sleep(10 * time.Second)
		c.wantEnforced("a", "Unknown NotVerified 1")
		if got, want := strings.Join(c.status("a"), "\n"), "'kubectl auth can-i get pods --as nobody' makes one ask"; !strings.Contains(got, want) {
			t.Errorf("status %q, want %q", got, want)
		}
		two.Registry().Serves("asked", "asked")
		time.Sleep(time.Minute)
		c.wantEnforced("a", "True Enforced 1")
	})
}
