package routes_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/paths"
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/serve/routes"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// A scene is what routes sees of a cluster. It is used in a bubble of synctest.
type scene struct {
	t      *testing.T
	kube   *kubefake.Clientset
	routes *routes.Routes
	end    context.CancelFunc

	mu         sync.Mutex
	registered []webhookconfig.Registered
	err        error
	others     []replicas.Peer
	serves     []string
	leads      bool
}

func newScene(t *testing.T) *scene { return &scene{t: t, kube: kubefake.NewClientset()} }

// join starts a replica.
func (s *scene) join() {
	s.t.Helper()
	log := slog.New(slog.DiscardHandler)
	keeper := keyring.NewKeeper(s.kube.CoreV1().Secrets("usher-system"), keyring.Options{Namespace: "usher-system", Name: "usher-paths", Purpose: "webhook paths", Log: log})
	s.routes = routes.New(keeper, s, s, log)
	if err := s.routes.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	s.t.Cleanup(cancel)
	go func() { _ = s.routes.Run(ctx) }()
	synctest.Wait()
}

// Registered implements the registrar.
func (s *scene) Registered(context.Context) ([]webhookconfig.Registered, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.registered, s.err
}

// Peers, Serves and Leads implement the peers.
func (s *scene) Peers(context.Context) ([]replicas.Peer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others, nil
}

func (s *scene) Serves(_ string, words ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves = words
}

func (s *scene) Leads() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leads
}

func (s *scene) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// words are what this replica says that it serves.
func (s *scene) words() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serves
}

// key is the current key in the Secret.
func (s *scene) key() keyring.Key {
	s.t.Helper()
	secret, err := s.kube.CoreV1().Secrets("usher-system").Get(s.t.Context(), "usher-paths", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	key, err := keyring.KeyOf(secret.Data["current"])
	if err != nil {
		s.t.Fatal(err)
	}
	return key
}

// rotate replaces the key, as another replica would.
func (s *scene) rotate() keyring.Key {
	s.t.Helper()
	keeper := keyring.NewKeeper(s.kube.CoreV1().Secrets("usher-system"), keyring.Options{Name: "usher-paths", Purpose: "webhook paths", Log: slog.New(slog.DiscardHandler)})
	keys, err := keeper.Rotate(s.t.Context(), func(keyring.Keys) bool { return true })
	if err != nil {
		s.t.Fatal(err)
	}
	return keys.Current
}

// answers checks which paths are answered.
func (s *scene) answers(reason string, want bool, all ...string) {
	s.t.Helper()
	for _, path := range all {
		if entry, ok := s.routes.Answers(path); ok != want || ok && !strings.HasPrefix(path, "/"+entry) {
			s.t.Errorf("%s: path %s is answered: %t, as %q", reason, paths.Redact(path), ok, entry)
		}
	}
}

// registers makes API servers be told paths for pods.
func (s *scene) registers(all ...string) {
	s.set(func() {
		s.registered = nil
		for _, path := range all {
			entry := strings.Split(path, "/")[1]
			s.registered = append(s.registered, webhookconfig.Registered{Entry: entry, Path: path, Rules: ruleFor("", "pods")})
		}
	})
}

func ruleFor(group string, resources ...string) []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: resources},
	}}
}

// peer is another replica.
func peer(identity string, words ...string) replicas.Peer {
	return replicas.Peer{Identity: identity, Live: true, Serves: words, Renewed: time.Now(), Started: time.Now().Add(-time.Hour)}
}

// peerAt is another replica that began and wrote its Lease that many seconds after some time;
// one that began before does not say when.
func peerAt(identity string, began, renewed int) replicas.Peer {
	some := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	p := replicas.Peer{Identity: identity, Live: true, Serves: []string{"paths"}, Renewed: some.Add(time.Duration(renewed) * time.Second)}
	if began >= 0 {
		p.Started = some.Add(time.Duration(began) * time.Second)
	}
	return p
}
