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
	"slices"
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
}

// runSiege fails if an honest request fails, or if they wait for hostile ones.
func runSiege(ctx context.Context, args []string) error {
	var s siege
	flags := flag.NewFlagSet("hostile", flag.ContinueOnError)
	flags.StringVar(&s.usher, "usher", "bin/usher", "the binary to attack")
	flags.IntVar(&s.rounds, "rounds", 10, "how often")
	flags.DurationVar(&s.round, "round", 5*time.Second, "how long the honest are asked in each of three ways in a round")
	flags.Float64Var(&s.rate, "rate", 200, "honest requests a second")
	flags.IntVar(&s.attackers, "attackers", 8, "how many attack at a time")
	flags.Float64Var(&s.most, "most", 2, "how many times the p99 alone that beside attackers may be; 0 does not compare")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return s.run(ctx, os.Stdout)
}

// A phase is one way in which the honest are asked in each round.
type phase struct {
	name string
	// assault is what goes on meanwhile; nil is nothing.
	assault *assault
	rounds  []*load.Measurement
	// server and workers are how long the server and its workers have used the processor.
	server, workers time.Duration
}

func (s *siege) run(ctx context.Context, w io.Writer) error {
	r, err := newRig(s.usher, nil)
	if err != nil {
		return err
	}
	defer r.close()
	server, err := r.start(ctx, target{name: "hostile", policies: s.policies(), hostile: true})
	if err != nil {
		return err
	}
	defer server.stop()
	honest, err := load.Connect(ctx, load.Options{
		Requests: []load.Request{{URL: server.url + "/mutate?timeout=10s", Body: honestReview()}},
		// Enough that requests are sent when they are due while the machine does something else for a second.
		TLS: r.tls, Connections: 200, Timeout: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	defer honest.Close()
	honest.Run(ctx, load.Pace{Rate: s.rate, Duration: 2 * time.Second})
	if err := settle(ctx, server.pid()); err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: r.tls, MaxIdleConnsPerHost: s.attackers}}
	phases := []*phase{
		{name: "alone"},
		{name: fmt.Sprintf("beside %d who are quick", s.attackers), assault: newAssault(server.url, client, quick)},
		{name: fmt.Sprintf("beside %d attackers", s.attackers), assault: newAssault(server.url, client, hostile)},
	}
	for range s.rounds {
		for _, p := range phases {
			if err := s.ask(ctx, honest, server.pid(), p); err != nil {
				return err
			}
		}
	}
	err = s.judge(w, phases)
	if said, _ := os.ReadFile(server.log.Name()); err != nil && len(said) > 0 {
		err = fmt.Errorf("%w\nthe log of the server ends with:\n%s", err, said[max(len(said)-4000, 0):])
	}
	return err
}

// ask asks the honest for a while.
func (s *siege) ask(ctx context.Context, honest *load.Generator, pid int, p *phase) error {
	server, workers, err := cpuOfServer(pid)
	if err != nil {
		return err
	}
	attacking, stop := context.WithCancel(ctx)
	defer stop()
	var attackers sync.WaitGroup
	for range s.attackers {
		attackers.Go(func() { p.assault.run(attacking) })
	}
	p.rounds = append(p.rounds, honest.Run(ctx, load.Pace{Rate: s.rate, Duration: s.round}))
	serverAfter, workersAfter, err := cpuOfServer(pid)
	p.server += serverAfter - server
	p.workers += workersAfter - workers
	stop()
	attackers.Wait()
	if p.assault != nil && err == nil {
		err = settle(ctx, pid)
	}
	return err
}

// settle waits until workers have nothing to do: they compile hostile policies when the server starts.
func settle(ctx context.Context, pid int) error {
	const step = time.Second
	for range 120 {
		before, err := cpuOfChildren(pid)
		if err != nil {
			return err
		}
		time.Sleep(step)
		after, err := cpuOfChildren(pid)
		if err != nil || after-before < step/20 || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	return errors.New("policies are still being compiled after two minutes")
}

// cpuOfServer returns how long a server and its workers, also those that have ended, have used the
// processor.
func cpuOfServer(pid int) (server, workers time.Duration, err error) {
	if server, err = cpuOf(pid); err != nil {
		return 0, 0, err
	}
	workers, err = cpuOfChildren(pid)
	return server, workers, err
}

// tenants is how many namespaces attack.
const tenants = 4

const namespacedOverride = `{"apiVersion":"policy.kcloudlabs.io/v1alpha1","kind":"OverridePolicy","metadata":{"name":%q,"namespace":%q},"spec":{
 "resourceSelectors":[{"apiVersion":"v1","kind":%q,"name":%q}],"overrideRules":[{"targetOperations":["CREATE"],"overriders":{"cue":%s}}]}}`

// A way is how the programs of tenants are.
type way string

const (
	// Quick tenants send the same objects as hostile ones, but their CUE takes nothing.
	quick   way = "quick"
	hostile way = "hostile"
)

// programs returns the programs of the tenants.
func (v way) programs() []attack.Program {
	programs := attack.Programs()
	for i := range programs {
		if v == quick {
			programs[i].Source = fmt.Sprintf("object: _\npatches: []\nx: %d", i)
		}
	}
	return programs
}

// namespace is that of a program.
func (v way) namespace(i int) string { return fmt.Sprintf("%s-%d", v, i%tenants) }

// policies are one of an honest tenant, one of the cluster that is as slow as the object that it meets,
// all hostile ones and as many that take nothing.
func (s *siege) policies() string {
	var b strings.Builder
	fmt.Fprintf(&b, namespacedOverride+"\n---\n", "honest", "honest", "Pod", "web", quoted(`object: _
#Patch: {op: "add", path: string, value: string}
patches: [#Patch & {op: "add", path: "/metadata/labels/seen", value: object.metadata.name}]`))
	fmt.Fprintf(&b, override+"\n---\n", "shared", 0, `,"labelSelector":{"matchExpressions":[{"key":"app","operator":"NotIn","values":["quick"]}]}`, fmt.Sprintf(`{"cue":%s}`, quoted(`object: _
#Pair: {a: string, b: string}
pairs: [for a, _ in object.metadata.annotations for b, _ in object.metadata.annotations {#Pair & {"a": a, "b": b}}]
patches: [{op: "add", path: "/metadata/labels/pairs", value: "\(len(pairs))"}]`)))
	for _, v := range []way{quick, hostile} {
		for i, p := range v.programs() {
			name := fmt.Sprintf("%s-%d", v, i)
			fmt.Fprintf(&b, namespacedOverride+"\n---\n", name, v.namespace(i), "ConfigMap", name, quoted(p.Source))
		}
	}
	return b.String()
}

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

// newAssault makes the requests in advance, so that attackers take little CPU time of this machine.
func newAssault(url string, client *http.Client, v way) *assault {
	a := &assault{url: url, client: client}
	annotations := map[string]any{}
	for n := range 1000 {
		annotations[fmt.Sprint("a", n)] = "x"
	}
	for i, p := range v.programs() {
		name, namespace := fmt.Sprintf("%s-%d", v, i), v.namespace(i)
		object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": namespace}}
		maps.Copy(object, p.Object)
		a.bodies = append(a.bodies, reviewOf(object, "configmaps"))
		policy := map[string]any{}
		_ = json.Unmarshal(fmt.Appendf(nil, namespacedOverride, "new", namespace, "ConfigMap", name, quoted(p.Source+"\n// "+nonce)), &policy)
		a.bodies = append(a.bodies, reviewOf(policy, "overridepolicies"))
		pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
			"name": string(v), "namespace": namespace, "labels": map[string]any{"app": string(v)}, "annotations": annotations,
		}}
		a.bodies = append(a.bodies, reviewOf(pod, "pods"))
	}
	return a
}

// nonce makes policies differ each time they are sent.
const nonce = "nonce nonce nonce"

// run sends the prepared requests, in turns, until ctx is done.
func (a *assault) run(ctx context.Context) {
	for a != nil && ctx.Err() == nil {
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

func (s *siege) judge(w io.Writer, phases []*phase) error {
	var errs []error
	var alone time.Duration
	for _, p := range phases {
		all := load.Merge(p.rounds...)
		// That of the round in the middle: on a machine that others use, some rounds tell nothing.
		var p99s []time.Duration
		for _, r := range p.rounds {
			p99s = append(p99s, r.Latency.Quantile(0.99))
		}
		slices.Sort(p99s)
		p99 := p99s[len(p99s)/2]
		if alone == 0 {
			alone = p99
		}
		ratio := float64(p99) / float64(alone)
		if _, err := fmt.Fprintf(w, "%-22s %5d answered, %d failed, p50 %s, p99 %s (%.2f times that alone), the slowest %s; CPU of the server %s a second, of workers %s\n",
			p.name, all.Answered, all.Failed()+all.Unsent, short(all.Latency.Quantile(0.5)), short(p99), ratio, short(all.Latency.Quantile(1)),
			short(s.aSecond(p.server)), short(s.aSecond(p.workers))); err != nil {
			return err
		}
		if s.most > 0 && ratio > s.most {
			errs = append(errs, fmt.Errorf("%s, the p99 is more than %g times that alone", p.name, s.most))
		}
		errs = append(errs, p.failures(all))
	}
	return errors.Join(errs...)
}

// aSecond returns how much of what was used in all rounds is that of one second.
func (s *siege) aSecond(used time.Duration) time.Duration {
	return time.Duration(float64(used) / (float64(s.rounds) * s.round.Seconds()))
}

// failures tells which requests were not answered as they should be, and why.
func (p *phase) failures(all *load.Measurement) error {
	var errs []error
	if all.Answered == 0 {
		errs = append(errs, fmt.Errorf("%s, no honest request was answered", p.name))
	}
	if all.Unsent > 0 {
		errs = append(errs, fmt.Errorf("%s, %d honest requests were not sent, since all connections waited for answers", p.name, all.Unsent))
	}
	for kind, n := range all.Errors {
		errs = append(errs, fmt.Errorf("%s, %d honest requests failed (%s), such as: %w", p.name, n, kind, all.Samples[kind]))
	}
	for verdict, n := range all.Verdicts {
		if verdict != "changed" {
			errs = append(errs, fmt.Errorf("%s, %d honest requests were %s and not decided by their policy, such as: %s", p.name, n, verdict, all.Bodies[verdict]))
		}
	}
	if p.assault != nil && p.assault.answered.Load() == 0 {
		errs = append(errs, fmt.Errorf("%s, nobody attacked", p.name))
	}
	return errors.Join(errs...)
}
