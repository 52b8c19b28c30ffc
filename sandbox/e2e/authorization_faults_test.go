package e2e

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAuthorizationWithoutUsher takes usher away, makes it slow, and brings it back. What RBAC
// allows goes on all the while, and denials are back with usher.
func TestAuthorizationWithoutUsher(t *testing.T) {
	t.Parallel()
	a := newAuthorized(t, arrangement{})
	jane := a.as(t, "jane", "devs")
	expectAllowed(t, "RBAC allows to read secrets", func() error { return a.getSecret(testContext(t), jane, "other") })
	expectAllowed(t, "a policy allows", func() error { return a.getService(testContext(t), jane) })
	expectForbidden(t, "the one that is hidden", a.getSecret(testContext(t), jane, "db-root"), reason)

	a.process.Kill()
	a.goesOn(t, "usher is down")
	unknown := a.as(t, fmt.Sprintf("jane-%d", time.Now().UnixNano()), "devs")
	if err := a.getService(testContext(t), unknown); !apierrors.IsForbidden(err) && !apierrors.IsInternalError(err) {
		t.Errorf("what only usher allows: got %v, want a refusal", err)
	}
	if err := a.process.Restart(); err != nil {
		t.Fatal(err)
	}
	took := eventually(t, "the denial to be back", func() error { return a.stillDenied(t) })
	t.Logf("denials are back %v after the restart", took)

	hole := newHole(t)
	a.between.sever()
	a.between.mend()
	a.between.lead(hole)
	a.goesOn(t, "usher does not answer")
	a.between.sever()
	a.between.mend()
	a.between.lead(a.address)
	took = eventually(t, "the denial to be back", func() error { return a.stillDenied(t) })
	t.Logf("denials are back %v after usher answers again", took)
}

// goesOn expects that RBAC's answers come: each webhook is waited for three seconds, and a slow machine takes
// longer.
func (a *authorized) goesOn(t *testing.T, when string) {
	t.Helper()
	for i := range 5 {
		// A name that was not asked for before is not remembered.
		began := time.Now()
		err := a.getSecret(testContext(t), a.as(t, fmt.Sprintf("jane-%d-%d", i, began.UnixNano()), "devs"), "other")
		if took := time.Since(began); err != nil || took > deadline/2 {
			t.Errorf("%s: what RBAC allows: %v after %v", when, err, took)
		}
	}
}

// stillDenied asks as somebody whose answers are not remembered.
func (a *authorized) stillDenied(t *testing.T) error {
	t.Helper()
	err := a.getSecret(testContext(t), a.as(t, fmt.Sprintf("jane-%d", time.Now().UnixNano()), "devs"), "db-root")
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("got %v, want a denial", err)
	}
	return nil
}

// newHole is an address where connections are taken and never answered.
func newHole(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = connection.Close() })
		}
	}()
	return listener.Addr().String()
}

// TestAuthorizationFailsClosed has an API server refuse what usher cannot decide. What no
// policy denies is not sent to usher, and goes on; so does the administrator.
func TestAuthorizationFailsClosed(t *testing.T) {
	t.Parallel()
	a := newAuthorized(t, arrangement{config: []string{"--deny-failure-policy=Deny", "--policies=POLICIES"}})
	jane := a.as(t, "jane", "devs")
	expectAllowed(t, "RBAC allows to read secrets", func() error { return a.getSecret(testContext(t), jane, "other") })
	a.process.Kill()
	unknown := a.as(t, "jane-2", "devs")
	err := a.getSecret(testContext(t), unknown, "db-root")
	if !apierrors.IsInternalError(err) {
		t.Errorf("what a policy may deny: got %v, want a 500", err)
	}
	if _, err := unknown.CoreV1().Endpoints(a.namespace).List(testContext(t), metav1.ListOptions{}); err != nil {
		t.Errorf("what no policy denies: %v", err)
	}
	if err := a.getSecret(testContext(t), a.kube, "db-root"); err != nil {
		t.Errorf("the administrator: %v", err)
	}
	if err := a.process.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "RBAC to be asked again", func() error { return a.getSecret(testContext(t), unknown, "other") })
	eventually(t, "the denial to be back", func() error { return a.stillDenied(t) })
}

// TestAuthorizationShadow has usher answer without opinion, and say what it would have said.
func TestAuthorizationShadow(t *testing.T) {
	t.Parallel()
	a := newAuthorized(t, arrangement{serve: []string{"--authorization-shadow"}})
	jane := a.as(t, "jane", "devs")
	expectAllowed(t, "RBAC allows what a policy would deny", func() error { return a.getSecret(testContext(t), jane, "db-root") })
	expectForbidden(t, "what only a policy would allow", a.getService(testContext(t), jane), "cannot get resource")
	text := a.metricsText(t)
	for _, want := range []string{
		`usher_decisions_total{door="shadow_deny",phase="authorize",verdict="deny"}`,
		`usher_decisions_total{door="shadow_allow",phase="authorize",verdict="allow"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
	log, err := os.ReadFile(a.process.Log)
	if err != nil || !strings.Contains(string(log), "shadow=true") || !strings.Contains(string(log), "ClusterAuthorizationPolicy hide-db") {
		t.Errorf("the log does not tell what would have been denied: %v: %s", err, log)
	}
}
