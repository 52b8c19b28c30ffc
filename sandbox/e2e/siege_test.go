package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	generator "github.com/usher-dev/usher/internal/load"
)

// honestRate is how many honest requests there are in a second.
const honestRate = 200

// A besieger sends what meets the worst policies, as API servers do, each once in a second.
type besieger struct {
	client *http.Client
	shots  []shot

	mu sync.Mutex
	// outcomes counts the answers of each shot: the status, and the verdict if it has one.
	outcomes  map[string]map[string]int
	slowest   time.Duration
	slowestOf string
}

// A shot is a request.
type shot struct {
	name, url string
	body      []byte
}

// siege measures honest requests alone, beside requests such as mallory's for which there are no policies, and
// beside mallory's.
func (c *tenancy) siege(t *testing.T) {
	t.Helper()
	urls := c.registeredURLs(t)
	g, err := generator.Connect(t.Context(), c.honestLoad(t, urls))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Run(t.Context(), generator.Pace{Rate: honestRate, Duration: 2 * time.Second})
	alone := g.Run(t.Context(), generator.Pace{Rate: honestRate, Duration: *besieged / 3})
	c.decidedRight(t, "alone", alone)

	// The same requests where no policy is cost their decoding.
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	others.Go(func() { c.besieger(t, urls, "elsewhere").run(ctx) })
	plain := g.Run(t.Context(), generator.Pace{Rate: honestRate, Duration: *besieged / 3})
	stop()
	others.Wait()
	c.decidedRight(t, "beside the same requests without policies", plain)

	b := c.besieger(t, urls, hostileTenant)
	ctx, stop = context.WithCancel(t.Context())
	var around sync.WaitGroup
	var memory atomic.Int64
	around.Go(func() { watchTree(ctx, c.process.PID, &memory) })
	around.Go(func() { b.run(ctx) })
	beside := g.Run(t.Context(), generator.Pace{Rate: honestRate, Duration: *besieged})
	stop()
	around.Wait()
	c.decidedRight(t, "beside the worst policies", beside)
	b.report(t)
	limit := c.limits.Resources.Limits.Memory.Value()
	t.Logf("at most %d MiB of memory of usher and its workers; the limit is %d MiB", memory.Load()>>20, limit>>20)
	if memory.Load() > limit {
		t.Errorf("usher and its workers take %d MiB, more than the limit of the chart, %d MiB", memory.Load()>>20, limit>>20)
	}
	// Here usher, the API server, its clients and the worst policies share the processors: a turn is the least
	// that can be told from noise.
	const turn = 10 * time.Millisecond
	if was, is := plain.Latency.Quantile(0.99), beside.Latency.Quantile(0.99); *besieged >= time.Minute && is > max(2*was, turn) {
		t.Errorf("p99 is %v beside the worst policies, and %v beside the same requests without them", is, was)
	}
}

// registeredURLs are where API servers send requests, by entry.
func (c *tenancy) registeredURLs(t *testing.T) map[string]string {
	t.Helper()
	client, urls := c.kube.AdmissionregistrationV1(), map[string]string{}
	mutating, err := client.MutatingWebhookConfigurations().Get(testContext(t), "usher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range mutating.Webhooks {
		urls[mutating.Webhooks[i].Name] = *mutating.Webhooks[i].ClientConfig.URL
	}
	validating, err := client.ValidatingWebhookConfigurations().Get(testContext(t), "usher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range validating.Webhooks {
		urls[validating.Webhooks[i].Name] = *validating.Webhooks[i].ClientConfig.URL
	}
	return urls
}

// honestVerdicts are the verdicts about the honest requests, which are sent in turn.
var honestVerdicts = []string{"changed", "allowed", "denied", "denied"}

func (c *tenancy) honestLoad(t *testing.T, urls map[string]string) generator.Options {
	t.Helper()
	empty := configMap(t, honestTenant, "empty")
	empty.Object["data"] = map[string]any{"key": ""}
	o := generator.Options{Connections: 200, Timeout: 10 * time.Second, TLS: c.trust(t)}
	for _, r := range []struct {
		entry  string
		object *unstructured.Unstructured
	}{
		{"mutate.usher.dev", configMap(t, honestTenant, "tried")}, {"validate.usher.dev", configMap(t, honestTenant, "tried")},
		{"validate.usher.dev", configMap(t, honestTenant, "forbidden")}, {"validate.usher.dev", empty},
	} {
		o.Requests = append(o.Requests, generator.Request{URL: urls[r.entry] + "?timeout=5s", Body: creation(t, "zoe", r.object)})
	}
	return o
}

func (c *tenancy) trust(t *testing.T) *tls.Config {
	t.Helper()
	ca, err := c.process.CA()
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: trusted}
}

// creation is the review of a request to create a ConfigMap.
func creation(t *testing.T, user string, object *unstructured.Unstructured) []byte {
	t.Helper()
	kind := map[string]any{"group": "", "version": "v1"}
	with := func(key, value string) map[string]any {
		all := maps.Clone(kind)
		all[key] = value
		return all
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": map[string]any{
		"uid": "u-" + object.GetName(), "operation": "CREATE", "name": object.GetName(), "namespace": object.GetNamespace(), "kind": with("kind", "ConfigMap"), "resource": with("resource", "configmaps"),
		"userInfo": map[string]any{"username": user, "groups": []string{"system:authenticated"}}, "object": object.Object, "oldObject": nil, "dryRun": false,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// decidedRight checks that no request is lost, and that each has the verdict that it should have.
func (c *tenancy) decidedRight(t *testing.T, what string, r *generator.Measurement) {
	t.Helper()
	t.Logf("%d honest requests %s: p50 %v, p99 %v, the slowest %v; %v", r.Answered, what, r.Latency.Quantile(0.5).Round(10*time.Microsecond),
		r.Latency.Quantile(0.99).Round(10*time.Microsecond), r.Latency.Quantile(1).Round(time.Millisecond), r.Verdicts)
	if r.Answered == 0 || r.Failed()+r.Unsent > 0 {
		t.Errorf("%s: %d honest requests are answered, %d were never sent, errors: %v %v", what, r.Answered, r.Unsent, r.Errors, r.Samples)
		return
	}
	want := map[string]int{}
	for i, verdict := range honestVerdicts {
		want[verdict] += (r.Answered - i + len(honestVerdicts) - 1) / len(honestVerdicts)
	}
	// Runs begin with the next request, not with the first.
	for verdict, n := range want {
		if got := r.Verdicts[verdict]; got < n-2 || got > n+2 {
			t.Errorf("%s: %d honest requests are %s, want %d: %s", what, got, verdict, n, r.Bodies[verdict])
		}
	}
}

// besieger makes the requests for a namespace in advance.
func (c *tenancy) besieger(t *testing.T, urls map[string]string, namespace string) *besieger {
	t.Helper()
	b := &besieger{outcomes: map[string]map[string]int{}, client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: c.trust(t), MaxIdleConnsPerHost: 200}}}
	object := func(o *unstructured.Unstructured) {
		o = o.DeepCopy()
		o.SetNamespace(namespace)
		for _, entry := range []string{"mutate.usher.dev", "validate.usher.dev"} {
			b.shots = append(b.shots, shot{o.GetName(), urls[entry] + "?timeout=5s", creation(t, "mallory", o)})
		}
	}
	for _, w := range c.worst {
		if w.meets != nil {
			object(w.meets)
			continue
		}
		b.shots = append(b.shots, shot{w.policy.GetName(), "https://" + c.access + "/authorize?timeout=3s", fmt.Appendf(nil,
			`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"bob","resourceAttributes":{"namespace":%q,"verb":"get","version":"v1","resource":"configmaps","name":%q}}}`,
			namespace, w.policy.GetName())})
	}
	all := configMap(t, hostileTenant, "all")
	all.SetLabels(map[string]string{"meets": "all"})
	all.Object["data"] = map[string]any{"a": strings.Repeat("a", 900_000), "q": "1e-999999999", "pattern": strings.Repeat("x{1000}", 20)}
	object(all)
	return b
}

// run sends each request once in a second, at times of its own, and waits for the answers.
func (b *besieger) run(ctx context.Context) {
	var sent sync.WaitGroup
	defer sent.Wait()
	ticker := time.NewTicker(time.Second / time.Duration(len(b.shots)))
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		sent.Go(func() { b.send(&b.shots[i%len(b.shots)]) })
	}
}

func (b *besieger) send(s *shot) {
	began := time.Now()
	outcome := "lost"
	response, err := b.client.Post(s.url, "application/json", bytes.NewReader(s.body))
	if err == nil {
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		outcome = strconv.Itoa(response.StatusCode)
		var review struct{ Response *struct{ Allowed bool } }
		if json.Unmarshal(text, &review) == nil && review.Response != nil {
			outcome += fmt.Sprint(" allowed=", review.Response.Allowed)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outcomes[s.name] == nil {
		b.outcomes[s.name] = map[string]int{}
	}
	b.outcomes[s.name][outcome]++
	if took := time.Since(began); took > b.slowest {
		b.slowest, b.slowestOf = took, s.name
	}
}

// report checks that every request of mallory's was answered.
func (b *besieger) report(t *testing.T) {
	t.Helper()
	total := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(b.outcomes)) {
		t.Logf("%-20s %v", name, b.outcomes[name])
		for outcome, n := range b.outcomes[name] {
			total[outcome] += n
		}
		if lost := b.outcomes[name]["lost"]; lost > 0 {
			t.Errorf("%d requests that meet %s have no answer", lost, name)
		}
	}
	t.Logf("requests that meet the worst policies: %v, the slowest %v (%s)", total, b.slowest.Round(time.Millisecond), b.slowestOf)
}

// watchTree keeps the most memory that a process and its children have taken together, in bytes.
func watchTree(ctx context.Context, pid int, most *atomic.Int64) {
	// To look at all processes takes a while.
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		most.Store(max(most.Load(), memoryOfTree(pid)))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// memoryOfTree is the resident memory of a process and its children that is not that of files, such as of the
// binary, which counts once for all.
func memoryOfTree(pid int) int64 {
	var sum int64
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := map[string]string{}
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok {
				fields[key] = strings.TrimSuffix(strings.TrimSpace(value), " kB")
			}
		}
		if is := strconv.Itoa(pid); fields["Pid"] == is || fields["PPid"] == is {
			kilobytes, _ := strconv.ParseInt(fields["RssAnon"], 10, 64)
			sum += kilobytes << 10
		}
	}
	return sum
}
