package report_test

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/report"
)

// TestTheLastReplicaSaysSo: when nobody is left, status does not go on saying that policies are
// enforced; when somebody is, it does. The next one that starts enforces them again.
func TestTheLastReplicaSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		one, stopOne := c.stoppable("one")
		one.Observe(good(1))
		two, stopTwo := c.stoppable("two")
		two.Observe(good(1))
		time.Sleep(10 * time.Second)
		c.wantEnforced("a", "True Enforced 1")
		stopOne()
		c.wantEnforced("a", "True Enforced 1")
		time.Sleep(20 * time.Second)
		c.clear()
		stopTwo()
		c.wantEnforced("a", "False NoServer 1")
		if n := c.patches(); n != 1 {
			t.Errorf("%d statuses written, want one", n)
		}
		c.replica("three").Observe(good(1))
		time.Sleep(10 * time.Second)
		c.wantEnforced("a", "True Enforced 1")
	})
}

// TestReplicasThatEndTogether: each deletes its Lease before it looks for others, so that one
// of them finds that it was the last.
func TestReplicasThatEndTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		var stops []func()
		for _, name := range []string{"one", "two", "three"} {
			r, stop := c.stoppable(name)
			r.Observe(good(1))
			stops = append(stops, stop)
		}
		time.Sleep(10 * time.Second)
		c.wantEnforced("a", "True Enforced 1")
		ended := make(chan struct{})
		for _, stop := range stops {
			go func() { stop(); ended <- struct{}{} }()
		}
		for range stops {
			<-ended
		}
		c.wantEnforced("a", "False NoServer 1")
	})
}

// TestAStatusWrittenMeanwhileIsReadAgain: a leader that begins while the one before says goodbye
// notices within a minute what that has written.
func TestAStatusWrittenMeanwhileIsReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		c.replica("one").Observe(good(1))
		time.Sleep(5 * time.Second)
		if n, err := report.Withdraw(t.Context(), c.policies, "NoServer", "too late"); n != 1 || err != nil {
			t.Fatalf("%d statuses written, %v", n, err)
		}
		c.wantEnforced("a", "False NoServer 1")
		time.Sleep(time.Minute)
		c.wantEnforced("a", "True Enforced 1")
	})
}

// TestAServerThatGoesOnSaysSo: who uninstalls Usher while a server runs finds in the status that it still enforces.
func TestAServerThatGoesOnSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		c.replica("one").Observe(good(1))
		time.Sleep(5 * time.Minute)
		leases := c.kube.CoordinationV1().Leases("usher")
		if err := leases.Delete(t.Context(), "usher-replica-one", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if n, err := report.Withdraw(t.Context(), c.policies, "Uninstalled", "too early"); n != 1 || err != nil {
			t.Fatalf("%d statuses written, %v", n, err)
		}
		time.Sleep(15 * time.Second)
		made, err := leases.Get(t.Context(), "usher-replica-one", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// An API server gives it another UID.
		made.UID = "another"
		if _, err := leases.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		c.wantEnforced("a", "True Enforced 1")
	})
}
