package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usher-dev/usher/internal/attack"
	"github.com/usher-dev/usher/internal/load"
)

// A siege is honest requests that need CUE's evaluator, in turns alone and beside tenants whose CUE
// takes too much.
type siege struct {
	usher     string
	rounds    int
	round     time.Duration
	rate      float64
	attackers int
	// most is the largest allowed ratio of the p99 beside attackers to that alone.
	most float64
	// harmless attackers send the same objects, and policies that take nothing.
	harmless bool
}

// runSiege fails if an honest request fails, or if they wait for hostile ones.
func runSiege(ctx context.Context, args []string) error {
	var s siege
	flags := flag.NewFlagSet("hostile", flag.ContinueOnError)
	flags.StringVar(&s.usher, "usher", "bin/usher", "the binary to attack")
	flags.IntVar(&s.rounds, "rounds", 10, "how often")
	flags.DurationVar(&s.round, "round", 5*time.Second, "how long the honest are alone, and then beside attackers, in a round")
	flags.Float64Var(&s.rate, "rate", 200, "honest requests a second")
	flags.IntVar(&s.attackers, "attackers", 8, "how many attack at a time")
	flags.Float64Var(&s.most, "most", 2, "how many times the p99 alone that beside attackers may be; 0 does not compare")
	flags.BoolVar(&s.harmless, "harmless", false, "let attackers send the same objects, but policies that take nothing: what their objects alone cost the others")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return s.run(ctx, os.Stdout)
}

func (s *siege) run(ctx context.Context, w io.Writer) error {
	r, err := newRig(s.usher, nil)
	if err != nil {
		return err
	}
	defer r.close()
	server, err := r.start(ctx, target{name: "hostile", policies: s.policies()})
	if err != nil {
		return err
	}
	defer server.stop()
	honest, err := load.Connect(ctx, load.Options{
		Requests: []load.Request{{URL: server.url + "/mutate?timeout=10s", Body: honestReview()}},
		TLS:      r.tls, Connections: 32, Timeout: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	defer honest.Close()
	honest.Run(ctx, load.Pace{Rate: s.rate, Duration: 2 * time.Second})
	a := &assault{url: server.url, client: &http.Client{Transport: &http.Transport{TLSClientConfig: r.tls, MaxIdleConnsPerHost: s.attackers}}}
	a.prepare(s.programs())
	var alone, beside []*load.Result
	for range s.rounds {
		alone = append(alone, honest.Run(ctx, load.Pace{Rate: s.rate, Duration: s.round}))
		attacking, stop := context.WithCancel(ctx)
		var attackers sync.WaitGroup
		for range s.attackers {
			attackers.Go(func() { a.run(attacking) })
		}
		beside = append(beside, honest.Run(ctx, load.Pace{Rate: s.rate, Duration: s.round}))
		stop()
		attackers.Wait()
		// Requests of attackers end within the timeout of a rule.
		time.Sleep(time.Second)
	}
	return s.judge(w, alone, beside, a)
}

// tenants is how many namespaces attack.
const tenants = 4

const namespacedOverride = `{"apiVersion":"policy.kcloudlabs.io/v1alpha1","kind":"OverridePolicy","metadata":{"name":%q,"namespace":%q},"spec":{
 "resourceSelectors":[{"apiVersion":"v1","kind":%q,"name":%q}],"overrideRules":[{"targetOperations":["CREATE"],"overriders":{"cue":%s}}]}}`

// policies are one of an honest tenant, one of the cluster that is as slow as the object that it meets,
// and all hostile ones.
func (s *siege) policies() string {
	var b strings.Builder
	fmt.Fprintf(&b, namespacedOverride+"\n---\n", "honest", "honest", "Pod", "web", quoted(`object: _
#Patch: {op: "add", path: string, value: string}
patches: [#Patch & {op: "add", path: "/metadata/labels/seen", value: object.metadata.name}]`))
	shared := `object: _
#Pair: {a: string, b: string}
pairs: [for a, _ in object.metadata.annotations for b, _ in object.metadata.annotations {#Pair & {"a": a, "b": b}}]
patches: [{op: "add", path: "/metadata/labels/pairs", value: "\(len(pairs))"}]`
	if s.harmless {
		shared = "object: _\npatches: [{op: \"add\", path: \"/metadata/labels/pairs\", value: \"4\"}]"
	}
	fmt.Fprintf(&b, override+"\n---\n", "shared", 0, "", fmt.Sprintf(`{"cue":%s}`, quoted(shared)))
	for i, p := range s.programs() {
		name := fmt.Sprintf("hostile-%d", i)
		fmt.Fprintf(&b, namespacedOverride+"\n---\n", name, hostileNamespace(i), "ConfigMap", name, quoted(p.Source))
	}
	return b.String()
}

// programs are what attackers have.
func (s *siege) programs() []attack.Program {
	programs := attack.Programs()
	for i := range programs {
		if s.harmless {
			programs[i].Source = fmt.Sprintf("object: _\npatches: []\nx: %d", i)
		}
	}
	return programs
}

func hostileNamespace(i int) string { return fmt.Sprint("hostile-", i%tenants) }

func quoted(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

func honestReview() []byte {
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
		"name": "web", "namespace": "honest", "labels": map[string]any{"app": "web"}, "annotations": map[string]any{"a": "1", "b": "2"},
	}}
	return reviewOf(pod, "pods")
}

// reviewOf is the review of a request that creates an object.
func reviewOf(object map[string]any, resource string) []byte {
	group, version, _ := strings.Cut(object["apiVersion"].(string), "/")
	if version == "" {
		group, version = "", group
	}
	metadata := object["metadata"].(map[string]any)
	body, _ := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": map[string]any{
		"uid": "u", "operation": "CREATE", "name": metadata["name"], "namespace": metadata["namespace"],
		"kind":     map[string]any{"group": group, "version": version, "kind": object["kind"]},
		"resource": map[string]any{"group": group, "version": version, "resource": resource},
		"userInfo": map[string]any{"username": fmt.Sprint("user of ", metadata["namespace"])}, "object": object,
	}})
	return body
}

// An assault is what the attackers have done.
type assault struct {
	url    string
	client *http.Client
	// bodies are reviews: an object that a hostile policy matches, a hostile policy, an object on
	// which a cluster policy takes long, and so on.
	bodies [][]byte
	turn   atomic.Int64
	// objects and policies were sent, and answered were answered.
	objects, policies, answered atomic.Int64
}

// prepare makes the requests in advance, so that attackers take little CPU time of this machine.
func (a *assault) prepare(programs []attack.Program) {
	for i, p := range programs {
		name, namespace := fmt.Sprintf("hostile-%d", i), hostileNamespace(i)
		object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": namespace}}
		maps.Copy(object, p.Object)
		a.bodies = append(a.bodies, reviewOf(object, "configmaps"))
		policy := map[string]any{}
		_ = json.Unmarshal(fmt.Appendf(nil, namespacedOverride, "new", namespace, "ConfigMap", name, quoted(p.Source+"\n// "+nonce)), &policy)
		a.bodies = append(a.bodies, reviewOf(policy, "overridepolicies"))
		annotations := map[string]any{}
		for n := range 1000 {
			annotations[fmt.Sprint("a", n)] = "x"
		}
		pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
			"name": "hostile", "namespace": namespace, "labels": map[string]any{"app": "hostile"}, "annotations": annotations,
		}}
		a.bodies = append(a.bodies, reviewOf(pod, "pods"))
	}
}

// nonce makes policies differ each time they are sent.
const nonce = "nonce nonce nonce"

// run sends the prepared requests, in turns, until ctx is done.
func (a *assault) run(ctx context.Context) {
	for ctx.Err() == nil {
		i := int(a.turn.Add(1))
		body := a.bodies[i%len(a.bodies)]
		if i%3 == 1 {
			a.policies.Add(1)
			a.post(ctx, "/validate", bytes.ReplaceAll(body, []byte(nonce), []byte(strconv.Itoa(i))))
			continue
		}
		a.objects.Add(1)
		a.post(ctx, "/mutate", body)
	}
}

func (a *assault) post(ctx context.Context, path string, body []byte) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+path+"?timeout=10s", bytes.NewReader(body))
	if err != nil {
		return
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.client.Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	a.answered.Add(1)
}

func (s *siege) judge(w io.Writer, alone, beside []*load.Result, a *assault) error {
	var errs []error
	p99 := map[string]time.Duration{}
	for _, way := range []struct {
		name   string
		rounds []*load.Result
	}{{"alone", alone}, {fmt.Sprintf("beside %d attackers", s.attackers), beside}} {
		all := load.Merge(way.rounds...)
		p99[way.name] = all.Latency.Quantile(0.99)
		if _, err := fmt.Fprintf(w, "%-20s %5d answered, %d failed, p50 %s, p99 %s, the slowest %s\n", way.name, all.Answered, all.Failed()+all.Unsent,
			short(all.Latency.Quantile(0.5)), short(all.Latency.Quantile(0.99)), short(all.Latency.Quantile(1))); err != nil {
			return err
		}
		if failed := all.Failed() + all.Unsent; failed > 0 || all.Answered == 0 {
			errs = append(errs, fmt.Errorf("%s, %d honest requests failed: %v %v", way.name, failed, all.Errors, all.Samples))
		}
		if n := all.Answered - all.Verdicts["changed"]; n > 0 {
			errs = append(errs, fmt.Errorf("%s, %d honest requests were not decided by their policies: %v", way.name, n, all.Verdicts))
		}
	}
	ratio := float64(p99[fmt.Sprintf("beside %d attackers", s.attackers)]) / float64(p99["alone"])
	if _, err := fmt.Fprintf(w, "p99 beside attackers is %.2f times that alone; they sent %d objects and %d policies, of which %d were answered\n",
		ratio, a.objects.Load(), a.policies.Load(), a.answered.Load()); err != nil {
		return err
	}
	if a.answered.Load() == 0 {
		errs = append(errs, errors.New("nobody attacked"))
	}
	if s.most > 0 && ratio > s.most {
		errs = append(errs, fmt.Errorf("the p99 is more than %g times that alone", s.most))
	}
	return errors.Join(errs...)
}
