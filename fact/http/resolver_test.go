package http_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/http"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Add("X-Team", "blue")
		w.Header().Add("X-Team", "green")
		w.Header().Del("Date")
		w.Header()["Date"] = nil
		w.WriteHeader(nethttp.StatusTeapot)
		_, _ = io.WriteString(w, `{"team":"blue","size":3,"load":1.5,"big":9007199254740993,"none":null,"list":[1,{"a":true}]}`)
		w.Header().Set("X-Sum", "7")
	})
	got, err := http.New(http.Options{AllowLocal: true}).Resolve(t.Context(), get(server.URL+"/team"))
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	header := got.(map[string]any)["header"].(map[string]any)
	if diff := cmp.Diff([]any{"blue", "green"}, header["X-Team"]); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	delete(got.(map[string]any), "header")
	want := map[string]any{
		"body": map[string]any{
			"team": "blue", "size": int64(3), "load": 1.5, "big": int64(9007199254740993), "none": nil,
			"list": []any{int64(1), map[string]any{"a": true}},
		},
		"trailer": map[string]any{"X-Sum": []any{"7"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("value (-want +got):\n%s", diff)
	}
}

func TestRequestIsSentAsWritten(t *testing.T) {
	t.Parallel()
	type sent struct{ Method, Path, Query, Body, Header, ContentType, Trailer string }
	seen := make(chan sent, 1)
	server := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- sent{r.Method, r.URL.Path, r.URL.RawQuery, string(body), r.Header.Get("X-Team"), r.Header.Get("Content-Type"), r.Trailer.Get("X-Sum")}
		_, _ = io.WriteString(w, `{}`)
	})
	resolver := http.New(http.Options{AllowLocal: true})
	for reason, test := range map[string]struct {
		ref  fact.HTTP
		want sent
	}{
		"everything": {
			fact.HTTP{Method: "POST", URL: server.URL + "/a?b=c", Body: `{"x":1}`, Header: map[string]string{"x-team": "blue", "Content-Type": "text/x"}, Trailer: map[string]string{"x-sum": "7"}},
			sent{"POST", "/a", "b=c", `{"x":1}`, "blue", "text/x", "7"},
		},
		"nothing is added": {fact.HTTP{URL: server.URL + "/a"}, sent{Method: "GET", Path: "/a"}},
	} {
		if _, err := resolver.Resolve(t.Context(), &test.ref); err != nil {
			t.Fatalf("%s: %v", reason, err)
		}
		if diff := cmp.Diff(test.want, <-seen); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
}

func TestBadAnswers(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`[1]`:          "200 OK has a body that is not a JSON object",
		`null`:         "not a JSON object",
		``:             "not a JSON object",
		`{"a":1} {}`:   "not a JSON object",
		`<html>`:       "not a JSON object",
		large(1 << 20): "more than 1048576 bytes",
	} {
		server := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) { _, _ = io.WriteString(w, body) })
		_, err := http.New(http.Options{AllowLocal: true}).Resolve(t.Context(), get(server.URL))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("body %.20q: error = %v, want one with %q", body, err, want)
		}
	}
	server := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) { _, _ = io.WriteString(w, large(1<<20-100)) })
	if _, err := http.New(http.Options{AllowLocal: true}).Resolve(t.Context(), get(server.URL)); err != nil {
		t.Errorf("a body below the limit: %v", err)
	}
}

func TestErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.URL.Path == "/away" {
			nethttp.Redirect(w, r, "https://elsewhere.invalid/?k=s3cret", nethttp.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "s3cret")
	})
	host := strings.TrimPrefix(server.URL, "http://")
	for reason, ref := range map[string]fact.HTTP{
		"a URL that cannot be read":    {URL: "http://u:s3cret@%zz/"},
		"another scheme":               {URL: "ftp://u:s3cret@host/?k=s3cret"},
		"no host":                      {URL: "http:///s3cret"},
		"no URL":                       {},
		"nobody listens":               {URL: "http://u:s3cret@127.0.0.1:1/?k=s3cret"},
		"a bad header":                 {URL: server.URL, Header: map[string]string{"Authorization": "Bearer s3cret\n"}},
		"a bad method":                 {Method: "G ET", URL: server.URL},
		"no JSON":                      {URL: "http://u:s3cret@" + host},
		"a redirect to another host":   {URL: "http://u:s3cret@" + host + "/away?k=s3cret"},
		"a token that cannot be had":   {URL: server.URL, Auth: &fact.Auth{URL: "http://u:s3cret@" + host + "/login?k=s3cret", Username: "u", Password: "s3cret"}},
		"a token from a bad URL":       {URL: server.URL, Auth: &fact.Auth{URL: "u:s3cret", Username: "u", Password: "s3cret"}},
		"a client certificate":         {URL: server.URL, TLS: &fact.TLS{CA: certificate(t), Cert: "s3cret", Key: "s3cret"}},
		"half of a client certificate": {URL: server.URL, TLS: &fact.TLS{CA: certificate(t), Key: "s3cret"}},
		"no authority":                 {URL: server.URL, TLS: &fact.TLS{CA: "s3cret"}},
	} {
		_, err := http.New(http.Options{AllowLocal: true}).Resolve(t.Context(), &ref)
		if err == nil {
			t.Errorf("%s: no error", reason)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error tells the secret: %v", reason, err)
		}
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	other := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		t.Error("the other host was asked")
		_, _ = io.WriteString(w, `{}`)
	})
	server := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		switch r.URL.Path {
		case "/loop":
			nethttp.Redirect(w, r, "/loop", nethttp.StatusFound)
		case "/away":
			nethttp.Redirect(w, r, other.URL, nethttp.StatusFound)
		case "/name":
			nethttp.Redirect(w, r, strings.Replace("http://"+r.Host, "127.0.0.1", "localhost", 1), nethttp.StatusFound)
		case "/scheme":
			nethttp.Redirect(w, r, "https://"+r.Host, nethttp.StatusFound)
		case "/near":
			nethttp.Redirect(w, r, "/", nethttp.StatusTemporaryRedirect)
		default:
			_, _ = io.WriteString(w, `{"authorization":"`+r.Header.Get("Authorization")+`"}`)
		}
	})
	resolver := http.New(http.Options{AllowLocal: true})
	for path, want := range map[string]string{
		"/loop":   "redirect: more than 10",
		"/away":   "only redirects within a host are followed",
		"/name":   "only redirects within a host are followed",
		"/scheme": "only redirects within a host are followed",
	} {
		if _, err := resolver.Resolve(t.Context(), get(server.URL+path)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want one with %q", path, err, want)
		}
	}
	ref := get(server.URL + "/near")
	ref.Header = map[string]string{"Authorization": "Bearer x"}
	got, err := resolver.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatalf("redirect within the host: %v", err)
	}
	if diff := cmp.Diff(map[string]any{"authorization": "Bearer x"}, got.(map[string]any)["body"]); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestLocalAddressesAreRefused(t *testing.T) {
	t.Parallel()
	server := serve(t, func(nethttp.ResponseWriter, *nethttp.Request) { t.Error("the server was asked") })
	resolver := http.New(http.Options{})
	for address, want := range map[string]string{
		server.URL: "loopback",
		strings.Replace(server.URL, "127.0.0.1", "localhost", 1): "loopback",
		strings.Replace(server.URL, "127.0.0.1", "127.1.2.3", 1): "loopback",
		"http://[::1]:80":                   "loopback",
		"http://[::ffff:127.0.0.1]:80":      "loopback",
		"http://[64:ff9b::169.254.169.254]": "link-local",
		"http://169.254.169.254/latest":     "link-local",
		"http://[fe80::1]":                  "link-local",
		"http://0.0.0.0":                    "unspecified",
		"http://0.1.2.3":                    "unspecified",
		"http://[::]":                       "unspecified",
		"http://224.0.0.1":                  "multicast",
		"http://[ff02::1]":                  "multicast",
		"http://255.255.255.255":            "broadcast",
		"http://[fd00:ec2::254]":            "metadata service",
		"http://100.100.100.200":            "metadata service",
	} {
		_, err := resolver.Resolve(t.Context(), get(address))
		if err == nil || !strings.Contains(err.Error(), want+" addresses are not allowed") {
			t.Errorf("%s: error = %v, want %s refused", address, err, want)
		}
		ref := get("http://host.invalid/")
		ref.Auth = &fact.Auth{URL: address, Username: "u", Password: "p"}
		if _, err := resolver.Resolve(t.Context(), ref); err == nil || !strings.Contains(err.Error(), want+" addresses are not allowed") {
			t.Errorf("token from %s: error = %v, want %s refused", address, err, want)
		}
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) { <-release })
	t.Cleanup(func() { close(release) })
	resolver := http.New(http.Options{AllowLocal: true, Timeout: 20 * time.Millisecond})
	short := get(server.URL)
	short.Timeout = 10 * time.Millisecond
	long := get(server.URL)
	long.Timeout = time.Hour
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for reason, run := range map[string]func() error{
		"the resolver's": func() error { _, err := resolver.Resolve(t.Context(), get(server.URL)); return err },
		"the ref's":      func() error { _, err := resolver.Resolve(t.Context(), short); return err },
		"the context's":  func() error { _, err := resolver.Resolve(soon, long); return err },
	} {
		if err := run(); err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
			t.Errorf("%s timeout: error = %v", reason, err)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		name := ""
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		_, _ = io.WriteString(w, `{"client":"`+name+`"}`)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	cert, key := pair(t, "shop")
	resolver := http.New(http.Options{AllowLocal: true})
	for reason, test := range map[string]struct {
		tls    *fact.TLS
		client string
		err    string
	}{
		"the roots of the system do not know it": {nil, "", "certificate"},
		"another authority does not know it":     {&fact.TLS{CA: certificate(t)}, "", "certificate"},
		"its own authority does":                 {&fact.TLS{CA: authority}, "", ""},
		"with a client certificate":              {&fact.TLS{CA: authority, Cert: cert, Key: key}, "shop", ""},
		"an authority is needed":                 {&fact.TLS{}, "", "parse ca"},
	} {
		ref := get(server.URL)
		ref.TLS = test.tls
		for range 2 {
			got, err := resolver.Resolve(t.Context(), ref)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: error = %v, want one with %q", reason, err, test.err)
			} else if err == nil {
				if diff := cmp.Diff(map[string]any{"client": test.client}, got.(map[string]any)["body"]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", reason, diff)
				}
			}
		}
	}
}

func TestManyTLSConfigurations(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) { _, _ = io.WriteString(w, `{}`) })
	resolver := http.New(http.Options{AllowLocal: true})
	for i := range 200 {
		ref := get(server.URL)
		ref.TLS = &fact.TLS{CA: certificate(t) + strings.Repeat("\n", i)}
		if _, err := resolver.Resolve(t.Context(), ref); err != nil {
			t.Fatalf("configuration %d: %v", i, err)
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	server := serve(b, func(w nethttp.ResponseWriter, _ *nethttp.Request) { _, _ = io.WriteString(w, `{"team":"blue"}`) })
	resolver := http.New(http.Options{AllowLocal: true})
	ref := get(server.URL)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := resolver.Resolve(b.Context(), ref); err != nil {
			b.Fatal(err)
		}
	}
}

func get(address string) *fact.HTTP { return &fact.HTTP{Method: "GET", URL: address} }

func serve(tb testing.TB, handler nethttp.HandlerFunc) *httptest.Server {
	tb.Helper()
	server := httptest.NewServer(handler)
	tb.Cleanup(server.Close)
	return server
}

func large(size int) string { return `{"a":"` + strings.Repeat("x", size) + `"}` }

func certificate(t *testing.T) string {
	t.Helper()
	cert, _ := pair(t, "nobody")
	return cert
}

func pair(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	template.Subject.CommonName = name
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
}
