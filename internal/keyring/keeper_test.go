package keyring_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/keyring"
)

// A store is the Secrets of a namespace as an API server keeps them: what has changed since
// it was read is not overwritten.
type store struct {
	mu      sync.Mutex
	secrets map[string]*corev1.Secret
	version int
	// before, if set, is called once, before the next write.
	before func()
	err    error
}

func newStore(secrets ...*corev1.Secret) *store {
	s := &store{secrets: map[string]*corev1.Secret{}}
	for _, secret := range secrets {
		secret.ResourceVersion = "0"
		s.secrets[secret.Name] = secret
	}
	return s
}

var resource = schema.GroupResource{Resource: "secrets"}

func (s *store) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if secret, ok := s.secrets[name]; ok {
		return secret.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(resource, name)
}

func (s *store) write(secret *corev1.Secret, check func(old *corev1.Secret) error) (*corev1.Secret, error) {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if err := check(s.secrets[secret.Name]); err != nil {
		return nil, err
	}
	s.version++
	secret = secret.DeepCopy()
	secret.ResourceVersion = strings.Repeat("i", s.version)
	s.secrets[secret.Name] = secret
	return secret, nil
}

func (s *store) Create(_ context.Context, secret *corev1.Secret, _ metav1.CreateOptions) (*corev1.Secret, error) {
	return s.write(secret, func(old *corev1.Secret) error {
		if old != nil {
			return apierrors.NewAlreadyExists(resource, secret.Name)
		}
		return nil
	})
}

func (s *store) Update(_ context.Context, secret *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	return s.write(secret, func(old *corev1.Secret) error {
		if old == nil || old.ResourceVersion != secret.ResourceVersion {
			return apierrors.NewConflict(resource, secret.Name, errors.New("it has changed"))
		}
		return nil
	})
}

func (s *store) delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.secrets, name)
}

func keeper(s *store) *keyring.Keeper {
	return keyring.NewKeeper(s, keyring.Options{Namespace: "usher-system", Name: "usher-paths", Purpose: "webhook paths", Log: slog.New(slog.DiscardHandler)})
}

func load(t *testing.T, k *keyring.Keeper) keyring.Keys {
	t.Helper()
	keys, err := k.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func always(keyring.Keys) bool { return true }

func TestReplicasShareKeys(t *testing.T) {
	t.Parallel()
	s := newStore()
	one, two := keeper(s), keeper(s)
	// The other replica makes the Secret between a look and the attempt to make it.
	var theirs keyring.Keys
	s.before = func() { theirs = load(t, two) }
	if ours := load(t, one); ours != theirs || ours.Current.IsZero() || !ours.Previous.IsZero() {
		t.Errorf("one has %v, the other %v", ours, theirs)
	}
	if k := s.secrets["usher-paths"]; k.Labels["app.kubernetes.io/managed-by"] != "usher" || len(k.Data["current"]) != keyring.KeySize {
		t.Errorf("the Secret is %v", k.ObjectMeta)
	}
}

func TestRotate(t *testing.T) {
	t.Parallel()
	s := newStore()
	one, two := keeper(s), keeper(s)
	first := load(t, one)
	load(t, two)
	// Both find the key due at the same time: it is replaced once.
	due := func(k keyring.Keys) bool { return k.Current == first.Current }
	var theirs keyring.Keys
	s.before = func() {
		var err error
		if theirs, err = two.Rotate(t.Context(), due); err != nil {
			t.Error(err)
		}
	}
	ours, err := one.Rotate(t.Context(), due)
	if err != nil {
		t.Fatal(err)
	}
	if ours != theirs || ours.Current == first.Current || ours.Previous != first.Current || time.Since(ours.Replaced) > time.Minute {
		t.Errorf("after the rotation one has %v, the other %v, before it was %v", ours, theirs, first)
	}
	if again := load(t, one); again != ours {
		t.Errorf("keys change by being read: %v, %v", ours, again)
	}
}

func TestKeysAreReplaced(t *testing.T) {
	t.Parallel()
	known := strings.Repeat("k", keyring.KeySize)
	labels := map[string]string{"app.kubernetes.io/managed-by": "usher"}
	for _, row := range []struct {
		reason string
		change func(s *store)
		// err is what an error says; previous tells whether the known key is the one before.
		err      string
		previous bool
	}{
		{"deleted", func(s *store) { s.delete("usher-paths") }, "", true},
		{"emptied", func(s *store) { s.secrets["usher-paths"].Data = nil }, "", true},
		{"cut short", func(s *store) { s.secrets["usher-paths"].Data["current"] = []byte("short") }, "", true},
		{"replaced by somebody's own", func(s *store) {
			s.secrets["usher-paths"] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "usher-paths"}, Data: map[string][]byte{"password": []byte("x")}}
		}, "it holds something else: name another Secret", false},
		{"without a namespace", func(s *store) {
			s.err = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "usher-system")
		}, `namespaces "usher-system" not found; the namespace has to exist: kubectl create namespace usher-system`, false},
		{"forbidden", func(s *store) { s.err = apierrors.NewForbidden(resource, "usher-paths", errors.New("no")) }, "let Usher's service account create Secrets there", false},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			s := newStore(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "usher-paths", Labels: labels}, Data: map[string][]byte{"current": []byte(known)}})
			k := keeper(s)
			before := load(t, k)
			row.change(s)
			after, err := k.Load(t.Context())
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) || !strings.HasPrefix(err.Error(), "keep keys of webhook paths in Secret usher-system/usher-paths: ") {
					t.Errorf("error is %v, want %s", err, row.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if after.Current == before.Current || (after.Previous == before.Current) != row.previous {
				t.Errorf("before %v, after %v", before, after)
			}
		})
	}
}

func TestKeeperGivesUp(t *testing.T) {
	t.Parallel()
	s := newStore()
	k := keeper(s)
	load(t, k)
	// Somebody else is faster each time.
	var bump func()
	bump = func() {
		s.secrets["usher-paths"].ResourceVersion += "x"
		s.before = bump
	}
	s.before = bump
	if _, err := k.Rotate(t.Context(), always); !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want a conflict", err)
	}
}

func TestNotesStayWithTheKeys(t *testing.T) {
	t.Parallel()
	s := newStore()
	first := keyring.Options{
		Namespace: "usher-system", Name: "usher-proofs", Purpose: "policy proofs", Log: slog.New(slog.DiscardHandler),
		First: func(context.Context) (string, error) { return "first", nil },
	}
	k := keyring.NewKeeper(s, first)
	if keys := load(t, k); keys.Note != "first" {
		t.Errorf("the note of the first key is %q", keys.Note)
	}
	next, err := k.SetNote(t.Context(), func(keys keyring.Keys) (string, error) { return keys.Note + " second", nil })
	if err != nil || next.Note != "first second" {
		t.Errorf("the note is %q, %v", next.Note, err)
	}
	rotated, err := k.Rotate(t.Context(), always)
	if err != nil || rotated.Note != next.Note || rotated.Previous != next.Current {
		t.Errorf("after a rotation keys are %v with note %q, %v", rotated, rotated.Note, err)
	}
	// What a replica knows is not lost with the Secret.
	s.delete("usher-proofs")
	if keys := load(t, k); keys.Note != next.Note || keys.Previous != rotated.Current {
		t.Errorf("after the deletion keys are %v with note %q", keys, keys.Note)
	}
	s.delete("usher-proofs")
	if keys := load(t, keyring.NewKeeper(s, first)); keys.Note != "first" || !keys.Previous.IsZero() {
		t.Errorf("a replica that knows nothing has %v with note %q", keys, keys.Note)
	}
	broken := first
	broken.First = func(context.Context) (string, error) { return "", errors.New("not known now") }
	s.delete("usher-proofs")
	if _, err := keyring.NewKeeper(s, broken).Load(t.Context()); err == nil || s.secrets["usher-proofs"] != nil {
		t.Errorf("error is %v: a key was made without its note", err)
	}
}
