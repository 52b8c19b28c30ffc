package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	generator "github.com/usher-dev/usher/internal/load"
)

var (
	deciding    = flag.Float64("deciding", 100, "decisions a second while TestWatch has subscribers")
	decidingFor = flag.Duration("deciding-for", time.Second, "how long these decisions are made, each time")
)

// followers is how many subscribers follow all decisions.
const followers = 10

// A follower reads server-sent events.
type follower struct {
	mu sync.Mutex
	// decisions counts those that were received, and lost those that were not.
	decisions, lost int
	// lag is how long after the request was received a decision arrives.
	lag generator.Histogram
}

// follow has a follower read all decisions of a replica until ctx is done.
func (f *follower) follow(ctx context.Context, client *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"decisions?watch=true&last=0", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("follow decisions: %s", response.Status)
	}
	event := ""
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if name, ok := bytes.CutPrefix(lines.Bytes(), []byte("event: ")); ok {
			event = string(name)
		}
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok {
			if err := f.add(event, data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *follower) add(event string, data []byte) error {
	var said struct {
		Time time.Time
		Lost int
	}
	switch event {
	case "decision", "lost", "end":
		if err := json.Unmarshal(data, &said); err != nil {
			return fmt.Errorf("%w: %s", err, data)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch event {
	case "decision":
		f.decisions++
		f.lag.Add(time.Since(said.Time))
	case "lost":
		f.lost += said.Lost
	case "end":
		return fmt.Errorf("the server ended the stream: %s", data)
	}
	return nil
}

// A crowd is the followers of a replica.
type crowd struct {
	all  []*follower
	stop context.CancelFunc
	done sync.WaitGroup
}

// follow has followers read all decisions, each on a connection of its own.
func (r *apiRig) follow(t *testing.T) *crowd {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &crowd{stop: stop}
	for range followers {
		f, client := &follower{}, r.withCertificate(t)
		c.all = append(c.all, f)
		c.done.Go(func() {
			if err := f.follow(ctx, client, r.url); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "all follow", func() error {
		if n := int(metric(t, r.process, "usher_decisions_recent_subscribers")); n != followers {
			return fmt.Errorf("%d do", n)
		}
		return nil
	})
	return c
}

// withCertificate returns a client with the certificate of the kubeconfig.
func (r *apiRig) withCertificate(t *testing.T) *http.Client {
	t.Helper()
	client, err := r.process.Client()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(r.RESTConfig.CertData, r.RESTConfig.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	client.Timeout = 0
	client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{certificate} //nolint:forcetypeassert // as it was made
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// received waits until all have got so many decisions, and checks that they have lost none.
func (c *crowd) received(t *testing.T, decisions int) {
	t.Helper()
	for i, f := range c.all {
		eventually(t, fmt.Sprintf("follower %d has all decisions", i), func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.decisions != decisions || f.lost != 0 {
				return fmt.Errorf("it has %d of %d, and %d are lost", f.decisions, decisions, f.lost)
			}
			return nil
		})
	}
}

func (c *crowd) end() {
	c.stop()
	c.done.Wait()
}

// followed measures decisions without and with subscribers who follow them, and with one more who
// connects and reads nothing.
func (r *apiRig) followed(t *testing.T, namespace string) {
	t.Helper()
	r.create(t, needs(t, "needs-"+namespace, "", "configmaps", "team"))
	eventually(t, "the policy is in force", func() error {
		if n := metric(t, r.process, "usher_snapshot_rules"); n < 1 {
			return fmt.Errorf("%v rules", n)
		}
		return nil
	})
	g := connected(t, r.process, fmt.Appendf(nil, forged, "configmaps", "ConfigMap", namespace), *deciding)
	defer g.Close()
	// The first requests are slower.
	g.run(t.Context(), *decidingFor)
	r.decided(t, "without subscribers", g)
	c := r.follow(t)
	defer c.end()
	n := r.decided(t, fmt.Sprintf("with %d subscribers", followers), g)
	c.received(t, n)
	c.all[0].mu.Lock()
	t.Logf("a decision arrives after p50 %v, p99 %v, at most %v", c.all[0].lag.Quantile(0.5).Round(time.Microsecond), c.all[0].lag.Quantile(0.99).Round(time.Microsecond), c.all[0].lag.Max().Round(time.Microsecond))
	c.all[0].mu.Unlock()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"decisions?watch=true&last=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	silent, err := r.withCertificate(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Body.Close()
	n += r.decided(t, "with one more, who reads nothing", g)
	c.received(t, n)
}

// decided sends requests and logs what they take. It returns how many were decided.
func (r *apiRig) decided(t *testing.T, what string, a admissions) int {
	t.Helper()
	cpu := cpuOf(t, r.process.PID)
	result := a.run(t.Context(), *decidingFor)
	cpu = cpuOf(t, r.process.PID) - cpu
	a.log(t, what, result)
	status := statusOf(t, r.process.PID)
	t.Logf("%s: %.0f ms of CPU a second, %.1f MB of memory, %.1f MB at its peak", what, float64(cpu.Milliseconds())/result.Elapsed.Seconds(), status["VmRSS"], status["VmHWM"])
	return result.Answered
}
