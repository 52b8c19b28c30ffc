package routes_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiserver "k8s.io/apiserver/pkg/admission"
	predicates "k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	clienttesting "k8s.io/client-go/testing"

	usher "github.com/usher-dev/usher"

	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/paths"
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/serve/page"
	"github.com/usher-dev/usher/internal/serve/routes"
)

func TestPathsAreAnsweredAsLongAsTheyAreUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.join()
		first := s.key()
		s.answers("the current key's", true, paths.Of(first, "mutate"), paths.Of(first, "validate"))
		s.answers("nobody was told these", false, "/mutate", "/validate", "/mutate/"+strings.Repeat("0", 64), "/")

		second := s.rotate()
		time.Sleep(11 * time.Second)
		s.answers("after a rotation", true, paths.Of(first, "mutate"), paths.Of(second, "mutate"))
		if got := strings.Join(s.words(), " "); got != "paths rights key-"+second.Fingerprint()+" key-"+first.Fingerprint() {
			t.Errorf("the replica says that it serves %s", got)
		}
		time.Sleep(time.Hour)
		s.answers("an hour after", false, paths.Of(first, "mutate"))
		s.answers("an hour after", true, paths.Of(second, "mutate"))
		if got := strings.Join(s.words(), " "); got != "paths rights key-"+second.Fingerprint() {
			t.Errorf("the replica says that it serves %s", got)
		}

		// Somebody registers what only older versions serve.
		s.registers("/mutate", "/validate")
		s.answers("not read yet", false, "/mutate")
		if err := s.routes.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.answers("another server registered it", true, "/mutate", "/validate", paths.Of(second, "mutate"))
		s.registers(paths.Of(second, "mutate"), paths.Of(second, "validate"))
		time.Sleep(59 * time.Minute)
		s.answers("used within the last hour", true, "/mutate")
		time.Sleep(2 * time.Minute)
		s.answers("not used for an hour", false, "/mutate", "/validate")

		// The registration is at paths of a key that was replaced twice.
		third, fourth := s.rotate(), s.rotate()
		time.Sleep(2 * time.Hour)
		s.answers("as long as they are registered", true, paths.Of(second, "mutate"), paths.Of(fourth, "mutate"))
		s.answers("never registered", false, paths.Of(third, "mutate"))
	})
}

// What API servers were told does not become old while nobody can read it.
func TestPathsLastThroughAnOutageOfTheAPIServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.registers("/mutate")
		s.join()
		s.set(func() { s.err = errors.New("connection refused") })
		time.Sleep(5 * time.Hour)
		s.answers("the last that was heard", true, "/mutate", paths.Of(s.key(), "mutate"))
		if !routes.Covers(s.routes, "mutate", request("", "pods", "")) {
			t.Error("pods are not sent any more")
		}
		if err := s.routes.Fresh(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("error is %v", err)
		}
	})
}

func TestPathsAreRegisteredWhenAllReplicasServeThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.registers("/mutate", "/validate")
		s.others = []replicas.Peer{peer("older")}
		s.join()
		key := s.key()
		const none = "left to older replicas"
		expect := func(reason, want string) {
			t.Helper()
			name, path := s.routes.Chosen("mutate")
			if name == none {
				path = none
			}
			if path != want {
				t.Errorf("%s: the path to register is %s, want %s", reason, paths.Redact(path), paths.Redact(want))
			}
		}
		expect("an older version lives", none)
		<-s.routes.Changed()
		lags, has, dead := peer("two", "paths", "rights", "key-0123"), peer("two", "paths", "rights", "key-"+key.Fingerprint()), peer("older")
		dead.Live = false
		s.set(func() { s.others = []replicas.Peer{lags, dead} })
		time.Sleep(11 * time.Second)
		expect("a replica does not have the key", "/mutate")
		told := page.Page{Named: true}
		s.routes.Describe(&told, "paths")
		if want := "not every replica has the new key yet: two (one that is gone counts for 30s)"; !strings.Contains(told.Text(), want) {
			t.Errorf("no %q in:\n%s", want, told.Text())
		}
		s.set(func() { s.others = []replicas.Peer{peer("two", "paths", "key-"+key.Fingerprint())} })
		time.Sleep(11 * time.Second)
		expect("a replica does not know the entries for policies that need rights", none)
		s.set(func() { s.others = []replicas.Peer{has, dead} })
		time.Sleep(11 * time.Second)
		expect("all that live have it", paths.Of(key, "mutate"))
		s.registers(paths.Of(key, "mutate"), paths.Of(key, "validate"))

		next := s.rotate()
		time.Sleep(11 * time.Second)
		expect("a new key, which the other has not read", paths.Of(key, "mutate"))
		s.set(func() {
			s.others = []replicas.Peer{peer("two", "paths", "rights", "key-"+next.Fingerprint(), "key-"+key.Fingerprint())}
		})
		time.Sleep(11 * time.Second)
		expect("now it has", paths.Of(next, "mutate"))
		s.set(func() { s.others = append(s.others, peer("older")) })
		time.Sleep(11 * time.Second)
		expect("an older version comes back", none)
	})
}

func TestKeysAreReplacedInTime(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		// before are the Leases when a replica starts, and after 15 seconds.
		before, then []replicas.Peer
		leads        bool
		// after is how long the key lasts, roughly; 0: for two days.
		after time.Duration
	}{
		{"no other replica runs", nil, nil, false, time.Nanosecond},
		{"another replica goes on", []replicas.Peer{peerAt("two", 0, 0)}, []replicas.Peer{peerAt("two", 0, 10)}, false, 0},
		{"another replica goes on, of a version that does not say when it began", []replicas.Peer{peerAt("two", -1, 0)}, []replicas.Peer{peerAt("two", -1, 10)}, false, 0},
		{"all others are dead", []replicas.Peer{peerAt("two", 0, 0)}, []replicas.Peer{peerAt("two", 0, 0)}, false, 40 * time.Second},
		{"another one has started again, as this one has", []replicas.Peer{peerAt("two", 0, 0)}, []replicas.Peer{peerAt("two", 9, 10)}, false, 40 * time.Second},
		{"another one has started under another name", []replicas.Peer{peerAt("two", 0, 0)}, []replicas.Peer{peerAt("two", 0, 0), peerAt("three", 9, 10)}, false, 40 * time.Second},
		{"a day is over for the leader", []replicas.Peer{peerAt("two", 0, 0)}, []replicas.Peer{peerAt("two", 0, 10)}, true, 24 * time.Hour},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.others = []replicas.Peer{peerAt("one", 0, 0)}
				s.join()
				s.end()
				time.Sleep(2 * time.Second)
				key := s.key()
				began := time.Now()
				s.set(func() { s.others, s.leads = row.before, row.leads })
				s.join()
				if row.after != time.Nanosecond {
					time.Sleep(15 * time.Second)
					s.set(func() { s.others = row.then })
					time.Sleep(max(row.after-time.Minute, 15*time.Second))
					if s.key() != key {
						t.Errorf("the key was replaced after less than %s", time.Since(began))
					}
					time.Sleep(2 * time.Minute)
				}
				if row.after == 0 {
					time.Sleep(48 * time.Hour)
				}
				if replaced := s.key() != key; replaced != (row.after > 0) {
					t.Errorf("the key was replaced: %t, after %s", replaced, time.Since(began))
				}
				if next := s.key(); row.after > 0 && row.after < time.Hour {
					if time.Sleep(time.Hour); s.key() != next {
						t.Error("the key was replaced twice")
					}
				}
			})
		})
	}
}

// Requests for unknown paths make the registration be read at most four times a second.
func TestUnknownPathsDoNotFloodTheAPIServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.join()
		s.kube.ClearActions()
		var busy sync.WaitGroup
		refused := make(chan error, 1000)
		for range 1000 {
			busy.Go(func() { refused <- s.routes.Fresh(t.Context()) })
		}
		busy.Wait()
		if n := len(s.kube.Actions()); n > 2 {
			t.Errorf("1000 requests made %d reads of the Secret", n)
		}
		answered := 0
		for range 1000 {
			if <-refused == nil {
				answered++
			}
		}
		if answered < 100 || answered > 300 {
			t.Errorf("%d requests waited, want that most are told to come again", answered)
		}
	})
}

func TestStartNeedsTheKey(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	no := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "usher-paths", errors.New("no"))
	s.kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, no })
	keeper := keyring.NewKeeper(s.kube.CoreV1().Secrets("usher-system"), keyring.Options{Name: "usher-paths", Purpose: "webhook paths"})
	if err := routes.New(keeper, s, s, slog.New(slog.DiscardHandler)).Start(t.Context()); !errors.Is(err, no) {
		t.Errorf("error is %v", err)
	}
}

func request(group, resource, subresource string) *usher.Request {
	return &usher.Request{Resource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, Subresource: subresource}
}

// TestRulesMatchAsInAPIServers compares with the matcher of API servers.
func TestRulesMatchAsInAPIServers(t *testing.T) {
	t.Parallel()
	subresources := []string{"", "status", "scale"}
	for _, rule := range [][2]string{
		{"", "pods"}, {"", "pods/status"}, {"", "pods/*"}, {"", "*"}, {"", "*/scale"}, {"*", "*/*"}, {"*", "*"}, {"apps", "deployments"}, {"*", "deployments/scale"}, {"apps", "*/*"},
	} {
		for _, group := range []string{"", "apps"} {
			for _, resource := range []string{"pods", "deployments"} {
				for _, subresource := range subresources {
					gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
					all := ruleFor(rule[0], rule[1])
					matcher := predicates.Matcher{
						Rule: all[0],
						Attr: apiserver.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "shop", "x", gvr, subresource, apiserver.Create, nil, false, nil),
					}
					if got, want := routes.Matches(all, group, resource, subresource), matcher.Matches(); got != want {
						t.Errorf("rule %v, request %v %s: %t, API servers say %t", rule, gvr, subresource, got, want)
					}
				}
			}
		}
	}
}
