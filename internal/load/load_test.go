package load_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/load"
)

const review = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u1"}}`

// webhook serves h over TLS and returns what a generator needs to reach it.
func webhook(t *testing.T, h http.HandlerFunc) load.Options {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	return load.Options{
		Requests: []load.Request{{URL: server.URL + "/validate?timeout=5s", Body: []byte(review)}},
		TLS:      &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: trusted},
	}
}

func run(t *testing.T, o load.Options, p load.Pace) *load.Measurement {
	t.Helper()
	g, err := load.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	return g.Run(t.Context(), p)
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func TestClosedLoop(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	o := webhook(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != review || r.Method != http.MethodPost || r.URL.String() != "/validate?timeout=5s" ||
			r.Header.Get("Content-Type") != "application/json" || r.ProtoMajor != 1 || r.TLS.Version != tls.VersionTLS13 {
			t.Errorf("%s %s %s %v: %q, %v", r.Method, r.URL, r.Proto, r.Header, body, err)
		}
		asked.Add(1)
		_, _ = io.WriteString(w, `{"response":{"uid":"u1","allowed":true,"patch":"W10="}}`)
	})
	o.Connections = 3
	got := run(t, o, load.Pace{Duration: 200 * time.Millisecond})
	if got.Answered == 0 || int64(got.Answered) != asked.Load() || got.Verdicts["changed"] != got.Answered || got.Failed() != 0 {
		t.Errorf("%d requests served, result %+v", asked.Load(), got.Verdicts)
	}
	if got.Latency.Count() != got.Answered || got.Latency.Quantile(.5) <= 0 || got.Rate() <= 0 {
		t.Errorf("%d latencies, median %s, rate %f", got.Latency.Count(), got.Latency.Quantile(.5), got.Rate())
	}
}

// A server that stalls once is charged for every request that was due meanwhile.
func TestOpenLoopCountsFromWhenARequestWasDue(t *testing.T) {
	t.Parallel()
	const stall = 200 * time.Millisecond
	var first atomic.Bool
	o := webhook(t, func(w http.ResponseWriter, _ *http.Request) {
		if first.CompareAndSwap(false, true) {
			time.Sleep(stall)
		}
		_, _ = io.WriteString(w, `{"response":{"uid":"u1","allowed":true}}`)
	})
	got := run(t, o, load.Pace{Rate: 200, Duration: 2 * stall})
	// Half of the requests were due during the stall; the median of those waited half of it.
	if q := got.Latency.Quantile(.75); q < stall/4 {
		t.Errorf("three quarters took up to %s, though half waited for a server that stalled for %s", q, stall)
	}
	if got.Answered+got.Unsent > 80 {
		t.Errorf("%d answered and %d unsent of 80", got.Answered, got.Unsent)
	}
}

func TestUnsent(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := webhook(t, func(w http.ResponseWriter, _ *http.Request) {
		time.AfterFunc(50*time.Millisecond, cancel)
		<-ctx.Done()
		_, _ = io.WriteString(w, `{"response":{"uid":"u1","allowed":true}}`)
	})
	g, err := load.Connect(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	got := g.Run(ctx, load.Pace{Rate: 1000, Duration: time.Hour})
	// A few more are answered until the end is noticed.
	if got.Answered < 1 || got.Unsent < 40 {
		t.Errorf("%d answered, %d unsent", got.Answered, got.Unsent)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason, body, answer, want string
	}{
		{"allowed", review, `{"response":{"uid":"u1","allowed":true}}`, "allowed"},
		{"denied", review, `{"response":{"uid":"u1","allowed":false}}`, "denied"},
		{"another uid", review, `{"response":{"uid":"u2","allowed":true}}`, `bad answer: the answer is for request "u2"`},
		{"no response", review, `{}`, "bad answer: the answer is a review without response"},
		{"no JSON", review, `ok`, "bad answer: decode answer: invalid character 'o' looking for beginning of value"},
		{"access", `{}`, `{"kind":"SubjectAccessReview","status":{"allowed":true}}`, "allowed"},
		{"no access", `{}`, `{"kind":"SubjectAccessReview","status":{"denied":true}}`, "denied"},
		{"nothing to say", `{}`, `{"kind":"SubjectAccessReview","status":{}}`, "no opinion"},
		{"something else", `{}`, `ok`, "answered"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := webhook(t, func(w http.ResponseWriter, _ *http.Request) {
				cancel()
				_, _ = io.WriteString(w, test.answer)
			})
			o.Requests[0].Body = []byte(test.body)
			g, err := load.Connect(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			got := g.Run(ctx, load.Pace{Duration: time.Minute})
			said := got.Verdicts
			if err := got.Samples["bad answer"]; err != nil {
				said = map[string]int{err.Error(): 1}
			}
			if len(said) != 1 || said[test.want] == 0 {
				t.Errorf("got %v", said)
			}
		})
	}
}

func TestErrorsByKind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind  string
		serve http.HandlerFunc
	}{
		{"status 429", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusTooManyRequests) }},
		{"connection broken", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"timeout", func(_ http.ResponseWriter, r *http.Request) {
			// A server notices that its client is gone only when the body is read.
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
	}
	for _, test := range tests {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			o := webhook(t, test.serve)
			o.Timeout = time.Second
			got := run(t, o, load.Pace{Rate: 50, Duration: 100 * time.Millisecond})
			if got.Failed() == 0 || got.Errors[test.kind] != got.Failed() || got.Answered != 0 {
				t.Errorf("%v, samples %v", got.Errors, got.Samples)
			}
		})
	}
}

func TestConnect(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere := "http://" + closed.Addr().String()
	_ = closed.Close()
	untrusted := webhook(t, answer("ok"))
	untrusted.TLS = nil
	tests := []struct {
		reason  string
		options load.Options
		want    string
	}{
		{"nothing", load.Options{}, "nothing to send"},
		{"no URL", load.Options{Requests: []load.Request{{URL: "localhost:8443"}}}, "write https://host:port/path"},
		{"two hosts", load.Options{Requests: []load.Request{{URL: "http://a/x"}, {URL: "http://b/x"}}}, "not on http://a"},
		{"nobody there", load.Options{Requests: []load.Request{{URL: nowhere}}}, "refused"},
		{"not trusted", untrusted, "certificate"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			_, err := load.Connect(t.Context(), test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	var h load.Histogram
	for i := range 1000 {
		h.Add(time.Duration(i+1) * time.Millisecond)
	}
	got := map[string]string{}
	for _, q := range []float64{0, .5, .99, .999, 1} {
		exact := max(float64(time.Second)*q, float64(time.Millisecond))
		if estimate := float64(h.Quantile(q)); estimate < exact || estimate > exact*1.016 {
			got[fmt.Sprint(q)] = h.Quantile(q).String()
		}
	}
	if diff := cmp.Diff(map[string]string{}, got); diff != "" {
		t.Errorf("quantiles that are off by more than 1.6 %%: %s", diff)
	}
	if h.Max() != time.Second || h.Count() != 1000 {
		t.Errorf("max %s, count %d", h.Max(), h.Count())
	}
	h.Add(time.Duration(1<<63 - 1))
	h.Add(-1)
	if h.Quantile(1) != time.Duration(1<<63-1) {
		t.Errorf("the longest of all durations is %s", h.Quantile(1))
	}
}
