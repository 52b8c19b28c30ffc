package authorization_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/door/authorization"
	"github.com/usher-dev/usher/internal/clientauth"
	"github.com/usher-dev/usher/internal/compile"
	authzengine "github.com/usher-dev/usher/internal/engine/authz"
	authzindex "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/rule"
)

// wireSelf is the user that the server is in cases about its own identity.
const wireSelf = "system:serviceaccount:policy-system:authz"

// apiServerName is the name that the server knows its caller by.
const apiServerName = "kube-apiserver"

// The policies of the states, in short.
var wirePolicies = map[string]string{
	"":             `{"name":"allow-jane","effect":"Allow","subjects":[{"groups":["devs"]}],"rules":[` + podRule + `]}`,
	"costly-allow": `{"name":"costly","effect":"Allow","subjects":[{"groups":["devs"]}],"rules":[` + podRule + `],"when":[{"cel":"` + costly + `"}]}`,
	"costly-deny":  `{"name":"costly","effect":"Deny","subjects":[{"groups":["devs"]}],"rules":[` + podRule + `],"when":[{"cel":"` + costly + `"}]}`,
	"deny": `{"name":"no-pods","effect":"Deny","subjects":[{"groups":["devs","rivals"]},{"serviceAccounts":["rival/*"]}],"rules":[` + podRule + `],` +
		`"unless":[{"cel":"'breakglass' in request.groups"}]}`,
}

const (
	podRule = `{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}`
	costly  = `request.groups.exists(a, request.groups.exists(b, request.groups.exists(c, a + b + c == 'x')))`
)

// A wireServer is the authorization webhooks in some state, on a loopback port.
type wireServer struct {
	url     string
	client  *http.Client
	server  *http.Server
	folder  string
	decider atomic.Pointer[usher.Decider]
	// entered gets what a held decision has begun with, and hold is closed to let it end.
	entered, hold chan struct{}
}

func newWireServer(state, caller string) (*wireServer, error) {
	s := &wireServer{entered: make(chan struct{}), hold: make(chan struct{})}
	decider, err := s.deciderIn(state)
	if err != nil {
		return nil, err
	}
	s.decider.Store(&decider)
	options := authorization.Options{Self: wireSelf, Log: slog.New(slog.DiscardHandler)}
	if state == "overload" {
		options.MaxInFlight = 1
	}
	current := usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		return (*s.decider.Load()).Decide(ctx, r)
	})
	mux := http.NewServeMux()
	mux.Handle("/authorize", authorization.Authorize(current, options))
	mux.Handle("/authorize/deny", authorization.Deny(current, options))
	mux.Handle("/authorize/allow", authorization.Allow(current, options))
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: wireTimeout, ErrorLog: log.New(nowhere{}, "", 0)}
	if err := s.listen(caller); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// deciderIn is what decides in a state.
func (s *wireServer) deciderIn(state string) (usher.Decider, error) {
	fails := func(err error) (usher.Decider, error) {
		return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Decision{}, err }), nil
	}
	switch state {
	case "panic":
		return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { panic("as the case says") }), nil
	case "not-ready", "notReady", "not ready", "no-snapshot", "loading", "starting":
		return fails(errors.New("no policies are loaded yet"))
	case "error":
		return fails(errors.New("as the case says"))
	case "slow", "timeout":
		return usher.DeciderFunc(func(ctx context.Context, _ *usher.Request) (usher.Decision, error) {
			<-ctx.Done()
			return usher.Decision{}, ctx.Err()
		}), nil
	case "overload":
		return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
			s.entered <- struct{}{}
			<-s.hold
			return usher.Decision{}, nil
		}), nil
	case "reload":
		return snapshotDecider(0)
	case "huge-message":
		return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
			return usher.Denied("%s", strings.Repeat("as long as messages from elsewhere can be ", 1000)), nil
		}), nil
	}
	policy, known := wirePolicies[state]
	if !known {
		return nil, fmt.Errorf("state: %q is not known", state)
	}
	return decideBy(policy)
}

// decideBy decides by policies, each given by its name and what stands in its spec.
func decideBy(policies ...string) (usher.Decider, error) {
	var compiled []compile.Compiled
	for _, text := range policies {
		spec := map[string]any{}
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			return nil, err
		}
		name := spec["name"]
		delete(spec, "name")
		full, err := json.Marshal(map[string]any{
			"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterAuthorizationPolicy", "metadata": map[string]any{"name": name}, "spec": spec,
		})
		if err != nil {
			return nil, err
		}
		policy, err := api.Decode(full)
		if err != nil {
			return nil, err
		}
		c := compile.Policy(policy)
		if errs := rule.Errors(c.Problems); len(errs) > 0 {
			return nil, errors.New(errs[0].String())
		}
		compiled = append(compiled, c)
	}
	return authzengine.New(authzindex.New(compile.Access(compiled)), authzengine.Options{}), nil
}

// listen serves, with TLS if the caller shows something, or does not.
func (s *wireServer) listen(caller string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.url, s.client = "http://"+listener.Addr().String(), newWireClient(nil)
	if caller == "" {
		go func() { _ = s.server.Serve(listener) }()
		return nil
	}
	s.url = "https://" + listener.Addr().String()
	if err := s.secure(caller); err != nil {
		_ = listener.Close()
		return err
	}
	go func() { _ = s.server.ServeTLS(listener, "", "") }()
	return nil
}

// secure makes the server know its callers, and the client one of them, or not.
func (s *wireServer) secure(caller string) error {
	ours, err := newWireCA()
	if err != nil {
		return err
	}
	theirs, err := newWireCA()
	if err != nil {
		return err
	}
	serving, err := ours.issue("server")
	if err != nil {
		return err
	}
	if s.folder, err = os.MkdirTemp("", "usher-test"); err != nil {
		return fmt.Errorf("prepare TLS: %w", err)
	}
	o := clientauth.Options{RequireClientCert: true, UnknownNameStatus: http.StatusUnauthorized, Log: slog.New(slog.DiscardHandler)}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ours.pool()}
	file, content := filepath.Join(s.folder, "secret"), ours.pem
	issuer, name := ours, apiServerName
	switch caller {
	case "none", "ok", "valid":
		o.CAFile = file
	case "otherCA":
		o.CAFile, issuer = file, theirs
	case "wrongName":
		o.CAFile, name = file, "system:node:n1"
	case "token":
		o.TokenFile, content = file, []byte("the token")
	default:
		return fmt.Errorf("tls: %q is none of none, ok, otherCA, wrongName and token", caller)
	}
	if caller != "none" && o.CAFile != "" {
		shown, err := issuer.issue(name)
		if err != nil {
			return err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil }
	}
	o.Names = []string{apiServerName}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("prepare TLS: %w", err)
	}
	known, err := clientauth.New(o)
	if err != nil {
		return err
	}
	s.server.Handler = known.Require(s.server.Handler)
	s.server.TLSConfig = known.ConfigureTLS(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*serving}, NextProtos: []string{"h2", "http/1.1"}})
	s.client = newWireClient(config)
	return nil
}

func (s *wireServer) close() {
	s.client.CloseIdleConnections()
	_ = s.server.Close()
	if s.folder != "" {
		_ = os.RemoveAll(s.folder)
	}
}

// occupy keeps the server busy until the function that it returns is called.
func (s *wireServer) occupy(ctx context.Context, t *wireTest, body []byte) (release func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.send(ctx, t, body)
	}()
	select {
	case <-s.entered:
	case <-done:
	}
	return func() {
		close(s.hold)
		<-done
	}
}

// snapshotDecider decides by policies that all bear the number n.
func snapshotDecider(n int) (usher.Decider, error) {
	deny := fmt.Sprintf(`{"name":"deny-%d","effect":"Deny","message":"snapshot %d","subjects":[{"groups":["devs"]}],"rules":[%s]}`, n, n, podRule)
	other := fmt.Sprintf(`{"name":"more-%d","effect":"Deny","message":"snapshot %d","subjects":[{"users":["jane"]}],"rules":[%s]}`, n, n, podRule)
	return decideBy(deny, other)
}

// reload replaces the policies while requests are decided: each answer has to be by the
// policies of one moment.
func (s *wireServer) reload(ctx context.Context, t *wireTest) []string {
	const snapshots, clients, each = 20, 4, 50
	body, err := t.body()
	if err != nil {
		return []string{err.Error()}
	}
	var mutex sync.Mutex
	var faults []string
	var asking sync.WaitGroup
	for range clients {
		asking.Go(func() {
			for range each {
				a := s.send(ctx, t, body)
				found := t.Want.faults(a)
				if !oneSnapshot(a.text("reason")) {
					found = append(found, "expected an answer by the policies of one moment, got "+a.String())
				}
				mutex.Lock()
				faults = append(faults, found...)
				mutex.Unlock()
				if len(found) > 0 {
					return
				}
			}
		})
	}
	for n := range snapshots {
		decider, err := snapshotDecider(n)
		if err != nil {
			return []string{err.Error()}
		}
		s.decider.Store(&decider)
	}
	asking.Wait()
	return faults
}

// oneSnapshot reports whether all numbers in a reason are the same.
func oneSnapshot(reason string) bool {
	numbers := strings.FieldsFunc(reason, func(r rune) bool { return r < '0' || r > '9' })
	for _, n := range numbers {
		if n != numbers[0] {
			return false
		}
	}
	return len(numbers) > 0
}

// A wireCA makes certificates.
type wireCA struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newWireCA() (*wireCA, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	ca := &wireCA{certificate: template}
	made, err := ca.sign(template)
	if err != nil {
		return nil, err
	}
	ca.key = made.PrivateKey.(*ecdsa.PrivateKey)
	ca.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]})
	ca.certificate, err = x509.ParseCertificate(made.Certificate[0])
	return ca, err
}

func (ca *wireCA) issue(name string) (*tls.Certificate, error) {
	return ca.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
}

// sign makes a certificate with a new key; the first one signs itself.
func (ca *wireCA) sign(template *x509.Certificate) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	signer := ca.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func (ca *wireCA) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.certificate)
	return pool
}
