package cert_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/internal/cert"
)

const (
	namespace = "usher-system"
	name      = "usher-cert"
	service   = "usher.usher-system.svc"
)

// replica starts a replica. It is not followed until it runs.
func replica(t *testing.T, kube *fake.Clientset, hosts ...string) *cert.Serving {
	t.Helper()
	s, err := open(t, kube, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t *testing.T, kube *fake.Clientset, hosts ...string) (*cert.Serving, error) {
	t.Helper()
	if len(hosts) == 0 {
		hosts = []string{service}
	}
	return cert.FromSecret(t.Context(), kube.CoreV1().Secrets(namespace), namespace, name, cert.Options{Hosts: hosts, Log: slog.New(slog.DiscardHandler)})
}

func stored(t *testing.T, kube *fake.Clientset) *corev1.Secret {
	t.Helper()
	secret, err := kube.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func secret(values map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{}}
	for key, value := range values {
		s.Data[key] = []byte(value)
	}
	return s
}

// verify returns why a client that trusts ca does not trust the certificate now.
func verify(t *testing.T, s *cert.Serving, ca []byte) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	_, err := leaf(t, s).Verify(x509.VerifyOptions{Roots: roots, DNSName: service, CurrentTime: time.Now()})
	return err
}

func writes(kube *fake.Clientset) []string {
	var verbs []string
	for _, action := range kube.Actions() {
		if action.GetVerb() != "get" {
			verbs = append(verbs, action.GetVerb())
		}
	}
	kube.ClearActions()
	return verbs
}

func TestSecretIsMadeAndShared(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		exists []runtime.Object
		want   []string
	}{
		{"it does not exist", nil, []string{"create"}},
		{"it has no values", []runtime.Object{secret(map[string]string{"tls.crt": "", "tls.key": ""})}, []string{"update"}},
		{"it has no data", []runtime.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}}, []string{"update"}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			kube := fake.NewClientset(test.exists...)
			first := replica(t, kube)
			if got := writes(kube); !slices.Equal(got, test.want) {
				t.Errorf("writes %v, want %v", got, test.want)
			}
			second := replica(t, kube)
			if got := writes(kube); len(got) > 0 {
				t.Errorf("the second replica writes: %v", got)
			}
			if !leaf(t, first).Equal(leaf(t, second)) || !bytes.Equal(first.CA(), second.CA()) {
				t.Error("replicas do not share")
			}
			if err := trusts(t, second, first.CA(), service); err != nil {
				t.Error(err)
			}
			got := stored(t, kube)
			keys := slices.Sorted(maps.Keys(got.Data))
			if !slices.Equal(keys, []string{"ca.crt", "ca.key", "tls.crt", "tls.key"}) || len(test.exists) == 0 && got.Type != corev1.SecretTypeTLS {
				t.Errorf("a Secret of type %s with %v", got.Type, keys)
			}
			if first.CAFile() != "" {
				t.Errorf("there is a CA file: %s", first.CAFile())
			}
		})
	}
}

func TestReplicasRace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		exists []runtime.Object
	}{
		{"to create", nil},
		{"to fill", []runtime.Object{secret(nil)}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			kube := fake.NewClientset(test.exists...)
			// All of them see that there is nothing, and then write one after the other. The fake
			// knows no resource versions: it has to be told which update comes too late.
			const replicas = 4
			var reads, updates atomic.Int32
			kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				switch {
				case reads.Add(1) > replicas:
					return false, nil, nil
				case len(test.exists) == 0:
					return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
				}
				return true, test.exists[0].DeepCopyObject(), nil
			})
			kube.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				if updates.Add(1) == 1 {
					return false, nil, nil
				}
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, name, errors.New("changed"))
			})
			all := make([]*cert.Serving, replicas)
			var group sync.WaitGroup
			for i := range all {
				group.Go(func() { all[i], _ = open(t, kube) })
			}
			group.Wait()
			for i, s := range all {
				if s == nil {
					t.Fatalf("replica %d has not started", i)
				}
				if !leaf(t, s).Equal(leaf(t, all[0])) || !bytes.Equal(s.CA(), stored(t, kube).Data["ca.crt"]) {
					t.Errorf("replica %d has something else than replica 0, or than the Secret", i)
				}
			}
		})
	}
}

func TestSecretCannotBeUsed(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	replica(t, kube)
	good := map[string]string{}
	for key, value := range stored(t, kube).Data {
		good[key] = string(value)
	}
	other := fake.NewClientset()
	replica(t, other)
	with := func(changes map[string]string) map[string]string {
		values := maps.Clone(good)
		maps.Copy(values, changes)
		return values
	}
	const prefix = "keep certificate in Secret usher-system/usher-cert: "
	const foreign = prefix + "it holds a certificate that Usher did not make: name another Secret, or give Usher the certificate as files"
	const remedy = "; delete the Secret to have a new one made"
	tests := []struct {
		reason string
		values map[string]string
		want   string
	}{
		{"garbage as CA", with(map[string]string{"ca.crt": "garbage"}), prefix + "load ca.crt: no certificate in PEM found" + remedy},
		{"garbage as key", with(map[string]string{"ca.key": "garbage"}), prefix + "load ca.key: no key in PEM found" + remedy},
		{
			"the key of another CA", with(map[string]string{"ca.key": string(stored(t, other).Data["ca.key"])}),
			prefix + "load ca.key: tls: private key does not match public key" + remedy,
		},
		{"the certificate of somebody else", with(map[string]string{"ca.key": ""}), foreign},
		{"without CA", with(map[string]string{"ca.key": "", "ca.crt": ""}), foreign},
	}
	for _, test := range tests {
		kube := fake.NewClientset(secret(test.values))
		if _, err := open(t, kube); err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", test.reason, err, test.want)
		}
		if got := writes(kube); len(got) > 0 {
			t.Errorf("%s: it writes: %v", test.reason, got)
		}
	}
}

func TestServingCertificateIsReplaced(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		values map[string]string
		hosts  []string
	}{
		{"garbage", map[string]string{"tls.crt": "garbage"}, []string{service}},
		{"gone", map[string]string{"tls.crt": "", "tls.key": ""}, []string{service}},
		{"for other hosts", nil, []string{service, "new.usher-system.svc"}},
	} {
		kube := fake.NewClientset()
		before := replica(t, kube)
		values := map[string]string{"note": "kept"}
		for key, value := range stored(t, kube).Data {
			values[key] = string(value)
		}
		maps.Copy(values, test.values)
		kube = fake.NewClientset(secret(values))
		after := replica(t, kube, test.hosts...)
		if leaf(t, after).Equal(leaf(t, before)) || !bytes.Equal(after.CA(), before.CA()) {
			t.Errorf("%s: want a new certificate of the same CA", test.reason)
		}
		for _, host := range test.hosts {
			if err := trusts(t, after, before.CA(), host); err != nil {
				t.Errorf("%s: %v", test.reason, err)
			}
		}
		if string(stored(t, kube).Data["note"]) != "kept" {
			t.Errorf("%s: other values are lost", test.reason)
		}
	}
}

func TestSecretWithoutPermission(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"get", "create"} {
		kube := fake.NewClientset()
		kube.PrependReactor(verb, "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, name, errors.New("no "+verb))
		})
		_, err := open(t, kube)
		want := `keep certificate in Secret usher-system/usher-cert: secrets "usher-cert" is forbidden: no ` + verb +
			"; let Usher's service account get, create and update Secrets there"
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestRotation follows a Secret until its CA is followed by another: clients with the CAs of a day
// ago must trust what is served.
func TestRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		kube := fake.NewClientset()
		told := replica(t, kube).CA()
		var leaves, bundles int
		var last *cert.Serving
		for range 11 * 365 {
			time.Sleep(day + time.Minute)
			s := replica(t, kube)
			if err := verify(t, s, told); err != nil {
				t.Fatalf("%s: who trusts the CAs of the day before: %v", time.Now(), err)
			}
			if left := time.Until(s.NotAfter()); left < 88*day {
				t.Fatalf("%s: the certificate ends in %s", time.Now(), left)
			}
			if last != nil && !leaf(t, s).Equal(leaf(t, last)) {
				leaves++
				if !bytes.Equal(s.CA(), last.CA()) {
					t.Fatalf("%s: a new CA is used at once", time.Now())
				}
			}
			if !bytes.Equal(s.CA(), told) {
				bundles++
			}
			told, last = s.CA(), s
		}
		if bundles != 1 || leaves < 12 || leaves > 18 {
			t.Errorf("%d CAs and %d certificates in 11 years", bundles, leaves)
		}
		if n := bytes.Count(told, []byte("BEGIN")); n > 2 {
			t.Errorf("%d CAs are trusted", n)
		}
	})
}

func TestAfterALongSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		before := replica(t, kube)
		time.Sleep(11 * 365 * 24 * time.Hour)
		after := replica(t, kube)
		if err := verify(t, after, after.CA()); err != nil {
			t.Error(err)
		}
		if bytes.Contains(after.CA(), before.CA()) {
			t.Error("what has expired is still to be trusted")
		}
	})
}

// running starts a replica that is followed, in a bubble.
func running(t *testing.T, kube *fake.Clientset, log *slog.Logger) *cert.Serving {
	t.Helper()
	s, err := cert.FromSecret(t.Context(), kube.CoreV1().Secrets(namespace), namespace, name, cert.Options{Hosts: []string{service}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	synctest.Wait()
	return s
}

func changed(s *cert.Serving) bool {
	select {
	case <-s.Changes():
		return true
	default:
		return false
	}
}

func TestReplicasFollowTheSecret(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		var log bytes.Buffer
		a := running(t, kube, slog.New(slog.NewTextHandler(&log, nil)))
		b := replica(t, kube, service, "new.usher-system.svc")
		if leaf(t, a).Equal(leaf(t, b)) || changed(a) {
			t.Fatal("they are the same at once")
		}
		kube.ClearActions()
		time.Sleep(time.Minute)
		synctest.Wait()
		if !leaf(t, a).Equal(leaf(t, b)) || !changed(a) {
			t.Error("the replica that runs has not followed")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := writes(kube); len(got) > 0 || changed(a) {
			t.Errorf("they go on changing: %v", got)
		}

		// Somebody deletes the Secret: it comes back as it was.
		if err := kube.CoreV1().Secrets(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := stored(t, kube).Data; !bytes.Equal(got["ca.crt"], a.CA()) || changed(a) || !leaf(t, replica(t, kube)).Equal(leaf(t, a)) {
			t.Error("the Secret did not come back as it was")
		}

		// Garbage changes nothing, and is logged once.
		log.Reset()
		broken := stored(t, kube)
		broken.Data["ca.crt"] = []byte("garbage")
		if _, err := kube.CoreV1().Secrets(namespace).Update(t.Context(), broken, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if strings.Count(log.String(), "level=ERROR") != 1 || !strings.Contains(log.String(), "load ca.crt") {
			t.Errorf("the log says %q", log.String())
		}
		if !leaf(t, a).Equal(leaf(t, b)) || changed(a) {
			t.Error("garbage has replaced the certificate")
		}
	})
}

func TestTheCertificateGoesOnWithoutAPIServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		var down atomic.Bool
		kube.PrependReactor("*", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return down.Load(), nil, errors.New("connection refused")
		})
		s := running(t, kube, slog.New(slog.DiscardHandler))
		before := leaf(t, s)
		down.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		if !leaf(t, s).Equal(before) {
			t.Error("the certificate has changed")
		}
		if _, err := open(t, kube); err == nil || !strings.HasSuffix(err.Error(), "usher-system/usher-cert: connection refused") {
			t.Errorf("got %v", err)
		}
	})
}

func BenchmarkFromSecret(b *testing.B) {
	kube := fake.NewClientset()
	options := cert.Options{Hosts: []string{service}, Log: slog.New(slog.DiscardHandler)}
	for b.Loop() {
		if _, err := cert.FromSecret(b.Context(), kube.CoreV1().Secrets(namespace), namespace, name, options); err != nil {
			b.Fatal(err)
		}
	}
}
